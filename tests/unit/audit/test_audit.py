# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The audit of nodes that real releases of kube-proxy have written, well and hurt, and of what a node has besides.

nodes/kube-proxy-VERSION has what the tools printed of one node in each mode, with the Services of
tests/integration/cluster_of_every_kind.py; test_rules_kube_proxy.py there asks the same of a kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._audit.audit import AuditFinding, AuditInput, Facts, audit
from ansible_collections.ballast.kube.plugins.module_utils._audit.dump.reading import read_dump
from ansible_collections.ballast.kube.plugins.module_utils._audit.dump_reading import DumpReading
from ansible_collections.ballast.kube.plugins.module_utils._audit.facts import (
    SETTINGS,
    UdpConnection,
    dump_facts,
    parse_connections,
    read_facts,
)
from ansible_collections.ballast.kube.plugins.module_utils._audit.kernel_reading import KernelReading
from ansible_collections.ballast.kube.plugins.module_utils._audit.messages import CLASSES
from ansible_collections.ballast.kube.plugins.module_utils._rules.backend import Backend
from ansible_collections.ballast.kube.plugins.module_utils._rules.config import parse_config
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.backend import Iptables
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.parse import parse as parse_iptables
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.compile import required_sysctls
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import RuleConfig
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.backend import Nftables
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.objects import Ruleset
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import Surroundings
from ansible_collections.ballast.kube.plugins.module_utils._rules.parse import parse_snapshot_text
from tests.unit.fakes import FakeHost

NODES = Path(__file__).with_name("nodes")
VERSIONS = sorted(path.name.rpartition("-")[2] for path in NODES.iterdir())
NEWEST = VERSIONS[-1]
LINKS = (
    ("lo", ("127.0.0.1", "::1")),
    ("eth0", ("10.97.249.11",)),
    ("eth1", ("10.50.0.11",)),
    ("cni0", ("10.244.1.1",)),
)
ADDRESSES = ["10.97.249.11", "10.50.0.11", "10.244.1.1"]
CONFIG = {"clusterCIDR": "10.244.0.0/16"}
BACKENDS: Mapping[str, Backend] = {"nftables": Nftables("kube-proxy"), "iptables": Iptables()}


def parse_nftables(text: str) -> Ruleset:
    return read_dump(text).nftables or Ruleset()


def node(mode: str, version: str = NEWEST, *, text: Optional[str] = None, other: str = "") -> AuditInput:
    """As it was saved; `text` in the place of its rules, `other` a mode whose rules these are in truth."""
    place = NODES / f"kube-proxy-{version}"
    snapshot = parse_snapshot_text((place / "snapshot.json").read_text(), node_name="n1", node_ips=ADDRESSES)
    saved = (place / f"{mode}.txt").read_text() if text is None else text
    backend = BACKENDS[mode]
    configs = {
        family: parse_config(CONFIG, backend=mode, family=family, node=snapshot.view(family).node) for family in (4, 6)
    }
    reading = DumpReading(saved, backend)
    rules = {family: reading.rules(family) for family in (4, 6)}
    return AuditInput(snapshot, configs, backend, rules, Surroundings(LINKS), owner="kube-proxy")


def saved(mode: str, version: str = NEWEST) -> str:
    return (NODES / f"kube-proxy-{version}" / f"{mode}.txt").read_text()


def ids(findings: list[AuditFinding]) -> list[tuple[str, str]]:
    return [(one.id, one.service) for one in findings]


def hurt(mode: str, before: str, after: str) -> list[AuditFinding]:
    """The audit of a dump in which one line is another."""
    text = saved(mode)
    assert text.count(before) == 1, before
    return audit(node(mode, text=text.replace(before, after)), Facts())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mode", BACKENDS)
def test_a_healthy_node_has_no_finding(mode: str, version: str) -> None:
    assert audit(node(mode, version), Facts()) == []


# Entries


def test_a_service_without_its_element_is_missing() -> None:
    text = "10.96.7.11 . tcp . 80 : goto service-COL4VJNJ-default/single/tcp/http,"
    found = hurt("nftables", text, "")
    assert ids(found) == [("rules-audit-missing", "default/single:http")]
    assert found[0].expected == (
        "a packet from outside, 192.0.2.99 to 10.96.7.11:80/TCP: dnat to 10.244.1.7:8080, masqueraded"
    )
    assert found[0].found == "reject; the same holds for 2 more of its packets"


def test_a_service_that_leads_elsewhere_is_wrong() -> None:
    there = "10.96.7.11 . tcp . 80 : goto service-COL4VJNJ-default/single/tcp/http"
    elsewhere = "10.96.7.11 . tcp . 80 : goto service-RKRO65MS-default/single-away/tcp/http"
    found = hurt("nftables", there, elsewhere)
    assert ids(found) == [("rules-audit-wrong", "default/single:http")]
    assert "dnat to 10.244.2.7:8080" in found[0].found


def test_an_endpoint_too_few_is_wrong_though_the_lot_may_fall_on_others() -> None:
    lines = [line for line in saved("nftables").splitlines() if "10.244.2.116 . 8080" in line]
    assert len(lines) == 1
    fewer = lines[0].replace(", 16 : 10.244.2.116 . 8080", "")
    assert fewer != lines[0]
    found = hurt("nftables", lines[0], fewer)
    assert ids(found) == [("rules-audit-wrong", "default/many:http")]
    assert "random choice" in found[0].found


def test_rules_for_what_no_service_has_are_extra() -> None:
    there = "10.96.7.11 . tcp . 80 : goto service-COL4VJNJ-default/single/tcp/http"
    more = "10.96.7.211 . tcp . 80 : goto service-COL4VJNJ-default/single/tcp/http"
    found = hurt("nftables", there, f"{there}, {more}")
    assert ids(found) == [("rules-audit-extra", "")]
    assert "10.96.7.211:80/TCP" in found[0].expected


def test_many_extra_ones_are_one_finding() -> None:
    there = "10.96.7.11 . tcp . 80 : goto service-COL4VJNJ-default/single/tcp/http"
    more = ", ".join(there.replace("10.96.7.11", f"10.96.8.{number}") for number in range(1, 60))
    assert ids(hurt("nftables", there, f"{there}, {more}")) == [("rules-audit-extra", "")]


def test_a_cluster_ip_that_is_not_in_the_set_of_them_is_told_of() -> None:
    assert ids(hurt("nftables", "10.96.7.13, 10.96.7.16,", "10.96.7.16,")) == [
        ("rules-audit-wrong", "default/none:http")
    ]


def test_what_all_services_have_in_common_is_one_finding() -> None:
    rule = "ip daddr @cluster-ips ip saddr != 10.244.0.0/16 meta mark set meta mark | 0x00004000"
    found = hurt(
        "nftables", rule, "ip daddr @cluster-ips ip saddr != 10.244.0.0/16 meta mark set meta mark | 0x00008000"
    )
    assert ids(found) == [("rules-audit-common", "")]
    assert "masqueraded" in found[0].expected


@pytest.mark.parametrize("version", VERSIONS)
def test_masquerading_that_ceased_is_one_finding_though_hairpins_may_go_on(version: str) -> None:
    first, chain, rest = saved("nftables", version).partition("\tchain masquerading {\n")
    found = audit(node("nftables", version, text=f"{first}{chain}\t\tmeta mark set 0x00000000\n{rest}"), Facts())
    assert ids(found) == [("rules-audit-common", "")]


def test_a_rule_of_a_service_less_is_missing_in_iptables() -> None:
    line = next(one for one in saved("iptables").splitlines() if one.startswith("-A KUBE-SERVICES -d 10.96.7.11/32"))
    assert ids(hurt("iptables", f"{line}\n", "")) == [("rules-audit-missing", "default/single:http")]


# Structure


def test_a_table_that_is_gone_is_one_finding() -> None:
    assert ids(audit(node("nftables", text=""), Facts())) == [("rules-audit-table", "")]


def test_a_family_without_services_may_have_no_table() -> None:
    whole = parse_nftables(saved("nftables"))
    assert ("ip6", "kube-proxy") in whole.tables
    ipv4 = replace(node("nftables"), rules={4: whole.tables["ip", "kube-proxy"], 6: None})
    assert audit(ipv4, Facts()) == []


@pytest.mark.parametrize(
    ("before", "after", "id"),
    [
        (
            "type nat hook output priority -100; policy accept;",
            "type nat hook output priority -99; policy accept;",
            "base",
        ),
        (
            "type nat hook output priority -100; policy accept;",
            "type nat hook output priority -100; policy drop;",
            "base",
        ),
    ],
)
def test_a_base_chain_that_was_changed_is_told_of_and_nothing_that_follows_from_it(
    before: str, after: str, id: str
) -> None:
    whole = saved("nftables")
    first, rest = whole.split(before, 1)
    found = audit(node("nftables", text=first + after + rest), Facts())
    assert ids(found) == [("rules-audit-base-chain", "")]
    assert "nat-output" in found[0].expected


def test_a_chain_of_an_unknown_name_is_told_of() -> None:
    table = "table ip kube-proxy {\n"
    chain = "chain guard {\n\t\ttype filter hook forward priority 5; policy drop;\n\t}\n"
    assert ids(hurt("nftables", table, f"{table}\t{chain}")) == [("rules-audit-unknown-chain", "")]


def test_a_chain_that_nothing_leads_to_is_stale_unless_it_is_empty() -> None:
    table = "table ip kube-proxy {\n"
    empty = "chain service-AAAAAAAA-default/left/tcp/http {\n\t}\n"
    filled = empty.replace("{\n", "{\n\t\tdrop\n")
    assert hurt("nftables", table, f"{table}\t{empty}") == []
    assert ids(hurt("nftables", table, f"{table}\t{filled}")) == [("rules-audit-stale-chain", "")]


def test_the_jumps_of_iptables_are_asked_for() -> None:
    line = next(one for one in saved("iptables").splitlines() if one.startswith("-A POSTROUTING"))
    text = saved("iptables").replace(f"{line}\n", "", 1)
    found = audit(node("iptables", text=text), Facts())
    assert ids(found) == [("rules-audit-chains", "")]
    assert "nat POSTROUTING to KUBE-POSTROUTING" in found[0].expected


# What a node has besides


def foreign(text: str) -> Facts:
    return Facts(ruleset=parse_nftables(text))


GUARD = "table inet guard {\n\tchain forward {\n\t\ttype filter hook forward priority 0; policy %s;\n%s\t}\n}\n"


@pytest.mark.parametrize("mode", BACKENDS)
def test_another_table_that_drops_what_services_serve_is_told_of_once(mode: str) -> None:
    found = audit(node(mode), foreign(GUARD % ("drop", "\t\ttcp dport 22 accept\n")))
    assert ids(found) == [("rules-audit-foreign-drop", "")]
    assert "table inet guard" in found[0].found or "inet guard forward" in found[0].found


@pytest.mark.parametrize("mode", BACKENDS)
def test_another_table_that_drops_something_else_is_well(mode: str) -> None:
    assert audit(node(mode), foreign(GUARD % ("accept", "\t\ttcp dport 22 drop\n"))) == []


def test_another_table_that_cannot_be_followed_is_told_of_if_it_drops() -> None:
    unknown = "\t\tmeta skuid 7 accept\n"
    assert audit(node("nftables"), foreign(GUARD % ("accept", unknown))) == []
    found = audit(node("nftables"), foreign(GUARD % ("drop", unknown)))
    assert ids(found) in ([("rules-audit-foreign-unclear", "")], [("rules-audit-foreign-drop", "")])


def test_rules_of_iptables_beside_nftables_are_followed_too() -> None:
    closed = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n"
    facts = Facts(iptables={("nft", 4): parse_iptables(closed, family=4)})
    found = audit(node("nftables"), facts)
    assert ids(found) == [("rules-audit-foreign-drop", "")]
    assert "policy of FORWARD" in found[0].found


def test_what_other_backends_left_is_told_of() -> None:
    iptables = parse_iptables(saved("iptables").partition("# Generated by ip6tables")[0], family=4)
    facts = Facts(
        iptables={("legacy", 4): iptables},
        service_tables=(("ip", "kube-proxy"),),
        link=True,
        virtual_servers=("TCP  0A600001:01BB rr",),
        sets=("KUBE-6-CLUSTER-IP", "of-someone-else", "KUBE-SRC-of-kube-router"),
    )
    found = audit(node("nftables"), facts)
    assert [one.id for one in found] == ["rules-audit-residue"] * 4
    told = " ".join(one.found for one in found)
    assert "iptables (legacy) has" in told
    assert "kube-ipvs0" in told
    assert "KUBE-6-CLUSTER-IP" in told
    assert "of-someone-else" not in told
    assert "KUBE-SRC" not in told
    found = audit(node("iptables"), Facts(service_tables=(("ip6", "kube-proxy"),)))
    assert [(one.id, one.family) for one in found] == [("rules-audit-residue", 6)]


def test_a_setting_that_the_backend_needs_is_asked_for() -> None:
    name = "net.ipv4.conf.all.route_localnet"
    assert audit(node("iptables"), Facts(settings={name: "1"})) == []
    found = audit(node("iptables"), Facts(settings={name: "0"}))
    assert [(one.id, one.expected, one.found) for one in found] == [
        ("rules-audit-setting", f"{name} = 1", f"{name} = 0")
    ]
    assert audit(node("nftables"), Facts(settings={name: "0"})) == []


def test_every_setting_of_a_backend_is_read() -> None:
    for kernel in ((4, 19), (6, 12)):
        names = {name for name, _value in required_sysctls(RuleConfig("ipvs", strict_arp=True), kernel=kernel)}
        assert names <= set(SETTINGS["ipvs"])
    view = node("iptables").snapshot.view(4)
    assert {name for name, _value in Iptables().settings(view, RuleConfig("iptables"))} <= set(SETTINGS["iptables"])


def test_connections_at_endpoints_that_left_are_stale() -> None:
    kept = UdpConnection("10.96.7.16", 53, "10.244.1.5", 8053, "10.244.1.9")
    stale = UdpConnection("10.96.7.16", 53, "10.244.9.9", 8080, "10.244.1.9")
    node_port = UdpConnection("10.50.0.11", 30080, "10.244.9.9", 8080, "10.244.1.9")
    other = UdpConnection("10.9.9.9", 53, "10.244.9.9", 8080, "10.244.1.9")
    found = audit(node("nftables"), Facts(connections=(kept, stale, stale, node_port, other)))
    assert ids(found) == [
        ("rules-audit-conntrack", "default/dns:dns"),
        ("rules-audit-conntrack", "default/node-port:b"),
    ]
    assert found[0].found == "2 that go to 10.244.9.9:8080"


def test_it_says_what_could_not_be_looked_at() -> None:
    facts = Facts(connections_problem="conntrack is not installed on this node", unread=(("table ip x", "line 3"),))
    assert sorted(one.id for one in audit(node("nftables"), facts)) == [
        "rules-audit-conntrack-unseen",
        "rules-audit-foreign-unread",
    ]


def test_errors_are_before_warnings_and_families_apart() -> None:
    facts = Facts(
        service_tables=(("ip6", "kube-proxy"), ("ip", "kube-proxy")), settings={"net.ipv4.conf.all.route_localnet": "0"}
    )
    found = audit(node("iptables"), facts)
    assert [(one.severity, one.family) for one in found] == [("error", 0), ("warning", 4), ("warning", 6)]
    assert all(one.severity == CLASSES[one.id].severity for one in found)


# Reading


def test_connections_are_read_from_either_listing() -> None:
    text = (
        "ipv4     2 udp      17 29 src=10.244.1.9 dst=10.96.7.16 sport=4000 dport=53 [UNREPLIED] "
        "src=10.244.9.9 dst=10.244.1.9 sport=53 dport=4000 mark=0 use=1\n"
        "ipv4     2 tcp      6 29 ESTABLISHED src=10.0.0.1 dst=10.96.7.16 sport=1 dport=53 src=1.1.1.1 dst=2.2.2.2\n"
        "ipv6     10 udp     17 29 src=fd00:0::9 dst=fd00:96:0::16 sport=1 dport=53 src=fd00::5 dst=fd00::9 sport=53\n"
        "ipv4     2 udp      17 29 src=10.244.1.9 dst=10.96.7.1"
    )
    assert list(parse_connections(text)) == [
        UdpConnection("10.96.7.16", 53, "10.244.9.9", 53),
        UdpConnection("fd00:96::16", 53, "fd00::5", 53),
    ]


def test_a_dump_has_the_tables_of_other_programs_too() -> None:
    facts = dump_facts(DumpReading(saved("nftables") + GUARD % ("drop", ""), BACKENDS["nftables"]))
    assert list(facts.ruleset.tables) == [("inet", "guard")]
    assert ids(audit(node("nftables"), facts)) == [("rules-audit-foreign-drop", "")]
    facts = dump_facts(DumpReading(saved("iptables"), BACKENDS["iptables"]))
    assert set(facts.iptables) == {("nft", 4), ("nft", 6)}
    assert audit(node("iptables"), facts) == []


def test_facts_of_a_node_without_any_of_it() -> None:
    """No tool but ip and nft, no module: there is nothing, and of connections it says that nobody knows."""
    host = FakeHost()
    host.on("ip", "-j", "address", "show", answer="[]", reads=True)
    host.on("nft", "list", "chains", answer="", reads=True)
    facts = read_facts(host, KernelReading(host, BACKENDS["nftables"]), "nftables")
    assert host.effects == []
    assert facts == replace(Facts(), connections_problem=facts.connections_problem)
    assert "conntrack" in facts.connections_problem


def test_facts_of_a_node_with_everything() -> None:
    host = FakeHost(files={"/proc/net/nf_conntrack": "", "/proc/net/ip_vs": _VIRTUAL_SERVERS})
    host.given_sysctl("net.ipv4.conf.all.route_localnet", 1)
    host.on("ip", "-j", "address", "show", answer=_KUBE_IPVS, reads=True)
    host.on("nft", "list", "chains", answer=_CHAINS, reads=True)
    host.on("nft", "-j", "list", "table", "inet", "guard", answer=_GUARD_TABLE, reads=True)
    host.on("ipset", "list", "-n", answer="KUBE-CLUSTER-IP\n", reads=True)
    host.on("iptables", "--version", answer="iptables v1.8.9 (nf_tables)\n", reads=True)
    for tool in ("iptables-nft-save", "ip6tables-nft-save"):
        host.given(f"/usr/sbin/{tool}", mode=0o755)
        host.on(
            tool,
            answer="*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n",
            reads=True,
        )
    facts = read_facts(host, KernelReading(host, BACKENDS["iptables"]), "iptables")
    assert facts.settings == {"net.ipv4.conf.all.route_localnet": "1"}
    assert list(facts.ruleset.tables) == [("inet", "guard")]
    assert facts.service_tables == (("ip", "kube-proxy"),)
    assert set(facts.iptables) == {("nft", 4), ("nft", 6)}
    assert facts.link
    assert facts.virtual_servers == ("TCP  0A600001:01BB rr",)
    assert facts.sets == ("KUBE-CLUSTER-IP",)
    assert facts.connections == ()


_CHAINS = "table ip kube-proxy {\n\tchain services {\n\t}\n}\ntable inet guard {\n}\ntable ip filter {\n}\n"
_KUBE_IPVS = '[{"ifname": "kube-ipvs0", "addr_info": [{"local": "10.96.0.1", "family": "inet", "prefixlen": 32}]}]'
_GUARD_TABLE = '{"nftables": [{"table": {"family": "inet", "name": "guard", "handle": 1}}]}'
_VIRTUAL_SERVERS = """IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A600001:01BB rr
  -> 0A610001:192B      Masq    1      0          0
"""
