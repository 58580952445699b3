# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A management cluster in memory that carries a fleet run over simulated nodes, and what may happen to it.

The engine that follows the run, the record, the workers' decisions and reports are real. The cluster is a model of Kubernetes' Job
controller, which goes by the Job's own fields; a playbook is a model of tasks/batch.yml that makes each node's real course of calls.
Whatever happens, happens between two calls.
"""

from __future__ import annotations

import base64
import random
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Host, Response
from ansible_collections.ballast.kube.plugins.module_utils._core.host.web import no_answer_error
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.client import Api
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.kubeconfig import Credentials
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._core.text.json_text import parse_json
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run import engine as engine_module
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.boundary import Boundary
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.objects import record_path, secret_path
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.record import Record, read_record
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.request import INPUT, FleetRunRequest
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.worker import (
    STOP_FILE,
    Played,
    Settings,
    finish,
    place_of,
    plan_hosts,
    read_settings,
)
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet import kube_proxy_run
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.reports import Facts
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.request import Request
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.slice import with_other_slices
from ansible_collections.ballast.kube.plugins.plugin_utils.kube_proxy_change import change_node
from tests.bench.rollout_node import ConnectionLost, NoAnswer, SimulatedNode
from tests.unit.action import course
from tests.unit.fake_api import SERVER, FakeApi
from tests.unit.fake_parts import json_answer
from tests.unit.fakes import FakeHost

OLD, NEW = "iptables", "nftables"
NAMESPACE = "ballast-fleet"
GATE = {"pause": 0, "command": [], "query": "", "prometheus": "", "threshold": 0.0}
WITHIN = 10_000  # seconds in which a change may be confirmed: schedules take long
_JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
_SPACE = f"/api/v1/namespaces/{NAMESPACE}"
_PODS = f"{_SPACE}/pods"
_LABEL = "batch.kubernetes.io/job-completion-index"

Work = Generator[None, None, int]


class CutOff(BaseException):
    """The machine that follows the run."""


@dataclass(frozen=True)
class _Account(Credentials):
    """The ServiceAccount of workers."""

    of: Optional[Server] = None

    def request(self, host: Host, target: str, **options: Any) -> Response:
        assert self.of is not None
        if self.of.away_until <= self.of.host.monotonic() < self.of.refused_until:
            return json_answer(403, {"message": "forbidden"})
        return super().request(host, target, **options)


class Server(FakeApi):
    def __init__(self) -> None:
        super().__init__()
        self.away_until = 0.0
        self.refused_until = 0.0  # workers: their rights are RBAC's, which is read after a start
        self.workers_api = Api(self.host, _Account(SERVER, of=self))

    def _answer(self, method: str, url: str, body: Optional[bytes]) -> Response:
        if self.host.monotonic() < self.away_until:
            raise no_answer_error(method, url, OSError("connection refused"))
        path = url.partition("?")[0].partition(":6443")[2]
        space = self.objects.get(_SPACE)
        answer = super()._answer(method, url, body)
        if method == "DELETE" and path.startswith(f"{_JOBS}/"):
            self._forget(lambda key: key.startswith(f"{_PODS}/"))
        if method == "DELETE" and path == _SPACE and space is not None:
            ended = {**space["metadata"], "deletionTimestamp": "2026-11-27T00:00:00Z"}
            self.objects[_SPACE] = {**space, "metadata": ended}
        self._end_namespace()
        return answer

    def _end_namespace(self) -> None:
        """Not while it has a Job, whose pods do not go."""
        ending = "deletionTimestamp" in self.objects.get(_SPACE, {}).get("metadata", {})
        if ending and not any(key.startswith(f"{_JOBS}/") for key in self.objects):
            self._forget(
                lambda key: key == _SPACE or key.startswith(f"{_SPACE}/") or f"/namespaces/{NAMESPACE}/" in key
            )

    def _forget(self, chosen: Callable[[str], bool]) -> None:
        for key in [key for key in self.objects if chosen(key)]:
            del self.objects[key]


@dataclass
class Node(SimulatedNode):
    """Writes down what became of it, in order."""

    log: list[str] = field(default_factory=list)

    def run(self, module: str, options: Mapping[str, Any], *, begun: float, now: float, check: bool = False) -> object:
        self._note(lambda: self.tick(begun))
        was_armed = self.is_armed
        before = self.mode
        try:
            return super().run(module, options, begun=begun, now=now, check=check)
        finally:
            self._compare(before)
            if was_armed and not self.is_armed and self.mode == before:
                self.log.append("confirmed")

    def end(self) -> None:
        self._note(lambda: self.tick(10.0**9))

    def _note(self, act: Any) -> None:
        before = self.mode
        act()
        self._compare(before)

    def _compare(self, before: str) -> None:
        if self.mode != before:
            self.log.append("moved" if self.mode == NEW else "back")


@dataclass
class Pod:
    uid: str
    job: str
    index: int
    work: Work
    host: FakeHost
    is_disrupted: bool = False


@dataclass
class World:
    request: FleetRunRequest
    nodes: Mapping[str, Node]
    batch_sizes: Sequence[int]
    chance: random.Random
    events: Sequence[str]  # what may happen
    server: Server = field(default_factory=Server)
    pods: list[Pod] = field(default_factory=list)
    zombies: list[Work] = field(default_factory=list)
    crashes: Counter[tuple[str, int]] = field(default_factory=Counter)
    happened: list[str] = field(default_factory=list)
    begun_when_over: list[str] = field(default_factory=list)
    failed_again: list[str] = field(default_factory=list)
    started: int = 0
    may_happen: int = 12

    def follow(self) -> Mapping[str, Any]:
        """Until the run is over, by as many commands as it takes. What the last one reports."""
        self.server.host.on_sleep.append(self._go_on)
        while True:
            engine = engine_module.FleetRunEngine()
            ctx = Context(self.request, self.server.host)
            with _connected(self.server):
                try:
                    plan = engine.plan(self.request, engine.observe(ctx))
                except BallastError as error:
                    if error.id != "core-no-answer":  # a command that could not begin is repeated by a person
                        raise
                    with suppress(CutOff):
                        self.server.host.sleep(5)
                    continue
                with suppress(CutOff):
                    engine.apply(plan, ctx)
                    return engine.report(ctx)

    @property
    def record(self) -> Record:
        return read_record(self.server.objects[record_path(NAMESPACE)])

    def _go_on(self) -> None:
        """While the one who follows sleeps."""
        for _turn in range(self.chance.randint(1, 12)):
            if f"/api/v1/namespaces/{NAMESPACE}" not in self.server.objects:
                return
            self._control_jobs()
            for work in [*(pod.work for pod in self.pods), *self.zombies]:
                if self.chance.random() < 0.7:
                    self._advance(work)
            if self.events and self.may_happen > 0 and self.chance.random() < 0.15:
                self.may_happen -= 1
                self._happen(self.chance.choice(self.events))

    def _advance(self, work: Work) -> None:
        pod = next((pod for pod in self.pods if pod.work is work), None)
        try:
            next(work)
        except StopIteration as end:
            if pod is None:
                self.zombies.remove(work)
            else:
                self._end(pod, int(end.value))
        except BallastError:  # of a zombie whose run is over
            if pod is not None:
                self._end(pod, 101)
            else:
                self.zombies.remove(work)

    def _happen(self, event: str) -> None:
        self.happened.append(event)
        if event == "cut off":
            raise CutOff
        if event in ("API away", "restart"):
            self.server.away_until = self.server.host.monotonic() + self.chance.uniform(10, 120)
            self.server.refused_until = self.server.away_until + self.chance.uniform(0, 50)
        victims = list(self.pods) if event in ("restart", "drain") else self.pods[:1]
        self.chance.shuffle(victims)
        for pod in victims:
            if event in ("kill", "restart"):
                self._end(pod, 137)
            elif event in ("evict", "drain"):
                self._evict(pod)
            elif event == "node lost":
                pod.is_disrupted = True
                self.zombies.append(pod.work)
                self._end(pod, 137)

    def _evict(self, pod: Pod) -> None:
        """It may end its batch, or is killed where that takes too long."""
        pod.is_disrupted = True
        pod.host.given(STOP_FILE)
        if self.chance.random() < 0.5:
            self._end(pod, 137)

    def _end(self, pod: Pod, status: int) -> None:
        """As the Job's own rules have it."""
        self.pods.remove(pod)
        job = self.server.objects[f"{_JOBS}/{pod.job}"]
        action = _action(job["spec"]["podFailurePolicy"]["rules"], status, is_disrupted=pod.is_disrupted)
        state = job.setdefault("status", {})
        key = (pod.job, pod.index)
        if status == 0:
            _add(state, "completedIndexes", pod.index)
        elif action == "FailIndex":
            _add(state, "failedIndexes", pod.index)
        elif action == "Count":
            self.crashes[key] += 1
            if self.crashes[key] > job["spec"]["backoffLimitPerIndex"]:
                _add(state, "failedIndexes", pod.index)
        del self.server.objects[f"{_PODS}/{pod.uid}"]

    def _control_jobs(self) -> None:
        for path, job in list(self.server.objects.items()):
            if not path.startswith(f"{_JOBS}/"):
                continue
            name, spec, state = path.rpartition("/")[2], job["spec"], job.setdefault("status", {})
            ended = _indexes(state, "completedIndexes") | _indexes(state, "failedIndexes")
            at_work = {pod.index for pod in self.pods if pod.job == name}
            for index in range(spec["completions"]):
                if index not in ended | at_work and len(at_work) < spec["parallelism"]:
                    at_work.add(index)
                    self._begin(name, index)
            if len(ended) == spec["completions"] and "conditions" not in state:
                kind = "Failed" if _indexes(state, "failedIndexes") else "Complete"
                state["conditions"] = [{"type": kind, "status": "True"}]

    def _begin(self, job: str, index: int) -> None:
        self.started += 1
        uid, host = f"pod-{self.started}", FakeHost()
        for name, data in self.server.objects[secret_path(NAMESPACE)]["data"].items():
            host.given(f"{INPUT}/{name}", base64.b64decode(data))
        labels = {"batch.kubernetes.io/job-name": job, _LABEL: str(index)}
        self.server.add(f"{_PODS}/{uid}", {"metadata": {"name": uid, "labels": labels}, "status": {"phase": "Running"}})
        environ = {"JOB_COMPLETION_INDEX": str(index), "BALLAST_NAMESPACE": NAMESPACE, "BALLAST_POD": uid}
        kind = job.rpartition("-")[2]
        self.pods.append(Pod(uid, job, index, self._work(kind, environ, host), host))

    def _work(self, kind: str, environ: Mapping[str, str], host: FakeHost) -> Work:
        """What worker.main does."""
        place = place_of([kind], environ)
        settings = read_settings(host, place.name)
        boundary = Boundary(_WorkerHost(host, self.server.host), self.server.workers_api, place)  # type: ignore[arg-type]
        yield
        claimed = boundary.claim()
        yield
        left, played = plan_hosts(settings, claimed)
        if played is None:
            played = yield from self._play(settings, left, boundary)
        yield
        return finish(host, boundary, place, played, settings, claimed.own)

    def _play(self, settings: Settings, hosts: Sequence[str], boundary: Boundary) -> Generator[None, None, Played]:
        most = settings.variables["kube_proxy_max_fail"]
        request = Request("kube_proxy_migrate", hosts=tuple(hosts), acts=True, mode=NEW, max_fail=most, gate=GATE)
        looks: dict[str, Any] = {}
        for host in hosts:
            looks[host] = yield from self._look(host)
        silent = {host: str(look["msg"]) for host, look in looks.items() if look.get("unreachable")}
        changing = [
            host for host in hosts if host not in silent and (looks[host]["mode"] != NEW or looks[host]["armed"])
        ]
        changed: dict[str, Any] = {}
        back: dict[str, Any] = {}
        failed: list[str] = []
        stop = len(silent) > most
        for batch in [] if stop else _batches(changing, self.batch_sizes):
            if silent:
                boundary.count(failed=silent)
            if boundary.may_begin(batch).stop:
                break
            if self.record.is_over:
                self.begun_when_over.append(batch[0])
            for host in batch:
                self.failed_again += [host] if host in self.record.failed else []
                changed[host] = yield from self._change(host, mode=NEW)
            after: dict[str, Any] = {}
            for host in batch:
                is_changed = changed[host]["changed"] and not changed[host].get("failed")
                after[host] = (yield from self._look(host)) if is_changed else {"skipped": True}

            before = [*silent, *failed]

            def compose(facts: Facts, batch: Any = batch, after: Any = after, before: Any = before) -> Any:
                return kube_proxy_run.judge_batch(
                    request, batch, changed, after, failed_before=before, elsewhere=facts.elsewhere
                )

            facts = Facts(request, results=dict, value=dict, local=dict)  # type: ignore[arg-type]
            verdict = with_other_slices(boundary, facts, compose).facts
            for host in verdict["take_back"]:
                back[host] = yield from self._change(host, state="previous")
            failed += verdict["failed_hosts"]
            if verdict["stop"]:
                break
        run = kube_proxy_run.Run(looks, silent, changing, changed, back, failed)
        return Played().after(kube_proxy_run.outcome(request, run).as_result())

    def _change(self, host: str, **options: Any) -> Generator[None, None, dict[str, Any]]:
        """The node's real course, one call after the other."""
        run = course.Run(self.nodes[host])
        given_options = {"confirm_within": WITHIN, **options}
        typed, problems = course.read_typed(course.SPEC, given_options)
        assert problems == []
        request = course.Request.from_options(given_options, typed, check_mode=False)
        calls = change_node(request)
        try:
            call = next(calls)
            while True:
                yield
                run.now = self.server.host.monotonic()
                answer = run.ask(call, request)
                yield
                call = calls.send(answer)
        except StopIteration as end:
            result: dict[str, Any] = end.value.as_result(began=1.0, seconds=2.0)
            return result

    def _look(self, host: str) -> Generator[None, None, dict[str, Any]]:
        yield
        now = self.server.host.monotonic()
        try:
            result = self.nodes[host].run("kube_proxy_info", {}, begun=now, now=now + 1)
        except (ConnectionLost, NoAnswer) as error:
            return {"unreachable": True, "msg": str(error) or "no answer"}
        assert isinstance(result, dict)
        return result


@dataclass
class _WorkerHost:
    """Files of the pod, and the world's clock. The world stands still while a worker waits."""

    files: FakeHost
    clock: FakeHost

    def monotonic(self) -> float:
        return self.clock.monotonic()

    def sleep(self, seconds: float) -> None:
        hooks, self.clock.on_sleep[:] = list(self.clock.on_sleep), []
        self.clock.sleep(seconds)
        self.clock.on_sleep[:] = hooks

    def stat(self, path: str) -> Any:
        return self.files.stat(path)


class _connected:
    """The engine, at this server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._real = engine_module.connect

    def __enter__(self) -> None:
        engine_module.connect = lambda *_given, **_named: self._server.api  # type: ignore[assignment]

    def __exit__(self, *_error: object) -> None:
        engine_module.connect = self._real


def make_world(
    faults: Mapping[str, Any], *, slices: int, max_fail: int, sizes: Sequence[int], seed: int, events: Sequence[str]
) -> World:
    """`faults` by node."""
    nodes = {name: Node(name, OLD, change_seconds=5.0, faults=replace(fault)) for name, fault in faults.items()}
    request = FleetRunRequest(
        kubeconfig="",
        context="",
        namespace=NAMESPACE,
        state="present",
        image="ee:1",
        playbook="kube_proxy_migrate",
        hosts=tuple(nodes),
        max_fail=max_fail,
        acts=True,
        slice_count=slices,
        parallelism=slices,
        directory="/srv/fleet",
        inventory={"hosts": {name: {"a": 1} for name in nodes}, "groups": {}, "extra": {"kube_proxy_mode": NEW}},
    )
    return World(request, nodes, sizes, random.Random(seed), events)


def _batches(names: Sequence[str], sizes: Sequence[int]) -> Iterator[Sequence[str]]:
    number = 0
    while names:
        size = sizes[min(number, len(sizes) - 1)]
        yield names[:size]
        names, number = names[size:], number + 1


def _action(rules: Sequence[Mapping[str, Any]], status: int, *, is_disrupted: bool) -> str:
    for rule in rules:
        if status in rule.get("onExitCodes", {}).get("values", ()):
            return str(rule["action"])
        if is_disrupted and any(row["type"] == "DisruptionTarget" for row in rule.get("onPodConditions", ())):
            return str(rule["action"])
    return "Count"


def _indexes(state: Mapping[str, Any], name: str) -> set[int]:
    return {int(part) for part in str(state.get(name, "")).split(",") if part}


def _add(state: dict[str, Any], name: str, index: int) -> None:
    state[name] = ",".join(map(str, sorted(_indexes(state, name) | {index})))


def report_of(world: World) -> Mapping[str, Any]:
    """As the run has written it."""
    data = world.server.host.read("/srv/fleet/report.json")
    assert data is not None
    body: Mapping[str, Any] = parse_json(data)
    return body
