# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who may come in, who they are then, and what they may do."""

from __future__ import annotations

import base64
import http.client
from pathlib import Path
from typing import Any

import pytest

from tests.integration.plane_client import Client, eventually
from tests.integration.plane_lab import Plane
from tests.integration.planes.people import RBAC, allow, foreign_authority, holder
from tests.integration.planes.promise import of_all
from tests.integration.planes.test_objects import config_map, config_maps

AUTHORIZATION = "/apis/authorization.k8s.io/v1"
AUTHENTICATION = "/apis/authentication.k8s.io/v1"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


def who_is(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = client.create(f"{AUTHENTICATION}/selfsubjectreviews", {})["status"]["userInfo"]
    return found


def is_allowed(admin: Client, user: str, **attributes: str) -> bool:
    body = {"spec": {"user": user, "resourceAttributes": attributes}}
    return bool(admin.create(f"{AUTHORIZATION}/subjectaccessreviews", body)["status"]["allowed"])


@pytest.mark.parametrize("path", ["/", "/api", "/apis", "/version", "/metrics", "/openapi/v2", "/api/v1/secrets"])
def test_strangers_are_refused(plane: Plane, path: str) -> None:
    with plane.client("") as nobody:
        assert nobody.ask(path).status == 401
    with plane.client(token="no.such.token") as liar:
        assert liar.ask(path).status == 401


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_strangers_may_ask_for_health(plane: Plane, path: str) -> None:
    with plane.client("") as nobody:
        assert nobody.ask(path).status == 200


def test_a_certificate_of_another_authority_is_nobodys(plane: Plane, tmp_path: Path) -> None:
    """Either the handshake ends, or the holder is told that they are not known."""
    with holder(plane, tmp_path, "mallory", group="system:masters", authority=foreign_authority(tmp_path)) as mallory:
        try:
            assert mallory.ask("/api/v1/secrets").status == 401
        except (OSError, http.client.HTTPException):
            pass


def test_nobody_is_somebody_by_headers_alone(plane: Plane, tmp_path: Path) -> None:
    """The headers of the front proxy count from the holder of its certificate only."""
    headers = {"X-Remote-User": "kubernetes-admin", "X-Remote-Group": "system:masters"}
    with plane.client("") as nobody, holder(plane, tmp_path, "bob") as bob:
        nobody.headers.update(headers)
        bob.headers.update(headers)
        assert nobody.ask("/api/v1/secrets").status == 401
        assert who_is(bob)["username"] == "bob"


def test_roles_allow_and_nothing_else_is_allowed(plane: Plane, admin: Client, namespace: str, tmp_path: Path) -> None:
    admin.create(config_maps(namespace), config_map("a"))
    with holder(plane, tmp_path, "alice", group="people") as alice:
        assert {"username": "alice", "groups": ["people", "system:authenticated"]}.items() <= who_is(alice).items()
        assert alice.ask(config_maps(namespace)).status == 403
        assert not is_allowed(admin, "alice", verb="get", resource="configmaps", namespace=namespace)
        allow(admin, namespace, "alice", name="readers", verbs=["get", "list"], resources=["configmaps"])
        eventually(lambda: alice.ask(f"{config_maps(namespace)}/a").status == 200, what="the role is in force")
        assert is_allowed(admin, "alice", verb="get", resource="configmaps", namespace=namespace)
        assert alice.ask(config_maps(namespace), "POST", config_map("b")).status == 403
        assert alice.ask(config_maps("default")).status == 403
        assert alice.ask(f"/api/v1/namespaces/{namespace}/secrets").status == 403
        admin.delete(f"/apis/{RBAC}/v1/namespaces/{namespace}/rolebindings/readers")
        eventually(lambda: alice.ask(f"{config_maps(namespace)}/a").status == 403, what="the role is taken away")


def test_each_kind_of_review_answers(plane: Plane, admin: Client, namespace: str, tmp_path: Path) -> None:
    attributes = {"verb": "get", "resource": "configmaps", "namespace": namespace}
    local = f"{AUTHORIZATION}/namespaces/{namespace}/localsubjectaccessreviews"
    asked = {"metadata": {"namespace": namespace}, "spec": {"user": "carol", "resourceAttributes": attributes}}
    own = f"{AUTHORIZATION}/selfsubjectaccessreviews"
    with holder(plane, tmp_path, "carol") as carol:
        assert not admin.create(local, asked)["status"]["allowed"]
        assert not carol.create(own, {"spec": {"resourceAttributes": attributes}})["status"]["allowed"]
        allow(admin, namespace, "carol", name="carols", verbs=["get"], resources=["configmaps"])
        eventually(lambda: admin.create(local, asked)["status"]["allowed"], what="the role is in force")
        assert carol.create(own, {"spec": {"resourceAttributes": attributes}})["status"]["allowed"]
        rules = carol.create(f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {"namespace": namespace}})["status"]
    assert {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]} in rules["resourceRules"]


def test_nobody_gives_more_than_they_have(plane: Plane, admin: Client, namespace: str, tmp_path: Path) -> None:
    at = f"/apis/{RBAC}/v1/namespaces/{namespace}"
    rule = {"apiGroups": [RBAC], "resources": ["roles", "rolebindings"], "verbs": ["create"]}
    admin.create(f"{at}/roles", {"metadata": {"name": "granters"}, "rules": [rule]})
    subject = {"apiGroup": RBAC, "kind": "User", "name": "dave"}
    reference = {"apiGroup": RBAC, "kind": "Role", "name": "granters"}
    admin.create(f"{at}/rolebindings", {"metadata": {"name": "granters"}, "roleRef": reference, "subjects": [subject]})
    same = {"metadata": {"name": "same"}, "rules": [rule]}
    more = {"metadata": {"name": "more"}, "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]}
    with holder(plane, tmp_path, "dave") as dave:
        eventually(lambda: dave.ask(f"{at}/roles", "POST", same).status == 201, what="the role is in force")
        assert dave.ask(f"{at}/roles", "POST", more).status == 403


def test_roles_are_aggregated(admin: Client) -> None:
    at = f"/apis/{RBAC}/v1/clusterroles"
    selector = {"clusterRoleSelectors": [{"matchLabels": {"suite.example.com/part": "yes"}}]}
    admin.create(at, {"metadata": {"name": "suite-whole"}, "aggregationRule": selector, "rules": []})
    rule = {"apiGroups": ["suite.example.com"], "resources": ["widgets"], "verbs": ["get"]}
    part = {"name": "suite-part", "labels": {"suite.example.com/part": "yes"}}
    admin.create(at, {"metadata": part, "rules": [rule]})
    eventually(lambda: admin.get(f"{at}/suite-whole")["rules"] == [rule], what="the rules are aggregated")


def test_service_accounts_have_tokens(plane: Plane, admin: Client, namespace: str) -> None:
    at = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    eventually(lambda: admin.ask(at).status == 200, what="the account of the namespace is made")
    wanted = {"spec": {"audiences": ["https://kubernetes.default.svc.cluster.local"], "expirationSeconds": 600}}
    token = admin.create(f"{at}/token", wanted)["status"]["token"]
    user = f"system:serviceaccount:{namespace}:default"
    review = admin.create(f"{AUTHENTICATION}/tokenreviews", {"spec": {"token": token}})["status"]
    assert review["authenticated"]
    assert review["user"]["username"] == user
    assert f"system:serviceaccounts:{namespace}" in review["user"]["groups"]
    wrong = admin.create(f"{AUTHENTICATION}/tokenreviews", {"spec": {"token": f"{token[:-6]}AAAAAA"}})["status"]
    assert not wrong.get("authenticated")
    with plane.client(token=token) as client:
        assert who_is(client)["username"] == user
        assert client.ask(config_maps(namespace)).status == 403
    unused = admin.create(f"{at}/token", wanted)["status"]["token"]
    admin.delete(at)
    # A token ends with what it is bound to, when the server has seen that. One that was used lately is believed for 10 s more.
    with plane.client(token=unused) as client:
        eventually(lambda: client.ask(config_maps(namespace)).status == 401, what="the token has ended")


def test_a_token_for_somebody_else_is_refused(plane: Plane, admin: Client, namespace: str) -> None:
    at = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    admin.create(at, {"metadata": {"name": "visitor"}})
    token = admin.create(f"{at}/visitor/token", {"spec": {"audiences": ["elsewhere"]}})["status"]["token"]
    with plane.client(token=token) as client:
        assert client.ask(config_maps(namespace)).status == 401


def test_a_secret_of_an_account_gets_its_token(plane: Plane, admin: Client, namespace: str) -> None:
    at = f"/api/v1/namespaces/{namespace}"
    admin.create(f"{at}/serviceaccounts", {"metadata": {"name": "old"}})
    secret = {"name": "old", "annotations": {"kubernetes.io/service-account.name": "old"}}
    admin.create(f"{at}/secrets", {"metadata": secret, "type": "kubernetes.io/service-account-token"})
    data = eventually(lambda: admin.get(f"{at}/secrets/old").get("data"), what="the secret is filled")
    assert base64.b64decode(data["ca.crt"]) == Path(plane.pki("ca.crt")).read_bytes()
    with plane.client(token=base64.b64decode(data["token"]).decode()) as client:
        assert who_is(client)["username"] == f"system:serviceaccount:{namespace}:old"
    admin.delete(f"{at}/serviceaccounts/old")
    eventually(lambda: admin.ask(f"{at}/secrets/old").status == 404, what="the secret goes with its account")


def test_every_namespace_knows_the_authority(plane: Plane, admin: Client, namespace: str) -> None:
    path = f"{config_maps(namespace)}/kube-root-ca.crt"
    eventually(lambda: admin.ask(path).status == 200, what="the authority is published")
    assert admin.get(path)["data"]["ca.crt"] == Path(plane.pki("ca.crt")).read_text()


@of_all("certificatesigningrequests.certificates.k8s.io")
def test_a_certificate_is_asked_for_approved_and_signed(plane: Plane, admin: Client, tmp_path: Path) -> None:
    request = signing_request(tmp_path, "erin")
    wanted = {"request": request, "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}
    admin.create(REQUESTS, {"metadata": {"name": "erin"}, "spec": {**wanted, "expirationSeconds": 3600}})
    found = admin.get(f"{REQUESTS}/erin")
    condition = {"type": "Approved", "status": "True", "reason": "BySuite", "message": "by the suite"}
    admin.update(f"{REQUESTS}/erin/approval", {**found, "status": {"conditions": [condition]}})
    signed = eventually(
        lambda: admin.get(f"{REQUESTS}/erin")["status"].get("certificate"), what="the request is signed"
    )
    (tmp_path / "erin.crt").write_bytes(base64.b64decode(signed))
    with Client(plane.record.endpoint, ca=plane.pki("ca.crt"), certificate=str(tmp_path / "erin.crt")) as erin:
        assert who_is(erin)["username"] == "erin"


@of_all("certificatesigningrequests.certificates.k8s.io")
def test_a_denied_request_is_not_signed(admin: Client, tmp_path: Path) -> None:
    usages = {"signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}
    spec = {"request": signing_request(tmp_path, "frank"), **usages}
    found = admin.create(REQUESTS, {"metadata": {"name": "frank"}, "spec": spec})
    condition = {"type": "Denied", "status": "True", "reason": "BySuite", "message": "by the suite"}
    admin.update(f"{REQUESTS}/frank/approval", {**found, "status": {"conditions": [condition]}})
    both = {**admin.get(f"{REQUESTS}/frank")}
    both["status"]["conditions"].append({**condition, "type": "Approved"})
    assert admin.ask(f"{REQUESTS}/frank/approval", "PUT", both).status == 422
    masters = {"request": signing_request(tmp_path, "grace", "system:masters"), **usages}
    assert admin.ask(REQUESTS, "POST", {"metadata": {"name": "grace"}, "spec": masters}).status == 403
    assert "certificate" not in admin.get(f"{REQUESTS}/frank")["status"]


def signing_request(place: Path, user: str, organization: str = "suite") -> str:
    """PEM in base64; the key lies in the place as USER.key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    names = {NameOID.COMMON_NAME: user, NameOID.ORGANIZATION_NAME: organization}
    subject = x509.Name([x509.NameAttribute(oid, value) for oid, value in names.items()])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (place / f"{user}.key").write_bytes(key.private_bytes(*form))
    return base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()
