# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""As whom a control plane is asked: bounded, for minutes, and with nothing kept."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from cryptography import x509

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.pki.identities import (
    BOOTSTRAP,
    CONTROL_PLANE,
    IDENTITIES,
    LAB_CHECK,
    LAB_KUBE_PROXY,
    SECONDS,
    reader_of,
    writer_of,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.record import Record, load_record
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.rights import ensure_rights, kubeconfig_of
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.host.web import no_answer_error
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, PeerError
from tests.unit.control_plane.given import STATE_DIR, Machine, told

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ADMIN = f"{RBAC}/clusterrolebindings/ballast:admin"


@pytest.fixture
def machine() -> Machine:
    found = Machine()
    found.run()
    return found


def record(machine: Machine) -> Record:
    found = load_record(machine.host, STATE_DIR)
    assert found is not None
    return found


def users(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The subject of each client certificate, with the method, from now on."""
    seen: list[tuple[str, str]] = []
    plain = machine.host.request

    def request(url: str, **options: Any) -> Any:
        if isinstance(options.get("cert"), bytes):
            certificate = x509.load_pem_x509_certificate(options["cert"])
            seen.append((options.get("method", "GET"), certificate.subject.rfc4514_string()))
        return plain(url, **options)

    monkeypatch.setattr(machine.host, "request", request)
    return seen


def test_system_masters_gives_rights_and_does_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    seen = users(machine, monkeypatch)
    machine.run()
    masters = {method for method, subject in seen if "system:masters" in subject}
    assert masters == {"PATCH"}
    patched = [url for method, url, _body in machine.host.requests if method == "PATCH"]
    assert all("rbac.authorization.k8s.io" in url for url in patched)
    assert {subject for method, subject in seen if method == "GET"} == {"CN=ballast:control-plane"}
    seen.clear()
    assert machine.run() == []
    assert {subject for _method, subject in seen} == {"CN=ballast:control-plane"}


def test_no_credential_of_it_is_kept(machine: Machine) -> None:
    kept = {path: data for path, data in machine.host.snapshot().items() if path.endswith((".crt", ".kubeconfig"))}
    assert kept
    for path in kept:
        for pem in (machine.host.read(path) or b"").split(b"-----BEGIN ")[1:]:
            subject = x509.load_pem_x509_certificate(b"-----BEGIN " + pem).subject.rfc4514_string()
            assert "system:masters" not in subject, path


@pytest.mark.parametrize("identity", IDENTITIES, ids=lambda one: one.user)
def test_a_certificate_is_for_minutes(machine: Machine, identity: Any) -> None:
    pem, _key = record(machine).client(machine.host, identity)
    certificate = x509.load_pem_x509_certificate(pem)
    left = certificate.not_valid_after_utc.timestamp() - machine.host.now()
    assert SECONDS - 1 <= left <= SECONDS
    names = [one.value for one in certificate.subject]
    assert names == [*([identity.group] if identity.group else []), identity.user]


def test_a_plane_that_a_version_before_made_is_brought_up_by_a_run(machine: Machine) -> None:
    machine.api.objects = {path: one for path, one in machine.api.objects.items() if "ballast:" not in path}
    steps = told(machine.run())
    assert "make api-object ballast:admin" in steps
    assert {ADMIN, CONTROL_PLANE.role_path} <= set(machine.api.objects)
    assert machine.run() == []


def test_rights_that_somebody_changed_are_put_right_before_the_next_change(machine: Machine) -> None:
    role = machine.api.objects[CONTROL_PLANE.role_path]
    wanted = role["rules"]
    machine.api.objects[CONTROL_PLANE.role_path] = {**role, "rules": [{"apiGroups": ["*"], "resources": ["*"]}]}
    ensure_rights(machine.host, record(machine), CONTROL_PLANE)
    assert machine.api.objects[CONTROL_PLANE.role_path]["rules"] == wanted


NO_ANSWER = no_answer_error("GET", "https://plane", TimeoutError("timed out"))
FAILING = Response(status=500, body=b'{"message": "etcdserver: request timed out"}')


def fail_once_each(machine: Machine, monkeypatch: pytest.MonkeyPatch, failure: BallastError | Response) -> list[str]:
    """The first request of each method for each RBAC object fails so. Returns those, as they happen."""
    failed: list[str] = []
    plain = machine.host.request

    def request(url: str, **options: Any) -> Any:
        attempt = f"{options.get('method', 'GET')} {url}"
        if "rbac.authorization.k8s.io" not in url or attempt in failed:
            return plain(url, **options)
        failed.append(attempt)
        if isinstance(failure, BallastError):
            raise failure
        return failure

    monkeypatch.setattr(machine.host, "request", request)
    return failed


@pytest.mark.parametrize("failure", [NO_ANSWER, FAILING], ids=["no-answer", "status-500"])
def test_an_api_server_whose_etcd_is_not_ready_yet_is_asked_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, failure: BallastError | Response
) -> None:
    before = dict(machine.api.objects)
    machine.api.objects = {path: one for path, one in before.items() if "ballast:" not in path}
    failed = fail_once_each(machine, monkeypatch, failure)
    machine.run()
    assert {attempt.partition(" ")[0] for attempt in failed} == {"GET", "PATCH"}
    assert set(machine.api.objects) == set(before)
    assert machine.run() == []


def test_an_api_server_that_gives_no_answer_at_all_is_not_asked_for_ever(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def request(url: str, **options: Any) -> Any:
        raise NO_ANSWER

    monkeypatch.setattr(machine.host, "request", request)
    with pytest.raises(BallastError) as caught:
        ensure_rights(machine.host, record(machine), CONTROL_PLANE)
    assert (caught.value.id, caught.value.found) == ("core-wait-deadline", "timed out")


def test_the_administrator_is_a_user_with_a_binding(machine: Machine) -> None:
    found = machine.api.objects[ADMIN]
    assert found["roleRef"]["name"] == "cluster-admin"
    assert [(one["kind"], one["name"]) for one in found["subjects"]] == [("User", "ballast:admin")]
    del machine.api.objects[ADMIN]
    assert told(machine.plan().steps) == ["make api-object ballast:admin"]


def test_a_binding_for_everywhere_is_read_by_whose_rights_hold_everywhere() -> None:
    """An identity of one namespace would take it for absent, and have it made in every run."""
    path = f"{RBAC}/clusterrolebindings/kubeadm:node-proxier"
    assert reader_of(path, LAB_KUBE_PROXY) == CONTROL_PLANE
    assert any("clusterrolebindings" in rule.resources and "get" in rule.verbs for rule in CONTROL_PLANE.rules)
    for path in (f"{RBAC}/namespaces/x/rolebindings/y", "/api/v1/namespaces/kube-system/configmaps/kube-proxy"):
        assert reader_of(path, LAB_KUBE_PROXY) == LAB_KUBE_PROXY


@pytest.mark.parametrize(
    ("path", "writer"),
    [
        (f"{RBAC}/clusterrolebindings/kubeadm:node-proxier", BOOTSTRAP),
        (f"{RBAC}/namespaces/x/roles/y", BOOTSTRAP),
        ("/api/v1/namespaces/ballast-lab", BOOTSTRAP),
        ("/api/v1/namespaces/ballast-lab/services/echo", LAB_CHECK),
        ("/apis/apps/v1/namespaces/ballast-lab/daemonsets/echo", LAB_CHECK),
    ],
)
def test_who_writes_what(path: str, writer: object) -> None:
    assert writer_of(path, LAB_CHECK) == writer


def test_what_kubectl_is_lent_is_for_root_alone_and_goes(machine: Machine) -> None:
    before = machine.host.listdir(f"{STATE_DIR}/pki")
    with kubeconfig_of(machine.host, record(machine), LAB_CHECK) as path:
        assert machine.host.mode(path) == 0o600
        assert b"client-key-data" in (machine.host.read(path) or b"")
    assert machine.host.listdir(f"{STATE_DIR}/pki") == before
    with suppress(KeyError), kubeconfig_of(machine.host, record(machine), LAB_CHECK):
        raise KeyError
    assert machine.host.listdir(f"{STATE_DIR}/pki") == before


@pytest.mark.parametrize("name", ["ca.crt", "ca.key"])
def test_without_an_authority_nothing_is_asked(machine: Machine, name: str) -> None:
    machine.host.given(f"{STATE_DIR}/pki/{name}", "x")
    with pytest.raises(PeerError) as caught:
        record(machine).ask(machine.host, "/version")
    assert caught.value.id == "plane-no-authority"


def test_a_record_keeps_the_key_of_versions_before(machine: Machine) -> None:
    choice = json.loads(machine.host.text(f"{STATE_DIR}/plane.json"))["choice"]
    assert "deployment_mode" not in choice
    assert record(machine).choice.deployment_mode == choice["shape"] == "separate"


def test_a_record_of_a_version_before_is_read(machine: Machine) -> None:
    path = f"{STATE_DIR}/plane.json"
    text = machine.host.text(path).replace('"authority": "/var', '"client": "/x/admin.crt", "authority": "/var', 1)
    machine.host.given(path, text)
    assert '"client": "/x/admin.crt"' in text
    assert record(machine).authority == f"{STATE_DIR}/pki/ca.crt"
