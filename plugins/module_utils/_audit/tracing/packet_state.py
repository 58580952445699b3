# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The changes that rules have made to a packet so far, and the assumptions made on the way.

A condition that cannot be decided is followed both ways. Each way carries the assumption, so that the same question gets the
same answer later. If both ways lead to the same state, the assumption is dropped: it did not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Optional

_MERGE_LIMIT = 64  # the most sets of assumptions that are compared with each other


class NotKnown(Exception):
    """The value of an expression or the effect of a target cannot be determined."""


class Question(NamedTuple):
    """A condition that cannot be decided."""

    text: str
    # For a condition on the outgoing link: the packet's destination. The packet leaves by one link only.
    link_to: str = ""
    link: str = ""  # the link's whole name; "" for a pattern


Assumption = tuple[Question, bool]


@dataclass(frozen=True)
class State:
    """`own_...`: done by a rule that matches only the packet's own source, such as one that masquerades hairpin packets,
    which return to their source."""

    destination: str
    port: int
    mark: int = 0
    ct_mark: int = 0
    translated: bool = False
    masqueraded: bool = False
    own_mark: bool = False
    own_masquerade: bool = False
    affinity_seconds: int = 0
    looped: bool = False  # returned over the loopback link
    scheduled: bool = False  # sent by ip_vs
    untracked: bool = False  # conntrack ignores it, so nothing translates it
    assumed: frozenset[Assumption] = frozenset()
    why: tuple[str, ...] = field(default=(), compare=False)


@dataclass
class Exits:
    """The states that leave a base chain."""

    accepted: list[State] = field(default_factory=list)
    bound: list[State] = field(default_factory=list)  # translated: later nat chains of this hook are skipped


def with_changes(state: State, **fields: Any) -> State:
    """`dataclasses.replace` in a tenth of the time: an audit of 10,000 Services creates a million states."""
    made = object.__new__(State)
    made.__dict__.update(state.__dict__, **fields)
    return made


def because(state: State, line: str) -> State:
    return with_changes(state, why=(*state.why, line))


def assume(state: State, question: Question) -> tuple[Optional[State], Optional[State]]:
    """The states for the answers yes and no; None for an answer that earlier assumptions exclude."""
    for known, answer in state.assumed:
        if known == question:
            return (state, None) if answer else (None, state)
        if answer and known.link and question.link and known.link_to == question.link_to:
            return None, state
    return (
        with_changes(state, assumed=state.assumed | {(question, True)}),
        with_changes(state, assumed=state.assumed | {(question, False)}),
    )


def distinct(states: list[State]) -> list[State]:
    """The different states. Where some differ only in their assumptions, see `merge_assumptions`."""
    if len(states) < 2:
        return states
    kept = list(dict.fromkeys(states))
    if len(kept) < 2 or not any(state.assumed for state in kept):
        return kept
    alike: dict[State, list[State]] = {}
    for state in kept:
        alike.setdefault(with_changes(state, assumed=frozenset()), []).append(state)
    return [
        with_changes(group[0], assumed=assumed)
        for group in alike.values()
        for assumed in merge_assumptions(state.assumed for state in group)
    ]


def merge_assumptions(sets: Iterable[frozenset[Assumption]]) -> list[frozenset[Assumption]]:
    """The same cases in fewer sets: a question is dropped if both its answers lead here."""
    kept = list(dict.fromkeys(sets))
    if len(kept) > _MERGE_LIMIT:
        return kept
    merged = True
    while merged and len(kept) > 1:
        merged = False
        kept = [case for case in kept if not any(other < case for other in kept)]
        for place, case in enumerate(kept):
            pair = next((other for other in kept[place + 1 :] if _are_complements(case, other)), None)
            if pair is not None:
                kept = list(dict.fromkeys([case & pair, *(other for other in kept if other not in (case, pair))]))
                merged = True
                break
    return kept


def _are_complements(case: frozenset[Assumption], other: frozenset[Assumption]) -> bool:
    """Whether they differ only in the answer to one question."""
    difference = case ^ other
    return len(difference) == 2 and len({question for question, _answer in difference}) == 1


def questions_of(sets: Iterable[frozenset[Assumption]]) -> Sequence[Question]:
    return list(dict.fromkeys(question for assumed in sets for question, _answer in assumed))
