# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Random clusters, compiled for every backend: each packet traced through the rules meets the fate that is meant for it.

That the backends agree with each other, but for the named differences, follows: test_expected_verdict.py says it of what is meant.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._audit.expected_verdict import ExpectedVerdicts
from ansible_collections.ballast.kube.plugins.module_utils._audit.tracing.packet_path import Tracer
from ansible_collections.ballast.kube.plugins.module_utils._audit.verdict_rules import RULES
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables import compile as iptables
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs import compile as ipvs
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables import compile as nftables
from ansible_collections.ballast.kube.plugins.module_utils._rules.node_rules import rules_of_one
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import Answer, Packet
from tests.unit.audit.expected_verdict_cases import CASES, NEWEST, Case
from tests.unit.rules import strategies as s

PACKETS_OF_A_KIND = 4
Trace = Callable[[Packet], Answer]


COMPILERS = {"nftables": nftables, "iptables": iptables, "ipvs": ipvs}


def tracer(scenario: s.Scenario, backend: str) -> Trace:
    rules = COMPILERS[backend].compile_rules(scenario.view, scenario.config)
    return Tracer(rules_of_one(rules, variant="nft"), scenario.surroundings).answer


@pytest.mark.parametrize("backend", COMPILERS)
@given(data=st.data())
def test_a_packet_meets_the_fate_that_is_meant_for_it(backend: str, data: st.DataObject) -> None:
    scenario = data.draw(s.scenarios(backend=backend))
    trace = tracer(scenario, backend)
    for packet, meant in data.draw(meant_packets(scenario)):
        assert trace(packet) == meant, f"{packet} meant for {meant.why}"


@pytest.mark.parametrize("backend", COMPILERS)
@pytest.mark.parametrize("case", [case for case in CASES if case.minor == NEWEST], ids=lambda case: case.title)
def test_rules_do_as_the_case_wants(case: Case, backend: str) -> None:
    """Here each difference between backends is seen as one, in what their rules do. Ours are as the newest kube-proxy's."""
    assert tracer(case.scenario(backend), backend)(case.packet) == case.wanted(backend)


@st.composite
def meant_packets(draw: st.DrawFn, scenario: s.Scenario) -> tuple[tuple[Packet, Answer], ...]:
    """A few packets for each set of rules that decides of one, so that rare fates are met as often as common ones."""
    meaning = ExpectedVerdicts(scenario.view, scenario.config, scenario.surroundings)
    every = list(s.worthwhile_packets(scenario))
    random.Random(0).shuffle(every)
    by_rules: dict[frozenset[str], list[tuple[Packet, Answer]]] = defaultdict(list)
    for packet in every:
        meant = meaning.answer(packet)
        by_rules[frozenset(line for line in meant.why if line.partition(":")[0] in RULES)].append((packet, meant))
    found: list[tuple[Packet, Answer]] = []
    for group in by_rules.values():
        step = -(-len(group) // PACKETS_OF_A_KIND)
        found += group[draw(st.integers(0, step - 1)) :: step]
    return tuple(found)
