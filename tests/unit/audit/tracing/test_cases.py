# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules as other people's nodes have them, as data: cases/SOURCES.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._audit.tracing.packet_path import Tracer
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.objects import Tables
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.parse import parse
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.objects import IpSet
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.parse import parse_sets
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.objects import Ruleset
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.text import parse_text
from ansible_collections.ballast.kube.plugins.module_utils._rules.node_rules import NodeRules
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import (
    UNKNOWN,
    Answer,
    Packet,
    Surroundings,
    translate_to,
)

CASES = sorted(path for path in (Path(__file__).parent / "cases").iterdir() if path.suffix != ".md")


@dataclass
class Expected:
    packet: Packet
    answer: str = ""
    ways: list[str] = field(default_factory=list)


def read(text: str) -> tuple[Surroundings, NodeRules, list[Expected]]:
    head, *sections = text.split("=== ")
    local: tuple[str, ...] = ()
    expected: list[Expected] = []
    for line in head.splitlines():
        kind, _colon, value = line.partition(": ")
        if kind == "local":
            local = (*local, value)
        elif kind == "packet":
            source, destination, port, protocol, link = value.split()
            node_local = link == "node"
            expected.append(
                Expected(Packet(source, destination, int(port), protocol, "" if node_local else link, node_local))
            )
        elif kind == "answer":
            expected[-1].answer = value
        else:
            expected[-1].ways.append(value)
    tables: dict[str, Tables] = {}
    ruleset = Ruleset()
    sets: tuple[IpSet, ...] = ()
    for section in sections:
        title, _newline, rules = section.partition("\n")
        if title == "nft":
            ruleset = parse_text(rules)
        elif title == "ipset":
            sets = parse_sets(rules)
        else:
            tables[title.split()[1]] = parse(rules, family=4)
    node = Surroundings((("lo", ("127.0.0.1",)), ("eth0", ("192.0.2.1",)), ("vip0", local)))
    return node, NodeRules(ruleset, tables, sets=sets), expected


def answer_of(text: str) -> Answer:
    verdict, *ends = text.split()
    if verdict != "dnat":
        return Answer(verdict)
    notes = dict(end.partition("=")[::2] for end in ends)
    return translate_to(
        notes,
        masqueraded=[end for end, note in notes.items() if note],
        hairpin=[end for end, note in notes.items() if note == "hairpin"],
    )


def checks() -> Iterator[tuple[str, int]]:
    for path in CASES:
        for place in range(path.read_text(encoding="utf-8").count("packet: ")):
            yield path.name, place


@pytest.mark.parametrize(("name", "place"), list(checks()))
def test_a_packet_goes_where_it_goes_on_such_a_node(name: str, place: int) -> None:
    node, rules, expected = read((Path(__file__).parent / "cases" / name).read_text(encoding="utf-8"))
    right = expected[place]
    found = Tracer(rules, node).answer(right.packet)
    verdict, *construct = right.answer.split()
    ways = {answer_of(way) for way in right.ways}
    if verdict == UNKNOWN:
        assert found.problem is not None
        assert " ".join(construct) in found.problem.text
    elif not ways:
        assert found == answer_of(right.answer)
    assert found.verdict == verdict
    assert set(found.ways) == ways


def test_each_case_has_its_source() -> None:
    listed = (Path(__file__).parent / "cases" / "SOURCES.md").read_text(encoding="utf-8")
    assert [path.name for path in CASES if f"| {path.name} |" not in listed] == []
