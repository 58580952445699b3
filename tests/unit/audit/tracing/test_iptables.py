# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tracer by rules that are written here; that it agrees with the meaning of Services is tests/unit/audit/test_differential.py."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.compile import compile_rules
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.objects import (
    Chain,
    Goto,
    Jump,
    Tables,
    Verdict,
    rule,
    tables,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.parse import parse
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import (
    DNAT,
    DROP,
    PASS,
    REJECT,
    UNKNOWN,
    Answer,
    Packet,
)
from tests.unit.audit.answers import to, trace
from tests.unit.rules.iptables.test_parse import NFT
from tests.unit.rules.iptables.views import SURROUNDINGS, config, everything

NODE = "192.168.1.10"
DESTINATIONS = (NODE, "10.96.0.10", "10.96.0.12", "203.0.113.11", "127.0.0.1")
CLIENT = Packet("172.16.5.5", "10.96.0.1", 80, "TCP", "eth0")
FROM_NODE = replace(CLIENT, source=NODE, inbound_interface="", node_local=True)
TO_NODE = replace(CLIENT, destination=NODE)

BUILT_IN = {
    "raw": ("PREROUTING", "OUTPUT"),
    "mangle": ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"),
    "nat": ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"),
    "filter": ("INPUT", "FORWARD", "OUTPUT"),
}


def rules(policy: str = "ACCEPT", **lines: str) -> Tables:
    """`nat="-A PREROUTING ..."`: whatever chain a line is for, a chain of one's own too, is there."""
    text = ""
    for table, chains in BUILT_IN.items():
        said = [line.strip() for line in lines.get(table, "").splitlines() if line.strip()]
        words = [word for line in said for word in line.split()]
        own = sorted({word for word in words if word in ("A", "B", "C")})
        text += f"*{table}\n" + "".join(f":{name} {policy} [0:0]\n" for name in chains)
        text += "".join(f":{name} - [0:0]\n" for name in own) + "".join(line + "\n" for line in said) + "COMMIT\n"
    return parse(text, family=4)


def ask(found: Tables, packet: Packet = CLIENT) -> Answer:
    return trace(found, packet, SURROUNDINGS)


def refusal(found: Tables, packet: Packet = CLIENT) -> BallastError:
    answer = ask(found, packet)
    assert answer.verdict == UNKNOWN
    assert answer.problem is not None
    return answer.problem


TO_POD = "-A PREROUTING -d 10.96.0.1/32 -j DNAT --to-destination 10.1.0.5:8080"
TO_POD_FROM_NODE = "-A OUTPUT -d 10.96.0.1/32 -j DNAT --to-destination 10.1.0.5:8080"
POD = to("10.1.0.5:8080")


def test_without_rules_a_packet_passes() -> None:
    assert ask(rules()) == Answer(PASS)
    assert ask(Tables(4)) == Answer(PASS)


def test_the_destination_is_rewritten_before_it_is_routed() -> None:
    assert ask(rules(nat=TO_POD)) == POD
    assert ask(rules(nat=TO_POD, filter="-A FORWARD -d 10.1.0.5/32 -p tcp -m tcp --dport 8080 -j DROP")).verdict == DROP
    assert ask(rules(nat=TO_POD, filter="-A INPUT -j DROP")) == POD
    assert ask(rules(nat=TO_POD, filter="-A FORWARD -d 10.96.0.1/32 -j DROP")) == POD


def test_a_packet_of_the_node_meets_output_and_no_prerouting() -> None:
    assert ask(rules(nat=TO_POD), FROM_NODE) == Answer(PASS)
    assert ask(rules(nat=TO_POD_FROM_NODE), FROM_NODE) == POD
    assert ask(rules(nat=TO_POD_FROM_NODE, filter="-A OUTPUT -d 10.1.0.5/32 -j DROP"), FROM_NODE).verdict == DROP


def test_a_packet_of_the_node_to_itself_comes_in_again_over_loopback() -> None:
    to_itself = replace(FROM_NODE, destination=NODE)
    assert ask(rules(filter="-A INPUT -i lo -m conntrack --ctstate NEW -j DROP"), to_itself).verdict == DROP
    assert ask(rules(filter="-A INPUT ! -i lo -j DROP"), to_itself) == Answer(PASS)
    assert ask(rules(filter="-A OUTPUT -o lo -j DROP"), to_itself).verdict == DROP
    settled = rules(nat="-A PREROUTING -j DNAT --to-destination 10.1.0.5:8080")
    assert ask(settled, to_itself) == Answer(PASS), "nat had its say in OUTPUT"


def test_accept_ends_one_table_and_drop_ends_all() -> None:
    accepted = rules(
        mangle="-A PREROUTING -j ACCEPT\n-A PREROUTING -j DROP",
        nat="-A PREROUTING -j ACCEPT",
        filter="-A FORWARD -j DROP",
    )
    assert ask(accepted).verdict == DROP
    assert ask(rules(raw="-A PREROUTING -j DROP", nat=TO_POD)).verdict == DROP


def test_a_policy_is_for_what_no_rule_ended() -> None:
    assert ask(rules("DROP")).verdict == DROP
    returned = rules("DROP", raw="-A PREROUTING -j ACCEPT", mangle="-A PREROUTING -j RETURN")
    assert "mangle: policy of PREROUTING" in ask(returned).why


def test_jump_comes_back_and_goto_does_not() -> None:
    back = "-A A -j RETURN\n-A A -j ACCEPT\n"
    assert ask(rules(filter=f"{back}-A FORWARD -j A\n-A FORWARD -j DROP")).verdict == DROP
    assert ask(rules(filter=f"{back}-A FORWARD -g A\n-A FORWARD -j DROP")) == Answer(PASS)
    two = "-A B -g A\n-A B -j DROP\n-A FORWARD -j B\n-A FORWARD -j REJECT --reject-with icmp-port-unreachable"
    assert ask(rules(filter=back + two)).verdict == REJECT, "a goto returns to where the last jump came from"


@pytest.mark.parametrize(
    ("match", "holds"),
    [
        ("-s 172.16.0.0/16", True),
        ("! -s 172.16.0.0/16", False),
        ("-d 10.96.0.0/24", True),
        ("-d 10.96.0.2/32", False),
        ("! -d 10.96.0.2/32", True),
        ("-i eth0", True),
        ("-i eth+", True),
        ("-i eth", False),
        ("! -i eth+", False),
        ("-p tcp", True),
        ("! -p udp", True),
        ("-p tcp -m tcp --dport 80", True),
        ("-p tcp -m tcp ! --dport 80", False),
        ("-p udp -m udp --dport 80", False),
        ("-m conntrack --ctstate NEW,ESTABLISHED", True),
        ("-m conntrack ! --ctstate NEW", False),
        ("-m conntrack --ctstate INVALID,DNAT", False),
        ("-m addrtype --dst-type LOCAL", False),
        ("-m addrtype ! --src-type LOCAL", True),
        ("-m mark --mark 0x0/0x4000", True),
        ("-m mark ! --mark 0x0/0x4000", False),
        ("-m nfacct --nfacct-name x", True),
        ("-m recent --set --name X", True),
        ("-m recent --rcheck --seconds 60 --name X", False),
        ("-m statistic --mode random --probability 1.00000000000", True),
        ("-m statistic --mode random --probability 0.00000000000", False),
    ],
)
def test_what_matches(match: str, holds: bool) -> None:
    assert ask(rules(filter=f"-A FORWARD {match} -j DROP")).verdict == (DROP if holds else PASS)


def test_before_conntrack_a_packet_has_no_state() -> None:
    assert ask(rules(raw="-A PREROUTING -m conntrack --ctstate INVALID -j DROP")).verdict == DROP


def test_after_dnat_the_state_says_so() -> None:
    assert ask(rules(nat=TO_POD, filter="-A FORWARD -m conntrack --ctstate DNAT -j DROP")).verdict == DROP


def test_a_rule_without_target_ends_nothing() -> None:
    assert ask(rules(filter='-A FORWARD -m comment --comment "counts"\n-A FORWARD -j DROP')).verdict == DROP


def test_marks_are_cleared_and_flipped_as_the_kernel_does() -> None:
    steps = "-j MARK --set-xmark 0x4001/0x4001\n-A PREROUTING -j MARK --set-xmark 0x4000/0x0\n"
    found = rules(mangle=f"-A PREROUTING {steps}", filter="-A FORWARD -m mark --mark 0x1 -j DROP")
    assert ask(found).verdict == DROP
    found = rules(
        mangle="-A PREROUTING -j MARK --set-xmark 0x1/0xffffffff", filter="-A FORWARD -m mark --mark 0x1 -j DROP"
    )
    assert ask(found).verdict == DROP


LOTS = """
    -A PREROUTING -d 10.96.0.1/32 -m statistic --mode random --probability 0.50000000000 -j A
    -A PREROUTING -d 10.96.0.1/32 -j B
    -A A -s 172.16.5.5/32 -j C
    -A C -j MARK --set-xmark 0x4000/0x4000
    -A A -j DNAT --to-destination 172.16.5.5:8080
    -A B -j DNAT --to-destination 10.1.0.5:8080
    -A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE
"""


def test_lots_are_drawn_in_every_way() -> None:
    found = ask(rules(nat=LOTS))
    assert found.endpoints == ("10.1.0.5:8080", "172.16.5.5:8080")


def test_masquerade_for_the_packets_own_source_is_hairpin() -> None:
    found = ask(rules(nat=LOTS))
    assert (found.masquerade, found.hairpin) == (None, ("172.16.5.5:8080",))


def test_a_mark_that_everyone_gets_is_no_hairpin() -> None:
    found = ask(rules(nat="-A PREROUTING -j C\n" + LOTS))
    assert (found.masquerade, found.hairpin) == (True, ())


def test_a_packet_that_stays_on_the_node_keeps_its_source() -> None:
    nat = f"-A PREROUTING -d 10.96.0.1/32 -j DNAT --to-destination {NODE}:8080\n-A POSTROUTING -j MASQUERADE"
    assert ask(rules(nat=nat)) == to(f"{NODE}:8080")


def test_masquerade_is_of_the_endpoints_that_a_packet_leaves_the_node_for() -> None:
    some = LOTS.replace("--to-destination 10.1.0.5", f"--to-destination {NODE}").replace(
        "-A A -s 172.16.5.5/32", "-A A"
    )
    found = ask(rules(nat=some))
    assert found.masqueraded == (("172.16.5.5:8080", True), (f"{NODE}:8080", False))
    assert found.masquerade is None


def test_affinity_is_told_by_the_rule_that_asks_for_it() -> None:
    nat = "-A PREROUTING -p tcp -m recent --rcheck --seconds 60 --reap --name X -j A\n-A A -j ACCEPT\n" + TO_POD
    assert ask(rules(nat=nat)).affinity_seconds == 60
    assert ask(rules(nat=nat.replace("-p tcp", "-p udp"))).affinity_seconds == 0


def test_equal_ways_are_one_way() -> None:
    """Sixty lots that change nothing have 2**60 ways through them."""
    lots = "-A FORWARD -m statistic --mode random --probability 0.50000000000 -j A\n" * 60
    assert ask(rules(filter=f"-A A -j RETURN\n{lots}", nat=TO_POD)) == POD


def test_a_link_that_nobody_told_us_matters_only_if_the_answer_hangs_on_it() -> None:
    docker = "-A FORWARD -o docker0 -j A\n-A A -d 172.17.0.2/32 -j DROP"
    assert ask(rules(filter=docker, nat=TO_POD)) == POD
    dropped = rules(filter="-A FORWARD -o docker0 -j DROP", nat=TO_POD)
    assert "-A FORWARD -o docker0 -j DROP" in refusal(dropped).text
    assert ask(dropped).ways == (Answer(DROP), POD)
    masquerade = ask(rules(nat=f"{TO_POD}\n-A POSTROUTING ! -o docker0 -j MASQUERADE"))
    assert (masquerade.verdict, masquerade.endpoints, masquerade.masquerade) == (DNAT, POD.endpoints, None)
    assert masquerade.problem is not None
    assert "! -o docker0" in masquerade.problem.text
    assert [way.masquerade for way in masquerade.ways] == [False, True]


def test_a_route_tells_the_link() -> None:
    dropped = rules(filter="-A FORWARD -o docker0 -j DROP", nat=TO_POD)
    around = [
        replace(SURROUNDINGS, routes=(("0.0.0.0/0", "eth0"), ("10.1.0.5/32", link))) for link in ("docker0", "cni0")
    ]
    assert [trace(dropped, CLIENT, each) for each in around] == [Answer(DROP), POD]


def test_an_endpoint_that_another_program_drops_is_told() -> None:
    dropped = rules(nat=LOTS, filter="-A FORWARD -d 10.1.0.5/32 -j DROP")
    assert "dnat to 172.16.5.5:8080 masqueraded; drop" in refusal(dropped).text


@pytest.mark.parametrize(
    "line",
    [
        "-A FORWARD -p tcp -m geoip --source-country XX -j DROP",
        "-A FORWARD -p tcp -j NFQUEUE --queue-num 0",
        "-A FORWARD -m ipvs --vaddr 10.96.0.1/32 --vproto tcp --vport 80 -j DROP",
    ],
)
def test_what_is_not_known_is_told_when_a_packet_comes_to_it(line: str) -> None:
    error = refusal(rules(filter=line))
    assert error.id == "rules-iptables-unknown"
    assert line.split("-m " if "-m " in line else "-j ")[1].split(" -j")[0] in error.text
    away = line.replace("FORWARD", "FORWARD -s 10.9.9.9/32")
    assert ask(rules(filter=away)) == Answer(PASS)


def test_a_rule_that_only_counts_may_ask_what_it_likes() -> None:
    assert ask(rules(filter="-A FORWARD -m quota --quota 5")) == Answer(PASS)


def test_a_loop_is_told() -> None:
    assert refusal(rules(filter="-A FORWARD -j A\n-A A -j B\n-A B -j A")).id == "rules-iptables-loop"


def test_a_chain_that_is_not_there_is_told() -> None:
    found = tables(4, {"filter": {"FORWARD": Chain("FORWARD", (rule(target=Jump("GONE")),), "ACCEPT")}})
    assert refusal(found).id == "rules-iptables-chain"


def test_chains_too_deep_to_follow_are_told() -> None:
    chains = {f"C{depth}": Chain(f"C{depth}", (rule(target=Jump(f"C{depth + 1}")),)) for depth in range(2000)}
    chains |= {"FORWARD": Chain("FORWARD", (rule(target=Jump("C0")),), "ACCEPT"), "C2000": Chain("C2000")}
    assert refusal(tables(4, {"filter": chains})).id == "rules-iptables-deep"


def test_chains_that_multiply_are_given_up() -> None:
    chains = {"FORWARD": Chain("FORWARD", (rule(target=Goto("C0")),), "ACCEPT")}
    for depth in range(40):
        chains[f"C{depth}"] = Chain(f"C{depth}", (rule(target=Jump(f"C{depth + 1}")),) * 2)
    chains["C40"] = Chain("C40", (rule(target=Verdict("RETURN")),))
    assert refusal(tables(4, {"filter": chains})).id == "rules-iptables-budget"


def test_a_dump_of_a_node_with_other_programs_is_traced() -> None:
    """tests/unit/rules/iptables/dumps: docker, flannel and the kubelet beside kube-proxy."""
    found = parse(NFT, family=4)
    sticky = ("10.1.0.5:8080", "10.1.0.6:8080", "10.1.0.7:8080")
    from_pod = Packet("10.1.0.99", "10.96.0.12", 80, "TCP", "cni0")
    assert ask(found, from_pod) == to(*sticky, affinity=10800)
    itself = replace(from_pod, source="10.1.0.6")
    assert ask(found, itself) == to(*sticky, hairpin=("10.1.0.6:8080",), affinity=10800)
    outside = replace(CLIENT, destination="203.0.113.11")
    assert ask(found, outside) == to(*sticky, masquerade=True, affinity=10800)
    assert ask(found, replace(CLIENT, destination="10.96.0.10")).verdict == REJECT
    assert ask(found, replace(TO_NODE, port=30081)).verdict == REJECT
    martian = replace(TO_NODE, destination="127.0.0.1", port=10249)
    assert ask(found, martian).verdict == DROP
    assert ask(found, replace(TO_NODE, port=22)) == Answer(PASS)


@given(gone=st.lists(st.integers(0, len(NFT.splitlines()) - 1), max_size=8), destination=st.sampled_from(DESTINATIONS))
def test_a_dump_without_some_lines_gives_an_answer_or_an_error_of_ours(gone: list[int], destination: str) -> None:
    text = "\n".join(line for number, line in enumerate(NFT.splitlines()) if number not in gone)
    with suppress(BallastError):
        found = parse(text, family=4)
        answer = ask(found, replace(CLIENT, destination=destination))
        assert answer.verdict in (DNAT, DROP, PASS, REJECT) or answer.problem is not None


def test_the_answer_says_which_rules_had_a_say() -> None:
    found = compile_rules(everything(4), config())
    why = ask(found, replace(CLIENT, destination="198.51.100.10", source="192.0.2.99")).why
    assert [line.split()[2] for line in why] == ["FORWARD", "KUBE-PROXY-FIREWALL"]
    why = ask(found, Packet("10.1.0.99", "10.96.0.11", 80, "TCP", "cni0")).why
    assert [line.split()[2].split("-")[1] for line in why if "KUBE" in line.split()[2]] == [
        "SERVICES",
        "SVC",
        "SEP",
        "SVC",
        "SEP",
    ]
