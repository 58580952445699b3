# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import UserError
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.expressions import (
    ANY_BIT,
    AnonymousMap,
    AnonymousSet,
    Binary,
    Constant,
    Ct,
    MapLookup,
    Match,
    Meta,
    Nat,
    Numgen,
    Payload,
    Verdict,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.objects import (
    VERDICT,
    Chain,
    Element,
    Hook,
    Rule,
    Set,
    Table,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.render import render_table

ADDRESS = Payload("ip", "saddr")


def with_rule(rule: Rule) -> Table:
    return Table("ip", "t", {"c": Chain("c", (rule,))})


def with_set(found: Set) -> Table:
    return Table("ip", "t", sets={found.name: found})


def test_a_table_is_written_as_an_administrator_would() -> None:
    slots = AnonymousMap(((("10",), ("10.0.0.2", "80")), (("9",), ("10.0.0.1", "80"))))
    rules = (
        Rule((Match(Ct("state"), AnonymousSet.of("new"), ANY_BIT), Verdict("jump", "d"))),
        Rule((Match(Binary(Meta("mark"), "&", "16384"), AnonymousSet.of("0"), "!="), Nat("masquerade")), "why"),
        Rule(
            (Match(Meta("iifname"), AnonymousSet.of("cali*")), Nat("dnat", Constant(("fd00::1",)), Constant(("80",))))
        ),
        Rule((Nat("dnat", MapLookup(Numgen(2, offset=9), slots)),)),
    )
    key = ("10.0.0.1", "tcp")
    found = Set("m", ("ipv4_addr", "inet_proto"), (VERDICT,), {key: Element(key, Verdict("drop"), "a : b")})
    chains = {"c": Chain("c", rules, Hook("nat", "output", -101)), "d": Chain("d")}
    assert render_table(Table("ip", "t", chains, {"m": found}, comment="ours")) == (
        "table ip t {\n"
        '\tcomment "ours"\n'
        "\tmap m {\n"
        "\t\ttype ipv4_addr . inet_proto : verdict\n"
        '\t\telements = { 10.0.0.1 . tcp comment "a : b" : drop }\n'
        "\t}\n"
        "\tchain c {\n"
        "\t\ttype nat hook output priority -101; policy accept;\n"
        "\t\tct state new jump d\n"
        '\t\tmeta mark & 0x4000 != 0x0 masquerade comment "why"\n'
        '\t\tiifname "cali*" dnat to [fd00::1]:80\n'
        "\t\tdnat ip to numgen random mod 2 offset 9 map { 9 : 10.0.0.1 . 80, 10 : 10.0.0.2 . 80 }\n"
        "\t}\n"
        "\tchain d {\n"
        "\t}\n"
        "}\n"
    )


@pytest.mark.parametrize(
    "table",
    [
        Table("ip", "t { }; flush ruleset"),
        Table("ip", ""),
        Table("ip", "t", comment='a"; flush ruleset; "'),
        Table("ip", "t", comment="a\nflush ruleset"),
        Table("ip", "t", comment="a" * 129),
        Table("ip", "t", objects=(("quota", "q"),)),
        with_rule(Rule((Verdict("jump", "c; drop"),))),
        with_rule(Rule((Verdict("drop"),), comment='"')),
        with_rule(Rule((Match(ADDRESS, AnonymousSet.of("10.0.0.1 drop")),))),
        with_rule(Rule((Match(ADDRESS, AnonymousSet.of("")),))),
        with_rule(Rule((Match(Meta("iifname"), AnonymousSet.of('a" drop')),))),
        with_rule(Rule((Nat("dnat", Constant(("10.0.0.1 }",))),))),
        with_set(Set("s", ("ipv4_addr; }",))),
        with_set(Set("s", ("integer",))),
        with_set(Set("s", ("ipv4_addr",), elements={("a }",): Element(("a }",))})),
        with_set(Set("s", ("ipv4_addr",), comment='"')),
        with_set(Set("s", ("ipv4_addr",), others=("size 5; }",))),
        with_set(Set("m", ("ipv4_addr",), (VERDICT,), {("a",): Element(("a",), Verdict("goto", "c }"))})),
        with_set(Set("m", ("ipv4_addr",), ("ipv4_addr",), {("a",): Element(("a",), ("b }",))})),
    ],
)
def test_what_could_end_where_it_stands_and_begin_something_else_is_refused(table: Table) -> None:
    with pytest.raises(UserError) as raised:
        render_table(table)
    assert raised.value.id == "rules-nft-unwritable"
