# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `balloon` and `balloon_info` return about nodes and hosts, and the problems in it. Pure.

Amounts are `{"cpu": "1750m", "memory": "7168Mi"}`; None when there is none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Optional

from .._core.engine.engine import Finding
from .cluster.facts import Fleet, Node, Outcome
from .messages import MESSAGES
from .resize.resize_steps import left_to_limits, left_to_promise, within_limit
from .sizing.resources import NONE, Resources, total
from .sizing.sizing import kept_resources

Row = dict[str, object]


def report(
    fleet: Fleet, targets: Mapping[str, Resources], outcomes: Mapping[str, Outcome], names: Collection[str] = ()
) -> dict[str, list[Row]]:
    """`nodes`: those in `names`, or all. `hosts`: the hosts of these nodes, with all their nodes. Both sorted by name.

    `targets` has the nodes that are to get one; for other nodes the annotation counts. `outcomes` has the nodes that were to be
    resized. `fleet` has its reserves.
    """
    shown = sorted(names or fleet.nodes)
    nodes = [_node(fleet.nodes[name], targets, outcomes.get(name)) for name in shown]
    hosts = {fleet.nodes[name].host for name in shown}
    return {
        "nodes": nodes,
        "hosts": [_host(fleet, name, of_it, targets) for name, of_it in sorted(fleet.by_host.items()) if name in hosts],
    }


def findings(fleet: Fleet, names: Collection[str] = ()) -> list[Finding]:
    """Nodes of `names` (all, where it is empty) that are not Ready, and the overcommitments of their hosts."""
    shown = sorted(names or fleet.nodes)
    hosts = {fleet.nodes[name].host for name in shown}
    result = [_finding(name, "balloon-not-ready") for name in shown if not fleet.nodes[name].ready]
    for name, nodes in sorted(fleet.by_host.items()):
        if name in hosts:
            result += _host_findings(name, nodes, fleet.unreserved(name))
    return result


def _node(node: Node, targets: Mapping[str, Resources], outcome: Optional[Outcome]) -> Row:
    balloon = node.balloon
    row: Row = {
        "name": node.name,
        "host": node.host,
        "allocatable": _quantities(node.allocatable),
        "target": _quantities(targets.get(node.name, node.target)),
        "desired": _quantities(balloon.desired if balloon else None),
        "allocated": _known_quantities(balloon.allocated if balloon else None),
        "actual": _known_quantities(balloon.actual if balloon else None),
        "free": _quantities(node.free),
        "limit": _quantities(node.limit),
        "state": balloon.state if balloon else None,
        "message": balloon.message if balloon else "",
    }
    if outcome is not None:
        sizes = {"before": _quantities(outcome.before), "after": _quantities(outcome.after)}
        row.update(sizes, outcome=outcome.outcome, text=outcome.text)
    return row


def _host(fleet: Fleet, name: str, nodes: Sequence[Node], targets: Mapping[str, Resources]) -> Row:
    """The row of a host. A node without an entry in `targets` counts with what it keeps."""
    unreserved = fleet.unreserved(name)
    return {
        "name": name,
        "capacity": _quantities(fleet.capacities[name]),
        "reserve": _quantities(fleet.reserve[name]),
        "room": _quantities(unreserved),
        "targets": _quantities(total(targets.get(node.name, kept_resources(node)) for node in nodes)),
        "open": _quantities(total(node.schedulable for node in nodes)),
        "holds": not _host_findings(name, nodes, unreserved),
    }


def _host_findings(host: str, nodes: Sequence[Node], unreserved: Resources) -> list[Finding]:
    """How a host is overcommitted: by its nodes' balloons, by their limits, or by a node whose limit leaves less than it offers."""
    result = []
    promised = unreserved - left_to_promise(nodes, unreserved)
    if not promised.fits_in(unreserved):
        result.append(_finding(host, "balloon-oversold", promised=promised, unreserved=unreserved))
    allowed = unreserved - left_to_limits(nodes, unreserved)
    if any(node.limit for node in nodes) and not allowed.fits_in(unreserved):
        result.append(_finding(host, "balloon-limits-over", allowed=allowed, unreserved=unreserved))
    over = [node for node in nodes if not within_limit(node)]
    return result + [
        _finding(node.name, "balloon-over-limit", promised=node.schedulable, left=node.left_by_limit) for node in over
    ]


def _finding(subject: str, id: str, **fields: Resources) -> Finding:
    """A warning: no run makes this worse."""
    error = MESSAGES.error(id, **{name: str(amount) for name, amount in fields.items()})
    return Finding(error.id, subject, error.text, error.remedy, blocking=False)


def _known_quantities(amount: Optional[Resources]) -> Optional[dict[str, str]]:
    """Quantities; None for no resources, also before the kubelet has reported them."""
    return None if amount == NONE else _quantities(amount)


def _quantities(amount: Optional[Resources]) -> Optional[dict[str, str]]:
    return None if amount is None else amount.as_quantities()
