# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What instances and the host that carries them use of what there is. A figure that cannot be read is None."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from .._core.cgroup import limits_in_force
from .._core.cgroup_paths import cgroup_directories
from .._core.host import Host

# Of cgroup v1 and v2: what is in use, and what memory.stat calls the part of it that the kernel takes back first.
_MEMORY = (("memory.usage_in_bytes", "total_inactive_file"), ("memory.current", "inactive_file"))


@dataclass(frozen=True)
class Use:
    """Of one thing: how much is in use, and how much there may be."""

    used: Optional[int]
    most: Optional[int]  # None: no limit

    @property
    def is_near(self) -> bool:
        """At least 95% of it."""
        return self.used is not None and self.most is not None and 20 * self.used >= 19 * self.most


@dataclass(frozen=True)
class HostUse:
    memory: Use  # bytes; in use is what is not available to a new program
    pids: Use  # processes and threads, which share the numbers
    free_bytes: Optional[int]  # of the disk with the instances' files


def read_memory(host: Host, cgroup: str) -> Use:
    """The working set of an instance with its pods, by which a kubelet evicts: all but files not read for long."""
    directories = cgroup_directories(host, cgroup)
    return Use(_working_set(host, directories), limits_in_force(host, directories).memory_bytes)


def read_pids(host: Host, cgroup: str) -> Use:
    directories = cgroup_directories(host, cgroup)
    counts = [_whole(host.read(os.path.join(one, "pids.current"))) for one in directories]
    count = next((one for one in counts if one is not None), None)
    return Use(count, limits_in_force(host, directories).pids)


def read_host(host: Host, state_dir: str) -> HostUse:
    memory = _table(host.read("/proc/meminfo"))
    total, available = memory.get("MemTotal:"), memory.get("MemAvailable:")
    used = None if total is None or available is None else total - available
    # "0.52 0.58 0.59 3/417 12345": runnable ones of all that there are
    fields = (host.read("/proc/loadavg") or b"").split()
    tasks = _whole(fields[3].rpartition(b"/")[2]) if len(fields) > 3 else None
    most = [_whole(host.read(f"/proc/sys/kernel/{name}")) for name in ("pid_max", "threads-max")]
    free = host.free_bytes(state_dir) if host.stat(state_dir) else None
    return HostUse(
        memory=Use(None if used is None else 1024 * used, None if total is None else 1024 * total),
        pids=Use(tasks, min((one for one in most if one is not None), default=None)),
        free_bytes=free,
    )


def _working_set(host: Host, directories: Sequence[str]) -> Optional[int]:
    for directory in directories:
        for usage, idle in _MEMORY:
            used = _whole(host.read(os.path.join(directory, usage)))
            if used is not None:
                return max(0, used - _table(host.read(os.path.join(directory, "memory.stat"))).get(idle, 0))
    return None


def _table(data: Optional[bytes]) -> dict[str, int]:
    """Rows of a name and a number, whatever follows it."""
    rows = [line.split() for line in (data or b"").decode(errors="replace").splitlines()]
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isascii() and row[1].isdigit()}


def _whole(data: Optional[bytes]) -> Optional[int]:
    text = (data or b"").strip()
    return int(text) if text.isdigit() else None
