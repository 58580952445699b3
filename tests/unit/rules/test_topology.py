# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which endpoints a packet may reach, on the node n1. A case is a file in cases/topology:

why: a sentence
service: {...}     fields of ServicePort that differ from a Service of type ClusterIP
zone: a            of n1; not known where it is left out
endpoints:         by name; fields as in Endpoint, hints as zones and nodes
cluster: [...]     the names that are expected
local: [...]       none where it is left out
has_any: true      true where it is left out
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._rules.model import Endpoint, ServicePort
from ansible_collections.ballast.kube.plugins.module_utils._rules.topology import reachable

CASES = sorted((Path(__file__).parent / "cases" / "topology").glob("*.yml"))
KEYS = {"why", "service", "zone", "endpoints", "cluster", "local", "has_any"}


def endpoint(number: int, fields: Mapping[str, Any]) -> Endpoint:
    hints: dict[str, Any] = {"zone_hints": tuple(fields.get("zones", ())), "node_hints": tuple(fields.get("nodes", ()))}
    rest = {key: value for key, value in fields.items() if key not in ("zones", "nodes")}
    return Endpoint(f"10.1.0.{number}", 8080, **rest, **hints)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    case = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert KEYS.issuperset(case)
    assert case["why"]
    endpoints = {name: endpoint(number, of) for number, (name, of) in enumerate(case["endpoints"].items())}
    fields: dict[str, Any] = {
        key: tuple(of) if isinstance(of, list) else of for key, of in case.get("service", {}).items()
    }
    service = ServicePort("default", "web", "", "TCP", 80, "10.96.0.1", endpoints=tuple(endpoints.values()), **fields)
    found = reachable(service, node="n1", zone=case.get("zone", ""))
    names = {one: name for name, one in endpoints.items()}
    assert [names[one] for one in found.cluster] == case["cluster"]
    assert [names[one] for one in found.local] == case.get("local", [])
    assert found.has_any is case.get("has_any", True)


def test_there_are_cases() -> None:
    assert len(CASES) > 15


ENDPOINTS = st.builds(
    Endpoint,
    address=st.sampled_from([f"10.1.0.{number}" for number in range(1, 9)]),
    port=st.just(8080),
    ready=st.booleans(),
    serving=st.booleans(),
    terminating=st.booleans(),
    node=st.sampled_from(["", "n1", "n2"]),
    zone_hints=st.sampled_from([(), ("a",), ("b",)]),
    node_hints=st.sampled_from([(), ("n1",), ("n2",)]),
)
SERVICES = st.builds(
    ServicePort,
    namespace=st.just("default"),
    name=st.just("web"),
    port_name=st.just(""),
    protocol=st.just("TCP"),
    port=st.just(80),
    cluster_ip=st.just("10.96.0.1"),
    node_port=st.sampled_from([0, 30080]),
    internal_local=st.booleans(),
    external_local=st.booleans(),
    endpoints=st.lists(ENDPOINTS, max_size=5, unique_by=lambda one: one.address).map(tuple),
)


@given(service=SERVICES, zone=st.sampled_from(["", "a", "c"]))
def test_only_endpoints_that_serve_are_reached_and_local_ones_are_here(service: ServicePort, zone: str) -> None:
    found = reachable(service, node="n1", zone=zone)
    reached = {*found.cluster, *found.local}
    assert all(one.ready or (one.serving and one.terminating) for one in reached)
    assert reached <= set(service.endpoints)
    assert {one.node for one in found.local} <= {"n1"}
    assert found.has_any or not reached
    # A policy in use never turns away what some endpoint could serve.
    assert bool(found.cluster) == (found.has_any and (not service.internal_local or service.externally_accessible))


@given(service=SERVICES)
def test_ready_and_terminating_endpoints_are_never_mixed(service: ServicePort) -> None:
    found = reachable(service, node="n1", zone="a")
    for endpoints in (found.cluster, found.local):
        assert len({one.ready for one in endpoints}) <= 1
