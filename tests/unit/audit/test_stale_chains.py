# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which chains of iptables go and which stay, on rules as they were saved from nodes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._audit.dump.reading import read_dump
from ansible_collections.ballast.kube.plugins.module_utils._audit.stale_chains import StaleChains, find_stale_chains
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.objects import BUILT_IN, Jump, Tables
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.parse import parse
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.restore import (
    DELETE,
    EMPTY,
    REMOVE,
    restore_text,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.text import rule_text
from tests.unit.fakes import Call
from tests.unit.rules.iptables.kernel import Kernel

HERE = Path(__file__).parent
RULES = HERE.parent / "rules"
DUMPS = HERE / "dumps"
NODES = sorted(HERE.glob("nodes/*/iptables.txt"))
OLD = (DUMPS / "old-releases.rules").read_text()
MARKS = "\n:KUBE-MARK-MASQ - [0:0]\n:KUBE-POSTROUTING - [0:0]\n"
KUBELETS = {"KUBE-FIREWALL", "KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY"}


def parse_iptables(text: str, family: int) -> Tables:
    dump = read_dump(text)
    return dump.tables(dump.variant_in_use(), family)


def saved(path: Path, family: int) -> Tables:
    return parse_iptables(path.read_text(), family)


def old(*more: str, table: str = "nat", without: str = "no such line") -> Tables:
    """The chains of old releases, with more lines in one table."""
    text = "".join(f"{line}\n" for line in OLD.splitlines() if without not in line)
    text = text.replace(
        "*nat\n", "*nat\n:PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]" + MARKS, 1
    )
    text = text.replace("*filter\n", "*filter\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n", 1)
    head, mark, rest = text.partition(f"*{table}\n")
    body, end, tail = rest.partition("COMMIT\n")
    chains = [f"{line}\n" for line in more if line.startswith(":") and line not in body]
    rules = [f"{line}\n" for line in more if line.startswith("-")]
    return parse(head + mark + "".join(chains) + body + "".join(rules) + end + tail, family=4)


def names(left: StaleChains, kind: str) -> set[str]:
    return {one.chain for one in left.chains if one.kind == kind}


def kept(left: StaleChains) -> dict[str, str]:
    return {one.chain: one.why for one in left.kept}


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize(
    "path", [*NODES, RULES / "ipvs/dumps/kube-proxy-1.37.1.dump"], ids=lambda path: path.parent.name
)
def test_all_that_kube_proxy_wrote_goes_and_nothing_of_it_is_taken_for_others(path: Path, family: int) -> None:
    found = saved(path, family)
    left = find_stale_chains(found, "nftables", in_use=False)
    assert left.kept == ()
    chains = {chain.name for table in found.tables for chain in table.chains if chain.name not in BUILT_IN[table.name]}
    assert names(left, DELETE) == {name for name in chains if name.startswith("KUBE-")} - KUBELETS
    assert {one.kind for one in left.chains} == {DELETE}
    jumps = {rule.target.chain for one in left.jumps for rule in one.rules if isinstance(rule.target, Jump)}
    assert jumps.isdisjoint(KUBELETS)
    assert "KUBE-SERVICES" in jumps


@pytest.mark.parametrize("family", [4, 6])
def test_nothing_of_the_mode_in_use_goes(family: int) -> None:
    for path in NODES:
        assert find_stale_chains(saved(path, family), "iptables", in_use=True) == StaleChains()
    assert (
        find_stale_chains(saved(RULES / "ipvs/dumps/kube-proxy-1.37.1.dump", family), "ipvs", in_use=True)
        == StaleChains()
    )


def test_what_ipvs_alone_has_goes_beside_iptables_in_one_variant() -> None:
    text = (RULES / "ipvs/dumps/kube-proxy-1.37.1.dump").read_text()
    shared = ("-A KUBE-SERVICES", "-A KUBE-PROXY-FIREWALL")  # which kube-proxy writes anew in the mode iptables
    lines = [line for line in text.splitlines() if not line.startswith(shared)]
    left = find_stale_chains(parse_iptables("\n".join(lines), 4), "iptables", in_use=True)
    assert left.kept == ()
    assert names(left, DELETE) == {
        "KUBE-NODE-PORT",
        "KUBE-LOAD-BALANCER",
        "KUBE-IPVS-FILTER",
        "KUBE-IPVS-OUT-FILTER",
        "KUBE-SOURCE-RANGES-FIREWALL",
    }
    assert {rule.comment for one in left.jumps for rule in one.rules} == {
        "kubernetes ipvs access filter",
        "kubernetes health check rules",
        "kube-proxy firewall rules",
    }


def test_chains_of_old_releases_go() -> None:
    left = find_stale_chains(old(), "nftables", in_use=False)
    assert left.kept == ()
    assert {"KUBE-XLB-4SW47YFZTEDKD3PK", "KUBE-MARK-DROP", "KUBE-FIREWALL", "KUBE-PORTALS-HOST"} <= names(left, DELETE)
    assert "KUBE-NODEPORT-NON-LOCAL" in names(left, DELETE)
    assert sum(len(one.rules) for one in left.jumps) == 7
    left = find_stale_chains(old(), "iptables", in_use=True)
    assert "KUBE-PORTALS-CONTAINER" in names(left, DELETE)
    assert "KUBE-SVC-4SW47YFZTEDKD3PK" not in names(left, DELETE)


def test_what_the_mode_in_use_leads_to_stays_whole() -> None:
    """A kube-proxy of before 1.24 still works by KUBE-XLB: its own rules lead there."""
    left = find_stale_chains(old(without='loadbalancer IP" -j KUBE-MARK-DROP'), "iptables", in_use=True)
    why = kept(left)["KUBE-XLB-4SW47YFZTEDKD3PK"]
    assert "iptables, which is in use" in why
    assert "KUBE-MARK-DROP" in kept(left), "and what that leads to"


def test_what_an_old_kubelet_marks_stays() -> None:
    """Its KUBE-FIREWALL, in the table filter, drops what is marked."""
    drop = '-A KUBE-FIREWALL -m comment --comment "kubernetes firewall for dropping marked packets" -m mark --mark 0x8000/0x8000 -j DROP'
    left = find_stale_chains(old(":KUBE-FIREWALL - [0:0]", drop, table="filter"), "nftables", in_use=False)
    assert set(kept(left)) == {"KUBE-MARK-DROP", "KUBE-MARK-MASQ", "KUBE-POSTROUTING"}
    assert "kubelet" in kept(left)["KUBE-MARK-MASQ"]
    assert {"KUBE-FIREWALL"} == {
        one.chain for one in left.chains if one.chain == "KUBE-FIREWALL" and one.table == "nat"
    }


def test_chains_that_others_mark_by_stay_with_what_masquerades() -> None:
    left = find_stale_chains(
        old(":CNI-HOSTPORT-SETMARK - [0:0]", "-A CNI-HOSTPORT-SETMARK -j KUBE-MARK-MASQ"), "nftables", in_use=False
    )
    assert set(kept(left)) == {"KUBE-MARK-MASQ", "KUBE-POSTROUTING"}
    assert "-A CNI-HOSTPORT-SETMARK -j KUBE-MARK-MASQ" in kept(left)["KUBE-POSTROUTING"]
    assert "KUBE-MARK-DROP" in names(left, DELETE)


def test_a_chain_that_another_program_names_is_emptied() -> None:
    rule = "-A OUTPUT -p tcp -m tcp --dport 11 -j KUBE-PORTALS-HOST"
    left = find_stale_chains(old(rule), "nftables", in_use=False)
    assert names(left, EMPTY) == {"KUBE-PORTALS-HOST"}
    assert kept(left)["KUBE-PORTALS-HOST"].endswith(rule)


def test_rules_of_others_keep_their_chain_and_what_leads_there() -> None:
    rule = '-A KUBE-PORTALS-HOST -p tcp -m tcp --dport 12 -m comment --comment "mine" -j OTHER'
    leading = "-A KUBE-PORTALS-HOST -p tcp -m tcp --dport 13 -j KUBE-MARK-MASQ"
    left = find_stale_chains(old(":OTHER - [0:0]", rule, leading), "nftables", in_use=False)
    assert set(kept(left)) == {"KUBE-PORTALS-HOST"}
    assert left.mixed == {("nat", "KUBE-PORTALS-HOST")}
    (removal,) = (one for one in left.chains if one.kind == REMOVE)
    assert [rule_text(one).rpartition("-j ")[2] for one in removal.rules] == [
        "DNAT --to-destination 192.0.2.1:48577",
        "KUBE-MARK-MASQ",
    ], "a rule that only leads to what goes, goes"
    assert not any("PORTALS-HOST" in rule_text(rule) for one in left.jumps for rule in one.rules)


@pytest.mark.parametrize(
    ("chain", "rule"),
    [
        ("KUBE-POSTROUTING", "-m mark --mark 0x1/0x1 -j RETURN"),
        ("KUBE-POSTROUTING", "-j MASQUERADE"),
        ("KUBE-SERVICES", "-j RETURN"),
        ("KUBE-SERVICES", "-j MARK --set-xmark 0x1/0x1"),
        ("KUBE-SERVICES", "-p tcp -j DNAT --to-destination 10.9.9.9:80"),
        ("KUBE-SEP-C6EBXVWJJZMIWKLZ", "-p tcp -j LOG"),
        ("KUBE-NODEPORTS", "-p tcp"),
        ("KUBE-SERVICES", "-m set --match-set mine dst -j ACCEPT"),
    ],
)
def test_a_rule_that_kube_proxy_would_not_write_there_is_of_another_program(chain: str, rule: str) -> None:
    found = old(f":{chain} - [0:0]", f"-A {chain} {rule}")
    assert set(kept(find_stale_chains(found, "nftables", in_use=False))) == {chain}


FOREIGN_RULES = (
    "-s 198.51.100.0/24 -j ACCEPT",
    "-p tcp -m tcp --dport 9 -m comment --comment other -j OTHER",
    "-m mark --mark 0x1/0x1 -j RETURN",
    "-j OTHER",
    "-p udp -m multiport --dports 53,54 -j OTHER",
)
LEADING_RULES = ("-p tcp -j KUBE-MARK-MASQ", "-j KUBE-MARK-DROP")


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_rules_of_others_survive_wherever_they_are_and_a_second_run_does_nothing(data: st.DataObject) -> None:
    kernel = Kernel(4)
    for path_text in (saved_text(), OLD):
        load(kernel, path_text)
    kernel.chain("nat", "OTHER").append("-j RETURN")
    kernel.chain("nat", "KUBE-MARK-MASQ")
    chains = sorted(kernel.tables["nat"])
    planted = data.draw(
        st.lists(st.tuples(st.sampled_from(chains), st.sampled_from(FOREIGN_RULES + LEADING_RULES)), max_size=6)
    )
    for name, rule in planted:
        if rule not in LEADING_RULES or name in ("OTHER", *BUILT_IN["nat"]):
            there = kernel.chain("nat", name)
            there.insert(data.draw(st.integers(0, len(there))), rule)
    before = {name: list(rules) for name, rules in kernel.tables["nat"].items()}
    clean(kernel)
    after = kernel.tables["nat"]
    for name, rule in planted:
        if rule in before[name]:
            assert after[name].count(rule) == before[name].count(rule), f"{rule} in {name}"
    assert find_stale_chains(parse(kernel.save(), family=4), "nftables", in_use=False).jumps == ()
    assert find_stale_chains(parse(kernel.save(), family=4), "nftables", in_use=False).chains == ()


def saved_text() -> str:
    return (RULES / "iptables/dumps/node-1.8.9-nft.rules").read_text()


def load(kernel: Kernel, text: str) -> None:
    lines = [line for line in text.splitlines() if line and line[0] != "#" and "ACCEPT [0:0]" not in line]
    lines = [line for line in lines if "say" not in line]  # quotations in a comment, which the fake does not read
    done = kernel.restore(
        Call(argv=("iptables-restore", "--noflush"), stdin="\n".join(lines).encode(), env={}, cwd=None)
    )
    assert done.status == 0, done.stderr


def clean(kernel: Kernel) -> None:
    found = parse(kernel.save(), family=4)
    mixed = find_stale_chains(found, "nftables", in_use=False).mixed
    left = find_stale_chains(parse(kernel.save(), family=4, as_written=mixed), "nftables", in_use=False)
    for operations in (left.jumps, left.chains):
        stdin = restore_text(operations).encode()
        done = kernel.restore(Call(argv=("iptables-restore", "--noflush"), stdin=stdin, env={}, cwd=None))
        assert done.status == 0, done.stderr
