# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Memory, process IDs and disk that instances and their host use. A value that cannot be read is None."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from .._core.host.cgroup_paths import cgroup_directories
from .._core.host.host import Host
from .._core.host.tables import parse_number, parse_table, read_meminfo
from .._core.service.cgroup import limits_in_force

# For cgroup v1 and v2: the file with the usage, and the key in memory.stat of the part that the kernel reclaims first.
_MEMORY = (("memory.usage_in_bytes", "total_inactive_file"), ("memory.current", "inactive_file"))


@dataclass(frozen=True)
class Use:
    """How much of a resource is in use, and its limit."""

    used: Optional[int]
    limit: Optional[int]  # None: no limit

    @property
    def is_near(self) -> bool:
        """Whether at least 95% of the limit are used."""
        return self.used is not None and self.limit is not None and 20 * self.used >= 19 * self.limit


@dataclass(frozen=True)
class HostUse:
    memory: Use  # bytes; `used` is what new programs cannot get
    pids: Use  # processes and threads, which share one range of numbers
    free_bytes: Optional[int]  # of the disk with the instances' files


def read_memory(host: Host, cgroup: str) -> Use:
    """The working set of an instance with its pods, by which a kubelet evicts: usage without inactive file pages."""
    directories = cgroup_directories(host, cgroup)
    return Use(_read_working_set(host, directories), limits_in_force(host, directories).memory_bytes)


def read_pids(host: Host, cgroup: str) -> Use:
    """Processes and threads in a cgroup, and its limit."""
    directories = cgroup_directories(host, cgroup)
    counts = [parse_number(host.read(os.path.join(directory, "pids.current"))) for directory in directories]
    count = next((number for number in counts if number is not None), None)
    return Use(count, limits_in_force(host, directories).pids)


def read_host(host: Host, state_dir: str) -> HostUse:
    """The host's own use. `free_bytes` is None while `state_dir` does not exist."""
    memory = read_meminfo(host)
    total, available = memory.get("MemTotal"), memory.get("MemAvailable")
    used = None if total is None or available is None else total - available
    # "0.52 0.58 0.59 3/417 12345": 3 of 417 tasks are runnable
    fields = (host.read("/proc/loadavg") or b"").split()
    tasks = parse_number(fields[3].rpartition(b"/")[2]) if len(fields) > 3 else None
    limits = [parse_number(host.read(f"/proc/sys/kernel/{name}")) for name in ("pid_max", "threads-max")]
    free = host.free_bytes(state_dir) if host.stat(state_dir) else None
    return HostUse(
        memory=Use(used, total),
        pids=Use(tasks, min((number for number in limits if number is not None), default=None)),
        free_bytes=free,
    )


def _read_working_set(host: Host, directories: Sequence[str]) -> Optional[int]:
    for directory in directories:
        for usage, idle in _MEMORY:
            used = parse_number(host.read(os.path.join(directory, usage)))
            if used is not None:
                return max(0, used - parse_table(host.read(os.path.join(directory, "memory.stat"))).get(idle, 0))
    return None
