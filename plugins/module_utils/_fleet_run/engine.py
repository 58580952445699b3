# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fleet run on a management cluster: makes, follows, gathers and removes it.

It needs no process of ours while it runs: the Jobs and the record are enough. Each turn of the loop reads what exists and does what
`next_step` says, so an interrupted run is found and continues.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Optional, TypeVar

from .._core.engine.context import Context
from .._core.engine.engine import BaseEngine, Finding
from .._core.kube.client import Api, is_temporary
from .._core.kube.connection import connect
from .._core.kube.objects import MANAGER, ObjectStep, apply_step, object_steps, steps_as_result, steps_diff
from .._core.text.errors import BallastError, PeerError
from .._core.text.json_text import mapping_in
from .boundary import wait_for_rights
from .decide import END, FOLLOW, GATHER, MAKE, REMOVE, START, foreign_error, next_step, refuse
from .messages import MESSAGES
from .objects import build_job, build_objects, job_path, namespace_path, secret_path
from .progress import progress_lines
from .record import Record
from .report import FleetReport, merge_reports
from .request import PRESENT, FleetRunRequest
from .slices import CANARY, SLICE
from .state import PodState, RunState, read_run

_POLL_SECONDS = 2.0
_NO_LOG = "no log: "
_ENDED = ("Succeeded", "Failed")
_AWAY_SECONDS = 1800.0
_LOG_BYTES = 4_000_000  # of a pod, the end of it
_LOG_TRIES = 3
_EMPTY = FleetReport((), {}, "")

T = TypeVar("T")


@dataclass(frozen=True)
class Plan:
    """`steps` make the objects and the Jobs, or remove the Namespace."""

    steps: tuple[ObjectStep, ...]


class FleetRunEngine(BaseEngine[FleetRunRequest, RunState, Plan]):
    def __init__(self) -> None:
        self._report = _EMPTY
        self._files: list[str] = []

    def observe(self, ctx: Context[FleetRunRequest]) -> RunState:
        return read_run(ctx.desired, _api(ctx))

    def plan(self, desired: FleetRunRequest, state: RunState) -> Plan:
        refuse(desired, state)
        if desired.state != PRESENT:
            path = namespace_path(desired.namespace)
            return Plan((ObjectStep(path, "Namespace", state.namespace, None),) if state.namespace else ())
        objects = build_objects(desired)
        actual = {path: state.objects.get(path) for path in objects}
        steps = object_steps(objects, actual, present=True, foreign=foreign_error)
        jobs = [job for job in (CANARY, SLICE) if job not in state.jobs and _hosts(desired, job)]
        made = [ObjectStep(job_path(desired.namespace, job), "Job", None, build_job(desired, job)) for job in jobs]
        return Plan((*steps, *made))

    def as_result(self, plan: Plan) -> dict[str, object]:
        return {"steps": steps_as_result(plan.steps)}

    def diff(self, plan: Plan) -> list[dict[str, str]]:
        return steps_diff([_without_secrets(step) for step in plan.steps])

    def preview(self, ctx: Context[FleetRunRequest]) -> dict[str, object]:
        sizes = {name: len(hosts) for name, hosts in ctx.desired.slices.by_name.items()} if ctx.desired.hosts else {}
        return {"slices": sizes, "lines": [], "nodes": {}, "failure": "", "files": []}

    def report(self, ctx: Context[FleetRunRequest]) -> dict[str, object]:
        report = {"lines": list(self._report.lines), "nodes": dict(self._report.nodes), "failure": self._report.failure}
        return {**self.preview(ctx), **report, "files": self._files}

    def verify(self, ctx: Context[FleetRunRequest]) -> list[Finding]:
        """Nothing to verify: the run has waited until its Namespace was gone."""
        return []

    def apply(self, plan: Plan, ctx: Context[FleetRunRequest]) -> Plan:
        run = _Run(ctx)
        run.go_on()
        self._report, self._files = run.report or _EMPTY, run.files
        return plan


def _api(ctx: Context[FleetRunRequest]) -> Api:
    return connect(ctx.host, ctx.desired.kubeconfig, ctx.desired.context)


def _hosts(request: FleetRunRequest, job: str) -> tuple[object, ...]:
    return request.slices.canary if job == CANARY else request.slices.slices


class _Run:
    def __init__(self, ctx: Context[FleetRunRequest]) -> None:
        self._ctx = ctx
        self._request = ctx.desired
        self._api = _api(ctx)
        self._at_work: list[str] = []  # slices that have a line
        self._logged: set[str] = set()  # pods that have ended, and whose logs are written
        self._log_tries: Counter[str] = Counter()  # by pod
        self._uid = ""  # of the Namespace that this command follows
        self.report: Optional[FleetReport] = None
        self.files: list[str] = []

    def go_on(self) -> None:
        """Work until nothing is left of the run."""
        while True:
            state = self._look()
            self._write_logs([pod for pod in state.pods if pod.phase in _ENDED or pod.is_ending])
            step = next_step(self._request, state, is_gathered=self.report is not None)
            if step.kind == END:
                return
            if step.kind == MAKE:
                self._make(state)
            elif step.kind == START:
                self._start(step.job)
            elif step.kind == GATHER:
                if self._write_logs(state.pods, is_last=True):
                    self._gather(state)
                else:
                    self._ctx.host.sleep(_POLL_SECONDS)
            elif step.kind == REMOVE:
                self._remove(state)
            elif step.kind == FOLLOW:
                self._tell(state)
                self._ctx.host.sleep(_POLL_SECONDS)
            else:
                self._remove_jobs()
                self._ctx.progress.waiting("namespace", "being removed")
                self._ctx.host.sleep(_POLL_SECONDS)

    def _look(self) -> RunState:
        """The state of the run. Error if the run was removed while it was followed: it must not begin again, as whoever removed it wants no
        further node changed. A Namespace that replaced the one removed by this command belongs to another run."""
        state = self._patiently(self._read)
        is_followed = self._request.state == PRESENT and self.report is None
        if is_followed and self._uid and (state.uid != self._uid or state.is_terminating):
            raise MESSAGES.error("fleet-run-removed", namespace=self._request.namespace)
        if not is_followed and self._uid and state.uid != self._uid:
            return RunState(None)
        if not is_followed or not state.is_terminating:
            self._uid = state.uid
        return state

    def _read(self) -> RunState:
        """The state as read. Missing rights are an error at the start; later they are waited for, as this user has seen the run before."""
        if not self._uid:
            return read_run(self._request, self._api)
        return wait_for_rights(self._ctx.host, lambda: read_run(self._request, self._api))

    def _make(self, state: RunState) -> None:
        """Make the objects. Stops at one that exists now: another command may be making the same run, or another one."""
        objects = build_objects(self._request)
        actual = {path: state.objects.get(path) for path in objects}
        for step in object_steps(objects, actual, present=True, foreign=foreign_error):
            if step.before is None:
                self._ctx.progress.started(step.title, f"make {step.title}")
                is_made = self._once(lambda step=step: apply_step(self._api, step))  # type: ignore[misc]
                self._ctx.progress.done(step.title)
                if not is_made:
                    return

    def _start(self, job: str) -> None:
        body = build_job(self._request, job)
        self._ctx.progress.started(f"Job {body['metadata']['name']}", "begin")
        path = job_path(self._request.namespace, job).rpartition("/")[0]
        self._once(lambda: self._api.create(path, body, MANAGER))
        self._ctx.progress.done(f"Job {body['metadata']['name']}")

    def _tell(self, state: RunState) -> None:
        lines = dict(progress_lines(self._request, state))
        for name in [name for name in self._at_work if name not in lines]:
            self._ctx.progress.done(name)
        for name, text in lines.items():
            self._ctx.progress.waiting(name, text)
        self._at_work = list(lines)

    def _gather(self, state: RunState) -> None:
        """What each slice wrote, and one report of all, in the directory of the run."""
        record = state.record or Record(self._request.max_fail)
        report = merge_reports(self._request, record, state.reports)
        body = {"nodes": dict(report.nodes), "failure": report.failure, "slices": dict(state.reports)}
        self._write("report.json", json.dumps(body, indent=1, sort_keys=True) + "\n")
        self._write("report.txt", "\n".join(report.lines) + "\n")
        self.report = report

    def _write_logs(self, pods: Sequence[PodState], *, is_last: bool = False) -> bool:
        """Write the end of each pod's log: for the last time once the pod has ended. A pod that is evicted, or whose node is drained, takes
        its log along when it ends, so it is written at every look until then. Returns whether all were written for the last time."""
        for pod in pods:
            if pod.name not in self._logged:
                log = self._log(pod.name)
                if log is None:
                    continue
                name = f"{pod.slice_name or 'pod'}-{pod.name}.log"
                # What was written before is more than the reason why there is no log any more.
                if not log.startswith(_NO_LOG) or not self._ctx.host.stat(os.path.join(self._request.directory, name)):
                    self._write(name, log)
                if is_last or pod.phase in _ENDED:
                    self._logged.add(pod.name)
        return self._logged >= {pod.name for pod in pods}

    def _log(self, pod: str) -> Optional[str]:
        """The log, or a line that says why there is none: the pod never ran, or is gone. None if a later look may try again: a few
        times only, as the API server asks the pod's machine, which may be lost."""
        path = f"{namespace_path(self._request.namespace)}/pods/{pod}/log"
        try:
            return self._api.text(path, {"limitBytes": str(_LOG_BYTES), "tailLines": "20000"})
        except PeerError as error:
            self._log_tries[pod] += 1
            if is_temporary(error) and self._log_tries[pod] < _LOG_TRIES:
                return None
            return f"{_NO_LOG}{error.in_one_line}\n"

    def _write(self, name: str, text: str) -> None:
        """Only the user may read the file: a log may contain what a playbook printed."""
        path = os.path.join(self._request.directory, name)
        self._ctx.host.make_directory(self._request.directory, mode=0o700)
        self._ctx.host.write(path, text.encode(), mode=0o600)
        if path not in self.files:
            self.files.append(path)

    def _remove(self, state: RunState) -> None:
        """Remove the Secret first, as pods take minutes to end."""
        self._ctx.progress.started("namespace", f"remove {self._request.namespace}")
        self._patiently(lambda: self._api.delete(secret_path(self._request.namespace)))
        self._remove_jobs()
        path, uid = namespace_path(self._request.namespace), mapping_in(state.namespace, "metadata").get("uid")
        self._patiently(lambda: self._api.delete(path, {"preconditions": {"uid": uid}}))

    def _remove_jobs(self) -> None:
        """Kubernetes removes the pods of a Namespace before its Jobs, but a failed pod whose index is to be retried stays as long as its
        Job: in a Namespace that is being removed no pod can replace it."""
        for job in (CANARY, SLICE):
            path = job_path(self._request.namespace, job)
            self._patiently(lambda path=path: self._api.delete(path, {"propagationPolicy": "Background"}))  # type: ignore[misc]

    def _once(self, create: Callable[[], object]) -> bool:
        """Create an object. False if it exists, made by another command or by a request whose answer was lost: the next look decides."""
        try:
            self._patiently(create)
        except PeerError as error:
            if error.id != "core-api-conflict":
                raise
            return False
        return True

    def _patiently(self, ask: Callable[[], T]) -> T:
        """Repeat the request while the API server is away, as the run continues without this command."""
        deadline = self._ctx.host.monotonic() + _AWAY_SECONDS
        while True:
            try:
                return ask()
            except PeerError as error:
                if not is_temporary(error):
                    raise
                if self._ctx.host.monotonic() > deadline:
                    raise _away(error) from error
                self._ctx.progress.waiting("API server", error.in_one_line)
            self._ctx.host.sleep(_POLL_SECONDS)


def _away(error: BallastError) -> BallastError:
    return MESSAGES.error("fleet-run-away", seconds=f"{_AWAY_SECONDS:.0f}", found=error.in_one_line)


def _without_secrets(step: ObjectStep) -> ObjectStep:
    """The step, with only the names of its files if it is a Secret."""
    if step.kind != "Secret":
        return step
    before, after = (
        None if side is None else {"files": sorted(mapping_in(side, "data"))} for side in (step.before, step.after)
    )
    return replace(step, before=before, after=after)


ENGINE = FleetRunEngine()
