# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.objects import BUILT_IN
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.parse import parse as parse_tables
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.text import render, rule_text
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.compile import compile_rules, required_sysctls
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.iptables import COMMENTS, LAYOUT
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.objects import SET_TYPES, IpvsRules
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import LocalDetector, RuleConfig
from tests.unit.rules.iptables.views import config as config_of
from tests.unit.rules.iptables.views import everything, here, service, there, view
from tests.unit.rules.ipvs.kernel import printed
from tests.unit.rules.strategies import POOLS

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "ipvs"
POOL = POOLS[4]


def config(**said: Any) -> RuleConfig:
    return config_of(backend="ipvs", **said)


def elements(rules: IpvsRules, name: str) -> list[str]:
    return sorted(rules.kube_set(name).elements)


def lines(rules: IpvsRules, table: str, chain: str) -> list[str]:
    found = rules.tables.chain(table, chain)
    assert found is not None
    return [rule_text(rule) for rule in found.rules]


@pytest.mark.parametrize("family", [4, 6])
def test_rules_are_the_golden_ones(family: int) -> None:
    """With UPDATE_GOLDEN=1 the files are written anew; look at the difference."""
    text = printed(compile_rules(everything(family), config(family=family)))
    path = GOLDEN / f"everything-ipv{family}.rules"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert path.read_text() == text


@pytest.mark.parametrize("family", [4, 6])
def test_iptables_save_of_the_rules_is_read_as_what_was_compiled(family: int) -> None:
    rules = compile_rules(everything(family), config(family=family, detector=LocalDetector("prefix", "veth")))
    assert parse_tables(render(rules.tables), family=family) == rules.tables


def test_every_chain_that_is_not_the_kernels_is_in_the_layout() -> None:
    rules = compile_rules(everything(4), config())
    for table in rules.tables.tables:
        for chain in table.chains:
            assert LAYOUT.owns(table.name, chain.name) is (chain.name not in BUILT_IN[table.name])


def test_a_node_port_is_served_on_each_address_of_the_node_and_its_address_is_not_bound() -> None:
    rules = compile_rules(view([service("web", here("10.1.0.5"), node_port=30080)]), config())
    assert [one.text for one in rules.servers] == [
        "10.1.0.1:30080/TCP",
        "10.50.0.10:30080/TCP",
        "10.96.0.1:80/TCP",
        "192.168.1.10:30080/TCP",
    ]
    assert rules.addresses == ("10.96.0.1",)
    limited = compile_rules(
        view([service("web", here("10.1.0.5"), node_port=30080)]), config(node_port_addresses=("192.168.0.0/16",))
    )
    assert [one.address for one in limited.servers] == ["10.96.0.1", "192.168.1.10"]


def test_a_node_port_of_sctp_is_in_sets_of_addresses() -> None:
    web = service("web", here("10.1.0.5"), protocol="SCTP", node_port=30080)
    rules = compile_rules(view([web]), config())
    keys = [f"{address},sctp:30080" for address in ("10.1.0.1", "10.50.0.10", "192.168.1.10")]
    assert elements(rules, "KUBE-NODE-PORT-SCTP-HASH") == keys
    assert elements(rules, "KUBE-NODE-PORT-LOCAL-SCTP-HASH") == []
    local = compile_rules(view([web._replace(external_local=True)]), config())
    assert elements(local, "KUBE-NODE-PORT-LOCAL-SCTP-HASH") == keys


def test_a_node_port_of_udp_is_a_number_in_its_set() -> None:
    web = service("web", here("10.1.0.5"), protocol="UDP", node_port=30080, external_local=True)
    rules = compile_rules(view([web]), config())
    assert elements(rules, "KUBE-NODE-PORT-UDP") == elements(rules, "KUBE-NODE-PORT-LOCAL-UDP") == ["30080"]
    assert elements(rules, "KUBE-NODE-PORT-TCP") == []


@pytest.mark.parametrize(
    ("family", "addresses", "asked", "served"),
    [
        (6, ("fd00:192::10", "fe80::1"), None, ["fd00:192::10"]),
        (6, ("fd00:192::10", "fe80::1"), ("fe80::/10",), ["fe80::1"]),
        (4, ("169.254.1.1", "192.168.1.10"), None, ["169.254.1.1", "192.168.1.10"]),
        (4, ("169.254.1.1", "192.168.1.10"), ("169.254.0.0/16",), ["169.254.1.1"]),
    ],
)
def test_link_local_addresses_serve_node_ports_in_ipv6_only_where_they_are_named(
    family: int, addresses: tuple[str, ...], asked: tuple[str, ...] | None, served: list[str]
) -> None:
    web = view([service("web", family=family, node_port=30080)], family=family)
    seen = replace(web, node=replace(web.node, addresses=addresses))
    rules = compile_rules(seen, config(family=family, node_port_addresses=asked))
    assert [server.address for server in rules.servers if server.port == 30080] == served


def test_addresses_are_in_numerical_order() -> None:
    many = [service(f"s{last}", cluster_ip=f"10.96.0.{last}") for last in (100, 9, 20)]
    assert compile_rules(view(many), config()).addresses == ("10.96.0.9", "10.96.0.20", "10.96.0.100")


@pytest.mark.parametrize("family", [4, 6])
def test_sets_of_ports_have_no_family_and_all_others_have_that_of_the_rules(family: int) -> None:
    found = compile_rules(view([], family=family), config(family=family)).sets
    assert len(found) == len(SET_TYPES)
    assert {(one.type == "bitmap:port", one.family) for one in found} == {(True, 0), (False, family)}


def test_an_external_ip_that_the_node_has_is_not_bound() -> None:
    rules = compile_rules(
        view([service("web", here("10.1.0.5"), external_ips=(POOL.primary, "203.0.113.10"))]), config()
    )
    assert rules.addresses == ("10.96.0.1", "203.0.113.10")
    assert elements(rules, "KUBE-IPVS-IPS") == ["10.96.0.1", "203.0.113.10"]
    assert elements(rules, "KUBE-EXTERNAL-IP") == ["192.168.1.10,tcp:80", "203.0.113.10,tcp:80"]


def test_a_service_address_comes_before_a_node_port_on_the_same_address() -> None:
    first = service("api", here("10.1.0.6"), port=30080, external_ips=(POOL.primary,), cluster_ip="10.96.0.10")
    rules = compile_rules(view([first, service("web", here("10.1.0.5"), node_port=30080)]), config())
    at = rules.server_by_key[0, POOL.primary, "TCP", 30080]
    assert [one.address for one in at.real_servers] == ["10.1.0.6"]


def test_a_range_of_every_address_is_stored_as_its_halves() -> None:
    address = POOL.load_balancer_ips[0]
    ranges = ("0.0.0.0/0", "172.16.5.5/32")
    rules = compile_rules(view([service("web", load_balancer_ips=(address,), source_ranges=ranges)]), config())
    key = f"{address},tcp:80"
    assert elements(rules, "KUBE-LOAD-BALANCER-SOURCE-CIDR") == [
        f"{key},0.0.0.0/1",
        f"{key},128.0.0.0/1",
        f"{key},172.16.5.5",
    ]


def test_a_load_balancer_is_closed_to_the_node_unless_it_is_in_a_range() -> None:
    address = POOL.load_balancer_ips[0]
    one = service("web", load_balancer_ips=(address,), source_ranges=("172.16.0.0/16",))
    closed = compile_rules(view([one]), config())
    assert lines(closed, "filter", "KUBE-IPVS-OUT-FILTER") == [
        f"-s {address}/32 -m ipvs --vaddr {address}/32 --vproto tcp --vport 80 -j DROP"
    ]
    assert elements(closed, "KUBE-LOAD-BALANCER-SOURCE-IP") == []
    opened = compile_rules(view([one._replace(source_ranges=("192.168.1.0/24",))]), config())
    assert lines(opened, "filter", "KUBE-IPVS-OUT-FILTER") == []
    assert elements(opened, "KUBE-LOAD-BALANCER-SOURCE-IP") == [f"{address},tcp:80,{address}"]


def test_a_node_without_an_address_of_the_family_is_in_no_range() -> None:
    address = POOL.load_balancer_ips[0]
    seen = view([service("web", load_balancer_ips=(address,), source_ranges=("0.0.0.0/0",))])
    rules = compile_rules(replace(seen, node=replace(seen.node, primary="")), config())
    assert elements(rules, "KUBE-LOAD-BALANCER-SOURCE-IP") == []
    assert len(lines(rules, "filter", "KUBE-IPVS-OUT-FILTER")) == 1


@pytest.mark.parametrize(
    ("said", "rule"),
    [
        ({"masquerade_all": True}, "--match-set KUBE-CLUSTER-IP dst,dst -j KUBE-MARK-MASQ"),
        ({"detector": LocalDetector("cidr", "10.1.0.0/16")}, "! -s 10.1.0.0/16"),
        ({"detector": LocalDetector("bridge", "cni0")}, "! -i cni0 "),
        ({"detector": LocalDetector("prefix", "veth")}, "! -i veth+ "),
        ({"detector": LocalDetector()}, "--match-set KUBE-CLUSTER-IP src,dst -j KUBE-MARK-MASQ"),
    ],
)
def test_how_a_pod_of_this_node_is_told(said: dict[str, Any], rule: str) -> None:
    rules = compile_rules(view([service("web", here("10.1.0.5"))]), config(**said))
    found = [line for line in lines(rules, "nat", "KUBE-SERVICES") if "KUBE-MARK-MASQ" in line]
    assert len(found) == 1
    assert rule in found[0]


def test_mh_hashes_the_port_too_and_affinity_persists() -> None:
    rules = compile_rules(view([service("web", here("10.1.0.5"), affinity_seconds=300)]), config(scheduler="mh"))
    only = rules.servers[0]
    assert (only.scheduler, only.flags, only.persistent_seconds) == ("mh", ("mh-port",), 300)


def test_without_a_local_endpoint_those_of_the_cluster_serve_external_addresses_alone() -> None:
    far = service("web", there("10.1.1.5"), internal_local=True, external_local=True)
    assert compile_rules(view([far]), config()).servers[0].real_servers == ()
    rules = compile_rules(view([far._replace(external_ips=("203.0.113.10",))]), config())
    assert {one.address: len(one.real_servers) for one in rules.servers} == {"10.96.0.1": 1, "203.0.113.10": 1}


def test_endpoints_that_hints_name_for_the_zone_of_the_node_serve_alone() -> None:
    far, near = there("10.1.1.5", zone_hints=("b",)), there("10.1.1.6", zone_hints=("a",))
    rules = compile_rules(view([service("web", far, near)]), config())
    assert [one.address for one in rules.servers[0].real_servers] == ["10.1.1.6"]


def test_a_set_has_room_for_more_elements_than_usual() -> None:
    pods = [here(f"10.{128 + (n >> 16)}.{n >> 8 & 255}.{n & 255}") for n in range(70000)]
    rules = compile_rules(view([service("web", *pods)]), config())
    assert {one.name: one.maxelem for one in rules.sets if one.maxelem != 65536} == {"KUBE-LOOP-BACK": 131072}


def test_kernel_settings() -> None:
    assert required_sysctls(RuleConfig(backend="ipvs"), kernel=(6, 1)) == (
        ("net.ipv4.vs.conntrack", "1"),
        ("net.ipv4.vs.expire_nodest_conn", "1"),
        ("net.ipv4.vs.expire_quiescent_template", "1"),
        ("net.ipv4.ip_forward", "1"),
    )
    assert required_sysctls(RuleConfig(backend="ipvs", strict_arp=True), kernel=(5, 4)) == (
        ("net.ipv4.vs.conntrack", "1"),
        ("net.ipv4.vs.conn_reuse_mode", "0"),
        ("net.ipv4.vs.expire_nodest_conn", "1"),
        ("net.ipv4.vs.expire_quiescent_template", "1"),
        ("net.ipv4.ip_forward", "1"),
        ("net.ipv4.conf.all.arp_ignore", "1"),
        ("net.ipv4.conf.all.arp_announce", "2"),
    )


@pytest.mark.parametrize(("kernel", "is_set"), [((4, 0), False), ((4, 1), True), ((5, 8), True), ((5, 9), False)])
def test_reuse_of_connections_is_set_where_the_kernels_default_does_harm(kernel: tuple[int, int], is_set: bool) -> None:
    names = [name for name, _value in required_sysctls(RuleConfig(backend="ipvs"), kernel=kernel)]
    assert ("net.ipv4.vs.conn_reuse_mode" in names) is is_set


def test_every_set_but_that_of_all_addresses_has_its_comment() -> None:
    assert set(COMMENTS) | {"KUBE-IPVS-IPS"} == set(SET_TYPES)
