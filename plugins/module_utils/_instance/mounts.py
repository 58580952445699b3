# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mount namespaces of instances, and what is mounted in them.

Kubelet, containerd and libcni use several fixed paths (kubernetes#120626: device plugins). Each instance gets its own content
there; it is in a tmpfs where it must not outlive a restart of the instance.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Optional

from .._core.engine.context import Context
from .._core.engine.kinds import DirectoryKind, Kind, fields
from .._core.engine.plan import ABSENT, Value
from .._core.host.host import Host
from .._core.service.cgroup import end_processes
from .._core.text.errors import CommandFailed
from .._core.text.json_text import parse_json, parse_object
from . import view
from .network import is_namespace_mount, mounts_at

_SECONDS = 30
_REFUSED = "Invalid argument"
# Arguments: a table of mounts and the new root directory; then, for each mount of the user, its source, its target in the new
# root, and ro or rw. Symbolic links on the way to a target are resolved in the new root: in the old one they could lead to a
# directory of the host. While the root is replaced, the old root is mounted on the new one, see pivot_root(2).
_ENTER = """mount --all --fstab "$1"
cd "$2"
shift 2
while [ $# -gt 0 ]; do
  if [ -d "$1" ]; then
    chroot . mkdir -p "$2"
  elif ! chroot . test -e "$2"; then
    chroot . mkdir -p "$(dirname "$2")"
    chroot . touch "$2"
  fi
  place=$PWD$(chroot . realpath "$2")
  mount --rbind "$1" "$place"
  if [ "$3" = ro ]; then
    all=$(findmnt --list --noheadings --output TARGET --submounts --mountpoint "$place")
    echo "$all" | while read -r each; do mount -o remount,bind,ro "$each"; done
  fi
  shift 3
done
pivot_root . .
umount --lazy .
mount --make-rshared /
"""


@dataclass(frozen=True)
class Mount:
    """A mount inside an instance, at `target`."""

    target: str
    source: str  # what is bound; "" for a new tmpfs of the instance
    options: str = "rw"


class PrivateDirectoryKind:
    """`{}`: a directory that is a private mount, as files that hold mount namespaces need (unshare(1))."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        mounts = mounts_at(ctx.host, target)
        if not mounts and ctx.host.stat(target) is None:
            return ABSENT
        return {} if len(mounts) == 1 and " shared:" not in mounts[0] else {"private mounts": "not one"}

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        ctx.host.make_directory(target)
        if not mounts_at(ctx.host, target):
            ctx.host.run(["mount", "--bind", target, target], timeout=_SECONDS)
        ctx.host.run(["mount", "--make-private", target], timeout=_SECONDS)

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        for _mount in mounts_at(ctx.host, target):
            ctx.host.run(["umount", target], timeout=_SECONDS)
        ctx.host.remove_tree(target)
        parent = os.path.dirname(target)
        if not ctx.host.listdir(parent):
            ctx.host.remove_directory(parent)


class MountNamespaceKind:
    """`{home, cgroup, mounts, given}`: a mount namespace bound to the file `target`, whose `/` is that of the instance (`view.py`).
    It receives the host's mounts; its own mounts stay inside and are shared among its processes, as volumes with Bidirectional
    propagation need. `mounts` are those that every instance needs, `given` those of its user.

    It is made beside `target` and bound there once its last mount is in place: a service that retries each second must not
    enter a namespace that still shows the host's own /run/netns. Then a file records the mounts.

    Replacing it ends the instance's processes, as their mounts are in the old one.
    """

    def read(self, ctx: Context[Any], target: str) -> Value:
        recorded = ctx.host.read(f"{target}.json")
        if recorded is None and ctx.host.stat(target) is None and ctx.host.stat(_temporary_path(target)) is None:
            return ABSENT
        if recorded is None or not is_namespace_mount(ctx.host, target):
            return {"mounts": "half made"}
        value: Value = parse_json(recorded)
        return value

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        value = fields(after)
        self.remove(ctx, target, before)
        end_processes(ctx.host, str(value["cgroup"]))  # now that none can enter the former namespace
        new, home = _temporary_path(target), str(value["home"])
        table = f"{home}/etc/fstab"
        ctx.host.write(table, "".join(row.as_line() for row in _rows(ctx.host, home, value["mounts"])).encode())
        ctx.host.write(new, b"")
        _unshare(ctx.host, new)
        words = [word for row in _mounts(value["given"]) for word in (row.source, row.target, row.options)]
        inside = ["nsenter", f"--mount={new}", "--", "sh", "-ec", _ENTER, "sh", table, view.root_of(home), *words]
        ctx.host.run(inside, timeout=_SECONDS)
        ctx.host.write(target, b"")
        ctx.host.run(["mount", "--bind", new, target], timeout=_SECONDS)
        _unbind(ctx.host, new)
        ctx.host.write(f"{target}.json", json.dumps(after).encode())

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        ctx.host.remove(f"{target}.json")
        _unbind(ctx.host, _temporary_path(target))
        _unbind(ctx.host, target)


def recorded_by_an_earlier_version(host: Host, target: str) -> Optional[Value]:
    """The value of a namespace in use whose `/` is the host's. It stays until the instance stops, as its pods use its mounts."""
    value = parse_object(host.read(f"{target}.json")) or {}
    return value if value and "home" not in value and is_namespace_mount(host, target) else None


def _rows(host: Host, home: str, mounts: Value) -> list[view.Row]:
    root = view.root_of(home)
    rows = view.prepare(host, home)
    listed = _mounts(mounts)
    for row, place in zip(listed, view.follow(host, [row.target for row in listed])):
        target = f"{root}{place}"
        rows.append(view.bind(row.source, target) if row.source else view.tmpfs(target))
    return rows


def _mounts(rows: Value) -> list[Mount]:
    return [Mount(**{name: str(part) for name, part in fields(row).items()}) for row in rows]  # type: ignore[union-attr]


def _unshare(host: Host, path: str) -> None:
    """Make a mount namespace and bind it to the file `path`.

    The kernel binds a namespace only inside an older one, and compares their numbers. Linux 6.18 allocates these numbers per
    processor, so in a container a new namespace may count as older unless it is made on the processor on which the
    container's own was made.
    """
    argv = ["unshare", f"--mount={path}", "--propagation", "slave", "true"]
    tries = [argv, *(["taskset", "--cpu-list", str(cpu), *argv] for cpu in sorted(os.sched_getaffinity(0)))]
    for number, command in enumerate(tries, start=1):
        try:
            host.run(command, timeout=_SECONDS)
            return
        except CommandFailed as error:
            if number == len(tries) or _REFUSED not in error.output:
                raise


def _temporary_path(target: str) -> str:
    return f"{target}.new"


def _unbind(host: Host, path: str) -> None:
    if is_namespace_mount(host, path):
        host.run(["umount", path], timeout=_SECONDS)
    host.remove(path)


MOUNT_KINDS: dict[str, Kind] = {
    "private-directory": PrivateDirectoryKind(),
    "run-directory": DirectoryKind(),  # removed with the services and at a restart, unlike the instance's other directories
    "mountns": MountNamespaceKind(),
}
