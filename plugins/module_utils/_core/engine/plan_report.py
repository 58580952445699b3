# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A plan for people: what a module returns of it, and what diff mode shows. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ..text.redaction import redact_json
from .plan import ABSENT, Plan, Value


def steps_as_result(plan: Plan) -> list[dict[str, str]]:
    return [{"kind": step.kind, "verb": step.verb, "title": step.title, "target": step.target} for step in plan.steps]


def plan_diff(plan: Plan) -> list[dict[str, str]]:
    """One entry per step, in the form of Ansible's diff mode."""
    return [
        {
            "before_header": step.title,
            "after_header": step.title,
            "before": _text(step.before, step.kind),
            "after": _text(step.after, step.kind),
        }
        for step in plan.steps
    ]


def _text(value: Value, kind: str) -> str:
    """A value for people. The content of a file that only its owner may read is hidden."""
    if value == ABSENT:
        return ""
    if not isinstance(value, Mapping):
        return f"{value}\n"
    if kind == "directory":
        return f"mode {int(str(value['mode'])):04o}\n"
    if kind == "file":
        mode = int(str(value["mode"]))
        content = str(value["content"]) if mode & 0o077 else "(content hidden: only its owner may read it)\n"
        return f"mode {mode:04o}\n{content}"
    return f"{json.dumps(redact_json(value), indent=1, sort_keys=True)}\n"
