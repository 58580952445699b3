# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Resizes carried out against the model cluster, over real HTTP: outcomes, faults, an interrupt, and a fleet of 500 nodes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster import lease
from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.cluster import Cluster
from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.lease import Leases, lease_name
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize import executor
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.executor import execute_resizes
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.scheduler import ResizeScheduler
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import Resources
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import Event, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, HostError
from tests.model_cluster.amounts import Pair, pair
from tests.model_cluster.model import GIB, NAMESPACE, TARGET, ModelCluster
from tests.model_cluster.requests import Asked, Refusal
from tests.model_cluster.store import Object
from tests.unit.balloon.executor_runs import HOST, LEASES, TRADE, Told, desired, hurry, kinds, run, run_only


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


@pytest.fixture
def model() -> Iterator[ModelCluster]:
    """Two nodes share a host of 4 CPU and 8 GiB, half each."""
    with ModelCluster() as found:
        for name in ("n1", "n2"):
            found.add_node(name, balloon=Pair(2000, 4 * GIB))
        found.sums.watch()
        yield found


def annotation(model: ModelCluster, node: str) -> Optional[str]:
    found: Optional[str] = model.node(node)["metadata"]["annotations"].get(TARGET)
    return found


def test_a_trade_between_two_nodes(model: ModelCluster) -> None:
    told = Told()
    found = run(model, TRADE, told=told)
    assert kinds(found) == {"n1": "done", "n2": "done"}
    assert (found["n1"].before, found["n1"].after) == (Resources(2000, 4 * GIB), Resources(3000, 6 * GIB))
    assert annotation(model, "n2") == '{"cpu": "3000m", "memory": "6144Mi"}'
    order = [(kind, subject) for kind, subject, _text in told.events if kind in ("started", "done")]
    assert order.index(("started", "node n1")) < order.index(("started", "node n2"))
    assert ("started", "node n1", "grow the balloon to 3000m cpu, 6144Mi memory") in told.events
    assert ("done", "node n2", "balloon 1000m cpu, 2048Mi memory") in told.events
    calls = {call: count for call, count in model.server.calls.items() if "LIST" not in call and "WATCH" not in call}
    assert calls == {"PATCH pods/resize": 2, "PATCH nodes": 2, "POST leases": 1, "DELETE leases": 1}


def test_a_second_run_writes_nothing_but_its_lease(model: ModelCluster) -> None:
    run(model, TRADE)
    model.server.calls.clear()
    assert set(kinds(run(model, TRADE)).values()) == {"done"}
    assert not [call for call in model.server.calls if call.startswith("PATCH")]


def test_growth_that_pods_leave_no_room_for_is_reverted(model: ModelCluster) -> None:
    model.add_pod("web", "n1", cpu=1500, memory=GIB)
    told = Told()
    found = run(model, TRADE, told=told)
    assert kinds(found) == {"n1": "reverted", "n2": "blocked"}
    assert "enough resource: cpu" in found["n1"].text
    assert desired(model, "n1") == Pair(2000, 4 * GIB)
    assert (annotation(model, "n1"), annotation(model, "n2")) == (None, None)
    assert model.pod("web")["status"]["phase"] == "Running"
    assert [text for kind, _subject, text in told.events if kind == "waiting" and "deferred" in text]
    assert "failed" in [kind for kind, _subject, _text in told.events]


def test_what_can_never_be_is_put_back(model: ModelCluster) -> None:
    model.kubelets.habit("n1").never_fits = True
    assert kinds(run(model, TRADE)) == {"n1": "infeasible", "n2": "blocked"}
    assert desired(model, "n1") == Pair(2000, 4 * GIB)


def test_what_the_server_refuses_is_rejected_in_its_words(model: ModelCluster) -> None:
    model.server.faults.resize_refused = (403, "Forbidden", "exceeded quota: small")
    found = run(model, {"n1": TRADE["n1"]})
    assert kinds(found) == {"n1": "rejected"}
    assert "exceeded quota: small" in found["n1"].text


def test_a_long_refusal_keeps_its_words_and_the_remedy(model: ModelCluster) -> None:
    quota = "exceeded quota: small, requested: requests.cpu=2, used: requests.cpu=4, limited: requests.cpu=4600m"
    pod = "balloon-" + "x" * 100  # the name of a pod may be longer still
    model.server.faults.resize_refused = (403, "Forbidden", f'pods "{pod}" is forbidden: {quota}')
    text = run(model, {"n1": TRADE["n1"]})["n1"].text
    assert quota in text
    assert "a ResourceQuota in namespace" in text


@pytest.mark.parametrize("fault", ["conflicts", "lost_answers", "statuses"])
def test_conflicts_lost_answers_and_a_server_out_of_breath(model: ModelCluster, fault: str) -> None:
    begun: list[str] = []

    def once(event: Event) -> None:
        if event.kind == "started" and not begun:
            begun.append(event.subject)
            setattr(model.server.faults, fault, 2)

    assert kinds(run(model, TRADE, told=Told(once))) == {"n1": "done", "n2": "done"}
    assert model.balloon("n1")["metadata"]["generation"] == 2


def test_an_api_server_that_is_away_for_a_while(model: ModelCluster) -> None:
    timers: list[threading.Timer] = []

    def away(event: Event) -> None:
        if event.kind == "started" and not timers:
            model.server.go_away()
            timers.append(threading.Timer(0.3, model.server.mend))
            timers[0].start()

    assert kinds(run(model, TRADE, told=Told(away))) == {"n1": "done", "n2": "done"}


def test_an_api_server_that_does_not_come_back(model: ModelCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "_GIVE_UP_SECONDS", 0.5)
    with pytest.raises(BallastError) as raised:
        run(model, TRADE, told=Told(lambda event: model.server.go_away()))
    assert raised.value.id == "balloon-api-lost"
    assert model.sums.broken == []


def test_an_interrupt_takes_growth_back_that_waits_for_room(model: ModelCluster) -> None:
    model.add_pod("web", "n1", cpu=1500, memory=GIB)

    def interrupt(event: Event) -> None:
        if "deferred" in event.text:
            raise KeyboardInterrupt

    told = Told(interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(model, TRADE, told=told, grow_timeout=60)
    assert desired(model, "n1") == desired(model, "n2") == Pair(2000, 4 * GIB)
    assert ("undone", "node n1") in [(kind, subject) for kind, subject, _text in told.events]
    assert model.store.all(LEASES) == []
    assert model.sums.broken == []


def test_a_fault_of_ours_in_a_thread_ends_the_run(model: ModelCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Cluster, action: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Cluster, "resize", broken)
    with pytest.raises(ZeroDivisionError):
        run(model, TRADE)
    assert model.store.all(LEASES) == []


# Leases.


def _hold(model: ModelCluster, holder: str = "them") -> Object:
    metadata = {"name": lease_name("boot-1"), "namespace": NAMESPACE}
    return model.store.put(
        LEASES, {"metadata": metadata, "spec": {"holderIdentity": holder, "leaseDurationSeconds": 60}}
    )


def test_a_host_that_another_run_holds_is_left_alone(model: ModelCluster) -> None:
    _hold(model)
    with Cluster(model.api(), HOST, namespace=NAMESPACE) as cluster:
        leases = Leases(model.api(), HOST, namespace=NAMESPACE)
        told = Told()
        found = execute_resizes(
            ResizeScheduler(TRADE, grow_timeout=1),
            cluster,
            None,
            leases,
            HOST,
            Progress(told, feature="balloon"),
            patience=0.1,
        )
    assert set(kinds(found).values()) <= {"rejected", "blocked"}
    assert "them is resizing its balloons" in found["n1"].text
    assert ("waiting", "host boot-1", "them is resizing its balloons") in told.events
    assert model.server.calls["PATCH pods/resize"] == 0
    assert model.store.all(LEASES)[0]["spec"]["holderIdentity"] == "them"
    assert "started" not in [kind for kind, _subject, _text in told.events]


def test_a_host_is_given_back_as_soon_as_its_nodes_are_through(model: ModelCluster) -> None:
    model.add_node("n3", host="boot-3", balloon=Pair(2000, 4 * GIB))
    model.add_pod("web", "n3", cpu=1500, memory=GIB)
    left: list[list[str]] = []

    def look(event: Event) -> None:
        if event.kind == "failed":
            left.append([item["metadata"]["name"] for item in model.store.all(LEASES)])

    found = run(model, {**TRADE, "n3": Resources(1000, 2 * GIB)}, told=Told(look), grow_timeout=1.0)
    assert kinds(found) == {"n1": "done", "n2": "done", "n3": "reverted"}
    assert left == [[lease_name("boot-3")]]


class Clock(LocalHost):
    """One that a test can put forward."""

    ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


def test_what_waits_for_a_thread_while_the_lease_runs_out_is_not_done_before_it_is_renewed() -> None:
    with ModelCluster() as model:
        for number in range(4):
            model.add_node(f"n{number}", cpu=4000, memory=4 * GIB)
        model.sums.watch()
        clock, held = Clock(), []
        leases = Leases(model.api(), clock, namespace=NAMESPACE)

        def suspend(verb: str, asked: Asked, body: object) -> None:
            if asked.part == "resize":
                held.append(leases.may_act("boot-1"))
                clock.ahead += 50

        model.server.before_write.append(suspend)
        with Cluster(model.api(), clock, namespace=NAMESPACE) as cluster:
            targets = {f"n{number}": Resources(1000, GIB) for number in range(4)}
            progress = Progress(Told(), feature="balloon")
            scheduler = ResizeScheduler(targets, grow_timeout=1000)
            found = execute_resizes(scheduler, cluster, None, leases, clock, progress, parallel=1)
        assert len(found) == 4
        assert set(held) == {True}


def test_a_host_that_is_given_back_meanwhile(model: ModelCluster) -> None:
    _hold(model)

    def give_back(event: Event) -> None:
        if event.subject == "host boot-1":
            model.store.drop(LEASES, lease_name("boot-1"), NAMESPACE)

    assert set(kinds(run(model, TRADE, told=Told(give_back), patience=30)).values()) == {"done"}


@pytest.mark.parametrize("lists_refused", [0, 30])
def test_what_the_holder_before_has_done_is_known_though_the_watch_is_late(
    model: ModelCluster, lists_refused: int
) -> None:
    """n1 has taken what was free: to give it to n2 as well would be to sell it twice."""
    left = [503] * lists_refused

    def busy(verb: str, asked: Asked) -> None:
        ours = [item for item in model.store.all(LEASES) if item["spec"]["holderIdentity"] == "us"]
        if left and ours and asked.collection == "pods" and not asked.name:
            raise Refusal(left.pop(), "ServiceUnavailable", "later")

    for name in ("n1", "n2"):
        run(model, {name: Resources(1000, 2 * GIB)}, holder="before")
    _hold(model)

    def finish(event: Event) -> None:
        if event.subject == "host boot-1" and model.store.all(LEASES):
            model.server.faults.watches_stale = True
            pod = model.balloon("n1")
            (container,) = pod["spec"]["containers"]
            resources = {**container["resources"], "requests": Pair(1000, 2 * GIB).quantities()}
            spec = {**pod["spec"], "containers": [{**container, "resources": resources}]}
            metadata = {**pod["metadata"], "generation": pod["metadata"]["generation"] + 1}
            model.store.put("pods", {**pod, "metadata": metadata, "spec": spec})
            model.kubelets.sync("n1")
            model.store.drop(LEASES, lease_name("boot-1"), NAMESPACE)

    model.server.before_read.append(busy)
    found = run(model, {"n2": Resources(3000, 6 * GIB)}, told=Told(finish), patience=30)
    assert kinds(found) == {"n2": "blocked"}


def test_a_host_that_is_taken_over_is_touched_no_more(model: ModelCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "_RENEW_SECONDS", 0.0)
    model.add_pod("web", "n1", cpu=1500, memory=GIB)

    def take_over(event: Event) -> None:
        if "deferred" in event.text:
            _hold(model)
            model.server.calls.clear()

    with Cluster(model.api(), HOST, namespace=NAMESPACE) as cluster:
        leases = Leases(model.api(), HOST, namespace=NAMESPACE)
        progress = Progress(Told(take_over), feature="balloon")
        found = execute_resizes(ResizeScheduler(TRADE, grow_timeout=0.3), cluster, None, leases, HOST, progress)
    assert "them has taken over resizing" in found["n1"].text
    assert model.server.calls["PATCH pods/resize"] == 0
    assert model.store.all(LEASES)[0]["spec"]["holderIdentity"] == "them"


def test_a_client_that_may_not_write_leases_is_told_so(model: ModelCluster) -> None:
    def forbid(verb: str, asked: Asked, body: object) -> None:
        if asked.collection == LEASES:
            raise Refusal(403, "Forbidden", 'User "u" cannot create resource "leases"')

    model.server.before_write.append(forbid)
    with pytest.raises(BallastError) as raised:
        run(model, TRADE)
    assert raised.value.id == "core-api-forbidden"
    assert model.server.calls["PATCH pods/resize"] == 0


def test_two_runs_at_once_that_want_different_things(model: ModelCluster) -> None:
    other = {"n1": Resources(3000, 6 * GIB), "n2": Resources(1000, 2 * GIB)}
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda targets=targets, holder=holder: found.append(run_only(model, targets, holder)))
        for targets, holder in ((TRADE, "us"), (other, "them"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [set(kinds(outcomes).values()) for outcomes in found] == [{"done"}, {"done"}]
    assert {desired(model, "n1").cpu, desired(model, "n2").cpu} == {1000, 3000}
    assert model.sums.broken == []


# Nodes and limits.


def test_a_node_that_cannot_be_told_its_target_has_failed(model: ModelCluster) -> None:
    def forbid(verb: str, asked: Asked, body: object) -> None:
        if asked.collection == "nodes":
            raise Refusal(403, "Forbidden", 'User "u" cannot patch resource "nodes"')

    model.server.before_write.append(forbid)
    found = run(model, {"n1": TRADE["n1"]})
    assert kinds(found) == {"n1": "failed"}
    assert "cannot patch resource" in found["n1"].text
    assert desired(model, "n1") == Pair(3000, 6 * GIB)


def test_a_node_that_the_server_has_no_time_for_is_told_later(model: ModelCluster) -> None:
    left = [503, 429]

    def busy(verb: str, asked: Asked, body: object) -> None:
        if asked.collection == "nodes" and left:
            raise Refusal(left.pop(), "TooManyRequests", "later")

    model.server.before_write.append(busy)
    assert kinds(run(model, {"n1": TRADE["n1"]})) == {"n1": "done"}
    assert annotation(model, "n1") is not None


class Slices:
    """Limits in memory, which see to it that they are moved in step with the balloons."""

    def __init__(self, model: ModelCluster, *, fails: str = "") -> None:
        self.limits = {"n1": Resources(2000, 4 * GIB), "n2": Resources(2000, 4 * GIB)}
        self.order: list[tuple[str, int]] = []
        self._model = model
        self._fails = fails

    def most(self, node: str) -> Resources:
        return Resources(4000, 8 * GIB)

    def read(self, node: str) -> Resources:
        return self.limits[node]

    def write(self, node: str, limit: Resources) -> None:
        if node == self._fails:
            raise HostError("the slice is in use", id="slice")
        allocated = self._model.balloon(node)["status"]["containerStatuses"][0]["allocatedResources"]
        open_cpu = 4000 - pair(allocated).cpu
        assert open_cpu <= limit.cpu
        self.limits[node] = limit
        assert self.limits["n1"].cpu + self.limits["n2"].cpu <= 4000
        self.order.append((node, limit.cpu))


def test_limits_move_in_step(model: ModelCluster) -> None:
    limits = Slices(model)
    found = run(model, TRADE, limits=limits)
    assert kinds(found) == {"n1": "done", "n2": "done"}
    assert limits.order == [("n1", 1000), ("n2", 3000)]


def test_a_limit_that_cannot_be_set_is_a_failure_and_nothing_is_given_on(model: ModelCluster) -> None:
    found = run(model, TRADE, limits=Slices(model, fails="n1"))
    assert kinds(found) == {"n1": "failed", "n2": "blocked"}
    assert "the slice is in use" in found["n1"].text
    assert desired(model, "n2") == Pair(2000, 4 * GIB)


def test_a_limit_that_cannot_be_read_is_an_error_before_anything_is_done(model: ModelCluster) -> None:
    class Unreadable(Slices):
        def read(self, node: str) -> Resources:
            raise HostError("no such slice", id="slice")

    with pytest.raises(HostError):
        run(model, TRADE, limits=Unreadable(model))
    assert model.server.calls["PATCH pods/resize"] == 0
