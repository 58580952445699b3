# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `balloon_info` returns, and what a reading of production readiness takes besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Optional

from .._core.errors import BallastError
from .._core.exposition import Sample, parse_exposition
from .._core.host import Host
from .._core.kubeapi import Api, api_by
from .deployment.installation import INSTALLATION, RUNNING
from .engine import BalloonEngine, Found, api_of, cluster_of, held_to_no_sum, reported, with_limits
from .facts import Fleet
from .objects import read_objects
from .reading import Reading as Read
from .readings import METRICS, Facts, Reconciler, reading_of
from .report import findings
from .request import ABSENT, NodeRequest, Request

_KUBELETS = 10  # of a larger fleet, the metrics of so many are read
_SECONDS = 5  # for the metrics of one


def read_params(host: Host, params: Mapping[str, Any]) -> Mapping[str, Any]:
    desired = Request.to_read(params)
    cluster = cluster_of(desired, api_of(desired, host), host)
    cluster.load()
    read = cluster.reading()
    fleet = with_limits(read.fleet, desired, host)
    names = tuple(row.name for row in desired.nodes) or tuple(fleet.nodes)
    wrong = findings(fleet, names)
    found = {**reported(fleet, {}, {}, names), "findings": [asdict(one) for one in wrong]}
    if not params["readiness"]:
        return found
    facts = _facts(host, desired, replace(read, fleet=fleet), names)
    return {**found, "readiness": reading_of(replace(facts, findings=tuple(wrong))).as_json()}


def _facts(host: Host, desired: Request, read: Read, names: Sequence[str]) -> Facts:
    nothing = Facts(read.fleet, tuple(names), (), read.problems, (), (), None, None, {})
    if not nothing.sized:
        return nothing
    missing, plan, problem = _plan(api_of(desired, host), desired, read.fleet, names)
    return replace(
        nothing,
        missing=missing,
        plan=plan,
        plan_problem=problem,
        reconciler=_reconciler(host),
        kubelets=_metrics(host, desired, nothing),
    )


def _plan(
    api: Api, desired: Request, fleet: Fleet, names: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...], Optional[BallastError]]:
    """Objects that are missing; the steps of `state: absent`, or why there are none."""
    given = {row.name: row for row in desired.nodes}
    rows = tuple(given.get(name, NodeRequest(name)) for name in names if name in fleet.nodes)
    absent = replace(desired, state=ABSENT, nodes=rows)
    missing: tuple[str, ...] = ()
    try:
        there = read_objects(api, absent)
        missing = tuple(
            path.rpartition("/")[2] + " of " + path.split("/")[-2] for path, one in there.objects.items() if one is None
        )
        engine = BalloonEngine()
        steps: Any = engine.told(engine.plan(absent, Found(there, held_to_no_sum(fleet))))["steps"]
    except BallastError as error:
        return missing, (), error
    return missing, tuple(f"{step['verb']} {step['title']}" for step in steps), None


def _reconciler(host: Host) -> Optional[Reconciler]:
    if host.stat(INSTALLATION.config) is None:
        return None
    status = RUNNING.status(host)
    if status is None:
        return Reconciler(answers=False)
    problems, since = status.get("problems"), status.get("seconds_since_success")
    return Reconciler(
        answers=True,
        problems=tuple(str(one) for one in problems) if isinstance(problems, list) else (),
        seconds_since_success=float(since) if isinstance(since, (int, float)) else None,
    )


def _metrics(host: Host, desired: Request, facts: Facts) -> dict[str, tuple[Sample, ...]]:
    """Of the first nodes that are Ready. Who may not read them, or has no answer in time, is left out."""
    api = api_by(host, desired.kubeconfig, timeout=_SECONDS)
    found = {}
    for node in [node for node in facts.sized if node.ready][:_KUBELETS]:
        try:
            text = api.text(f"/api/v1/nodes/{node.name}/proxy/metrics")
        except BallastError:
            continue
        found[node.name] = parse_exposition(text, METRICS)
    return found
