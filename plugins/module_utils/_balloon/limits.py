# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the host gives a node, moved in step with the node's balloon.

A balloon is bookkeeping: it keeps the scheduler from promising, and holds no pod back that uses more than it asked for.
What does is a limit on the whole node: that of its cgroup slice (`slices.py`), or the memory of its virtual machine
(`vms.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional, Protocol

from .._core.host import Host
from .amount import Amount
from .facts import Fleet
from .request import Request
from .slices import SliceLimits
from .vms import VmLimits


class Limits(Protocol):
    """Of the nodes that a request names. Every method raises a BallastError: HostError or PeerError."""

    def most(self, node: str) -> Amount:
        """What it has without a limit: a slice the whole machine, a virtual machine what it was started with.

        More than the node's `status.capacity` where its kernel keeps memory to itself, as that of a virtual machine does.
        """

    def read(self, node: str) -> Amount:
        """What it has now. Without a limit, `most`."""

    def write(self, node: str, limit: Amount) -> None:
        """Set it; `limit.memory` is whole pages. In force when this returns; after an error all is as it was before.

        It is not lowered below what is in use: that is an error, and nothing in the node is ended.
        """


def read_limits(limits: Optional[Limits], names: Iterable[str], fleet: Fleet) -> dict[str, Amount]:
    """Of those of these nodes that the fleet has; of none where the balloons alone are moved."""
    return {} if limits is None else {name: limits.read(name) for name in names if name in fleet.nodes}


def limits_of(request: Request, host: Host) -> Optional[Limits]:
    """None where the balloons alone are moved."""
    if request.slices:
        return SliceLimits(host, {node.name: node.slice for node in request.nodes})
    if request.vm:
        return VmLimits(host, {node.name: node.qmp for node in request.nodes})
    return None
