# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is tried before and after a change, and how the bridge answers as the mode that is left does."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import UserError
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.probes import Target, targets, try_targets
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.takeover_table import takeover_config
from tests.unit.fakes import Answer, Call, FakeHost, Process
from tests.unit.rules import given

API = given.service("kubernetes", clusterIP="10.96.0.1", clusterIPs=["10.96.0.1"], ports=[{"port": 443}])
PORTS = [
    {"port": 53, "protocol": "UDP", "nodePort": 30053},
    {"port": 53, "protocol": "TCP"},
    {"port": 9, "protocol": "SCTP", "nodePort": 30009},
]
DNS = given.service("dns", "kube-system", clusterIP="fd00:96::a", clusterIPs=["fd00:96::a", "10.96.0.10"], ports=PORTS)


def node(*addresses: str) -> dict[str, Any]:
    found = given.node("n1")
    found["status"]["addresses"] = [{"type": "InternalIP", "address": one} for one in addresses]
    return found


def shown(*items: dict[str, Any], probe: str = "") -> list[str]:
    return [str(one) for one in targets(given.snapshot(*items), probe, "n1")]


def test_the_api_s_own_service_is_always_tried() -> None:
    assert shown(API, DNS, node("192.0.2.10")) == ["default/kubernetes at 10.96.0.1 port 443/TCP"]
    assert shown(DNS) == []


def test_a_service_that_is_named_is_tried_in_both_families_with_its_node_ports_and_never_by_sctp() -> None:
    assert shown(API, DNS, node("192.0.2.10", "192.0.2.11", "2001:db8::10"), probe="kube-system/dns")[1:] == [
        "kube-system/dns at fd00:96::a port 53/UDP",
        "kube-system/dns at 10.96.0.10 port 53/UDP",
        "kube-system/dns node port at 192.0.2.10 port 30053/UDP",
        "kube-system/dns node port at 2001:db8::10 port 30053/UDP",
        "kube-system/dns at fd00:96::a port 53/TCP",
        "kube-system/dns at 10.96.0.10 port 53/TCP",
    ]


def test_a_node_port_is_tried_only_at_addresses_of_this_node() -> None:
    other = given.node("n2")
    assert not [one for one in shown(DNS, other, probe="kube-system/dns") if "node port" in one]
    assert [one for one in shown(DNS, node("2001:db8::10"), probe="kube-system/dns") if "node port" in one] == [
        "kube-system/dns node port at 2001:db8::10 port 30053/UDP"
    ]


def test_the_api_s_own_service_is_tried_once_also_when_it_is_named() -> None:
    assert len(shown(API, probe="default/kubernetes")) == 1


@pytest.mark.parametrize(
    "spec", [{"clusterIP": "None", "clusterIPs": ["None"]}, {"clusterIP": None, "clusterIPs": None}]
)
def test_a_service_without_an_address_is_not_tried(spec: dict[str, Any]) -> None:
    assert shown(given.service("web", **spec), probe="default/web") == []


@pytest.mark.parametrize("name", ["kube-system/web", "default/dns", "/dns"])
def test_an_unknown_service_is_an_error(name: str) -> None:
    with pytest.raises(UserError) as caught:
        shown(API, DNS, probe=name)
    assert caught.value.id == "migrate-probe-service"
    assert name in str(caught.value)


UID = "0f1e2d3c-aaaa-4bbb-8ccc-0123456789ab"
TRIED = [Target("default/kubernetes", "10.96.0.1", 443, "TCP"), Target("default/web", "10.96.0.2", 80, "TCP")]


def machine(*answers: tuple[tuple[str, ...], Answer]) -> FakeHost:
    """Process 5 is of a pod in another network, 6 of another network that is no pod's."""
    host = FakeHost()
    given_in_network(host, 5, "net:[2]", f"/kubepods/pod{UID}/1")
    given_in_network(host, 6, "net:[3]", "/system.slice/kubepods.service")
    for words, answer in answers:
        host.on(*words, answer=answer, reads=True)
    return host


def given_in_network(host: FakeHost, pid: int, network: str, group: str) -> None:
    host.processes[pid] = Process(("nginx",), cgroups=(group,), own_network=False)
    host.given_directory(f"/proc/{pid}/ns")
    host.symlink(f"/proc/{pid}/ns/net", network)


def answered(own: str, *failures: str) -> Answer:
    return json.dumps({"own": own, "failures": list(failures)})


def in_pod(call: Call) -> Answer:
    refused = "Connection refused"
    return answered("10.1.0.5", *("" if row[0] == "10.96.0.2" else refused for row in json.loads(call.stdin)["rows"]))


PROGRAM = (sys.executable, "-I", "-c")
ENTERED = ("nsenter", "--net=/proc/5/ns/net", "--", *PROGRAM)
ROUTE = ("ip", "-j", "route", "get", "10.1.0.5")


def test_it_is_tried_from_the_node_and_from_a_pod_of_it() -> None:
    link = json.dumps([{"dst": "10.1.0.5", "dev": "veth1"}])
    host = machine((PROGRAM, answered("", "", "timed out")), (ENTERED, in_pod), (ROUTE, link))  # type: ignore[arg-type]
    assert {str(one): failure for one, failure in try_targets(host, TRIED).items()} == {
        "default/kubernetes at 10.96.0.1 port 443/TCP from the node": "",
        "default/kubernetes at 10.96.0.1 port 443/TCP from the pod": "Connection refused",
        "default/web at 10.96.0.2 port 80/TCP from the node": "timed out",
        "default/web at 10.96.0.2 port 80/TCP from the pod": "",
    }


def test_a_pod_is_entered_by_another_process_where_one_has_ended_meanwhile() -> None:
    link = json.dumps([{"dst": "10.1.0.5", "dev": "veth1"}])
    forked = ("nsenter", "--net=/proc/4/ns/net")  # for one request, as many servers do
    host = machine((PROGRAM, answered("", "", "")), (forked, 1), (ENTERED, in_pod), (ROUTE, link))  # type: ignore[arg-type]
    given_in_network(host, 4, "net:[2]", f"/kubepods/pod{UID}/1")
    assert {str(one): failure for one, failure in try_targets(host, TRIED).items() if one.origin == "pod"} == {
        "default/kubernetes at 10.96.0.1 port 443/TCP from the pod": "Connection refused",
        "default/web at 10.96.0.2 port 80/TCP from the pod": "",
    }


@pytest.mark.parametrize(
    "route",
    [json.dumps([{"gateway": "192.0.2.1"}]), json.dumps([{"type": "local"}]), "[]", "nonsense", 2],
    ids=["elsewhere", "own", "empty", "nonsense", "failed"],
)
def test_a_pod_that_is_not_of_this_node_is_none(route: Answer) -> None:
    host = machine((PROGRAM, answered("", "", "")), (ENTERED, in_pod), (ROUTE, route))  # type: ignore[arg-type]
    assert {one.origin for one in try_targets(host, TRIED)} == {"node"}


@pytest.mark.parametrize(
    "answer", ["", "[]", "{}", '{"own": "", "failures": [1, null]}', '{"own": "", "failures": 1}', 1]
)
def test_an_answer_that_is_none_has_reached_nothing(answer: Answer) -> None:
    assert set(try_targets(machine((PROGRAM, answer), (("nsenter",), 1)), TRIED).values()) == {"could not be tried"}


# The bridge

EVERYWHERE = ["0.0.0.0/0", "::/0"]


@pytest.mark.parametrize(
    ("config", "mode", "wanted"),
    [
        ({}, "iptables", {"nodePortAddresses": EVERYWHERE, "nftables": {}}),
        ({}, "ipvs", {"nodePortAddresses": EVERYWHERE, "nftables": {}}),
        ({}, "nftables", {"nftables": {}}),
        ({"nodePortAddresses": []}, "iptables", {"nodePortAddresses": EVERYWHERE, "nftables": {}}),
        ({"nodePortAddresses": ["primary"]}, "ipvs", {"nodePortAddresses": ["primary"], "nftables": {}}),
        ({"nodePortAddresses": ["10.0.0.0/8"]}, "nftables", {"nodePortAddresses": ["10.0.0.0/8"], "nftables": {}}),
    ],
    ids=str,
)
def test_node_ports_are_where_the_mode_that_is_left_has_them(
    config: dict[str, Any], mode: str, wanted: dict[str, Any]
) -> None:
    assert takeover_config(config, mode) == wanted


@pytest.mark.parametrize(("mode", "bit"), [("iptables", 10), ("ipvs", 10), ("nftables", 11)])
def test_masquerading_is_as_the_section_of_that_mode_says(mode: str, bit: int) -> None:
    config = {
        "iptables": {"masqueradeAll": True, "masqueradeBit": 10, "syncPeriod": "1s"},
        "ipvs": {"strictARP": True},
        "nftables": {"masqueradeAll": False, "masqueradeBit": 11, "minSyncPeriod": "1s"},
    }
    assert takeover_config(config, mode)["nftables"] == {"masqueradeAll": bit == 10, "masqueradeBit": bit}


@pytest.mark.parametrize("section", [None, "text", []])
def test_a_section_of_wrong_shape_is_none(section: object) -> None:
    assert takeover_config({"iptables": section}, "iptables")["nftables"] == {}


def test_local_traffic_is_told_apart_as_before_and_nothing_else_is_taken_over() -> None:
    local = {"clusterCIDR": "10.1.0.0/16", "detectLocalMode": "InterfaceNamePrefix"}
    local_more = {**local, "detectLocal": {"interfaceNamePrefix": "veth"}}
    config = {**local_more, "mode": "nftables", "bindAddress": "::", "clientConnection": {"kubeconfig": "/x"}}
    assert takeover_config(config, "nftables") == {**local_more, "nftables": {}}
