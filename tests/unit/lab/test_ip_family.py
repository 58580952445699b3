# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Labs of IPv6, and of both IP families."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._lab.addons import dns, load_balancer
from ansible_collections.ballast.kube.plugins.module_utils._lab.parts import parts
from tests.unit.fakes import FakeHost
from tests.unit.lab import given as g

DUAL, IPV6 = {"ip_family": "dual"}, {"ip_family": "ipv6"}
_KEYS = ("node_cidr", "gateway", "pod_cidr", "service_cidr")


def rows(lab: dict[str, Any]) -> list[tuple[str, str]]:
    return [(node["address"], node["pod_cidr"]) for node in lab["nodes"]]


def test_a_lab_of_both_families_has_two_of_everything() -> None:
    lab = g.lab(nodes=2, topology=DUAL)
    assert {key: lab[key] for key in _KEYS} == {
        "node_cidr": "10.97.0.0/24,fdba:11a5::/64",
        "gateway": "10.97.0.1/24,fdba:11a5::1/64",
        "pod_cidr": "10.128.0.0/16,fdba:11a5:0:100::/56",
        "service_cidr": "10.96.0.0/16,fdba:11a5:ffff::/112",
    }
    assert rows(lab) == [
        ("10.97.0.11,fdba:11a5::b", "10.128.1.0/24,fdba:11a5:0:101::/64"),
        ("10.97.0.12,fdba:11a5::c", "10.128.2.0/24,fdba:11a5:0:102::/64"),
    ]
    assert (lab["control_plane"]["address"], parts(lab)["api_server"]) == ("10.97.0.1", "https://10.97.0.1:6443")


def test_a_lab_of_ipv6_has_no_other_address() -> None:
    lab = g.lab(nodes=1, ip_family="ipv6")
    assert [lab[key] for key in _KEYS] == [
        "fdba:11a5::/64",
        "fdba:11a5::1/64",
        "fdba:11a5:0:100::/56",
        "fdba:11a5:ffff::/112",
    ]
    assert rows(lab) == [("fdba:11a5::b", "fdba:11a5:0:101::/64")]
    assert parts(lab)["api_server"] == "https://[fdba:11a5::1]:6443"


def test_parts_of_the_lab_have_both_families() -> None:
    made = parts(g.lab(nodes=1, topology={**DUAL, "publish": ["80:30080"], "addons": ["dns"]}))
    networks = ["10.97.0.0/24", "fdba:11a5::/64", "10.128.0.0/16", "fdba:11a5:0:100::/56"]
    assert made["hosts"]["localhost"]["masqueraded"] == networks
    assert {*networks, "10.96.0.0/16", "fdba:11a5:ffff::/112"} <= {*made["no_proxy"]}
    assert made["credentials"] == [{"name": "n1", "addresses": ["10.97.0.11", "fdba:11a5::b"]}]
    assert [row["address"] for row in made["publish"]] == ["10.97.0.11", "fdba:11a5::b"]
    assert made["cluster_dns"] == ["10.96.0.10", "fdba:11a5:ffff::a"]


def test_the_first_networks_that_are_free_in_both_families_are_taken() -> None:
    lab = g.lab(facts=g.facts("10.97.0.0/24", "fdba:11a5:1::/48"), topology=DUAL)
    assert lab["node_cidr"] == "10.97.2.0/24,fdba:11a5:2::/64"
    assert lab["pod_cidr"] == "10.130.0.0/16,fdba:11a5:2:100::/56"
    assert g.lab(facts=g.facts("fdba:11a5::/42"))["node_cidr"] == "10.97.0.0/24", "IPv4 alone asks for no other"
    refused = g.errors_of(lambda: g.lab(facts=g.facts("fdba:11a5::/42"), topology=IPV6))
    assert [id for id, _text in refused] == ["lab-no-free-network"]


def test_a_network_of_one_family_leaves_the_other_to_the_lab() -> None:
    topology = {
        **DUAL,
        "node_cidr": "fd00:9::/64",
        "pod_cidr": "fd00:8::/48, 10.9.0.0/16",
        "service_cidr": "10.5.0.0/16",
    }
    lab = g.lab(nodes=1, topology=topology)
    assert lab["node_cidr"] == "10.97.0.0/24,fd00:9::/64"
    assert lab["service_cidr"] == "10.5.0.0/16,fdba:11a5:ffff::/112"
    assert rows(lab) == [("10.97.0.11,fd00:9::b", "10.9.1.0/24,fd00:8:0:1::/64")]
    own = {**topology, "nodes": [{"name": "n1", "pod_cidr": "fd00:7::/64"}]}
    assert rows(g.lab(topology=own)) == [("10.97.0.11,fd00:9::b", "10.9.1.0/24,fd00:7::/64")]


def test_a_node_keeps_its_addresses_and_a_new_one_gets_what_is_free() -> None:
    before = g.lab(nodes=3, topology=DUAL)
    before["nodes"] = [before["nodes"][0], before["nodes"][2]]
    names = [{"name": "n1"}, {"name": "n3"}, {"name": "n4"}]
    after = g.lab(before, topology={**DUAL, "nodes": names})
    assert rows(after)[:2] == rows(before)
    assert rows(after)[2] == ("10.97.0.12,fdba:11a5::c", "10.128.2.0/24,fdba:11a5:0:102::/64")


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"topology": {"ip_family": "both"}}, [("lab-value", "ip_family")]),
        ({"topology": DUAL, "target": "vm"}, [("lab-value", "ip_family")]),
        ({"ip_family": "ipv6", "target": "vm", "bootstrap": "kubeadm"}, [("lab-value", "ip_family")]),
        ({"topology": {"pod_cidr": "fd00::/56"}}, [("lab-value", "pod_cidr")]),
        ({"topology": {**IPV6, "pod_cidr": "10.9.0.0/16"}}, [("lab-value", "pod_cidr")]),
        ({"topology": {**DUAL, "pod_cidr": "fd00::/57"}}, [("lab-value", "pod_cidr")]),
        ({"topology": {**DUAL, "pod_cidr": "10.9.0.0/16,10.8.0.0/16"}}, [("lab-value", "pod_cidr")]),
        ({"topology": {**DUAL, "node_cidr": "fd00::/113"}}, [("lab-value", "node_cidr")]),
        ({"topology": {**DUAL, "service_cidr": "fd00::/64"}}, [("lab-value", "service_cidr")]),
        ({"topology": {**DUAL, "addons": ["registry"]}}, []),
        ({"topology": {**IPV6, "addons": ["registry"]}}, [("lab-value", "addons")]),
        ({"topology": {**IPV6, "control_planes": 3}}, [("lab-value", "control_planes")]),
        ({"topology": {**DUAL, "control_planes": 3}}, []),
        ({"topology": {**IPV6, "addons": ["dns", "storage", "metrics", "load_balancer"]}}, []),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], found: list[tuple[str, str]]) -> None:
    assert g.faults(**changes) == found


@pytest.mark.parametrize(
    ("topology", "path"),
    [(None, "ip_family"), (IPV6, "ip_family"), ({**DUAL, "pod_cidr": "fd00::/56"}, "pod_cidr")],
)
def test_a_lab_that_is_there_keeps_its_families(topology: dict[str, Any] | None, path: str) -> None:
    before = g.lab(nodes=1, topology=DUAL)
    assert ("lab-fixed", path) in g.errors_of(lambda: g.lab(before, nodes=1, topology=topology))


def test_a_lab_of_an_earlier_version_has_ipv4() -> None:
    before = {key: value for key, value in g.lab(nodes=1).items() if key != "ip_family"}
    assert g.lab(before, nodes=1)["ip_family"] == "ipv4"


def test_the_service_of_dns_and_the_pool_of_addresses_are_of_both_families() -> None:
    lab = g.lab(nodes=1, topology=DUAL)
    service = next(part for part in dns.manifests(lab, FakeHost()).values() if part["kind"] == "Service")
    assert service["spec"]["clusterIPs"] == ["10.96.0.10", "fdba:11a5:ffff::a"]
    assert service["spec"]["ipFamilyPolicy"] == "RequireDualStack"
    pool = next(part for part in load_balancer.manifests(lab, FakeHost()).values() if part["kind"] == "IPAddressPool")
    assert pool["spec"]["addresses"] == ["10.97.0.224-10.97.0.254", "fdba:11a5::e0-fdba:11a5::fe"]
