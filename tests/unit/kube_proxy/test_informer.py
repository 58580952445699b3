# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The feed on an API server whose every event the test sends."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Union

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.kube import informer
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.client import Listed
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import PeerError
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.informer import (
    ServiceInformer,
    read_named_services,
    read_snapshot,
    resources_of,
)
from tests.unit.rules import given

SERVICES, SLICES, NODES, CIDRS = (resource.path for resource in resources_of("n1"))
SECONDS = 5.0
GONE = PeerError("too old", id="core-api-gone")
AWAY = PeerError("no answer", id="core-no-answer", found="connection refused")
Event = Union[tuple[str, dict[str, Any]], PeerError]


class Server:
    """`lists` are the objects by path, an error instead of them is raised."""

    def __init__(self) -> None:
        self.lists: dict[str, Union[list[dict[str, Any]], PeerError]] = {
            SERVICES: [given.service("a"), given.service("b")],
            SLICES: [given.endpoint_slice([given.endpoint("10.1.0.5")])],
            NODES: [given.node("n1")],
            CIDRS: PeerError("absent", id="core-api-absent"),
        }
        self.listed: list[tuple[str, Mapping[str, str]]] = []
        self.watched: list[tuple[str, Mapping[str, str]]] = []
        self._events: dict[str, queue.Queue[Event]] = {path: queue.Queue() for path in self.lists}

    def send(self, path: str, *events: Event) -> None:
        for event in events:
            self._events[path].put(event)

    def list(self, path: str, params: Mapping[str, str]) -> Listed:
        self.listed.append((path, params))
        found = self.lists[path]
        if isinstance(found, PeerError):
            raise found
        return Listed(tuple(deepcopy(found)), "7")

    def watch(self, path: str, params: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        self.watched.append((path, params))
        while True:
            event = self._events[path].get(timeout=SECONDS)
            if isinstance(event, PeerError):
                raise event
            yield {"type": event[0], "object": event[1]}

    def counted(self, path: str) -> int:
        return [one for one, _params in self.listed].count(path)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr(informer, "backoff", lambda attempt: 0.01)
    return Server()


@pytest.fixture
def followed(server: Server) -> Iterator[ServiceInformer]:
    one = ServiceInformer(lambda: server, "n1")  # type: ignore[arg-type,return-value]
    one.start()
    until(lambda: one.complete)
    until(lambda: len(server.watched) == 3)
    one.take()
    yield one
    one.end()
    for path in (SERVICES, SLICES, NODES):
        server.send(path, AWAY)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.002)


def names(data: Mapping[str, Any], kind: str = "Service") -> list[str]:
    return [item["metadata"].get("name", "") for item in data["items"] if item["kind"] == kind]


def settled(server: Server, one: ServiceInformer) -> None:
    """All that was sent has been taken: the event after it, which counts, has been."""
    marker = given.service(f"marker-{time.monotonic_ns()}")
    server.send(SERVICES, ("ADDED", marker))
    until(lambda: marker["metadata"]["name"] in names(one.take()))


def test_all_is_listed_once_and_then_watched_from_there(server: Server, followed: ServiceInformer) -> None:
    assert not followed.changed.is_set()
    assert names(followed.take()) == ["a", "b"]
    assert sorted(path for path, _params in server.listed) == sorted(server.lists)
    own = {"fieldSelector": "metadata.name=n1"}
    assert dict(server.listed)[NODES] == own
    assert dict(server.watched) == {
        SERVICES: {"resourceVersion": "7"},
        SLICES: {"resourceVersion": "7"},
        NODES: {**own, "resourceVersion": "7"},
    }


def test_objects_come_change_and_go(server: Server, followed: ServiceInformer) -> None:
    changed = given.service("a", clusterIP="10.96.0.9", clusterIPs=["10.96.0.9"])
    server.send(SERVICES, ("ADDED", given.service("c")), ("MODIFIED", changed), ("DELETED", given.service("b")))
    settled(server, followed)
    data = followed.take()
    assert [name for name in names(data) if not name.startswith("marker")] == ["a", "c"]
    assert data["items"][0]["spec"]["clusterIP"] == "10.96.0.9"


def same_but_newer(item: dict[str, Any]) -> dict[str, Any]:
    found = deepcopy(item)
    found["metadata"].update(resourceVersion="99", generation=3, managedFields=[{"manager": "kubelet"}], uid="u")
    if "kind" in found and found["kind"] == "Node":
        found["status"]["conditions"] = [{"type": "Ready", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]
        found["status"]["images"] = []
    return found


@pytest.mark.parametrize(
    ("path", "event"),
    [
        (SERVICES, ("MODIFIED", same_but_newer(given.service("a")))),
        (NODES, ("MODIFIED", same_but_newer(given.node("n1")))),
        (SLICES, ("MODIFIED", same_but_newer(given.endpoint_slice([given.endpoint("10.1.0.5")])))),
        (SERVICES, ("DELETED", given.service("never-there"))),
        (SERVICES, ("DELETED", given.service("a", namespace="other"))),
        (SERVICES, ("BOOKMARK", {"metadata": {"resourceVersion": "100"}})),
        (SERVICES, ("ADDED", given.service("a"))),
    ],
    ids=["service", "heartbeat", "slice", "unknown", "other-namespace", "bookmark", "again"],
)
def test_what_does_not_bear_on_rules_wakes_nobody(
    server: Server, followed: ServiceInformer, path: str, event: Event
) -> None:
    before = followed.take()
    server.send(path, event, AWAY)  # with AWAY it is listed anew, which is the end of what was sent
    until(lambda: server.counted(path) == 2)
    until(lambda: len(server.watched) == 4)
    assert not followed.changed.is_set()
    assert followed.take() == before


@pytest.mark.parametrize(
    ("path", "event"),
    [
        (SERVICES, ("DELETED", given.service("a"))),
        (SERVICES, ("MODIFIED", given.service("a", sessionAffinity="ClientIP"))),
        (NODES, ("MODIFIED", given.node("n1", **{"topology.kubernetes.io/zone": "z2"}))),
        (SLICES, ("MODIFIED", given.endpoint_slice([given.endpoint("10.1.0.5", ready=False)]))),
    ],
    ids=["gone", "spec", "zone", "readiness"],
)
def test_what_bears_on_rules_wakes(server: Server, followed: ServiceInformer, path: str, event: Event) -> None:
    server.send(path, event)
    until(followed.changed.is_set)


@pytest.mark.parametrize("reason", [GONE, AWAY], ids=["gone", "away"])
def test_while_the_api_is_away_objects_stay_and_then_they_are_listed_anew(
    server: Server, followed: ServiceInformer, reason: PeerError
) -> None:
    server.lists[SERVICES] = AWAY
    server.send(SERVICES, reason)
    until(lambda: followed.problem == "no answer: connection refused")
    assert followed.complete
    assert not followed.changed.is_set()
    assert names(followed.take()) == ["a", "b"]
    server.lists[SERVICES] = [given.service("b"), given.service("d")]
    until(followed.changed.is_set)
    assert names(followed.take()) == ["b", "d"]
    until(lambda: followed.problem == "")


@pytest.mark.parametrize("id", ["core-api-absent", "core-api-forbidden"])
def test_service_cidrs_may_not_be_served(id: str) -> None:
    server = Server()
    server.lists[CIDRS] = PeerError("no", id=id)
    assert names(read_snapshot(server, "n1"), "ServiceCIDR") == []  # type: ignore[arg-type]
    server.lists[CIDRS] = [given.service_cidr("10.96.0.0/12")]
    assert names(read_snapshot(server, "n1"), "ServiceCIDR") == ["kubernetes"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "id"), [(SERVICES, "core-api-forbidden"), (NODES, "core-api-absent"), (CIDRS, "core-no-answer")]
)
def test_anything_else_that_is_not_served_is_an_error(path: str, id: str) -> None:
    server = Server()
    server.lists[path] = PeerError("no", id=id)
    with pytest.raises(PeerError) as caught:
        read_snapshot(server, "n1")  # type: ignore[arg-type]
    assert caught.value.id == id


def test_lists_have_no_kinds_in_their_items_and_get_them() -> None:
    server = Server()
    item = given.service("a")
    del item["kind"], item["apiVersion"]
    server.lists[SERVICES] = [item]
    found = read_snapshot(server, "n1")["items"][0]  # type: ignore[arg-type]
    assert (found["apiVersion"], found["kind"]) == ("v1", "Service")


@pytest.mark.parametrize("metadata", ["text", ["a"], 7, None])
def test_an_object_of_wrong_shape_ends_no_thread(server: Server, followed: ServiceInformer, metadata: object) -> None:
    server.send(SERVICES, ("ADDED", {"metadata": metadata, "spec": {}}))
    settled(server, followed)


def test_a_node_of_wrong_shape_ends_no_thread(server: Server, followed: ServiceInformer) -> None:
    server.send(NODES, ("MODIFIED", {"metadata": {"name": "n1"}, "status": "text"}), ("DELETED", given.node("n1")))
    until(lambda: names(followed.take(), "Node") == [])


def test_of_named_services_alone_the_api_is_asked() -> None:
    server = Server()
    data = read_named_services(server, ["default/kubernetes", "kube-system/kube-dns"], "n1")  # type: ignore[arg-type]
    assert server.listed == [
        (SERVICES, {"fieldSelector": "metadata.namespace=default,metadata.name=kubernetes"}),
        (SERVICES, {"fieldSelector": "metadata.namespace=kube-system,metadata.name=kube-dns"}),
        (NODES, {"fieldSelector": "metadata.name=n1"}),
    ]
    assert {item["kind"] for item in data["items"]} == {"Service", "Node"}
