# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What balloons are made of in the cluster."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import (
    CONTAINER,
    LABEL,
    NAME,
    SIZES,
    Names,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.deployment.objects import (
    apply_step,
    build_objects,
    locate,
    object_steps,
    read_objects,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.request import BalloonsRequest, NodeRequest
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.objects import OURS
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from tests.unit.fake_api import SERVER, FakeApi
from tests.unit.fakes import json_answer

KINDS = [
    "PriorityClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ClusterRole",
    "ClusterRoleBinding",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "DaemonSet",
]


def request(**changes: object) -> BalloonsRequest:
    asked: dict[str, Any] = {
        "state": "present",
        "kubeconfig": "/x",
        "namespace": "kube-system",
        "nodes": (),
        "reserve": None,
        "priority": "never-preempt",
        "grow_timeout": 30.0,
        "slices": False,
        "vm": False,
        "image": "registry.example/pause:1",
    }
    return BalloonsRequest(**{**asked, **changes})


def run(cluster: FakeApi, **changes: object) -> list[str]:
    steps = object_steps(request(**changes), read_objects(cluster.api, request(**changes)))
    for step in steps:
        apply_step(cluster.api, step)
    return [f"{step.verb} {step.title}" for step in steps]


def made(kind: str, **changes: object) -> dict[str, Any]:
    (found,) = [one for one in build_objects(request(**changes)).values() if one["kind"] == kind]
    return found


def pod_spec(**changes: object) -> dict[str, Any]:
    spec: dict[str, Any] = made("DaemonSet", **changes)["spec"]["template"]["spec"]
    return spec


def test_they_come_and_go_and_a_second_run_does_nothing() -> None:
    cluster = FakeApi()
    cluster.add("/api/v1/nodes/n1", {"metadata": {"name": "n1", "labels": {"kubernetes.io/os": "linux"}}})
    others = dict(cluster.objects)
    assert run(cluster) == [f"make {kind} {NAME}" for kind in KINDS]
    assert run(cluster) == []
    assert run(cluster, image="registry.example/pause:2") == [f"change DaemonSet {NAME}"]
    assert run(cluster, state="absent") == [f"remove {kind} {NAME}" for kind in reversed(KINDS)]
    assert run(cluster, state="absent") == []
    assert cluster.objects == others


def test_every_object_is_marked_and_where_it_belongs() -> None:
    for path, one in build_objects(request(namespace="balloons")).items():
        assert one["metadata"]["labels"] == OURS
        assert path.startswith(f"/api{'s' if '/' in one['apiVersion'] else ''}/{one['apiVersion']}/")
        assert ("/namespaces/balloons/" in path) == (one["metadata"].get("namespace") == "balloons")
        plural = re.sub("ys$", "ies", re.sub("sss$", "sses", f"{one['kind'].lower()}s"))
        assert path.endswith(f"/{plural}/{NAME}")


def test_they_have_a_namespace_of_their_own_unless_another_is_named() -> None:
    found = build_objects(request(namespace=SIZES.namespace))
    (first, space), *_others = found.items()
    assert (first, space["kind"]) == ("/api/v1/namespaces/ballast-balloons", "Namespace")
    assert space["metadata"]["labels"] == {**OURS, "pod-security.kubernetes.io/enforce": "restricted"}
    assert "Namespace" not in {one["kind"] for one in build_objects(request(namespace="balloons")).values()}
    # Balloons beside those that size nodes take nothing from these when they go.
    beside = build_objects(request(namespace=Names("trial").namespace, names=Names("trial")))
    assert not beside.keys() & found.keys()


def test_they_stay_in_the_namespace_in_which_they_are() -> None:
    """As those that a version before had made in kube-system."""
    cluster = FakeApi()
    assert locate(request(namespace=""), cluster.api).namespace == "ballast-balloons"
    run(cluster, namespace="kube-system")
    assert locate(request(namespace=""), cluster.api).namespace == "kube-system"
    assert locate(request(namespace="kube-system"), cluster.api).namespace == "kube-system"
    with pytest.raises(BallastError) as caught:
        locate(request(namespace="ballast-balloons"), cluster.api)
    assert caught.value.id == "balloon-elsewhere"
    assert "in namespace kube-system" in caught.value.text


def test_a_binding_that_somebody_else_made_says_nothing_of_where_they_are() -> None:
    cluster = FakeApi()
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/ballast-balloon"
    cluster.add(path, {"metadata": {"name": NAME}, "subjects": [{"namespace": "mallory"}]})
    assert locate(request(namespace=""), cluster.api).namespace == "ballast-balloons"
    for subjects in (None, "x", [], [{}], [{"namespace": 7}], [{"namespace": "../x"}]):
        cluster.add(path, {"metadata": {"name": NAME, "labels": dict(OURS)}, "subjects": subjects})
        assert locate(request(namespace=""), cluster.api).namespace == "ballast-balloons"


def test_what_confines_the_reconciler_is_there_before_its_rights() -> None:
    """And stays until they are gone."""
    order = [one["kind"] for one in build_objects(request()).values()]
    rights = ("ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding")
    assert max(map(order.index, order[1:3])) < min(order.index(kind) for kind in rights)


def test_without_the_policy_no_rights_are_given() -> None:
    cluster = FakeApi()
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    cluster.host.answer(SERVER + path, json_answer(404, {"message": "the server could not find it"}), method="POST")
    with pytest.raises(BallastError) as caught:
        run(cluster)
    assert caught.value.id == "balloon-policy-unserved"
    assert not [change for change in cluster.changes if "rbac" in change]


def test_a_balloon_can_always_be_resized() -> None:
    """Burstable whatever its size, outside the exclusive CPUs, without swap; and never at nothing."""
    (container,) = pod_spec()["containers"]
    assert container["name"] == CONTAINER
    assert container["resources"] == {"requests": {"cpu": "1m", "memory": "16Mi"}, "limits": {"memory": "16Mi"}}
    assert {one["resourceName"]: one["restartPolicy"] for one in container["resizePolicy"]} == {
        "cpu": "NotRequired",
        "memory": "NotRequired",
    }


def test_its_size_is_not_undone_by_a_new_template() -> None:
    spec = made("DaemonSet")["spec"]
    assert spec["updateStrategy"] == {"type": "OnDelete"}
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    assert spec["selector"]["matchLabels"] == {LABEL: "true"}


def test_a_balloon_may_do_nothing_and_is_on_every_linux_node() -> None:
    spec = pod_spec()
    (container,) = spec["containers"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not {"hostNetwork", "hostPID", "volumes", "serviceAccountName"} & set(spec)
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert spec["terminationGracePeriodSeconds"] == 0


def test_balloons_of_another_name_are_on_the_nodes_that_are_named_and_change_no_policy() -> None:
    cluster = FakeApi()
    node = {"metadata": {"name": "n1", "labels": {"kubernetes.io/os": "linux"}, "resourceVersion": "1"}}
    node["spec"] = {"podPreemptionPolicy": {"disableResizePreemption": ["balloons.ballast.dev"]}}
    cluster.add("/api/v1/nodes/n1", node)
    beside = {"names": Names("trial"), "nodes": (NodeRequest("n1"), NodeRequest("n2"))}
    assert run(cluster, **beside) == [f"make {kind} trial" for kind in KINDS]
    spec = pod_spec(**beside)
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [term["matchFields"][0]["values"] for term in terms] == [["n1"], ["n2"]]
    assert spec["priorityClassName"] == "trial"
    assert "affinity" not in pod_spec(nodes=beside["nodes"])
    assert run(cluster, state="absent", **beside) == [f"remove {kind} trial" for kind in reversed(KINDS)]


def test_its_class_preempts_nothing() -> None:
    found = made("PriorityClass")
    assert (found["value"], found["preemptionPolicy"]) == (1_000_000_000, "Never")
    assert "globalDefault" not in found
    assert pod_spec()["priorityClassName"] == NAME
    assert pod_spec(priority="node-critical")["priorityClassName"] == "system-node-critical"


def test_the_reconciler_may_resize_balloons_and_little_else() -> None:
    everywhere = {(rule["resources"][0], verb) for rule in made("ClusterRole")["rules"] for verb in rule["verbs"]}
    here = {(rule["resources"][0], verb) for rule in made("Role")["rules"] for verb in rule["verbs"]}
    changing = {pair for pair in everywhere if pair[1] not in ("get", "list", "watch")}
    assert changing == {("nodes", "patch")}
    assert {pair for pair in here if pair[0] != "leases"} == {("pods", "get"), ("pods/resize", "patch")}
    (of_one,) = [rule for rule in made("ClusterRole")["rules"] if rule["resources"] == ["clusterrolebindings"]]
    assert (of_one["resourceNames"], of_one["verbs"]) == ([NAME], ["get"])
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        found = made(kind, namespace="balloons")
        assert found["roleRef"]["kind"] == kind[: -len("Binding")]
        assert found["subjects"] == [{"kind": "ServiceAccount", "name": NAME, "namespace": "balloons"}]


def test_what_somebody_else_made_is_named_and_nothing_is_changed() -> None:
    cluster = FakeApi()
    run(cluster)
    cluster.host.requests.clear()
    theirs = [path for path in cluster.objects if path.endswith((f"daemonsets/{NAME}", f"priorityclasses/{NAME}"))]
    for path in theirs:
        cluster.objects[path]["metadata"]["labels"] = {}
    for state in ("present", "absent"):
        with pytest.raises(Problems) as caught:
            run(cluster, state=state)
        assert [one.id for one in caught.value.problems] == ["balloon-object-foreign"] * 2
        assert "DaemonSet ballast-balloon already exists" in str(caught.value)
    assert cluster.changes == []


def test_a_namespace_that_is_not_there_is_told() -> None:
    cluster = FakeApi()
    path = "/api/v1/namespaces/none/serviceaccounts"
    cluster.host.answer(SERVER + path, json_answer(404, {"message": 'namespaces "none" not found'}), method="POST")
    with pytest.raises(BallastError) as caught:
        run(cluster, namespace="none")
    assert caught.value.id == "core-api-absent"
    assert 'namespaces "none" not found' in str(caught.value)
