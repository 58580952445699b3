# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Balloons of a cluster: what they are made of, and the sizes that are asked for.

observe    objects, nodes, pods, limits
plan       objects to make; targets, and the moves to them, in an order in which no host promises what it has not
apply      the objects; then whatever the steering decides from what is there by then
verify     the nodes that did not come to their target, with the reason
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Optional

from .._core.engine import Finding
from .._core.errors import BallastError, Problems
from .._core.events import Progress
from .._core.host import Host
from .._core.kubeapi import Api, api_by
from .._core.objects import ObjectStep, steps_difference, steps_told
from . import objects
from .amount import FLOOR, Amount
from .carry import carry_out
from .cluster import Cluster
from .facts import DONE, STARTING, Fleet, Node, Outcome, told_limit
from .lease import Leases
from .limits import limits_of, read_limits
from .machine import machine_of
from .moves import BALLOON, Move, is_at_target, planned
from .report import findings, report
from .request import ABSENT, PRESENT, Request
from .sizing import targets, with_reserves
from .steering import Steering
from .table import table

_NO_SUM = Amount(-(2**40), -(2**60))  # a reserve with which every sum holds
# Pods that bear the label of a balloon and are none: what is theirs would be taken for what is not there.
_IN_THE_WAY = ("balloon-foreign", "balloon-two")


@dataclass(frozen=True)
class Found:
    """`fleet` has reserves and limits."""

    objects: objects.Found
    fleet: Fleet


@dataclass(frozen=True)
class Record:
    """The target is written to the Node, or with None taken away; and the startup taint is taken away."""

    node: Node
    target: Optional[Amount]


@dataclass(frozen=True)
class Plan:
    """`moves` are those that would be, did each succeed at once. `behind` are nodes that are not at their target yet."""

    objects: tuple[ObjectStep, ...]
    moves: tuple[Move, ...]
    records: tuple[Record, ...]
    targets: Mapping[str, Amount]
    behind: tuple[str, ...]

    @property
    def steps(self) -> Sequence[object]:
        return (*self.objects, *self.moves, *self.records, *self.behind)


class BalloonEngine:
    """One serves one run: `verify` and `report` tell of what its `apply` did."""

    planning = "plan"

    def __init__(self) -> None:
        self._outcomes: Mapping[str, Outcome] = {}
        self._targets: Mapping[str, Amount] = {}
        self._verified: Optional[Fleet] = None

    def observe(self, desired: Request, host: Host) -> Found:
        api = api_of(desired, host)
        cluster = cluster_of(_held_to(desired), api, host)
        cluster.load()
        reading = cluster.reading()
        Problems.raise_if([one for one in reading.problems if one.id in _IN_THE_WAY])
        return Found(objects.read_objects(api, desired), with_limits(reading.fleet, desired, host))

    def plan(self, desired: Request, state: Found) -> Plan:
        wanted, nodes = targets(desired, state.fleet), state.fleet.nodes
        steps = objects.object_steps(desired, state.objects)
        if desired.state == ABSENT and _others_have_targets(state.fleet, wanted):
            steps = ()
        present = desired.state == PRESENT
        records = [Record(nodes[name], target if present else None) for name, target in wanted.items()]
        # A balloon that is not there has nothing to give, and nobody makes one to take it away.
        found = {name: target for name, target in wanted.items() if present or _holds_some(nodes[name])}
        self._targets = wanted
        return Plan(
            objects=steps,
            moves=planned(state.fleet, found),
            records=tuple(record for record in records if _is_news(record)),
            targets=found,
            behind=tuple(name for name in found if not is_at_target(nodes[name], found[name])),
        )

    def told(self, plan: Plan) -> dict[str, object]:
        records = [
            {
                "kind": "Node",
                "verb": "change" if record.target else "remove",
                "title": f"target of {record.node.name}",
                "target": record.node.name,
            }
            for record in plan.records
        ]
        moves = [
            {"kind": move.what, "verb": "change", "title": _told(move), "target": move.node} for move in plan.moves
        ]
        wanted = {name: target.as_quantities() for name, target in plan.targets.items()}
        return {"steps": [*steps_told(plan.objects), *moves, *records], "targets": wanted}

    def difference(self, plan: Plan) -> list[dict[str, str]]:
        texts = [(_told(move), str(move.before), str(move.after)) for move in plan.moves]
        texts += [
            (f"target of {record.node.name}", str(record.node.target or ""), str(record.target or ""))
            for record in plan.records
        ]
        rows = [
            {"before_header": title, "after_header": title, "before": f"{before}\n", "after": f"{after}\n"}
            for title, before, after in texts
        ]
        return [*steps_difference(plan.objects), *rows]

    def require(self, desired: Request, host: Host) -> None:
        """Nothing: what it needs it has asked the API server and the machine for."""

    def apply(self, plan: Plan, desired: Request, host: Host, progress: Progress) -> Sequence[object]:
        api = api_of(desired, host)
        present = desired.state == PRESENT
        if present:
            _apply_objects(plan, api, progress)
        if plan.behind or plan.records:
            self._move(plan, desired, api, host, progress)
        if not present and all(outcome.outcome == DONE for outcome in self._outcomes.values()):
            _apply_objects(plan, api, progress)
        return plan.steps

    def verify(self, desired: Request, host: Host, progress: Progress) -> list[Finding]:
        missed = [outcome.why for outcome in self._outcomes.values() if outcome.why is not None]
        if missed:
            return [_finding(one) for one in missed]
        if desired.state == ABSENT:
            return []
        self._verified = read(desired, host)
        return findings(self._verified, tuple(self._targets))

    def preview(self, desired: Request) -> dict[str, object]:
        return {}

    def report(self, desired: Request, host: Host) -> dict[str, object]:
        wanted = self._targets if desired.state == PRESENT else {}  # else what is left of them on Nodes
        found = self._verified or read(desired, host)
        return reported(found, wanted, self._outcomes, tuple(self._targets))

    def _move(self, plan: Plan, desired: Request, api: Api, host: Host, progress: Progress) -> None:
        steering = Steering(plan.targets, grow_timeout=desired.grow_timeout)
        leases = Leases(api, host, namespace=desired.namespace)
        with cluster_of(_held_to(desired), api, host) as cluster:
            self._outcomes = carry_out(steering, cluster, limits_of(desired, host), leases, host, progress)
            if desired.state == ABSENT:
                for record in plan.records:
                    name = record.node.name
                    # The reconciler goes on to hold those that are not done.
                    if name not in self._outcomes or self._outcomes[name].outcome == DONE:
                        cluster.annotate(name, None)


def read(desired: Request, host: Host) -> Fleet:
    cluster = cluster_of(desired, api_of(desired, host), host)
    cluster.load()
    return with_limits(cluster.fleet(), desired, host)


def api_of(desired: Request, host: Host) -> Api:
    return api_by(host, desired.kubeconfig)


def cluster_of(desired: Request, api: Api, host: Host) -> Cluster:
    machine = machine_of(desired, host)
    return Cluster(
        api, host, namespace=desired.namespace, names=desired.names, reserve=desired.reserve, machine=machine
    )


def with_limits(fleet: Fleet, desired: Request, host: Host) -> Fleet:
    return fleet.with_limits(read_limits(limits_of(desired, host), [row.name for row in desired.nodes], fleet))


def reported(
    fleet: Fleet, wanted: Mapping[str, Amount], outcomes: Mapping[str, Outcome], names: Sequence[str]
) -> dict[str, object]:
    there = [name for name in names if name in fleet.nodes]
    return {**report(fleet, wanted, outcomes, there), "table": table(fleet, wanted, there)}


def held_to_no_sum(fleet: Fleet) -> Fleet:
    """As for `state: absent`."""
    return with_reserves(fleet, _NO_SUM)


def _held_to(desired: Request) -> Request:
    """A host is held to no sum while balloons are taken away: each of its nodes is to promise all of it again."""
    return replace(desired, reserve=_NO_SUM) if desired.state == ABSENT else desired


def _apply_objects(plan: Plan, api: Api, progress: Progress) -> None:
    for step in plan.objects:
        progress.started(step.title, f"{step.verb} {step.title}")
        objects.apply_step(api, step)
        progress.done(step.title, "")


def _others_have_targets(fleet: Fleet, named: Mapping[str, Amount]) -> bool:
    return any(node.target is not None for name, node in fleet.nodes.items() if name not in named)


def _holds_some(node: Node) -> bool:
    """Not of one that waits for its image at the floor, perhaps for ever."""
    balloon = node.balloon
    return balloon is not None and not (balloon.state == STARTING and balloon.desired.fits_in(FLOOR))


def _finding(why: BallastError) -> Finding:
    """The subject is in its text."""
    found = f"\n  found: {why.found}" if why.found else ""
    return Finding(why.id, "balloons", why.text + found, why.remedy)


def _is_news(record: Record) -> bool:
    return record.node.target != record.target or (record.target is not None and record.node.unsized)


def _told(move: Move) -> str:
    if move.what == BALLOON:
        return f"balloon of {move.node}: {move.before} -> {move.after}"
    return f"limit of {move.node}: {told_limit(move.before)} -> {told_limit(move.after)}"
