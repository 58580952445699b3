# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The service proxy as a DaemonSet: creates its objects and waits for its pods; on removal, removes the rules of all
nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Optional, Union

from ..._core.engine.context import Context
from ..._core.engine.engine import BaseEngine, Finding
from ..._core.engine.wait import Pending, Ready, wait
from ..._core.kube import connection
from ..._core.kube.client import Api
from ..._core.kube.objects import (
    Object,
    ObjectStep,
    apply_step,
    find_objects,
    object_steps,
    steps_as_result,
    steps_diff,
)
from ..._core.text.errors import BallastError, PeerError
from .messages import MESSAGES
from .objects import NAME, NAMESPACE, SET_PATH, cleaning_daemonset, daemonset_objects, missing_pods
from .request import PRESENT, DaemonSetRequest

_SECONDS = 300  # until all pods match their template
_INTERVAL = 0.5

State = Mapping[str, Optional[Object]]  # the objects by path; None for an absent one


@dataclass(frozen=True)
class Plan:
    steps: tuple[ObjectStep, ...]


class DaemonSetEngine(BaseEngine[DaemonSetRequest, State, Plan]):
    def observe(self, ctx: Context[DaemonSetRequest]) -> State:
        return find_objects(_api(ctx), daemonset_objects(ctx.desired))

    def plan(self, desired: DaemonSetRequest, state: State) -> Plan:
        """For a removal, the pods first remove the rules of their nodes."""
        present = desired.state == PRESENT
        steps = object_steps(daemonset_objects(desired), state, present=present, foreign=_foreign)
        there = state[SET_PATH]
        if not present and there is not None:
            cleaning = {SET_PATH: cleaning_daemonset(there)}
            steps = (*object_steps(cleaning, {SET_PATH: there}, present=True, foreign=_foreign), *steps)
        return Plan(steps)

    def as_result(self, plan: Plan) -> dict[str, object]:
        return {"steps": steps_as_result(plan.steps)}

    def diff(self, plan: Plan) -> list[dict[str, str]]:
        return steps_diff(plan.steps)

    def apply(self, plan: Plan, ctx: Context[DaemonSetRequest]) -> Plan:
        api = _api(ctx)
        for step in plan.steps:
            ctx.progress.started(step.title, f"{step.verb} {step.title}")
            if step.path == SET_PATH and step.after is None:
                _wait_for_pods(ctx, api)
            apply_step(api, step)
            ctx.progress.done(step.title, "")
        return plan

    def verify(self, ctx: Context[DaemonSetRequest]) -> list[Finding]:
        findings = [Finding(each.id, "config", each.text, each.remedy, blocking=False) for each in ctx.desired.warnings]
        if self.plan(ctx.desired, self.observe(ctx)).steps:
            return [*findings, _finding(MESSAGES.error("service-proxy-daemonset-lost"))]
        if ctx.desired.state == PRESENT:
            try:
                _wait_for_pods(ctx, _api(ctx))
            except PeerError as error:
                findings.append(_finding(error))
        return findings


ENGINE = DaemonSetEngine()


def _api(ctx: Context[DaemonSetRequest]) -> Api:
    return connection.connect(ctx.host, ctx.desired.kubeconfig, ctx.desired.context)


def _wait_for_pods(ctx: Context[DaemonSetRequest], api: Api) -> None:
    def probe() -> Union[Ready[None], Pending]:
        missing = missing_pods(api.get(SET_PATH))
        return Pending(missing) if missing else Ready(None)

    try:
        wait(ctx.host, ctx.progress, f"DaemonSet {NAME}", probe, deadline_seconds=_SECONDS, interval=_INTERVAL)
    except PeerError as error:
        fields = {"name": NAME, "namespace": NAMESPACE, "seconds": _SECONDS}
        raise MESSAGES.error("service-proxy-daemonset-pods", found=error.found, **fields) from error


def _finding(error: BallastError) -> Finding:
    return Finding(error.id, f"DaemonSet {NAME}", error.in_one_line, error.remedy)


def _foreign(kind: str, name: str) -> BallastError:
    return MESSAGES.error("service-proxy-daemonset-foreign", kind=kind, name=name)
