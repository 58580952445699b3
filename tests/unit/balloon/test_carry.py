# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Resizes carried out against the model cluster, over real HTTP: outcomes, faults, an interrupt, and a fleet of 500 nodes."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._balloon import carry, course, holding, lease
from ansible_collections.ballast.kube.plugins.module_utils._balloon.amount import Amount
from ansible_collections.ballast.kube.plugins.module_utils._balloon.carry import carry_out
from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster import Cluster
from ansible_collections.ballast.kube.plugins.module_utils._balloon.facts import Outcome
from ansible_collections.ballast.kube.plugins.module_utils._balloon.lease import Leases, lease_name
from ansible_collections.ballast.kube.plugins.module_utils._balloon.limits import Limits
from ansible_collections.ballast.kube.plugins.module_utils._balloon.steering import Steering
from ansible_collections.ballast.kube.plugins.module_utils._core.errors import BallastError, HostError
from ansible_collections.ballast.kube.plugins.module_utils._core.events import Event, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.host import LocalHost
from tests.model_cluster.amounts import Pair, pair
from tests.model_cluster.model import GIB, MIB, NAMESPACE, TARGET, ModelCluster
from tests.model_cluster.requests import Asked, Refusal
from tests.model_cluster.store import Object

LEASES = "coordination.k8s.io/leases"
HOST = LocalHost()


class Told:
    """The events of a run. `at` is called with each."""

    def __init__(self, at: Callable[[Event], None] = lambda event: None) -> None:
        self.events: list[tuple[str, str, str]] = []
        self._at = at

    def emit(self, event: Event) -> None:
        self.events.append((event.kind, event.subject, event.text))
        self._at(event)


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carry, "_IDLE_SECONDS", 0.05)
    monkeypatch.setattr(holding, "_POLL_SECONDS", 0.05)
    monkeypatch.setattr(lease, "_RELEASE_SECONDS", 0.2)
    monkeypatch.setattr(course, "_PAUSE_SECONDS", 0.05)


@pytest.fixture
def model() -> Iterator[ModelCluster]:
    """Two nodes share a host of 4 CPU and 8 GiB, half each."""
    with ModelCluster() as found:
        for name in ("n1", "n2"):
            found.add_node(name, balloon=Pair(2000, 4 * GIB))
        found.sums.watch()
        yield found


def run(
    model: ModelCluster,
    targets: Mapping[str, Amount],
    *,
    told: Optional[Told] = None,
    limits: Optional[Limits] = None,
    grow_timeout: float = 0.3,
    patience: float = 0.5,
    parallel: int = 16,
    holder: str = "us",
) -> Mapping[str, Outcome]:
    api = model.api(timeout=2)
    leases = Leases(api, HOST, namespace=NAMESPACE, holder=holder)
    steering = Steering(targets, grow_timeout=grow_timeout)
    progress = Progress(told or Told(), feature="balloon")
    with Cluster(api, HOST, namespace=NAMESPACE) as cluster:
        found = carry_out(steering, cluster, limits, leases, HOST, progress, parallel=parallel, patience=patience)
    assert model.sums.broken == []
    assert model.store.all(LEASES) == []
    return found


def kinds(outcomes: Mapping[str, Outcome]) -> dict[str, str]:
    return {name: outcome.outcome for name, outcome in outcomes.items()}


def desired(model: ModelCluster, node: str) -> Pair:
    return pair(model.balloon(node)["spec"]["containers"][0]["resources"]["requests"])


def annotation(model: ModelCluster, node: str) -> Optional[str]:
    found: Optional[str] = model.node(node)["metadata"]["annotations"].get(TARGET)
    return found


TRADE = {"n1": Amount(1000, 2 * GIB), "n2": Amount(3000, 6 * GIB)}


def test_a_trade_between_two_nodes(model: ModelCluster) -> None:
    told = Told()
    found = run(model, TRADE, told=told)
    assert kinds(found) == {"n1": "done", "n2": "done"}
    assert (found["n1"].before, found["n1"].after) == (Amount(2000, 4 * GIB), Amount(3000, 6 * GIB))
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
    assert "undone" in [kind for kind, _subject, _text in told.events]


def test_what_can_never_be_is_put_back(model: ModelCluster) -> None:
    model.kubelets.habit("n1").never_fits = True
    assert kinds(run(model, TRADE)) == {"n1": "infeasible", "n2": "blocked"}
    assert desired(model, "n1") == Pair(2000, 4 * GIB)


def test_what_the_server_refuses_is_rejected_in_its_words(model: ModelCluster) -> None:
    model.server.faults.resize_refused = (403, "Forbidden", "exceeded quota: small")
    found = run(model, {"n1": TRADE["n1"]})
    assert kinds(found) == {"n1": "rejected"}
    assert "exceeded quota: small" in found["n1"].text


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
    monkeypatch.setattr(carry, "_GIVE_UP_SECONDS", 0.5)
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
        found = carry_out(
            Steering(TRADE, grow_timeout=1),
            cluster,
            None,
            leases,
            HOST,
            Progress(told, feature="balloon"),
            patience=0.1,
        )
    assert set(kinds(found).values()) <= {"rejected", "blocked"}
    assert "them is at work on its balloons" in found["n1"].text
    assert ("waiting", "host boot-1", "them is at work on its balloons") in told.events
    assert model.server.calls["PATCH pods/resize"] == 0
    assert model.store.all(LEASES)[0]["spec"]["holderIdentity"] == "them"
    assert "started" not in [kind for kind, _subject, _text in told.events]


def test_a_host_is_given_back_as_soon_as_its_nodes_are_through(model: ModelCluster) -> None:
    model.add_node("n3", host="boot-3", balloon=Pair(2000, 4 * GIB))
    model.add_pod("web", "n3", cpu=1500, memory=GIB)
    left: list[list[str]] = []

    def look(event: Event) -> None:
        if event.kind == "undone":
            left.append([item["metadata"]["name"] for item in model.store.all(LEASES)])

    found = run(model, {**TRADE, "n3": Amount(1000, 2 * GIB)}, told=Told(look), grow_timeout=1.0)
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
            targets = {f"n{number}": Amount(1000, GIB) for number in range(4)}
            progress = Progress(Told(), feature="balloon")
            steering = Steering(targets, grow_timeout=1000)
            found = carry_out(steering, cluster, None, leases, clock, progress, parallel=1)
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
        run(model, {name: Amount(1000, 2 * GIB)}, holder="before")
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
    found = run(model, {"n2": Amount(3000, 6 * GIB)}, told=Told(finish), patience=30)
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
        found = carry_out(Steering(TRADE, grow_timeout=0.3), cluster, None, leases, HOST, progress)
    assert "them has taken the work" in found["n1"].text
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
    other = {"n1": Amount(3000, 6 * GIB), "n2": Amount(1000, 2 * GIB)}
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


def run_only(model: ModelCluster, targets: Mapping[str, Amount], holder: str) -> Mapping[str, Outcome]:
    api = model.api()
    leases = Leases(api, HOST, namespace=NAMESPACE, holder=holder)
    with Cluster(api, HOST, namespace=NAMESPACE) as cluster:
        steering = Steering(targets, grow_timeout=5)
        return carry_out(steering, cluster, None, leases, HOST, Progress(Told(), feature="balloon"), patience=30)


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
        self.limits = {"n1": Amount(2000, 4 * GIB), "n2": Amount(2000, 4 * GIB)}
        self.order: list[tuple[str, int]] = []
        self._model = model
        self._fails = fails

    def most(self, node: str) -> Amount:
        return Amount(4000, 8 * GIB)

    def read(self, node: str) -> Amount:
        return self.limits[node]

    def write(self, node: str, limit: Amount) -> None:
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
        def read(self, node: str) -> Amount:
            raise HostError("no such slice", id="slice")

    with pytest.raises(HostError):
        run(model, TRADE, limits=Unreadable(model))
    assert model.server.calls["PATCH pods/resize"] == 0


# Whatever happens.


def test_a_balloon_that_is_deleted_in_the_middle_comes_to_its_size_again() -> None:
    with ModelCluster(daemonset=True) as model:
        for name in ("n1", "n2"):
            model.add_node(name, balloon=Pair(2000, 4 * GIB))
        model.sums.watch()
        deleted: list[str] = []

        def delete(event: Event) -> None:
            if (event.kind, event.subject) == ("started", "node n2") and not deleted:
                deleted.append(model.balloon("n2")["metadata"]["name"])
                model.remove_pod(deleted[0], namespace=NAMESPACE)

        assert set(kinds(run(model, TRADE, told=Told(delete))).values()) == {"done"}
        assert model.balloon("n2")["metadata"]["name"] != deleted[0]
        assert (desired(model, "n1"), desired(model, "n2")) == (Pair(3000, 6 * GIB), Pair(1000, 2 * GIB))


@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens_no_host_promises_what_it_has_not(seed: int) -> None:
    """Two runs, with what can go wrong going wrong at random, pods that come wherever there is room, and an interrupt; then
    one in peace, which brings every node whose pods leave room to its target."""
    chance = random.Random(seed)
    names = [f"n{number}" for number in range(6)]
    with ModelCluster() as model:
        for number, name in enumerate(names):
            model.add_node(name, host=f"boot-{number % 2}", cpu=6000, memory=6 * GIB, balloon=Pair(4000, 4 * GIB))
        model.sums.watch()
        ended = threading.Event()
        trouble = threading.Thread(target=_trouble, args=(model, names, chance, ended))
        trouble.start()
        for _number in range(2):
            with suppress(BallastError, KeyboardInterrupt):
                _run_in_trouble(model, _targets(names, chance), interrupt_at=chance.randrange(5, 60))
        ended.set()
        trouble.join()
        model.server.mend()
        for name in names:
            model.kubelets.habit(name).__init__()  # type: ignore[misc]
            model.kubelets.sync(name)
        for lease_left in model.store.all(LEASES):  # of a run that was interrupted while the server was away
            model.store.drop(LEASES, lease_left["metadata"]["name"], NAMESPACE)
        targets = _targets(names, chance)
        found = _run_in_trouble(model, targets, interrupt_at=10**9)
        assert model.sums.broken == []
        assert [outcome for outcome in found.values() if outcome.outcome not in ("done", "reverted", "blocked")] == []
        for name in names:
            if found[name].outcome == "done":
                assert desired(model, name) == Pair(6000 - targets[name].cpu, 6 * GIB - targets[name].memory)
        assert model.store.all(LEASES) == []


def _targets(names: list[str], chance: random.Random) -> dict[str, Amount]:
    """Of the three nodes of each host, no more than it has."""
    parts = {number: chance.sample([1000, 2000, 3000], 3) for number in range(2)}
    return {
        name: Amount(parts[number % 2][number // 2], parts[number % 2][number // 2] * GIB // 1000)
        for number, name in enumerate(names)
    }


def _run_in_trouble(model: ModelCluster, targets: Mapping[str, Amount], *, interrupt_at: int) -> Mapping[str, Outcome]:
    left = itertools.count()

    def interrupt(event: Event) -> None:
        if next(left) == interrupt_at:
            raise KeyboardInterrupt

    api = model.api(timeout=1)
    leases = Leases(api, HOST, namespace=NAMESPACE)
    with Cluster(api, HOST, namespace=NAMESPACE) as cluster:
        progress = Progress(Told(interrupt), feature="balloon")
        return carry_out(Steering(targets, grow_timeout=0.2), cluster, None, leases, HOST, progress, patience=0.3)


def _trouble(model: ModelCluster, names: list[str], chance: random.Random, ended: threading.Event) -> None:
    faults: list[Callable[[str], None]] = [
        lambda name: setattr(model.server.faults, "conflicts", 2),
        lambda name: setattr(model.server.faults, "lost_answers", 2),
        lambda name: setattr(model.server.faults, "statuses", 2),
        lambda name: setattr(model.server.faults, "watches_stale", True),
        lambda name: model.server.go_away(),
        lambda name: model.server.cut_watches(),
        lambda name: model.store.forget(),
        lambda name: setattr(model.kubelets.habit(name), "dead", True),
        lambda name: setattr(model.kubelets.habit(name), "actuate_seconds", 0.05),
        lambda name: setattr(model.kubelets.habit(name), "never_fits", True),
    ]
    for number in itertools.count():
        name = chance.choice(names)
        chance.choice(faults)(name)
        for other in names:
            model.schedule(f"pod-{number}-{other}", other, cpu=chance.choice([50, 200]), memory=64 * MIB)
        if ended.wait(chance.uniform(0, 0.05)):
            return
        model.server.mend()
        model.kubelets.habit(name).dead = model.kubelets.habit(name).never_fits = False
        model.kubelets.wake(name)


# Many.


def test_so_many_are_at_work_and_no_more() -> None:
    with ModelCluster() as model:
        for number in range(12):
            model.add_node(f"n{number}", cpu=12000, memory=12 * GIB)
        model.sums.watch()
        model.server.faults.slow_seconds = 0.02
        found = run(model, {f"n{number}": Amount(1000, GIB) for number in range(12)}, parallel=3)
        assert set(kinds(found).values()) == {"done"}
        assert 2 <= model.server.peak <= 4  # and the Lease of the host


def test_a_fleet_of_500_nodes() -> None:
    """Two of each host's four nodes give what the other two take. Two calls for each node (pods/resize, its Node) and two
    for each host (its Lease), and six for all (a watch and two lists of nodes, and of pods: another run may have been at work
    between the first list and the Lease)."""
    hosts, of_each = 125, 4
    with ModelCluster() as model:
        for host in range(hosts):
            for number in range(of_each):
                name = f"h{host:03}-n{number}"
                model.add_node(
                    name,
                    host=f"boot-{host}",
                    cpu=16000,
                    memory=64 * GIB,
                    overhead=Pair(100, 256 * MIB),
                    balloon=Pair(12000, 48 * GIB),
                )
        model.sums.watch()
        model.server.faults.slow_seconds = 0.002
        targets = {
            f"h{host:03}-n{number}": Amount(2900, 12 * GIB) if number < 2 else Amount(4900, 18 * GIB)
            for host in range(hosts)
            for number in range(of_each)
        }
        found = run(model, targets, grow_timeout=60)
        assert set(kinds(found).values()) == {"done"}
        assert model.server.calls["PATCH pods/resize"] == hosts * of_each
        assert sum(model.server.calls.values()) == 2 * hosts * of_each + 2 * hosts + 6
        assert sum(model.server.calls.values()) <= 4 * hosts * of_each
        assert model.server.peak <= 16 + 8
        assert model.sums.seen >= 3 * hosts * of_each
        assert model.sums.broken == []
