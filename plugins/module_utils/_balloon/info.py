# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `balloon_info` returns, with the facts of its production readiness report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Optional

from .._core.host.host import Host
from .._core.kube.client import Api
from .._core.kube.connection import connect
from .._core.kube.kubelet_api import read_kubelet_text
from .._core.text.errors import BallastError
from .._core.text.exposition import Sample, parse_exposition
from .cluster.facts import Fleet
from .cluster.reading import Observation
from .deployment.installation import INSTALLATION, RUNNING
from .deployment.objects import locate, read_objects
from .engine import BalloonEngine, BalloonsState, api_of, cluster_of, report_fleet, with_limits, without_sum
from .readiness_answers import METRICS, Facts, Reconciler, build_report
from .report import findings
from .request import ABSENT, BalloonsRequest, NodeRequest

_KUBELETS = 10  # of a larger fleet, only so many kubelets are asked for metrics
_SECONDS = 5  # for the metrics of one kubelet


def read_params(host: Host, params: Mapping[str, Any]) -> Mapping[str, Any]:
    desired = BalloonsRequest.to_read(params)
    api = api_of(desired, host)
    desired = locate(desired, api)
    cluster = cluster_of(desired, api, host)
    cluster.load()
    observation = cluster.observe()
    fleet = with_limits(observation.fleet, desired, host)
    names = tuple(row.name for row in desired.nodes) or tuple(fleet.nodes)
    wrong = findings(fleet, names)
    result = {**report_fleet(fleet, {}, {}, names), "findings": [asdict(finding) for finding in wrong]}
    if not params["readiness"]:
        return result
    facts = _read_facts(host, desired, replace(observation, fleet=fleet), names)
    return {**result, "readiness": build_report(replace(facts, findings=tuple(wrong))).as_json()}


def _read_facts(host: Host, desired: BalloonsRequest, observation: Observation, names: Sequence[str]) -> Facts:
    nothing = Facts(observation.fleet, tuple(names), (), observation.problems, (), (), None, None, {})
    if not nothing.sized:
        return nothing
    missing, plan, problem = _plan_removal(api_of(desired, host), desired, observation.fleet, names)
    return replace(
        nothing,
        missing=missing,
        plan=plan,
        plan_problem=problem,
        reconciler=_read_reconciler(host),
        kubelets=_read_metrics(host, desired, nothing),
    )


def _plan_removal(
    api: Api, desired: BalloonsRequest, fleet: Fleet, names: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...], Optional[BallastError]]:
    """The missing objects, and the steps of `state: absent` or the error that prevents them."""
    given = {row.name: row for row in desired.nodes}
    rows = tuple(given.get(name, NodeRequest(name)) for name in names if name in fleet.nodes)
    absent = replace(desired, state=ABSENT, nodes=rows)
    missing: tuple[str, ...] = ()
    try:
        there = read_objects(api, absent)
        missing = tuple(
            path.rpartition("/")[2] + " of " + path.split("/")[-2]
            for path, existing in there.objects.items()
            if existing is None
        )
        engine = BalloonEngine()
        steps: Any = engine.as_result(engine.plan(absent, BalloonsState(there, without_sum(fleet), absent.namespace)))[
            "steps"
        ]
    except BallastError as error:
        return missing, (), error
    return missing, tuple(f"{step['verb']} {step['title']}" for step in steps), None


def _read_reconciler(host: Host) -> Optional[Reconciler]:
    if host.stat(INSTALLATION.config) is None:
        return None
    status = RUNNING.status(host)
    if status is None:
        return Reconciler(answers=False)
    problems, since = status.get("problems"), status.get("seconds_since_success")
    return Reconciler(
        answers=True,
        problems=tuple(str(text) for text in problems) if isinstance(problems, list) else (),
        seconds_since_success=float(since) if isinstance(since, (int, float)) else None,
    )


def _read_metrics(host: Host, desired: BalloonsRequest, facts: Facts) -> dict[str, tuple[Sample, ...]]:
    """Metrics by node, of the first Ready nodes. A kubelet that refuses or does not answer in time is left out."""
    api = connect(host, desired.kubeconfig, desired.context, timeout=_SECONDS)
    samples = {}
    for node in [node for node in facts.sized if node.ready][:_KUBELETS]:
        try:
            text = read_kubelet_text(api, api.get(f"/api/v1/nodes/{node.name}"), "/metrics")
        except BallastError:
            continue
        samples[node.name] = parse_exposition(text, METRICS)
    return samples
