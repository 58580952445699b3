# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From what is asked to a target for each node, and from that to the sizes of balloons. Pure.

    room of a host = capacity - reserve
    target         = what is given, or share * room, or the node's part by weight of what the others leave
    balloon        = allocatable - target

Targets are rounded down to whole millicores and MiB, balloons up, and what that leaves is no node's. So the sum of the
targets never exceeds the room.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

from .amount import Amount
from .facts import Fleet
from .request import Request


def with_reserves(fleet: Fleet, reserve: Optional[Amount]) -> Fleet:
    """The fleet with the reserve of each host: the one given, or the sum of what its nodes' kubelets reserve."""


def targets(request: Request, fleet: Fleet) -> dict[str, Amount]:
    """Of each node that the request names, by name. `fleet` has its reserves. Raises every problem at once."""


def sizes(targets: Mapping[str, Amount], fleet: Fleet) -> dict[str, Amount]:
    """The balloon that each node is to have."""
    return {name: fleet.nodes[name].balloon_for(target) for name, target in targets.items()}
