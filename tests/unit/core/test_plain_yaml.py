# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plain YAML is read as PyYAML reads it, or refused with its line: real files, generated documents, and noise."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.text.document import (
    _loader,
    format_document,
    parse_document,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._core.text.plain_yaml import (
    NotPlain,
    format_plain,
    parse_plain,
)

FILES = sorted((Path(__file__).with_name("cases") / "plain_yaml").glob("*.conf"))


def by_library(text: str) -> Any:
    return yaml.load(text, _loader(yaml))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_real_files_are_read_and_written_without_pyyaml(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = path.read_text(encoding="utf-8")
    expected = by_library(text)
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert parse_document(text, name=path.name) == expected
    assert parse_document(format_document(expected, like=text), name=path.name) == expected


def test_there_are_files_of_each_kind() -> None:
    kinds = {parse_plain(path.read_text(encoding="utf-8")).get("kind") for path in FILES}
    assert {"KubeletConfiguration", "KubeProxyConfiguration", "Config", "ClusterConfiguration"} <= kinds


KEYS = st.one_of(
    st.sampled_from(["mode", "nodePort", "yes", "null", "1", "~", "a b", "a: b", "#", "-", "- x", "<<", "", "é"]),
    st.text(max_size=8),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=30),
    st.sampled_from(
        ["on", "0x1f", "1:30", "1_000", "010", "2001-01-01", "10.0.0.0/8", "fd00::/8", "a #b", "'", "=", "30s"]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=20,
)
DOCUMENTS = st.one_of(st.dictionaries(KEYS, VALUES, min_size=1, max_size=5), st.lists(VALUES, min_size=1, max_size=5))


@given(DOCUMENTS)
@settings(max_examples=120, deadline=None)
def test_what_is_written_is_read_by_both(document: Any) -> None:
    text = format_plain(document)
    assert by_library(text) == document
    assert parse_plain(text) == document


@given(DOCUMENTS, st.sampled_from([None, False, True]), st.booleans(), st.integers(2, 6))
@settings(max_examples=120, deadline=None)
def test_what_pyyaml_writes_is_read_alike_or_refused(document: Any, flow: Any, ascii_only: bool, indent: int) -> None:
    text = yaml.safe_dump(document, default_flow_style=flow, allow_unicode=not ascii_only, indent=indent, width=4000)
    same_or_refused(text)


SIMPLE = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 9), st.sampled_from(["", "a", "10.96.0.10", "0s", "x y", "on"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "bC", "d.e/f"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["kind", "mode"]), SIMPLE, min_size=1), st.integers(2, 6))
@settings(max_examples=100, deadline=None)
def test_what_go_and_pyyaml_write_of_a_configuration_is_never_refused(document: Any, indent: int) -> None:
    assert parse_plain(yaml.safe_dump(document, default_flow_style=False, indent=indent)) == document


PIECES = [
    "a", "b: ", "b:", "- ", "-", "\n", "\n  ", "\n    ", "\n- ", ": ", ":", " #c", "#", "[", "]", "{", "}", ", ", ",", "'", '"',
    "\\n", "\\", "1", "-1", "0.5", "1e3", "yes", "~", "null", "---", "---\n", "...", "&x", "*x", "!t", "|", ">", "?", "? ", "<<: ",
    " ", "  ", "=", "%", "@", "`", "\t", "é", "\x85", "\u2028", "\ufeff", "\x00", "'' ", '"x"', "'y'", "a:b", "::", "\r\n", "+.5", "0x1",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
@settings(max_examples=1000, deadline=None)
def test_noise_is_read_alike_or_refused(text: str) -> None:
    same_or_refused(text)


@given(st.sampled_from(FILES), st.data())
@settings(max_examples=100, deadline=None)
def test_a_damaged_file_is_read_alike_or_refused(path: Path, data: st.DataObject) -> None:
    text = path.read_text(encoding="utf-8")
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 12))
    same_or_refused(text[:at] + data.draw(st.sampled_from(["", *PIECES])) + text[at + cut :])


def same_or_refused(text: str) -> None:
    refused_line = 0
    try:
        value = parse_plain(text)
    except NotPlain as error:
        refused_line = error.line
    if refused_line:
        assert refused_line <= text.count("\n") + 1
    else:
        assert json.dumps(by_library(text)) == json.dumps(value)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a: 1\nb: &x 2\n", 2, "begins with &"),
        ("a: |\n  text\n", 1, "begins with |"),
        ("a: some\n  more\n", 2, "multi-line"),
        ("a: 1\n\tb: 2\n", 2, "a tab"),
        ("a: 1\na: 2\n", 2, "duplicate key"),
        ("1: a\n", 1, "not a string"),
        ("a: b: c\n", 1, "two keys"),
        ("a:\n    b: 1\n  c: 2\n", 3, "matches no line before"),
        ("---\na: 1\n---\nb: 2\n", 3, "several documents"),
        ("a: [1,\n  2]\n", 1, "not closed|neither"),
        ("a: {b: 1}\n", 1, "begins with {"),
        ("a: 'b\n", 1, "not closed"),
        ('a: "b" c\n', 1, "after a value"),
        ('a: "\\q"\n', 1, "not plain"),
        ("text\n", 1, "not `key: value`"),
        ("- " * 101 + "a\n", 1, "nested"),
        ("a: [b: 1]\n", 1, "not plain"),
        ("a: [[b]]\n", 1, "neither"),
        ("a: \x07\n", 1, "not printable"),
    ],
)
def test_the_rest_is_refused_with_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(NotPlain, match=reason) as caught:
        parse_plain(text)
    assert caught.value.line == line


def test_without_pyyaml_the_line_and_the_remedy_are_named_and_nothing_of_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "kind: Config\ntoken: &hunter2 x\nother: *hunter2\n"
    assert raised(text).id == "core-document"  # PyYAML reads it, and an anchor is refused
    monkeypatch.setitem(sys.modules, "yaml", None)
    error = raised(text)
    assert (error.id, error.found) == ("core-pyyaml", "line 2: a value that begins with &")
    assert "plain YAML" in error.remedy
    assert "(redacted)" not in str(error)
    assert "hunter2" not in str(error)


def test_pyyaml_reads_what_is_not_plain() -> None:
    assert parse_document("a: |\n  b\n", name="it") == {"a": "b\n"}


def raised(text: str) -> BallastError:
    with pytest.raises(BallastError) as caught:
        parse_document(text, name="it")
    return caught.value
