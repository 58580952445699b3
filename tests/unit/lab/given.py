# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests for labs, and a control plane's record on a machine in memory."""

from __future__ import annotations

import functools
import ipaddress
import json
from collections.abc import Mapping
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.pki.identities import IDENTITIES
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.pki.pki import Certificate, CertificateKind
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.profiles.profiles import (
    EXTERNAL,
    FULL,
    SEPARATE,
    Choice,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.record import Etcd, Record, record_path
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import ABSENT
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from ansible_collections.ballast.kube.plugins.module_utils._lab.addons.address_pool import SERVICES
from ansible_collections.ballast.kube.plugins.module_utils._lab.resolve import HostFacts, Lab, resolve
from ansible_collections.ballast.kube.plugins.module_utils._lab.topology import TopologyRequest, parse_request
from tests.unit.fakes import FakeHost, json_answer

DIR = "/var/lib/ballast/lab"
API = "https://10.97.0.1:6443"
POLICIES = f"{API}/apis/admissionregistration.k8s.io/v1"
GIB = 2**30
FACTS = HostFacts(cpu_millis=4000, memory_bytes=16 * GIB, networks=())


def params(**changes: Any) -> dict[str, Any]:
    return {
        "lab_dir": DIR,
        "name": None,
        "nodes": None,
        "topology": None,
        "target": "host",
        "bootstrap": "lab",
        "hosts": 2,
        "kubernetes_version": "1.37.1",
        "addons": None,
        "default_addons": None,
        "ip_family": None,
        "balloons": False,
        "sizes": {},
        "service_cidr": "10.96.0.0/16",
        **changes,
    }


def request(**changes: Any) -> TopologyRequest:
    return parse_request(params(**changes))


def lab(previous: Optional[Lab] = None, facts: HostFacts = FACTS, **changes: Any) -> Lab:
    return resolve(request(**changes), previous, facts)


def facts(*networks: str) -> HostFacts:
    used = tuple(ipaddress.ip_network(network) for network in networks)
    return HostFacts(cpu_millis=4000, memory_bytes=16 * GIB, networks=used)


def faults(**changes: Any) -> list[tuple[str, str]]:
    """The id and the beginning, up to the colon, of every problem of a request."""
    return errors_of(lambda: request(**changes))


def errors_of(ask: Any) -> list[tuple[str, str]]:
    try:
        ask()
    except Problems as problems:
        return [(one.id, one.text.split(": ")[0]) for one in problems.problems]
    except BallastError as error:
        return [(error.id, error.text.split(": ")[0])]
    return []


def plane_record() -> Record:
    return Record(
        state_dir=f"{DIR}/plane",
        name="lab",
        kubernetes_version="1.37.1",
        endpoint=API,
        kubeconfig=f"{DIR}/admin.kubeconfig",
        bin_dir=f"{DIR}/bin",
        authority=f"{DIR}/plane/pki/ca.crt",
        etcd=Etcd(endpoints=(), authority="", client="", key="", prefix="/registry"),
        choice=Choice(FULL, "1.37.1", SEPARATE, crds=True, aggregation=True, etcd=EXTERNAL),
        certificates=(),
        members=(),
    )


def machine(files: Optional[Mapping[str, str]] = None) -> FakeHost:
    """A host with a control plane, whose API has to be scripted."""
    host = FakeHost(files={record_path(f"{DIR}/plane"): plane_record().as_text(), **(files or {})})
    host.given_ours(DIR, "lab")
    host.given_cgroups(2)
    certificate, key = authority()
    host.given(f"{DIR}/plane/pki/ca.crt", certificate)
    host.given(f"{DIR}/plane/pki/ca.key", key, mode=0o600)
    for one in IDENTITIES:
        if one.rules:  # as after the first run
            for path, role in one.roles().items():
                host.answer(API + path, json_answer(200, role))
    policies: dict[str, Any] = {}

    def patch(url: str, body: Optional[bytes]) -> Response:
        policies[url.partition("?")[0]] = json.loads(body or b"")
        return json_answer(200, policies[url.partition("?")[0]])

    def get(url: str, _body: Optional[bytes]) -> Response:
        return json_answer(200, policies[url]) if url in policies else json_answer(404, {})

    host.answer(POLICIES, patch, method="PATCH")
    host.answer(POLICIES, get)
    return host


def keep_objects(host: FakeHost, kept: dict[str, Any]) -> None:
    """Objects of the API by path, as they are applied, read and deleted."""

    def get(url: str, _body: Optional[bytes]) -> Response:
        path = url[len(API) :].partition("?")[0]
        if path == SERVICES:
            return json_answer(
                200, {"metadata": {}, "items": [row for name, row in kept.items() if "/services/" in name]}
            )
        return json_answer(200, kept[path]) if path in kept else json_answer(404, {})

    def patch(url: str, body: Optional[bytes]) -> Response:
        kept[url[len(API) :].partition("?")[0]] = json.loads(body or b"{}")
        return json_answer(201, {})

    def delete(url: str, _body: Optional[bytes]) -> Response:
        return json_answer(200 if kept.pop(url[len(API) :], None) else 404, {})

    for method, answer in (("GET", get), ("PATCH", patch), ("DELETE", delete)):
        host.answer(API, answer, method=method)


def refused(host: FakeHost) -> Any:
    """What the admission policy says of whom it refuses; None where there is none."""
    answer = host.request(f"{POLICIES}/validatingadmissionpolicies/ballast-departed-nodes")
    return json.loads(answer.body)["spec"] if answer.status == 200 else None


@functools.cache
def authority() -> tuple[str, str]:
    """Certificate and key of one that signs what is asked for."""
    host = FakeHost()
    host.make_directory("/pki")
    wanted = Certificate(path="/pki/ca.crt", issuer=None, common_name="ballast-lab-ca").resource(group="")
    CertificateKind().write(Context(None, host), wanted.target, wanted.value, ABSENT)
    return tuple((host.read(path) or b"").decode() for path in ("/pki/ca.crt", "/pki/ca.key"))  # type: ignore[return-value]
