# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Matches of nftables that need more than the value of an expression."""

from __future__ import annotations

from dataclasses import replace

from ..._rules.nftables.expressions import EQUAL, UNEQUAL, AnonymousSet, Fib, Match, Meta, Statement
from ..._rules.nftables.render import render_statement
from ..._rules.nftables.vocabulary import parts_of
from .hook_view import HookView
from .nft_values import is_about_own_source
from .packet_state import NotKnown, Question, State


def has_route_back(match: Match) -> bool:
    """Whether `fib saddr . iif oif missing` and the like match. A packet is assumed to come in on the link through which its
    source is reached."""
    right = match.right.keys if isinstance(match.right, AnonymousSet) else ()
    if not isinstance(match.left, Fib) or "saddr" not in match.left.flags or right not in _REACHED:
        raise NotKnown(render_statement(match))
    return _REACHED[right] == (match.operator == EQUAL)


# Older nft lists a missing route as link 0.
_REACHED = {(("missing",),): False, (("0",),): False, (("",),): False, (("exists",),): True}


LINKS_IN = (Meta("iifname"), Meta("iif"))
LINKS_OUT = (Meta("oifname"), Meta("oif"))


def is_by_link(match: Match, names: AnonymousSet, view: HookView, state: State) -> bool:
    """Whether a match of LINKS_IN or LINKS_OUT with `names` holds. Raises NotKnown if the link is unknown."""
    is_by = view.arrives_by if match.left in LINKS_IN else view.leaves_by
    results = [is_by(key[0], state, rest="*") for key in names.keys]
    if None in results and True not in results:
        raise NotKnown(render_statement(match))
    return (True in results) == (match.operator == EQUAL)


def question_of(match: Match, state: State, source: str) -> tuple[Question, bool]:
    """What a match that cannot be decided asks, and the answer by which it matches. `source`: of the packet."""
    positive = match.operator != UNEQUAL
    text = render_statement(match if positive else replace(match, operator=EQUAL))
    keys = match.right.keys if isinstance(match.right, AnonymousSet) else ()
    if match.left in (*LINKS_IN, *LINKS_OUT) and len(keys) == 1:
        name = keys[0][0]
        flag, to = ("-i", source) if match.left in LINKS_IN else ("-o", state.destination)
        return Question(f"{flag} {name}", to, "" if name.endswith("*") else name), positive
    if any(part in LINKS_OUT for part in parts_of(match.left)):
        return Question(text, state.destination), positive
    return Question(text), positive


def is_for_own_source(statement: Statement) -> bool:
    """Whether the statement matches only packets with one particular source, alone or together with their
    destination."""
    if not isinstance(statement, Match) or statement.operator != EQUAL:
        return False
    keys = statement.right.keys if isinstance(statement.right, AnonymousSet) else ()
    alone = len(keys) == 1 and not set("/-") & set(keys[0][0])
    return is_about_own_source(statement.left, alone=alone)
