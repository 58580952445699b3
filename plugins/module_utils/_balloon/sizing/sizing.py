# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From a request to each node's target, and from targets to the sizes of balloons. Pure.

    unreserved of a host = capacity - reserve
    target               = the given one, or share * unreserved, or the node's part by weight of what the others leave
    balloon              = allocatable - target

A given target is what pods can request, to the byte. A share and a part by weight are rounded down to whole millicores and MiB,
and limited to what the node has; no node gets the remainder. So the sum of the targets never exceeds the unreserved capacity.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Optional, Union

from ..._core.text.errors import BallastError, Problems
from ..cluster.facts import WORKLOAD, Fleet, Node
from ..messages import MESSAGES
from ..request import ABSENT, BalloonsRequest, NodeRequest
from .resources import FLOOR, MIB, NONE, Resources, total

_UNITS = {"cpu": 1, "memory": MIB}  # shares and parts by weight are whole multiples of these
_NAMED = 10  # nodes or pods named in a message
_GUESSED = 10  # unknown names for which the nearest is searched, which takes a while among thousands of nodes


def with_reserves(fleet: Fleet, reserve: Optional[Resources]) -> Fleet:
    """The fleet with a reserve for each host: the given one, or the sum of what its nodes' kubelets reserve."""
    hosts = fleet.by_host.items()
    return replace(fleet, reserve={host: _overhead(nodes) if reserve is None else reserve for host, nodes in hosts})


def kept_resources(node: Node) -> Resources:
    """What an unnamed node keeps: its target, which the reconciler enforces, else what is schedulable."""
    return node.schedulable if node.target is None else node.allocatable - node.balloon_for(node.target)


def targets(request: BalloonsRequest, fleet: Fleet) -> dict[str, Resources]:
    """Targets of the nodes that the request names, sorted by name. `fleet` has its reserves. Raises every problem at once.

    For `state: absent` a target is everything that the node has, whether or not a shared host has that much.
    """
    rows = {row.name: row for row in request.nodes}
    if request.state == ABSENT:
        return {name: _most(fleet.nodes[name]) for name in sorted(rows.keys() & fleet.nodes.keys())}
    unknown = sorted(rows.keys() - fleet.nodes.keys())
    problems = _unknown(unknown, fleet.nodes)
    result: dict[str, Resources] = {}
    for name, nodes in sorted(fleet.by_host.items()):
        named = {node.name: (rows[node.name], node) for node in nodes if node.name in rows}
        wrong = _wrong_reserve(request, fleet, name, nodes) if named else []
        problems += wrong
        if named and not wrong:
            # A misspelt name must not turn the node that was meant into one that keeps what it has.
            others = () if unknown else tuple(node for node in nodes if node.name not in rows)
            host = _Host(name, fleet.unreserved(name), named, others)
            result.update(_divide(host, problems))
    Problems.raise_if(problems)
    return dict(sorted(result.items()))


def sizes(targets: Mapping[str, Resources], fleet: Fleet) -> dict[str, Resources]:
    """The size of each node's balloon."""
    return {name: fleet.nodes[name].balloon_for(target) for name, target in targets.items()}


@dataclass(frozen=True)
class _Host:
    name: str
    unreserved: Resources
    named: Mapping[str, tuple[NodeRequest, Node]]
    others: tuple[Node, ...]  # nodes that keep what they have


def _divide(host: _Host, problems: list[BallastError]) -> dict[str, Resources]:
    shares = {key: Fraction(0) for key in _UNITS}
    for row, _node in host.named.values():
        for key in shares.keys() - row.target.keys():
            shares[key] += row.share or 0
    most = max(shares.values())
    if most > 1:
        problems.append(MESSAGES.error("balloon-shares-over", host=host.name, shares=most))
    cpu, memory = (_Resource(host, key, problems).divide() for key in _UNITS)
    return {name: Resources(cpu.get(name, 0), memory.get(name, 0)) for name in host.named}


class _Resource:
    """One resource of a host, divided among the named nodes."""

    def __init__(self, host: _Host, key: str, problems: list[BallastError]) -> None:
        self._host = host
        self._key = key
        self._problems = problems

    def divide(self) -> dict[str, int]:
        """First the given targets and the shares, then the rest, if any, by weight."""
        named = self._host.named
        unreserved = self._pick(self._host.unreserved)
        given = {name: row.target[self._key] for name, (row, _node) in named.items() if self._key in row.target}
        shares = {
            name: row.share for name, (row, _node) in named.items() if name not in given and row.share is not None
        }
        rest = named.keys() - given.keys() - shares.keys()
        weights = {name: named[name][0].weight or 1 for name in sorted(rest)}
        parts = dict(given)
        parts.update({name: self._part(name, share * unreserved) for name, share in shares.items()})
        others = sum(self._pick(kept_resources(node)) for node in self._host.others)
        left = unreserved - others - sum(parts.values())
        if left < 0:
            self._over_room(sum(parts.values()), others)
        elif weights:
            whole = sum(weights.values())
            parts.update({name: self._part(name, Fraction(left * part, whole)) for name, part in weights.items()})
        self._check(parts, weights)
        return parts

    def _part(self, name: str, amount: Fraction) -> int:
        """A share, or a part by weight, limited to what the node has."""
        return min(self._round_down(amount), self._round_down(Fraction(self._most(name))))

    def _round_down(self, amount: Fraction) -> int:
        unit = _UNITS[self._key]
        return amount // unit * unit

    def _check(self, parts: Mapping[str, int], weights: Collection[str]) -> None:
        for name, target in sorted(parts.items()):
            node = self._host.named[name][1]
            most, needed = self._most(name), self._pick(node.needed)
            if target > most:
                self._wrong("balloon-above-node", node=name, asked=target, most=most)
            elif target <= 0 and name in weights:
                self._wrong("balloon-nothing-left", node=name, host=self._host.name)
            elif target < needed:
                self._wrong("balloon-below-pods", self._pods(node), node=name, target=target, needed=needed)

    def _over_room(self, named: int, others: int) -> None:
        names = _list_some(sorted(node.name for node in self._host.others if self._pick(kept_resources(node))))
        detail = f"{self._format(others)} of that are used by unlisted nodes: {names}" if others else ""
        unreserved = self._pick(self._host.unreserved)
        self._wrong("balloon-over-room", detail, host=self._host.name, asked=named + others, unreserved=unreserved)

    def _wrong(self, id: str, detail: str = "", **fields: Union[int, str]) -> None:
        shown = {name: self._format(field) if isinstance(field, int) else field for name, field in fields.items()}
        self._problems.append(MESSAGES.error(id, found=detail, resource=self._key, **shown))

    def _pods(self, node: Node) -> str:
        """Static and DaemonSet pods, largest first."""
        pods = [pod for pod in node.pods if pod.kind != WORKLOAD and self._pick(pod.requests)]
        pods.sort(key=lambda pod: (-self._pick(pod.requests), pod.namespace, pod.name))
        return _list_some([f"{p.namespace}/{p.name} ({p.kind}, {self._format(self._pick(p.requests))})" for p in pods])

    def _pick(self, amount: Resources) -> int:
        return amount.cpu if self._key == "cpu" else amount.memory

    def _most(self, name: str) -> int:
        return self._pick(_most(self._host.named[name][1]))

    def _format(self, value: int) -> str:
        return (Resources(value, 0) if self._key == "cpu" else Resources(0, value)).as_quantities()[self._key]


def _most(node: Node) -> Resources:
    """The largest target of a node, with its balloon at the floor."""
    return (node.allocatable - FLOOR).most(NONE)


def _overhead(nodes: Sequence[Node]) -> Resources:
    return total(node.overhead.most(NONE) for node in nodes)


def _wrong_reserve(request: BalloonsRequest, fleet: Fleet, host: str, nodes: Sequence[Node]) -> list[BallastError]:
    reserve, capacity, overhead = fleet.reserve[host], fleet.capacities[host], _overhead(nodes)
    if not reserve.fits_in(capacity):
        return [MESSAGES.error("balloon-reserve-over", host=host, reserve=reserve, capacity=capacity)]
    # A node's limit is its target plus its overhead.
    if (request.slices or request.vm) and not overhead.fits_in(reserve):
        return [MESSAGES.error("balloon-reserve-low", host=host, reserve=reserve, overhead=overhead)]
    return []


def _unknown(names: Sequence[str], known: Collection[str]) -> list[BallastError]:
    guesses = {name: difflib.get_close_matches(name, known, n=1) for name in names[:_GUESSED]}
    return [
        MESSAGES.error("balloon-unknown-node", name=name, found=f"the nearest is {guess[0]}" if guess else "")
        for name, guess in ((name, guesses.get(name)) for name in names)
    ]


def _list_some(texts: Sequence[str]) -> str:
    rest = len(texts) - _NAMED
    return ", ".join([*texts[:_NAMED], *([f"and {rest} more"] if rest > 0 else [])])
