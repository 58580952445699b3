# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A plan with the reason of each flag, and its form in diff mode. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .._core.engine.kinds import fields
from .._core.engine.plan import ABSENT, Plan, Value
from .._core.engine.plan_report import plan_diff
from .profiles.profiles import Flag


@dataclass(frozen=True)
class AnnotatedPlan(Plan):
    reasons: Mapping[str, Sequence[Flag]] = field(default_factory=dict)  # by target of the service


def annotate_diff(plan: AnnotatedPlan) -> list[dict[str, str]]:
    """The rows of `plan_diff`, with the reason of each flag in those of services."""
    rows = plan_diff(plan)
    for row, step in zip(rows, plan.steps):
        if step.kind == "service":
            why = {f"--{flag.name}={flag.value}": flag.why for flag in plan.reasons.get(step.target, ())}
            row.update(before=_text(step.before, why), after=_text(step.after, why))
    return rows


def _text(value: Value, why: Mapping[str, str]) -> str:
    """A word of the command on each line, followed by its reason. Both sides use the same reasons, so the diff shows only
    the words that change."""
    if value == ABSENT:
        return ""
    service = dict(fields(value))
    argv = service.pop("argv")
    words = [str(word) for word in argv] if isinstance(argv, Sequence) else []
    lines = [f"{word}    # {why[word]}" if word in why else word for word in words]
    return "\n".join([*lines, json.dumps(service, indent=1, sort_keys=True)]) + "\n"
