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
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._proxy.iptables import compile as iptables
from ansible_collections.ballast.kube.plugins.module_utils._proxy.iptables import trace as iptables_trace
from ansible_collections.ballast.kube.plugins.module_utils._proxy.meaning import Meaning
from ansible_collections.ballast.kube.plugins.module_utils._proxy.meaning_rules import RULES
from ansible_collections.ballast.kube.plugins.module_utils._proxy.model import FamilyView, RuleConfig
from ansible_collections.ballast.kube.plugins.module_utils._proxy.packet import Answer, Packet, Surroundings
from tests.unit.proxy import strategies as s


@dataclass(frozen=True)
class Backend:
    compile: Callable[[FamilyView, RuleConfig], Any]
    trace: Callable[[Any, Packet, Surroundings], Answer]


PACKETS_OF_A_KIND = 6
BACKENDS = {
    "iptables": Backend(iptables.compile_rules, iptables_trace.trace),
}


@pytest.mark.parametrize("name", BACKENDS)
@given(data=st.data())
def test_a_packet_meets_the_fate_that_is_meant_for_it(name: str, data: st.DataObject) -> None:
    scenario = data.draw(s.scenarios(backend=name))
    backend = BACKENDS[name]
    rules = backend.compile(scenario.view, scenario.config)
    for packet, meant in data.draw(meant_packets(scenario)):
        assert backend.trace(rules, packet, scenario.surroundings) == meant, f"{packet} meant for {meant.why}"


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
