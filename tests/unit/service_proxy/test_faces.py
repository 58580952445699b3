# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All faces of a program, over real sockets of loopback."""

from __future__ import annotations

import http.client
import io
import json
import os
import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._agent.log import Log
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.configuration import (
    Configuration,
    parse_configuration,
)
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.faces import faces as faces_module
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.faces.faces import Faces
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.ports import (
    Failed,
    HealthCheck,
    HealthChecks,
    NodeState,
    Programmed,
    Queued,
    Refused,
    Repaired,
    ServiceName,
)
from tests.unit.fake_api import FakeApi
from tests.unit.service_proxy.configurations import HEAD

WEB = ServiceName("shop", "web")
PROGRAMMED = Programmed(time.time(), 0.01, True, (4, 6), 1, 1)


class Place:
    """Two free ports of loopback, one more for a health check, and a cluster that Events are written to."""

    def __init__(self) -> None:
        self.healthz, self.metrics, self.check = (free_port() for _number in range(3))
        self.cluster = FakeApi()
        self.log = io.StringIO()

    def configuration(self, more: str = "") -> Configuration:
        addresses = f"healthzBindAddress: 127.0.0.1:{self.healthz}\nmetricsBindAddress: 127.0.0.1:{self.metrics}\n"
        return parse_configuration(HEAD + addresses + more, name="/etc/config", hostname="n1")

    def faces(self, more: str = "") -> Faces:
        return Faces(self.configuration(more), connect=lambda: self.cluster.api, log=Log(self.log))

    @contextmanager
    def running(self, more: str = "") -> Iterator[Faces]:
        made = self.faces(more)
        made.start()
        try:
            yield made
        finally:
            made.close()

    def events(self) -> dict[str, dict[str, Any]]:
        """Of a program that has ended; by reason."""
        return {event["reason"]: event for event in self.cluster.objects.values()}


@pytest.fixture(name="place")
def _place() -> Place:
    return Place()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def is_open(port: int, address: str = "127.0.0.1") -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((address, port)) == 0


def ask(port: int, path: str = "/", method: str = "GET") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def eventually(check: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with suppress(OSError):
            if check():
                return True
        time.sleep(0.02)
    return False


def test_paths_are_those_of_kube_proxy(place: Place) -> None:
    with place.running() as faces:
        assert ask(place.healthz, "/readyz")[0] == 503
        faces.report(PROGRAMMED)
        assert eventually(lambda: ask(place.healthz, "/readyz")[0] == 200)
        assert ask(place.healthz, "/healthz?verbose=1")[0] == 200
        assert ask(place.healthz, "/livez", "HEAD") == (200, b"")
        assert ask(place.healthz, "/metrics")[0] == 404
        assert ask(place.metrics, "/healthz") == (200, b"ok")
        assert ask(place.metrics, "/proxyMode") == (200, b"nftables")
        assert ask(place.metrics, "/livez")[0] == 404
        configz = json.loads(ask(place.metrics, "/configz")[1])["kubeproxy.config.k8s.io"]
        assert configz["healthzBindAddress"] == f"127.0.0.1:{place.healthz}"
        metrics = ask(place.metrics, "/metrics")[1].decode()
        assert 'kubeproxy_proxy_healthz_total{code="200"} 1.0' in metrics
        assert 'kubeproxy_proxy_livez_total{code="200"} 1.0' in metrics
    with pytest.raises(OSError, match="refused"):
        ask(place.healthz)


def test_reports_of_every_change_wait_for_who_asks_and_never_pile_up(place: Place) -> None:
    with place.running() as faces:
        for _change in range(20):
            faces.report(Queued(time.time(), 0, 1, (4,)))
            faces.report(PROGRAMMED)
        time.sleep(0.2)
        assert len(faces._waiting) == 40
        assert ask(place.healthz, "/readyz")[0] == 200
        assert not faces._waiting
        for _change in range(2 * faces_module._MOST_WAITING):
            faces.report(PROGRAMMED)
        assert eventually(lambda: len(faces._waiting) < faces_module._MOST_WAITING)
        metrics = ask(place.metrics, "/metrics")[1].decode()
        assert 'kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv4"} 532.0' in metrics


def test_a_node_that_leaves_gets_no_new_connections_and_stays_alive(place: Place) -> None:
    with place.running() as faces:
        faces.report(NodeState("n1", deleting=True))
        assert eventually(lambda: ask(place.healthz, "/healthz")[0] == 503)
        assert ask(place.healthz, "/livez")[0] == 200


def test_health_checks_of_services(place: Place) -> None:
    checks = HealthChecks((HealthCheck(WEB, place.check, 2),), {4: ("127.0.0.1",)})
    with place.running() as faces:
        faces.report(checks)
        assert eventually(lambda: ask(place.check)[0] == 200)
        faces.report(Queued(time.time() - 61))
        assert eventually(lambda: ask(place.check)[0] == 503)
        faces.report(HealthChecks(()))
        faces.report(checks)  # both before the loop goes on
        faces.report(PROGRAMMED)
        assert eventually(lambda: ask(place.check)[0] == 200)
        faces.report(HealthChecks(()))
        assert eventually(lambda: not is_open(place.check))
    assert set(place.events()) == {"Starting"}


def test_events(place: Place) -> None:
    with place.running() as faces:
        faces.report(NodeState("n1", uid="un1"))
        faces.report(Refused(1.0, WEB, "the kernel said no", "uw"))
        faces.report(Failed(1.0, "there is no nft"))
        faces.report(Repaired(1.0, 4, 0.1, 5, 77, "nft"))
        assert eventually(lambda: len(place.cluster.objects) == 4)
    events = place.events()
    assert events["Starting"]["type"] == "Normal"
    assert events["Starting"]["action"] == "StartKubeProxy"
    assert events["FailedToProgramService"]["regarding"]["uid"] == "uw"
    assert events["FailedToProgramService"]["note"] == "the kernel said no"
    assert events["FailedToProgramRules"]["regarding"]["uid"] == "un1"
    assert events["RulesRepaired"]["note"] == "rules of IPv4 were changed by nft (pid 77) and are being repaired"


def test_an_address_that_is_taken_is_tried_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faces_module, "_AGAIN_SECONDS", 0.05)
    with socket.socket() as other:
        other.bind(("127.0.0.1", place.metrics))
        other.listen()
        with place.running() as faces:
            faces.report(PROGRAMMED)
            assert eventually(lambda: ask(place.healthz, "/livez")[0] == 200)
            other.close()
            assert eventually(lambda: ask(place.metrics, "/proxyMode") == (200, b"nftables"))
    event = place.events()["FailedToStartMetricServer"]
    expected = f"the service proxy cannot listen on 127.0.0.1:{place.metrics} for its metrics: Address already in use"
    assert event["note"] == expected


def test_an_address_that_is_taken_ends_the_start_where_that_is_set(place: Place) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", place.healthz))
        other.listen()
        faces = place.faces("bindAddressHardFail: true")
        with pytest.raises(HostError) as caught:
            faces.start()
        assert caught.value.id == "service-proxy-address-taken"
        assert "healthzBindAddress" in caught.value.remedy
        assert eventually(lambda: not is_open(place.metrics))
        faces.report(PROGRAMMED)  # of a loop that has not ended yet


def test_a_reload_is_answered(place: Place) -> None:
    with place.running() as faces:
        faces.report(Queued(time.time() - 61))
        assert eventually(lambda: ask(place.healthz, "/livez")[0] == 503)
        faces.reload(place.configuration("nftables: {syncPeriod: 10m}"))
        assert eventually(lambda: ask(place.healthz, "/livez")[0] == 200)
        configz = json.loads(ask(place.metrics, "/configz")[1])["kubeproxy.config.k8s.io"]
        assert configz["nftables"]["syncPeriod"] == "10m0s"


def test_there_may_be_more_health_check_ports_than_the_soft_limit_of_files(place: Place) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = len(os.listdir("/proc/self/fd")) + 30
    checks = (HealthCheck(WEB, place.check, 1),)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
        with place.running() as faces:
            addresses = tuple(f"127.0.1.{number}" for number in range(1, 60))
            faces.report(HealthChecks(checks, {4: addresses}))
            assert eventually(lambda: all(is_open(place.check, address) for address in addresses))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert set(place.events()) == {"Starting"}
