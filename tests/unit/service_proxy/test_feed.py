# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""What the feed hands over of an API that lists by pages, is away, and forgets."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.kube import informer
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.client import Listed
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import PeerError
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.feed import Feed, resources_of
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.objects import Seen
from tests.unit.service_proxy.objects import NODE_NAME, Item, cidr_object

PATHS = {resource.path: resource.name for resource in resources_of(NODE_NAME, "")}
SERVICES, SLICES, NODES, CIDRS = PATHS
GONE = PeerError("too old", id="core-api-gone")
AWAY = PeerError("it does not respond", id="core-no-answer")


def service(name: str, version: str = "1") -> Item:
    ip = f"10.96.0.{1 + ord(name) - ord('a')}"
    spec = {"clusterIP": ip, "clusterIPs": [ip], "ipFamilies": ["IPv4"], "ports": [{"port": 80}]}
    return {"metadata": {"name": name, "namespace": "default", "resourceVersion": version}, "spec": spec}


class Server:
    """Of which a test says what it answers. `params` are those of each list, by path."""

    def __init__(self) -> None:
        self.items: dict[str, list[Item]] = {path: [] for path in PATHS}
        self.page_size = 2
        self.refusals: dict[str, Exception] = {}
        self.params: dict[str, list[Mapping[str, str]]] = {path: [] for path in PATHS}
        self.between_pages: Callable[[], None] = lambda: None
        self.watches: dict[str, queue.Queue[Any]] = {path: queue.Queue() for path in PATHS}

    def pages(self, path: str, params: Mapping[str, str], *, objects: int) -> Iterator[Listed]:
        if path in self.refusals:
            raise self.refusals[path]
        self.params[path].append(params)
        items = list(self.items[path])
        for start in range(0, max(len(items), 1), self.page_size):
            yield Listed(tuple(items[start : start + self.page_size]), "7")
            self.between_pages()

    def watch(self, path: str, params: Mapping[str, str]) -> Iterator[Item]:
        while True:
            event = self.watches[path].get()
            if isinstance(event, Exception):
                raise event
            yield event


class Taker:
    """Waits for what the feed hands over."""

    def __init__(self, server: Server, name: str = "") -> None:
        self.woken = threading.Event()
        self.feed = Feed(lambda: server, NODE_NAME, name, self.woken.set)  # type: ignore[arg-type, return-value]

    def take(self, *, count: int = 1) -> dict[tuple[str, str], Seen]:
        taken: dict[tuple[str, str], Seen] = {}
        for _attempt in range(100):
            taken.update({(each.kind, each.key[1]): each for each in self.feed.take()})
            if len(taken) >= count:
                return taken
            self.woken.wait(0.05)
            self.woken.clear()
        return taken


@pytest.fixture
def server() -> Server:
    made = Server()
    made.items[SERVICES] = [service(name) for name in "abcde"]
    made.items[CIDRS] = [cidr_object("kubernetes", "10.96.0.0/24")]
    return made


@pytest.fixture
def taker(server: Server) -> Iterator[Taker]:
    made = Taker(server)
    made.feed.start()
    yield made
    made.feed.end()
    for watch in server.watches.values():
        watch.put({"type": "BOOKMARK", "object": {"metadata": {}}})


def names(taken: Mapping[tuple[str, str], Seen]) -> set[str]:
    return {f"{kind} {name}" for kind, name in taken}


FIRST = {*(f"Service {name}" for name in "abcde"), "ServiceCIDR kubernetes"}


def test_nothing_is_handed_over_until_all_was_listed(server: Server) -> None:
    server.refusals[SLICES] = AWAY
    made = Taker(server)
    made.feed._load(made.feed._connect(), made.feed._resources[0])
    assert (made.feed.take(), made.feed.complete) == ([], False)
    server.refusals.clear()
    for resource in made.feed._resources:
        made.feed._load(made.feed._connect(), resource)
    assert made.feed.complete
    assert names(made.take(count=6)) == FIRST


def test_a_list_of_several_pages_is_whole_and_read_page_by_page(server: Server) -> None:
    made = Taker(server)
    waiting: list[int] = []
    server.between_pages = lambda: waiting.append(len(made.feed._waiting))
    made.feed.load()
    assert waiting[:3] == [0, 0, 0]  # a list that ends in the middle has changed nothing
    assert names(made.take(count=6)) == FIRST


def test_events_come_after_the_list(server: Server, taker: Taker) -> None:
    taker.take(count=6)
    server.watches[SERVICES].put({"type": "MODIFIED", "object": service("a", "8")})
    server.watches[SERVICES].put({"type": "DELETED", "object": service("b", "9")})
    taken = taker.take(count=2)
    assert taken["Service", "a"].value is not None
    assert taken["Service", "b"].value is None


@pytest.mark.parametrize("error", [GONE, AWAY])
def test_after_an_outage_what_is_the_same_is_passed_over(server: Server, taker: Taker, error: PeerError) -> None:
    taker.take(count=6)
    server.items[SERVICES] = [service("a"), service("b", "8"), *(service(name) for name in "de"), service("f")]
    server.watches[SERVICES].put(error)
    taken = taker.take(count=3)
    assert names(taken) == {"Service b", "Service c", "Service f"}
    assert taken["Service", "c"].value is None  # it went meanwhile


def test_what_nobody_expected_is_told_and_the_api_is_followed_again(server: Server, taker: Taker) -> None:
    """A thread that ended would leave the rules as they are for ever, while all say that the API is followed."""
    taker.take(count=6)
    server.refusals[SERVICES] = OverflowError("too large")
    server.watches[SERVICES].put(KeyError("x"))
    for _attempt in range(100):
        if taker.feed.lost is not None and "too large" in taker.feed.lost[1].in_one_line:
            break
        time.sleep(0.05)
    assert taker.feed.lost is not None
    assert taker.feed.lost[1].id == "core-api-watch"
    server.refusals.clear()
    server.items[SERVICES] = [service("a", "8")]
    assert names(taker.take(count=5)) == {f"Service {name}" for name in "abcde"}
    assert taker.feed.lost is None


def test_while_the_api_is_away_nothing_is_handed_over(server: Server, taker: Taker) -> None:
    taker.take(count=6)
    server.refusals = dict.fromkeys(PATHS, AWAY)
    for watch in server.watches.values():
        watch.put(AWAY)
    for _attempt in range(100):
        if taker.feed.lost is not None:
            break
        time.sleep(0.05)
    assert taker.feed.lost is not None
    assert taker.feed.complete
    assert taker.feed.take() == []


@pytest.mark.parametrize("id", ["core-api-absent", "core-api-forbidden"])
def test_service_cidrs_may_not_be_served(server: Server, id: str) -> None:
    server.refusals[CIDRS] = PeerError("no", id=id)
    made = Taker(server)
    made.feed.load()
    assert names(made.take(count=5)) == FIRST - {"ServiceCIDR kubernetes"}


@pytest.mark.parametrize("id", ["core-api-absent", "core-api-forbidden"])
def test_service_cidrs_that_are_served_later_are_taken(
    server: Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, id: str
) -> None:
    """A ClusterRole that comes after the program, or an upgrade of the API server."""
    monkeypatch.setattr(informer, "_UNSERVED_SECONDS", 0.05)
    server.refusals[CIDRS] = PeerError("no", id=id)
    made: Taker = request.getfixturevalue("taker")
    made.take(count=5)
    server.refusals.clear()
    assert names(made.take()) == {"ServiceCIDR kubernetes"}
    server.watches[CIDRS].put({"type": "ADDED", "object": cidr_object("more", "10.97.0.0/24")})
    assert names(made.take()) == {"ServiceCIDR more"}


def test_service_cidrs_that_are_refused_later_stay(server: Server, taker: Taker) -> None:
    taker.take(count=6)
    server.refusals[CIDRS] = PeerError("no", id="core-api-forbidden")
    server.watches[CIDRS].put(AWAY)
    for _attempt in range(100):
        if taker.feed.lost is not None and taker.feed.lost[1].id == "core-api-forbidden":
            break
        time.sleep(0.05)
    assert taker.feed.lost is not None
    assert taker.feed.lost[1].id == "core-api-forbidden"
    assert taker.feed.take() == []


@pytest.mark.parametrize(
    ("name", "selector"),
    [
        ("", "!service.kubernetes.io/service-proxy-name"),
        ("ballast", "service.kubernetes.io/service-proxy-name=ballast"),
    ],
)
def test_only_services_of_this_proxy_are_asked_for_and_served(server: Server, name: str, selector: str) -> None:
    labelled = service("a")
    labelled["metadata"]["labels"] = {"service.kubernetes.io/service-proxy-name": "ballast"}
    server.items[SERVICES] = [labelled, service("b")]
    made = Taker(server, name)
    made.feed.load()
    assert server.params[SERVICES] == [{"labelSelector": selector}]
    taken = made.take(count=3)
    assert (taken["Service", "a"].value is not None, taken["Service", "b"].value is not None) == (
        name == "ballast",
        name == "",
    )


def test_the_last_state_of_an_object_is_handed_over(server: Server) -> None:
    made = Taker(server)
    made.feed.load()
    made.take(count=6)
    resource = made.feed._resources[0]
    versions: list[Optional[Item]] = [service("a", "8"), {**service("a", "9"), "spec": {"clusterIP": "None"}}]
    for item in versions:
        assert item is not None
        with made.feed._lock:
            made.feed._take(resource, "MODIFIED", item)
    (seen,) = made.feed.take()
    assert seen.value is None


def test_an_object_that_cannot_be_read_says_why(server: Server) -> None:
    broken = service("a")
    broken["spec"]["ports"] = [{"port": "eighty"}]
    server.items[SERVICES] = [broken]
    made = Taker(server)
    made.feed.load()
    seen = made.take(count=2)["Service", "a"]
    assert "spec.ports[0].port" in seen.problem
    assert seen.value is None
