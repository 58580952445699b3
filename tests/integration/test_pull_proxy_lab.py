# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pull proxy between three real kubelets and their containerds: pods start, and nothing reads otherwise than without it."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator

import pytest

from tests.integration.kube_proxy import eventually
from tests.integration.pull_lab import Pod, PullLab, pull_lab
from tests.integration.pull_place import named
from tests.integration.pull_proxy import PullProxy, pull_proxy
from tests.integration.registry import Layer, image
from tests.integration.registry_front import Manner

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a lab")]

LIMIT = 2
SIZE = 2_000_000
NAMES = [f"image-{number}" for number in range(9)]
SHARED = Layer("shared", SIZE)
_POD_SECONDS = 180


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PullLab]:
    images = [image(name, SIZE, shared=(SHARED,), parts=2) for name in NAMES]
    with pull_lab("pulls", tmp_path_factory.mktemp("pulls"), images) as made:
        yield made


@pytest.fixture(scope="module")
def proxy(whole: PullLab) -> Iterator[PullProxy]:
    with pull_proxy(whole.sockets / "proxy", whole.metered(), max_in_flight=LIMIT) as made:
        yield made


@pytest.fixture
def here(whole: PullLab, proxy: PullProxy) -> Iterator[PullLab]:
    whole.configure({node: proxy.socket(node) for node in whole.nodes})
    yield whole
    whole.clean()


def test_errors_and_events_are_those_of_a_kubelet_without_it(whole: PullLab, proxy: PullProxy) -> None:
    ways = {"past": whole.metered(), "through": {node: proxy.socket(node) for node in whole.nodes}}
    found = {}
    for way, endpoints in ways.items():
        whole.configure(endpoints)
        whole.front.manners[NAMES[1]] = Manner(status=429)
        pods = {f"works-{way}": NAMES[0], f"busy-{way}": NAMES[1], f"missing-{way}": "none"}
        whole.create([Pod(name, image, whole.nodes[0]) for name, image in pods.items()])
        found[way] = {name.removesuffix(f"-{way}"): told(whole, name) for name in pods}
        whole.clean()
    assert found["through"] == found["past"]
    assert "ErrImagePull" in str(found["through"]["missing"]["Failed"])


def told(lab: PullLab, pod: str) -> dict[str, list[str]]:
    """The texts of a pod's events by their reason, until it has started or its first pull has failed."""
    ends = {("Started", "Container started"), ("Failed", "Error: ErrImagePull")}
    assert eventually(lambda: ends & set(lab.events(pod)), seconds=_POD_SECONDS), lab.events(pod)
    texts: dict[str, set[str]] = {}
    for reason, text in lab.events(pod):
        if "Back" not in f"{reason} {text}":  # BackOff and ImagePullBackOff come later, or not yet
            texts.setdefault(reason, set()).add(without_chance(text.replace(pod, "POD")))
    return {reason: sorted(some) for reason, some in texts.items()}


def test_pods_of_three_kubelets_start_and_the_limit_holds(here: PullLab) -> None:
    pods = [Pod(name, name, here.nodes[number % 3]) for number, name in enumerate(NAMES)]
    here.create(pods)
    assert eventually(lambda: here.running() == set(NAMES), seconds=_POD_SECONDS), here.pods()
    assert here.meter.most() == LIMIT
    assert {pull.runtime for pull in here.meter.pulls()} == set(here.runtimes.values())


def test_pods_of_one_image_share_its_pull(here: PullLab, proxy: PullProxy) -> None:
    opened = here.front.hold(NAMES[:1])
    here.create([Pod(f"same-{number}", NAMES[0], here.nodes[0], pull_policy="Always") for number in range(8)])
    assert eventually(lambda: callers(proxy) == 8, seconds=_POD_SECONDS), proxy.status()
    opened.set()
    assert eventually(lambda: len(here.running()) == 8, seconds=_POD_SECONDS), here.pods()
    assert [pull.image for pull in here.meter.pulls()] == [named(NAMES[0])]


def test_a_kubelet_that_ends_leaves_the_queue_and_asks_again(here: PullLab, proxy: PullProxy) -> None:
    opened = here.front.hold(NAMES)
    here.create([Pod(name, name, here.nodes[0]) for name in NAMES[:4]])
    assert eventually(lambda: callers(proxy) == 4, seconds=_POD_SECONDS), proxy.status()
    here.restart_kubelets()
    assert eventually(lambda: len(here.meter.pulls()) == 4, seconds=_POD_SECONDS), here.meter.pulls()
    assert [pull.code for pull in here.meter.pulls()] == ["CANCELLED", "CANCELLED", None, None]
    assert eventually(lambda: callers(proxy) == 4, seconds=_POD_SECONDS), proxy.status()
    opened.set()
    assert eventually(lambda: here.running() == set(NAMES[:4]), seconds=_POD_SECONDS), here.pods()
    assert here.meter.most() == LIMIT


def test_no_pod_is_lost_when_the_proxy_is_killed(here: PullLab, proxy: PullProxy) -> None:
    opened = here.front.hold(NAMES)
    here.create([Pod(name, name, here.nodes[number % 3]) for number, name in enumerate(NAMES)])
    assert eventually(lambda: callers(proxy) == len(NAMES), seconds=_POD_SECONDS), proxy.status()
    proxy.stop(signal.SIGKILL)
    opened.set()
    proxy.start()
    assert eventually(lambda: here.running() == set(NAMES), seconds=_POD_SECONDS), here.pods()
    assert here.meter.most() == LIMIT
    ready = here.lab.kubectl("get", "nodes", "-o", "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}")
    assert ready.split() == ["True"] * 3


def callers(proxy: PullProxy) -> int:
    told = proxy.status()
    return sum(pull["callers"] for pull in [*told["in_flight"], *told["queued"]])


def without_chance(text: str) -> str:
    return re.sub(r"[0-9.]+(ms|s|µs)\b|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "#", text)
