# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.kube.client import Api
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import PeerError
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.faces import events
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.faces.events import (
    NORMAL,
    WARNING,
    Event,
    EventWriter,
    node_reference,
    service_reference,
)
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.ports import NodeState, ServiceName
from tests.unit.fake_api import FakeApi

SERVICE = Event(service_reference(ServiceName("shop", "web"), "u1"), WARNING, "FailedToX", "X", "it is taken")
PATH = "/apis/events.k8s.io/v1/namespaces/shop/events"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Cluster:
    """An API server that writes what it gets; `errors` are raised first, one for each attempt."""

    def __init__(self) -> None:
        self.fake = FakeApi()
        self.clock = Clock()
        self.errors: list[Exception] = []
        self.attempts = 0
        self.writer = EventWriter(self._connect, "n1", clock=self.clock)

    def _connect(self) -> Api:
        self.attempts += 1
        if self.errors:
            raise self.errors.pop(0)
        return self.fake.api

    def written(self) -> list[dict[str, Any]]:
        """All that were posted until now."""
        self.writer.start()
        self.writer.end(20)
        return list(self.fake.objects.values())


@pytest.fixture(name="cluster")
def _cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(events, "backoff", lambda attempt: 0.0)
    return Cluster()


def numbered(count: int) -> list[Event]:
    return [Event(service_reference(ServiceName("shop", f"s{number}")), WARNING, "R", "A") for number in range(count)]


def test_an_event_of_a_service(cluster: Cluster) -> None:
    cluster.writer.post(SERVICE)
    (event,) = cluster.written()
    assert cluster.fake.changes == [f"POST {PATH}"]
    assert event["metadata"].pop("name").startswith("web.")
    assert event.pop("metadata")["namespace"] == "shop"
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "eventTime": "1970-01-01T00:16:40.000000Z",
        "reportingController": "ballast-service-proxy",
        "reportingInstance": "ballast-service-proxy-n1",
        "regarding": {"apiVersion": "v1", "kind": "Service", "name": "web", "namespace": "shop", "uid": "u1"},
        "type": "Warning",
        "reason": "FailedToX",
        "action": "X",
        "note": "it is taken",
    }


def test_an_event_of_the_node_is_in_the_namespace_default(cluster: Cluster) -> None:
    cluster.writer.post(Event(node_reference(NodeState("n1")), NORMAL, "Starting", "StartKubeProxy"))
    (event,) = cluster.written()
    assert event["metadata"]["namespace"] == "default"
    assert event["regarding"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}


def test_it_fits_into_what_the_api_takes(cluster: Cluster) -> None:
    about = service_reference(ServiceName("shop", "a" * 228 + "-." + "b" * 23))
    cluster.writer.post(Event(about, WARNING, "R", "A", "x" * 5000))
    (event,) = cluster.written()
    assert len(event["note"]) <= 1024
    assert "characters left out" in event["note"]
    name = event["metadata"]["name"]
    assert len(name) <= 253
    assert "-." not in name


def test_the_same_event_is_written_once_in_ten_minutes(cluster: Cluster) -> None:
    for seconds in (0, 1, 598, 2):
        cluster.clock.now += seconds
        cluster.writer.post(SERVICE)
    assert len(cluster.written()) == 2
    assert cluster.writer.dropped == 0


def test_a_clock_that_goes_back_stops_no_event(cluster: Cluster) -> None:
    cluster.writer.post(SERVICE)
    cluster.clock.now -= 10_000
    cluster.writer.post(SERVICE)
    assert len(cluster.written()) == 2


def test_a_burst_is_bounded_and_counted(cluster: Cluster) -> None:
    for event in numbered(30):
        cluster.writer.post(event)
    assert cluster.writer.dropped == 5
    cluster.clock.now += 10  # two more
    for event in numbered(33)[30:]:
        cluster.writer.post(event)
    assert (len(cluster.written()), cluster.writer.dropped) == (27, 6)


def test_what_waits_is_bounded(cluster: Cluster) -> None:
    for event in numbered(120):
        cluster.clock.now += 5
        cluster.writer.post(event)
    assert cluster.writer.dropped == 20


def test_an_api_server_that_is_away_is_asked_again(cluster: Cluster) -> None:
    cluster.errors = [PeerError("away", id="core-no-answer")] * 9
    cluster.writer.post(SERVICE)
    assert (len(cluster.written()), cluster.attempts, cluster.writer.dropped) == (1, 10, 0)


@pytest.mark.parametrize(("id", "attempts"), [("core-no-answer", 10), ("core-api-forbidden", 1)])
def test_one_that_cannot_be_written_is_counted(cluster: Cluster, id: str, attempts: int) -> None:
    cluster.errors = [PeerError("no", id=id)] * 20
    cluster.writer.post(SERVICE)
    assert (cluster.written(), cluster.attempts, cluster.writer.dropped) == ([], attempts, 1)


def test_after_what_nobody_expected_the_others_are_written(cluster: Cluster) -> None:
    cluster.errors = [OverflowError("too large")]
    for event in numbered(2):
        cluster.writer.post(event)
    assert (len(cluster.written()), cluster.writer.dropped) == (1, 1)


def test_one_that_was_written_without_an_answer_is_not_lost(cluster: Cluster) -> None:
    cluster.errors = [PeerError("away", id="core-no-answer"), PeerError("exists", id="core-api-conflict")]
    cluster.writer.post(SERVICE)
    assert (cluster.written(), cluster.attempts, cluster.writer.dropped) == ([], 2, 0)


def test_memory_of_events_is_bounded(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_BURST", 10**6)
    cluster.writer = EventWriter(cluster._connect, "n1", clock=cluster.clock)
    for event in numbered(3000):
        cluster.writer.post(event)
    assert len(cluster.writer._posted) <= 1000
