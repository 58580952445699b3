# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `balloon` and `balloon_info` return of nodes and hosts, and what of it is not as it should be. Pure.

Amounts are `{"cpu": "1750m", "memory": "7168Mi"}`, and None where there is none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Optional

from .._core.engine import Finding
from .amount import NONE, Amount, total
from .facts import Fleet, Node, Outcome
from .messages import MESSAGES
from .moves import left_to_limits, left_to_promise, within_limit
from .sizing import kept

Row = dict[str, object]


def report(
    fleet: Fleet, targets: Mapping[str, Amount], outcomes: Mapping[str, Outcome], names: Collection[str] = ()
) -> dict[str, list[Row]]:
    """`nodes`, those of `names` or all, and `hosts`, those of these nodes with all their nodes; sorted by name.

    `targets` of the nodes that are to have one, for others that of the annotation counts; `outcomes` of the nodes that were
    to be moved. `fleet` has its reserves.
    """
    shown = sorted(names or fleet.nodes)
    nodes = [_node(fleet.nodes[name], targets, outcomes.get(name)) for name in shown]
    hosts = {fleet.nodes[name].host for name in shown}
    return {
        "nodes": nodes,
        "hosts": [_host(fleet, name, of_it, targets) for name, of_it in sorted(fleet.by_host.items()) if name in hosts],
    }


def findings(fleet: Fleet, names: Collection[str] = ()) -> list[Finding]:
    """Nodes of `names` (all, where it is empty) that are not Ready, and what of their hosts promises more than is there."""
    shown = sorted(names or fleet.nodes)
    hosts = {fleet.nodes[name].host for name in shown}
    found = [_finding(name, "balloon-not-ready") for name in shown if not fleet.nodes[name].ready]
    for name, nodes in sorted(fleet.by_host.items()):
        if name in hosts:
            found += _broken(name, nodes, fleet.room(name))
    return found


def _node(node: Node, targets: Mapping[str, Amount], outcome: Optional[Outcome]) -> Row:
    balloon = node.balloon
    row: Row = {
        "name": node.name,
        "host": node.host,
        "allocatable": _shown(node.allocatable),
        "target": _shown(targets.get(node.name, node.target)),
        "desired": _shown(balloon.desired if balloon else None),
        "allocated": _said(balloon.allocated if balloon else None),
        "actual": _said(balloon.actual if balloon else None),
        "free": _shown(node.free),
        "limit": _shown(node.limit),
        "state": balloon.state if balloon else None,
        "message": balloon.message if balloon else "",
    }
    if outcome is not None:
        sizes = {"before": _shown(outcome.before), "after": _shown(outcome.after)}
        row.update(sizes, outcome=outcome.outcome, text=outcome.text)
    return row


def _host(fleet: Fleet, name: str, nodes: Sequence[Node], targets: Mapping[str, Amount]) -> Row:
    """`targets`: a node that has none counts with what it keeps."""
    room = fleet.room(name)
    return {
        "name": name,
        "capacity": _shown(fleet.capacities[name]),
        "reserve": _shown(fleet.reserve[name]),
        "room": _shown(room),
        "targets": _shown(total(targets.get(node.name, kept(node)) for node in nodes)),
        "open": _shown(total(node.open for node in nodes)),
        "holds": not _broken(name, nodes, room),
    }


def _broken(host: str, nodes: Sequence[Node], room: Amount) -> list[Finding]:
    """What of a host does not hold. Its nodes promise no more than its room, by their balloons and by their limits, and none
    of them more than its limit leaves."""
    found = []
    promised = room - left_to_promise(nodes, room)
    if not promised.fits_in(room):
        found.append(_finding(host, "balloon-oversold", promised=promised, room=room))
    allowed = room - left_to_limits(nodes, room)
    if any(node.limit for node in nodes) and not allowed.fits_in(room):
        found.append(_finding(host, "balloon-limits-over", allowed=allowed, room=room))
    over = [node for node in nodes if not within_limit(node)]
    return found + [
        _finding(node.name, "balloon-over-limit", promised=node.open, left=node.left_by_limit) for node in over
    ]


def _finding(subject: str, id: str, **fields: Amount) -> Finding:
    """One that does not fail the run: what is there now is no worse than what was there before."""
    error = MESSAGES.error(id, **{name: str(amount) for name, amount in fields.items()})
    return Finding(error.id, subject, error.text, error.remedy, blocking=False)


def _said(amount: Optional[Amount]) -> Optional[dict[str, str]]:
    """None, too, until the kubelet has said it."""
    return None if amount == NONE else _shown(amount)


def _shown(amount: Optional[Amount]) -> Optional[dict[str, str]]:
    return None if amount is None else amount.as_quantities()
