# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pull proxy before real containerds, two of the project's and one of Debian's, with a real registry behind them.

What is in flight at the runtimes is counted by a process between proxy and runtimes (cri_meter.py).
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import grpc
import pytest

from tests.integration.containerds import NEW, OLD
from tests.integration.cri import IMAGE_SERVICE, images, message, pull_request
from tests.integration.kube_proxy import eventually
from tests.integration.pull_place import Place, clients, named, outcome, place
from tests.integration.pull_proxy import PullProxy, pull_proxy
from tests.integration.registry import PAUSE, Layer, image
from tests.integration.registry_front import Manner

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run containerd")

LIMIT = 2
SIZE = 400_000
RUNTIMES = {"a": NEW, "b": NEW, "old": OLD}
SHARED = Layer("shared", SIZE)
NAMES = [f"image-{number}" for number in range(12)]
IMAGES = [image(name, SIZE, shared=(SHARED,), parts=2) for name in NAMES]
Proxied = Callable[..., AbstractContextManager[PullProxy]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with place(tmp_path_factory.mktemp("pulls"), RUNTIMES, [PAUSE, *IMAGES]) as made:
        yield made


@pytest.fixture
def here(whole: Place) -> Iterator[Place]:
    yield whole
    whole.clean()


@pytest.fixture
def proxied(here: Place, tmp_path: Path) -> Proxied:
    def start(**settings: object) -> AbstractContextManager[PullProxy]:
        return pull_proxy(tmp_path / "proxy", here.metered(), **{"max_in_flight": LIMIT, **settings})

    return start


def sockets(proxy: PullProxy) -> list[str]:
    return [proxy.socket(name) for name in RUNTIMES]


def in_flight(here: Place, count: int) -> bool:
    return bool(eventually(lambda: len(here.meter.in_flight()) == count, seconds=30))


def test_the_limit_holds_across_all_kubelets_at_every_instant(here: Place, proxied: Proxied) -> None:
    opened = here.front.hold(NAMES)
    with proxied() as proxy, clients(sockets(proxy)) as kubelets:
        pulls = [kubelets[number % 3].pulling(pull_request(named(name))) for number, name in enumerate(NAMES)]
        assert in_flight(here, LIMIT)
        time.sleep(1)
        assert len(here.meter.in_flight()) == LIMIT
        opened.set()
        assert {outcome(pull) for pull in pulls} == {("OK", "")}
    assert here.meter.most() == LIMIT
    assert here.front.in_flight_most() <= LIMIT
    assert {pull.runtime for pull in here.meter.pulls()} == {one.socket for one in here.runtimes.values()}


def test_without_a_limit_all_are_in_flight(here: Place, proxied: Proxied) -> None:
    opened = here.front.hold(NAMES)
    with proxied(max_in_flight=0) as proxy, clients(sockets(proxy)) as kubelets:
        pulls = [kubelets[number % 3].pulling(pull_request(named(name))) for number, name in enumerate(NAMES)]
        assert in_flight(here, len(NAMES))
        opened.set()
        assert {outcome(pull) for pull in pulls} == {("OK", "")}


def test_first_come_first_served_over_all_kubelets(here: Place, proxied: Proxied) -> None:
    opened = here.front.hold(NAMES[:1])
    with proxied(max_in_flight=1) as proxy, clients(sockets(proxy)) as kubelets:
        pulls = []
        for number, name in enumerate(NAMES):
            pulls.append(kubelets[number % 3].pulling(pull_request(named(name))))
            assert eventually(lambda: waiting_and_running(proxy) == len(pulls), seconds=30)
        opened.set()
        assert {outcome(pull) for pull in pulls} == {("OK", "")}
    assert [pull.image for pull in here.meter.pulls()] == [named(name) for name in NAMES]


def test_those_who_ask_for_the_same_image_share_one_pull(here: Place, proxied: Proxied) -> None:
    opened = here.front.hold(NAMES)
    with proxied() as proxy, clients(sockets(proxy)) as (kubelet, another, _old):
        pulls = [kubelet.pulling(pull_request(named(NAMES[0]), pod=f"pod-{number}")) for number in range(20)]
        assert in_flight(here, 1)
        other = another.pulling(pull_request(named(NAMES[1])))  # joining takes no slot
        assert in_flight(here, 2)
        opened.set()
        assert {outcome(pull) for pull in [*pulls, other]} == {("OK", "")}
        assert len({pull.result() for pull in pulls}) == 1
    assert [pull.image for pull in here.meter.pulls()].count(named(NAMES[0])) == 1
    fetched = here.front.asked(NAMES[0], kind="blobs")
    assert len(fetched) == 1 + len(IMAGES[0].layers), "the configuration and each layer, once"


def test_other_credentials_and_another_runtime_do_not_join(here: Place, proxied: Proxied) -> None:
    opened = here.front.hold(NAMES)
    with proxied(max_in_flight=10) as proxy, clients(sockets(proxy)) as (first, second, _old):
        pulls = [
            first.pulling(pull_request(named(NAMES[0]))),
            first.pulling(pull_request(named(NAMES[0]), auth={1: "u", 2: "secret"})),
            first.pulling(pull_request(named(NAMES[0]), auth={1: "u", 2: "other"})),
            second.pulling(pull_request(named(NAMES[0]))),
        ]
        assert in_flight(here, 4)
        opened.set()
        assert {outcome(pull) for pull in pulls} == {("OK", "")}
        assert "secret" not in proxy.log.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["a", "old"])
def test_the_fetch_ends_when_the_last_caller_has_left(here: Place, proxied: Proxied, name: str) -> None:
    here.front.hold(NAMES)
    runtime = here.runtimes[name]
    with proxied(max_in_flight=1) as proxy, images(proxy.socket(name)) as kubelet:
        leads, follows = (kubelet.pulling(pull_request(named(NAMES[0]), pod=pod)) for pod in ("one", "two"))
        assert eventually(runtime.ingests, seconds=30)
        waits = kubelet.pulling(pull_request(named(NAMES[1])))
        assert eventually(lambda: waiting_and_running(proxy) == 2, seconds=30)
        leads.cancel()
        time.sleep(1)
        assert runtime.ingests(), "one still waits for it"
        follows.cancel()
        assert eventually(lambda: [pull.image for pull in here.meter.in_flight()] == [named(NAMES[1])], seconds=30)
        waits.cancel()
        assert eventually(lambda: not runtime.ingests(), seconds=30)
        assert eventually(lambda: waiting_and_running(proxy) == 0, seconds=30)
    assert here.meter.most() == 1


@pytest.mark.parametrize("name", ["a", "old"])
@pytest.mark.parametrize("status", [404, 429])
def test_errors_are_the_runtimes_own(here: Place, proxied: Proxied, name: str, status: int) -> None:
    here.front.manners[NAMES[0]] = Manner(status=status)
    request = pull_request(named(NAMES[0]))
    with proxied() as proxy, images(proxy.socket(name)) as kubelet, images(here.runtimes[name].socket) as direct:
        expected = outcome(direct.pulling(request))
        assert expected[0] != "OK"
        assert outcome(kubelet.pulling(request)) == expected
        assert outcome(kubelet.pulling(pull_request("not a name"))) == outcome(
            direct.pulling(pull_request("not a name"))
        )


def test_every_kubelets_other_calls_are_the_runtimes_own(here: Place, proxied: Proxied) -> None:
    for name, runtime in here.runtimes.items():
        with images(runtime.socket) as direct:
            direct.pull(named(NAMES[0]))
            status = message({1: message({1: named(NAMES[0])})})
            calls = [("ImageStatus", status), ("ListImages", b""), ("Unheard", b"")]
            expected = [answer(direct, method, request) for method, request in calls]
            with proxied() as proxy, images(proxy.socket(name)) as kubelet:
                assert [answer(kubelet, method, request) for method, request in calls] == expected


def test_full_and_retry_ends_in_the_error_of_the_kep(here: Place, proxied: Proxied) -> None:
    opened = here.front.hold(NAMES)
    retry = {"attempts": 2, "interval": "500ms"}
    with proxied(max_in_flight=1, on_full="retry", retry=retry) as proxy, images(proxy.socket("a")) as kubelet:
        first = kubelet.pulling(pull_request(named(NAMES[0])))
        assert in_flight(here, 1)
        code, text = outcome(kubelet.pulling(pull_request(named(NAMES[1]))))
        assert code == "UNKNOWN"
        assert text.startswith("TooManyPullingInParallelErr")
        opened.set()
        assert outcome(first) == ("OK", "")


def test_a_present_image_succeeds_when_that_is_asked_for(here: Place, proxied: Proxied) -> None:
    with images(here.runtimes["a"].socket) as direct:
        direct.pull(named(NAMES[0]))
        id = direct.id_of(named(NAMES[0]))
    here.front.hold(NAMES)
    with proxied(max_in_flight=1, present="succeed") as proxy, images(proxy.socket("a")) as kubelet:
        fills = kubelet.pulling(pull_request(named(NAMES[1])))
        assert in_flight(here, 1)
        assert kubelet.pull(named(NAMES[0])) == id
        assert [pull.image for pull in here.meter.pulls()] == [named(NAMES[1])]
        fills.cancel()


def test_the_limit_holds_when_the_proxy_is_killed_and_starts_again(here: Place, proxied: Proxied) -> None:
    opened = here.front.hold(NAMES)
    with proxied() as proxy, clients(sockets(proxy)) as kubelets:
        before = [kubelets[number % 3].pulling(pull_request(named(name))) for number, name in enumerate(NAMES)]
        assert in_flight(here, LIMIT)
        proxy.stop(signal.SIGKILL)
        assert {outcome(pull)[0] for pull in before} == {"UNAVAILABLE"}
        proxy.start()
        assert eventually(lambda: all(answer(one, "ListImages", b"")[0] == "OK" for one in kubelets), seconds=30)
        after = [kubelets[number % 3].pulling(pull_request(named(name))) for number, name in enumerate(NAMES)]
        assert eventually(lambda: waiting_and_running(proxy) == len(NAMES), seconds=30)
        assert in_flight(here, LIMIT)
        opened.set()
        assert {outcome(pull) for pull in after} == {("OK", "")}
    assert here.meter.most() == LIMIT


@pytest.mark.parametrize("name", ["a", "old"])
def test_a_runtime_that_starts_again_is_unavailable_and_then_used(here: Place, tmp_path: Path, name: str) -> None:
    runtime = here.runtimes[name]
    other = "b"
    here.front.hold(NAMES[:1])
    direct = {one: here.runtimes[one].socket for one in (name, other)}
    with (
        pull_proxy(tmp_path / "proxy", direct, max_in_flight=1) as proxy,
        clients([proxy.socket(name), proxy.socket(other)]) as (kubelet, others),
    ):
        pulling = kubelet.pulling(pull_request(named(NAMES[0])))
        assert eventually(runtime.ingests, seconds=30)
        runtime.stop(signal.SIGKILL)
        try:
            assert outcome(pulling)[0] == "UNAVAILABLE"
            begun = time.monotonic()
            assert outcome(kubelet.pulling(pull_request(named(NAMES[1]))))[0] == "UNAVAILABLE"
            assert time.monotonic() - begun < 10
            assert outcome(others.pulling(pull_request(named(NAMES[1])))) == ("OK", "")
        finally:
            runtime.start()
        assert eventually(lambda: outcome(kubelet.pulling(pull_request(named(NAMES[1])))) == ("OK", ""), seconds=30)


def test_a_reload_changes_the_limit_and_drops_no_pull(here: Place, proxied: Proxied) -> None:
    opened = here.front.hold(NAMES)
    with proxied() as proxy, clients(sockets(proxy)) as kubelets:
        pulls = [kubelets[number % 3].pulling(pull_request(named(name))) for number, name in enumerate(NAMES)]
        assert in_flight(here, LIMIT)
        proxy.reload(max_in_flight=5)
        assert in_flight(here, 5)
        proxy.reload(max_in_flight=1)
        proxy.reload(max_in_flight=-1)
        assert eventually(lambda: "max_in_flight" in proxy.log.read_text(encoding="utf-8"), seconds=30)
        opened.set()
        assert {outcome(pull) for pull in pulls} == {("OK", "")}
    assert here.meter.most() == 5


def test_it_ends_when_the_pulls_in_flight_have(here: Place, proxied: Proxied) -> None:
    opened = here.front.hold(NAMES)
    with proxied(max_in_flight=1) as proxy, images(proxy.socket("a")) as kubelet:
        running = kubelet.pulling(pull_request(named(NAMES[0])))
        assert in_flight(here, 1)
        waits = kubelet.pulling(pull_request(named(NAMES[1])))
        assert eventually(lambda: waiting_and_running(proxy) == 2, seconds=30)
        assert proxy.process is not None
        proxy.process.send_signal(signal.SIGTERM)
        assert outcome(waits)[0] == "UNAVAILABLE"
        assert len(here.meter.in_flight()) == 1
        opened.set()
        assert outcome(running) == ("OK", "")
        assert proxy.process.wait(timeout=30) == 0


def test_a_second_proxy_refuses(here: Place, proxied: Proxied) -> None:
    with proxied() as proxy:
        env = {**os.environ, **proxy.environment}
        second = subprocess.run(proxy.argv(), env=env, capture_output=True, text=True, timeout=60, check=False)
        assert second.returncode == 3, second.stderr
        assert "Traceback" not in second.stderr
        proxy.status()


def waiting_and_running(proxy: PullProxy) -> int:
    told = proxy.status()
    return len(told["in_flight"]) + len(told["queued"])


def answer(client, method: str, request: bytes) -> tuple[str, object]:
    try:
        return "OK", client.call(IMAGE_SERVICE + method, request)
    except grpc.RpcError as error:
        return error.code().name, error.details()
