# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules of several programs at once: nft, and both variants of iptables. A connection goes where the tracer says."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._audit.tracing.packet_path import trace
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.objects import BUILT_IN
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.parse import parse
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.objects import Ruleset
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.text import parse_text
from ansible_collections.ballast.kube.plugins.module_utils._rules.node_rules import NodeRules
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import EITHER
from tests.integration import journal
from tests.integration.test_nft_trace import (
    CONNECT,
    FIRST,
    NODE,
    PACKET,
    SECOND,
    SERVICE,
    SOURCE,
    TO_FIRST,
    TO_SECOND,
    inside,
    table,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="makes a network namespace")


LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Case:
    """Rules of each program; those of iptables without `-t` go to nat."""

    nft: str = ""
    iptables_nft: tuple[str, ...] = ()
    legacy: tuple[str, ...] = ()
    order_is_known: bool = True


IP_FIRST, IP_SECOND = (f"-p tcp -d {SERVICE} -j DNAT --to-destination {to}:80" for to in (FIRST, SECOND))
OUT_FIRST, OUT_SECOND = f"-A OUTPUT {IP_FIRST}", f"-A OUTPUT {IP_SECOND}"

CASES = {
    "nft before iptables-nft": Case(table("t", f"nat-a output -101: {TO_FIRST}"), (OUT_SECOND,)),
    "nft after iptables-nft": Case(table("t", f"nat-a output -99: {TO_FIRST}"), (OUT_SECOND,)),
    "nft before legacy": Case(table("t", f"nat-a output -150: {TO_FIRST}"), (), (OUT_SECOND,)),
    "nft after legacy": Case(table("t", f"nat-a output 0: {TO_FIRST}"), (), (OUT_SECOND,)),
    "nft beside iptables-nft": Case(table("t", f"nat-a output -100: {TO_FIRST}"), (OUT_SECOND,), order_is_known=False),
    "nft beside legacy": Case(table("t", f"nat-a output -100: {TO_FIRST}"), (), (OUT_SECOND,), order_is_known=False),
    "both variants": Case("", (OUT_FIRST,), (OUT_SECOND,), order_is_known=False),
    "both variants to one place": Case("", (OUT_FIRST,), (OUT_FIRST,)),
    "of one table, the later chain": Case(
        table("t", f"nat-a output -100: {TO_FIRST}", f"nat-b output -100: {TO_SECOND}")
    ),
    "an accept leaves it to the next": Case("", ("-A OUTPUT -j ACCEPT",), (OUT_SECOND,)),
    "a return leaves it to the next": Case(table("t", "nat-a output -120: return"), (OUT_SECOND,)),
    "untracked by legacy": Case(
        table("t", f"nat-a output -100: {TO_FIRST}"), (), ("-t raw -A OUTPUT -p tcp -j CT --notrack",)
    ),
    "untracked by nft": Case(table("t", "a output -300: tcp dport 80 notrack"), (OUT_SECOND,)),
    "untracked is a state": Case(
        table("t", "a output -300: tcp dport 80 notrack"),
        ("-t filter -A OUTPUT -p tcp --dport 80 -m conntrack --ctstate UNTRACKED -j DROP",),
    ),
    "a mark of one variant is seen by the other": Case(
        "",
        ("-t mangle -A OUTPUT -d 10.9.9.9 -j MARK --set-mark 0x10/0xff",),
        (f"-A OUTPUT -m mark --mark 0x10/0xff {IP_FIRST}",),
    ),
    "restoring the mark of a new connection clears it": Case(
        table("t", "a output -160: meta mark set 7"),
        ("-t mangle -A OUTPUT -j CONNMARK --restore-mark", f"-A OUTPUT -m mark --mark 7 {IP_FIRST}", OUT_SECOND),
    ),
    "a saved mark is restored": Case(
        table("t", "a output -160: meta mark set 7"),
        (
            "-t mangle -A OUTPUT -j CONNMARK --save-mark --nfmask 0xf --ctmask 0xf",
            "-t mangle -A OUTPUT -j MARK --set-mark 0",
            "-t mangle -A OUTPUT -j CONNMARK --restore-mark",
            f"-A OUTPUT -m connmark --mark 7/0xf -m mark --mark 7 {IP_FIRST}",
            OUT_SECOND,
        ),
    ),
    "ports, states, limits, lists": Case(
        "",
        (
            "-A OUTPUT -m limit --limit 1/min -j MARK --set-mark 1",
            "-A OUTPUT -p tcp -m multiport --dports 443,79:81 -m state --state NEW -m conntrack --ctstate NEW,RELATED"
            f" -m addrtype --dst-type LOCAL -m iprange --dst-range 10.9.9.1-10.9.9.20 --syn {IP_FIRST[7:]}",
            OUT_SECOND,
        ),
    ),
    "conditions of a connection": Case(
        "",
        (
            f"-A OUTPUT -m conntrack --ctorigdst 10.9.9.9 --ctorigdstport 80 --ctproto tcp --ctdir ORIGINAL {IP_FIRST}",
            OUT_SECOND,
        ),
    ),
    "what a first packet has not": Case(
        "",
        (
            f"-A OUTPUT -m recent --update --seconds 9 --name x {IP_FIRST}",
            f"-A OUTPUT -m connlimit --connlimit-above 3 {IP_FIRST}",
            f"-A OUTPUT -m hashlimit --hashlimit-above 2/sec --hashlimit-name y {IP_FIRST}",
            f"-A OUTPUT ! -f -p tcp --tcp-flags ALL SYN,ACK -d {SERVICE} -j DNAT --to-destination {FIRST}",
            OUT_SECOND,
        ),
    ),
    "the negation of what it has": Case(
        "",
        (f"-A OUTPUT -p tcp -m multiport ! --dports 80,90 -d {SERVICE} -j DNAT --to-destination {FIRST}", OUT_SECOND),
    ),
    "a redirect": Case("", ("-A OUTPUT -p tcp -d 10.9.9.9 -j REDIRECT --to-ports 80",)),
    "a range of addresses": Case("", (f"-A OUTPUT -p tcp -d {SERVICE} -j DNAT --to-destination {FIRST}-{SECOND}",)),
    "in turns": Case("", (f"-A OUTPUT -m statistic --mode nth --every 2 --packet 0 {IP_FIRST}", OUT_SECOND)),
    "a source is replaced": Case("", (OUT_FIRST, f"-A POSTROUTING -d {FIRST} -j SNAT --to-source {SECOND}")),
    "dropped by legacy, accepted by nft": Case(
        table("t", "a output -1: accept", f"nat-a output -100: {TO_FIRST}"),
        (),
        (f"-t filter -A OUTPUT -d {FIRST} -j DROP",),
    ),
    "rejected beside dropped": Case(
        table("t", "a output 0: tcp dport 80 reject"),
        ("-t filter -A OUTPUT -p tcp --dport 80 -j DROP",),
        order_is_known=False,
    ),
    "security comes after filter": Case(
        table("t", "a output 49: tcp dport 80 reject"), ("-t security -A OUTPUT -p tcp --dport 80 -j DROP",)
    ),
    "flags of a first packet": Case(
        table(
            "t",
            "a output 0: tcp flags & (fin | syn | rst | ack) != syn drop; tcp flags syn / fin,syn,rst,ack counter reject",
        )
    ),
}


@pytest.fixture(scope="module")
def namespace() -> Iterator[str]:
    name = f"ballast-test-path-{os.getpid()}"
    with journal.network_namespace(name):
        inside(name, "ip", "link", "set", "lo", "up")
        for address in (SOURCE, SERVICE, FIRST, SECOND):
            inside(name, "ip", "address", "add", f"{address}/32", "dev", "lo")
        yield name


def clear(namespace: str) -> None:
    inside(namespace, "nft", "flush", "ruleset")
    for name in BUILT_IN:
        inside(namespace, "iptables-legacy", "-t", name, "-F")


def read(namespace: str) -> NodeRules:
    saved = {variant: inside(namespace, f"iptables-{variant}-save") for variant in ("nft", "legacy")}
    listed = parse_text(inside(namespace, "nft", "list", "ruleset")).tables
    own = Ruleset({key: held for key, held in listed.items() if key[1] not in BUILT_IN})
    return NodeRules(own, {variant: parse(text, family=4) for variant, text in saved.items()})


def load(namespace: str, case: Case, program: str) -> None:
    if program == "nft":
        inside(namespace, "nft", "-f", "-", stdin=case.nft)
        return
    for rule in case.iptables_nft if program == "iptables-nft" else case.legacy:
        words = rule.split()
        inside(namespace, program, *([] if words[0] == "-t" else ["-t", "nat"]), *words)


def connect(namespace: str) -> tuple[str, str, bool]:
    verdict, address, masqueraded = json.loads(
        inside(namespace, sys.executable, "-IS", "-c", CONNECT, SOURCE, SERVICE, FIRST, SECOND, SOURCE, LOOPBACK)
    )
    return verdict, address, masqueraded


@pytest.mark.parametrize(
    "programs", [("nft", "iptables-nft", "iptables-legacy"), ("iptables-legacy", "iptables-nft", "nft")], ids=" ".join
)
@pytest.mark.parametrize("name", CASES)
def test_the_kernel_does_what_the_tracer_says(namespace: str, name: str, programs: tuple[str, ...]) -> None:
    case = CASES[name]
    clear(namespace)
    for program in programs:
        load(namespace, case, program)
    answer = trace(read(namespace), PACKET, NODE)
    verdict, address, masqueraded = connect(namespace)
    assert (answer.verdict == EITHER) == (not case.order_is_known), answer
    ways = answer.ways or (answer,)
    possible = [
        (way.verdict, endpoint, masquerade)
        for way in ways
        for endpoint, masquerade in (way.masqueraded or (("", False),))
    ]
    assert (verdict, f"{address}:80" if verdict == "dnat" else "", masqueraded) in possible, answer


def test_the_chain_that_was_registered_later_runs_first(namespace: str) -> None:
    """By which a table's chains are ordered; of two tables, nothing tells it. Chains of iptables-legacy stay registered."""
    for first, second in (("nft", "iptables-nft"), ("iptables-nft", "nft")):
        clear(namespace)
        to = {first: FIRST, second: SECOND}
        case = Case(
            table("t", f"nat-a output -100: meta l4proto tcp dnat to {to['nft']}:80"),
            (f"-A OUTPUT -p tcp -d {SERVICE} -j DNAT --to-destination {to['iptables-nft']}:80",),
        )
        for program in (first, second):
            load(namespace, case, program)
        assert connect(namespace)[1] == SECOND
