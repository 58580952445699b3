# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All preflight checks in one table, and their findings on a node. Pure.

A blocker ("hard") stops the change; a warning ("soft") stops it unless its id is acknowledged. A new check is a row (by
subject in node_rules.py, workload_rules.py, foreign_program_rules.py), a text in messages.py, and test cases with and
without a finding.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from ..._core.text.errors import BallastError, plain_text, shorten
from ..modes import BALLAST
from . import foreign_program_rules, node_rules, workload_rules
from .facts import Facts
from .messages import MESSAGES
from .rule import BLOCKER, PreflightFinding, Rule

RULES: tuple[Rule, ...] = (*node_rules.RULES, *workload_rules.RULES, *foreign_program_rules.RULES)
_MOST = 20  # problems that one finding lists


def _by_id(rules: Sequence[Rule]) -> Mapping[str, Rule]:
    by_id = {rule.id: rule for rule in rules}
    if len(by_id) != len(rules):
        raise ValueError("two rules have one id")
    return by_id


_RULE_BY_ID = _by_id(RULES)


def preflight(facts: Facts, *, acknowledge: Sequence[str] = ()) -> list[PreflightFinding]:
    """The findings, blockers first, then by id; acknowledged ones are included. `acknowledge` has been checked with
    `acknowledge_problems`."""
    findings = []
    for rule in RULES:
        things = tuple(rule.condition(facts)) if rule.covers(facts) else ()
        if things:
            findings.append(
                _finding(rule, things, facts, acknowledged=rule.severity != BLOCKER and rule.id in acknowledge)
            )
    return sorted(findings, key=lambda finding: (finding.severity, finding.id))  # "hard" is before "soft"


def _finding(rule: Rule, things: tuple[str, ...], facts: Facts, *, acknowledged: bool) -> PreflightFinding:
    shown = [shorten(plain_text(thing)) for thing in things[:_MOST]]
    shown += [f"and {len(things) - _MOST} more"] if len(things) > _MOST else []
    change = facts.change
    message = MESSAGES.error(
        rule.id,
        from_mode=change.from_mode or "none",
        to_mode=BALLAST if change.is_ours else change.to_mode,
        version=change.kube_proxy_version or "of an unknown version",
    )
    return PreflightFinding(rule.id, rule.severity, tuple(shown), message.text, message.remedy, acknowledged)


def acknowledge_problems(ids: Sequence[str]) -> list[BallastError]:
    """Errors in the option `acknowledge`: unknown ids, and blockers, which cannot be acknowledged. An id without a finding
    on this node is allowed, because a play uses the same ids for all its nodes."""
    problems = []
    for index, id in enumerate(ids):
        path = f"acknowledge[{index}]"
        rule = _RULE_BY_ID.get(id)
        if rule is None:
            soft = [known.id for known in RULES if known.severity != BLOCKER]
            near = difflib.get_close_matches(id, soft, n=3)
            hint = f"did you mean {' or '.join(near)}?" if near else f"name one of {', '.join(sorted(soft))}"
            problems.append(MESSAGES.error("preflight-acknowledge-unknown", path=path, value=id, hint=hint))
        elif rule.severity == BLOCKER:
            problems.append(MESSAGES.error("preflight-acknowledge-hard", path=path, value=id, remedy=rule.remedy))
    return problems
