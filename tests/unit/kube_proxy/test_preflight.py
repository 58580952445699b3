# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of checks, row by row, and what a preflight makes of it."""

from __future__ import annotations

import re
import string
from dataclasses import replace

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import UserError
from ansible_collections.ballast.kube.plugins.module_utils._core.text.packages import parse_distribution
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.facts import Facts
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.messages import MESSAGES
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.rule import (
    BLOCKER,
    MODES,
    WARNING,
    PreflightFinding,
    Rule,
    Transition,
)
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.rules import (
    RULES,
    acknowledge_problems,
    preflight,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import IPTABLES, IPVS, NFTABLES, FamilyView
from tests.unit.kube_proxy.preflight_cases import (
    CASES,
    FOREIGN,
    LOCALHOST,
    LOCALHOST_ASKED,
    MARKED,
    SECOND,
    UDP_NODE_PORT,
    WITH_PORT,
    Case,
    changed,
    gates,
    interfaces,
    known,
    servers,
    troubled,
)
from tests.unit.rules import given
from tests.unit.rules.nftables.views import service

BY_ID = {rule.id: rule for rule in RULES}
MANY = "preflight-nftables-many"


def many(services: int, endpoints: int, *, version: str = "v1.35.8") -> Facts:
    """So many in all, in IPv4."""
    found = known(version=version)
    ports = [service(f"s{number}", "10.96.0.1")._replace(endpoints=()) for number in range(services)]
    view: FamilyView = found.views[4]
    one = view.services[0].endpoints[0]
    ports[0] = ports[0]._replace(endpoints=(one,) * endpoints)
    return replace(found, views={4: replace(view, services=tuple(ports), frontends=())})


CASES = {
    **CASES,
    MANY: Case(many(5_001, 1), (many(5_000, 50_000), many(5_001, 1, version="v1.36.0"))),
}


def found_in(facts: Facts) -> dict[str, PreflightFinding]:
    return {one.id: one for one in preflight(facts)}


def test_there_is_a_case_for_each_rule_and_no_other() -> None:
    assert sorted(CASES) == sorted(BY_ID)
    assert len(BY_ID) == len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_says_what_to_do_and_where_it_is_known_from(rule: Rule) -> None:
    assert rule.text
    assert rule.remedy
    assert rule.source
    assert rule.reads
    fields = {name for text in (rule.text,) for _t, name, _f, _c in string.Formatter().parse(text) if name}
    assert fields <= {"from_mode", "to_mode", "version"}
    assert not [name for _t, name, _f, _c in string.Formatter().parse(rule.remedy) if name]


def test_every_text_is_of_a_rule_or_of_the_option() -> None:
    assert set(MESSAGES.rows) - set(BY_ID) == {"preflight-acknowledge-unknown", "preflight-acknowledge-hard"}


@pytest.mark.parametrize("id", sorted(BY_ID))
def test_a_rule_finds_what_it_is_for_and_that_alone(id: str) -> None:
    found = found_in(CASES[id].finds)
    assert sorted(found) == sorted((id, *CASES[id].beside))
    assert found[id].severity == BY_ID[id].severity
    assert all(found[id].found)
    assert not re.search(r"[{}]", found[id].text)


@pytest.mark.parametrize(
    ("id", "number"), [(id, number) for id in sorted(CASES) for number in range(len(CASES[id].nearest))]
)
def test_a_rule_does_not_find_what_is_next_to_it(id: str, number: int) -> None:
    assert id not in found_in(CASES[id].nearest[number])


@pytest.mark.parametrize("version", ["v1.36.4", "v1.37.1", "v1.40.0"])
@pytest.mark.parametrize("deployment", ["service", "daemonset"])
@pytest.mark.parametrize(("from_mode", "to_mode"), [(IPTABLES, NFTABLES), (NFTABLES, IPTABLES), ("", NFTABLES)])
def test_nothing_is_found_on_a_plain_node(version: str, deployment: str, from_mode: str, to_mode: str) -> None:
    assert preflight(known(from_mode, to_mode, version=version, deployment=deployment)) == []


ALWAYS = "rules-refused tool-missing unread"
OF_CHANGES = "antrea cilium duplicates external-ips kube-router"
OF_IPTABLES_TO_NFTABLES = (
    "calico-iptables firewall-forward firewall-input firewalld-flush flush-ruleset foreign-virtual-servers kernel-too-old "
    "kube-chains-changed kube-chains-used module-missing nft-too-old node-local-dns node-port-addresses portmap "
    "section-ignored source-ranges"
)
OUT_OF_IPVS = "ipvs-addresses-used ipvs-scheduler ipvs-strict-arp ipvs-timeouts"
IPVS_TO_NFTABLES = "ipvs-connections ipvs-exclude-cidrs udp-connections"
INTO_IPVS = "ipvs-deprecated ipvs-module-missing ipvs-own-address ipvs-takes-virtual-servers"


@pytest.mark.parametrize(
    ("from_mode", "to_mode", "wanted"),
    [
        (IPTABLES, IPTABLES, [ALWAYS]),
        (IPTABLES, IPVS, [ALWAYS, OF_CHANGES, INTO_IPVS, "node-port-localhost"]),
        (IPTABLES, NFTABLES, [ALWAYS, OF_CHANGES, OF_IPTABLES_TO_NFTABLES, "conntrack-invalid node-port-localhost"]),
        (IPVS, IPTABLES, [ALWAYS, OF_CHANGES, OUT_OF_IPVS]),
        (IPVS, IPVS, [ALWAYS, "ipvs-module-missing"]),
        (IPVS, NFTABLES, [ALWAYS, OF_CHANGES, OF_IPTABLES_TO_NFTABLES, OUT_OF_IPVS, IPVS_TO_NFTABLES]),
        (NFTABLES, IPTABLES, [ALWAYS, OF_CHANGES, "calico-nftables section-ignored"]),
        (NFTABLES, IPVS, [ALWAYS, OF_CHANGES, INTO_IPVS, "calico-nftables section-ignored"]),
        (NFTABLES, NFTABLES, [ALWAYS]),
    ],
)
def test_a_check_is_asked_for_the_changes_that_it_bears_on(from_mode: str, to_mode: str, wanted: list[str]) -> None:
    """Where the mode stays, what a change of it would be asked has held already."""
    found = found_in(troubled(from_mode, to_mode))
    assert sorted(found) == sorted(f"preflight-{one}" for words in wanted for one in words.split())


# More of single rules


def test_node_ports_that_are_lost_are_named_with_their_address() -> None:
    found = found_in(CASES["preflight-node-port-addresses"].finds)["preflight-node-port-addresses"]
    assert found.found == ("10.50.0.10: node port 30080/TCP of default/web:http",)


def test_a_mode_that_stays_can_lose_node_ports_too() -> None:
    """primary is asked for now."""
    wanted = {"nodePortAddresses": ["primary"]}
    found = found_in(known(IPTABLES, IPTABLES, objects=WITH_PORT, links=SECOND, wanted=wanted))
    assert sorted(found) == ["preflight-node-port-addresses", "preflight-node-port-localhost"]


def test_packets_on_localhost_are_told_as_evidence() -> None:
    id = "preflight-node-port-localhost"
    counted = found_in(known(objects=WITH_PORT, metrics=LOCALHOST))[id].found
    assert counted == ("127.0.0.1: node port 30080/TCP of default/web:http; since kube-proxy's start: 5 packets",)
    assert found_in(known(objects=WITH_PORT))[id].found[0].endswith("not counted")


def test_the_proxy_on_localhost_does_not_serve_udp() -> None:
    id = "preflight-node-port-localhost"
    both = (*WITH_PORT, UDP_NODE_PORT)
    found = found_in(known(objects=both, version="v1.37.1", wanted=LOCALHOST_ASKED))[id]
    assert found.found[0].startswith("127.0.0.1: node port 30053/UDP of default/dns:dns;")
    assert id in found_in(known(objects=WITH_PORT, version="v1.36.4", wanted=LOCALHOST_ASKED))
    off = {**LOCALHOST_ASKED, "featureGates": {}}
    assert id in found_in(known(objects=WITH_PORT, version="v1.37.1", wanted=off)), "alpha: off by itself"
    assert id not in found_in(known(objects=WITH_PORT, version="v1.38.0", wanted=off)), "beta: on by itself"


def test_foreign_virtual_servers_are_named() -> None:
    found = found_in(servers(FOREIGN, MARKED))["preflight-foreign-virtual-servers"]
    assert found.found == ("203.0.113.80 port 443/TCP", "firewall mark 7")


@pytest.mark.parametrize(
    ("version", "value", "found"),
    [("v1.31.0", False, True), ("v1.33.0", False, True), ("v1.29.0", False, True), ("v1.33.0", True, False)],
)
def test_a_gate_that_is_set_to_false_counts_in_every_release(version: str, value: bool, found: bool) -> None:
    facts = gates(IPTABLES, NFTABLES, version, NFTablesProxyMode=value)
    assert ("preflight-nftables-gate" in found_in(facts)) == found


def test_the_gate_of_ipvs_is_known_from_1_37_on() -> None:
    id = "preflight-ipvs-gate"
    assert id in found_in(gates(IPTABLES, IPVS, "v1.37.0", KubeProxyIPVS=False))
    assert id not in found_in(known(IPTABLES, IPVS, version="v1.37.0"))


def test_modules_are_told_by_lists_where_nft_cannot_ask_for_them() -> None:
    facts = changed(missing_tools=("nft",), modules={"nft_ct": "absent", "nft_nat": "loadable"})
    assert found_in(facts)["preflight-module-missing"].found == ("module nft_ct: absent",)


def test_a_node_is_told_by_its_distribution() -> None:
    red_hat = parse_distribution('ID="rhel"\nPRETTY_NAME="Red Hat Enterprise Linux 8.10 (Ootpa)"\n')
    facts = changed(kernel=(4, 18, 0), missing_tools=("nft", "ip6tables"), distribution=red_hat)
    found = found_in(facts)
    assert found["preflight-kernel-too-old"].found == ("Linux 4.18 of Red Hat Enterprise Linux 8.10 (Ootpa)",)
    tools = ("nft (dnf install nftables)", "ip6tables (dnf install iptables-nft)")
    assert found["preflight-tool-missing"].found == tools


def test_no_gate_is_asked_of_a_version_that_is_not_known() -> None:
    assert sorted(found_in(replace_version(interfaces("BridgeInterface", "v1.34.1"), ""))) == [
        "preflight-version-unknown"
    ]


def replace_version(facts: Facts, version: str) -> Facts:
    return replace(facts, change=replace(facts.change, kube_proxy_version=version))


# What a preflight makes of the rules


def test_hard_ones_come_first_and_then_the_names_decide() -> None:
    facts = changed(
        kernel=(5, 4, 0), nft=(0, 9, 8), unread=(("x", "y"),), missing_tools=("nft",), firewalld=("z",), modules={}
    )
    found = preflight(facts)
    assert [(one.severity, one.id) for one in found] == [
        (BLOCKER, "preflight-kernel-too-old"),
        (BLOCKER, "preflight-nft-too-old"),
        (BLOCKER, "preflight-tool-missing"),
        (WARNING, "preflight-firewalld-flush"),
        (WARNING, "preflight-unread"),
    ]


def test_a_soft_one_can_be_acknowledged_and_a_hard_one_cannot() -> None:
    facts = changed(kernel=(5, 4, 0), firewalld=("z",), flushing_files=("f",))
    found = preflight(facts, acknowledge=["preflight-firewalld-flush", "preflight-kernel-too-old"])
    assert [(one.id, one.acknowledged, one.is_blocking) for one in found] == [
        ("preflight-kernel-too-old", False, True),
        ("preflight-firewalld-flush", True, False),
        ("preflight-flush-ruleset", False, True),
    ]


def test_faults_in_the_option_are_told_all_at_once() -> None:
    problems = acknowledge_problems(
        ["preflight-firewall-forwards", "preflight-antrea", "preflight-kernel-too-old", "what"]
    )
    assert [one.id for one in problems] == [
        "preflight-acknowledge-unknown",
        "preflight-acknowledge-hard",
        "preflight-acknowledge-unknown",
    ]
    assert all(isinstance(one, UserError) for one in problems)
    assert problems[0].text.startswith("acknowledge[0]: preflight-firewall-forwards ")
    assert problems[0].remedy.startswith("did you mean preflight-firewall-forward")
    assert "5.13" in str(problems[1].text + problems[1].remedy) or "newer kernel" in problems[1].remedy
    assert problems[2].remedy.startswith("name one of preflight-")
    assert "preflight-kernel-too-old" not in problems[2].remedy
    assert acknowledge_problems([rule.id for rule in RULES if rule.severity == WARNING]) == []


def test_a_long_list_is_cut_with_a_count_and_signs_of_control_are_not_shown() -> None:
    things = tuple((f"thing {number}", "\x1b[2J" + "x" * 300) for number in range(25))
    (found,) = preflight(changed(unread=things))
    assert len(found.found) == 21
    assert found.found[-1] == "and 5 more"
    assert found.found[0].startswith("thing 0:  [2Jxxx")
    assert "characters left out" in found.found[0]


def test_texts_name_modes_and_version() -> None:
    (found,) = preflight(known(version="v1.32.9"))
    assert found.text.startswith("mode nftables is alpha or beta in kube-proxy v1.32.9")


@pytest.mark.parametrize("mode", [IPTABLES, IPVS])
def test_a_transition_covers_what_it_says(mode: str) -> None:
    one = Transition(leaving=(mode,), entering=(NFTABLES,))
    assert one.covers(mode, NFTABLES)
    assert not one.covers("", NFTABLES)
    assert not one.covers(mode, mode)
    assert str(one) == f"{mode} to nftables"
    assert Transition().covers("", mode)
    assert Transition(unchanged=True).covers(mode, mode)
    with pytest.raises(ValueError, match="no modes"):
        Transition(leaving=("userspace",))


@pytest.mark.parametrize(
    "wrong", [{"severity": "medium"}, {"source": ""}, {"reads": ""}, {"id": "preflight-of-no-text"}]
)
def test_a_rule_that_lacks_something_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="^rule "):
        replace(RULES[0], **wrong)  # type: ignore[arg-type]


@drawn(
    picked=st.lists(st.sampled_from(sorted(CASES)), max_size=4),
    from_mode=st.sampled_from(("", *MODES)),
    to_mode=st.sampled_from(MODES),
    version=st.sampled_from(["", "v1.28.0", "v1.30.0", "v1.34.1", "v1.36.4", "v1.40.0", "v1.43.0"]),
)
def test_any_node_gets_an_answer(picked: list[str], from_mode: str, to_mode: str, version: str) -> None:
    """Facts of several cases together, under any change: sorted, each id once, the same each time."""
    facts = changed()
    for id in picked:
        other = CASES[id].finds
        facts = replace(facts, **{name: value for name, value in vars(other).items() if name != "asked" and value})
    question = replace(facts.change, from_mode=from_mode, to_mode=to_mode, kube_proxy_version=version)
    facts = replace(facts, change=question)
    found = preflight(facts)
    assert found == preflight(facts) == sorted(found, key=lambda one: (one.severity, one.id))
    assert len({one.id for one in found}) == len(found)


def test_blanks_around_ranges_are_found_in_the_objects() -> None:
    ranged = given.balancer({"ip": "198.51.100.1"}, loadBalancerSourceRanges=[" 10.0.0.0/8", "10.0.0.0/8"])
    facts = known(objects=(ranged, given.node()))
    assert facts.padded_ranges == ("default/web: ' 10.0.0.0/8'",)
