# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A balloon whose container cannot start, and the image that nodes have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import (
    FAILED,
    STARTING,
    Balloon,
    Names,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.deployment.objects import (
    build_objects,
    object_steps,
    read_objects,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.deployment.sandbox_image import (
    DEFAULT,
    choose_image,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.request import NodeRequest
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.node_resize import OVER, NodeResize
from tests.unit.balloon.sized import amount, node
from tests.unit.balloon.test_objects import request
from tests.unit.balloon.test_reading import a_balloon, balloon_of
from tests.unit.fake_api import FakeApi
from tests.unit.fakes import json_answer

OLD, NEW, K3S = "registry.k8s.io/pause:3.9", "registry.k8s.io/pause:3.10", "docker.io/rancher/mirrored-pause:3.6"
MIRRORED = "mirror.example:5000/k8s/pause:3.10"
KUBE_PROXY = "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy"


def waiting(reason: str, message: str = "") -> Balloon:
    pod = a_balloon(allocated=None)
    pod["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": reason, "message": message}}
    return balloon_of(pod)


def seconds_until_failed(balloon: Balloon | None) -> tuple[float, str]:
    found = replace(node("n1"), balloon=balloon)
    resize = NodeResize("n1", amount(1000, 1024), grow_timeout=30)
    now = 0.0
    resize.look(found, now)
    while resize.phase != OVER:
        assert resize.wake is not None
        assert resize.wake > now
        now = resize.wake
        resize.look(found, now)
    assert resize.outcome is not None
    assert resize.outcome.outcome == FAILED
    return now, resize.outcome.text


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing", ""])
def test_a_container_that_is_being_started_gives_no_reason(reason: str) -> None:
    found = waiting(reason)
    assert (found.state, found.waiting, found.message) == (STARTING, "", "")
    assert seconds_until_failed(found)[0] == 120


@pytest.mark.parametrize(
    ("reason", "seconds"),
    [
        ("ErrImagePull", 15),
        ("ImagePullBackOff", 15),
        ("CreateContainerError", 15),
        ("InvalidImageName", 0),
        ("ErrImageNeverPull", 0),
        ("CreateContainerConfigError", 0),
    ],
)
def test_one_that_cannot_start_ends_with_its_own_reason(reason: str, seconds: float) -> None:
    found = waiting(reason, 'Back-off pulling image "registry.k8s.io/pause:3.10.1"')
    after, text = seconds_until_failed(found)
    assert after == seconds
    assert text.startswith(f"n1: the container of its balloon cannot start: {reason}")
    assert 'Back-off pulling image "registry.k8s.io/pause:3.10.1"' in text
    assert "kubectl delete pod -n kube-system b" in text


def test_a_pull_that_fails_late_is_not_given_the_same_time_again() -> None:
    resize = NodeResize("n1", amount(1000, 1024), grow_timeout=30)
    resize.look(replace(node("n1"), balloon=waiting("ContainerCreating")), 0.0)
    resize.look(replace(node("n1"), balloon=waiting("ErrImagePull")), 60.0)
    assert resize.phase == OVER


def a_node(*names: str, name: str = "n1") -> dict[str, Any]:
    labels = {"kubernetes.io/os": "linux"}
    images = [{"names": [f"{image.partition(':')[0]}@sha256:0", image], "sizeBytes": 1} for image in names]
    return {"metadata": {"name": name, "labels": labels}, "status": {"images": images}}


@pytest.mark.parametrize(
    ("nodes", "present", "kube_proxy", "image"),
    [
        ([], "", "", DEFAULT),
        ([a_node("docker.io/library/nginx:1")], "", "", DEFAULT),
        ([a_node(OLD, NEW)], "", "", NEW),
        ([a_node(OLD, NEW), a_node(OLD)], "", "", OLD),  # all nodes have it
        ([a_node(K3S), a_node(K3S), a_node(NEW)], "", "", K3S),  # on most
        ([a_node(OLD, NEW)], OLD, "", OLD),  # nothing changes without a reason
        ([a_node(NEW)], OLD, "", NEW),
        ([a_node()], OLD, "", OLD),
        # Anybody brings an image of any name to all nodes.
        ([a_node("docker.io/evil/pause:9", NEW), a_node("docker.io/evil/pause:9")], "", "", NEW),
        ([a_node(MIRRORED)], "", "mirror.example:5000/k8s/kube-proxy:v1.37.1", MIRRORED),
        ([a_node(MIRRORED)], "", "mirror.example:5000/other/kube-proxy:v1.37.1", DEFAULT),
        ([a_node("pause:9")], "", "not/a name", DEFAULT),
        ([a_node("pause:9", "/pause:9")], "", "", DEFAULT),
    ],
)
def test_the_image_is_the_sandbox_image_of_most_nodes(
    nodes: list[dict[str, Any]], present: str, kube_proxy: str, image: str
) -> None:
    assert choose_image(nodes, present, kube_proxy) == image


def image_made(cluster: FakeApi, **changes: Any) -> str:
    asked = request(image="", **changes)
    steps = object_steps(asked, read_objects(cluster.api, asked))
    (image,) = [
        step.after["spec"]["template"]["spec"]["containers"][0]["image"]
        for step in steps
        if step.after is not None and step.kind == "DaemonSet"
    ]
    return str(image)


def test_it_is_read_from_the_nodes_of_the_balloons_and_from_kube_proxy() -> None:
    cluster = FakeApi()
    cluster.add("/api/v1/nodes/n1", a_node("mirror.example/k8s/pause:3.10"))
    assert image_made(cluster) == DEFAULT
    manifest = build_objects(request(image="mirror.example/k8s/kube-proxy:v1.37.1"))
    (daemon_set,) = [found for found in manifest.values() if found["kind"] == "DaemonSet"]
    cluster.add(KUBE_PROXY, {**daemon_set, "metadata": {"name": "kube-proxy", "namespace": "kube-system"}})
    assert image_made(cluster) == "mirror.example/k8s/pause:3.10"
    cluster.answers[KUBE_PROXY] = json_answer(403, {"message": "forbidden"})
    assert image_made(cluster) == DEFAULT


def test_balloons_of_another_name_go_by_the_nodes_that_are_named() -> None:
    cluster = FakeApi()
    cluster.add("/api/v1/nodes/n1", a_node(K3S))
    cluster.add("/api/v1/nodes/n2", a_node(NEW, name="n2"))
    cluster.add("/api/v1/nodes/n3", a_node(NEW, name="n3"))
    assert image_made(cluster, names=Names("trial"), nodes=(NodeRequest("n1"),)) == K3S
