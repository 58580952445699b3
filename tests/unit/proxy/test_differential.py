# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Random clusters, compiled for every backend: each packet traced through the rules meets the fate that is meant for it.

That the backends agree with each other, but for the named differences, follows: test_meaning.py says it of what is meant.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._proxy.iptables import compile as iptables
from ansible_collections.ballast.kube.plugins.module_utils._proxy.iptables.trace import trace as trace_iptables
from ansible_collections.ballast.kube.plugins.module_utils._proxy.ipvs import compile as ipvs
from ansible_collections.ballast.kube.plugins.module_utils._proxy.ipvs.trace import trace as trace_ipvs
from ansible_collections.ballast.kube.plugins.module_utils._proxy.meaning import Meaning
from ansible_collections.ballast.kube.plugins.module_utils._proxy.meaning_rules import RULES
from ansible_collections.ballast.kube.plugins.module_utils._proxy.nftables import compile as nftables
from ansible_collections.ballast.kube.plugins.module_utils._proxy.nftables.objects import Ruleset
from ansible_collections.ballast.kube.plugins.module_utils._proxy.nftables.trace import Tracer
from ansible_collections.ballast.kube.plugins.module_utils._proxy.packet import Answer, Packet
from tests.unit.proxy import strategies as s
from tests.unit.proxy.meaning_cases import CASES, Case

PACKETS_OF_A_KIND = 4
Trace = Callable[[Packet], Answer]


def nftables_trace(scenario: s.Scenario) -> Trace:
    table = nftables.compile_rules(scenario.view, scenario.config)
    return Tracer(Ruleset({(table.family, table.name): table}), scenario.surroundings).answer


def iptables_trace(scenario: s.Scenario) -> Trace:
    rules = iptables.compile_rules(scenario.view, scenario.config)
    return lambda packet: trace_iptables(rules, packet, scenario.surroundings)


def ipvs_trace(scenario: s.Scenario) -> Trace:
    rules = ipvs.compile_rules(scenario.view, scenario.config)
    return lambda packet: trace_ipvs(rules, packet, scenario.surroundings)


TRACES = {"nftables": nftables_trace, "iptables": iptables_trace, "ipvs": ipvs_trace}


@pytest.mark.parametrize("backend", TRACES)
@given(data=st.data())
def test_a_packet_meets_the_fate_that_is_meant_for_it(backend: str, data: st.DataObject) -> None:
    scenario = data.draw(s.scenarios(backend=backend))
    trace = TRACES[backend](scenario)
    for packet, meant in data.draw(meant_packets(scenario)):
        assert trace(packet) == meant, f"{packet} meant for {meant.why}"


@pytest.mark.parametrize("backend", TRACES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_rules_do_as_the_case_wants(case: Case, backend: str) -> None:
    """Here each difference between backends is seen as one, in what their rules do."""
    assert TRACES[backend](case.scenario(backend))(case.packet) == case.wanted(backend)


@st.composite
def meant_packets(draw: st.DrawFn, scenario: s.Scenario) -> tuple[tuple[Packet, Answer], ...]:
    """A few packets for each set of rules that decides of one, so that rare fates are met as often as common ones."""
    meaning = Meaning(scenario.view, scenario.config, scenario.surroundings)
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
