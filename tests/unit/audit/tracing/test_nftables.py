# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace
from typing import Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._audit.tracing import outcome as walk
from ansible_collections.ballast.kube.plugins.module_utils._audit.tracing.packet_path import Tracer
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.objects import Element, Ruleset
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.text import parse_text
from ansible_collections.ballast.kube.plugins.module_utils._rules.node_rules import NodeRules
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import (
    DROP,
    PASS,
    REJECT,
    UNKNOWN,
    Answer,
    Packet,
    Surroundings,
)
from tests.unit.audit.answers import to, trace
from tests.unit.rules.nftables import dumps

NODE = Surroundings((("lo", ("127.0.0.1", "::1")), ("eth0", ("192.0.2.1", "2001:db8::1"))))
OUTSIDE, POD, BACKEND, OTHER_BACKEND = "198.51.100.7", "10.244.1.9", "10.244.1.5", "10.244.2.5"
PACKET = Packet(OUTSIDE, "10.0.0.1", 80, "TCP", "eth0")
BOTH = ("10.244.1.5:80", "10.244.2.5:80")


def rules(*chains: str, sets: str = "", family: str = "ip") -> Ruleset:
    """A table of chains given as `NAME [HOOK PRIORITY [POLICY]]: rule; rule`."""
    lines = [f"table {family} t {{", *sets.splitlines()]
    for chain in chains:
        head, _colon, body = chain.partition(": ")
        name, *hook = head.rstrip(":").split()
        lines.append(f"\tchain {name} {{")
        if hook:
            kind = "nat" if name.startswith("nat") else "filter"
            policy = hook[2] if len(hook) > 2 else "accept"
            lines.append(f"\t\ttype {kind} hook {hook[0]} priority {hook[1]}; policy {policy};")
        lines += [f"\t\t{rule}" for rule in body.split("; ") if rule]
        lines.append("\t}")
    return parse_text("\n".join([*lines, "}"]))


def together(*rulesets: Ruleset) -> Ruleset:
    """Tables of one name, told apart by a number."""
    tables = [table for ruleset in rulesets for table in ruleset.tables.values()]
    return Ruleset({(one.family, f"t{at}"): replace(one, name=f"t{at}") for at, one in enumerate(tables)})


def answer(ruleset: Ruleset, packet: Packet = PACKET) -> Answer:
    return trace(ruleset, packet, NODE)


def refusal(ruleset: Ruleset, packet: Packet = PACKET) -> BallastError:
    found = answer(ruleset, packet)
    assert found.verdict == UNKNOWN
    assert found.problem is not None
    return found.problem


# Layouts of kube-proxy

G1, G2, G3 = "kube_proxy_g1", "kube_proxy_g2", "kube_proxy_g3"
CART = ("10.244.1.7:8080", "10.244.2.7:8080")


@pytest.mark.parametrize(
    ("layout", "source", "destination", "expected"),
    [
        (G1, POD, "172.30.0.41", to(*BOTH)),
        (G1, OUTSIDE, "172.30.0.41", to(*BOTH, masquerade=True)),
        (G1, BACKEND, "172.30.0.41", to(*BOTH, hairpin=("10.244.1.5:80",))),
        (G1, POD, "172.30.0.42", to(*CART, affinity=10800)),
        (G1, "10.244.1.7", "172.30.0.42", to(*CART, hairpin=CART[:1], affinity=10800)),
        (G1, OUTSIDE, "198.18.0.41", to(*BOTH[:1])),
        (G1, "203.0.113.10", "198.18.0.41", Answer(DROP)),
        (G1, "203.0.113.9", "198.18.0.41", to(*BOTH[:1])),
        (G1, POD, "198.18.0.41", Answer(DROP)),
        (G1, OUTSIDE, "192.0.2.1 30080", to(*BOTH[:1])),
        (G1, POD, "192.0.2.1 30080", to(*BOTH)),
        (G1, "node", "192.0.2.1 30080", to(*BOTH, masquerade=True)),
        (G1, "node", "198.18.0.41", to(*BOTH, masquerade=True)),
        (G1, POD, "172.30.0.43 53 UDP", Answer(REJECT)),
        (G1, OUTSIDE, "192.0.2.1 30053 UDP", Answer(REJECT)),
        (G1, POD, "172.30.0.44", Answer(DROP)),
        (G1, POD, "172.30.0.41 81", Answer(REJECT)),
        (G1, POD, "172.30.0.41 80 UDP", Answer(REJECT)),
        (G1, POD, "172.30.9.9", Answer(DROP)),
        (G1, POD, "203.0.113.1", Answer(PASS)),
        (G2, POD, "172.30.0.41", to(*BOTH)),
        (G2, OUTSIDE, "172.30.0.41", to(*BOTH, masquerade=True)),
        (G2, BACKEND, "172.30.0.41", to(*BOTH, hairpin=BOTH[:1])),
        (G2, OTHER_BACKEND, "172.30.0.41", to(*BOTH)),  # its own node did that already
        (G2, OUTSIDE, "198.18.0.41", to(*BOTH[:1])),
        (G2, BACKEND, "192.0.2.1 30080", to(*BOTH, hairpin=BOTH[:1])),
        (G2, "node", "198.18.0.41", to(*BOTH, masquerade=True)),
        (G2, POD, "172.30.0.41 81", Answer(REJECT)),
        (G3, "fd00:244:3::9", "fd00:30::41", to("[fd00:244:1::5]:80", "[fd00:244:2::5]:80")),
        (G3, "2001:db8:9::1", "2001:db8:f::41", to("[fd00:244:1::5]:80")),
        (
            G3,
            "fd00:244:1::5",
            "fd00:30::41",
            to("[fd00:244:1::5]:80", "[fd00:244:2::5]:80", hairpin=("[fd00:244:1::5]:80",)),
        ),
        (G3, "node6", "::1 30053 UDP", Answer(REJECT)),
        (G3, "2001:db8:9::1", "fd00:30::99", Answer(DROP)),
    ],
)
def test_kube_proxys_rules_do_what_they_are_for(layout: str, source: str, destination: str, expected: Answer) -> None:
    address, port, protocol = [*destination.split(), *["80", "TCP"][len(destination.split()) - 1 :]]
    node_local = source.startswith("node")
    source = {"node": "192.0.2.1", "node6": "::1"}.get(source, source)
    packet = Packet(source, address, int(port), protocol, "" if node_local else "eth0", node_local)
    assert trace(parse_text(dumps.text(layout)), packet, NODE) == expected


def test_a_source_that_is_remembered_goes_where_it_went() -> None:
    ruleset = parse_text(dumps.text(G1))
    table = ruleset.tables["ip", "kube-proxy"]
    name = "affinity-AAAAAAA2-shop/cart/tcp/web__10.244.2.7/8080"
    seen = replace(table.sets[name], elements={(POD,): Element((POD,))})
    known = Ruleset({("ip", "kube-proxy"): replace(table, sets={**table.sets, name: seen})})
    packet = Packet(POD, "172.30.0.42", 80, "TCP")
    assert answer(known, packet) == to(*CART[1:], affinity=10800)
    assert answer(known, replace(packet, source="10.244.1.8")).endpoints == CART


def test_affinity_is_by_the_set_or_by_the_rule_that_remembers() -> None:
    sets = "\tset s {\n\t\ttype ipv4_addr\n\t\tflags dynamic,timeout\n\t\ttimeout 5m\n\t}"
    by_set = rules(f"nat-a prerouting 0: update @s {{ ip saddr }}; {TO_A}", sets=sets)
    by_rule = rules(f"nat-a prerouting 0: update @s {{ ip saddr timeout 1m }}; {TO_A}", sets=sets)
    assert (answer(by_set).affinity_seconds, answer(by_rule).affinity_seconds) == (300, 60)


def test_why_names_the_rules_that_had_a_say() -> None:
    why = answer(parse_text(dumps.text(G2)), Packet(OUTSIDE, "172.30.0.41", 80, "TCP")).why
    assert why[1].startswith("ip kube-proxy services: ip daddr @cluster-ips")
    assert why[2].endswith("vmap @service-ips { 172.30.0.41 . tcp . 80 : goto service-CCCCCCC1-shop/web/tcp/http }")
    assert why[3].startswith("ip kube-proxy service-CCCCCCC1-shop/web/tcp/http: meta l4proto tcp dnat ip to numgen")
    assert why[-1].endswith("masquerade fully-random")
    assert not [line for line in why if "check" in line]  # chains that only looked at it


# Hooks

TO_A, TO_B = "dnat to 10.9.0.1:1", "dnat to 10.9.0.2:2"
A, B = to("10.9.0.1:1"), to("10.9.0.2:2")


@pytest.mark.parametrize(
    ("chains", "expected"),
    [
        (["a forward 0: accept", "b forward 1: drop"], DROP),  # an accept ends one base chain
        (["a forward 0: drop", "b forward 1: accept"], DROP),  # a drop ends all
        (["a forward 1: reject", "b forward 0: drop"], DROP),  # by priority
        (["a forward 0: reject", "b forward 1: drop"], REJECT),
        (["a forward 0 drop:"], DROP),
        (["a forward 0 drop: accept"], PASS),
        (["a forward 0 drop: return"], DROP),  # from a base chain, to its policy
        (["a input 0: drop", "b output 0: drop"], PASS),
        (["a postrouting 0: drop"], DROP),
        (["a prerouting 0: ct state new drop"], DROP),
        (["a prerouting -300: ct state new drop"], PASS),  # conntrack has not seen it
        (["a prerouting -300: ct state invalid drop"], DROP),
        (["a prerouting -199: ct status dnat drop"], PASS),
    ],
)
def test_chains_of_a_hook_run_by_priority(chains: list[str], expected: str) -> None:
    assert answer(rules(*chains)).verdict == expected


@pytest.mark.parametrize(
    ("chains", "expected"),
    [
        ([f"nat-a prerouting -100: {TO_A}", f"nat-b prerouting -101: {TO_B}"], B),
        (
            [f"nat-a prerouting -101: {TO_A}; drop", f"nat-b prerouting -100: {TO_B}"],
            A,
        ),  # it ends its chain, and the asking
        ([f"nat-a prerouting -101: accept; {TO_A}", f"nat-b prerouting -100: {TO_B}"], B),
        ([f"nat-a prerouting -300: {TO_A}", "b prerouting -150: ip daddr 10.9.0.1 drop"], A),  # all at -100
        ([f"nat-a prerouting -300: {TO_A}", "b prerouting -99: ip daddr 10.9.0.1 tcp dport 1 drop"], Answer(DROP)),
        ([f"nat-a prerouting -100: {TO_A}", "b forward 0: ct status dnat accept; drop"], A),
        ([f"nat-a output -100: {TO_A}"], Answer(PASS)),
        ([f"nat-a prerouting 0: {TO_A}", "nat-b postrouting 0: masquerade"], to(*A.endpoints, masquerade=True)),
        ([f"nat-a prerouting 0: {TO_A}", "nat-b postrouting 0: snat to 192.0.2.1"], to(*A.endpoints, masquerade=True)),
        (["nat-b postrouting 0: masquerade"], Answer(PASS)),
    ],
)
def test_nat_is_asked_once_and_the_first_translation_counts(chains: list[str], expected: Answer) -> None:
    assert answer(rules(*chains)) == expected


def test_the_route_is_chosen_by_the_translated_destination() -> None:
    chains = ["nat-a prerouting -100: dnat to 192.0.2.1:1", "b forward 0: drop", "nat-c postrouting 100: masquerade"]
    assert answer(rules(*chains)) == to("192.0.2.1:1")
    assert answer(rules(*chains, "d input 0: tcp dport 1 drop")).verdict == DROP


def test_what_the_node_sends_to_itself_comes_back_over_loopback() -> None:
    packet = Packet("192.0.2.1", "192.0.2.1", 80, "TCP", node_local=True)
    nat = f"nat-a output -100: {TO_A}"
    assert answer(rules(nat, f"nat-b prerouting -200: {TO_B}"), packet) == A
    home = ["nat-a output -100: dnat to 192.0.2.1:8080", f"nat-b prerouting -200: {TO_B}"]
    assert answer(rules(*home), packet) == to("192.0.2.1:8080")
    assert answer(rules(*home, "c prerouting 0: iifname lo tcp dport 8080 drop"), packet).verdict == DROP
    assert answer(rules("c forward 0: drop"), packet).verdict == PASS
    assert answer(rules("c output 0: oifname lo drop"), packet).verdict == DROP


def test_tables_of_both_families_and_of_the_packets_own_are_passed() -> None:
    drops = "a forward 0: drop"
    assert answer(rules(drops, family="inet")).verdict == DROP
    assert answer(rules(drops, family="ip6")).verdict == PASS
    assert answer(rules(drops, family="bridge")).verdict == PASS
    six = Packet("fd00::1", "fd00::2", 80, "TCP")
    assert answer(rules("a forward 0: ip daddr != 10.0.0.9 drop", family="inet"), six).verdict == PASS
    assert answer(rules("a forward 0: meta nfproto ipv6 drop", family="inet"), six).verdict == DROP


def test_a_dormant_table_is_not_passed() -> None:
    (table,) = rules("a forward 0: drop").tables.values()
    assert answer(Ruleset({("ip", "t"): replace(table, flags=("dormant",))})).verdict == PASS


def test_our_table_beside_anothers_decides_first() -> None:
    ours, theirs = rules(f"nat-a prerouting -101: {TO_A}"), rules(f"nat-a prerouting -100: {TO_B}")
    assert answer(together(theirs, ours)) == A
    refuses = rules("c forward 0: ip daddr 10.9.0.1 drop")
    assert answer(together(ours, refuses)).verdict == DROP


# Chains and rules


@pytest.mark.parametrize(
    ("chains", "expected"),
    [
        (["a forward 0: jump c; drop", "c: return; accept"], DROP),
        (["a forward 0: jump c; drop", "c: accept"], PASS),
        (["a forward 0: goto c; drop", "c: counter"], PASS),  # does not come back
        (["a forward 0: jump b; drop", "b: goto c; accept", "c: return"], DROP),  # comes back to who jumped last
        (["a forward 0: tcp dport vmap { 81 : drop }; tcp dport vmap { 80 : jump c }; reject", "c: counter"], REJECT),
        (["a forward 0: tcp dport vmap { 79-90 : goto c }; reject", "c: counter"], PASS),
        (["a forward 0: tcp dport vmap { 80 : continue } drop"], DROP),
        (["a forward 0: tcp dport != { 79-90, 443 } drop"], PASS),
        (["a forward 0: tcp dport > 79 tcp dport < 81 tcp dport >= 80 tcp dport <= 80 drop"], DROP),
        (["a forward 0: tcp dport > 80 drop"], PASS),
        (["a forward 0: tcp dport 79-80 drop"], DROP),
        (["a forward 0: tcp dport 80-81 drop"], DROP),
        (["a forward 0: tcp dport 81-90 drop"], PASS),
        (["a forward 0: udp dport 80 drop"], PASS),
        (["a forward 0: udp dport != 80 drop"], PASS),  # it has no such field
        (["a forward 0: meta l4proto . th dport { udp . 80, tcp . 80 } drop"], DROP),
        (["a forward 0: ip saddr { 10.0.0.0/8, 198.51.100.0-198.51.100.9 } drop"], DROP),
        (["a forward 0: ip saddr != 198.51.100.0/24 drop"], PASS),
        (['a forward 0: iifname "eth*" drop'], DROP),
        (['a forward 0: iifname != { "veth*", "lo" } drop'], DROP),
        (
            [
                "a forward 0: meta mark set 0x5; meta mark & 0x4 != 0x0 meta mark set meta mark ^ 0x4; meta mark 0x1 drop"
            ],
            DROP,
        ),
        (["a forward 0: ct mark set 0x7; meta mark set ct mark; meta mark 7 drop"], DROP),
        (["a forward 0: meta mark set tcp dport map { 80 : 9 }; meta mark 9 drop"], DROP),
        (["a forward 0: meta mark set tcp dport map { 81 : 9 } drop"], PASS),
        (["a forward 0: fib daddr type local drop"], PASS),
        (["a forward 0: fib saddr type != local drop"], DROP),
        (["a forward 0: limit rate 1/second drop"], DROP),
        (["a forward 0: limit rate over 1/second drop"], PASS),
        (['a forward 0: log prefix "x " counter drop'], DROP),
        (["a forward 0: icmp type echo-request drop"], PASS),
        (["a forward 0: tcp flags syn drop"], DROP),
        (["a forward 0: tcp flags syn / fin,syn,rst,ack drop"], DROP),
        (["a forward 0: tcp flags != syn / fin,syn,rst,ack drop"], PASS),
        (["a forward 0: meta pkttype host drop"], DROP),
        (["a forward 0: meta pkttype { broadcast, multicast } drop"], PASS),
        (["a forward 0: meta pkttype vmap { 1 : drop, unicast : accept }"], PASS),
        (["a forward 0: ip frag-off & 0x1fff != 0 drop"], PASS),
        (["a forward 0: ip dscp cs0 drop"], DROP),
        (["a forward 0: ip dscp ef drop"], PASS),
        (["a forward 0: igmp type membership-query drop"], PASS),
        (["a forward 0: ct count over 100 drop"], PASS),
        (["a forward 0: tcp sport vmap { 22 : accept, 1024-65535 : jump b }", "b: accept"], PASS),
        (["a forward 0: tcp sport vmap { 22 : drop, * : jump b }", "b: drop"], DROP),
        (["a forward 0: iifname . tcp sport vmap { eth1 . 22 : drop, eth0 . 22 : accept }"], PASS),
        (["a forward 0: ct status & dnat == dnat drop"], PASS),
        (["a forward 0: tcp sport 90 ip daddr 10.0.0.2 drop"], PASS),  # nobody said, and it does not matter
    ],
)
def test_rules_do_what_the_kernel_does(chains: list[str], expected: str) -> None:
    assert answer(rules(*chains)).verdict == expected


@pytest.mark.parametrize(
    ("source", "expected"), [("10.1.2.3", DROP), ("192.0.2.77", DROP), ("192.0.2.1", PASS), ("172.16.0.1", PASS)]
)
def test_a_set_with_networks_is_searched_by_its_plain_parts_first(source: str, expected: str) -> None:
    ranges = """\tset s {
\t\ttype ipv4_addr . inet_proto . inet_service . ipv4_addr
\t\tflags interval
\t\telements = { 10.0.0.1 . tcp . 80-90 . 10.0.0.0/8, 10.0.0.1 . tcp . 80 . 192.0.2.70-192.0.2.79, 10.0.0.1 . tcp . 443 . 172.16.0.0/12 }
\t}"""
    ruleset = rules("a forward 0: ip daddr . meta l4proto . th dport . ip saddr @s drop", sets=ranges)
    assert answer(ruleset, replace(PACKET, source=source)).verdict == expected


def test_a_set_of_types_that_we_do_not_read_is_not_searched() -> None:
    flags = "\tset s {\n\t\ttype ct_state\n\t\telements = { new }\n\t}"
    assert refusal(rules("a forward 0: ct state @s drop", sets=flags)).id == "rules-nft-trace-unknown"


def test_a_map_of_verdicts_may_have_an_element_for_all_else() -> None:
    ruleset = rules("a forward 0: ip saddr vmap { 10.0.0.1 : accept, * : drop }")
    assert answer(ruleset).verdict == DROP
    assert answer(ruleset, replace(PACKET, source="10.0.0.1")).verdict == PASS


# What is not known, and what does not end


@pytest.mark.parametrize(
    ("rule", "construct"),
    [
        ("meta cpu 0 drop", "meta cpu 0"),
        ("fib saddr oif 5 drop", "fib saddr oif"),
        ("ct status 5 ct status != dnat drop", ""),
        ("tproxy to :80", "tproxy"),
        ("dnat to 10.9.0.0-10.9.9.9", "dnat to 10.9.0.0-10.9.9.9"),
        ("ip saddr 10.0.0.0/99 drop", "10.0.0.0/99"),
        ("tcp dport http drop", "http"),  # nft -S
        ("tcp dport http-alt drop", "http-alt"),
        ("ip frag-off & 0x4000 != 0 drop", "ip frag-off & 16384"),
        ("tcp sport vmap { 22 : drop }", "tcp sport 22"),
        ("tcp sport . tcp dport vmap { 22 . 80 : drop, 23 . 81 : accept }", "tcp sport 22"),
        ("meta mark set oif drop", "oif"),
    ],
)
def test_a_construct_that_is_not_known_is_an_error_only_when_the_packet_comes_to_it(rule: str, construct: str) -> None:
    if not construct:
        construct, rule = "ct status", "ct status != dnat drop"
    error = refusal(rules(f"nat-a prerouting 0: {rule}"))
    assert error.id == "rules-nft-trace-unknown"
    assert construct in error.text
    assert "ip t nat-a" in error.text
    assert answer(rules(f"nat-a prerouting 0: tcp dport 81 {rule}")).verdict == PASS


@pytest.mark.parametrize(
    ("chains", "id"),
    [
        (["a forward 0: jump b"], "rules-nft-trace-absent"),
        (["a forward 0: ip daddr @s drop"], "rules-nft-trace-absent"),
        (["a forward 0: update @s { ip saddr }"], "rules-nft-trace-absent"),
        (["a forward 0: jump b", "b: goto c", "c: jump b"], "rules-nft-trace-loop"),
        (["a forward 0: numgen random mod 4000000000 0 drop"], "rules-nft-trace-budget"),
        (["a forward 0: numgen random mod 2 0 drop"], "rules-trace-undecided"),
        (["a forward 0: oifname eth1 drop"], "rules-trace-link"),
        (["nat-a prerouting 0: dnat ip to numgen random mod 2 map { 0 : 10.9.0.1 . 1 }"], "rules-trace-undecided"),
    ],
)
def test_rules_that_leave_it_open_are_an_error_by_name(chains: list[str], id: str) -> None:
    assert refusal(rules(*chains)).id == id


def test_chains_that_fan_out_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "STEPS_LIMIT", 20_000)
    fans = [f"c{at}: {'; '.join([f'jump c{at + 1}'] * 9)}" for at in range(12)]
    assert refusal(rules("a forward 0: jump c0", *fans, "c12: counter")).id == "rules-nft-trace-budget"


def test_many_packets_share_one_tracer() -> None:
    tracer = Tracer(NodeRules(parse_text(dumps.text(G2))), NODE)
    first: Optional[Answer] = None
    for _time in range(2):
        found = tracer.answer(Packet(POD, "172.30.0.41", 80, "TCP"))
        assert first in (None, found)
        first = found
