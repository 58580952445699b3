# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What somebody can do who has stolen a credential of ours, by what a real API server refuses. docs/permissions.md"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import (
    NAME,
    NAMESPACE,
    SIZES,
    TAINT,
    TARGET,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.lease import Leases
from ansible_collections.ballast.kube.plugins.module_utils._balloon.deployment.objects import (
    apply_step,
    namespace_of,
    object_steps,
    read_objects,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.request import SPEC, BalloonsRequest
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.pki.identities import (
    BOOTSTRAP,
    CONTROL_PLANE,
    IDENTITIES,
    LAB_KUBE_PROXY,
    LAB_NAMESPACE,
    LAB_NODES,
    RBAC,
    Identity,
    admin_binding,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.pki.pki import issue_client_certificate
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.rights import ensure_rights
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.client import (
    APPLY_PATCH,
    STRATEGIC_MERGE_PATCH,
    Api,
    Refused,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.connection import connect
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.kubeconfig import Credentials
from ansible_collections.ballast.kube.plugins.module_utils._lab import departed
from ansible_collections.ballast.kube.plugins.module_utils._pulls.priority import engine as priority
from tests.integration.kube_proxy import eventually
from tests.integration.plane_lab import Plane, plane

HOST = LocalHost()
NODE = "/api/v1/nodes/stolen-1"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
FOREIGN_LABEL, FOREIGN_TAINT = "example.com/zone", "example.com/broken"

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a control plane")]


@pytest.fixture(scope="module")
def here() -> Iterator[Plane]:
    with plane("full", nodes=[{"name": "stolen-1", "addresses": ["10.97.253.254"]}]) as found:
        yield found


@pytest.fixture(scope="module")
def admin(here: Plane) -> Api:
    return connect(HOST, here.kubeconfig)


@pytest.fixture(scope="module")
def thief(here: Plane, admin: Api) -> Api:
    """With the token of the reconciler's ServiceAccount, beside a Node and a balloon pod."""
    taints = [{"key": TAINT, "effect": "NoSchedule"}, {"key": FOREIGN_TAINT, "effect": "NoExecute"}]
    labels = {"kubernetes.io/os": "linux", FOREIGN_LABEL: "a"}
    metadata = {"name": "stolen-1", "labels": labels, "annotations": {"example.com/note": "theirs"}}
    admin.create("/api/v1/nodes", {"metadata": metadata, "spec": {"taints": taints}})
    given = {**{name: row.get("default") for name, row in SPEC.items()}, "kubeconfig": here.kubeconfig}
    request = BalloonsRequest.from_params({**given, "namespace": NAMESPACE, "nodes": [{"name": "stolen-1"}]})
    for step in object_steps(request, read_objects(admin, request)):
        apply_step(admin, step)
    assert object_steps(request, read_objects(admin, request)) == ()
    found = Api(HOST, _token_of(here, admin, NAMESPACE, NAME))
    # The policy binds a moment after it is made.
    assert eventually(
        lambda: _refused(found, NODE, {"metadata": {"labels": {"early": str(time.time())}}}) is not None, seconds=30
    )
    assert eventually(lambda: admin.list(PODS).items != (), seconds=60)
    return found


def _token_of(here: Plane, admin: Api, namespace: str, name: str) -> Credentials:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token = admin.create(path, body)["status"]["token"]
    return Credentials(server=here.record.endpoint, ca=here.pki("ca.crt"), token=token)


def _refused(api: Api, path: str, patch: object, **options: Any) -> Optional[str]:
    """Why; None where it was done."""
    try:
        api.patch(path, patch, **options)
    except Refused as error:
        return error.found if error.status in (403, 422) else None
    return None


# The reconciler of balloons.


def test_what_the_reconciler_does_is_allowed(thief: Api, admin: Api) -> None:
    assert namespace_of(thief, SIZES) == NAMESPACE
    thief.patch(NODE, {"metadata": {"annotations": {TARGET: '{"cpu": "1"}'}}})
    taints = [row for row in admin.get(NODE)["spec"]["taints"] if row["key"] != TAINT]
    thief.patch(NODE, {"spec": {"taints": taints}})
    thief.patch(NODE, {"metadata": {"annotations": {TARGET: None}}})
    found = admin.get(NODE)
    assert [row["key"] for row in found["spec"]["taints"] if row["key"] in (TAINT, FOREIGN_TAINT)] == [FOREIGN_TAINT]
    assert TARGET not in found["metadata"]["annotations"]
    leases = Leases(thief, HOST, namespace=NAMESPACE)
    assert leases.acquire(["boot-1"]) == {"boot-1"}
    leases.release()
    assert admin.list(LEASES.format(NAMESPACE)).items == ()
    (pod, *_more) = admin.list(PODS).items
    name = pod["metadata"]["name"]
    size = {"requests": {"cpu": "2m", "memory": "17Mi"}, "limits": {"memory": "17Mi"}}
    patch = {"spec": {"containers": [{"name": "balloon", "resources": size}]}}
    thief.patch(f"{PODS}/{name}/resize", patch, content_type=STRATEGIC_MERGE_PATCH)


@pytest.mark.parametrize(
    "patch",
    [
        {"metadata": {"labels": {FOREIGN_LABEL: "b"}}},
        {"metadata": {"labels": {FOREIGN_LABEL: None}}},
        {"metadata": {"labels": None}},
        {"metadata": {"annotations": {"example.com/note": "mine"}}},
        {"metadata": {"annotations": {"example.com/note": None}}},
        {"metadata": {"annotations": {f"{TARGET}.other": "{}"}}},
        {"metadata": {"finalizers": ["example.com/never"]}},
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x"}]}},
        {"spec": {"taints": None}},
        {"spec": {"taints": [{"key": "example.com/new", "effect": "NoExecute"}]}},
        {"spec": {"taints": [{"key": FOREIGN_TAINT, "effect": "NoSchedule"}]}},
        {"spec": {"unschedulable": True}},
        {"spec": {"providerID": "x://y"}},
        {"spec": {"podCIDR": "192.0.2.0/24", "podCIDRs": ["192.0.2.0/24"]}},
        # One of ours does not carry another in.
        {"metadata": {"annotations": {TARGET: "{}"}}, "spec": {"unschedulable": True}},
        {"metadata": {"annotations": {TARGET: "{}"}, "labels": {"x": "y"}}},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["application/merge-patch+json", "application/strategic-merge-patch+json"])
def test_nothing_else_of_a_node_is_changed(thief: Api, admin: Api, patch: dict[str, Any], kind: str) -> None:
    before = admin.get(NODE)
    why = _refused(thief, NODE, patch, content_type=kind)
    after = admin.get(NODE)
    assert why is not None, after
    assert (after["metadata"]["resourceVersion"], after["spec"]) == (
        before["metadata"]["resourceVersion"],
        before["spec"],
    )
    assert "annotation balloons.ballast.dev/target" in why


def test_the_startup_taint_goes_and_does_not_come(thief: Api, admin: Api) -> None:
    whole = admin.get(NODE)["spec"].get("taints", [])
    assert _refused(thief, NODE, {"spec": {"taints": [*whole, {"key": TAINT, "effect": "NoExecute"}]}}) is not None
    assert _refused(thief, f"{NODE}/status", {"status": {"capacity": {"cpu": "1000"}}}) is not None


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/secrets"),
        ("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets"),
        ("GET", "/api/v1/namespaces/kube-system/secrets/x"),
        ("GET", "/api/v1/configmaps"),
        ("GET", f"{NODE}/proxy/configz"),
        ("GET", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/cluster-admin"),
        ("GET", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
        ("DELETE", NODE),
        ("DELETE", f"{PODS}/x"),
        ("DELETE", "/api/v1/namespaces/kube-system/pods/x"),
        ("DELETE", f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{NAME}"),
    ],
)
def test_nothing_else_is_read_or_removed(thief: Api, method: str, path: str) -> None:
    with pytest.raises(Refused) as caught:
        thief.get(path) if method == "GET" else thief.delete(path)
    assert caught.value.status == 403


@pytest.mark.parametrize("namespace", ["default", "kube-system", NAMESPACE])
def test_it_makes_no_pod(thief: Api, namespace: str) -> None:
    body = {"metadata": {"name": "mine"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    with pytest.raises(Refused) as caught:
        thief.create(f"/api/v1/namespaces/{namespace}/pods", body)
    assert caught.value.status == 403


def test_it_writes_no_lease_but_its_own(thief: Api, admin: Api) -> None:
    spec = {"holderIdentity": "theirs", "leaseDurationSeconds": 60}
    admin.create(LEASES.format(NAMESPACE), {"metadata": {"name": "theirs"}, "spec": spec})
    path = f"{LEASES.format(NAMESPACE)}/theirs"
    found = admin.get(path)
    for act in (
        lambda: thief.replace(path, {**found, "spec": {**found["spec"], "holderIdentity": "mine"}}),
        lambda: thief.delete(path),
        lambda: thief.create(LEASES.format(NAMESPACE), {"metadata": {"name": "another"}, "spec": spec}),
        lambda: thief.create(LEASES.format(NAMESPACE), {"metadata": {"generateName": "any-"}, "spec": spec}),
        lambda: thief.create(LEASES.format("kube-node-lease"), {"metadata": {"name": f"{NAME}-x"}, "spec": spec}),
        lambda: thief.get(f"{LEASES.format('kube-node-lease')}/stolen-1"),
    ):
        with pytest.raises(Refused) as caught:
            act()
        assert caught.value.status in (403, 422)
    assert admin.get(path)["spec"]["holderIdentity"] == "theirs"
    admin.delete(path)


def test_it_resizes_no_pod_of_another(thief: Api, admin: Api) -> None:
    """Neither one beside the balloons, nor one that only has their label."""
    security = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    for name, labels in (("beside", {}), ("alike", {"balloons.ballast.dev/balloon": "true"})):
        container = {"name": "c", "image": "x", "securityContext": security}
        container["resources"] = {"requests": {"cpu": "1m"}}
        # Without an owner the DaemonSet would take in what has its label.
        # The owner is there, or the garbage collector would take the pod.
        uid = admin.get(NODE)["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Node", "name": "stolen-1", "uid": uid, "controller": True}
        body = {
            "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]},
            "spec": {"containers": [container]},
        }
        assert eventually(partial(_made, admin, body), seconds=30)
        patch = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2m"}}}]}}
        why = _refused(thief, f"{PODS}/{name}/resize", patch, content_type=STRATEGIC_MERGE_PATCH)
        assert why is not None
        assert f"pods of DaemonSet {NAME} alone" in why
        admin.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0})


def _made(admin: Api, body: dict[str, Any]) -> bool:
    """The controllers give a namespace its ServiceAccount a moment after it is made."""
    try:
        admin.create(PODS, body)
    except Refused:
        return False
    return True


def test_its_namespace_admits_restricted_pods_alone(admin: Api) -> None:
    spec = {"hostNetwork": True, "containers": [{"name": "c", "image": "x", "securityContext": {"privileged": True}}]}
    with pytest.raises(Refused) as caught:
        admin.create(PODS, {"metadata": {"name": "root"}, "spec": spec})
    assert 'violates PodSecurity "restricted' in caught.value.found


# The administrator, and as whom modules ask.


def _as(here: Plane, identity: Identity) -> Api:
    certificate, key = here.record.client(HOST, identity)
    return Api(HOST, Credentials(here.record.endpoint, ca=here.pki("ca.crt"), cert=certificate, key=key))


def _status(act: Callable[[], object]) -> int:
    try:
        act()
    except Refused as error:
        return error.status
    return 200


def test_the_administrator_is_revoked_by_removing_a_binding(here: Plane, admin: Api) -> None:
    path, _binding = admin_binding()
    assert "system:masters" not in here.kubectl("auth", "whoami").stdout
    assert _status(lambda: admin.list("/api/v1/secrets")) == 200
    admin.delete(path)
    try:
        assert eventually(lambda: _status(lambda: admin.list("/api/v1/secrets")) == 403, seconds=10)
        assert here.kubectl("get", "nodes", check=False).returncode != 0
    finally:
        steps = here.run()
    assert [step.title for step in steps] == ["ClusterRoleBinding ballast:admin"]
    assert eventually(lambda: _status(lambda: admin.list("/api/v1/secrets")) == 200, seconds=10)


def test_nothing_that_is_kept_is_a_masters(here: Plane) -> None:
    texts = [path.read_text(errors="replace") for path in Path(here.state_dir, "pki").rglob("*.crt")]
    texts.append(_embedded(here.kubeconfig))
    for text in texts:
        done = subprocess.run(["openssl", "x509", "-noout", "-subject"], input=text, text=True, stdout=-1, check=True)
        assert "system:masters" not in done.stdout


def _embedded(kubeconfig: str) -> str:
    user = json.loads(Path(kubeconfig).read_text())["users"][0]["user"]
    return base64.b64decode(user["client-certificate-data"]).decode()


_SECRETS, _ROLES = "/api/v1/secrets", f"/apis/{RBAC}/v1/clusterroles"
_BODY = {"metadata": {"name": "mine"}}


@pytest.mark.parametrize("identity", [one for one in IDENTITIES if one != BOOTSTRAP], ids=lambda one: one.user)
def test_an_identity_of_ours_does_no_more_than_it_is_for(here: Plane, admin: Api, identity: Identity) -> None:
    ensure_rights(HOST, here.record, CONTROL_PLANE)
    if identity.namespace == LAB_NAMESPACE and admin.find(f"/api/v1/namespaces/{LAB_NAMESPACE}") is None:
        admin.create("/api/v1/namespaces", {"metadata": {"name": LAB_NAMESPACE}})
    ensure_rights(HOST, here.record, identity)
    ours = _as(here, identity)
    container = {"name": "c", "image": "x"}
    pod = {**_BODY, "spec": {"containers": [container]}}
    binding = {"roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"}, **_BODY}
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": identity.user}]
    whole = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    for act in (
        lambda: ours.list(_SECRETS),
        lambda: ours.get("/api/v1/namespaces/kube-system/secrets/x"),
        lambda: ours.create("/api/v1/namespaces/default/pods", pod),
        lambda: ours.create("/api/v1/namespaces/kube-system/pods", pod),
        lambda: ours.create(_ROLES, {**_BODY, "rules": whole}),
        lambda: ours.patch(f"{_ROLES}/{identity.user}", {"rules": whole}),
        lambda: ours.create(f"/apis/{RBAC}/v1/clusterrolebindings", {**binding, "subjects": subjects}),
        lambda: ours.get("/api/v1/nodes/stolen-1/proxy/configz"),
        lambda: ours.create("/api/v1/namespaces/default/serviceaccounts/default/token", {}),
        lambda: ours.delete("/api/v1/namespaces/default"),
        lambda: ours.create("/apis/apps/v1/namespaces/kube-system/daemonsets", _BODY),
        lambda: ours.patch("/apis/apps/v1/namespaces/kube-system/daemonsets/other", _BODY, content_type=APPLY_PATCH),
    ):
        assert _status(act) == 403


def test_an_apply_that_creates_is_held_to_the_names_of_a_rule(here: Plane) -> None:
    ensure_rights(HOST, here.record, LAB_KUBE_PROXY)
    ours = _as(here, LAB_KUBE_PROXY)
    maps = "/api/v1/namespaces/kube-system/configmaps"
    told = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}
    query = {"fieldManager": "test"}
    for name, status in (("kube-proxy", 200), ("other", 403)):
        body = {**told, "metadata": {"name": name}}
        assert _status(partial(ours.patch, f"{maps}/{name}", body, content_type=APPLY_PATCH, params=query)) == status
    ours.delete(f"{maps}/kube-proxy")


def test_who_has_no_certificate_of_the_authority_is_nobody(here: Plane) -> None:
    """A stolen certificate is of no use after minutes."""
    certificate, key = issue_client_certificate(HOST, here.pki("ca.crt"), user=CONTROL_PLANE.user, group="", seconds=1)
    ours = Api(HOST, Credentials(here.record.endpoint, ca=here.pki("ca.crt"), cert=certificate, key=key))
    assert eventually(
        lambda: _status(lambda: ours.get("/api/v1/namespaces/default/serviceaccounts/default")) == 401, seconds=10
    )


def test_a_node_that_left_writes_nothing_more(here: Plane, admin: Api) -> None:
    """Its certificate counts still: a copy of it could register the Node again, and be given pods with their Secrets."""
    name = "stolen-1"
    certificate, key = (Path(here.pki(f"nodes/{name}/kubelet.{end}")).read_bytes() for end in ("crt", "key"))
    kubelet = Api(HOST, Credentials(here.record.endpoint, ca=here.pki("ca.crt"), cert=certificate, key=key))
    body = {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}
    if admin.find(f"/api/v1/nodes/{name}") is None:
        kubelet.create("/api/v1/nodes", body)
    ensure_rights(HOST, here.record, LAB_NODES)
    departed.refuse(HOST, here.record, name)
    admin.delete(f"/api/v1/nodes/{name}")

    def joins() -> int:
        status = _status(lambda: kubelet.create("/api/v1/nodes", body))
        if status == 200:
            admin.delete(f"/api/v1/nodes/{name}")
        return status

    assert eventually(lambda: joins() == 403, seconds=30)
    request = {"metadata": {"name": "mine"}, "spec": {"request": "eA==", "signerName": "kubernetes.io/kubelet-serving"}}
    for path, made in (
        ("/apis/certificates.k8s.io/v1/certificatesigningrequests", request),
        ("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", {"metadata": {"name": name}, "spec": {}}),
        ("/api/v1/namespaces/default/events", {"metadata": {"name": "x"}, "involvedObject": {}}),
    ):
        assert _status(partial(kubelet.create, path, made)) in (403, 422)
    departed.admit(HOST, here.record, name)
    assert eventually(lambda: joins() == 200, seconds=30)


# Kubeconfigs that a user gives: what docs/permissions.md says that they need is enough.


def test_the_priority_of_pulls_needs_its_two_kinds_alone(here: Plane, admin: Api, tmp_path: Path) -> None:
    kinds = ["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"]
    rule = {"apiGroups": ["admissionregistration.k8s.io"], "resources": kinds}
    path = _kubeconfig_of(here, admin, tmp_path, "pulls", [{**rule, "verbs": ["get", "create", "update", "delete"]}])
    for state, verbs in (("present", {"make"}), ("present", set()), ("absent", {"remove"})):
        asked = priority.ImagePullPriorityRequest.from_params(
            {"state": state, "kubeconfig": str(path), "context": None, "annotation": "example.com/rank"}
        )
        plan = priority.ENGINE.plan(asked, priority.ENGINE.observe(Context(asked, HOST)))
        assert {step.verb for step in plan.steps} == verbs
        priority.ENGINE.apply(plan, Context(asked, HOST, Progress(NullSink(), feature="test")))
        assert priority.ENGINE.verify(Context(asked, HOST, Progress(NullSink(), feature="test"))) == []


def test_a_credential_plugin_gives_what_its_token_may_do(here: Plane, admin: Api, tmp_path: Path) -> None:
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch", "create"]}
    path = _kubeconfig_of(here, admin, tmp_path, "plugged", [rule])
    config = json.loads(path.read_text("utf-8"))
    status = {"token": config["users"][0]["user"].pop("token")}
    version = "client.authentication.k8s.io/v1"
    answer = json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})
    plugin = tmp_path / "login"
    plugin.write_text(f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\n", "utf-8")
    plugin.chmod(0o700)
    config["users"][0]["user"]["exec"] = {"apiVersion": version, "command": "./login"}
    path.write_text(json.dumps(config), "utf-8")
    mine = connect(HOST, str(path), environ={})
    maps = "/api/v1/namespaces/default/configmaps"
    listed = mine.list(maps)
    mine.create(maps, {"metadata": {"name": "by-a-plugin"}})
    event = next(mine.watch(maps, {"resourceVersion": listed.resource_version}))
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "by-a-plugin")
    assert _status(lambda: mine.get("/api/v1/namespaces/default/secrets")) == 403


def _kubeconfig_of(here: Plane, admin: Api, place: Path, name: str, rules: list[dict[str, Any]]) -> Path:
    """Of a ServiceAccount with these rights."""
    rbac = f"/apis/{RBAC}/v1"
    admin.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
    admin.create(f"{rbac}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    body = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
    admin.create(f"{rbac}/clusterrolebindings", body)
    token = _token_of(here, admin, "default", name).token
    cluster = {"server": here.record.endpoint, "certificate-authority": here.pki("ca.crt")}
    config = {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "it", "user": {"token": token}}],
    }
    path = place / "kubeconfig"
    path.write_text(json.dumps(config), "utf-8")
    mine = connect(HOST, str(path))
    assert eventually(lambda: _status(lambda: mine.get(f"/apis/{RBAC}/v1/clusterroles")) == 403, seconds=10)
    return path
