# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Containerds and the client of CRI as the tests of pulls use them, without anything of ours between."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from tests.integration.containerds import HOST, NEW, OLD, Containerd, containerd
from tests.integration.cri import Images, fields, images, message, pull_request, text
from tests.integration.cri_meter import meter
from tests.integration.kube_proxy import eventually
from tests.integration.registry import TAG, image, registry
from tests.integration.registry_front import Front, Manner, front

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make network namespaces")

SIZE = 300_000


@dataclass(frozen=True)
class Runtime:
    made: Containerd
    images: Images
    front: Front


@pytest.fixture(scope="module", params=[NEW, OLD])
def runtime(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    place = tmp_path_factory.mktemp("containerd")
    with registry(place / "registry") as served, containerd("containerd", place / "c", request.param) as made:
        for name in ("one", "two"):
            served.push(image(name, SIZE))
        with front(served.port, {made.namespace: "c"}) as before, images(made.socket) as client:
            yield Runtime(made, client, before)


def test_messages_are_protobuf() -> None:
    request = pull_request("i", auth={1: "u", 2: "p"}, pod="p", annotations={"a": "b"})
    assert (
        request.hex()
        == (
            "0a0b" + "0a0169" + "1206" + "0a0161" + "120162"  # ImageSpec
            "1206" + "0a0175" + "120170"  # AuthConfig
            "1a18"
            + "0a16"
            + "0a0170"
            + "12"
            + "08"
            + b"uid-of-p".hex()
            + "1a"
            + "07"
            + b"default".hex()  # PodSandboxConfig
        )
    )
    assert fields(message({1: 300, 2: "x"})) == {1: [300], 2: [b"x"]}
    assert text(request, 3, 1, 3) == "default"


def test_it_is_the_version_asked_for(runtime: Runtime) -> None:
    assert runtime.made.version in runtime.images.runtime()


def test_it_pulls_finds_and_removes_an_image(runtime: Runtime) -> None:
    name = f"{HOST}/one:{TAG}"
    assert runtime.images.id_of(name) == ""
    pulled = runtime.images.pull(name)
    assert runtime.images.id_of(name)
    assert pulled
    assert name in runtime.images.names()
    assert sum(one.sent for one in runtime.front.asked("one", kind="blobs")) > SIZE
    runtime.images.remove(name)
    assert runtime.images.id_of(name) == ""


def test_a_pull_that_is_cancelled_ends_the_fetch(runtime: Runtime) -> None:
    opened = threading.Event()
    runtime.front.manners["two"] = Manner(open=opened)
    pulling = runtime.images.pulling(pull_request(f"{HOST}/two:{TAG}"))
    try:
        assert eventually(runtime.made.ingests, seconds=30)
        pulling.cancel()
        assert eventually(lambda: not runtime.made.ingests(), seconds=30)
    finally:
        opened.set()
    assert runtime.images.id_of(f"{HOST}/two:{TAG}") == ""


def test_a_missing_image_is_an_error(runtime: Runtime) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        runtime.images.pull(f"{HOST}/none:{TAG}")
    assert raised.value.code() in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNKNOWN)
    assert "none" in raised.value.details()


def test_the_meter_counts_pulls_at_the_runtime(runtime: Runtime, tmp_path: Path) -> None:
    opened = threading.Event()
    first, second = wanted = [f"{HOST}/{name}:{TAG}" for name in ("one", "two")]
    runtime.front.manners.update({name: Manner(open=opened) for name in ("one", "two")})
    with meter(tmp_path, {f"{tmp_path}/s": runtime.made.socket}) as counts, images(f"{tmp_path}/s") as client:
        pulling = client.pulling(pull_request(first, pod="p"))
        assert eventually(lambda: len(counts.in_flight()) == 1, seconds=30)
        cancelled = client.pulling(pull_request(second))
        assert eventually(lambda: len(counts.in_flight()) == 2, seconds=30)
        cancelled.cancel()
        assert eventually(lambda: [pull.image for pull in counts.in_flight()] == [first], seconds=30)
        opened.set()
        pulling.result(timeout=60)
        with pytest.raises(grpc.RpcError):
            client.pull(f"{HOST}/none:{TAG}")
        assert eventually(lambda: not counts.in_flight(), seconds=30)
        assert [pull.image for pull in counts.pulls()] == [*wanted, f"{HOST}/none:{TAG}"]
        assert counts.pulls()[0].pod == "p"
        assert [pull.code for pull in counts.pulls()][:2] == ["OK", "CANCELLED"]
        assert (counts.most(), counts.most(by_runtime=True)) == (2, 2)
        counts.forget()
        assert counts.pulls() == []


def test_it_starts_again(runtime: Runtime) -> None:
    runtime.images.pull(f"{HOST}/one:{TAG}")
    runtime.made.stop()
    runtime.made.start()
    assert eventually(lambda: f"{HOST}/one:{TAG}" in runtime.images.names(), seconds=30)
