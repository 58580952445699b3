# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The production readiness of a cluster's balloons. Pure: from facts to a `Reading`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Optional

from .._core.engine.engine import Finding
from .._core.engine.readiness import (
    DEPENDENCIES,
    DISABLING,
    ENABLED,
    FAILURES,
    HEALTHY,
    IN_USE,
    NO,
    ROLLBACK,
    SCALE,
    YES,
    Answer,
    Figure,
    Reading,
    off_reading,
)
from .._core.engine.readiness_common import distribution, failures_answer, pluralize
from .._core.text.errors import BallastError
from .._core.text.exposition import Bucket, Sample, histogram, total
from .cluster.facts import FAILING, INFEASIBLE, STARTING, Fleet, Node
from .resize.resize_steps import can_resize, is_at_target
from .sizing.resources import FLOOR, NONE, Resources
from .sizing.resources import total as sum_of

NAME = "balloons"
ABSENT = "balloon-absent"
OFF_TARGET = "balloon-off-target"
KUBELET_REFUSES = "balloon-kubelet-refuses"
HOST_OVERSOLD = "balloon-host-oversold"
NODE_NOT_READY = "balloon-node-not-ready"
FOREIGN_POD = "balloon-foreign-pod"
RECONCILER_DOWN = "balloon-reconciler-down"
RECONCILER_FAILING = "balloon-reconciler-failing"

_RESIZE, _PENDING = "kubelet_pod_resize_duration_milliseconds", "kubelet_pod_pending_resizes"
METRICS = frozenset({f"{_RESIZE}_bucket", _PENDING})
_OVERSOLD = ("balloon-oversold", "balloon-limits-over", "balloon-over-limit")  # ids of findings
_NAMED = 20  # items of a longer list that are shown
_NODES = "`kubectl get nodes -o yaml` and `kubectl get pods -A -l balloons.ballast.dev/balloon -o yaml`"
_STATUS = "`ballast-balloons status --json`"


@dataclass(frozen=True)
class Reconciler:
    """The reconciler on this machine. `seconds_since_success` is None before the first success."""

    answers: bool
    problems: tuple[str, ...] = ()
    seconds_since_success: Optional[float] = None


@dataclass(frozen=True)
class Facts:
    """`fleet` has reserves and limits; only its nodes in `names` are reported."""

    fleet: Fleet
    names: tuple[str, ...]
    findings: tuple[Finding, ...]
    problems: tuple[BallastError, ...]  # problems of nodes and pods that others have written
    missing: tuple[str, ...]  # objects of balloons that the cluster lacks
    plan: tuple[str, ...]  # of `state: absent` for all of these nodes
    plan_problem: Optional[BallastError]
    reconciler: Optional[Reconciler]  # None when this machine has none
    kubelets: Mapping[str, tuple[Sample, ...]]  # metrics by node, of the few kubelets that were asked

    @property
    def sized(self) -> tuple[Node, ...]:
        """Nodes with a target."""
        nodes = (self.fleet.nodes[name] for name in self.names if name in self.fleet.nodes)
        return tuple(node for node in nodes if node.target is not None)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts of the nodes with a target; sorted."""
        return tuple(sorted({node.host for node in self.sized}))


def build_report(facts: Facts) -> Reading:
    """Off when no node has a target."""
    if not facts.sized:
        return off_reading(NAME, "no node has the annotation balloons.ballast.dev/target", _NODES)
    present = present_failures(facts)
    answers = {
        ENABLED: _answer_enabled(facts),
        IN_USE: _in_use(facts),
        HEALTHY: _healthy(facts, present),
        DEPENDENCIES: _dependencies(facts),
        DISABLING: _disabling(facts),
        ROLLBACK: _rollback(facts),
        SCALE: _scale(facts),
        FAILURES: failures_answer(present),
    }
    versions = sorted({node.version for node in facts.sized})
    text = ", ".join(f"v{major}.{minor}" for major, minor in versions)
    return Reading(NAME, answers, tuple(present), {"kubelet": text})


def present_failures(facts: Facts) -> dict[str, str]:
    """What was observed of each failure mode that is present, by its id."""
    absent = [node.name for node in facts.sized if _is_absent(node)]
    apart = [_describe_distance(node) for node in facts.sized if not _is_absent(node) and not _is_there(node)]
    refused = [
        _describe_distance(node) for node in facts.sized if node.balloon and node.balloon.state in (INFEASIBLE, FAILING)
    ]
    reconciler = facts.reconciler
    texts = {
        ABSENT: list_some(absent),
        OFF_TARGET: list_some(apart),
        KUBELET_REFUSES: list_some(refused),
        HOST_OVERSOLD: list_some(
            f"{finding.subject}: {finding.text}" for finding in facts.findings if finding.id in _OVERSOLD
        ),
        NODE_NOT_READY: list_some(finding.subject for finding in facts.findings if finding.id == "balloon-not-ready"),
        FOREIGN_POD: list_some(error.in_one_line for error in facts.problems),
        RECONCILER_DOWN: "it is installed on this machine, but does not respond"
        if reconciler and not reconciler.answers
        else "",
        RECONCILER_FAILING: list_some(reconciler.problems) if reconciler else "",
    }
    return {id: text for id, text in texts.items() if text}


def list_some(texts: Iterable[str]) -> str:
    """The first 20 texts, and how many more there are, joined for a sentence. Empty for none."""
    items = list(texts)
    more = [f"and {len(items) - _NAMED} more"] if len(items) > _NAMED else []
    return "; ".join([*items[:_NAMED], *more])


def _is_absent(node: Node) -> bool:
    return node.balloon is None or node.balloon.state == STARTING


def _is_there(node: Node) -> bool:
    return node.target is not None and is_at_target(node, node.target)


def _describe_distance(node: Node) -> str:
    balloon, target = node.balloon, node.target
    if balloon is None or target is None:
        return node.name
    suffix = f": {balloon.message}" if balloon.message else ""
    return f"{node.name} ({balloon.state}): {balloon.allocated} of {node.balloon_for(target)}{suffix}"


def _answer_enabled(facts: Facts) -> Answer:
    text = f"targets of {pluralize(len(facts.sized), 'node')} on {pluralize(len(facts.hosts), 'host')}"
    lines = [f"{node.name}: {node.target}" for node in facts.sized[:_NAMED]]
    return Answer(YES, text, "annotation balloons.ballast.dev/target of the Nodes", lines=tuple(lines))


def _in_use(facts: Facts) -> Answer:
    kept = sum_of(node.balloon.held - FLOOR for node in facts.sized if node.balloon)
    used = not kept.fits_in(NONE)
    text = (
        f"balloons reserve {kept}"
        if used
        else "every balloon has its minimum size: the nodes offer all of their capacity"
    )
    return Answer(YES if used else NO, text, _NODES, figures=_figures_of("reserved by balloons", kept, _NODES))


def _healthy(facts: Facts, present: Mapping[str, str]) -> Answer:
    how = f"{_NODES}; metrics of kubelets" + (f"; {_STATUS}" if facts.reconciler else "")
    reached = sum(1 for node in facts.sized if _is_there(node))
    figures = (Figure("nodes at their target", float(reached), "", _NODES), *_resizes(facts), *_success(facts))
    wrong = [f"{id}: {text}" for id, text in present.items() if id not in (FOREIGN_POD, KUBELET_REFUSES)]
    if wrong:
        remedy = "check the table of `ballast.kube.balloon_info`; run ballast.kube.balloon again, which reports what blocks it"
        return Answer(
            NO,
            f"at target: {reached} of {pluralize(len(facts.sized), 'node')}; {'; '.join(wrong)}",
            how,
            remedy,
            figures,
            tuple(wrong),
        )
    return Answer(
        YES,
        f"at target: {pluralize(reached, 'node')}, which is all; no host is overcommitted",
        how,
        figures=figures,
    )


def _resizes(facts: Facts) -> tuple[Figure, ...]:
    """Resizes of all pods of these nodes, as a kubelet counts balloons and other pods together."""
    if not facts.kubelets:
        return ()
    samples = [sample for node in facts.kubelets.values() for sample in node]
    buckets = tuple(Bucket(bucket.le / 1000, bucket.count) for bucket in histogram(samples, _RESIZE))
    place = f"/metrics of the kubelets of {list_some(facts.kubelets)}"
    name = f"{_RESIZE}, 99th percentile in seconds"
    return (
        distribution(name, buckets, f"{_RESIZE} of {place}"),
        Figure("pending resizes", total(samples, _PENDING), "", f"{_PENDING} of {place}"),
    )


def _success(facts: Facts) -> tuple[Figure, ...]:
    if facts.reconciler is None:
        return ()
    how = f"seconds_since_success of {_STATUS}"
    return (
        Figure("time since the reconciler found all nodes at target", facts.reconciler.seconds_since_success, "s", how),
    )


def _dependencies(facts: Facts) -> Answer:
    how = "the Nodes' conditions and kubelets' versions; the DaemonSet ballast-balloon and its objects"
    old = [node.name for node in facts.sized if not can_resize(node)]
    away = [node.name for node in facts.sized if not node.ready]
    wrong = [
        (
            f"kubelets that support resizing pods (1.33): {list_some(old)}",
            "upgrade them, or size these nodes with systemReserved",
            old,
        ),
        (f"nodes that are Ready: {list_some(away)}", "see `kubectl describe node`", away),
        (f"objects: {list_some(facts.missing)}", "run ballast.kube.balloon again, which creates them", facts.missing),
    ]
    missing = [(text, remedy) for text, remedy, which in wrong if which]
    if missing:
        return Answer(
            NO, f"missing: {'; '.join(text for text, _do in missing)}", how, "; ".join(do for _text, do in missing)
        )
    return Answer(YES, "every kubelet resizes pods in place, every node is Ready, and the DaemonSet exists", how)


def _disabling(facts: Facts) -> Answer:
    how = "the plan of ballast.kube.balloon with state: absent for these nodes"
    if facts.plan_problem is not None:
        return Answer(NO, facts.plan_problem.in_one_line, how, facts.plan_problem.remedy)
    shared = [host for host in facts.hosts if len(facts.fleet.of_host(host)) > 1]
    warning = f"; {pluralize(len(shared), 'host')} with several nodes may then be overcommitted" if shared else ""
    return Answer(
        YES,
        f"state: absent takes {pluralize(len(facts.plan), 'step')} and ends no pod{warning}",
        how,
        lines=facts.plan,
    )


def _rollback(facts: Facts) -> Answer:
    how = "allocatable of the Nodes, which a balloon does not change; the plan of state: absent"
    if facts.plan_problem is not None:
        return Answer(NO, facts.plan_problem.in_one_line, how, facts.plan_problem.remedy)
    text = (
        "each node offers all of its allocatable again once its balloon is removed; its former target is an annotation"
    )
    return Answer(YES, text, how)


def _scale(facts: Facts) -> Answer:
    broken = [f"{finding.subject}: {finding.text}" for finding in facts.findings if finding.id in _OVERSOLD]
    figures: list[Figure] = []
    for host in facts.hosts[:_NAMED]:
        promised, unreserved = (
            sum_of(node.schedulable for node in facts.fleet.of_host(host)),
            facts.fleet.unreserved(host),
        )
        figures += _figures_of(
            f"schedulable on nodes of {host}", promised, "open and room of `ballast.kube.balloon_info`", unreserved
        )
    how = "open and room of each host of `ballast.kube.balloon_info`"
    if broken:
        remedies = dict.fromkeys(finding.remedy for finding in facts.findings if finding.id in _OVERSOLD)
        return Answer(NO, list_some(broken), how, "; ".join(remedies), tuple(figures))
    return Answer(
        YES,
        f"the nodes of {pluralize(len(facts.hosts), 'host')} are not overcommitted",
        how,
        figures=tuple(figures),
    )


def _figures_of(name: str, size: Resources, how: str, limit: Optional[Resources] = None) -> tuple[Figure, Figure]:
    cpu, memory = (None, None) if limit is None else (limit.cpu / 1000, float(limit.memory))
    return (
        Figure(f"{name}, CPUs", size.cpu / 1000, "", how, cpu),
        Figure(f"{name}, memory", float(size.memory), "B", how, memory),
    )
