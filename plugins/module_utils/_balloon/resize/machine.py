# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The capacity of this machine, which it shares among its virtual machines if these are the nodes."""

from __future__ import annotations

import re
from typing import Optional

from ..._core.host.host import Host
from ..cluster.reading import Machine
from ..request import BalloonsRequest
from ..sizing.resources import Resources
from .limit_messages import MESSAGES
from .vms import VmLimits

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_ONLINE = "/sys/devices/system/cpu/online"
_MEMORY = "/proc/meminfo"
_TOTAL = re.compile(r"^MemTotal:\s+(\d+) kB$", re.ASCII | re.MULTILINE)
_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)


def machine_of(request: BalloonsRequest, host: Host) -> Optional[Machine]:
    """The machine if the request has `vm`; else None, and nodes with one kernel share that kernel's capacity. HostError when this
    machine's capacity cannot be read, PeerError when that of a virtual machine cannot.

    Its name is the boot id, as for a host whose nodes share its kernel, so both use the same Lease.
    """
    if not request.vm:
        return None
    name, online, memory = (_read(host, path) for path in (_BOOT_ID, _ONLINE, _MEMORY))
    total = _TOTAL.search(memory)
    processors = _count(online)
    for path, fine in ((_BOOT_ID, _UUID.fullmatch(name)), (_ONLINE, processors), (_MEMORY, total)):
        if not fine:
            raise MESSAGES.error("balloon-machine-unknown", path=path)
    capacity = Resources(processors * 1000, int(total[1]) * 1024 if total else 0)
    limits = VmLimits(host, {row.name: row.qmp for row in request.nodes})
    return Machine(name, capacity, {row.name: limits.most(row.name) for row in request.nodes})


def _read(host: Host, path: str) -> str:
    return (host.read(path) or b"").decode(errors="replace").strip()


def _count(text: str) -> int:
    """The number of processors in a list such as `0-3,8`; 0 for any other text."""
    ranges = [_RANGE.fullmatch(part) for part in text.split(",")]
    return sum(int(match[2] or match[1]) - int(match[1]) + 1 for match in ranges if match) if all(ranges) else 0
