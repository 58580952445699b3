# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Random clusters, compiled for every backend: each packet traced through the rules meets the fate that is meant for it.

That the backends agree with each other, but for the named differences, follows: test_meaning.py says it of what is meant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._proxy.iptables import compile as iptables
from ansible_collections.ballast.kube.plugins.module_utils._proxy.iptables import trace as iptables_trace
from ansible_collections.ballast.kube.plugins.module_utils._proxy.meaning import Meaning
from ansible_collections.ballast.kube.plugins.module_utils._proxy.model import FamilyView, RuleConfig
from ansible_collections.ballast.kube.plugins.module_utils._proxy.packet import Answer, Packet, Surroundings
from tests.unit.proxy import strategies as s


@dataclass(frozen=True)
class Backend:
    compile: Callable[[FamilyView, RuleConfig], Any]
    trace: Callable[[Any, Packet, Surroundings], Answer]


BACKENDS = {
    "iptables": Backend(iptables.compile_rules, iptables_trace.trace),
}


@pytest.mark.parametrize("name", BACKENDS)
@given(data=st.data())
def test_a_packet_meets_the_fate_that_is_meant_for_it(name: str, data: st.DataObject) -> None:
    scenario = data.draw(s.scenarios(backend=name))
    backend = BACKENDS[name]
    rules = backend.compile(scenario.view, scenario.config)
    meaning = Meaning(scenario.view, scenario.config, scenario.surroundings)
    for packet in data.draw(s.packets(scenario, most=60)):
        meant = meaning.answer(packet)

        assert backend.trace(rules, packet, scenario.surroundings) == meant, f"{packet} meant for {meant.why}"
