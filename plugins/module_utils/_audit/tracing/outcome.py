# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Collects where the states of one packet end, and derives the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple, Optional

from ..._core.text.errors import BallastError
from ..._rules.packet import DNAT, PASS, UNKNOWN, Answer, Packet, endpoint_text, translate_to
from .messages import MESSAGES
from .packet_state import Assumption, Question, State, because, merge_assumptions, questions_of

STEPS_LIMIT = 300_000  # rules and random choices of one packet, over all its states: a few seconds
_QUESTIONS_LIMIT = 6  # the most questions whose answers are combined in every way


class Lines:
    """Rules as text. They outlive a packet, so each is rendered once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], str] = {}

    def of(self, rule: object, place: str, render: Callable[[], str]) -> str:
        """The text of `rule`, cached by identity, which is stable as long as the tracer holds the rules."""
        key = (id(rule), place)
        if key not in self._known:
            self._known[key] = render()
        return self._known[key]


class _Fate(NamedTuple):
    """How a state ends."""

    verdict: str
    endpoint: str = ""
    masqueraded: bool = False
    hairpin: bool = False


@dataclass
class Outcome:
    """What has happened to one packet so far."""

    lines: Lines
    steps: int = 0
    limit: int = STEPS_LIMIT
    ended: list[tuple[str, State]] = field(default_factory=list)
    problems: dict[Question, BallastError] = field(default_factory=dict)
    unknown: Optional[BallastError] = None  # why the first state that could not be followed could not

    def take_steps(self, count: int) -> bool:
        """Count steps; returns False once the packet has taken too many."""
        self.steps += count
        return self.steps <= self.limit

    def end(self, verdict: str, states: Iterable[State], line: str) -> None:
        """These states end with `verdict`, because of the rule shown in `line`."""
        self.ended += [(verdict, because(state, line)) for state in states]

    def end_unknown(self, states: Iterable[State], problem: BallastError) -> None:
        """These states cannot be followed. An answer names the first problem only."""
        self.unknown = self.unknown or problem
        self.ended += [(UNKNOWN, state) for state in states]

    def explain(self, question: Question, problem: Callable[[], BallastError]) -> None:
        """Why a question cannot be decided. `problem` is called only the first time."""
        if question not in self.problems:
            self.problems[question] = problem()

    def answer(self, passed: Sequence[State], packet: Packet) -> Answer:
        """The answer, when every state has ended or is among those that passed all chains. If it depends on questions that
        cannot be decided, it has `ways`: UNKNOWN, or DNAT if they only concern masquerading."""
        fates = [(_Fate(verdict), state) for verdict, state in self.ended]
        fates += [(_fate(state, packet), state) for state in passed]
        cases: dict[_Fate, list[frozenset[Assumption]]] = {}
        for fate, state in fates:
            cases.setdefault(fate, []).append(state.assumed)
        cases = {fate: merge_assumptions(sets) for fate, sets in cases.items()}
        order = list(self.problems)
        questions = sorted(questions_of(assumed for sets in cases.values() for assumed in sets), key=order.index)
        if not questions:
            return self._decide([fate for fate, _state in fates], fates)
        answers = self._answers(cases, questions, fates) if len(questions) <= _QUESTIONS_LIMIT else []
        if len(answers) == 1:
            return answers[0]
        problem = self.problems.get(questions[0])
        if {way.verdict for way in answers} == {DNAT} and len({way.endpoints for way in answers}) == 1:
            return _merge(answers, problem)
        answers = answers or self._answers_by_verdict(fates)
        why = tuple(dict.fromkeys(line for answer in answers for line in answer.why))
        return Answer(UNKNOWN, ways=tuple(answers), problem=problem, why=why)

    def _answers(
        self,
        cases: dict[_Fate, list[frozenset[Assumption]]],
        questions: Sequence[Question],
        fates: Sequence[tuple[_Fate, State]],
    ) -> list[Answer]:
        """The different answers that remain possible, depending on the undecided questions."""
        answers: dict[Answer, None] = {}
        for combination in product((True, False), repeat=len(questions)):
            assumed = set(zip(questions, combination))
            if _is_impossible(assumed):
                continue
            contrary = {(question, not answer) for question, answer in assumed}
            possible = [fate for fate, sets in cases.items() if any(not (case & contrary) for case in sets)]
            kept = [(fate, state) for fate, state in fates if fate in possible and not state.assumed & contrary]
            answers.setdefault(self._decide(possible, kept), None)
        return list(answers)

    def _answers_by_verdict(self, fates: Sequence[tuple[_Fate, State]]) -> list[Answer]:
        """The answers if there are too many questions: one for each verdict, with everything it may lead to, as far as that
        is clear."""
        by_verdict: dict[str, list[tuple[_Fate, State]]] = {}
        for fate, state in fates:
            by_verdict.setdefault(fate.verdict, []).append((fate, state))
        answers = [self._decide([fate for fate, _state in group], group) for group in by_verdict.values()]
        return [answer for answer in answers if answer.verdict != UNKNOWN]

    def _decide(self, fates: Sequence[_Fate], states: Sequence[tuple[_Fate, State]]) -> Answer:
        """The answer if only random choices differ."""
        why = tuple(dict.fromkeys(line for _fate, state in states for line in state.why))
        verdicts = {fate.verdict for fate in fates}
        if UNKNOWN in verdicts:
            return Answer(UNKNOWN, problem=self.unknown, why=why)
        translated = {fate for fate in fates if fate.verdict == DNAT}
        if len(verdicts) != 1 or len(translated) != len({fate.endpoint for fate in translated}):
            outcomes = "; ".join(sorted({_show(fate) for fate in fates}))
            return Answer(
                UNKNOWN,
                problem=MESSAGES.error("rules-trace-undecided", outcomes=outcomes, rules="; ".join(why)),
                why=why,
            )
        if not translated:
            return Answer(verdicts.pop(), why=why)
        return translate_to(
            (fate.endpoint for fate in translated),
            masqueraded={fate.endpoint for fate in translated if fate.masqueraded},
            hairpin=(fate.endpoint for fate in translated if fate.hairpin),
            affinity_seconds=max(state.affinity_seconds for fate, state in states if fate.verdict == DNAT),
            why=why,
        )


def _fate(state: State, packet: Packet) -> _Fate:
    if not state.translated:
        return _Fate(PASS)
    own = state.masqueraded and state.own_masquerade and state.destination == packet.source
    return _Fate(DNAT, endpoint_text(state.destination, state.port), state.masqueraded, own)


def _is_impossible(assumed: set[Assumption]) -> bool:
    """Whether the packet would leave by two links."""
    leaves = [question.link_to for question, answer in assumed if answer and question.link]
    return len(leaves) > len(set(leaves))


def _merge(ways: Sequence[Answer], problem: Optional[BallastError]) -> Answer:
    """Merge answers with the same endpoints that differ in what is masqueraded."""
    values = [dict(way.masqueraded) for way in ways]
    return Answer(
        DNAT,
        tuple((end, value if all(way[end] == value for way in values) else None) for end, value in values[0].items()),
        tuple(end for end in ways[0].hairpin if all(end in way.hairpin for way in ways)),
        ways[0].affinity_seconds,
        tuple(ways),
        problem,
        tuple(dict.fromkeys(line for way in ways for line in way.why)),
    )


def _show(fate: _Fate) -> str:
    if fate.verdict != DNAT:
        return fate.verdict
    return f"{fate.verdict} to {fate.endpoint}{' masqueraded' if fate.masqueraded else ''}"
