# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems, UserError
from ansible_collections.ballast.kube.plugins.module_utils._rules.parse import parse_snapshot, parse_snapshot_text
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


def faults(*items: Any) -> list[tuple[str, str]]:
    """Id and text of each problem of a snapshot with `items`."""
    with pytest.raises(UserError) as caught:
        parse(*items)
    problems = caught.value.problems if isinstance(caught.value, Problems) else (caught.value,)
    assert not any("\n" in problem.text for problem in problems)
    return [(problem.id, problem.text) for problem in problems]


def test_one_page_of_several_is_refused() -> None:
    data = {**snapshot(), "metadata": {"continue": "token"}}
    with pytest.raises(UserError) as caught:
        parse_snapshot(data, node_name="n1", node_ips=[])
    assert caught.value.id == "rules-snapshot-page"


@pytest.mark.parametrize("data", [None, [], "v1", 3, {}, {"kind": "Service"}, {"kind": "PodList"}, {"kind": ["List"]}])
def test_what_is_no_list_of_these_kinds_is_refused(data: object) -> None:
    with pytest.raises(BallastError) as caught:
        parse_snapshot(data, node_name="n1", node_ips=[])
    found = caught.value.problems if isinstance(caught.value, Problems) else [caught.value]
    assert "rules-snapshot-kind" in [problem.id for problem in found]


@pytest.mark.parametrize(
    ("item", "shown"),
    [
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}, '"Pod" of "v1", "p",'),
        (
            {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"name": "k"}},
            '"Service" of "serving',
        ),
        ({"apiVersion": "discovery.k8s.io/v1beta1", "kind": "EndpointSlice"}, '"EndpointSlice" of "discovery'),
        ({"kind": 3}, "3 of"),
        ({}, '"" of null, null,'),
    ],
)
def test_an_object_of_another_kind_is_refused_by_name(item: Object, shown: str) -> None:
    ((id, text),) = faults(item)
    assert id == "rules-snapshot-kind"
    assert text.startswith(f"snapshot: items[1]: {shown}")


FIELD, CONTRADICTION, TWICE = "rules-object-field", "rules-object-contradiction", "rules-object-twice"


@pytest.mark.parametrize(
    ("item", "id", "path"),
    [
        (service(ports=[{"port": 70000}]), FIELD, "Service default/web: spec.ports[0].port: 70000 is not"),
        (service(ports=[{"port": 0}]), FIELD, "Service default/web: spec.ports[0].port: 0 "),
        (service(ports=[{}]), FIELD, "Service default/web: spec.ports[0].port: null "),
        (service(ports=[{"port": True}]), FIELD, "Service default/web: spec.ports[0].port: true "),
        (service(ports=[{"port": 80.0}]), FIELD, "Service default/web: spec.ports[0].port: 80.0 "),
        (service(ports=[{"port": "80"}]), FIELD, 'Service default/web: spec.ports[0].port: "80" '),
        (
            service(ports=[{"port": 80, "protocol": "tcp"}]),
            FIELD,
            'Service default/web: spec.ports[0].protocol: "tcp" ',
        ),
        (service(ports=[{"port": 80, "name": "a b"}]), FIELD, 'Service default/web: spec.ports[0].name: "a b" '),
        (service(ports={"port": 80}), FIELD, "Service default/web: spec.ports: an object is not a list"),
        (service(ports=[80]), FIELD, "Service default/web: spec.ports[0]: 80 is not an object"),
        (service(type="Clusterip"), FIELD, 'Service default/web: spec.type: "Clusterip" '),
        (service(internalTrafficPolicy="local"), FIELD, 'Service default/web: spec.internalTrafficPolicy: "local" '),
        (service(externalTrafficPolicy=1), FIELD, "Service default/web: spec.externalTrafficPolicy: 1 "),
        (service(sessionAffinity="client"), FIELD, 'Service default/web: spec.sessionAffinity: "client" '),
        (
            service(sessionAffinity="ClientIP", sessionAffinityConfig={"clientIP": {"timeoutSeconds": 86401}}),
            FIELD,
            "Service default/web: spec.sessionAffinityConfig.clientIP.timeoutSeconds: 86401 ",
        ),
        (service(externalIPs=["10.0.0.256"]), FIELD, 'Service default/web: spec.externalIPs[0]: "10.0.0.256" '),
        (service(externalIPs=["127.0.0.1"]), FIELD, 'Service default/web: spec.externalIPs[0]: "127.0.0.1" '),
        (service(clusterIP="web", clusterIPs=["web"]), FIELD, 'Service default/web: spec.clusterIPs[0]: "web" '),
        (
            service(clusterIP="10.96.0.9"),
            CONTRADICTION,
            'Service default/web: spec.clusterIPs[0]: "10.96.0.1" is not possible: clusterIP has a different value',
        ),
        (
            service(ipFamilies=["IPv6"]),
            CONTRADICTION,
            'Service default/web: spec.clusterIPs[0]: "10.96.0.1" is not possible: ipFamilies says IPv6',
        ),
        (service(ipFamilies=["IPv5"]), FIELD, 'Service default/web: spec.ipFamilies[0]: "IPv5" '),
        (
            service(clusterIPs=["10.96.0.1", "10.96.0.2"]),
            CONTRADICTION,
            'Service default/web: spec.clusterIPs[1]: "10.96.0.2" is not possible: there is another of its family',
        ),
        (
            service(ports=[{"port": 80, "nodePort": 30080}]),
            CONTRADICTION,
            "Service default/web: spec.ports[0].nodePort: 30080 is not possible: the Service is of type ClusterIP",
        ),
        (
            service(ports=[{"name": "a", "port": 80}, {"name": "a", "port": 81}]),
            CONTRADICTION,
            'Service default/web: spec.ports[1].name: "a" is not possible',
        ),
        (
            service(ports=[{"name": "a", "port": 80}, {"name": "b", "port": 80}]),
            CONTRADICTION,
            "Service default/web: spec.ports[1].port: 80 is not possible",
        ),
        (
            service(
                type="NodePort", ports=[{"name": n, "port": p, "nodePort": 30080} for n, p in (("a", 1), ("b", 2))]
            ),
            CONTRADICTION,
            "Service default/web: spec.ports[1].nodePort: 30080 is not possible",
        ),
        (
            service(loadBalancerSourceRanges=["10.0.0.0/8"]),
            CONTRADICTION,
            "Service default/web: spec.loadBalancerSourceRanges: a list of 1 is not possible: the Service is of type ClusterIP",
        ),
        (
            balancer(loadBalancerSourceRanges=["10.0.0.0/33"]),
            FIELD,
            'Service default/web: spec.loadBalancerSourceRanges[0]: "10.0.0.0/33" ',
        ),
        (
            balancer(loadBalancerSourceRanges=["fd00::%eth0/64"]),
            FIELD,
            'Service default/web: spec.loadBalancerSourceRanges[0]: "fd00::%eth0/64" ',
        ),
        (balancer({"ip": "lb"}), FIELD, 'Service default/web: status.loadBalancer.ingress[0].ip: "lb" '),
        (
            balancer({"ip": "203.0.113.1", "ipMode": "DSR"}),
            FIELD,
            'Service default/web: status.loadBalancer.ingress[0].ipMode: "DSR" ',
        ),
        (
            service(healthCheckNodePort=31000),
            CONTRADICTION,
            "Service default/web: spec.healthCheckNodePort: 31000 is not possible",
        ),
        (
            {**service(), "metadata": {"name": "web", "namespace": "default", "creationTimestamp": "yesterday"}},
            FIELD,
            'Service default/web: metadata.creationTimestamp: "yesterday" ',
        ),
        (
            {**service(), "metadata": {"name": "Web!", "namespace": "x"}},
            FIELD,
            'snapshot: items[1]: metadata.name: "Web!" ',
        ),
        (
            {
                **service(),
                "metadata": {"name": "web", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00"},
            },
            FIELD,
            'Service default/web: metadata.creationTimestamp: "2026-01-01T00:00:00" ',
        ),
        ({**service(), "metadata": {"name": "web"}}, FIELD, "snapshot: items[1]: metadata.namespace: null "),
        ({**service(), "metadata": None}, FIELD, "snapshot: items[1]: metadata.name: null "),
        (node("n1"), TWICE, "Node n1: another object has that name"),
        (endpoint_slice([endpoint("127.0.0.1")]), FIELD, "EndpointSlice default/web-1: endpoints[0].addresses[0]: "),
        (
            endpoint_slice([{"addresses": []}]),
            FIELD,
            "EndpointSlice default/web-1: endpoints[0].addresses: a list of 0 ",
        ),
        (
            endpoint_slice([endpoint("fd00::1")]),
            CONTRADICTION,
            'EndpointSlice default/web-1: endpoints[0].addresses[0]: "fd00::1" is not possible: addressType is IPv4',
        ),
        (
            endpoint_slice([{"addresses": ["10.1.0.5"], "conditions": {"ready": "yes"}}]),
            FIELD,
            'EndpointSlice default/web-1: endpoints[0].conditions.ready: "yes" is not true or false',
        ),
        (
            endpoint_slice([endpoint("10.1.0.5", "no de")]),
            FIELD,
            'EndpointSlice default/web-1: endpoints[0].nodeName: "no de" ',
        ),
        (
            endpoint_slice([{"addresses": ["10.1.0.5"], "hints": {"forZones": [{"name": "a;b"}]}}]),
            FIELD,
            'EndpointSlice default/web-1: endpoints[0].hints.forZones[0].name: "a;b" ',
        ),
        (
            endpoint_slice([], ports=[{"name": "http", "port": 65536}]),
            FIELD,
            "EndpointSlice default/web-1: ports[0].port: 65536 ",
        ),
        (
            endpoint_slice([], ports=[{"port": 1}, {"port": 2}]),
            CONTRADICTION,
            'EndpointSlice default/web-1: ports[1].name: "" is not possible',
        ),
        (endpoint_slice([], family="IPX"), FIELD, 'EndpointSlice default/web-1: addressType: "IPX" '),
        (service_cidr("10.96.0.0"), FIELD, 'ServiceCIDR kubernetes: spec.cidrs[0]: "10.96.0.0" '),
    ],
)
def test_a_fault_is_refused_by_name(item: Object, id: str, path: str) -> None:
    ((found, text),) = faults(item)
    assert found == id
    assert text.startswith(path)


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "127.0.0.1",
        "169.254.1.1",
        "224.0.0.1",
        "::",
        "::1",
        "fe80::1",
        "febf::1",
        "ff02::1",
        "::ffff:127.0.0.1",
    ],
)
def test_an_external_ip_that_is_the_machines_alone_is_refused(address: str) -> None:
    ((id, _text),) = faults(service(externalIPs=[address]))
    assert id == FIELD


@pytest.mark.parametrize("address", ["0.0.0.1", "128.0.0.1", "169.253.1.1", "224.0.1.1", "::2", "fec0::1", "ff05::1"])
def test_an_external_ip_beside_those_is_taken(address: str) -> None:
    parse(service(externalIPs=[address]))


def test_a_health_check_port_that_is_also_a_node_port_is_refused() -> None:
    both = balancer(externalTrafficPolicy="Local", healthCheckNodePort=30080, ports=[{"port": 80, "nodePort": 30080}])
    ((id, text),) = faults(both)
    assert (id, text.split(" is not possible")[0]) == (
        CONTRADICTION,
        "Service default/web: spec.healthCheckNodePort: 30080",
    )


def test_every_fault_is_reported_at_once() -> None:
    wrong = service(ports=[{"port": 70000}], sessionAffinity="client")
    assert len(faults(wrong, endpoint_slice([endpoint("nowhere")]), 7)) == 4


def test_a_terminal_is_not_sent_what_a_name_holds() -> None:
    ((_id, text),) = faults(service(sessionAffinity="\x1b[2J\ud800" + "x" * 1000))
    assert text.isprintable()
    assert len(text) < 500


def test_a_node_that_is_not_there_is_refused() -> None:
    with pytest.raises(UserError) as caught:
        parse_snapshot(snapshot(node("n2"), node("n1")), node_name="n3", node_ips=[])
    assert (caught.value.id, caught.value.remedy) == ("rules-node-missing", "use one of them: n1, n2")


@pytest.mark.parametrize("address", ["eth0", "fe80::1%eth0", 7])
def test_an_address_of_the_node_that_is_none_is_refused(address: Any) -> None:
    with pytest.raises(UserError) as caught:
        parse_snapshot(snapshot(node()), node_name="n1", node_ips=["192.0.2.10", address])
    assert caught.value.id == "rules-node-option"
    assert caught.value.text.startswith("node_ips[1]: ")


def test_text_is_read_as_json() -> None:
    found = parse_snapshot_text(json.dumps(snapshot(node(), service())), node_name="n1", node_ips=NODE_IPS)
    assert found == parse(service())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"kind": "List",\n "items": [}', "line 2, column 12: "),
        ("", "line 1, column 1: "),
        ("kind: List", "line 1, column 1: "),
        ('{"items": NaN}', "NaN, "),
        ("[" * 200000, "lists nested"),
    ],
)
def test_text_that_is_no_json_is_refused_with_its_place(text: str, reason: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_snapshot_text(text, node_name="n1", node_ips=[])
    assert caught.value.id == "rules-snapshot-json"
    assert caught.value.text.startswith(f"snapshot is not valid JSON: {reason}")


def test_a_number_without_end_is_refused() -> None:
    with pytest.raises(UserError) as caught:  # Python 3.9 to 3.11 may read it, by their patch release
        parse_snapshot_text('{"kind": ' + "1" * 5000 + "}", node_name="n1", node_ips=[])
    assert len(str(caught.value)) < 2000
