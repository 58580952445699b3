# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a trace shows nftables rules, and what it says of those that it cannot follow."""

from __future__ import annotations

from ..._core.text.errors import BallastError
from ..._rules.nftables.expressions import Expression, Key, Unknown, Verdict
from ..._rules.nftables.messages import MESSAGES
from ..._rules.nftables.objects import Rule
from ..._rules.nftables.render import render_expression, render_rule, render_statement
from .messages import MESSAGES as TRACE_MESSAGES
from .packet_state import NotKnown


class Absent(NotKnown):
    """A chain or set that a rule names and the table lacks."""


def problem_of(error: NotKnown, rule: Rule, place: str) -> BallastError:
    if isinstance(error, Absent):
        return MESSAGES.error("rules-nft-trace-absent", name=error.args[0], place=place, rule=show_rule(rule))
    return MESSAGES.error("rules-nft-trace-unknown", construct=error.args[0], place=place, rule=show_rule(rule))


def link_problem(rule: Rule, place: str) -> BallastError:
    return TRACE_MESSAGES.error("rules-trace-link", place=place, rule=show_rule(rule))


def show_expression(expression: Expression) -> str:
    return expression.text if isinstance(expression, Unknown) else render_expression(expression)


def show_element(key: Key, verdict: Verdict) -> str:
    return f" {{ {' . '.join(key)} : {render_statement(verdict)} }}"


def show_rule(rule: Rule) -> str:
    try:
        return render_rule(rule)
    except BallastError:  # another program's rule, with a comment that we cannot render
        return f"rule with handle {rule.handle}"
