# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Images of an archive in an instance's containerd."""

from __future__ import annotations

from typing import Any

from .._core.engine.context import Context
from .._core.engine.plan import ABSENT, Resource, Value
from .._core.engine.wait import wait_until
from .._core.host.host import Host
from .config import CONTAINERD_SOCKET
from .messages import MESSAGES

_START_SECONDS = 60
_IMPORT_SECONDS = 300


class ImageKind:
    """`{digest}`. The target is `MOUNTNS CTR ARCHIVE NAME`: the instance's namespace, the program `ctr`, archive and image."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        mountns, ctr, _archive, name = target.split(" ")
        if ctx.host.stat(mountns) is None:
            return ABSENT
        # REF TYPE DIGEST ...
        done = ctx.host.run([*_ctr(mountns, ctr), "images", "ls", f"name=={name}"], timeout=30, check=False)
        digests = [line.split()[2] for line in done.stdout.splitlines()[1:]]
        return {"digest": digests[0]} if done.status == 0 and digests else ABSENT

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        mountns, ctr, archive, _name = target.split(" ")
        _wait_for_containerd(ctx.host, mountns, ctr)
        if self.read(ctx, target) == after:
            return  # imported with another image of the archive
        ctx.host.run([*_ctr(mountns, ctr), "images", "import", "--local", archive], timeout=_IMPORT_SECONDS)

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        """Removed with the instance's containerd directory."""


def image(mountns: str, ctr: str, archive: str, name: str, digest: str, *, group: str) -> Resource:
    return Resource(
        kind="image",
        target=f"{mountns} {ctr} {archive} {name}",
        value={"digest": digest},
        title=f"image {name}",
        group=group,
    )


def _wait_for_containerd(host: Host, mountns: str, ctr: str) -> None:
    def answers() -> bool:
        return host.run([*_ctr(mountns, ctr), "version"], timeout=30, check=False).status == 0

    if not wait_until(host, answers, seconds=_START_SECONDS):
        raise MESSAGES.error("instance-containerd", seconds=_START_SECONDS)


def _ctr(mountns: str, ctr: str) -> list[str]:
    return ["nsenter", f"--mount={mountns}", "--", ctr, "--address", CONTAINERD_SOCKET, "--namespace", "k8s.io"]
