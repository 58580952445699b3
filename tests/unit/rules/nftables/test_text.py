# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, UserError
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.expressions import (
    ANY_BIT,
    DROP,
    GOTO,
    AnonymousMap,
    AnonymousSet,
    Binary,
    Concat,
    Constant,
    Counter,
    Ct,
    Limit,
    MapLookup,
    Match,
    Meta,
    Named,
    Nat,
    Numgen,
    Payload,
    Reject,
    SetUpdate,
    Unknown,
    Verdict,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.objects import (
    Chain,
    Element,
    Hook,
    Rule,
    Ruleset,
    Set,
    Table,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.render import render_ruleset
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.rule_text import parse_rule
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.text import parse_text
from tests.unit.rules.nftables import dumps, values

DESTINATION, PORT = Payload("ip", "daddr"), Payload("tcp", "dport")
DROPS = Verdict(DROP)


def only_table(*lines: str) -> Table:
    (table,) = parse_text("\n".join(["table ip t {", *lines, "}", ""])).tables.values()
    return table


def only_set(*lines: str, kind: str = "set") -> Set:
    return only_table(f"\t{kind} s {{", *lines, "\t}").sets["s"]


def refusal(text: str) -> BallastError:
    with pytest.raises(BallastError) as raised:
        parse_text(text)
    assert raised.value.id == "rules-nft-text"
    return raised.value


def test_a_table_is_read_with_all_that_it_has() -> None:
    table = only_table(
        "\tset a {",
        "\t\ttype ipv4_addr",
        "\t\tsize 65535",
        "\t\tflags dynamic,timeout",
        "\t\ttimeout 3h",
        "\t}",
        "",
        "\tchain c {",
        "\t\ttype nat hook prerouting priority dstnat - 1; policy accept;",
        "\t\tip daddr 10.0.0.1 jump d",
        "\t}",
        "",
        "\tchain d {",
        "\t}",
    )
    jump = Rule((Match(DESTINATION, AnonymousSet.of("10.0.0.1")), Verdict("jump", "d")))
    sources = Set("a", ("ipv4_addr",), flags=("timeout",), dynamic=True, timeout_seconds=10800, size=65535)
    chains = {"c": Chain("c", (jump,), Hook("nat", "prerouting", -101)), "d": Chain("d")}
    assert table == Table("ip", "t", chains, {"a": sources})
    assert table.sets["a"].dynamic


@pytest.mark.parametrize(
    ("words", "priority"), [("-110", -110), ("raw", -300), ("filter + 10", 10), ("dstnat - 10", -110), ("srcnat", 100)]
)
def test_a_priority_is_a_number_whichever_way_it_is_written(words: str, priority: int) -> None:
    table = only_table("\tchain c {", f"\t\ttype filter hook input priority {words}; policy drop;", "\t}")
    assert table.chains["c"].base == Hook("filter", "input", priority, "drop")


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("ct state new jump c", (Match(Ct("state"), AnonymousSet.of("new"), ANY_BIT), Verdict("jump", "c"))),
        ("ip daddr @cluster-ips reject", (Match(DESTINATION, Named("cluster-ips")), Reject())),
        ("reject with icmp type port-unreachable", (Reject(),)),
        ("reject with icmpx port-unreachable", (Reject("icmpx port-unreachable"),)),
        ("tcp dport { 80, 22, 80 } drop", (Match(PORT, AnonymousSet.of("22", "80")), DROPS)),
        ("mark and 0x4000 != 0 drop", (Match(Binary(Meta("mark"), "&", "16384"), AnonymousSet.of("0"), "!="), DROPS)),
        ("counter packets 5 bytes 6 drop", (Counter(), DROPS)),
        ("limit rate 5/second accept", (Limit(5, "second"), Verdict("accept"))),
        ("update @s { ip saddr timeout 1m }", (SetUpdate("s", Payload("ip", "saddr"), timeout_seconds=60),)),
        ("dnat to [fd00::1]:80", (Nat("dnat", Constant(("fd00::1",)), Constant(("80",))),)),
        ("dnat to fd00::1", (Nat("dnat", Constant(("fd00::1",))),)),
        ("masquerade fully-random,random", (Nat("masquerade", flags=("fully-random", "random")),)),
    ],
)
def test_a_rule_is_read_to_the_values_that_a_compiler_would_make(text: str, statements: tuple[object, ...]) -> None:
    assert parse_rule(text, family="ip").statements == statements


def test_a_map_of_addresses_and_ports_is_one_value_in_its_old_form_and_its_new() -> None:
    slots = AnonymousMap(((("0",), ("10.1.0.1", "80")), (("1",), ("10.1.0.2", "80"))))
    found = Nat("dnat", MapLookup(Numgen(2), slots))
    endpoints = "numgen random mod 2 map { 0 : 10.1.0.1 . 80, 1 : 10.1.0.2 . 80 }"
    assert parse_rule(f"dnat ip addr . port to {endpoints}", family="ip").statements == (found,)
    assert parse_rule(f"dnat ip to {endpoints}", family="ip").statements == (found,)


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("meta skuid 0 drop", (Unknown("meta skuid 0"), DROPS)),
        ("tcp flags syn / fin,syn accept", (Unknown("tcp flags syn / fin , syn"), Verdict("accept"))),
        (
            "meta l4proto tcp # xt_tcp drop",
            (Match(Meta("l4proto"), AnonymousSet.of("tcp")), Unknown("# xt_tcp"), DROPS),
        ),
        ("queue num 1 bypass", (Unknown("queue num 1 bypass"),)),
        ("drop or not", (Unknown("drop or not"),)),  # what we do not know may change what we know before it
        (
            "tcp dport 80 tproxy to :1 jump c",
            (Match(PORT, AnonymousSet.of("80")), Unknown("tproxy to :1"), Verdict("jump", "c")),
        ),
        ('xt match "comment" goto c', (Unknown('xt match "comment"'), Verdict(GOTO, "c"))),
        ("ip daddr @ drop", (Unknown("ip daddr @"), DROPS)),
        ('ip daddr "', (Unknown('ip daddr "'),)),
    ],
)
def test_of_a_rule_that_is_not_understood_a_verdict_at_its_end_is(text: str, statements: tuple[object, ...]) -> None:
    assert parse_rule(text, family="ip").statements == statements


def test_a_comment_may_say_anything() -> None:
    rule = parse_rule('ip daddr 10.0.0.1 drop comment "a # b } , : c" # handle 7', family="ip")
    assert (rule.comment, rule.handle) == ("a # b } , : c", 7)


def test_an_anonymous_chain_is_one_rule_that_is_not_understood() -> None:
    rules = only_table("\tchain c {", "\t\tjump {", "\t\t\tdrop", "\t\t}", "\t\taccept", "\t}").chains["c"].rules
    assert rules == (Rule((Unknown("jump { drop }"),)), Rule((Verdict("accept"),)))


def test_elements_have_comments_and_times_of_their_own() -> None:
    found = only_set(
        "\t\ttype ipv4_addr . inet_service : verdict",
        '\t\telements = { 10.0.0.1 . 80 comment "a, b : c }" : goto c,',
        "\t\t\t     10.0.0.2 . 80 counter packets 1 bytes 2 timeout 1h expires 59m1s3ms : drop }",
        kind="map",
    )
    first, second = ("10.0.0.1", "80"), ("10.0.0.2", "80")
    assert found.elements == {
        first: Element(first, Verdict(GOTO, "c"), "a, b : c }"),
        second: Element(second, DROPS, timeout_seconds=3600),
    }


@pytest.mark.parametrize(
    "state",
    [
        "counter packets 1 bytes 2",
        "limit rate 5/second burst 5 packets",
        "limit rate over 10 mbytes/second counter packets 1 bytes 2",
        "quota 25 mbytes used 1 bytes",
        "ct count over 20",
        "last used never",
    ],
)
def test_what_an_element_keeps_account_of_is_passed_over(state: str) -> None:
    line = f'\t\telements = {{ 10.0.0.1 {state} timeout 1m expires 3s comment "why", 10.0.0.2 {state} }}'
    found = only_set("\t\ttype ipv4_addr", "\t\tflags dynamic,timeout", line)
    first, second = ("10.0.0.1",), ("10.0.0.2",)
    assert found.elements == {first: Element(first, None, "why", 60), second: Element(second)}


def test_keys_of_types_that_services_do_not_have_are_kept_as_they_are_written() -> None:
    assert set(only_set("\t\ttype tcp_flag", "\t\telements = { syn, psh | ack }").elements) == {
        ("syn",),
        ("psh | ack",),
    }


def test_a_set_says_its_type_by_expressions_or_by_name() -> None:
    by_name = only_set("\t\ttype ipv4_addr . inet_service", "\t\telements = { 10.0.0.1 . 80 }")
    by_expression = only_set("\t\ttypeof ip daddr . tcp dport", "\t\telements = { 10.0.0.1 . 80 }")
    assert by_name == by_expression
    assert by_expression.key_typeof == (DESTINATION, PORT)


def test_what_newer_nft_says_of_a_set_is_passed_over() -> None:
    assert only_set("\t\ttype ipv4_addr", "\t\tsize 65535\t# count 3") == Set("s", ("ipv4_addr",), size=65535)


def test_names_of_links_and_marks_in_elements_are_canonical() -> None:
    assert set(only_set("\t\ttype ifname", '\t\telements = { "cali*", "eth0" }').elements) == {("cali*",), ("eth0",)}
    found = only_set("\t\ttype ipv4_addr : mark", "\t\telements = { 10.0.0.1 : 0x00000010 }", kind="map")
    assert found.elements[("10.0.0.1",)].target == ("16",)


@pytest.mark.parametrize(
    ("lines", "number", "word"),
    [
        (["tabel ip t {", "}"], 1, "tabel"),
        (["table ipx t {", "}"], 1, "ipx"),
        (["table ip t {", "}", "table ip t {", "}"], 3, "twice"),
        (["table ip t {", "\tchain c {"], 2, "ends inside chain c"),
        (["table ip t {", "\tchain c {", "\tchain d {", "\t}", "}"], 3, "starts inside chain c"),
        (["table ip t {", "\tchain c {", "\t}", "\tchain c {", "\t}", "}"], 4, "twice"),
        (["table ip t {", "\tthing", "}"], 2, "not supported in a table"),
        (["table ip t {", "\tchain c {", "\t\ttype nat hook input priority dstnut;", "\t}", "}"], 3, "hook"),
        (["table ip t {", "\tchain c {", "\t\ttype nat hook input priority 0; policy maybe;", "\t}", "}"], 3, "policy"),
        (["table ip t {", "\tset s {", "\t}", "}"], 3, "has no type"),
        (["table ip t {", "\tset s {", "\t\ttype ipv4_addr : verdict", "\t}", "}"], 4, "not one of a set"),
        (["table ip t {", "\tset s {", "\t\ttype ipv4_addr", "\t\tsize many", "\t}", "}"], 4, "size many"),
        (["table ip t {", "\tset s {", "\t\ttype ipv4_addr", "\t\ttimeout 99999999999h", "\t}", "}"], 4, "timeout"),
        (
            ["table ip t {", "\tset s {", "\t\ttype ipv4_addr", "\t\telements = { 10.0.0.1 x }", "\t}", "}"],
            4,
            "10.0.0.1 x",
        ),
        (["table ip t {", "\tset s {", "\t\ttype ipv4_addr", "\t\telements = { a . b }", "\t}", "}"], 4, "a . b"),
        (
            ["table ip t {", "\tset s {", "\t\ttype ipv4_addr", "\t\telements = { a, a }", "\t}", "}"],
            4,
            "element of set s: a",
        ),
        (
            ["table ip t {", "\tmap s {", "\t\ttype ipv4_addr : verdict", "\t\telements = { a : go }", "\t}", "}"],
            4,
            "go",
        ),
    ],
)
def test_structure_that_is_not_known_is_refused_with_its_line(lines: list[str], number: int, word: str) -> None:
    error = refusal("\n".join(lines) + "\n")
    assert f"line {number}:" in error.text
    assert word in error.text


def test_what_newer_releases_print_is_passed_over() -> None:
    text = """\
table ip t { # progname firewalld
	later object {
		rate 5
	}
	set s {
		type ipv4_addr
		size 65535	# count 1
		flags timeout,later
		elements = { 10.0.0.1 timeout never }
	}
	chain c {
		type filter hook ingress device "eth0" priority filter - 5; policy accept; flags offload; flags later;
	}
}
"""
    (table,) = parse_text(text).tables.values()
    assert table.objects == (("later", "object"),)
    assert table.sets["s"].flags == ("later", "timeout")
    assert [element.timeout_seconds for element in table.sets["s"].elements.values()] == [0]
    assert table.chains["c"].base == Hook("filter", "ingress", -5)


@pytest.mark.parametrize("name", dumps.NAMES)
def test_what_was_listed_and_rendered_reads_as_the_same(name: str) -> None:
    found = parse_text(dumps.text(name))
    if name != "firewall":  # which has what we do not understand, and so not write
        assert parse_text(render_ruleset(found)) == found


@pytest.mark.parametrize("name", ["kube_proxy_g1", "kube_proxy_g2", "kube_proxy_g3", "flat"])
def test_every_rule_of_kube_proxy_and_of_ours_is_understood(name: str) -> None:
    for table in parse_text(dumps.text(name)).tables.values():
        for chain in table.chains.values():
            for rule in chain.rules:
                assert not [one for one in rule.statements if isinstance(one, Unknown)], (chain.name, rule)


def test_foreign_hooks_and_policies_are_read_among_rules_that_are_not_understood() -> None:
    table = parse_text(dumps.text("firewall")).tables["inet", "t"]
    assert table.chains["y"].base == Hook("filter", "forward", -145, "drop")
    assert table.objects == (("counter", "c1"),)
    assert Rule((Unknown("meta skuid 0"), Verdict("accept"))) in table.chains["x"].rules


@given(values.rulesets)
def test_rendering_and_reading_gives_the_same_values(ruleset: Ruleset) -> None:
    rendered = render_ruleset(ruleset)
    assert parse_text(rendered) == ruleset
    assert render_ruleset(parse_text(rendered)) == rendered


@given(st.sampled_from(dumps.NAMES), st.data())
@settings(max_examples=200, deadline=None)
def test_a_dump_that_is_cut_is_refused_or_whole(name: str, data: st.DataObject) -> None:
    text = dumps.text(name)
    cut = text[: data.draw(st.integers(0, len(text)))]
    try:
        found = parse_text(cut)
    except UserError as error:
        refused = error.id
    else:
        whole = parse_text(text)
        refused = "" if all(found.tables[at] == whole.tables[at] for at in found.tables) else "neither"
    assert refused in ("", "rules-nft-text")


@given(st.sampled_from(dumps.NAMES), st.data())
@settings(max_examples=200, deadline=None)
def test_a_dump_with_strange_words_is_read_or_refused(name: str, data: st.DataObject) -> None:
    words = dumps.text(name).split(" ")
    strange = st.text(max_size=8) | st.sampled_from(
        ('"', "{", "}", "0x", "\n", "99999999999999999999999", "@", ".", ":", "²")
    )
    for _time in range(data.draw(st.integers(1, 4))):
        words[data.draw(st.integers(0, len(words) - 1))] = data.draw(strange)
    try:
        parse_text(" ".join(words))
        refused = ""
    except UserError as error:
        refused = error.id
    assert refused in ("", "rules-nft-text")


@pytest.mark.parametrize(
    "line",
    [
        "ip daddr " * 50_000,
        "{" * 100_000,
        "accept " * 50_000 + "x",
        "meta mark & 1 " * 20_000,
        '"' * 99_999,
        "jump " * 50_000,
    ],
)
def test_a_line_without_end_takes_no_time_without_end(line: str) -> None:
    begun = time.process_time()
    assert parse_rule(line, family="ip").statements
    assert time.process_time() - begun < 5


def test_concatenations_have_one_constant_for_each_part() -> None:
    match = parse_rule("ip daddr . tcp dport { 10.0.0.1 . 80, 10.0.0.1 . 443 } drop", family="ip").statements[0]
    assert match == Match(Concat((DESTINATION, PORT)), AnonymousSet((("10.0.0.1", "80"), ("10.0.0.1", "443"))))
