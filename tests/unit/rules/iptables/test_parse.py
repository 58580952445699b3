# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The dumps node-* are of iptables 1.8.9 in a network namespace, which was given rules as kube-proxy 1.37 writes them, and
beside them rules of the kubelet, flannel, docker and CNI's port mapping. kube-proxy-1.37.1-nft.rules is what a real one had
written for tests/integration/cluster_of_every_kind.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables import objects as o
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.compile import compile_rules
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.names import LAYOUT
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.parse import parse
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.restore import select_own
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.text import render
from tests.unit.rules.iptables.views import config, here, service, view

DUMPS = Path(__file__).parent / "dumps"
LEGACY = (DUMPS / "node-1.8.9-legacy.rules").read_text()
NFT = (DUMPS / "node-1.8.9-nft.rules").read_text()


def one(rule: str, *, family: int = 4, chains: str = "") -> o.Rule:
    text = f"*nat\n:OUTPUT ACCEPT [0:0]\n:KUBE-X - [0:0]\n{chains}-A KUBE-X {rule}\nCOMMIT\n"
    found = parse(text, family=family).chain("nat", "KUBE-X")
    assert found is not None
    return found.rules[0]


def refusal(text: str, *, family: int = 4) -> BallastError:
    with pytest.raises(BallastError) as caught:
        parse(text, family=family)
    return caught.value


def test_both_variants_say_the_same() -> None:
    assert parse(LEGACY, family=4) == parse(NFT, family=4)


def test_what_kube_proxy_wrote_is_what_we_compile() -> None:
    sticky = service(
        "sticky",
        *(here(f"10.1.0.{last}") for last in (5, 6, 7)),
        cluster_ip="10.96.0.12",
        external_ips=("203.0.113.11",),
        node_port=30080,
        affinity_seconds=10800,
    )
    found = select_own(parse(NFT, family=4), LAYOUT).table("nat").by_name
    wanted = select_own(compile_rules(view([sticky]), config()), LAYOUT).table("nat").by_name
    assert {name: chain for name, chain in found.items() if "CANARY" not in name} == wanted


def test_all_that_a_real_kube_proxy_writes_is_in_the_grammar() -> None:
    found = parse((DUMPS / "kube-proxy-1.37.1-nft.rules").read_text(), family=4)
    rules = [rule for table in found.tables for chain in table.chains for rule in chain.rules]
    assert len(rules) > 200
    assert not [part for rule in rules for part in (*rule.matches, rule.target) if isinstance(part, o.Unknown)]


def test_what_was_read_is_rendered_so_that_it_is_read_the_same() -> None:
    found = parse(LEGACY, family=4)
    assert parse(render(found), family=4) == found


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("-s 10.1.0.0/16", (o.Source("10.1.0.0/16"),)),
        ("! -s 10.1.0.5/32", (o.Source("10.1.0.5/32", negated=True),)),
        ("-d 10.1.2.3/255.255.0.0", (o.Destination("10.1.0.0/16"),)),
        ("! -i veth+ -o eth0", (o.InInterface("veth+", negated=True), o.OutInterface("eth0"))),
        ("-p 132 -m sctp --dport 80", (o.Protocol("sctp"), o.DestinationPort(80))),
        ("-p tcp -m tcp ! --dport 80", (o.Protocol("tcp"), o.DestinationPort(80, negated=True))),
        ("-p tcp -m tcp", (o.Protocol("tcp"),)),
        ("-m mark --mark 0x4000/0x4000", (o.Mark(0x4000, 0x4000),)),
        ("-m mark ! --mark 0x1", (o.Mark(1, 0xFFFFFFFF, negated=True),)),
        ("-m conntrack --ctstate RELATED,ESTABLISHED", (o.ConnectionState(("ESTABLISHED", "RELATED")),)),
        ("-m addrtype ! --src-type LOCAL", (o.AddressType("src", "LOCAL", negated=True),)),
        (
            "-m set ! --match-set KUBE-LOOP-BACK dst,dst,src",
            (o.MatchSet("KUBE-LOOP-BACK", ("dst", "dst", "src"), True),),
        ),
        ("-m ipvs --vaddr 10.0.0.1 --vproto 6 --vport 80", (o.IpvsService("10.0.0.1/32", "tcp", 80),)),
        ("-m physdev ! --physdev-is-in", (o.PhysicalIn(negated=True),)),
        ("-m statistic --mode random --probability 0.33333333349", (o.Statistic(715827883),)),
        ("-m nfacct --nfacct-name ct_state_invalid_dropped_pkts", (o.Accounting("ct_state_invalid_dropped_pkts"),)),
        (
            "-m recent --rcheck --seconds 60 --reap --name X --mask 255.255.255.255 --rsource",
            (o.Recent("rcheck", "X", 60, reap=True),),
        ),
        ("-m recent --set --name X --mask 255.255.255.255 --rsource", (o.Recent("set", "X"),)),
    ],
)
def test_matches_of_the_grammar(text: str, matches: tuple[o.Match, ...]) -> None:
    assert one(f"{text} -j RETURN") == o.Rule(matches, o.Verdict("RETURN"))


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("-j ACCEPT", o.Verdict("ACCEPT")),
        ("-j KUBE-Y", o.Jump("KUBE-Y")),
        ("-g KUBE-Y", o.Goto("KUBE-Y")),
        ("-j REJECT --reject-with icmp-port-unreachable", o.Reject("icmp-port-unreachable")),
        ("-j MARK --set-xmark 0x4000/0x0", o.SetMark(0x4000, 0)),
        ("-j MASQUERADE", o.Masquerade()),
        ("-j MASQUERADE --random-fully", o.Masquerade(random_fully=True)),
        ("-j DNAT --to-destination 10.1.0.5:8080", o.Dnat("10.1.0.5", 8080)),
        ("-j DNAT --to-destination 10.1.0.5", o.Dnat("10.1.0.5")),
        ("-p tcp", None),
    ],
)
def test_targets_of_the_grammar(text: str, target: o.Target) -> None:
    assert one(text, chains=":KUBE-Y - [0:0]\n").target == target


def test_addresses_of_ipv6() -> None:
    found = one("-s fd00:1::5/128 -j DNAT --to-destination [fd00:1:0:0::7]:53", family=6)
    assert found == o.Rule((o.Source("fd00:1::5/128"),), o.Dnat("fd00:1::7", 53))
    assert one("-j DNAT --to-destination fd00:1::7", family=6).target == o.Dnat("fd00:1::7")


@pytest.mark.parametrize(
    ("text", "comment"),
    [
        ('"a b"', "a b"),
        ("plain", "plain"),
        ("-j", "-j"),
        (r'"say \"hi\" -j DROP"', 'say "hi" -j DROP'),
        (r'"back\\slash"', "back\\slash"),
    ],
)
def test_comments_are_read_and_written_as_they_are(text: str, comment: str) -> None:
    found = one(f"-p tcp -m comment --comment {text} -m tcp --dport 80 -j RETURN")
    assert (found.comment, found.matches) == (comment, (o.Protocol("tcp"), o.DestinationPort(80)))
    rendered = render(o.tables(4, {"nat": {"KUBE-X": o.Chain("KUBE-X", (found,))}}))
    again = parse(rendered, family=4).chain("nat", "KUBE-X")
    assert again == o.Chain("KUBE-X", (found,))


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("-p tcp -m multiport --dports 22,443 -j ACCEPT", "-m multiport --dports 22,443"),
        ("-p tcp -m tcp --sport 80 -j ACCEPT", "-m tcp --sport 80"),
        ("-p tcp -m tcp --dport 80:90 -j ACCEPT", "-m tcp --dport 80:90"),
        ("-m recent --update --seconds 60 --name X -j ACCEPT", "-m recent --update --seconds 60 --name X"),
        ("-m conntrack --ctstate NEW --ctorigdst 10.0.0.1/32 -j ACCEPT", None),
        ("-m statistic --mode nth --every 2 --packet 0 -j ACCEPT", None),
        ("-m addrtype --dst-type BROADCAST -j ACCEPT", None),
        ("-f -j ACCEPT", "-f"),
        ("! -f -j ACCEPT", "! -f"),
        ("-m comment --comment one -m comment --comment two -j ACCEPT", "-m comment --comment two"),
        ('-j LOG --log-prefix "x -j ACCEPT"', '-j LOG --log-prefix "x -j ACCEPT"'),
        ("-j MASQUERADE --to-ports 1-2", "-j MASQUERADE --to-ports 1-2"),
        ("-j DNAT --to-destination 10.0.0.1-10.0.0.9", None),
        ("-j OUTPUT", "-j OUTPUT"),
    ],
)
def test_what_is_outside_of_the_grammar_is_kept_as_it_was_written(text: str, unknown: str) -> None:
    found = one(text)
    parts = [part.text for part in (*found.matches, found.target) if isinstance(part, o.Unknown)]
    assert parts == [unknown or text.replace(" -j ACCEPT", "")]
    assert one(text) == one(" ".join(text.split()))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("*nat\n:KUBE-X - [0:0]\n-A KUBE-Y -j ACCEPT\nCOMMIT\n", "line 3.*has no chain KUBE-Y"),
        ("*nat\n*filter\n", "line 2.*has not ended"),
        ("*wombat\n", "line 1.*no such table"),
        ("COMMIT\n", "line 1.*no table has begun"),
        ("-A INPUT -j ACCEPT\n", "line 1.*no table has begun"),
        ("*nat\nCOMMIT\n*nat\nCOMMIT\n", "line 3.*second table"),
        ("*nat\n:X\n", "line 2.*not a chain"),
        ("*nat\n:X ACCEPT [0:0]\n", "line 2.*policy"),
        ("*nat\n:OUTPUT - [0:0]\n", "line 2.*policy"),
        ("*nat\n:X - [0:0]\n:X - [0:0]\n", "line 3.*second time"),
        ("*nat\n:X - [0:0]\n-I X -j ACCEPT\n", "line 3.*neither a chain nor a rule"),
        ("*nat\n:X - [0:0]\nwombat\n", "line 3.*neither a chain nor a rule"),
        ("*nat\n:X - [0:0]\n-A X -s wombat -j ACCEPT\n", "line 3.*wombat is not a network"),
        ("*nat\n:X - [0:0]\n-A X -s fd00::/64 -j ACCEPT\n", "line 3.*not of IPv4"),
        ("*nat\n:X - [0:0]\n-A X -p tcp -m tcp --dport 65536 -j ACCEPT\n", "line 3.*more than 65535"),
        ("*nat\n:X - [0:0]\n-A X -p tcp -m tcp --dport http -j ACCEPT\n", "line 3.*not a number"),
        ("*nat\n:X - [0:0]\n-A X -m mark --mark 0xfffffffff -j ACCEPT\n", "line 3.*not a number"),
        (
            "*nat\n:X - [0:0]\n-A X -m statistic --mode random --probability 1.5 -j ACCEPT\n",
            "line 3.*not a probability",
        ),
        ("*nat\n:X - [0:0]\n-A X -m recent --rcheck --seconds 99999999999 --name Y\n", "line 3.*not a number"),
        ("*nat\n:X - [0:0]\n-A X -s\n", "line 3.*no value"),
        ("*nat\n:X - [0:0]\n-A X -j\n", "line 3.*no target"),
        ("*nat\n:X - [0:0]\n-A X -m\n", "line 3.*no name"),
        ("*nat\n:X - [0:0]\n-A X -m comment --comment\n", "line 3.*without text"),
        ("*nat\n:X - [0:0]\n-A X --wombat 3\n", "line 3.*--wombat"),
        ('*nat\n:X - [0:0]\n-A X -m comment --comment "a\n', "line 3.*not closed"),
        ("*nat\n:X - [0:0]\n-A X -j X 3\n", "line 3.*no options"),
        ("*nat\n:X - [0:0]\n-A X -j DNAT --to-destination wombat\n", "line 3.*not an address"),
        ("*nat\n:X - [0:0]\n-A X -m ipvs --vaddr wombat --vproto 6 --vport 80\n", "line 3.*not a network"),
        ("*nat\n:X - [0:0]\n-A X -i 0123456789abcdefg\n", "line 3.*not a name of an interface"),
        ("*nat\n:X - [0:0]\n-A X -m recent --rcheck --seconds --name Y\n", "line 3.*--seconds has no value"),
    ],
)
def test_what_iptables_save_does_not_print_is_refused_with_its_line(text: str, problem: str) -> None:
    error = refusal(text)
    assert error.id == "rules-iptables-line"
    assert re.search(problem, error.text), error.text


def test_a_long_line_of_quotation_marks_is_read_in_a_moment() -> None:
    marks = '\\"' * 200_000
    assert refusal(f'*nat\n:X - [0:0]\n-A X -m comment --comment "{marks}\nCOMMIT\n').id == "rules-iptables-line"
    assert len(one(f'-m comment --comment "{marks}"').comment) == 200_000


def test_a_table_without_its_end_is_told() -> None:
    error = refusal(NFT[: NFT.index("COMMIT")])
    assert (error.id, "mangle" in error.text) == ("rules-iptables-cut", True)


def test_a_table_that_iptables_cannot_show_is_told() -> None:
    assert refusal("# Table `nat' is incompatible, use 'nft' tool.\n").id == "rules-iptables-hidden"
    parse("# Warning: iptables-legacy tables present, use iptables-legacy-save to see them\n", family=4)


@given(cut=st.integers(0, len(NFT)))
def test_a_cut_dump_gives_tables_or_an_error_of_ours(cut: int) -> None:
    _read(NFT[:cut])


@given(
    place=st.integers(0, len(LEGACY)),
    gone=st.integers(0, 12),
    put=st.lists(st.sampled_from([*' \n"!-:/[]*\\019acmptu\u2028', "-j ", "-m ", "--dport "]), max_size=6).map("".join),
)
@example(place=0, gone=0, put="\x00")
def test_a_changed_dump_gives_tables_or_an_error_of_ours(place: int, gone: int, put: str) -> None:
    _read(LEGACY[:place] + put + LEGACY[place + gone :])


@given(text=st.text(max_size=200))
def test_any_text_gives_tables_or_an_error_of_ours(text: str) -> None:
    _read(text)
    _read(f"*nat\n:X - [0:0]\n-A X {text}\nCOMMIT\n")


def _read(text: str) -> None:
    try:
        found = parse(text, family=4)
    except BallastError:
        return
    assert parse(render(found), family=4) == found
