# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The limit of a node on its host, changed in step with the node's balloon.

A balloon reserves capacity in the scheduler only; a pod may still use more than it requests. The limit of the whole node
prevents that: its cgroup slice (`slices.py`), or the memory of its virtual machine (`vms.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional, Protocol

from ..._core.host.host import Host
from ..cluster.facts import Fleet
from ..request import BalloonsRequest
from ..sizing.resources import Resources
from .slices import SliceLimits
from .vms import VmLimits


class Limits(Protocol):
    """Of the nodes that a request names. Every method raises a BallastError: HostError or PeerError."""

    def most(self, node: str) -> Resources:
        """What it has without a limit: a slice the whole machine, a virtual machine what it was started with.

        More than the node's `status.capacity` where its kernel reserves memory, as that of a virtual machine does.
        """

    def read(self, node: str) -> Resources:
        """What it has now. Without a limit, `most`."""

    def write(self, node: str, limit: Resources) -> None:
        """Set it; `limit.memory` is whole pages. In force when this returns; after an error all is as it was before.

        It is not lowered below what is in use: that is an error, and nothing in the node is ended.
        """


def read_limits(limits: Optional[Limits], names: Iterable[str], fleet: Fleet) -> dict[str, Resources]:
    """Of these nodes, as far as the fleet has them; of none where only balloons are resized."""
    return {} if limits is None else {name: limits.read(name) for name in names if name in fleet.nodes}


def limits_of(request: BalloonsRequest, host: Host) -> Optional[Limits]:
    """None where only balloons are resized."""
    if request.slices:
        return SliceLimits(host, {node.name: node.slice for node in request.nodes})
    if request.vm:
        return VmLimits(host, {node.name: node.qmp for node in request.nodes})
    return None
