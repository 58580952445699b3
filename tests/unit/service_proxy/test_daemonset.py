# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The service proxy as a DaemonSet: its objects, and how they are made, changed and removed in a cluster in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.kube import connection
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from ansible_collections.ballast.kube.plugins.module_utils._images.definitions import PRESETS
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.configuration import parse_configuration
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.daemonset.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.daemonset.objects import (
    SET_PATH,
    daemonset_objects,
    missing_pods,
)
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.daemonset.request import (
    SPEC,
    DaemonSetRequest,
)
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.deployment.request import USER
from tests.unit.fake_api import FakeApi

ROOT = Path(__file__).resolve().parents[3]
CONFIG = {"clusterCIDR": "10.244.0.0/16", "healthzBindAddress": "0.0.0.0:10356"}
READY = {"desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberReady": 2}


def request(**options: Any) -> DaemonSetRequest:
    given = {"server": "https://10.0.0.10:6443", "config": CONFIG, **options}
    return DaemonSetRequest.from_params({**{name: row.get("default") for name, row in SPEC.items()}, **given})


class Cluster:
    """An API server, and a controller that gives a DaemonSet its pods at once, unless `stuck`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fake = FakeApi()
        self.stuck = False
        self.fake.stored = self._store
        monkeypatch.setattr(connection, "connect", lambda *_given, **_options: self.fake.api)

    def context(self, desired: DaemonSetRequest) -> Context[DaemonSetRequest]:
        return Context(desired, self.fake.host, Progress(NullSink(), feature="test"))

    def apply(self, **options: Any) -> list[str]:
        ctx = self.context(request(**options))
        plan = ENGINE.plan(ctx.desired, ENGINE.observe(ctx))
        done = ENGINE.apply(plan, ctx)
        return [f"{step.verb} {step.title}" for step in done.steps]

    def _store(self, item: dict[str, Any]) -> dict[str, Any]:
        if item.get("kind") != "DaemonSet":
            return item
        generation = item["metadata"].get("generation", 0) + 1
        metadata = {**item["metadata"], "generation": generation}
        ready = {"numberReady": 1} if self.stuck else {}
        return {**item, "metadata": metadata, "status": {"observedGeneration": generation, **READY, **ready}}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


MADE = [
    "make ServiceAccount ballast-service-proxy-pod",
    "make ClusterRole ballast-service-proxy-pod",
    "make ClusterRoleBinding ballast-service-proxy-pod",
    "make ConfigMap ballast-service-proxy",
    "make DaemonSet ballast-service-proxy",
]


def test_it_is_made_once_changed_by_its_pods_and_removed_with_the_rules_of_the_nodes(cluster: Cluster) -> None:
    ctx = cluster.context(request())
    assert len(ENGINE.plan(ctx.desired, ENGINE.observe(ctx)).steps) == len(MADE)
    assert cluster.fake.changes == [], "observing and planning change nothing"
    assert cluster.apply() == MADE
    assert cluster.apply() == []
    assert ENGINE.verify(ctx) == []

    other = {**CONFIG, "clusterCIDR": "10.1.0.0/16"}
    assert cluster.apply(config=other) == [
        "change ConfigMap ballast-service-proxy",
        "change DaemonSet ballast-service-proxy",
    ]
    removed = [f"remove {title.partition(' ')[2]}" for title in reversed(MADE)]
    cleaning = ["change DaemonSet ballast-service-proxy"]
    cluster.stuck = True
    with pytest.raises(BallastError) as caught:
        cluster.apply(state="absent")
    assert (caught.value.id, SET_PATH in cluster.fake.objects) == ("service-proxy-daemonset-pods", True)
    pod = cluster.fake.objects[SET_PATH]["spec"]["template"]["spec"]
    assert [each["args"] for each in pod["initContainers"]] == [["--cleanup"]]

    cluster.stuck = False
    assert cluster.apply() == ["change ConfigMap ballast-service-proxy", "change DaemonSet ballast-service-proxy"]
    assert cluster.apply(state="absent") == [*cleaning, *removed]
    assert cluster.fake.objects == {}
    assert cluster.apply(state="absent") == []


def test_pods_that_are_not_ready_are_a_finding(cluster: Cluster) -> None:
    cluster.stuck = True
    cluster.apply()
    (finding,) = ENGINE.verify(cluster.context(request()))
    assert (finding.id, finding.blocking) == ("service-proxy-daemonset-pods", True)
    assert "2 nodes, 2 updated pods, 1 ready" in finding.text
    assert missing_pods({"metadata": {"generation": 2}, "status": {"observedGeneration": 1}})


def test_objects_of_others_are_left_alone(cluster: Cluster) -> None:
    for path in (SET_PATH, "/api/v1/namespaces/kube-system/configmaps/ballast-service-proxy"):
        cluster.fake.add(path, {"metadata": {"name": "ballast-service-proxy"}})
    for state in ("present", "absent"):
        with pytest.raises(Problems) as caught:
            cluster.apply(state=state)
        assert [problem.id for problem in caught.value.problems] == ["service-proxy-daemonset-foreign"] * 2
    assert cluster.fake.changes == []


def test_its_rights_are_those_of_a_nodes_service() -> None:
    _account, role, _binding = yaml.safe_load((ROOT / "roles/service_proxy/files/rights.yml").read_text())["items"]
    made = next(item for item in daemonset_objects(request()).values() if item["kind"] == "ClusterRole")
    assert made["rules"] == role["rules"]
    assert made["metadata"]["name"] != role["metadata"]["name"], "both may be there"


def test_a_pod_has_one_capability_beside_those_with_which_it_becomes_its_user() -> None:
    made = daemonset_objects(request(service_proxy_name="ballast", node_selector={"pool": "a"}))[SET_PATH]
    pod = made["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"add": ["NET_ADMIN", "SETGID", "SETUID"], "drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert "privileged" not in str(pod)
    words = dict(zip(container["args"][::2], container["args"][1::2]))
    assert words["--user"] == USER
    assert words["--hostname-override"] == "$(NODE_NAME)"
    assert words["--service-proxy-name"] == "ballast"
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": 10356, "scheme": "HTTP"}
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux", "pool": "a"}
    assert (pod["hostNetwork"], pod["tolerations"]) == (True, [{"operator": "Exists"}])
    assert made["spec"]["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": 1}


def test_its_image_has_the_program_and_its_user() -> None:
    image = PRESETS["service-proxy"]
    files = {file.path: file for file in image.files}
    passwd = files["/etc/passwd"].content or ""
    assert USER in [line.partition(":")[0] for line in passwd.splitlines()]
    assert files[image.entrypoint[-1]].agent == "service-proxy"


def test_its_configuration_is_one_that_the_program_takes() -> None:
    (text,) = daemonset_objects(request())["/api/v1/namespaces/kube-system/configmaps/ballast-service-proxy"][
        "data"
    ].values()
    made = parse_configuration(text, name="config", hostname="n1")
    assert (made.kubeconfig, made.node_name, made.document["clusterCIDR"]) == ("", "n1", "10.244.0.0/16")


def test_all_that_is_wrong_is_reported_at_once() -> None:
    config = {"clientConnection": {"kubeconfig": "/etc/x"}, "hostnameOverride": "n1", "foo": 1, "oomScoreAdj": 5000}
    with pytest.raises(Problems) as caught:
        request(server="http://x", image="a b", service_proxy_name="-", config=config)
    daemonset = "service-proxy-daemonset"
    assert [problem.id for problem in caught.value.problems] == [
        f"{daemonset}-server",
        f"{daemonset}-image",
        "service-proxy-name",
        f"{daemonset}-config",
        f"{daemonset}-config",
        "rules-config-key",
        "rules-config-value",
    ]


@pytest.mark.parametrize(
    ("server", "host", "port"),
    [
        ("https://10.0.0.10:6443", "10.0.0.10", "6443"),
        ("https://api.example/", "api.example", "443"),
        ("https://[fd00::1]:6443", "fd00::1", "6443"),
    ],
)
def test_pods_reach_the_api_server_by_its_own_address(server: str, host: str, port: str) -> None:
    """Its Service is what they make."""
    (container,) = daemonset_objects(request(server=server))[SET_PATH]["spec"]["template"]["spec"]["containers"]
    environment = {row["name"]: row.get("value") for row in container["env"]}
    assert (environment["KUBERNETES_SERVICE_HOST"], environment["KUBERNETES_SERVICE_PORT"]) == (host, port)
