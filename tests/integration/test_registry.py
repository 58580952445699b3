# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The registry of the tests of pulls, and the server before it: it records what was asked, and is as slow as it is told."""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest

from tests.integration.kube_proxy import eventually
from tests.integration.registry import MANIFEST, TAG, Layer, Registry, image, registry
from tests.integration.registry_front import PORT, Front, Manner, front
from tests.integration.wire import entered, namespace

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make network namespaces")

SIZE = 300_000
BASE = Layer("base", SIZE)
ONE, TWO = image("one", SIZE, shared=(BASE,)), image("team/two", SIZE, shared=(BASE,))


@dataclass(frozen=True)
class Place:
    namespace: str
    registry: Registry
    front: Front

    def ask(self, path: str) -> tuple[int, bytes]:
        with entered(self.namespace):
            connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=30)
            connection.connect()
        with closing(connection):
            connection.request("GET", path, headers={"Accept": f"{MANIFEST}, */*"})
            answer = connection.getresponse()
            return answer.status, answer.read()

    def layer(self, name: str) -> str:
        """The path of its last one."""
        status, manifest = self.ask(f"/v2/{name}/manifests/{TAG}")
        assert status == 200, manifest
        return f"/v2/{name}/blobs/{json.loads(manifest)['layers'][-1]['digest']}"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with namespace("registry") as inside, registry(tmp_path_factory.mktemp("registry")) as served:
        for one in (ONE, TWO):
            served.push(one)
        with front(served.port, {inside.namespace: "here"}) as before:
            yield Place(inside.namespace, served, before)


@pytest.fixture(autouse=True)
def _fresh(place: Place) -> None:
    place.front.requests.clear()
    place.front.manners.clear()


def test_an_image_is_what_was_made(place: Place) -> None:
    status, manifest = place.ask(f"/v2/team/two/manifests/{TAG}")
    assert status == 200
    layers = [layer["digest"] for layer in json.loads(manifest)["layers"]]
    assert layers[1] == json.loads(place.ask(f"/v2/one/manifests/{TAG}")[1])["layers"][1]["digest"], "the shared one"
    status, content = place.ask(f"/v2/team/two/blobs/{layers[2]}")
    assert (status, content) == (200, TWO.layers[2].tar())


def test_the_same_image_has_the_same_digest(place: Place) -> None:
    assert place.registry.push(ONE) == place.registry.push(ONE)


def test_it_records_who_asked_for_what(place: Place) -> None:
    place.ask(place.layer("team/two"))
    (manifest,) = place.front.asked("team/two", kind="manifests")
    (blob,) = place.front.asked("team/two", kind="blobs")
    # Who asked has the answer before the front has noted that it sent it.
    assert eventually(lambda: manifest.ended and blob.ended, seconds=60) >= blob.begun
    assert (manifest.runtime, manifest.status) == ("here", 200)
    assert blob.sent == len(TWO.layers[2].tar())
    assert place.front.asked("one") == []


@pytest.mark.parametrize(("status", "code"), [(404, "MANIFEST_UNKNOWN"), (429, "TOOMANYREQUESTS")])
def test_it_refuses_as_a_registry_does(place: Place, status: int, code: str) -> None:
    place.front.manners["one"] = Manner(status=status)
    found, body = place.ask(f"/v2/one/manifests/{TAG}")
    assert (found, json.loads(body)["errors"][0]["code"]) == (status, code)
    assert place.ask(f"/v2/team/two/manifests/{TAG}")[0] == 200


def test_an_image_that_is_not_there_is_the_registrys_own_error(place: Place) -> None:
    status, body = place.ask(f"/v2/none/manifests/{TAG}")
    assert (status, json.loads(body)["errors"][0]["code"]) == (404, "MANIFEST_UNKNOWN")


def test_a_slow_image_is_slow(place: Place) -> None:
    path = place.layer("one")
    place.front.manners["one"] = Manner(bytes_per_second=SIZE)
    begun = time.monotonic()
    place.ask(path)
    assert time.monotonic() - begun > 0.9


def test_content_is_held_and_counted_as_in_flight(place: Place) -> None:
    paths = {name: place.layer(name) for name in ("one", "team/two")}
    opened = threading.Event()
    place.front.manners.update({name: Manner(open=opened) for name in paths})
    asking = [threading.Thread(target=place.ask, args=(path,)) for path in (*paths.values(), paths["one"])]
    for thread in asking:
        thread.start()
    try:
        assert eventually(lambda: len(place.front.asked(kind="blobs")) == 3, seconds=20)
        assert all(one.ended == 0 for one in place.front.asked(kind="blobs"))
    finally:
        opened.set()
    for thread in asking:
        thread.join(20)
    assert place.front.in_flight_most() == 2, "two requests for one image are one pull"
