# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Balloons of a cluster: their objects and their sizes.

observe    reads objects, nodes, pods and limits
plan       objects to make; targets, and the steps towards them in an order that never overcommits a host
apply      makes the objects; then the scheduler decides, from the state at that time
verify     nodes that did not reach their target, with the reason
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Optional, Union

from .._core.engine.context import Context
from .._core.engine.engine import BaseEngine, Finding
from .._core.engine.events import Progress
from .._core.engine.wait import Pending, Ready, wait
from .._core.host.host import Host
from .._core.kube.client import Api
from .._core.kube.connection import connect
from .._core.kube.objects import ObjectStep, steps_as_result, steps_diff
from .._core.text.errors import BallastError, Problems
from .cluster.cluster import Cluster
from .cluster.facts import DONE, REJECTED, STARTING, Fleet, Node, Outcome, format_limit
from .cluster.lease import Leases
from .deployment import objects
from .report import findings, report
from .request import ABSENT, PRESENT, BalloonsRequest
from .resize.executor import execute_resizes
from .resize.limits import limits_of, read_limits
from .resize.machine import machine_of
from .resize.resize_steps import BALLOON, ResizeStep, is_at_target, plan_steps
from .resize.scheduler import ResizeScheduler
from .sizing.resources import FLOOR, Resources
from .sizing.sizing import targets, with_reserves
from .table import table

_NO_SUM = Resources(-(2**40), -(2**60))  # a reserve with which no sum is exceeded
_GONE_SECONDS = 120  # until the namespace's pods have ended
# Pods that have the label of a balloon and are none: sizing a node by them would overcommit it.
_IN_THE_WAY = ("balloon-foreign", "balloon-two")


@dataclass(frozen=True)
class BalloonsState:
    """`fleet` has reserves and limits."""

    objects: objects.ObjectsState
    fleet: Fleet
    namespace: str  # of the balloons
    problems: tuple[BallastError, ...] = ()  # pods that could be mistaken for balloons


@dataclass(frozen=True)
class TargetUpdate:
    """Write the target to the Node, or remove it (None), and remove the startup taint."""

    node: Node
    target: Optional[Resources]


@dataclass(frozen=True)
class BalloonsPlan:
    """`resizes` are the steps if each succeeds at once. `targets` are those of nodes with a balloon to resize, `behind` the nodes that
    are not at their target yet, `named` the targets of all named nodes, and `hosts` the hosts of these."""

    objects: tuple[ObjectStep, ...]
    resizes: tuple[ResizeStep, ...]
    records: tuple[TargetUpdate, ...]
    targets: Mapping[str, Resources]
    behind: tuple[str, ...]
    named: Mapping[str, Resources]
    hosts: Mapping[str, str]

    @property
    def steps(self) -> Sequence[object]:
        return (*self.objects, *self.resizes, *self.records, *self.behind)


class BalloonEngine(BaseEngine[BalloonsRequest, BalloonsState, BalloonsPlan]):
    """An instance serves one run: `verify` and `report` describe what its `apply` did."""

    def __init__(self) -> None:
        self._outcomes: Mapping[str, Outcome] = {}
        self._targets: Mapping[str, Resources] = {}
        self._verified: Optional[Fleet] = None
        self._namespace = ""

    def observe(self, ctx: Context[BalloonsRequest]) -> BalloonsState:
        desired, host = ctx.desired, ctx.host
        api = api_of(desired, host)
        desired = self._locate(desired, api)
        cluster = cluster_of(_held_to(desired), api, host)
        cluster.load()
        observation = cluster.observe()
        problems = tuple(problem for problem in observation.problems if problem.id in _IN_THE_WAY)
        fleet = with_limits(observation.fleet, desired, host)
        return BalloonsState(objects.read_objects(api, desired), fleet, desired.namespace, problems)

    def plan(self, desired: BalloonsRequest, state: BalloonsState) -> BalloonsPlan:
        Problems.raise_if(state.problems)
        named, nodes = targets(desired, state.fleet), state.fleet.nodes
        steps = objects.object_steps(replace(desired, namespace=state.namespace), state.objects)
        if desired.state == ABSENT and _others_have_targets(state.fleet, named):
            steps = ()
        present = desired.state == PRESENT
        records = [TargetUpdate(nodes[name], target if present else None) for name, target in named.items()]
        # A missing balloon has nothing to return, and none is made only to be removed.
        movable = {name: target for name, target in named.items() if present or _holds_some(nodes[name])}
        return BalloonsPlan(
            objects=steps,
            resizes=plan_steps(state.fleet, movable),
            records=tuple(record for record in records if _is_needed(record)),
            targets=movable,
            behind=tuple(name for name in movable if not is_at_target(nodes[name], movable[name])),
            named=named,
            hosts={name: nodes[name].host for name in named},
        )

    def as_result(self, plan: BalloonsPlan) -> dict[str, object]:
        records = [
            {
                "kind": "Node",
                "verb": "change" if record.target else "remove",
                "title": f"target of {record.node.name}",
                "target": record.node.name,
            }
            for record in plan.records
        ]
        resizes = [
            {"kind": step.what, "verb": "change", "title": _describe(step), "target": step.node}
            for step in plan.resizes
        ]
        quantities = {name: target.as_quantities() for name, target in plan.targets.items()}
        steps = [*steps_as_result(plan.objects), *resizes, *records]
        return {"steps": steps, "targets": quantities, "shared": _by_host(plan)}

    def diff(self, plan: BalloonsPlan) -> list[dict[str, str]]:
        texts = [(_describe(step), str(step.before), str(step.after)) for step in plan.resizes]
        texts += [
            (f"target of {record.node.name}", str(record.node.target or ""), str(record.target or ""))
            for record in plan.records
        ]
        rows = [
            {"before_header": title, "after_header": title, "before": f"{before}\n", "after": f"{after}\n"}
            for title, before, after in texts
        ]
        return [*steps_diff(plan.objects), *rows]

    def apply(self, plan: BalloonsPlan, ctx: Context[BalloonsRequest]) -> BalloonsPlan:
        desired, host, progress = ctx.desired, ctx.host, ctx.progress
        self._targets = plan.named
        api = api_of(desired, host)
        desired = self._locate(desired, api)
        present = desired.state == PRESENT
        if present:
            _apply_objects(plan, api, host, progress)
        if plan.behind or plan.records:
            self._move(plan, desired, api, host, progress)
        if not present and all(outcome.outcome == DONE for outcome in self._outcomes.values()):
            _apply_objects(plan, api, host, progress)
        return plan

    def verify(self, ctx: Context[BalloonsRequest]) -> list[Finding]:
        desired = ctx.desired
        missed = [outcome.why for outcome in self._outcomes.values() if outcome.why is not None]
        if missed:
            return [_finding(error) for error in missed]
        if desired.state == ABSENT:
            return []
        self._verified = read(self._locate(desired, api_of(desired, ctx.host)), ctx.host)
        return findings(self._verified, tuple(self._targets))

    def report(self, ctx: Context[BalloonsRequest]) -> dict[str, object]:
        desired = ctx.desired
        # For another state the table shows the targets that are left on Nodes.
        node_targets = self._targets if desired.state == PRESENT else {}
        desired = self._locate(desired, api_of(desired, ctx.host))
        fleet = self._verified or read(desired, ctx.host)
        return report_fleet(fleet, node_targets, self._outcomes, tuple(self._targets))

    def _locate(self, desired: BalloonsRequest, api: Api) -> BalloonsRequest:
        """The request with the balloons' namespace, found once per run, as `apply` may remove the object that names it."""
        if not self._namespace:
            self._namespace = objects.locate(desired, api).namespace
        return replace(desired, namespace=self._namespace)

    def _move(self, plan: BalloonsPlan, desired: BalloonsRequest, api: Api, host: Host, progress: Progress) -> None:
        scheduler = ResizeScheduler(plan.targets, grow_timeout=desired.grow_timeout)
        leases = Leases(api, host, namespace=desired.namespace)
        with cluster_of(_held_to(desired), api, host) as cluster:
            self._outcomes = execute_resizes(scheduler, cluster, limits_of(desired, host), leases, host, progress)
            if desired.state == ABSENT:
                if plan.objects:
                    # The pods are deleted with the DaemonSet, even if a LimitRange or a webhook refuses their sizes.
                    self._outcomes = {name: _without_refusal(outcome) for name, outcome in self._outcomes.items()}
                for record in plan.records:
                    name = record.node.name
                    # The reconciler continues to enforce the targets of the other nodes.
                    if name not in self._outcomes or self._outcomes[name].outcome == DONE:
                        cluster.annotate(name, None)


def _without_refusal(outcome: Outcome) -> Outcome:
    return replace(outcome, outcome=DONE, why=None) if outcome.outcome == REJECTED else outcome


def _by_host(plan: BalloonsPlan) -> list[dict[str, object]]:
    moved = {*plan.behind, *(record.node.name for record in plan.records)}
    hosts: dict[str, list[str]] = {}
    for name, host in plan.hosts.items():
        hosts.setdefault(host, []).append(name)
    return [
        {"host": host, "nodes": names, "behind": [name for name in names if name in moved]}
        for host, names in hosts.items()
    ]


def read(desired: BalloonsRequest, host: Host) -> Fleet:
    """The fleet with reserves and limits, read once from the API and from this machine."""
    cluster = cluster_of(desired, api_of(desired, host), host)
    cluster.load()
    return with_limits(cluster.fleet(), desired, host)


def api_of(desired: BalloonsRequest, host: Host) -> Api:
    """A client with the credentials that the request names."""
    return connect(host, desired.kubeconfig, desired.context)


def cluster_of(desired: BalloonsRequest, api: Api, host: Host) -> Cluster:
    """Reads nothing from the API: `load` it, or enter it."""
    machine = machine_of(desired, host)
    return Cluster(
        api, host, namespace=desired.namespace, names=desired.names, reserve=desired.reserve, machine=machine
    )


def with_limits(fleet: Fleet, desired: BalloonsRequest, host: Host) -> Fleet:
    """The fleet with the limits of those nodes that the request names. Reads them from this machine."""
    return fleet.with_limits(read_limits(limits_of(desired, host), [row.name for row in desired.nodes], fleet))


def report_fleet(
    fleet: Fleet, node_targets: Mapping[str, Resources], outcomes: Mapping[str, Outcome], names: Sequence[str]
) -> dict[str, object]:
    """What the modules return of the nodes in `names`, with a table for people. Nodes that the fleet lacks are left out."""
    there = [name for name in names if name in fleet.nodes]
    return {**report(fleet, node_targets, outcomes, there), "table": table(fleet, node_targets, there)}


def without_sum(fleet: Fleet) -> Fleet:
    """The fleet for `state: absent`, in which no host is overcommitted."""
    return with_reserves(fleet, _NO_SUM)


def _held_to(desired: BalloonsRequest) -> BalloonsRequest:
    """While balloons are removed, hosts may be overcommitted: each node offers all of its capacity again."""
    return replace(desired, reserve=_NO_SUM) if desired.state == ABSENT else desired


def _apply_objects(plan: BalloonsPlan, api: Api, host: Host, progress: Progress) -> None:
    for step in plan.objects:
        progress.started(step.title, f"{step.verb} {step.title}")
        objects.apply_step(api, step)
        if step.kind == "Namespace" and step.after is None:
            wait(host, progress, step.title, partial(_gone, api, step), deadline_seconds=_GONE_SECONDS)
        progress.done(step.title, "")


def _gone(api: Api, step: ObjectStep) -> Union[Ready[None], Pending]:
    """A namespace disappears after its content, and nothing can be made in it until then."""
    return Ready(None) if api.find(step.path) is None else Pending("its contents are being removed")


def _others_have_targets(fleet: Fleet, named: Mapping[str, Resources]) -> bool:
    return any(node.target is not None for name, node in fleet.nodes.items() if name not in named)


def _holds_some(node: Node) -> bool:
    """Whether the balloon has more than the floor. A balloon that waits for its image may wait forever."""
    balloon = node.balloon
    return balloon is not None and not (balloon.state == STARTING and balloon.desired.fits_in(FLOOR))


def _finding(why: BallastError) -> Finding:
    """The text names the subject."""
    suffix = f"\n  found: {why.found}" if why.found else ""
    return Finding(why.id, "balloons", why.text + suffix, why.remedy)


def _is_needed(record: TargetUpdate) -> bool:
    return record.node.target != record.target or (record.target is not None and record.node.unsized)


def _describe(step: ResizeStep) -> str:
    if step.what == BALLOON:
        return f"balloon of {step.node}: {step.before} -> {step.after}"
    return f"limit of {step.node}: {format_limit(step.before)} -> {format_limit(step.after)}"
