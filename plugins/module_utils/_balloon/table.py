# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes and hosts as a table for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional

from .._core.agent.status import aligned
from .amount import MIB, Amount, total
from .facts import Balloon, Fleet, Node
from .moves import holds

_HEADS = ("NODE", "TARGET", "BALLOON", "PODS REQUEST", "FREE", "STATE")


def table(fleet: Fleet, targets: Mapping[str, Amount], names: Sequence[str]) -> str:
    """Of the nodes of these names, with a line for each of their hosts. `fleet` has its reserves."""
    rows = [_row(fleet.nodes[name], targets) for name in names]
    hosts = sorted({fleet.nodes[name].host for name in names})
    return "\n".join([*aligned([_HEADS, *rows], numbers=()), "", *(_host(fleet, host) for host in hosts)])


def _row(node: Node, targets: Mapping[str, Amount]) -> tuple[str, ...]:
    balloon = node.balloon
    target = targets.get(node.name, node.target)
    state = "not Ready" if not node.ready else balloon.state if balloon else "none"
    return (node.name, _shown(target), _size(balloon), _shown(node.requested), _shown(node.free), state)


def _size(balloon: Optional[Balloon]) -> str:
    if balloon is None:
        return "-"
    asked = f" (asked: {_shown(balloon.desired)})" if balloon.desired != balloon.allocated else ""
    return _shown(balloon.allocated) + asked


def _host(fleet: Fleet, host: str) -> str:
    promised, room = total(node.open for node in fleet.of_host(host)), fleet.room(host)
    verdict = "holds" if holds(fleet, host) else "DOES NOT HOLD"
    return (
        f"host {host}: promised {_shown(promised)} of {_shown(room)}, {_shown(fleet.reserve[host])} reserved: {verdict}"
    )


def _shown(amount: Optional[Amount]) -> str:
    """`1750m 7168Mi`; memory in whole MiB, rounded down."""
    return "-" if amount is None else f"{amount.cpu}m {amount.memory // MIB}Mi"
