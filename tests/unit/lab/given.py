# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests for labs, and a control plane's record on a machine in memory."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._core.errors import BallastError, Problems
from ansible_collections.ballast.kube.plugins.module_utils._lab.resolve import HostFacts, Lab, resolve
from ansible_collections.ballast.kube.plugins.module_utils._lab.topology import Request, parse_request
from ansible_collections.ballast.kube.plugins.module_utils._plane.profiles import EXTERNAL, FULL, SEPARATE, Choice
from ansible_collections.ballast.kube.plugins.module_utils._plane.record import Etcd, Record, record_path
from tests.unit.fakes import FakeHost

DIR = "/var/lib/ballast/lab"
API = "https://10.97.0.1:6443"
GIB = 2**30
FACTS = HostFacts(cpu_millis=4000, memory_bytes=16 * GIB, networks=())


def params(**changes: Any) -> dict[str, Any]:
    return {
        "lab_dir": DIR,
        "name": None,
        "nodes": None,
        "topology": None,
        "target": "host",
        "hosts": 2,
        "kubernetes_version": "1.37.1",
        "balloons": False,
        "sizes": {},
        **changes,
    }


def request(**changes: Any) -> Request:
    return parse_request(params(**changes))


def lab(previous: Optional[Lab] = None, facts: HostFacts = FACTS, **changes: Any) -> Lab:
    return resolve(request(**changes), previous, facts)


def facts(*networks: str) -> HostFacts:
    used = tuple(ipaddress.IPv4Network(network) for network in networks)
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
        client=f"{DIR}/plane/pki/admin.crt",
        etcd=Etcd(endpoints=(), authority="", client="", key="", prefix="/registry"),
        choice=Choice(FULL, "1.37.1", SEPARATE, crds=True, aggregation=True, etcd=EXTERNAL),
        certificates=(),
        members=(),
    )


def machine(files: Optional[Mapping[str, str]] = None) -> FakeHost:
    """A host with a control plane, whose API has to be scripted."""
    host = FakeHost(files={record_path(f"{DIR}/plane"): plane_record().as_text(), **(files or {})})
    host.given_cgroups(2)
    return host
