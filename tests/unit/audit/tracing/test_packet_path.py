# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The path of a packet through all rules of a node."""

from __future__ import annotations

from dataclasses import replace
from typing import Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._audit.info import answer_as_result
from ansible_collections.ballast.kube.plugins.module_utils._audit.tracing.hook_view import HookView
from ansible_collections.ballast.kube.plugins.module_utils._audit.tracing.nft_unknown import (
    ALWAYS,
    ANYTHING,
    HARMLESS,
    MAYBE,
    NEVER,
    effect_of,
)
from ansible_collections.ballast.kube.plugins.module_utils._audit.tracing.packet_path import Tracer, trace
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.parse import parse
from ansible_collections.ballast.kube.plugins.module_utils._rules.node_rules import NodeRules
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import UNKNOWN, Answer, Packet, Surroundings
from tests.unit.audit.answers import to

NODE = Surroundings((("eth0", ("192.0.2.1",)),))
CLIENT = Packet("198.51.100.7", "10.96.0.1", 80, "TCP", "eth0")
NAT = "*nat\n:PREROUTING ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n{}\nCOMMIT\n"


def nat(*rules: str) -> NodeRules:
    return NodeRules(iptables={"nft": parse(NAT.format("\n".join(rules)), family=4)})


def test_a_packet_that_cannot_be_followed_does_not_spoil_the_rest() -> None:
    tracer = Tracer(
        nat("-A PREROUTING -d 10.96.0.1/32 -j ODD", "-A PREROUTING -j DNAT --to-destination 10.1.0.5:80"), NODE
    )
    unknown = tracer.answer(CLIENT)
    assert unknown.verdict == UNKNOWN
    assert unknown.problem is not None
    assert "-d 10.96.0.1/32 -j ODD" in unknown.problem.text
    assert tracer.answer(Packet("198.51.100.7", "10.96.0.2", 80, "TCP", "eth0")) == to("10.1.0.5:80")


def test_results_name_the_problem_and_each_endpoint() -> None:
    problem = answer_as_result(trace(nat("-A PREROUTING -j ODD"), CLIENT, NODE))["problem"]
    assert problem["id"] == "rules-iptables-unknown"
    result = answer_as_result(to("10.1.0.5:80", "10.1.0.6:80", hairpin=("10.1.0.6:80",)))
    assert result["masqueraded"] == {"10.1.0.5:80": False, "10.1.0.6:80": True}
    assert result["masquerade"] is None
    assert answer_as_result(Answer("pass"))["masquerade"] is False


@pytest.mark.parametrize(
    ("text", "effect"),
    [
        ('xt match "comment"', HARMLESS),
        ("# xt_comment # xt_LOG counter packets 3 bytes 180", HARMLESS),
        ('xt match "statistic"', MAYBE),
        ('xt target "DNAT"', ANYTHING),
        ('{"xt": {"name": "comment", "type": "match"}}', HARMLESS),
        ('{"xt": null}', ANYTHING),
        ("meta nftrace set 1", HARMLESS),
        ("tcp option maxseg size set rt mtu", HARMLESS),
        ("ct helper set @ftp", HARMLESS),
        ("meta mark set jhash ip saddr mod 2", ANYTHING),
        ("queue num 0-3 bypass", ANYTHING),
        ("meta time < 5", MAYBE),
        ("tcp flags & (fin | syn) == fin", NEVER),
        ("tcp flags syn / fin,syn,rst,ack", ALWAYS),
        ("tcp flags != syn / fin,syn,rst,ack", NEVER),
        ("tcp flags != syn / fin , syn , rst , ack", NEVER),  # as the parser keeps it
        ("esp spi 1-4294967295", NEVER),
        ("ip6 hoplimit 255", NEVER),
        ("udp length 8", NEVER),
        ("ip ttl 64", MAYBE),
        ("tcp option mptcp exists", MAYBE),
        ('{"match": {"left": {"payload": {"field": "spi", "protocol": "esp"}}, "op": "==", "right": 1}}', NEVER),
        ('{"match": {"left": {"payload": {"field": "ttl", "protocol": "ip"}}, "op": "==", "right": 1}}', MAYBE),
        ("ct count over 100", NEVER),
        ("ct count 100", ALWAYS),
        ("add @dyn { ip saddr limit rate over 10/second }", NEVER),
        ("update @dyn { ip saddr timeout 1m limit rate over 10/second burst 20 packets }", NEVER),
        ("meter m { ip saddr limit rate 10/second }", ALWAYS),
        ("add @dyn { ip saddr ct count over 20 }", NEVER),
        ("add @dyn { ip saddr quota over 20 mbytes }", MAYBE),
        ("meta skuid 0", NEVER),
    ],
)
def test_what_the_grammar_keeps_as_text_may_do(text: str, effect: str) -> None:
    assert effect_of(text, HookView(CLIENT, NODE, "forward", 0)) == effect


def test_answers_that_hang_on_many_questions_are_not_known() -> None:
    rules = [
        f"-A PREROUTING -m geoip --source-country X{number} -j MARK --set-xmark {1 << number}" for number in range(9)
    ]
    masquerade = [
        f"-A POSTROUTING -m mark --mark 0x{1 << number:x}/0x{1 << number:x} -j MASQUERADE" for number in range(9)
    ]
    answer = trace(nat(*rules, "-A PREROUTING -j DNAT --to-destination 10.1.0.5:80", *masquerade), CLIENT, NODE)
    assert answer.verdict == UNKNOWN
    assert answer.problem is not None
    assert "geoip" in answer.problem.text
    assert answer.masquerade is None


def test_a_packet_leaves_by_one_link() -> None:
    rules = [
        "-A POSTROUTING -o eth1 -j MARK --set-xmark 0x1/0x1",
        "-A POSTROUTING -o eth2 -m mark --mark 0x1/0x1 -j MASQUERADE",
    ]
    assert trace(nat("-A PREROUTING -j DNAT --to-destination 10.1.0.5:80", *rules), CLIENT, NODE) == to("10.1.0.5:80")


LINK_RULES = (
    "-A POSTROUTING -m mark --mark 0x1/0x1 -j MASQUERADE",
    "-A PREROUTING -d 10.96.0.1/32 -j DNAT --to-destination 10.1.0.5:80",
)
BY_ETH1 = "-A PREROUTING -i eth1 -j MARK --set-xmark 0x1/0x1"


@pytest.mark.parametrize(
    ("route", "rule", "masqueraded"),
    [
        ((), BY_ETH1, None),
        ((("198.51.100.0/24", "eth1"),), BY_ETH1, True),
        ((("198.51.100.0/24", "eth2"),), BY_ETH1, False),
        ((("0.0.0.0/0", ""),), BY_ETH1, None),  # several next hops
        ((), "-A PREROUTING -i lo -j MARK --set-xmark 0x1/0x1", False),  # only packets of the node itself
        ((), "-A PREROUTING ! -i lo -j MARK --set-xmark 0x1/0x1", True),
        ((("198.51.100.0/24", "eth12"),), "-A PREROUTING -i eth+ -j MARK --set-xmark 0x1/0x1", True),
    ],
)
def test_a_packet_comes_by_the_link_that_leads_to_its_source(
    route: tuple[tuple[str, str], ...], rule: str, masqueraded: Optional[bool]
) -> None:
    packet = replace(CLIENT, source="198.51.100.7", inbound_interface="")
    answer = trace(nat(rule, *LINK_RULES), packet, replace(NODE, routes=route))
    assert (answer.verdict, answer.masquerade) == ("dnat", masqueraded)


def test_a_link_that_is_not_known_is_asked_for_with_its_remedy() -> None:
    packet = replace(CLIENT, source="198.51.100.7", inbound_interface="")
    problem = trace(nat(BY_ETH1, *LINK_RULES), packet, NODE).problem
    assert problem is not None
    assert problem.id == "rules-trace-link"
    assert "ip -j route" in problem.remedy
    named = replace(packet, not_from="eth")
    assert trace(nat(BY_ETH1, *LINK_RULES), named, NODE).masquerade is False


def test_docker_receives_packets_of_its_own_network_alone_by_its_bridge() -> None:
    docker = "-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE"
    by_docker = "-A PREROUTING -i docker0 -j MARK --set-xmark 0x1/0x1"
    packet = replace(CLIENT, source="198.51.100.7", inbound_interface="")
    assert trace(nat(docker, by_docker, *LINK_RULES), packet, NODE).masquerade is False


def test_rules_ask_for_one_inbound_link_alone() -> None:
    rules = [
        "-A PREROUTING -i eth1 -j MARK --set-xmark 0x2/0x2",
        "-A PREROUTING -i eth2 -m mark --mark 0x2/0x2 -j MARK --set-xmark 0x1/0x1",
    ]
    packet = replace(CLIENT, source="198.51.100.7", inbound_interface="")
    assert trace(nat(*rules, *LINK_RULES), packet, NODE).masquerade is False
