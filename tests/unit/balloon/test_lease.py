# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Leases of hosts: one holder at a time, whatever is lost, late or killed. Against the store of the model API server."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.lease import Leases, lease_name
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import NOTHING, Response
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.host.web import no_answer_error
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.client import Api
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.kubeconfig import Credentials
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, PeerError
from tests.model_cluster import writes
from tests.model_cluster.requests import Refusal, parse_target
from tests.model_cluster.store import Object, Store

LEASES = "coordination.k8s.io/leases"


class Machine(LocalHost):
    """With a clock that a test moves, and an API server in the same process. `fault` is that of the next request."""

    def __init__(self, store: Store) -> None:
        self.clock = 1000.0
        self.wall = 1_700_000_000.0
        self.fault = ""  # "lost": done, and no answer; "away": neither
        self.down = False
        self.before: Optional[Callable[[str], None]] = None  # called with the method of a request, before it is done
        self.store = store

    def sleep(self, seconds: float) -> None:
        self.clock += seconds

    def monotonic(self) -> float:
        return self.clock

    def now(self) -> float:
        return self.wall

    def request(
        self,
        url: str,
        *,
        method: str = "GET",
        body: Optional[bytes] = None,
        headers: Mapping[str, str] = NOTHING,
        **more: Any,
    ) -> Response:
        if self.before is not None:
            self.before(method)
        fault, self.fault = self.fault, ""
        if fault == "away" or self.down:
            raise no_answer_error(method, url, ConnectionRefusedError())
        asked = parse_target(url[len("http://model") :])
        try:
            if method == "GET":
                told: Optional[Object] = self.store.get(asked.collection, asked.name, asked.namespace)
                if told is None:
                    raise writes.absent(asked)
            else:
                told = writes.WRITES[method](self.store, asked, "", json.loads(body) if body else None)
        except Refusal as refusal:
            return Response(refusal.code, json.dumps(refusal.status).encode())
        if fault == "lost":
            raise no_answer_error(method, url, ConnectionResetError())
        return Response(200, json.dumps(told).encode())


class World:
    def __init__(self) -> None:
        self.store = Store()
        self.machines: list[Machine] = []

    def leases(self, holder: str = "") -> tuple[Leases, Machine]:
        machine = Machine(self.store)
        self.machines.append(machine)
        api = Api(machine, Credentials(server="http://model", token="t"))
        return Leases(api, machine, namespace="kube-system", holder=holder), machine

    def passes(self, seconds: float) -> None:
        for machine in self.machines:
            machine.clock += seconds

    def lease(self, host: str = "h1") -> Optional[Object]:
        return self.store.get(LEASES, lease_name(host), "kube-system")


def id_of(action: Any) -> str:
    with pytest.raises(BallastError) as raised:
        action()
    return raised.value.id


def test_a_lease_is_made_by_one_call_and_given_back_by_one() -> None:
    world = World()
    ours, _machine = world.leases("us")
    assert ours.acquire(["h1", "h2"]) == {"h1", "h2"}
    found = world.lease()
    assert found is not None
    assert found["metadata"]["name"] == "ballast-balloon-h1"
    assert {key: found["spec"][key] for key in ("holderIdentity", "leaseDurationSeconds")} == {
        "holderIdentity": "us",
        "leaseDurationSeconds": 60,
    }
    assert found["spec"]["renewTime"] == "2023-11-14T22:13:20.000000Z"
    assert ours.may_act("h1")
    ours.release(["h1"])
    assert (world.lease(), ours.may_act("h1"), ours.may_act("h2")) == (None, False, True)
    ours.release()
    assert ours.calls == {"POST leases": 2, "DELETE leases": 2}


def test_somebody_elses_is_waited_for() -> None:
    world = World()
    ours, theirs = world.leases("us")[0], world.leases("them")[0]
    theirs.acquire(["h1"])
    assert ours.acquire(["h1", "h2"]) == {"h2"}
    assert (ours.holder_of("h1"), ours.may_act("h1")) == ("them", False)
    theirs.release()
    ours.acquire(["h1"])
    assert ours.acquire(["h1"]) == {"h1", "h2"}
    assert ours.holder_of("h1") == ""


def test_one_that_is_not_renewed_is_taken_over_when_it_has_run_out() -> None:
    world = World()
    ours, theirs = world.leases("us")[0], world.leases("them")[0]
    theirs.acquire(["h1"])
    ours.acquire(["h1"])
    world.passes(59)
    assert ours.acquire(["h1"]) == frozenset()
    world.passes(1)
    assert ours.acquire(["h1"]) == {"h1"}
    found = world.lease()
    assert found is not None
    assert (found["spec"]["holderIdentity"], found["spec"]["leaseTransitions"]) == ("us", 1)
    assert theirs.renew() == {"h1"}
    assert (theirs.holder_of("h1"), theirs.held) == ("us", frozenset())
    theirs.release()
    assert world.lease() is not None


def test_one_that_is_renewed_is_never_taken_over() -> None:
    world = World()
    ours, theirs = world.leases("us")[0], world.leases("them")[0]
    theirs.acquire(["h1"])
    for _number in range(10):
        world.passes(20)
        assert theirs.renew() == frozenset()
        assert theirs.may_act("h1")
        assert ours.acquire(["h1"]) == frozenset()


def test_it_is_not_renewed_before_that_is_due() -> None:
    world = World()
    ours, _machine = world.leases("us")
    ours.acquire(["h1"])
    world.passes(19)
    ours.renew()
    assert ours.calls["PUT leases"] == 0
    world.passes(1)
    ours.renew()
    assert ours.calls["PUT leases"] == 1


def test_clocks_of_two_machines_are_not_compared() -> None:
    world = World()
    (ours, machine), theirs = world.leases("us"), world.leases("them")[0]
    theirs.acquire(["h1"])
    machine.wall += 10_000_000
    assert ours.acquire(["h1"]) == frozenset()


def test_a_holder_stops_before_its_lease_runs_out() -> None:
    world = World()
    ours, machine = world.leases("us")
    ours.acquire(["h1"])
    world.passes(44)
    assert ours.may_act("h1")
    world.passes(1)
    assert not ours.may_act("h1")
    machine.fault = "away"
    assert id_of(ours.renew) == "core-no-answer"
    assert (ours.may_act("h1"), ours.held) == (False, {"h1"})
    assert ours.renew() == frozenset()
    assert ours.may_act("h1")


def test_an_answer_that_is_lost_leaves_it_ours() -> None:
    world = World()
    ours, machine = world.leases("us")
    machine.fault = "lost"
    assert id_of(lambda: ours.acquire(["h1"])) == "core-no-answer"
    assert not ours.may_act("h1")
    assert ours.acquire(["h1"]) == {"h1"}
    world.passes(20)
    machine.fault = "lost"
    assert id_of(ours.renew) == "core-no-answer"
    assert ours.renew() == frozenset()
    assert ours.renew() == frozenset()
    world.passes(30)
    assert ours.may_act("h1")


def test_what_was_renewed_without_an_answer_counts_from_when_that_was_asked() -> None:
    world = World()
    ours, machine = world.leases("us")
    ours.acquire(["h1"])
    world.passes(20)
    machine.fault = "lost"
    assert id_of(ours.renew) == "core-no-answer"
    world.passes(30)
    assert ours.renew() == frozenset()
    assert not ours.may_act("h1")
    ours.renew()
    assert ours.may_act("h1")


def test_of_two_that_take_it_over_at_once_one_has_it() -> None:
    world = World()
    world.leases("gone")[0].acquire(["h1"])
    (ours, machine), theirs = world.leases("us"), world.leases("them")[0]
    for leases in (ours, theirs):
        leases.acquire(["h1"])
    world.passes(60)

    def be_quicker(method: str) -> None:
        if method == "PUT":
            machine.before = None
            theirs.acquire(["h1"])

    machine.before = be_quicker
    assert ours.acquire(["h1"]) == frozenset()
    assert theirs.held == {"h1"}


def test_what_another_has_taken_over_is_not_given_back() -> None:
    world = World()
    ours, theirs = world.leases("us")[0], world.leases("them")[0]
    ours.acquire(["h1"])
    theirs.acquire(["h1"])
    world.passes(60)
    assert theirs.acquire(["h1"]) == {"h1"}
    ours.release()
    assert world.lease() is not None


def test_one_that_somebody_deletes_is_made_anew() -> None:
    world = World()
    ours, _machine = world.leases("us")
    ours.acquire(["h1"])
    world.store.drop(LEASES, lease_name("h1"), "kube-system")
    world.passes(30)
    assert ours.renew() == frozenset()
    assert (ours.held, ours.may_act("h1")) == (frozenset(), False)  # another may have been at work in between
    assert ours.acquire(["h1"]) == {"h1"}


def test_one_without_a_holder_is_free() -> None:
    world = World()
    ours, _machine = world.leases("us")
    world.store.put(LEASES, {"metadata": {"name": lease_name("h1"), "namespace": "kube-system"}, "spec": {}})
    assert ours.acquire(["h1"]) == {"h1"}


@pytest.mark.parametrize("spec", [{"holderIdentity": 5}, {"holderIdentity": "x", "leaseDurationSeconds": "long"}, []])
def test_one_of_another_form_is_an_error(spec: object) -> None:
    world = World()
    ours, _machine = world.leases("us")
    world.store.put(LEASES, {"metadata": {"name": lease_name("h1"), "namespace": "kube-system"}, "spec": spec})
    assert id_of(lambda: ours.acquire(["h1"])) == "balloon-object"


def test_one_that_says_it_holds_for_years_is_not_waited_for_as_long() -> None:
    world = World()
    ours, _machine = world.leases("us")
    spec = {"holderIdentity": "x", "leaseDurationSeconds": 10**9}
    world.store.put(LEASES, {"metadata": {"name": lease_name("h1"), "namespace": "kube-system"}, "spec": spec})
    ours.acquire(["h1"])
    world.passes(600)
    assert ours.acquire(["h1"]) == {"h1"}


def test_names_of_leases() -> None:
    assert lease_name("0b7e7a4c-ff") == "ballast-balloon-0b7e7a4c-ff"
    assert lease_name("Big.example.COM") == "ballast-balloon-big.example.com"
    for odd in ("a/b", "-", "x" * 300, "", "a..", "ü"):
        assert len(lease_name(odd)) < 64
        assert lease_name(odd) != lease_name(odd + "y")
        assert set(lease_name(odd)) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


ACTS = st.tuples(
    st.sampled_from(["acquire", "renew", "release", "kill", "passes"]),
    st.integers(0, 2),
    st.sampled_from(["", "", "lost", "away"]),
    st.sampled_from([1.0, 14.0, 16.0, 31.0, 46.0, 61.0]),
)


@given(st.lists(ACTS, max_size=40))
def test_never_two_may_act(acts: list[tuple[str, int, str, float]]) -> None:
    world = World()
    runs = [world.leases(f"run-{number}") for number in range(3)]
    for number, (act, who, fault, seconds) in enumerate(acts):
        leases, machine = runs[who]
        machine.fault = fault
        try:
            if act == "acquire":
                leases.acquire(["h1"])
            elif act == "renew":
                leases.renew()
            elif act == "release":
                leases.release()
            elif act == "kill":
                runs[who] = world.leases(f"next-{number}")
            else:
                world.passes(seconds)
        except PeerError:
            pass
        machine.fault = ""
        assert sum(leases.may_act("h1") for leases, _machine in runs) <= 1


def test_a_server_that_does_not_answer_is_not_asked_for_every_host() -> None:
    world = World()
    ours, machine = world.leases("us")
    hosts = [f"h{number}" for number in range(100)]
    ours.acquire(hosts)
    ours.calls.clear()
    machine.down = True
    world.passes(30)
    assert id_of(ours.renew) == "core-no-answer"
    assert ours.calls["PUT leases"] <= 8
    ours.release()
    assert ours.calls["DELETE leases"] < 100
    assert not ours.held


def test_giving_back_is_tried_again() -> None:
    world = World()
    ours, machine = world.leases("us")
    ours.acquire(["h1"])
    machine.fault = "away"
    ours.release()
    assert world.lease() is None
    ours.acquire(["h1"])
    machine.fault = "lost"
    ours.release()
    assert world.lease() is None
