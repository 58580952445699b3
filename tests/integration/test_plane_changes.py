# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Real control planes that change: profile, deployment mode, encryption and issuers over the same data, and two that share an etcd."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from tests.integration.oidc_issuer import Issuer, issuer
from tests.integration.plane_client import eventually
from tests.integration.plane_lab import VERSION, Plane, binaries, place

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a control plane")]

CONFIG_MAPS, SECRETS = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/secrets"
MAPPED = {"username": "sub", "groups": "groups"}
PASSWORD = "none-may-read-this"  # in the clear it would be seen in etcd and in the audit log


@pytest.fixture(scope="module")
def generic() -> Iterator[Plane]:
    programs = binaries(VERSION, all_in_one=True)
    with place("generic", bin_dir=programs, encryption="secretbox", audit="RequestResponse") as found:
        found.run()
        for path, data in ((CONFIG_MAPS, {"data": {"a": "b"}}), (SECRETS, {"stringData": {"password": PASSWORD}})):
            kind = "ConfigMap" if path == CONFIG_MAPS else "Secret"
            body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "kept"}, **data}
            assert found.ask(path, "POST", body).status == 201
        yield found


def stored(plane: Plane, key: str, *options: str) -> bytes:
    """What etcd holds, as who holds the API server's certificate sees it."""
    etcd = plane.record.etcd
    access = [f"--cacert={etcd.authority}", f"--cert={etcd.client}", f"--key={etcd.key}"]
    command = [plane.bin("etcdctl"), f"--endpoints={','.join(etcd.endpoints)}", *access, "get", key, *options]
    return subprocess.run(command, check=True, capture_output=True, timeout=60).stdout


def audited(plane: Plane) -> list[dict[str, Any]]:
    log = Path(plane.state_dir, "log/audit.log")
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def processes_of(plane: Plane) -> set[str]:
    """Programs that run from its directory of programs, with its state directory in the command line."""
    host = LocalHost()
    lines = [host.read(f"/proc/{name}/cmdline") or b"" for name in host.listdir("/proc") if name.isdigit()]
    mine = [line.split(b"\0")[0].decode() for line in lines if plane.state_dir.encode() in line]
    return {os.path.basename(path) for path in mine if path.startswith(str(plane.params["bin_dir"]))}


def test_what_is_encrypted_is_neither_in_etcd_nor_in_the_audit_log(generic: Plane) -> None:
    value = stored(generic, "/registry/secrets/default/kept", "--print-value-only")
    assert value.startswith(b"k8s:enc:secretbox:v1:")
    assert b"k8s:enc" not in stored(generic, "/registry/configmaps/default/kept", "--print-value-only")
    log, entries = Path(generic.state_dir, "log/audit.log"), audited(generic)
    assert {"Metadata", "RequestResponse"} <= {entry["level"] for entry in entries}
    assert any(entry["requestURI"].startswith(SECRETS) and entry["verb"] == "create" for entry in entries)
    assert PASSWORD not in log.read_text(encoding="utf-8")
    assert log.stat().st_mode & 0o077 == 0


def publisher(plane: Plane) -> str:
    """Whom the audit log names for the root certificate in a new namespace: a controller, by the account it acts as."""
    name = f"of-{plane.params['profile']}-{time.monotonic_ns()}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    assert plane.ask("/api/v1/namespaces", "POST", body).status == 201
    path = f"/api/v1/namespaces/{name}/configmaps"
    eventually(
        lambda: plane.ask(f"{path}/kube-root-ca.crt").ok, what="a controller published the root certificate", seconds=60
    )
    for entry in audited(plane):
        if entry["requestURI"].startswith(path) and entry["verb"] == "create" and entry["stage"] == "ResponseComplete":
            return str(entry.get("impersonatedUser", entry["user"])["username"])
    return ""


def test_profile_and_deployment_mode_change_over_the_same_data(generic: Plane) -> None:
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    answer = generic.ask("/api/v1/namespaces/default/serviceaccounts/default/token", "POST", request)
    token = answer.body["status"]["token"]
    chain = [
        (generic.changed(deployment_mode="all_in_one"), {"hyper-mini"}),
        (generic.changed(profile="full"), {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}),
        (generic.changed(encryption="aesgcm"), {"etcd", "generic-apiserver", "kube-controller-manager"}),
    ]
    for plane, programs in chain:
        begun = time.monotonic()
        assert plane.run() != []
        print(f"{plane.params['profile']}: {time.monotonic() - begun:.1f} s, ready {plane.report()['ready_seconds']} s")
        assert processes_of(plane) == programs
        assert plane.ask(f"{CONFIG_MAPS}/kept").body["data"] == {"a": "b"}
        assert plane.ask(f"{SECRETS}/kept").status == 200
        assert publisher(plane) == "system:serviceaccount:kube-system:root-ca-cert-publisher"
        with plane.client(token=token) as client:  # known, and allowed nothing here
            assert client.ask(CONFIG_MAPS).status == 403
        assert plane.run() == []
    generic.run()
    assert generic.ask(f"{SECRETS}/kept").status == 200


def status_for(plane: Plane, token: str) -> int:
    with plane.client(token=token) as client:
        return client.ask(CONFIG_MAPS).status


def assert_users_of(plane: Plane, of: Issuer) -> None:
    """Only tokens of the issuer, for this API and of now, name a user; what it may do is for RBAC to say."""
    claims = {"sub": "jane", "aud": "api", "groups": ["developers", "system:masters"]}
    eventually(lambda: status_for(plane, of.token(**claims)) == 200, what="the API server has the issuer's keys")
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    with plane.client(token=of.token(**claims)) as client:
        user = client.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)["status"]["userInfo"]
        assert client.ask(SECRETS).status == 403  # system:masters with a prefix is a group like others
    assert user["username"] == "oidc:jane"
    assert set(user["groups"]) == {"oidc:developers", "oidc:system:masters", "system:authenticated"}
    assert status_for(plane, of.token(**{**claims, "groups": []})) == 403
    other_key = dataclasses.replace(of, key=rsa.generate_private_key(public_exponent=65537, key_size=2048))
    refused = {
        "audience": of.token(**{**claims, "aud": "another"}),
        "expired": of.token(**claims, exp=int(time.time()) - 60),
        "not yet": of.token(**claims, nbf=int(time.time()) + 3600),
        "issuer": of.token(**claims, iss="https://127.0.0.1:1"),
        "key": other_key.token(**claims),
    }
    assert {why: status_for(plane, token) for why, token in refused.items()} == dict.fromkeys(refused, 401)


def test_jwt_of_an_issuer_names_the_user_and_groups(generic: Plane, tmp_path: Path) -> None:
    rbac = "rbac.authorization.k8s.io"
    readers = f"/apis/{rbac}/v1/namespaces/default"
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}
    with issuer(tmp_path) as of:
        authenticator = {
            "issuer": {"url": of.url, "audiences": ["api"], "certificateAuthority": of.authority},
            "claimMappings": {key: {"claim": claim, "prefix": "oidc:"} for key, claim in MAPPED.items()},
        }
        issued = generic.changed(jwt=[authenticator])
        role = {"roleRef": {"apiGroup": rbac, "kind": "Role", "name": "readers"}}
        subject = {"apiGroup": rbac, "kind": "Group", "name": "oidc:developers"}
        with generic.client() as client:
            client.create(f"{readers}/roles", {"metadata": {"name": "readers"}, "rules": [rule]})
            client.create(f"{readers}/rolebindings", {"metadata": {"name": "readers"}, **role, "subjects": [subject]})
        for plane in (issued, issued.changed(deployment_mode="all_in_one")):
            assert plane.run() != []
            assert_users_of(plane, of)
            with plane.client("") as nobody:
                assert (nobody.ask("/livez").status, nobody.ask("/version").status) == (200, 401)
            assert plane.run() == []
        generic.run()
        assert status_for(generic, of.token(sub="jane", aud="api", groups=["developers"])) == 401
    assert generic.run() == []


def test_two_share_an_etcd_and_one_goes(generic: Plane) -> None:
    etcd = generic.record.etcd
    options = {
        "etcd": "existing",
        "etcd_endpoints": list(etcd.endpoints),
        "etcd_ca": etcd.authority,
        "etcd_certificate": etcd.client,
        "etcd_key": etcd.key,
        "bin_dir": generic.params["bin_dir"],
    }
    with place("minimal", **options) as guest:
        guest.run()
        assert guest.run() == []
        assert processes_of(guest) == {"generic-apiserver", "kube-controller-manager"}
        assert guest.ask(f"{CONFIG_MAPS}/kept").status == 404
        guest.run(state="absent")
        assert not os.path.exists(guest.state_dir)
        prefix = f"/ballast-{guest.params['name']}/"
        assert prefix.encode() in stored(generic, prefix, "--prefix", "--keys-only")
    assert generic.ask(f"{CONFIG_MAPS}/kept").status == 200
    assert generic.run() == []
