# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cgroup with limits, for one node instance or one control plane: its services and all its pods are inside.

Without systemd it is a directory in every hierarchy; with systemd it is a slice unit of the same name. Removing it kills
every process inside: being in it makes them ours.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Optional

from ..engine.context import Context
from ..engine.kinds import fields
from ..engine.plan import ABSENT, Resource, Value
from ..engine.wait import wait_until
from ..host.cgroup_paths import cgroup_directories, cgroup_hierarchies, slice_unit
from ..host.host import Host
from ..text.errors import HostError
from ..text.service_messages import MESSAGES
from .systemd import UNIT_DIRECTORY, unit_taken_error

_PERIOD_MICROSECONDS = 100_000
_PAGE_BYTES = 4096  # the kernel rounds memory limits down to pages
_CONTROLLERS = ("cpuset", "cpu", "io", "memory", "hugetlb", "pids")  # needed in a kubelet's cgroupRoot
_KILL_SECONDS = 10


@dataclass(frozen=True)
class Limits:
    """None means no limit."""

    cpu_millis: Optional[int] = None
    memory_bytes: Optional[int] = None
    pids: Optional[int] = None


def cgroup(name: str, limits: Limits, *, group: str) -> Resource:
    """A cgroup with these limits. That of memory is rounded down to pages, as the kernel does."""
    memory = limits.memory_bytes
    value: dict[str, Value] = asdict(limits)
    value["memory_bytes"] = None if memory is None else memory - memory % _PAGE_BYTES
    return Resource(kind="cgroup", target=name, value=value, title=f"cgroup {name}", group=group)


class CgroupKind:
    """Value: the fields of `Limits`."""

    exclusive = True

    def read(self, ctx: Context[Any], target: str) -> Value:
        if ctx.host.is_systemd():
            return _read_slice(ctx.host, target)
        roots = cgroup_hierarchies(ctx.host)
        lacking = [root for root in roots if ctx.host.stat(os.path.join(root, target)) is None]
        if lacking:
            return ABSENT if lacking == roots else {"lacking_in": lacking}
        return asdict(limits_in_force(ctx.host, [os.path.join(root, target) for root in roots]))

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        if not fields(after).keys() >= _LIMITS.keys():  # removal of a part: there never was a complete cgroup
            self.remove(ctx, target, before)
            return
        if ctx.host.is_systemd():
            _write_slice(ctx.host, target, after)
            return
        roots = cgroup_hierarchies(ctx.host)
        for root in roots:
            path = os.path.join(root, target)
            ctx.host.make_directory(path)
            _make_usable(ctx.host, root, path, only=len(roots) == 1)
        places = [os.path.join(root, target) for root in roots]
        for name, limit in _LIMITS.items():
            limit.write(ctx.host, places, fields(after)[name])

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        if ctx.host.is_systemd():
            _own_slice(ctx.host, target)
            # The exit status is ignored: it is a failure for a unit that is not loaded yet.
            ctx.host.run(["systemctl", "stop", slice_unit(target)], timeout=120, check=False)
            _stop_empty_above(ctx.host, target)
            ctx.host.remove(_slice_path(target))
            ctx.host.remove_tree(_properties_path(target))
            ctx.host.run(["systemctl", "daemon-reload"], timeout=60)
            return
        roots = cgroup_hierarchies(ctx.host)
        end_processes(ctx.host, target)
        for root in roots:
            for path in reversed(cgroup_tree(ctx.host, os.path.join(root, target))):
                ctx.host.remove_directory(path)


CGROUP_KINDS = {"cgroup": CgroupKind()}


def end_processes(host: Host, name: str) -> None:
    """SIGKILL every process in the cgroup and below it until none is left. HostError if some remain after the deadline."""
    places = cgroup_directories(host, name)
    if not wait_until(host, lambda: not kill_processes(host, name), seconds=_KILL_SECONDS, interval=0.05):
        pids = ", ".join(map(str, sorted(_pids(host, places))))
        raise HostError(**MESSAGES.texts("core-processes-stay", what=f"processes {pids} of cgroup {name}"))


def kill_processes(host: Host, name: str) -> set[int]:
    """Send SIGKILL once to every process in the cgroup and below it, without waiting. Returns their pids."""
    places = cgroup_directories(host, name)
    left = _pids(host, places)
    running = [host.process(pid) for pid in left]
    still = _pids(host, places) if left else set()  # without pids reused by another process in the meantime
    for process in running:
        if process is not None and process.pid in still:
            host.signal(process.id, signal.SIGKILL)
    return left


def _pids(host: Host, places: Sequence[str]) -> set[int]:
    return {pid for place in places for pid in list_processes(host, place)}


def list_processes(host: Host, path: str) -> list[int]:
    """The pids in the cgroup directory `path` and below it, in ascending order."""
    pids: set[int] = set()
    for directory in cgroup_tree(host, path):
        lines = (host.read(os.path.join(directory, "cgroup.procs")) or b"").split()
        pids.update(int(line) for line in lines)
    return sorted(pids)


def limits_in_force(host: Host, directories: Sequence[str]) -> Limits:
    """The limits that the kernel enforces on a cgroup, given its directories, one per hierarchy."""
    limits = {name: limit.read(host, directories) for name, limit in _LIMITS.items()}
    return Limits(**limits)


def cgroup_tree(host: Host, path: str) -> list[str]:
    """`path` and the directories below it, parents first; empty when it is absent."""
    stat = host.stat(path)
    if stat is None or stat.kind != "directory":
        return []
    below = [os.path.join(path, name) for name in host.list_directories(path)]
    return [path, *(deeper for child in below for deeper in cgroup_tree(host, child))]


def _make_usable(host: Host, root: str, path: str, *, only: bool) -> None:
    """Prepare a new cgroup so that a process may enter it and a kubelet may divide it.

    Where v1 hierarchies exist as well (`only` is false), the v2 hierarchy has no controllers to delegate.
    """
    if host.stat(os.path.join(path, "cpuset.mems")) and host.stat(os.path.join(path, "cgroup.clone_children")):
        # cgroup v1: a cgroup with an empty cpuset admits no process. With clone_children, its children copy its cpuset.
        for name in ("cpuset.cpus", "cpuset.mems"):
            host.write_kernel_file(os.path.join(path, name), (host.read(os.path.join(root, name)) or b"").decode())
        host.write_kernel_file(os.path.join(path, "cgroup.clone_children"), "1")
    if only and host.stat(os.path.join(root, "cgroup.subtree_control")):
        present = (host.read(os.path.join(root, "cgroup.controllers")) or b"").decode().split()
        enable = " ".join(f"+{name}" for name in _CONTROLLERS if name in present)
        for directory in (root, path):
            host.write_kernel_file(os.path.join(directory, "cgroup.subtree_control"), enable)


@dataclass(frozen=True)
class _Limit:
    """One limit, in the files of cgroup v1 and v2."""

    controller: str
    v1: str
    v2: str

    def read(self, host: Host, directories: Sequence[str]) -> Optional[int]:
        path, _is_v1 = self._path(host, directories)
        words = (host.read(path) or b"").split() if path else []
        # v1 shows "no limit" as -1, or for memory as the largest number of whole pages.
        if not words or words[0] in (b"max", b"-1") or int(words[0]) >= 2**63 - _PAGE_BYTES:
            return None
        return self._amount(host, path, [int(word) for word in words])

    def write(self, host: Host, directories: Sequence[str], value: Value) -> None:
        path, is_v1 = self._path(host, directories)
        if path:
            self._set(host, path, None if value is None else int(str(value)), is_v1=is_v1)
        elif value is not None:
            raise HostError(**MESSAGES.texts("core-no-controller", controller=self.controller))

    def _amount(self, host: Host, path: str, numbers: Sequence[int]) -> int:
        return numbers[0]

    def _set(self, host: Host, path: str, value: Optional[int], *, is_v1: bool) -> None:
        unlimited = "-1" if is_v1 and self.controller != "pids" else "max"
        host.write_kernel_file(path, unlimited if value is None else str(value))

    def _path(self, host: Host, directories: Sequence[str]) -> tuple[str, bool]:
        """The file of the limit and whether it is v1's; ("", False) if no hierarchy has it."""
        for directory in directories:
            for file, is_v1 in ((self.v1, True), (self.v2, False)):
                path = os.path.join(directory, file)
                if host.stat(path):
                    return path, is_v1
        return "", False


class _CpuLimit(_Limit):
    """Microseconds of CPU time per period: two files in v1, one line with both numbers in v2."""

    def _amount(self, host: Host, path: str, numbers: Sequence[int]) -> int:
        period = numbers[1] if len(numbers) > 1 else int(host.read(_period_path(path)) or _PERIOD_MICROSECONDS)
        return numbers[0] * 1000 // period

    def _set(self, host: Host, path: str, value: Optional[int], *, is_v1: bool) -> None:
        quota = ("-1" if is_v1 else "max") if value is None else str(value * _PERIOD_MICROSECONDS // 1000)
        if not is_v1:
            host.write_kernel_file(path, f"{quota} {_PERIOD_MICROSECONDS}")
            return
        if int(host.read(_period_path(path)) or 0) != _PERIOD_MICROSECONDS:
            host.write_kernel_file(_period_path(path), str(_PERIOD_MICROSECONDS))
        host.write_kernel_file(path, quota)


def _period_path(quota_path: str) -> str:
    return os.path.join(os.path.dirname(quota_path), "cpu.cfs_period_us")


_LIMITS = {
    "cpu_millis": _CpuLimit(controller="cpu", v1="cpu.cfs_quota_us", v2="cpu.max"),
    "memory_bytes": _Limit(controller="memory", v1="memory.limit_in_bytes", v2="memory.max"),
    "pids": _Limit(controller="pids", v1="pids.max", v2="pids.max"),
}

_SLICE_MARK = "# ballast: slice"
_SLICE_KEYS = {"cpu_millis": "CPUQuota", "memory_bytes": "MemoryMax", "pids": "TasksMax"}
_PROPERTIES = "/run/systemd/system.control"  # where set-property keeps its properties, systemd.unit(5)


def _slice_path(name: str) -> str:
    return os.path.join(UNIT_DIRECTORY, slice_unit(name))


def _properties_path(name: str) -> str:
    return os.path.join(_PROPERTIES, f"{slice_unit(name)}.d")


def _slice_rows(value: Value) -> list[str]:
    limits = fields(value)
    quota = None if limits["cpu_millis"] is None else int(str(limits["cpu_millis"]))
    shown = {
        "cpu_millis": "" if quota is None else f"{quota // 10}{f'.{quota % 10}' if quota % 10 else ''}%",
        "memory_bytes": "infinity" if limits["memory_bytes"] is None else str(limits["memory_bytes"]),
        "pids": "infinity" if limits["pids"] is None else str(limits["pids"]),
    }
    return [f"{_SLICE_KEYS[name]}={text}" for name, text in shown.items()]


def _read_slice(host: Host, name: str) -> Value:
    text = _own_slice(host, name)
    if not text:
        return ABSENT
    if not _is_active(host, name):
        return {"active": False}
    rows = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    quota, memory, pids = (rows[key] for key in _SLICE_KEYS.values())
    return {
        "cpu_millis": round(float(quota.rstrip("%")) * 10) if quota else None,
        "memory_bytes": None if memory == "infinity" else int(memory),
        "pids": None if pids == "infinity" else int(pids),
    }


def _own_slice(host: Host, name: str) -> str:
    """The content of the slice's unit file; "" if there is none. HostError if it is not ours."""
    text = (host.read(_slice_path(name)) or b"").decode(errors="replace")
    if text and not text.startswith(_SLICE_MARK):
        raise unit_taken_error(_slice_path(name), "a unit file without this collection's mark in its first line")
    return text


def _is_active(host: Host, name: str) -> bool:
    return host.run(["systemctl", "is-active", slice_unit(name)], timeout=30, check=False).status == 0


def _stop_empty_above(host: Host, name: str) -> None:
    """systemd makes the parent slices of a slice automatically, and keeps them when they are empty."""
    levels = name.split("-")
    for depth in range(len(levels) - 1, 0, -1):
        above = "-".join(levels[:depth])
        held = [entry for directory in cgroup_directories(host, above) for entry in host.listdir(directory)]
        if any(entry.endswith((".slice", ".service", ".scope")) for entry in held):
            return
        host.run(["systemctl", "stop", slice_unit(above)], timeout=60, check=False)


def _write_slice(host: Host, name: str, value: Value) -> None:
    """A running slice keeps its limits when its unit file is reloaded, so they are set first (tried with systemd 257)."""
    rows = _slice_rows(value)
    _own_slice(host, name)
    if _is_active(host, name):
        host.run(["systemctl", "set-property", "--runtime", slice_unit(name), *rows], timeout=60)
    host.write(_slice_path(name), ("\n".join([_SLICE_MARK, "[Slice]", *rows]) + "\n").encode())
    host.remove_tree(_properties_path(name))  # they would override the unit file
    host.run(["systemctl", "daemon-reload"], timeout=60)
    host.run(["systemctl", "start", slice_unit(name)], timeout=60)
