# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a real API server says to the calls that balloons make, which the model API server of the unit tests repeats.

No kubelet is here: the Nodes and the pods' status are written by the tests.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster import lease
from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.cluster import Cluster
from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import LABEL, TAINT, TARGET, Balloon
from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.lease import Leases, lease_name
from ansible_collections.ballast.kube.plugins.module_utils._balloon.deployment.objects import build_objects
from ansible_collections.ballast.kube.plugins.module_utils._balloon.request import SPEC, BalloonsRequest
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.scheduler import Resize
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import MIB, Resources
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.client import STRATEGIC_MERGE_PATCH, Api, Refused
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.kubeconfig import Credentials, parse_credentials
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from tests.integration.containerds import VERSION, bin_dir
from tests.integration.kube_proxy import control_plane, eventually

SPACE = "balloons"
NODE = "balloon-node"
SIZE = Resources(2000, 512 * MIB)
LARGER = Resources(4000, 1024 * MIB)
HOST = LocalHost()
PODS = f"/api/v1/namespaces/{SPACE}/pods"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a control plane")]


@dataclass(frozen=True)
class Plane:
    api: Api
    server: Credentials

    def as_nobody(self) -> Api:
        """A client that may read what there is, and change nothing."""
        account = f"/api/v1/namespaces/{SPACE}/serviceaccounts/default/token"
        spec = {"expirationSeconds": 3600}
        token = self.api.create(
            account, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        )
        return Api(HOST, Credentials(server=self.server.server, ca=self.server.ca, token=token["status"]["token"]))


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    place = tmp_path_factory.mktemp("balloon-api")
    with control_plane(VERSION, str(bin_dir()), place):
        path = str(place / "admin.kubeconfig")
        server = parse_credentials(Path(path).read_text("utf-8"), base_dir=os.path.dirname(path), name=path)
        found = Plane(Api(HOST, server), server)
        found.api.create("/api/v1/namespaces", {"metadata": {"name": SPACE}})
        _make_node(found.api)
        given = {**{name: row.get("default") for name, row in SPEC.items()}, "kubeconfig": path, "namespace": SPACE}
        request = BalloonsRequest.from_params(
            {
                **given,
                "image": "registry.example/pause:1",
                "nodes": [{"name": NODE, "target": {"cpu": "1", "memory": "1Gi"}}],
            }
        )
        for at, item in build_objects(request).items():
            found.api.create(os.path.dirname(at), item)
        assert eventually(lambda: _pods(found.api) != [], seconds=60)
        _take_in(found.api)
        yield found


def _make_node(api: Api) -> None:
    taints = [{"key": TAINT, "effect": "NoSchedule"}, {"key": "other", "effect": "NoSchedule"}]
    api.create(
        "/api/v1/nodes",
        {"metadata": {"name": NODE, "labels": {"kubernetes.io/os": "linux"}}, "spec": {"taints": taints}},
    )
    amount = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    told = {"bootID": "boot-of-a-test", "kubeletVersion": f"v{VERSION}"}
    names = (
        "machineID",
        "systemUUID",
        "kernelVersion",
        "osImage",
        "containerRuntimeVersion",
        "kubeProxyVersion",
        "operatingSystem",
        "architecture",
    )
    ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
    status = {
        "capacity": amount,
        "allocatable": amount,
        "conditions": [ready],
        "nodeInfo": {**dict.fromkeys(names, ""), **told},
    }
    api.patch(f"/api/v1/nodes/{NODE}/status", {"status": status})


def _pods(api: Api) -> list[dict[str, Any]]:
    found = api.list(PODS, {"labelSelector": f"{LABEL}=true"}).items
    return [pod for pod in found if pod["spec"].get("nodeName") == NODE]


def _take_in(api: Api) -> None:
    """As a kubelet does: what is asked for is allocated, and told to the runtime."""
    (pod,) = _pods(api)
    (container,) = pod["spec"]["containers"]
    told = {
        "name": container["name"],
        "image": "pause",
        "imageID": "",
        "ready": True,
        "restartCount": 0,
        "allocatedResources": container["resources"]["requests"],
        "resources": container["resources"],
        "state": {"running": {}},
    }
    status = {"phase": "Running", "containerStatuses": [told], "observedGeneration": pod["metadata"]["generation"]}
    api.patch(f"{PODS}/{pod['metadata']['name']}/status", {"status": status})


@pytest.fixture
def cluster(plane: Plane) -> Iterator[Cluster]:
    with Cluster(plane.api, HOST, namespace=SPACE) as found:
        yield found


def balloon(cluster: Cluster) -> Balloon:
    found = cluster.fleet().nodes[NODE].balloon
    assert found is not None
    return found


def action(cluster: Cluster, size: Resources) -> Resize:
    own = balloon(cluster)
    return Resize(NODE, own.namespace, own.name, own.resource_version, size, "grow")


def refusal(cluster: Cluster, size: Resources = LARGER) -> BallastError:
    with pytest.raises(BallastError) as raised:
        cluster.resize(action(cluster, size))
    return raised.value


def test_a_resize_and_what_it_is_seen_as(plane: Plane, cluster: Cluster) -> None:
    before = balloon(cluster)
    assert cluster.observe().problems == ()
    cluster.resize(action(cluster, SIZE))
    assert (balloon(cluster).desired, balloon(cluster).state) == (SIZE, "asked")
    _take_in(plane.api)
    assert eventually(lambda: balloon(cluster).state == "settled", seconds=20)
    assert (balloon(cluster).allocated, balloon(cluster).uid) == (SIZE, before.uid)


def test_what_was_decided_from_old_facts_conflicts_and_is_read_anew(plane: Plane, cluster: Cluster) -> None:
    late = Cluster(plane.api, HOST, namespace=SPACE)
    late.load()
    cluster.resize(action(cluster, SIZE + Resources(1, MIB)))
    assert refusal(late).id == "balloon-changed"
    assert balloon(late).desired == SIZE + Resources(1, MIB)
    late.resize(action(late, SIZE))
    _take_in(plane.api)


@pytest.mark.parametrize(("version", "status"), [("1", 409), (None, 422)])
def test_a_pod_of_another_uid_is_not_resized(
    plane: Plane, cluster: Cluster, version: Optional[str], status: int
) -> None:
    """One that was made anew under the same name has another resourceVersion too."""
    metadata = {"uid": "00000000-0000-0000-0000-000000000000", **({"resourceVersion": version} if version else {})}
    with pytest.raises(Refused) as raised:
        plane.api.patch(
            f"{PODS}/{balloon(cluster).name}/resize", {"metadata": metadata}, content_type=STRATEGIC_MERGE_PATCH
        )
    print(raised.value.found)
    assert raised.value.status == status


def test_a_quota(plane: Plane, cluster: Cluster) -> None:
    path = f"/api/v1/namespaces/{SPACE}/resourcequotas"
    plane.api.create(path, {"metadata": {"name": "small"}, "spec": {"hard": {"requests.cpu": "3"}}})
    try:
        assert eventually(lambda: "used" in plane.api.get(f"{path}/small").get("status", {}), seconds=30)
        error = refusal(cluster)
        assert (error.id, "small" in error.found) == ("balloon-refused-quota", True)
    finally:
        plane.api.delete(f"{path}/small")


def test_a_limit_range(plane: Plane, cluster: Cluster) -> None:
    path = f"/api/v1/namespaces/{SPACE}/limitranges"
    limits = [{"type": "Container", "max": {"memory": "768Mi"}}]
    plane.api.create(path, {"metadata": {"name": "low"}, "spec": {"limits": limits}})
    try:
        assert eventually(lambda: _is_refused_by(cluster, "balloon-refused-limit-range"), seconds=30)
    finally:
        plane.api.delete(f"{path}/low")


def test_a_policy(plane: Plane, cluster: Cluster) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods/resize"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false", "message": "no"}]}
    plane.api.create(POLICIES, {"metadata": {"name": "none"}, "spec": spec})
    binding = {"policyName": "none", "validationActions": ["Deny"]}
    plane.api.create(BINDINGS, {"metadata": {"name": "none"}, "spec": binding})
    try:
        assert eventually(lambda: _is_refused_by(cluster, "balloon-refused-webhook"), seconds=60)
    finally:
        plane.api.delete(f"{BINDINGS}/none")
        plane.api.delete(f"{POLICIES}/none")
        assert eventually(lambda: _is_accepted(plane, cluster), seconds=60)


def _is_refused_by(cluster: Cluster, id: str) -> bool:
    """An admission plugin sees a new object of its kind a moment later."""
    size = balloon(cluster).desired + Resources(1, 300 * MIB)
    try:
        cluster.resize(action(cluster, size))
    except BallastError as error:
        return error.id == id
    cluster.resize(action(cluster, SIZE))
    return False


def _is_accepted(plane: Plane, cluster: Cluster) -> bool:
    try:
        cluster.resize(action(cluster, SIZE))
    except BallastError:
        return False
    _take_in(plane.api)
    return True


def test_a_client_that_may_only_read(plane: Plane) -> None:
    rules = [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list", "watch"]}]
    path = "/apis/rbac.authorization.k8s.io/v1"
    plane.api.create(f"{path}/clusterroles", {"metadata": {"name": "reads"}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": SPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reads"}
    binding = {"metadata": {"name": "reads"}, "roleRef": role, "subjects": [subject]}
    plane.api.create(f"{path}/clusterrolebindings", binding)
    poor = Cluster(plane.as_nobody(), HOST, namespace=SPACE)
    assert eventually(lambda: _loads(poor), seconds=30)
    assert refusal(poor).id == "balloon-refused-access"
    with pytest.raises(BallastError) as raised:
        Leases(plane.as_nobody(), HOST, namespace=SPACE).acquire(["h"])
    assert raised.value.id == "core-api-forbidden"


def _loads(cluster: Cluster) -> bool:
    try:
        cluster.load()
    except BallastError:
        return False
    return True


def test_a_node_is_told_its_target_and_keeps_the_taints_of_others(plane: Plane, cluster: Cluster) -> None:
    cluster.annotate(NODE, SIZE)
    found = plane.api.get(f"/api/v1/nodes/{NODE}")
    assert found["metadata"]["annotations"][TARGET] == '{"cpu": "2000m", "memory": "512Mi"}'
    keys = [row["key"] for row in found["spec"]["taints"]]
    assert (TAINT in keys, "other" in keys) == (False, True)
    cluster.annotate(NODE, None)
    assert TARGET not in plane.api.get(f"/api/v1/nodes/{NODE}")["metadata"].get("annotations", {})


def test_a_pod_that_is_over_goes_from_the_watch(plane: Plane, cluster: Cluster) -> None:
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "100m"}}}
    spec = {"nodeName": NODE, "containers": [container], "tolerations": [{"operator": "Exists"}]}
    plane.api.create("/api/v1/namespaces/default/pods", {"metadata": {"name": "job"}, "spec": spec})
    assert eventually(lambda: "job" in [pod.name for pod in cluster.fleet().nodes[NODE].pods], seconds=20)
    plane.api.patch("/api/v1/namespaces/default/pods/job/status", {"status": {"phase": "Succeeded"}})
    assert eventually(lambda: "job" not in [pod.name for pod in cluster.fleet().nodes[NODE].pods], seconds=20)
    assert cluster.lost is None


def test_leases(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "_RENEW_SECONDS", 0.0)
    ours, theirs = (Leases(plane.api, HOST, namespace=SPACE, holder=name) for name in ("us", "them"))
    path = f"/apis/coordination.k8s.io/v1/namespaces/{SPACE}/leases/{lease_name('h')}"
    assert ours.acquire(["h"]) == {"h"}
    assert theirs.acquire(["h"]) == frozenset()
    assert theirs.holder_of("h") == "us"
    assert ours.renew() == frozenset()
    found = plane.api.get(path)
    plane.api.replace(path, {**found, "spec": {**found["spec"], "holderIdentity": "them"}})
    assert ours.renew() == {"h"}
    found = plane.api.get(path)
    plane.api.replace(path, {**found, "spec": {**found["spec"], "holderIdentity": ""}})
    assert theirs.acquire(["h"]) == {"h"}
    theirs.release()
    assert plane.api.find(path) is None
