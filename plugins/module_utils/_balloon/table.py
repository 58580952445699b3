# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes and hosts as a table for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional

from .._agent.status import align_rows
from .cluster.facts import Balloon, Fleet, Node
from .resize.resize_steps import is_overcommitted
from .sizing.resources import MIB, Resources, total

_HEADS = ("NODE", "TARGET", "BALLOON", "PODS REQUEST", "FREE", "STATE")


def table(fleet: Fleet, targets: Mapping[str, Resources], names: Sequence[str]) -> str:
    """The named nodes, and a line for each of their hosts. `fleet` has its reserves."""
    rows = [_row(fleet.nodes[name], targets) for name in names]
    hosts = sorted({fleet.nodes[name].host for name in names})
    return "\n".join([*align_rows([_HEADS, *rows], numbers=()), "", *(_host(fleet, host) for host in hosts)])


def _row(node: Node, targets: Mapping[str, Resources]) -> tuple[str, ...]:
    balloon = node.balloon
    target = targets.get(node.name, node.target)
    state = "not Ready" if not node.ready else balloon.state if balloon else "none"
    return (node.name, _format(target), _size(balloon), _format(node.requested), _format(node.free), state)


def _size(balloon: Optional[Balloon]) -> str:
    if balloon is None:
        return "-"
    suffix = f" (requested: {_format(balloon.desired)})" if balloon.desired != balloon.allocated else ""
    return _format(balloon.allocated) + suffix


def _host(fleet: Fleet, host: str) -> str:
    promised, unreserved = total(node.schedulable for node in fleet.of_host(host)), fleet.unreserved(host)
    verdict = "OVERCOMMITTED" if is_overcommitted(fleet, host) else "not overcommitted"
    return f"host {host}: {_format(promised)} schedulable of {_format(unreserved)} unreserved, {_format(fleet.reserve[host])} reserved: {verdict}"


def _format(amount: Optional[Resources]) -> str:
    """`1750m 7168Mi`; memory in whole MiB, rounded down."""
    return "-" if amount is None else f"{amount.cpu}m {amount.memory // MIB}Mi"
