# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._rules.model import Endpoint, FamilyView, ServicePort
from ansible_collections.ballast.kube.plugins.module_utils._rules.parse import parse_snapshot
from tests.unit.rules.given import (
    NODE_IPS,
    Object,
    balancer,
    endpoint,
    endpoint_slice,
    node,
    parse,
    service,
    service_cidr,
    snapshot,
)

DUAL = {
    "clusterIP": "10.96.0.1",
    "clusterIPs": ["10.96.0.1", "fd00:96::1"],
    "ipFamilies": ["IPv4", "IPv6"],
}


def view(*items: Object, family: int = 4) -> FamilyView:
    return parse(*items).view(family)


def one(*items: Object, family: int = 4) -> ServicePort:
    (found,) = view(*items, family=family).services
    return found


def addresses(found: ServicePort) -> list[str]:
    return [endpoint.text for endpoint in found.endpoints]


def test_a_service_and_its_endpoints_are_joined_by_port_name() -> None:
    ports = [{"name": "metrics", "port": 9090}, {"name": "http", "port": 8080}]
    found = one(service(), endpoint_slice([endpoint("10.1.0.5"), endpoint("10.2.0.5", "n2")], ports=ports))
    assert found == ServicePort(
        "default",
        "web",
        "http",
        "TCP",
        80,
        "10.96.0.1",
        endpoints=(Endpoint("10.1.0.5", 8080, node="n1"), Endpoint("10.2.0.5", 8080, node="n2")),
    )


def test_the_same_port_name_of_another_protocol_is_another_port() -> None:
    slices = endpoint_slice([endpoint("10.1.0.5")], ports=[{"name": "http", "port": 8080, "protocol": "UDP"}])
    assert one(service(), slices).endpoints == ()


def test_a_port_without_a_name_is_joined_with_one() -> None:
    found = one(service(ports=[{"port": 80}]), endpoint_slice([endpoint("10.1.0.5")], ports=[{"port": 8080}]))
    assert (found.title, found.protocol, addresses(found)) == ("default/web", "TCP", ["10.1.0.5:8080"])


@pytest.mark.parametrize(
    "passed_over",
    [
        service(clusterIP="None", clusterIPs=["None"]),
        service(clusterIP="", clusterIPs=[]),
        service(clusterIP=None, clusterIPs=None),
        service(type="ExternalName", clusterIP="", clusterIPs=None, externalName="example.org"),
        service(type="ExternalName"),
        {
            **service(),
            "metadata": {**service()["metadata"], "labels": {"service.kubernetes.io/service-proxy-name": ""}},
        },
    ],
    ids=[
        "headless",
        "no cluster IP yet",
        "null cluster IP",
        "ExternalName",
        "ExternalName with an address",
        "another proxy",
    ],
)
def test_a_service_that_is_not_proxied_makes_no_rules(passed_over: Object) -> None:
    assert view(passed_over, endpoint_slice([endpoint("10.1.0.5")])).services == ()


@pytest.mark.parametrize(
    "passed_over",
    [
        endpoint_slice([{"addresses": ["web.example.org"]}], family="FQDN"),
        endpoint_slice([endpoint("10.1.0.5")], ports=[{"name": "http", "port": None}]),
        endpoint_slice([endpoint("10.1.0.5")], ports=[{"name": "http", "port": 0}]),
        endpoint_slice([endpoint("10.1.0.5")], ports=None),
        endpoint_slice([endpoint("10.1.0.5")], metadata={"name": "s", "namespace": "default"}),
        endpoint_slice(
            [endpoint("10.1.0.5")],
            metadata={
                "name": "s",
                "namespace": "default",
                "labels": {"kubernetes.io/service-name": "web", "service.kubernetes.io/headless": ""},
            },
        ),
        {**endpoint_slice([]), "endpoints": None},
    ],
    ids=["host names", "every port", "port 0", "no ports", "of no Service", "headless", "null endpoints"],
)
def test_a_slice_that_is_not_proxied_gives_no_endpoints(passed_over: Object) -> None:
    assert one(service(), passed_over).endpoints == ()


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        (None, (True, True, False)),
        ({}, (True, True, False)),
        ({"ready": None, "serving": None, "terminating": None}, (True, True, False)),
        ({"ready": False}, (False, True, False)),
        ({"ready": False, "serving": True, "terminating": True}, (False, True, True)),
        ({"ready": False, "serving": False}, (False, False, False)),
    ],
)
def test_a_condition_that_is_not_set_counts_as_ready(conditions: object, expected: tuple[bool, ...]) -> None:
    (found,) = one(service(), endpoint_slice([{"addresses": ["10.1.0.5"], "conditions": conditions}])).endpoints
    assert (found.ready, found.serving, found.terminating) == expected
    assert found.node == ""


def test_hints_are_sorted_and_each_is_given_once() -> None:
    hints = {"forZones": [{"name": "b"}, {"name": "a"}, {"name": "b"}], "forNodes": [{"name": "n2"}]}
    (found,) = one(service(), endpoint_slice([{**endpoint("10.1.0.5"), "hints": hints}])).endpoints
    assert (found.zone_hints, found.node_hints) == (("a", "b"), ("n2",))


def test_null_hints_are_none() -> None:
    hints = {"forZones": None, "forNodes": None}
    (found,) = one(service(), endpoint_slice([{**endpoint("10.1.0.5"), "hints": hints}])).endpoints
    assert (found.zone_hints, found.node_hints) == ((), ())


@pytest.mark.parametrize("turned", [False, True])
def test_of_an_endpoint_in_two_slices_the_one_that_does_not_terminate_wins(turned: bool) -> None:
    old = endpoint("10.1.0.5", "n1", ready=False, serving=True, terminating=True)
    new = endpoint("10.1.0.5", "n2", ready=False, serving=False)
    names = ("web-2", "web-1") if turned else ("web-1", "web-2")
    found = one(service(), endpoint_slice([old], name=names[0]), endpoint_slice([new], name=names[1]))
    assert found.endpoints == (Endpoint("10.1.0.5", 8080, ready=False, serving=False, node="n2"),)


@pytest.mark.parametrize("turned", [False, True])
def test_of_equal_endpoints_in_two_slices_that_of_the_first_name_wins(turned: bool) -> None:
    slices = [
        endpoint_slice([endpoint("10.1.0.5", "n1")], name="web-1"),
        endpoint_slice([endpoint("10.1.0.5", "n2")], name="web-2"),
    ]
    (found,) = one(service(), *(reversed(slices) if turned else slices)).endpoints
    assert found.node == "n1"


def test_slices_of_one_service_are_taken_together_and_sorted() -> None:
    found = one(
        service(),
        endpoint_slice([endpoint("10.1.0.7"), endpoint("10.1.0.5")], name="web-2"),
        endpoint_slice([endpoint("10.1.0.6")], name="web-1"),
    )
    assert addresses(found) == ["10.1.0.5:8080", "10.1.0.6:8080", "10.1.0.7:8080"]


def test_a_slice_of_the_same_name_in_another_namespace_is_of_another_service() -> None:
    other = endpoint_slice([endpoint("10.1.0.9")])
    other["metadata"]["namespace"] = "other"
    assert one(service(), other).endpoints == ()


def test_families_are_apart_from_each_other() -> None:
    dual = balancer(
        {"ip": "203.0.113.1"},
        {"ip": "2001:db8:ffff::1"},
        **DUAL,
        externalIPs=["198.51.100.1", "2001:db8:eeee::1"],
        loadBalancerSourceRanges=["192.0.2.0/24"],
    )
    slices = [
        endpoint_slice([endpoint("10.1.0.5")], name="web-4"),
        endpoint_slice([endpoint("fd00:1::5")], name="web-6", family="IPv6"),
    ]
    found = parse(dual, *slices, service_cidr("10.96.0.0/12", "fd00:96::/112"))
    four, six = found.view(4), found.view(6)
    (at_four,), (at_six,) = four.services, six.services
    assert (at_four.cluster_ip, at_six.cluster_ip) == ("10.96.0.1", "fd00:96::1")
    assert (at_four.external_ips, at_six.external_ips) == (("198.51.100.1",), ("2001:db8:eeee::1",))
    assert (at_four.load_balancer_ips, at_six.load_balancer_ips) == (("203.0.113.1",), ("2001:db8:ffff::1",))
    assert (at_four.source_ranges, at_six.source_ranges) == (("192.0.2.0/24",), ())
    assert (addresses(at_four), addresses(at_six)) == (["10.1.0.5:8080"], ["[fd00:1::5]:8080"])
    assert (four.service_cidrs, six.service_cidrs) == (("10.96.0.0/12",), ("fd00:96::/112",))


def test_a_service_of_one_family_is_not_in_the_view_of_the_other() -> None:
    assert view(service(), family=6).services == ()


def test_a_service_without_ip_families_goes_by_its_addresses() -> None:
    old = service(clusterIP="fd00:96::1", clusterIPs=None, ipFamilies=None)
    assert one(old, family=6).cluster_ip == "fd00:96::1"


@pytest.mark.parametrize(
    ("ingress", "expected"),
    [
        ({"ip": "203.0.113.1"}, ("203.0.113.1",)),
        ({"ip": "203.0.113.1", "ipMode": "VIP"}, ("203.0.113.1",)),
        ({"ip": "203.0.113.1", "ipMode": "Proxy"}, ()),
        ({"hostname": "lb.example.org"}, ()),
    ],
)
def test_only_a_load_balancer_of_mode_vip_has_rules(ingress: Object, expected: tuple[str, ...]) -> None:
    assert one(balancer(ingress)).load_balancer_ips == expected


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([" 10.0.0.0/8 ", "192.0.2.1/24"], ("10.0.0.0/8", "192.0.2.0/24")),
        (["010.0.0.0/8"], ("10.0.0.0/8",)),
        (["::ffff:10.1.0.0/112"], ("10.1.0.0/16",)),
        (["10.0.0.0/8", "0.0.0.0/0"], ()),
        (["fd00::/8"], ()),
        (None, ()),
    ],
)
def test_source_ranges_are_normalised(ranges: object, expected: tuple[str, ...]) -> None:
    assert one(balancer({"ip": "203.0.113.1"}, loadBalancerSourceRanges=ranges)).source_ranges == expected


@pytest.mark.parametrize(
    ("written", "family", "read"),
    [
        ("010.096.000.001", 4, "10.96.0.1"),
        ("::ffff:10.96.0.1", 4, "10.96.0.1"),
        ("::FFFF:010.96.0.1", 4, "10.96.0.1"),
        ("FD00:96:0:0::1", 6, "fd00:96::1"),
        ("::1.2.3.4", 6, "::102:304"),
        ("00fd:00096:0000:00000::01", 6, "fd:96::1"),
    ],
)
def test_addresses_are_read_as_the_api_server_reads_them(written: str, family: int, read: str) -> None:
    found = one(service(clusterIP=written, clusterIPs=[written], ipFamilies=[f"IPv{family}"]), family=family)
    assert found.cluster_ip == read


def test_an_endpoint_is_known_again_in_another_form() -> None:
    found = one(service(), endpoint_slice([endpoint("10.1.0.5"), endpoint("10.1.0.005")]))
    assert addresses(found) == ["10.1.0.5:8080"]


def test_external_ips_are_sorted_and_blank_ones_are_passed_over() -> None:
    found = one(service(externalIPs=["198.51.100.2", "", " ", "198.51.100.1", "198.51.100.2"]))
    assert found.external_ips == ("198.51.100.1", "198.51.100.2")


@pytest.mark.parametrize(
    ("affinity", "config", "expected"),
    [
        ("None", None, 0),
        (None, None, 0),
        ("ClientIP", {"clientIP": {"timeoutSeconds": 60}}, 60),
        ("ClientIP", {"clientIP": {"timeoutSeconds": 86400}}, 86400),
        ("ClientIP", {"clientIP": {}}, 10800),
        ("ClientIP", None, 10800),
    ],
)
def test_affinity_has_a_time(affinity: object, config: object, expected: int) -> None:
    assert one(service(sessionAffinity=affinity, sessionAffinityConfig=config)).affinity_seconds == expected


def test_policies_and_ports_of_a_load_balancer() -> None:
    found = one(
        balancer(
            {"ip": "203.0.113.1"},
            externalTrafficPolicy="Local",
            internalTrafficPolicy="Local",
            healthCheckNodePort=31000,
            ports=[{"name": "http", "port": 80, "nodePort": 80}],
        )
    )
    assert (found.internal_local, found.external_local) == (True, True)
    assert (found.health_check_node_port, found.node_port) == (31000, 80)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"type": "ClusterIP"}, False),
        ({"type": "ClusterIP", "externalIPs": ["198.51.100.1"]}, True),
        ({"type": "NodePort"}, True),
        ({"type": "LoadBalancer"}, True),
    ],
)
def test_the_external_policy_has_a_meaning_only_where_somebody_outside_can_come(spec: Object, expected: bool) -> None:
    assert one(service(**spec, externalTrafficPolicy="Local")).external_local is expected


def test_the_annotation_of_windows_nodes_is_read() -> None:
    annotated = service()
    annotated["metadata"]["annotations"] = {"preserve-destination": "true"}
    assert one(annotated).preserve_destination
    assert not one(service()).preserve_destination


def test_services_are_in_order() -> None:
    ports = [{"name": name, "port": port, "protocol": of} for name, port, of in (("b", 1, "UDP"), ("a", 2, "UDP"))]
    ports.append({"name": "c", "port": 3, "protocol": "SCTP"})
    found = view(
        service("web", clusterIP="10.96.0.2", clusterIPs=["10.96.0.2"]),
        service("dns", ports=ports),
        service("zone", "alpha", clusterIP="10.96.0.3", clusterIPs=["10.96.0.3"]),
    )
    titles = ["alpha/zone:http", "default/dns:c", "default/dns:a", "default/dns:b", "default/web:http"]
    assert [service.title for service in found.services] == titles


def test_this_node_is_known_in_each_family() -> None:
    found = parse_snapshot(
        snapshot(node("n0"), node("n1", **{"topology.kubernetes.io/zone": "a"})), node_name="n1", node_ips=NODE_IPS
    )
    four, six = found.view(4).node, found.view(6).node
    assert (four.name, four.zone, four.primary, four.pod_cidr) == ("n1", "a", "192.0.2.10", "10.1.0.0/24")
    assert four.addresses == ("10.9.0.1", "192.0.2.10")
    assert (six.primary, six.addresses, six.pod_cidr) == ("2001:db8::10", ("2001:db8::10",), "fd00:1::/64")


def test_the_primary_address_counts_also_where_no_link_has_it() -> None:
    found = parse_snapshot(snapshot(node()), node_name="n1", node_ips=["10.9.0.1"])
    assert found.view(4).node.addresses == ("10.9.0.1", "192.0.2.10")


def test_without_any_node_the_first_address_of_a_family_is_the_primary_one() -> None:
    found = parse_snapshot(snapshot(service()), node_name="n1", node_ips=["::1", "192.0.2.9", "192.0.2.8"])
    assert (found.view(4).node.primary, found.view(6).node.primary) == ("192.0.2.9", "")


@pytest.mark.parametrize(
    "data",
    [
        {"apiVersion": "v1", "kind": "List", "items": None},
        {"apiVersion": "v1", "kind": "List"},
        {"apiVersion": "v1", "kind": "ServiceList", "metadata": {}, "items": []},
    ],
)
def test_an_empty_list_is_an_empty_view(data: Object) -> None:
    assert parse_snapshot(data, node_name="n1", node_ips=[]).view(4).services == ()


def test_objects_of_a_typed_list_do_not_say_their_kind() -> None:
    bare = {key: value for key, value in service().items() if key not in ("apiVersion", "kind")}
    data = {"apiVersion": "v1", "kind": "ServiceList", "metadata": {}, "items": [bare]}
    assert len(parse_snapshot(data, node_name="n1", node_ips=[]).view(4).services) == 1


def test_services_without_any_slice_are_a_snapshot_that_lacks_them() -> None:
    """Each API server writes a slice for itself. Rules of such a snapshot would reject every Service."""
    (warning,) = parse(service()).warnings
    assert warning.id == "rules-snapshot-no-slices"
    assert "kubectl get services,endpointslices,nodes" in warning.remedy
    assert parse(service(), endpoint_slice([])).warnings == ()
    assert parse().warnings == ()
