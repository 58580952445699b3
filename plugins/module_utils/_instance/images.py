# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Images from archives in an instance's running containerd. A new instance starts with its images (image_store.py)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from .._core.engine.context import Context
from .._core.engine.plan import ABSENT, Resource, Value
from .._core.engine.wait import wait_until
from .._core.host.host import Host
from .._core.host.sockets import is_listening
from .config import CONTAINERD_SOCKET
from .messages import MESSAGES
from .model import Archive

_ANSWER_SECONDS = 5
_START_SECONDS = 60
_IMPORT_SECONDS = 300


class ImagesKind:
    """The digests of the existing images by name. The target is `MOUNTNS CTR ARCHIVE NAME,...`: the instance's mount namespace,
    the program `ctr`, an archive and its images."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        mountns, ctr, _archive, names = target.split(" ")
        # Programs may be removed before their lab, and in check mode those of another version do not exist yet.
        if ctx.host.stat(mountns) is None or ctx.host.stat(ctr) is None:
            return ABSENT
        # ctr would wait ten seconds for a stopped containerd.
        if not is_listening(ctx.host, _socket(mountns), timeout=_ANSWER_SECONDS):
            return ABSENT
        filters = [f"name=={name}" for name in names.split(",")]
        # REF TYPE DIGEST ...
        done = ctx.host.run([*_ctr(mountns, ctr), "images", "ls", *filters], timeout=30, check=False)
        rows = [line.split() for line in done.stdout.splitlines()[1:]]
        return {row[0]: row[2] for row in rows} if done.status == 0 and rows else ABSENT

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        mountns, ctr, archive, _names = target.split(" ")
        if after not in [dict(known.images) for known in ctx.desired.archives if known.path == archive]:
            return  # an undo: the earlier images go with the instance
        _wait_for_containerd(ctx.host, mountns, ctr)
        if self.read(ctx, target) == after:
            return  # the instance was created with them
        ctx.host.run([*_ctr(mountns, ctr), "images", "import", "--local", archive], timeout=_IMPORT_SECONDS)

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        """Removed with the instance's containerd directory."""


def images(mountns: str, bin_dir: str, archives: Sequence[Archive], *, group: str) -> list[Resource]:
    """Images of one instance."""
    ctr = os.path.join(bin_dir, "ctr")
    return [
        Resource(
            kind="image",
            target=f"{mountns} {ctr} {archive.path} {','.join(name for name, _digest in archive.images)}",
            value=dict(archive.images),
            title=f"images of {archive.path}",
            group=group,
        )
        for archive in archives
    ]


def _wait_for_containerd(host: Host, mountns: str, ctr: str) -> None:
    def answers() -> bool:
        return host.run([*_ctr(mountns, ctr), "version"], timeout=30, check=False).status == 0

    if not wait_until(host, answers, seconds=_START_SECONDS):
        raise MESSAGES.error("instance-containerd", seconds=_START_SECONDS)


def _ctr(mountns: str, ctr: str) -> list[str]:
    """Runs on the host and reads its archives: an instance may still show the former content of a replaced archive."""
    return [ctr, "--address", _socket(mountns), "--namespace", "k8s.io"]


def _socket(mountns: str) -> str:
    return f"{mountns[: -len('.mnt')]}/{os.path.basename(CONTAINERD_SOCKET)}"
