# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What must become of a packet: the cases of each rule, then what holds of every answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._audit.expected_verdict import ExpectedVerdicts
from ansible_collections.ballast.kube.plugins.module_utils._audit.verdict_rules import DIFFERENCES, RULES, Rule
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import FamilyView, NodeView, RuleConfig
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import DNAT, Answer, Surroundings
from tests.unit.audit.expected_verdict_cases import CASES, Case
from tests.unit.rules import strategies as s


def told(case: Case, backend: str) -> Answer:
    scenario = case.scenario(backend)
    expected = ExpectedVerdicts(scenario.view, scenario.config, scenario.surroundings, minor=case.minor)
    return expected.answer(case.packet)


@pytest.mark.parametrize("backend", s.BACKENDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_meaning(case: Case, backend: str) -> None:
    assert told(case, backend) == case.wanted(backend)


def test_every_rule_has_a_case_on_every_backend_it_holds_for() -> None:
    met = {(rule, backend) for backend in s.BACKENDS for case in CASES for rule in rules_of(told(case, backend))}

    assert met == {(rule.id, backend) for rule in RULES.values() for backend in rule.backends}


def rules_of(found: Answer) -> set[str]:
    """The rules that `why` names, without the claim of the destination."""
    return {line.partition(":")[0] for line in found.why} & set(RULES)


def test_a_rule_is_of_known_backends() -> None:
    with pytest.raises(ValueError, match="rule r holds for"):
        Rule("r", "text", "source", ("ebpf",))


def test_a_backend_without_packets_is_refused() -> None:
    with pytest.raises(ValueError, match="winkernel"):
        ExpectedVerdicts(FamilyView(4, NodeView("n1")), RuleConfig("winkernel"), Surroundings())


# --- of every answer


@given(st.data())
def test_an_answer_agrees_with_itself(data: st.DataObject) -> None:
    scenario = data.draw(s.scenarios())
    meaning = ExpectedVerdicts(scenario.view, scenario.config, scenario.surroundings)
    for packet in data.draw(s.packets(scenario)):
        found = meaning.answer(packet)
        translated = found.verdict == DNAT

        assert bool(found.endpoints) == translated
        assert translated or found == Answer(found.verdict)
        assert set(found.hairpin) <= set(found.endpoints)
        replaced = {endpoint for endpoint, masqueraded in found.masqueraded if masqueraded}
        assert set(found.hairpin) <= replaced
        assert found.why


@given(st.data())
def test_backends_differ_only_where_a_difference_is_named(data: st.DataObject) -> None:
    scenario = data.draw(s.scenarios())
    meanings = {
        one: ExpectedVerdicts(scenario.view, scenario.on(one).config, scenario.surroundings) for one in s.BACKENDS
    }
    named = {row.id for row in DIFFERENCES}
    for packet in data.draw(s.packets(scenario)):
        answers = [meanings[one].answer(packet) for one in s.BACKENDS]

        assert len(set(answers)) == 1 or any(rules_of(one) & named for one in answers)


@given(st.data())
def test_a_packet_reaches_only_endpoints_of_the_service_that_has_its_destination(data: st.DataObject) -> None:
    scenario = data.draw(s.scenarios())
    meaning = ExpectedVerdicts(scenario.view, scenario.config, scenario.surroundings)
    behind: dict[tuple[str, int], set[str]] = {}
    for frontend in scenario.view.frontends:
        behind[frontend.protocol, frontend.port] = {one.text for one in frontend.service.endpoints} | behind.get(
            (frontend.protocol, frontend.port), set()
        )
    for packet in data.draw(s.packets(scenario)):
        assert set(meaning.answer(packet).endpoints) <= behind.get((packet.protocol, packet.port), set())
