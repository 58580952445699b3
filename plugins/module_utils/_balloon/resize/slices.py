# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cgroup slices of node instances as limits of nodes: CPU quota and memory limit, with cgroup v1 and v2, with systemd and
without.

A cgroup v2 kernel kills processes until a lowered `memory.max` fits. So memory is never lowered below its use, and only under a
`memory.high` of the same size, which makes the kernel reclaim memory without killing. A v1 kernel refuses instead.
`memory.high` of a slice belongs to this code, which resets it to no value.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Optional

from ..._core.engine.context import Context
from ..._core.engine.kinds import fields
from ..._core.engine.plan import Value
from ..._core.engine.wait import wait_until
from ..._core.host.cgroup_paths import cgroup_directories
from ..._core.host.host import Host
from ..._core.host.tables import read_meminfo
from ..._core.service.cgroup import CgroupKind, cgroup_tree, limits_in_force
from ..._core.text.errors import BallastError
from ..._core.text.quantity import format_memory
from ..sizing.resources import Resources
from .limit_messages import MESSAGES, check_pages

_GIVE_SECONDS = 5.0  # for the kernel to reclaim unused memory
_IN_FORCE_SECONDS = 10.0  # until systemd has applied a limit
_POLL_SECONDS = 0.05
_SHOWN = 5  # cgroups that a message names
_FIELDS = {"cpu_millis", "memory_bytes", "pids"}
_KIND = CgroupKind()


class SliceLimits:
    """`Limits` of nodes of this machine. `slices`: by node, the name of its cgroup, such as `ballast-lab-n1`.

    The limit of process IDs is not changed.
    """

    def __init__(self, host: Host, slices: Mapping[str, str]) -> None:
        self._host = host
        self._ctx = Context(None, host)
        self._slices = slices

    def most(self, node: str) -> Resources:
        return _machine_size(self._host)

    def read(self, node: str) -> Resources:
        self._value(node)
        return self._in_force(node)

    def write(self, node: str, limit: Resources) -> None:
        check_pages(node, limit)
        name, before = self._slices[node], self._value(node)
        after = {**fields(before), "cpu_millis": limit.cpu, "memory_bytes": limit.memory}
        self._refuse_lower_quota(node, limit)
        with self._reclaim(node, limit):
            try:
                _KIND.write(self._ctx, name, after, before)
                self._wait(node, limit)
            except BallastError as error:
                _KIND.write(self._ctx, name, before, after)
                if error.id == "core-ebusy":  # v1: more is in use than the kernel can reclaim
                    raise self._error("balloon-slice-in-use", node, detail=error.found, limit=limit) from error
                raise

    def _value(self, node: str) -> Value:
        """The `CgroupKind` value of a complete slice."""
        value = _KIND.read(self._ctx, self._slices[node])
        if not isinstance(value, Mapping) or set(value) != _FIELDS:
            raise self._error("balloon-slice-missing", node)
        return value

    def _in_force(self, node: str) -> Resources:
        limits, most = limits_in_force(self._host, self._directories(node)), _machine_size(self._host)
        return Resources(
            most.cpu if limits.cpu_millis is None else limits.cpu_millis,
            most.memory if limits.memory_bytes is None else limits.memory_bytes,
        )

    def _wait(self, node: str, limit: Resources) -> None:
        def is_in_force() -> bool:
            return self._in_force(node) == limit

        if not wait_until(self._host, is_in_force, seconds=_IN_FORCE_SECONDS, interval=_POLL_SECONDS):
            detail, seconds = str(self._in_force(node)), f"{_IN_FORCE_SECONDS:g}"
            raise self._error("balloon-slice-not-in-force", node, detail=detail, seconds=seconds)

    def _refuse_lower_quota(self, node: str, limit: Resources) -> None:
        """v1 accepts no quota below that of a cgroup inside, such as a pod with a larger limit, and only reports "Invalid argument"."""
        above = [
            path
            for directory in self._directories(node)
            if self._host.stat(os.path.join(directory, "cpu.cfs_quota_us"))
            for path in cgroup_tree(self._host, directory)[1:]
            if (limits_in_force(self._host, [path]).cpu_millis or 0) > limit.cpu
        ]
        if above:
            raise self._error("balloon-slice-quota", node, detail="\n".join(above[:_SHOWN]), limit=limit)

    @contextmanager
    def _reclaim(self, node: str, limit: Resources) -> Iterator[None]:
        """Refuse when more is in use than the limit allows; else keep the use below it during the block."""
        memory = _memory_of(self._host, self._directories(node))
        if memory is None:  # a kernel without memory limits, as its refusal of the limit will say
            yield
            return
        if memory.in_use(self._host) > limit.memory:
            raise self._in_use_error(node, memory, limit)
        try:
            self._give_back(node, memory, limit)
            yield
        finally:
            memory.press(self._host, "max")

    def _give_back(self, node: str, memory: _Memory, limit: Resources) -> None:
        if not memory.high:
            return

        def is_given_back() -> bool:
            memory.press(self._host, str(limit.memory))  # the kernel reclaims at each write
            return memory.read_used(self._host) <= limit.memory

        if not wait_until(self._host, is_given_back, seconds=_GIVE_SECONDS, interval=_POLL_SECONDS):
            raise self._in_use_error(node, memory, limit)

    def _directories(self, node: str) -> list[str]:
        return cgroup_directories(self._host, self._slices[node])

    def _in_use_error(self, node: str, memory: _Memory, limit: Resources) -> BallastError:
        used, in_use = (format_memory(size) for size in (memory.read_used(self._host), memory.in_use(self._host)))
        return self._error("balloon-slice-in-use", node, detail=f"{used}, of which {in_use} are in use", limit=limit)

    def _error(self, id: str, node: str, *, detail: str = "", **more: object) -> BallastError:
        return MESSAGES.error(id, found=detail, node=node, slice=self._slices[node], **more)


@dataclass(frozen=True)
class _Memory:
    """The files of a slice's memory controller."""

    directory: str
    usage: str
    idle: str  # key in memory.stat of the part that the kernel reclaims first
    high: str  # file that makes the kernel reclaim; "" when none is needed

    def read_used(self, host: Host) -> int:
        return int(host.read(os.path.join(self.directory, self.usage)) or 0)

    def in_use(self, host: Host) -> int:
        """The working set, by which a kubelet evicts: everything except files that have not been read for long."""
        rows = (host.read(os.path.join(self.directory, "memory.stat")) or b"").decode().splitlines()
        figures = dict(row.split(" ", 1) for row in rows if " " in row)
        return max(0, self.read_used(host) - int(figures.get(self.idle, "0")))

    def press(self, host: Host, limit: str) -> None:
        if self.high:
            host.write_kernel_file(os.path.join(self.directory, self.high), limit)


_MEMORY = (("memory.usage_in_bytes", "total_inactive_file", ""), ("memory.current", "inactive_file", "memory.high"))


def _memory_of(host: Host, directories: list[str]) -> Optional[_Memory]:
    for directory in directories:
        for usage, idle, high in _MEMORY:
            if host.stat(os.path.join(directory, usage)):
                return _Memory(directory, usage, idle, high)
    return None


def _machine_size(host: Host) -> Resources:
    """The capacity of this machine, as a kubelet computes it."""
    processors = [
        line for line in (host.read("/proc/stat") or b"").splitlines() if line[:3] == b"cpu" and line[3:4] != b" "
    ]
    return Resources(1000 * len(processors), read_meminfo(host)["MemTotal"])
