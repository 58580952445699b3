# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._rules.frontends import assign_frontends
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import (
    CLUSTER_IP,
    EXTERNAL_IP,
    LOAD_BALANCER,
    NODE_PORT,
    Duplicate,
    FamilyView,
    Frontend,
    ServicePort,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.parse import parse_snapshot
from tests.unit.rules.given import balancer, service, snapshot


def port(name: str, cluster_ip: str = "10.96.0.1", **fields: Any) -> ServicePort:
    return ServicePort(
        namespace="default",
        name=name,
        port_name="http",
        protocol=fields.pop("protocol", "TCP"),
        port=fields.pop("port", 80),
        cluster_ip=cluster_ip,
        **fields,
    )


def resolved(*services: ServicePort, **created: float) -> tuple[tuple[Frontend, ...], tuple[Duplicate, ...]]:
    return assign_frontends(services, lambda one: created.get(one.name, 0.0))


def owners(found: tuple[Frontend, ...]) -> list[tuple[str, str, str, int, str]]:
    return [(one.kind, one.address, one.protocol, one.port, one.service.name) for one in found]


def test_everything_that_leads_to_a_service_is_in_order() -> None:
    web = port("web", node_port=30080, external_ips=("198.51.100.1",), load_balancer_ips=("203.0.113.1", "203.0.113.2"))
    found, duplicates = resolved(web, port("dns", "10.96.0.10", port=53, protocol="UDP"))
    assert owners(found) == [
        (CLUSTER_IP, "10.96.0.1", "TCP", 80, "web"),
        (CLUSTER_IP, "10.96.0.10", "UDP", 53, "dns"),
        (EXTERNAL_IP, "198.51.100.1", "TCP", 80, "web"),
        (LOAD_BALANCER, "203.0.113.1", "TCP", 80, "web"),
        (LOAD_BALANCER, "203.0.113.2", "TCP", 80, "web"),
        (NODE_PORT, "", "TCP", 30080, "web"),
    ]
    assert duplicates == ()


@pytest.mark.parametrize(
    ("created", "winner", "loser"),
    [({"a": 2.0, "b": 1.0}, "b", "a"), ({"a": 1.0, "b": 2.0}, "a", "b"), ({}, "a", "b")],
    ids=["b is older", "a is older", "of equal age"],
)
def test_an_address_belongs_to_the_older_service(created: dict[str, float], winner: str, loser: str) -> None:
    shared = ("198.51.100.1",)
    services = [port("b", "10.96.0.2", external_ips=shared), port("a", "10.96.0.1", load_balancer_ips=shared)]
    found, duplicates = resolved(*services, **created)
    assert [one.service.name for one in found if one.address in shared] == [winner]
    assert duplicates == (Duplicate("198.51.100.1:80/TCP", f"default/{winner}:http", f"default/{loser}:http"),)


def test_a_destination_of_ipv6_is_told_in_brackets() -> None:
    _found, duplicates = resolved(port("a", "fd00:96::1"), port("b", "fd00:96::1"))
    assert [one.destination for one in duplicates] == ["[fd00:96::1]:80/TCP"]


def test_each_loser_is_told() -> None:
    _found, duplicates = resolved(port("c"), port("b"), port("a"))
    assert [(one.winner, one.loser) for one in duplicates] == [
        ("default/a:http", "default/b:http"),
        ("default/a:http", "default/c:http"),
    ]


@pytest.mark.parametrize("other", [{"protocol": "UDP"}, {"port": 81}])
def test_another_protocol_or_port_is_another_destination(other: dict[str, Any]) -> None:
    found, duplicates = resolved(port("a"), port("b", **other))
    assert (len(found), duplicates) == (2, ())


def test_two_services_with_one_node_port() -> None:
    found, duplicates = resolved(port("a", "10.96.0.1", node_port=30080), port("b", "10.96.0.2", node_port=30080), a=1)
    assert [one.service.name for one in found if one.kind == NODE_PORT] == ["b"]
    assert duplicates == (Duplicate("node port 30080/TCP", "default/b:http", "default/a:http"),)


@pytest.mark.parametrize(("created", "served"), [({"a": 1.0}, ["b"]), ({"b": 1.0}, [])])
def test_a_health_check_node_port_takes_the_port(created: dict[str, float], served: list[str]) -> None:
    checked = port("a", "10.96.0.1", health_check_node_port=30080)
    found, duplicates = resolved(checked, port("b", "10.96.0.2", node_port=30080), **created)
    assert [one.service.name for one in found if one.kind == NODE_PORT] == served
    assert [one.destination for one in duplicates] == ["node port 30080/TCP"]


def test_a_health_check_node_port_leaves_udp_alone() -> None:
    checked = port("a", "10.96.0.1", health_check_node_port=30080)
    _found, duplicates = resolved(checked, port("b", "10.96.0.2", node_port=30080, protocol="UDP"))
    assert duplicates == ()


def test_a_health_check_of_a_udp_service_takes_the_tcp_port() -> None:
    checked = port("a", "10.96.0.1", protocol="UDP", health_check_node_port=30080)
    _found, duplicates = resolved(checked, port("b", "10.96.0.2", node_port=30080))
    assert [one.destination for one in duplicates] == ["node port 30080/TCP"]


def test_ports_of_one_service_share_its_health_check_node_port() -> None:
    ports = [port("a", port=number, health_check_node_port=31000) for number in (80, 81)]
    assert resolved(*ports)[1] == ()


def test_an_address_that_a_service_has_twice_is_a_load_balancers() -> None:
    found, duplicates = resolved(port("a", external_ips=("203.0.113.1",), load_balancer_ips=("203.0.113.1",)))
    assert owners(found)[1:] == [(LOAD_BALANCER, "203.0.113.1", "TCP", 80, "a")]
    assert duplicates == ()


def test_an_external_ip_that_is_also_the_cluster_ip_stays_a_cluster_ip() -> None:
    found, _duplicates = resolved(port("a", external_ips=("10.96.0.1",)))
    assert [one.kind for one in found] == [CLUSTER_IP]


def test_the_age_comes_from_the_creation_timestamp() -> None:
    services = [
        service("a", clusterIP="10.96.0.2", clusterIPs=["10.96.0.2"], externalIPs=["198.51.100.1"]),
        service("b", clusterIP="10.96.0.3", clusterIPs=["10.96.0.3"], externalIPs=["198.51.100.1"]),
        balancer({"ip": "198.51.100.1"}),
    ]
    for one, created in zip(services, ("2026-01-01T02:00:00Z", "2026-01-01T02:30:00+01:00", None)):
        one["metadata"]["creationTimestamp"] = created
    view: FamilyView = parse_snapshot(snapshot(*services), node_name="n1", node_ips=[]).view(4)
    assert [one.service.name for one in view.frontends if one.address == "198.51.100.1"] == ["b"]
    assert [one.loser for one in view.duplicates] == ["default/a:http", "default/web:http"]


NAMES = st.sampled_from("abcd")
PORTS = st.builds(
    port,
    name=NAMES,
    cluster_ip=st.sampled_from(["10.96.0.1", "10.96.0.2"]),
    port=st.sampled_from([80, 81]),
    protocol=st.sampled_from(["TCP", "UDP"]),
    node_port=st.sampled_from([0, 30080, 30081]),
    external_ips=st.sampled_from([(), ("10.96.0.1",), ("198.51.100.1",)]),
    load_balancer_ips=st.sampled_from([(), ("198.51.100.1",)]),
    health_check_node_port=st.sampled_from([0, 30080]),
)


@given(services=st.lists(PORTS, max_size=6, unique_by=lambda one: (one.name, one.protocol, one.port)), data=st.data())
def test_no_destination_has_two_owners_whatever_the_order(services: list[ServicePort], data: st.DataObject) -> None:
    created = {name: data.draw(st.sampled_from([1.0, 2.0])) for name in "abcd"}
    found, duplicates = resolved(*services, **created)
    assert len({one.key for one in found}) == len(found)
    turned = data.draw(st.permutations(services))
    by_name: dict[str, list[ServicePort]] = {}
    for one in turned:
        by_name.setdefault(one.name, []).append(one)
    if all(len(ports) == 1 for ports in by_name.values()):
        assert resolved(*turned, **created) == (found, duplicates)
    for duplicate in duplicates:
        winner, loser = duplicate.winner[8:9], duplicate.loser[8:9]
        assert (created[winner], winner) < (created[loser], loser)
