# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The limit of a node on its host, which is changed in step with the node's balloon.

A balloon only reserves capacity in the scheduler; a pod may use more than it requests. The limit of the whole node prevents
that: its cgroup slice (`slices.py`), or the memory of its virtual machine (`vms.py`).
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
    """Limits of the nodes that a request names. Every method raises HostError or PeerError."""

    def most(self, node: str) -> Resources:
        """What the node has without a limit: for a slice the whole machine, for a virtual machine what it was started with.

        This is more than the node's `status.capacity` if its kernel reserves memory, as in a virtual machine.
        """

    def read(self, node: str) -> Resources:
        """The present limit; `most` when there is none."""

    def write(self, node: str, limit: Resources) -> None:
        """Set the limit; `limit.memory` is whole pages. It is in force when this returns; after an error nothing has changed.

        Never lowers it below what is in use: that is an error, and nothing in the node is killed.
        """


def read_limits(limits: Optional[Limits], names: Iterable[str], fleet: Fleet) -> dict[str, Resources]:
    """The limits of those nodes that the fleet has; empty when only balloons are resized."""
    return {} if limits is None else {name: limits.read(name) for name in names if name in fleet.nodes}


def limits_of(request: BalloonsRequest, host: Host) -> Optional[Limits]:
    """How to read and write limits; None when only balloons are resized."""
    if request.slices:
        return SliceLimits(host, {node.name: node.slice for node in request.nodes})
    if request.vm:
        return VmLimits(host, {node.name: node.qmp for node in request.nodes})
    return None
