# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, UserError
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.expressions import (
    Constant,
    Meta,
    Payload,
    SetUpdate,
    Unknown,
    Verdict,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.json_form import parse_json
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.objects import (
    Chain,
    Element,
    Hook,
    Rule,
    Set,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.text import parse_text
from tests.unit.rules.nftables import dumps

HOME = {"family": "ip", "table": "t"}
TABLE = {"table": {"family": "ip", "name": "t"}}
CHAIN = {"chain": {**HOME, "name": "c"}}


def document(*items: Any) -> str:
    return json.dumps({"nftables": [{"metainfo": {"version": "1.0.6"}}, *items]})


def statements(*items: Any) -> tuple[Any, ...]:
    text = document(TABLE, CHAIN, {"rule": {**HOME, "chain": "c", "expr": list(items)}})
    return parse_json(text).tables["ip", "t"].chains["c"].rules[0].statements


def refusal(text: str) -> BallastError:
    with pytest.raises(UserError) as raised:
        parse_json(text)
    assert raised.value.id == "rules-nft-json"
    return raised.value


@pytest.mark.parametrize("name", ["kube_proxy_g1", "kube_proxy_g2", "kube_proxy_g3", "flat"])
def test_json_and_text_of_one_ruleset_are_equal(name: str) -> None:
    assert parse_json(dumps.form(name)) == parse_text(dumps.text(name))


def test_json_and_text_of_a_firewall_differ_in_what_is_not_understood_alone() -> None:
    of_json, of_text = parse_json(dumps.form("firewall")).tables, parse_text(dumps.text("firewall")).tables
    assert of_json.keys() == of_text.keys()
    for at, table in of_text.items():
        assert of_json[at].sets == table.sets
        assert of_json[at].objects == table.objects
        assert of_json[at].chains.keys() == table.chains.keys()
        for name, chain in table.chains.items():
            assert of_json[at].chains[name].base == chain.base
            assert [known(rule) for rule in of_json[at].chains[name].rules] == [known(rule) for rule in chain.rules]


def known(rule: Rule) -> object:
    """A rule, or of one that is not understood its verdict."""
    if any(isinstance(one, Unknown) for one in rule.statements):
        return rule.statements[-1] if isinstance(rule.statements[-1], Verdict) else None
    return rule


def test_what_newer_nft_lists_is_read_too() -> None:
    expression = {"concat": [{"payload": {"protocol": "ip", "field": "saddr"}}, {"meta": {"key": "mark"}}]}
    found = parse_json(
        document(
            {"table": {"family": "ip", "name": "t", "comment": "ours"}},
            {"chain": {**HOME, "name": "c", "comment": "why", "type": "nat", "hook": "output", "prio": -101}},
            {"set": {**HOME, "name": "s", "type": {"typeof": expression}, "flags": ["dynamic", "timeout"], "elem": []}},
        )
    ).tables["ip", "t"]
    assert found.chains["c"] == Chain("c", base=Hook("nat", "output", -101))
    assert found.chains["c"].comment == "why"
    assert found.sets["s"] == Set("s", ("ipv4_addr", "mark"), flags=("timeout",))
    assert found.sets["s"].dynamic
    assert found.sets["s"].key_typeof == (Payload("ip", "saddr"), Meta("mark"))


def test_a_statement_that_nft_has_no_json_for_comes_as_text() -> None:
    update = SetUpdate("m", Payload("ip", "saddr"), Payload("ip", "daddr"), "add")
    assert statements("add @m { ip saddr : ip daddr }") == (update,)
    assert statements("jump {\n\t\t\tdrop\n\t\t}") == (Unknown("jump { drop }"),)


def test_newer_nft_has_json_for_what_a_rule_puts_into_a_map() -> None:
    saddr = {"payload": {"protocol": "ip", "field": "saddr"}}
    element = {"elem": {"val": saddr, "timeout": 60}}
    found = statements({"map": {"op": "update", "elem": element, "data": 17, "map": "@m"}})
    assert found == statements("update @m { ip saddr timeout 1m : 0x00000011 }")
    assert found == (SetUpdate("m", Payload("ip", "saddr"), Constant(("17",)), "update", 60),)


def test_a_statement_that_is_not_known_is_kept_between_those_that_are() -> None:
    found = statements({"counter": {"packets": 1, "bytes": 2}}, {"xt": None}, {"drop": None})
    assert found[1:] == (Unknown('{"xt": null}'), Verdict("drop"))


def test_elements_have_comments_and_times_of_their_own() -> None:
    key = {"concat": ["10.0.0.1", "tcp", {"range": [80, 90]}]}
    timed = {
        "elem": {"val": key, "comment": "a, b", "timeout": 30, "expires": 29, "counter": {"packets": 1, "bytes": 2}}
    }
    types = ["ipv4_addr", "inet_proto", "inet_service"]
    item = {**HOME, "name": "m", "type": types, "map": "verdict", "elem": [[timed, {"goto": {"target": "c"}}]]}
    found = parse_json(document(TABLE, CHAIN, {"map": item})).tables["ip", "t"].sets["m"]
    at = ("10.0.0.1", "tcp", "80-90")
    assert found.elements == {at: Element(at, Verdict("goto", "c"), "a, b", 30)}


@pytest.mark.parametrize(
    ("item", "word"),
    [
        ({"thing": {}}, "thing"),
        ({"table": {"family": "ipx", "name": "t"}}, "ipx"),
        ({"table": {"family": "ip", "name": "t"}}, "twice"),
        ({"chain": {"family": "ip", "table": "u", "name": "c"}}, "table ip u is not listed"),
        ({"chain": {**HOME, "name": "c", "type": "nat", "hook": "output", "prio": "dstnat"}}, "dstnat"),
        ({"rule": {**HOME, "chain": "d", "expr": []}}, "chain d is not listed"),
        ({"rule": {**HOME, "chain": "c", "expr": {}}}, "expr"),
        ({"set": {**HOME, "name": "s", "type": "ipv4_addr", "map": "verdict"}}, "map"),
        ({"set": {**HOME, "name": "s", "type": "ipv4_addr", "elem": [["a", "b"]]}}, 'element ["a", "b"]'),
        ({"set": {**HOME, "name": "s", "type": "ipv4_addr", "elem": ["a", "a"]}}, 'element "a"'),
        ({"set": {**HOME, "name": "s", "type": "ipv4_addr", "elem": [{"concat": ["a", "b"]}]}}, "concat"),
        (
            {"map": {**HOME, "name": "s", "type": "ipv4_addr", "map": "verdict", "elem": [["a", {"go": None}]]}},
            'element "a"',
        ),
        ([], "[]"),
    ],
)
def test_what_is_not_known_is_refused_with_its_place(item: Any, word: str) -> None:
    items = [TABLE, item] if "rule" not in item else [TABLE, CHAIN, item]
    error = refusal(document(*items))
    assert f"nftables[{len(items)}]" in error.text
    assert word in error.text


def test_what_newer_releases_add_is_passed_over() -> None:
    more = {"later": {"a": 1}}
    items = [
        {"table": {**TABLE["table"], **more, "flags": ["persist", "later"]}},
        {"chain": {**CHAIN["chain"], **more}},
        {"set": {**HOME, "name": "s", "type": "ipv4_addr", "flags": ["interval", "later"], **more}},
        {"later object": {**HOME, "name": "o", "rate": 5}},
        {"rule": {**HOME, "chain": "c", "expr": [{"later": 1}], **more}},
    ]
    (table,) = parse_json(document(*items)).tables.values()
    assert table.flags == ("later", "persist")
    assert table.sets["s"].flags == ("interval", "later")
    assert table.objects == (("later object", "o"),)
    (rule,) = table.chains["c"].rules
    assert rule.statements == (Unknown('{"later": 1}'),)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"nftables": {}}', "[" * 100_000, "null", '{"nftables": [' + "9" * 9999]
)
def test_what_is_no_document_of_nft_is_refused(text: str) -> None:
    refusal(text)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(("@", "@s", "ip", "saddr", "==", "", "random")),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(("set", "concat", "prefix", "range", "elem", "map", "key", "left", "&")), inner, max_size=2
        )
    ),
    max_leaves=6,
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, one in inner for place in places(one, (*at, key)))]


@given(st.sampled_from(dumps.NAMES), st.data())
def test_a_document_with_strange_values_is_read_or_refused(name: str, data: st.DataObject) -> None:
    whole = json.loads(dumps.form(name))
    *way, last = data.draw(st.sampled_from(places(whole)[1:]))
    parent = whole
    for key in way:
        parent = parent[key]
    parent[last] = data.draw(values)
    try:
        parse_json(json.dumps(whole))
        refused = ""
    except UserError as error:
        refused = error.id
    assert refused in ("", "rules-nft-json")
