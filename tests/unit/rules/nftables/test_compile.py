# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is compiled for nftables. That packets meet their fate is tried in ../test_differential.py and in tests/integration."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given

from ansible_collections.ballast.kube.plugins.module_utils._rules.model import Endpoint, LocalDetector
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.compile import compile_rules
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.expressions import Verdict
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.json_form import parse_json
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.objects import Key, Table
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.render import render_rule, render_table
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.text import parse_text
from tests.unit.rules.iptables.views import everything
from tests.unit.rules.nftables.views import CONFIG, NODE, service, view
from tests.unit.rules.strategies import POOLS, Scenario, scenarios

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "nftables"


def rules(table: Table, chain: str) -> list[str]:
    return [render_rule(rule) for rule in table.chains[chain].rules]


def keys(table: Table, name: str) -> set[Key]:
    return set(table.sets[name].elements)


def verdict(table: Table, *key: str) -> str:
    found = table.sets["services" if len(key) == 3 else "node-ports"].elements[key].target
    assert isinstance(found, Verdict)
    return found.target or found.kind


@pytest.mark.parametrize("family", [4, 6])
def test_rules_are_the_golden_ones(family: int) -> None:
    """With UPDATE_GOLDEN=1 the files are written anew; look at the difference."""
    config = replace(CONFIG, detector=LocalDetector("cidr", POOLS[family].cluster_cidr))
    text = render_table(compile_rules(everything(family), config))
    path = GOLDEN / f"everything-ipv{family}.nft"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert path.read_text() == text


@given(scenario=scenarios(backend="nftables"))
def test_the_same_view_is_the_same_text_and_reads_back_as_it_was(scenario: Scenario) -> None:
    table = compile_rules(scenario.view, scenario.config)
    text = render_table(table)
    assert render_table(compile_rules(scenario.view, scenario.config)) == text
    assert parse_text(text).tables[table.family, table.name] == table


@given(scenario=scenarios(backend="nftables"))
def test_each_chain_draws_from_as_many_slots_as_its_frontends_have(scenario: Scenario) -> None:
    table = compile_rules(scenario.view, scenario.config)
    needed: dict[str, set[Key]] = {}
    for name, prefix in (("services", ""), ("node-ports", "node-port-")):
        for key, element in table.sets[name].elements.items():
            assert isinstance(element.target, Verdict)
            for kind, count in drawn_by(table, element.target.target):
                where = f"{'local-' if kind == 'local' else ''}{prefix}endpoints-{key[-2]}"
                place = (*key[:-2], key[-1])
                needed.setdefault(where, set()).update((*place, str(slot)) for slot in range(count))
    for name in table.sets:
        if re.fullmatch(r"(local-)?(node-port-)?endpoints-(tcp|udp|sctp)", name):
            assert keys(table, name) == needed.get(name, set())


def drawn_by(table: Table, chain: str) -> Iterator[tuple[str, int]]:
    """From which list a chain draws, and how many."""
    match = re.fullmatch(r"(?:node-port-)?(cluster-ip|external|local)-(?:tcp|udp|sctp)-(\d+)(?:-(\d+))?", chain)
    if not match:
        return
    moduli = {int(found) for rule in rules(table, chain) for found in re.findall(r"numgen random mod (\d+)", rule)}
    counts = {int(count) for count in match.groups()[1:] if count and int(count)}
    assert moduli == counts
    yield "all", int(match[2])
    if match[3] and int(match[3]):
        yield "local", int(match[3])


def test_chains_and_rules_do_not_grow_with_the_number_of_services() -> None:
    few, many = (
        compile_rules(view(*(service(f"s{n}", f"10.96.0.{n}") for n in range(1, count))), CONFIG) for count in (3, 100)
    )
    assert few.chains == many.chains
    assert few.sets.keys() == many.sets.keys()


# Where a packet goes


def test_endpoints_that_hints_name_for_the_zone_of_the_node_serve_alone() -> None:
    hinted = tuple(Endpoint(f"10.1.0.{n}", 8080, node="n2", zone_hints=(zone,)) for n, zone in ((1, "a"), (2, "b")))
    web = service("web", "10.96.0.1")._replace(endpoints=hinted)
    table = compile_rules(view(web, node=replace(NODE, zone="b")), CONFIG)
    assert [element.target for element in table.sets["endpoints-tcp"].elements.values()] == [("10.1.0.2", "8080")]


def test_what_has_no_endpoints_is_rejected_and_what_has_them_elsewhere_dropped() -> None:
    away = (Endpoint("10.1.0.9", 8080, node="n2"),)
    table = compile_rules(
        view(
            service("none", "10.96.0.1", endpoints=0, node_port=30001, external_ips=("203.0.113.1",)),
            service("away", "10.96.0.2")._replace(endpoints=away, internal_local=True),
            service("out", "10.96.0.3")._replace(endpoints=away, external_local=True, external_ips=("203.0.113.3",)),
        ),
        CONFIG,
    )
    for key in (("10.96.0.1", "tcp", "80"), ("203.0.113.1", "tcp", "80"), ("tcp", "30001")):
        assert verdict(table, *key) == "reject-connection"
    assert verdict(table, "10.96.0.2", "tcp", "80") == "drop"
    assert verdict(table, "203.0.113.3", "tcp", "80") == "local-tcp-1-0"
    assert rules(table, "local-tcp-1-0")[-1] == "drop"
    assert keys(table, "cluster-ips") == {("10.96.0.1",), ("10.96.0.2",), ("10.96.0.3",)}


@pytest.mark.parametrize(
    ("detector", "matches", "differs"),
    [
        (LocalDetector("cidr", "10.1.0.0/16"), "ip saddr 10.1.0.0/16 ", "ip saddr != 10.1.0.0/16 "),
        (LocalDetector("bridge", "cni0"), 'iifname "cni0" ', 'iifname != "cni0" '),
        (LocalDetector("prefix", "veth"), 'iifname "veth*" ', 'iifname != "veth*" '),
        (LocalDetector(), "", ""),
    ],
)
def test_a_pod_of_this_node_is_told_as_configured(detector: LocalDetector, matches: str, differs: str) -> None:
    both = service("a", "10.96.0.1", external_ips=("203.0.113.1",), external_local=True)
    table = compile_rules(view(both), replace(CONFIG, detector=detector))
    mark = "meta mark set meta mark | 0x4000"
    to_all = "dnat ip to ip daddr . tcp dport . numgen random mod 2 map @endpoints-tcp"
    inside, outside = rules(table, "cluster-ip-tcp-2"), rules(table, "local-tcp-2-1")
    assert inside == ([f"{differs}{mark}"] if differs else []) + [to_all]
    assert outside == ([f"{matches}{to_all}"] if matches else []) + [
        f"fib saddr type local {mark} {to_all}",
        "dnat ip to ip daddr . tcp dport . numgen random mod 1 map @local-endpoints-tcp",
    ]


def test_masquerade_all_asks_nothing_and_the_mark_is_the_configured_bit() -> None:
    table = compile_rules(view(service("a", "10.96.0.1")), replace(CONFIG, masquerade_all=True, masquerade_bit=3))
    assert rules(table, "cluster-ip-tcp-2")[0] == "meta mark set meta mark | 0x8"
    assert rules(table, "nat-postrouting")[0] == (
        "meta mark & 0x8 != 0x0 meta mark set meta mark ^ 0x8 masquerade fully-random"
    )


def test_base_chains_are_where_those_of_kube_proxy_are_or_next_to_them() -> None:
    for offset in (0, -1):
        table = compile_rules(view(), CONFIG, priority_offset=offset)
        found = {
            (chain.base.hook, chain.base.type, chain.base.priority - offset)
            for chain in table.chains.values()
            if chain.base
        }
        assert found == {
            ("prerouting", "nat", -100),
            ("output", "nat", -100),
            ("postrouting", "nat", 100),
            ("forward", "filter", 0),
            ("output", "filter", 0),
        }


@pytest.mark.parametrize(("family", "header"), [(4, "ip"), (6, "ip6")])
def test_what_tries_the_rules_of_another_is_let_by_before_anything_is_translated(family: int, header: str) -> None:
    table = compile_rules(everything(family), CONFIG, dscp_bypass=True)
    for chain in ("nat-prerouting", "nat-output"):
        assert rules(table, chain) == [f"{header} dscp 43 return", "jump services"]
    assert parse_text(render_table(table)).tables == {(header, table.name): table}
    assert "dscp" not in render_table(compile_rules(everything(family), CONFIG))


def test_a_hairpin_is_an_endpoint_of_this_node() -> None:
    table = compile_rules(view(service("a", "10.96.0.1", endpoints=3)), CONFIG)
    assert keys(table, "hairpin") == {("10.1.0.1", "10.1.0.1")}


def test_networks_that_overlap_are_one() -> None:
    table = compile_rules(view(service_cidrs=("10.96.0.0/16", "10.96.3.0/24", "10.97.0.0/16")), CONFIG)
    assert keys(table, "service-cidrs") == {("10.96.0.0/15",)}


# Node ports


@pytest.mark.parametrize(
    ("asked", "addresses", "rule"),
    [
        (None, {("192.168.1.10",)}, "ip daddr @node-port-ips"),
        (("10.50.0.0/16",), {("10.50.0.10",)}, "ip daddr @node-port-ips"),
        (("0.0.0.0/0",), set(), "fib daddr type local ip daddr != 127.0.0.0/8"),
    ],
)
def test_node_ports_are_served_where_configured(asked: tuple[str, ...] | None, addresses: set[Key], rule: str) -> None:
    table = compile_rules(view(service("a", "10.96.0.1", node_port=30001)), replace(CONFIG, node_port_addresses=asked))
    assert keys(table, "node-port-ips") == addresses
    assert rules(table, "services")[-1] == f"{rule} meta l4proto . th dport vmap @node-ports"
    assert verdict(table, "tcp", "30001") == "node-port-external-tcp-2"
    assert keys(table, "node-port-endpoints-tcp") == {("30001", "0"), ("30001", "1")}


# Source ranges


def guarded(name: str, cluster_ip: str, address: str, *ranges: str) -> Table:
    one = service(name, cluster_ip, load_balancer_ips=(address,), source_ranges=ranges, node_port=30001)
    return compile_rules(view(one), CONFIG)


def allowed(table: Table) -> set[str]:
    """The networks of the one chain, whose one rule drops what is from elsewhere."""
    (element,) = table.sets["source-ranges"].elements.values()
    assert isinstance(element.target, Verdict)
    name = element.target.target
    assert rules(table, name) == [f"ip saddr != @{name} drop"]
    assert table.sets[name].flags == ("interval",)
    return {network for (network,) in keys(table, name)}


def test_ranges_are_in_the_fewest_networks_and_guard_the_load_balancer_alone() -> None:
    table = guarded("a", "10.96.0.1", "198.51.100.1", "172.16.0.0/16", "172.16.5.0/24", "192.0.2.1/32")
    assert allowed(table) == {"192.0.2.1", "172.16.0.0/16"}
    assert keys(table, "source-ranges") == {("198.51.100.1", "tcp", "80")}


def test_a_range_with_the_node_in_it_means_the_load_balancers_address_too() -> None:
    table = guarded("a", "10.96.0.1", "198.51.100.1", "192.168.1.0/24")
    assert allowed(table) == {"198.51.100.1", "192.168.1.0/24"}


@pytest.mark.parametrize("ranges", [(), ("0.0.0.0/0",), ("10.0.0.0/8", "0.0.0.0/0")])
def test_what_all_may_use_is_not_guarded(ranges: tuple[str, ...]) -> None:
    assert keys(guarded("a", "10.96.0.1", "198.51.100.1", *ranges), "source-ranges") == set()


def test_the_same_ranges_are_the_same_chain() -> None:
    one, other = (
        guarded("a", "10.96.0.1", "198.51.100.1", "172.16.0.0/16"),
        guarded("b", "10.96.0.2", "198.51.100.2", "172.16.0.0/16"),
    )
    assert one.chains.keys() == other.chains.keys()


# Session affinity


def sticky(**fields: object) -> Table:
    return compile_rules(view(service("a", "10.96.0.1", affinity_seconds=300, **fields)), CONFIG)


def test_a_source_is_looked_for_with_each_endpoint_then_one_is_drawn() -> None:
    table = sticky()
    entry = rules(table, verdict(table, "10.96.0.1", "tcp", "80"))
    assert entry[0] == "ip saddr != 10.1.0.0/16 meta mark set meta mark | 0x4000"
    choice = rules(table, entry[1].removeprefix("goto "))
    assert [re.sub(r"-[0-9a-f]{12}-", "-H-", rule) for rule in choice] == [
        *(
            f"ip saddr @affinity-H-default/a/tcp//10.1.0.{n}/8080/300s goto endpoint-H-default/a/tcp//10.1.0.{n}/8080"
            for n in (1, 2)
        ),
        "numgen random mod 2 vmap { "
        + ", ".join(f"{n} : goto endpoint-H-default/a/tcp//10.1.0.{n + 1}/8080" for n in (0, 1))
        + " }",
    ]
    (first,) = (name for name in table.chains if name.startswith("endpoint-") and "10.1.0.1/" in name)
    assert rules(table, first)[1] == "meta l4proto tcp dnat to 10.1.0.1:8080"
    assert {one.timeout_seconds for name, one in table.sets.items() if name.startswith("affinity-")} == {300}


def test_another_timeout_is_another_set() -> None:
    other = compile_rules(view(service("a", "10.96.0.1", affinity_seconds=301)), CONFIG)
    names = [{name for name in table.sets if name.startswith("affinity-")} for table in (sticky(), other)]
    assert len(names[0]) == len(names[1]) == 2
    assert not names[0] & names[1]


def test_every_address_of_a_service_leads_to_the_same_endpoints() -> None:
    table = sticky(external_ips=("203.0.113.1",), node_port=30001)
    entries = {verdict(table, *key) for key in (("203.0.113.1", "tcp", "80"), ("tcp", "30001"))}
    assert len(entries) == 1
    lists = {rules(table, entry)[-1] for entry in entries | {verdict(table, "10.96.0.1", "tcp", "80")}}
    assert {rule.rpartition("goto ")[2] for rule in lists} == {
        name for name in table.chains if name.startswith("endpoints-")
    }


def test_names_as_long_as_they_may_be_stay_apart() -> None:
    long = {"port_name": "p" * 63, "affinity_seconds": 300}
    both = [service("s" * 62 + end, f"10.96.0.{n}", **long) for n, end in ((1, "a"), (2, "b"))]
    longest = [one._replace(namespace="n" * 63) for one in both]
    table = compile_rules(view(*longest), CONFIG)
    assert max(map(len, (*table.chains, *table.sets))) <= 255
    assert sum(name.startswith("endpoint-") for name in table.chains) == 4


# Reading back


def test_a_mark_of_the_highest_bit_is_read_as_it_was_written() -> None:
    """nft 1.0.6 lists it as a prefix."""
    table = compile_rules(view(), replace(CONFIG, masquerade_bit=31))
    written = rules(table, "nat-postrouting")[0]
    assert written.startswith("meta mark & 0x80000000 != 0x0 ")
    listed = written.replace("meta mark & 0x80000000 != 0x0", "meta mark != 0x00000000/1")
    found = parse_text(f"table ip t {{\n\tchain c {{\n\t\t{listed}\n\t}}\n}}\n").tables["ip", "t"].chains["c"].rules
    assert found[0].statements == table.chains["nat-postrouting"].rules[0].statements
    match = {"op": "!=", "left": {"meta": {"key": "mark"}}, "right": {"prefix": {"addr": 0, "len": 1}}}
    rule = {"family": "ip", "table": "t", "chain": "c", "handle": 1, "expr": [{"match": match}]}
    chain = {"family": "ip", "table": "t", "name": "c", "handle": 1}
    dump = {"nftables": [{"table": {"family": "ip", "name": "t", "handle": 1}}, {"chain": chain}, {"rule": rule}]}
    (read,) = parse_json(json.dumps(dump)).tables["ip", "t"].chains["c"].rules
    assert read.statements[0] == found[0].statements[0]
