# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import json
import os
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._agent.http_listener import Request
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.faces import health_check_node_ports
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.faces.events import Event
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.faces.health_check_node_ports import (
    HealthCheckNodePorts,
)
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.ports import (
    HealthCheck,
    HealthChecks,
    ServiceName,
)

WEB, DB = ServiceName("shop", "web"), ServiceName("shop", "db")


class Machine:
    """Places that are listened on, by us and by others."""

    def __init__(self) -> None:
        self.ours: dict[tuple[str, int], Any] = {}
        self.of_others: set[tuple[str, int]] = set()
        self.events: list[Event] = []
        self.healthy = True
        self.ports = HealthCheckNodePorts("n1", lambda: self.healthy, self.events.append)

    def open_place(self, place: tuple[str, int]) -> tuple[str, int]:
        host, port = place
        if (host, port) in self.of_others:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        assert (host, port) not in self.ours
        return host, port

    def listener(self, answer: Any, place: tuple[str, int], **_options: float) -> Any:
        machine = self

        class Listener:
            def close(self) -> None:
                del machine.ours[place]

        self.ours[place] = answer
        return Listener()

    def ask(self, host: str, port: int) -> Any:
        return self.ours[host, port](Request("GET", "/anything"))


@pytest.fixture(name="machine")
def _machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return prepared(monkeypatch)


def prepared(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(health_check_node_ports, "_open", made.open_place)
    monkeypatch.setattr(health_check_node_ports, "HttpListener", made.listener)
    return made


def checks(*rows: tuple[ServiceName, int, int], addresses: tuple[str, ...] = ()) -> HealthChecks:
    """Of IPv4."""
    return HealthChecks(tuple(HealthCheck(*row) for row in rows), {4: addresses})


@pytest.mark.parametrize(
    ("endpoints", "healthy", "status"), [(2, True, 200), (0, True, 503), (2, False, 503), (0, False, 503)]
)
def test_an_answer_is_that_of_kube_proxy(machine: Machine, endpoints: int, healthy: bool, status: int) -> None:
    machine.ports.take(checks((WEB, 30100, endpoints)))
    machine.healthy = healthy
    answer = machine.ask("0.0.0.0", 30100)
    assert (answer.status, answer.kind) == (status, "application/json")
    assert answer.headers == (("X-Load-Balancing-Endpoint-Weight", str(endpoints)),)
    assert json.loads(answer.body) == {
        "service": {"namespace": "shop", "name": "web"},
        "localEndpoints": endpoints,
        "serviceProxyHealthy": healthy,
    }
    assert answer.body.startswith(b'{\n\t"service": {\n\t\t"namespace": "shop",\n')


def test_ports_are_opened_and_closed_as_services_change(machine: Machine) -> None:
    machine.ports.take(checks((WEB, 30100, 1), (DB, 30200, 0), addresses=("10.0.0.1", "fd00::1")))
    assert set(machine.ours) == {(host, port) for host in ("10.0.0.1", "fd00::1") for port in (30100, 30200)}
    kept = machine.ours["10.0.0.1", 30200]
    machine.ports.take(checks((DB, 30200, 3), addresses=("10.0.0.1",)))
    assert machine.ours == {("10.0.0.1", 30200): kept}
    assert json.loads(machine.ask("10.0.0.1", 30200).body)["localEndpoints"] == 3
    machine.ports.take(checks((WEB, 30200, 3), addresses=("10.0.0.1",)))  # the port of another Service now
    assert json.loads(machine.ask("10.0.0.1", 30200).body)["service"]["name"] == "web"
    machine.ports.take(checks())
    assert machine.ours == {}


def test_each_family_answers_for_its_own_endpoints_on_its_own_addresses(machine: Machine) -> None:
    both = (HealthCheck(WEB, 30100, 2, 4), HealthCheck(WEB, 30100, 0, 6), HealthCheck(DB, 30200, 1, 6))
    machine.ports.take(HealthChecks(both, {4: ("10.0.0.1",), 6: ()}))
    assert set(machine.ours) == {("10.0.0.1", 30100), ("::", 30100), ("::", 30200)}
    assert [machine.ask(host, 30100).status for host in ("10.0.0.1", "::")] == [200, 503]


def test_a_place_that_is_taken_is_an_event_and_tried_again(machine: Machine) -> None:
    machine.of_others = {("fd00::1", 30100)}
    both = (HealthCheck(WEB, 30100, 1, 4), HealthCheck(WEB, 30100, 1, 6))
    machine.ports.take(HealthChecks(both, {4: ("10.0.0.1",), 6: ("fd00::1",)}))
    assert set(machine.ours) == {("10.0.0.1", 30100)}
    assert machine.ports.closed == 1
    (event,) = machine.events
    assert (event.regarding.kind, event.regarding.namespace, event.regarding.name) == ("Service", "shop", "web")
    assert (event.type, event.reason, event.action) == ("Warning", "FailedToStartServiceHealthcheck", "Listen")
    expected = "node n1 cannot answer health checks of shop/web at [fd00::1]:30100: Address already in use"
    assert event.note == expected
    machine.of_others = set()
    machine.ports.try_again()
    assert len(machine.ours) == 2
    assert machine.ports.closed == 0


_CHECKS = st.lists(
    st.builds(HealthCheck, st.sampled_from([WEB, DB]), st.integers(1, 4), st.integers(0, 2)),
    unique_by=lambda check: check.port,
)
_ADDRESSES = st.lists(st.sampled_from(["10.0.0.1", "10.0.0.2"]), unique=True)


@given(st.lists(st.tuples(_CHECKS, _ADDRESSES, st.sets(st.integers(1, 4)))))
def test_exactly_what_is_wanted_and_free_is_open(steps: list[tuple[list[HealthCheck], list[str], set[int]]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        machine = prepared(patch)
        for wanted, addresses, taken in steps:
            machine.of_others = {("10.0.0.1", port) for port in taken} - set(machine.ours)
            machine.ports.take(HealthChecks(tuple(wanted), {4: tuple(addresses)}))
            places = {(host, check.port) for check in wanted for host in addresses or ["0.0.0.0"]}
            assert set(machine.ours) == places - machine.of_others
            for check in wanted:
                for host in addresses or ["0.0.0.0"]:
                    if (host, check.port) in machine.ours:
                        assert json.loads(machine.ask(host, check.port).body)["service"]["name"] == check.service.name


def test_every_address_of_one_family_leaves_the_other_free() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    sockets = [health_check_node_ports._open((address, port)) for address in ("0.0.0.0", "::")]
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass
        assert [opened.family for (opened,) in sockets] == [socket.AF_INET, socket.AF_INET6]
    finally:
        for (listener,) in sockets:
            listener.close()
