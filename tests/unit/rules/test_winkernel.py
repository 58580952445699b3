# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""HNS is not here to be asked: what is expected is written down in golden/winkernel.json, after kube-proxy's winkernel/hns.go
and proxier.go of Kubernetes 1.37.1, and every change of it is to be read. BALLAST_GOLDEN=write makes it anew."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._rules.config import Winkernel
from ansible_collections.ballast.kube.plugins.module_utils._rules.frontends import assign_frontends
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import (
    Endpoint,
    FamilyView,
    NodeView,
    ServicePort,
)
from ansible_collections.ballast.kube.plugins.module_utils._winkernel.backend import (
    HnsNetwork,
    HnsRules,
    LoadBalancer,
    Operation,
    RemoteEndpoint,
    RemoteSubnet,
    compile_rules,
    plan,
)

GOLDEN = Path(__file__).parent / "golden" / "winkernel.json"
NODE = NodeView("n1", zone="a", primary="192.0.2.10", addresses=("192.0.2.10",))
SETTINGS = Winkernel(source_vip="10.1.0.2", enable_dsr=True)
BRIDGE = HnsNetwork(id="net-1", endpoint_ids=(("10.1.0.5", "A1B2"),))
OVERLAY = HnsNetwork(
    id="net-1", overlay=True, host_mac="00-15-5d-00-00-01", remote_subnets=(RemoteSubnet("10.2.0.0/24", "192.0.2.11"),)
)
HERE = Endpoint("10.1.0.5", 8080, node="n1")
THERE = Endpoint("10.2.0.5", 8080, node="n2")


def port(name: str = "web", *endpoints: Endpoint, **fields: Any) -> ServicePort:
    return ServicePort(
        namespace="default",
        name=name,
        port_name="http",
        protocol=fields.pop("protocol", "TCP"),
        port=80,
        cluster_ip=fields.pop("cluster_ip", "10.96.0.1"),
        endpoints=endpoints or (HERE, THERE),
        **fields,
    )


def view(*services: ServicePort, family: int = 4, node: NodeView = NODE) -> FamilyView:
    found, duplicates = assign_frontends(services, lambda one: 0.0)
    return FamilyView(family, node, tuple(services), found, duplicates)


def compiled(
    *services: ServicePort, network: HnsNetwork = BRIDGE, settings: Winkernel = SETTINGS, **how: Any
) -> HnsRules:
    return compile_rules(view(*services, **how), settings, network)


def only(*services: ServicePort, **how: Any) -> LoadBalancer:
    (found,) = compiled(*services, **how).load_balancers
    return found


EXTERNAL: dict[str, Any] = {
    "node_port": 30080,
    "external_ips": ("198.51.100.1",),
    "load_balancer_ips": ("203.0.113.1",),
}
SIX = Endpoint("fd00:2::abcd", 8080, node="n2")
GOLDEN_RULES = {
    "every kind of frontend": compiled(port(**EXTERNAL)),
    "affinity": compiled(port(affinity_seconds=60)),
    "externalTrafficPolicy Local": compiled(port(external_local=True, **EXTERNAL)),
    "internalTrafficPolicy Local": compiled(port(internal_local=True)),
    "preserve-destination": compiled(port(preserve_destination=True, **EXTERNAL)),
    "overlay": compiled(port(node_port=30080), network=OVERLAY),
    "overlay with an endpoint outside": compiled(
        port("web", HERE, Endpoint("198.51.100.9", 443, node="")), network=OVERLAY
    ),
    "IPv6": compiled(
        port("web", SIX, cluster_ip="fd00:96::1", node_port=30080),
        family=6,
        settings=Winkernel(),
        node=NodeView("n1", primary="2001:db8::10"),
    ),
}


def as_golden(rules: HnsRules) -> dict[str, Any]:
    operations = plan(rules, HnsRules("net-1"))
    return {
        "operations": [f"{one.kind} {one.target}" for one in operations],
        "policies": [one.value.as_hns() for one in operations],
    }


def test_policies_are_as_written_down() -> None:
    found = json.dumps({name: as_golden(rules) for name, rules in GOLDEN_RULES.items()}, indent=1) + "\n"
    if os.environ.get("BALLAST_GOLDEN") == "write":
        GOLDEN.write_text(found, encoding="utf-8")
    assert found == GOLDEN.read_text(encoding="utf-8")


def test_a_service_without_endpoints_has_no_policy() -> None:
    gone = HERE._replace(ready=False, serving=False)
    assert compiled(port("web", gone, **EXTERNAL)) == HnsRules("net-1")


def test_sctp_has_no_policy() -> None:
    assert compiled(port(protocol="SCTP", node_port=30080)).load_balancers == ()


def test_a_local_policy_without_a_local_endpoint_leaves_the_cluster_ip() -> None:
    found = compiled(port("web", THERE, external_local=True, **EXTERNAL))
    assert [one.vip for one in found.load_balancers] == ["10.96.0.1"]


def test_the_port_of_the_first_endpoint_is_taken() -> None:
    first, second = Endpoint("10.1.0.5", 8081, node="n1"), Endpoint("10.1.0.6", 8080, node="n1")
    assert only(port("web", first, second)).internal_port == 8081


def test_without_a_source_vip_the_nodes_own_address_is_taken() -> None:
    (found,) = compile_rules(view(port()), Winkernel(), BRIDGE).load_balancers
    assert found.source_vip == "192.0.2.10"


def test_a_node_as_an_endpoint_of_an_overlay_is_reached_from_the_nodes_address() -> None:
    network = dataclasses.replace(OVERLAY, remote_subnets=(RemoteSubnet("192.0.2.11/32", "192.0.2.11"),))
    assert only(port("web", Endpoint("192.0.2.11", 443, node="n2")), network=network).source_vip == "192.0.2.10"


def test_the_identity_does_not_depend_on_the_order_of_endpoints() -> None:
    one = only(port())
    turned = dataclasses.replace(one, endpoints=tuple(reversed(one.endpoints)))
    assert one.identity == turned.identity
    assert one.identity[:4] == (6, 8080, 80, "10.96.0.1")


@pytest.mark.parametrize(
    "change",
    [
        {"vip": "10.96.0.2"},
        {"protocol": 17},
        {"external_port": 81},
        {"internal_port": 81},
        {"endpoints": ("A1B2",)},
        {"flags": 3},
    ],
)
def test_the_identity_changes_with(change: dict[str, Any]) -> None:
    assert dataclasses.replace(only(port()), **change).identity != only(port()).identity


def test_the_identity_of_no_endpoints_is_zero_and_of_one_its_sum() -> None:
    one = only(port("web", HERE))
    # printf A1B2 | sha1sum
    assert one.identity[4] == "25ef54533baa49d7cc4e64d478ecd1d2fd55d761"
    assert dataclasses.replace(one, endpoints=("a1b2",)).identity == one.identity


def kinds(operations: tuple[Operation, ...]) -> list[str]:
    return [f"{one.kind} {one.target}" for one in operations]


def test_nothing_to_do_is_no_operation() -> None:
    assert plan(compiled(port(**EXTERNAL)), compiled(port(**EXTERNAL))) == ()


def test_a_changed_policy_is_deleted_right_before_it_is_made() -> None:
    before = compiled(port(node_port=30080))
    after = compiled(port("web", HERE, node_port=30080))
    assert kinds(plan(after, before)) == [
        "delete load balancer node port 30080/TCP",
        "create load balancer node port 30080/TCP",
        "delete load balancer 10.96.0.1 80/TCP",
        "create load balancer 10.96.0.1 80/TCP",
        "delete endpoint 10.2.0.5",
    ]


def test_a_flag_alone_is_a_change_too() -> None:
    before, after = compiled(port()), compiled(port(affinity_seconds=60))
    assert before.load_balancers[0].identity == after.load_balancers[0].identity
    assert len(plan(after, before)) == 2


def test_a_service_that_is_gone_leaves_nothing() -> None:
    assert kinds(plan(HnsRules("net-1"), compiled(port()))) == [
        "delete load balancer 10.96.0.1 80/TCP",
        "delete endpoint 10.2.0.5",
    ]


def test_an_endpoint_that_moved_is_made_anew() -> None:
    before = HnsRules("net-1", (RemoteEndpoint("10.2.0.5", "02-11-0a-02-00-05", "192.0.2.11"),))
    after = HnsRules("net-1", (RemoteEndpoint("10.2.0.5", "02-11-0a-02-00-05", "192.0.2.12"),))
    assert kinds(plan(after, before)) == ["delete endpoint 10.2.0.5", "create endpoint 10.2.0.5"]


def test_on_another_network_everything_is_made_anew() -> None:
    before, after = compiled(port()), compiled(port(), network=dataclasses.replace(BRIDGE, id="net-2"))
    assert kinds(plan(after, before)) == [
        "delete load balancer 10.96.0.1 80/TCP",
        "create endpoint 10.2.0.5",
        "create load balancer 10.96.0.1 80/TCP",
    ]


def applied(found: HnsRules, operations: tuple[Operation, ...], network_id: str) -> HnsRules:
    """As HNS does it: it refuses a second policy for a frontend, a second endpoint, and to delete what is not there."""
    balancers = {one.frontend: one for one in found.load_balancers}
    endpoints = {one.address: one for one in found.endpoints} if network_id == found.network_id else {}
    for one in operations:
        if isinstance(one.value, LoadBalancer):
            if one.kind == "create load balancer":
                assert balancers.setdefault(one.value.frontend, one.value) is one.value
            else:
                assert balancers.pop(one.value.frontend) == one.value
        elif one.kind == "create endpoint":
            assert endpoints.setdefault(one.value.address, one.value) is one.value
        else:
            assert endpoints.pop(one.value.address) == one.value
    return HnsRules(
        network_id,
        tuple(endpoints[address] for address in sorted(endpoints)),
        tuple(balancers[frontend] for frontend in sorted(balancers)),
    )


SERVICES = st.builds(
    lambda name, endpoints, fields: port(name, *endpoints, **fields),
    name=st.sampled_from("abc"),
    endpoints=st.lists(st.sampled_from([HERE, THERE, Endpoint("10.2.0.6", 9090)]), min_size=1, unique=True),
    fields=st.fixed_dictionaries(
        {"cluster_ip": st.sampled_from(["10.96.0.1", "10.96.0.2"])},
        optional={
            "node_port": st.sampled_from([30080, 30081]),
            "external_local": st.booleans(),
            "internal_local": st.booleans(),
            "affinity_seconds": st.sampled_from([0, 60]),
        },
    ),
)
STATES = st.builds(
    lambda services, network: compiled(*services, network=network),
    services=st.lists(SERVICES, max_size=3, unique_by=lambda one: one.name),
    network=st.sampled_from([BRIDGE, OVERLAY, dataclasses.replace(BRIDGE, id="net-2")]),
)


@given(before=STATES, after=STATES)
def test_a_plan_leads_to_what_is_wanted_and_then_there_is_nothing_to_do(before: HnsRules, after: HnsRules) -> None:
    reached = applied(before, plan(after, before), after.network_id)
    assert reached == after
    assert plan(after, reached) == ()
