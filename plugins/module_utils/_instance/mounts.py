# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mount namespaces of instances, and the places that are mounted over in them.

Several paths are fixed in kubelet, containerd and libcni (reference: kubernetes#120626 for device plugins). Each
instance gets its own content there. What must not outlive a restart of the instance is a tmpfs.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from .._core.errors import CommandFailed
from .._core.host import Host
from .._core.kinds import DirectoryKind, Kind, fields
from .._core.plan import ABSENT, Value
from .network import is_namespace_mount

_SECONDS = 30
_REFUSED = "Invalid argument"


@dataclass(frozen=True)
class Mount:
    target: str
    source: str  # a directory to bind, or "" for a tmpfs of the instance's own


class PrivateDirectoryKind:
    """`{}`: a directory that is a private mount, as files that hold mount namespaces must lie in (unshare(1))."""

    def read(self, host: Host, target: str) -> Value:
        mounts = self._mounts(host, target)
        if not mounts and host.stat(target) is None:
            return ABSENT
        return {} if len(mounts) == 1 and " shared:" not in mounts[0] else {"private mounts": "not one"}

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        host.make_directory(target)
        if not self._mounts(host, target):
            host.run(["mount", "--bind", target, target], timeout=_SECONDS)
        host.run(["mount", "--make-private", target], timeout=_SECONDS)

    def remove(self, host: Host, target: str, before: Value) -> None:
        for _mount in self._mounts(host, target):
            host.run(["umount", target], timeout=_SECONDS)
        host.remove_tree(target)
        parent = os.path.dirname(target)
        if not host.listdir(parent):
            host.remove_directory(parent)

    def _mounts(self, host: Host, target: str) -> list[str]:
        lines = (host.read("/proc/self/mountinfo") or b"").decode().splitlines()
        return [line for line in lines if line.split(" ")[4] == target]


class MountNamespaceKind:
    """`{mounts}`: a mount namespace bound to the file `target`. It follows the host's mounts; its own stay inside,
    shared among its processes, as volumes with Bidirectional propagation need.

    It is made beside `target` and bound there when its last mount is in place: a service that tries each second must not
    enter a namespace in which the host's own /run/netns still shows. What was mounted is noted after that.
    """

    def read(self, host: Host, target: str) -> Value:
        noted = host.read(f"{target}.json")
        if noted is None and host.stat(target) is None and host.stat(_being_made(target)) is None:
            return ABSENT
        if noted is None or not is_namespace_mount(host, target):
            return {"mounts": "half made"}
        value: Value = json.loads(noted)
        return value

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        self.remove(host, target, before)
        new = _being_made(target)
        host.write(new, b"")
        _unshare(host, new)
        inside = ["nsenter", f"--mount={new}", "--", "mount"]
        host.run([*inside, "--make-rshared", "/"], timeout=_SECONDS)
        for row in fields(after)["mounts"]:  # type: ignore[union-attr]
            mount = {name: str(part) for name, part in fields(row).items()}
            what = ["--bind", mount["source"]] if mount["source"] else ["-t", "tmpfs", "-o", "mode=0755", "ballast"]
            host.run([*inside, *what, mount["target"]], timeout=_SECONDS)
        host.write(target, b"")
        host.run(["mount", "--bind", new, target], timeout=_SECONDS)
        _unbind(host, new)
        host.write(f"{target}.json", json.dumps(after).encode())

    def remove(self, host: Host, target: str, before: Value) -> None:
        host.remove(f"{target}.json")
        _unbind(host, _being_made(target))
        _unbind(host, target)


def _unshare(host: Host, path: str) -> None:
    """A new mount namespace, bound to the file `path`.

    The kernel binds one only where the namespace that it is bound in is older, and tells by their numbers. Linux 6.18 deals
    these out by processor, so that in a container a new one may count as older; one that is made on the processor where
    the container's own was made does not.
    """
    argv = ["unshare", f"--mount={path}", "--propagation", "slave", "true"]
    tries = [argv, *(["taskset", "--cpu-list", str(cpu), *argv] for cpu in sorted(os.sched_getaffinity(0)))]
    for number, one in enumerate(tries, start=1):
        try:
            host.run(one, timeout=_SECONDS)
            return
        except CommandFailed as error:
            if number == len(tries) or _REFUSED not in error.output:
                raise


def _being_made(target: str) -> str:
    return f"{target}.new"


def _unbind(host: Host, path: str) -> None:
    if is_namespace_mount(host, path):
        host.run(["umount", path], timeout=_SECONDS)
    host.remove(path)


MOUNT_KINDS: dict[str, Kind] = {
    "private-directory": PrivateDirectoryKind(),
    "run-directory": DirectoryKind(),  # ends with the instance's services and with the boot, unlike its others
    "mountns": MountNamespaceKind(),
}
