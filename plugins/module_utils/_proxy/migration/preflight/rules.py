# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The checks before a change of a node's kube-proxy: the whole table, and what it says of a node. Pure.

A hard finding stops the change. A soft one stops it too, until its id is acknowledged. A new check is a row here (by
subject: node_rules.py, workload_rules.py, neighbour_rules.py), a text in messages.py, and a case in the tests that finds and
one that does not.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from ...._core.errors import BallastError, shorten
from . import neighbour_rules, node_rules, workload_rules
from .facts import Facts
from .messages import MESSAGES
from .rule import HARD, PreflightFinding, Rule

RULES: tuple[Rule, ...] = (*node_rules.RULES, *workload_rules.RULES, *neighbour_rules.RULES)
_MOST = 20  # things that one finding lists


def _by_id(rules: Sequence[Rule]) -> Mapping[str, Rule]:
    found = {rule.id: rule for rule in rules}
    if len(found) != len(rules):
        raise ValueError("two rules have one id")
    return found


_RULE_BY_ID = _by_id(RULES)


def preflight(facts: Facts, *, acknowledge: Sequence[str] = ()) -> list[PreflightFinding]:
    """Hard ones first, then by id; empty where nothing stands against the change. `acknowledge` is as
    `acknowledge_problems` has let it pass."""
    found = []
    for rule in RULES:
        things = tuple(rule.condition(facts)) if rule.is_asked(facts) else ()
        if things:
            found.append(_finding(rule, things, facts, acknowledged=rule.severity != HARD and rule.id in acknowledge))
    return sorted(found, key=lambda one: (one.severity, one.id))  # "hard" is before "soft"


def _finding(rule: Rule, things: tuple[str, ...], facts: Facts, *, acknowledged: bool) -> PreflightFinding:
    shown = [shorten("".join(sign if sign.isprintable() else " " for sign in one)) for one in things[:_MOST]]
    shown += [f"and {len(things) - _MOST} more"] if len(things) > _MOST else []
    asked = facts.asked
    told = MESSAGES.error(
        rule.id,
        from_mode=asked.from_mode or "none",
        to_mode=asked.to_mode,
        version=asked.kube_proxy_version or "of an unknown version",
    )
    return PreflightFinding(rule.id, rule.severity, tuple(shown), told.text, told.remedy, acknowledged)


def acknowledge_problems(ids: Sequence[str]) -> list[BallastError]:
    """What is wrong with the option `acknowledge`: ids of no check, and of hard ones, which cannot be accepted. An id whose
    check finds nothing on this node is well: a play names the same ones for all its nodes."""
    problems = []
    for index, one in enumerate(ids):
        path = f"acknowledge[{index}]"
        rule = _RULE_BY_ID.get(one)
        if rule is None:
            soft = [known.id for known in RULES if known.severity != HARD]
            near = difflib.get_close_matches(one, soft, n=3)
            hint = f"did you mean {' or '.join(near)}?" if near else f"name one of {', '.join(sorted(soft))}"
            problems.append(MESSAGES.error("preflight-acknowledge-unknown", path=path, value=one, hint=hint))
        elif rule.severity == HARD:
            problems.append(MESSAGES.error("preflight-acknowledge-hard", path=path, value=one, remedy=rule.remedy))
    return problems
