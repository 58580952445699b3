# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cgroup `ballast-supervisors` of this host, for the supervisor processes that runit needs.

Every ten seconds a kubelet reads the open files of every process in the root cgroup. If they stayed there, the four
supervisors of each node would cost every kubelet of the host CPU time. The cgroup has no limits, so it exists only in the
hierarchy that kubelets read: that of the cpu controller, or cgroup v2's. If it cannot be made, kubelets only use more CPU.
"""

from __future__ import annotations

import os
from contextlib import suppress

from ..host.cgroup_paths import cgroup_hierarchies
from ..host.host import Host, ProcessId
from ..text.errors import HostError

SUPERVISORS = "ballast-supervisors"


def enter(host: Host, supervisor: ProcessId) -> None:
    """Move a supervisor and its children, which are supervisors too, into the cgroup."""
    with suppress(HostError):
        for directory in _directories(host):
            host.make_directory(directory)
            for pid in (supervisor.pid, *_children(host, supervisor)):
                host.write_kernel_file(os.path.join(directory, "cgroup.procs"), str(pid))


def exists(host: Host) -> bool:
    return any(host.stat(directory) is not None for directory in _directories(host))


def leave(host: Host) -> None:
    """Remove the cgroup. The kernel refuses while it has processes."""
    with suppress(HostError):
        for directory in _directories(host):
            if host.stat(directory) is not None:
                host.remove_directory(directory)


def _directories(host: Host) -> list[str]:
    roots = cgroup_hierarchies(host)
    chosen = [root for root in roots if "cpu" in os.path.basename(root).split(",")] or roots[-1:]
    return [os.path.join(root, SUPERVISORS) for root in chosen]


def _children(host: Host, process: ProcessId) -> list[int]:
    data = host.read(f"/proc/{process.pid}/task/{process.pid}/children") or b""
    return [int(word) for word in data.split() if word.isdigit()]
