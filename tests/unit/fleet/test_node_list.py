# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.node_list import count_nodes, fold, grouped


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["n1"], "n1"),
        (["n1", "n2", "n3", "n10"], "n[1-3,10]"),
        (["n08", "n09", "n10", "n11"], "n[08-11]"),
        (["n1.dc2.example.com", "n2.dc2.example.com"], "n[1-2].dc2.example.com"),
        (["ip-10-0-1-23.internal", "ip-10-0-1-24.internal"], "ip-10-0-1-[23-24].internal"),
        (["web", "n1", "db"], "web, n1, db"),
        (["n2", "n1", "n2"], "n[1-2]"),
        ([], ""),
    ],
)
def test_names_are_folded(names: list[str], text: str) -> None:
    assert fold(names) == text


def test_what_is_beyond_the_limit_is_counted() -> None:
    names = [f"{letter}-node" for letter in "abcdefghijk"]
    assert fold(names, limit=2) == "a-node, b-node, and 9 more"
    assert count_nodes(["n1"]) == "1 node (n1)"


def test_two_thousand_nodes_are_a_line() -> None:
    (line,) = grouped((f"n{number:04}", "ipvs -> nftables") for number in range(2000))
    assert line == "ipvs -> nftables: 2000 nodes (n[0000-1999])"


def test_lines_of_most_nodes_come_first() -> None:
    assert grouped([("n1", "a"), ("n2", "b"), ("n3", "b")]) == ["b: 2 nodes (n[2-3])", "a: 1 node (n1)"]


def unfold(text: str) -> set[str]:
    names = set()
    for part in re.findall(r"(?:[^,\[]|\[[^]]*\])+", text):
        match = re.fullmatch(r" ?([^\[]*)\[([^]]*)\](.*)", part)
        if match is None:
            names.add(part.strip())
            continue
        for piece in match[2].split(","):
            first, _dash, last = piece.partition("-")
            width = len(first) if first.startswith("0") else 0
            names.update(
                f"{match[1]}{number:0{width}}{match[3]}" for number in range(int(first), int(last or first) + 1)
            )
    return names


@given(st.lists(st.from_regex(r"[a-z]{1,2}(0[0-9]|[1-9][0-9]?)?(\.x)?", fullmatch=True), unique=True, max_size=12))
def test_what_is_folded_has_the_same_names(names: list[str]) -> None:
    assert unfold(fold(names, limit=100)) == set(names)
