# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.text.decode import (
    Faults,
    Reader,
    Required,
    Words,
    Wrong,
    absolute_path,
    boolean,
    choice,
    listing,
    matching,
    show,
    text,
    whole,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import (
    Message,
    Messages,
    Problems,
    UserError,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.text.json_text import mapping_in, parse_object, rows_in

TABLE = Messages(
    "docs/x.md",
    [
        Message("x-value", UserError, "{path}: {value} is not {wanted}", ""),
        Message("x-key", UserError, "{path}: {key}? {allowed}", "{hint}"),
        Message("x-missing", UserError, "{path} is missing", "set it to {wanted}"),
        Message("x-odd", UserError, "{path}: {value} is odd by {by}", ""),
    ],
)
WORDS = Words(TABLE, "x-value", "x-key", "x-missing", prefix="x-", whole="all")


@dataclass(frozen=True)
class Row:
    name: str
    size: int = 7


def read(value: object, *, title: str = "", known: Any = None) -> Reader:
    return Reader(value, Faults(WORDS, title), known=known)


def said(reader: Reader) -> list[str]:
    return [problem.text for problem in reader.faults.problems]


def even(value: Any) -> int:
    if value % 2:
        raise Wrong(id="odd", by=value % 2)
    return int(value)


def test_a_value_is_what_its_parser_makes_of_it() -> None:
    top = read({"a": "x", "b": 4, "c": {"d": True}, "e": [{"f": 1}, {"f": 2}], "g": None})
    assert (top.read("a", text, ""), top.read("b", even, 0), top.below("c").read("d", boolean, False)) == ("x", 4, True)
    assert [row.read("f", whole(1), 0) for row in top.rows("e")] == [1, 2]
    assert (top.read("g", text, "default"), top.read("h", text, "default")) == ("default", "default")
    assert (top.has("a"), top.has("g"), top.mapping("c"), top.sequence("h")) == (True, False, {"d": True}, ())
    assert said(top) == []


def test_faults_have_their_path_and_reading_goes_on() -> None:
    top = read({"a": 1, "b": 3, "c": {"d": "yes"}, "e": [{"f": 0}, 5], "h": {"i": []}}, title="f.yml")
    assert top.read("a", text, "default") == "default"
    top.read("b", even, 0)
    top.below("c").read("d", boolean, False)
    for row in top.rows("e"):
        row.read("f", whole(1, 9), 0)
    top.below("h").below("i").require("j", text, "", expected="a name")
    top.require("k", text, "", expected="a name")
    assert said(top) == [
        "f.yml: a: 1 is not text",
        "f.yml: b: 3 is odd by 1",
        'f.yml: c.d: "yes" is not true or false',
        "f.yml: e[1]: 5 is not an object",
        "f.yml: e[0].f: 0 is not a whole number from 1 to 9",
        "f.yml: h.i: a list of 0 is not an object",
        "f.yml: k is missing",
    ]
    with pytest.raises(Problems):
        top.faults.raise_all()


def test_an_unknown_key_has_the_nearest_one_as_its_remedy() -> None:
    faults = read({"nam": 1, "colour": 2}, known=("name", "size")).faults
    assert [(problem.text, problem.remedy) for problem in faults.problems] == [
        ('all: "nam"? name, size', "did you mean name?"),
        ('all: "colour"? name, size', "remove it"),
    ]


def test_what_is_no_mapping_is_one_fault() -> None:
    top = read("text", known=("name",))
    assert (top.is_mapping, read({}).is_mapping) == (False, True)
    faults: list[Any] = []
    top = Reader([1], Faults(WORDS, "f.yml", faults), known=("name",), expected="a mapping of name")
    top.require("name", text, "", expected="a name")
    assert [problem.text for problem in faults] == ["f.yml: a list of 1 is not a mapping of name"]


def test_a_dataclass_is_filled_and_keeps_its_defaults() -> None:
    parsers = {"name": Required(text, "a name"), "size": whole(1)}
    assert read({"name": "a"}).fill(Row, parsers) == Row("a")
    assert read({"name": "a"}).fill(Row, {"name": parsers["name"]}, size=9) == Row("a", 9)
    top = read({"size": 0})
    assert top.fill(Row, parsers) == Row("")
    assert said(top) == ["name is missing", "size: 0 is not a whole number of at least 1"]


@pytest.mark.parametrize(
    ("parse", "good", "bad"),
    [
        (text, ["", "a"], [1, b"a"]),
        (boolean, [True, False], [0, "true"]),
        (listing, [[], ["a"], ()], ["ab", {}]),
        (absolute_path, ["/a"], ["a", "/a\n", 1]),
        (whole(2, 4), [2, 4], [1, 5, True, 3.0, "3"]),
        (whole(0), [0, 10**100], [-1]),
        (choice(("a", "b")), ["a"], ["c", ["a"], ""]),
        (matching(re.compile("a+"), "letters"), ["aa"], ["ab", 1]),
    ],
)
def test_parsers_refuse_what_they_do_not_know(parse: Any, good: list[Any], bad: list[Any]) -> None:
    assert [parse(value) for value in good] == good
    for value in bad:
        with pytest.raises(Wrong):
            parse(value)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(), st.lists))
def test_a_value_is_shown_short_and_on_one_line(value: object) -> None:
    shown = show({"a": value}) + show(value)
    assert (len(shown) < 1500, shown.isprintable()) == (True, True)


def test_what_has_another_form_counts_for_nothing_where_no_fault_is_reported() -> None:
    node = {"status": {"addresses": [{"address": "10.0.0.1"}, "x"], "conditions": {}}}
    assert (mapping_in(node, "status", "conditions"), mapping_in(node, "status", "addresses")) == ({}, {})
    assert (mapping_in(node), mapping_in([], "status")) == (node, {})
    assert (rows_in(node, "status", "addresses"), rows_in(node, "status")) == ([{"address": "10.0.0.1"}], [])
    assert [parse_object(given) for given in ('{"a": 1}', b"[]", "{", None)] == [{"a": 1}, None, None, None]
