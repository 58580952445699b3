# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cgroup slices of node instances as limits of nodes: CPU quota and memory limit, with cgroup v1 and v2, with systemd and
without.

A kernel of cgroup v2 ends processes until a lowered `memory.max` holds. So memory is not lowered below what is in use, and
first under a `memory.high` of the same size: that makes the kernel give back what it can, and ends nothing. A kernel of v1
refuses by itself. `memory.high` of a slice is ours, and stays without a value.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Optional

from .._core.cgroup import CgroupKind, cgroup_tree, limits_in_force
from .._core.cgroup_paths import cgroup_directories
from .._core.errors import BallastError
from .._core.host import Host
from .._core.kinds import fields
from .._core.plan import Value
from .._core.quantity import format_memory
from .amount import Amount
from .limit_messages import MESSAGES, check_pages

_GIVE_SECONDS = 5.0  # for the kernel to give back what is not in use
_IN_FORCE_SECONDS = 10.0  # for systemd
_POLL_SECONDS = 0.05
_SHOWN = 5  # cgroups that a message names
_FIELDS = {"cpu_millis", "memory_bytes", "pids"}
_KIND = CgroupKind()


class SliceLimits:
    """`Limits` of nodes of this machine. `slices`: of each node, the name of its cgroup, as `ballast-lab-n1`.

    The limit of pids stays as it is.
    """

    def __init__(self, host: Host, slices: Mapping[str, str]) -> None:
        self._host = host
        self._slices = slices

    def most(self, node: str) -> Amount:
        return _machine(self._host)

    def read(self, node: str) -> Amount:
        self._value(node)
        return self._in_force(node)

    def write(self, node: str, limit: Amount) -> None:
        check_pages(node, limit)
        name, before = self._slices[node], self._value(node)
        after = {**fields(before), "cpu_millis": limit.cpu, "memory_bytes": limit.memory}
        self._refuse_lower_quota(node, limit)
        with self._room(node, limit):
            try:
                _KIND.write(self._host, name, after, before)
                self._wait(node, limit)
            except BallastError as error:
                _KIND.write(self._host, name, before, after)
                if error.id == "core-ebusy":  # v1: more is in use than the kernel can give back
                    raise self._error("balloon-slice-in-use", node, found=error.found, limit=limit) from error
                raise

    def _value(self, node: str) -> Value:
        """As `CgroupKind` has it, of a slice that is whole."""
        value = _KIND.read(self._host, self._slices[node])
        if not isinstance(value, Mapping) or set(value) != _FIELDS:
            raise self._error("balloon-slice-missing", node)
        return value

    def _in_force(self, node: str) -> Amount:
        found, most = limits_in_force(self._host, self._directories(node)), _machine(self._host)
        return Amount(
            most.cpu if found.cpu_millis is None else found.cpu_millis,
            most.memory if found.memory_bytes is None else found.memory_bytes,
        )

    def _wait(self, node: str, limit: Amount) -> None:
        deadline = self._host.monotonic() + _IN_FORCE_SECONDS
        while (found := self._in_force(node)) != limit:
            if self._host.monotonic() > deadline:
                raise self._error(
                    "balloon-slice-not-in-force", node, found=str(found), seconds=f"{_IN_FORCE_SECONDS:g}"
                )
            self._host.sleep(_POLL_SECONDS)

    def _refuse_lower_quota(self, node: str, limit: Amount) -> None:
        """v1 takes no quota below that of a cgroup inside, as of a pod with a larger limit, and says only "Invalid argument"."""
        above = [
            path
            for directory in self._directories(node)
            if self._host.stat(os.path.join(directory, "cpu.cfs_quota_us"))
            for path in cgroup_tree(self._host, directory)[1:]
            if (limits_in_force(self._host, [path]).cpu_millis or 0) > limit.cpu
        ]
        if above:
            raise self._error("balloon-slice-quota", node, found="\n".join(above[:_SHOWN]), limit=limit)

    @contextmanager
    def _room(self, node: str, limit: Amount) -> Iterator[None]:
        """Refused where more is in use than the limit allows; else no more is used while the block goes on."""
        memory = _memory_of(self._host, self._directories(node))
        if memory is None:  # a kernel that limits none, as it says when it is asked to
            yield
            return
        if memory.in_use(self._host) > limit.memory:
            raise self._in_use(node, memory, limit)
        try:
            self._give_back(node, memory, limit)
            yield
        finally:
            memory.press(self._host, "max")

    def _give_back(self, node: str, memory: _Memory, limit: Amount) -> None:
        if not memory.high:
            return
        deadline = self._host.monotonic() + _GIVE_SECONDS
        memory.press(self._host, str(limit.memory))
        while memory.used(self._host) > limit.memory:
            if self._host.monotonic() > deadline:
                raise self._in_use(node, memory, limit)
            self._host.sleep(_POLL_SECONDS)
            memory.press(self._host, str(limit.memory))  # each time, the kernel tries anew

    def _directories(self, node: str) -> list[str]:
        return cgroup_directories(self._host, self._slices[node])

    def _in_use(self, node: str, memory: _Memory, limit: Amount) -> BallastError:
        used, in_use = (format_memory(size) for size in (memory.used(self._host), memory.in_use(self._host)))
        return self._error("balloon-slice-in-use", node, found=f"{used}, of which {in_use} are in use", limit=limit)

    def _error(self, id: str, node: str, *, found: str = "", **more: object) -> BallastError:
        return MESSAGES.error(id, found=found, node=node, slice=self._slices[node], **more)


@dataclass(frozen=True)
class _Memory:
    """The files of a slice's memory controller."""

    directory: str
    usage: str
    idle: str  # what memory.stat calls the part of it that the kernel takes for itself first
    high: str  # what makes the kernel take it; "" where there is no need

    def used(self, host: Host) -> int:
        return int(host.read(os.path.join(self.directory, self.usage)) or 0)

    def in_use(self, host: Host) -> int:
        """The working set, by which a kubelet evicts: all but files that have not been read for long."""
        rows = (host.read(os.path.join(self.directory, "memory.stat")) or b"").decode().splitlines()
        figures = dict(row.split(" ", 1) for row in rows if " " in row)
        return max(0, self.used(host) - int(figures.get(self.idle, "0")))

    def press(self, host: Host, limit: str) -> None:
        if self.high:
            host.poke(os.path.join(self.directory, self.high), limit)


_MEMORY = (("memory.usage_in_bytes", "total_inactive_file", ""), ("memory.current", "inactive_file", "memory.high"))


def _memory_of(host: Host, directories: list[str]) -> Optional[_Memory]:
    for directory in directories:
        for usage, idle, high in _MEMORY:
            if host.stat(os.path.join(directory, usage)):
                return _Memory(directory, usage, idle, high)
    return None


def _machine(host: Host) -> Amount:
    """What a kubelet calls the capacity of this machine."""
    processors = [
        line for line in (host.read("/proc/stat") or b"").splitlines() if line[:3] == b"cpu" and line[3:4] != b" "
    ]
    memory = [
        line.split()[1] for line in (host.read("/proc/meminfo") or b"").splitlines() if line.startswith(b"MemTotal:")
    ]
    return Amount(1000 * len(processors), 1024 * int(memory[0]))
