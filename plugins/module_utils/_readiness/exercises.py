# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Exercises that were done: enable -> disable -> enable, and the setting up -> down -> up. Pure.

Nothing of them lies on the nodes: the report of a run holds them, and the next run reads it and carries them on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .._core.errors import BallastError, Problems
from .._core.readiness import ENABLE_DISABLE_ENABLE, UP_DOWN_UP
from . import fields
from .fields import Fields

KINDS = (ENABLE_DISABLE_ENABLE, UP_DOWN_UP)
FORMAT = 1  # of readiness.json
_KEPT = 5  # the newest of a feature, a host and a kind: a report does not grow with every run
_RECORD = ("feature", "host", "kind", "at", "steps", "version")
_STEP = ("title", "seconds", "ok", "text")


@dataclass(frozen=True)
class Step:
    title: str
    seconds: float
    ok: bool
    text: str


@dataclass(frozen=True)
class Exercise:
    feature: str
    host: str
    kind: str  # of KINDS
    at: str  # RFC 3339, UTC
    steps: tuple[Step, ...]
    version: str  # of what was exercised

    @property
    def passed(self) -> bool:
        return all(step.ok for step in self.steps)


def parse_exercises(rows: Sequence[object]) -> tuple[Exercise, ...]:
    """Of options or of a report; Problems with every fault. An exercise without a step shows nothing and is refused."""
    problems: fields.Problems = []
    found = tuple(_exercise(row, f"exercises[{number}]", problems) for number, row in enumerate(rows))
    Problems.raise_if(problems)
    return found


def parse_previous(text: str) -> tuple[Exercise, ...]:
    """The exercises of an earlier readiness.json. ValueError in words where it is none, or none of this format."""
    try:
        report = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("it is no JSON") from None
    if not isinstance(report, dict) or report.get("format") != FORMAT or isinstance(report["format"], bool):
        raise ValueError(f"it is no report of format {FORMAT}")
    if not isinstance(report.get("exercises"), list):
        raise ValueError("its exercises are no list")
    try:
        return parse_exercises(report["exercises"])
    except BallastError as error:
        raise ValueError(str(error)) from None


def carried(previous: Iterable[Exercise], done: Iterable[Exercise]) -> tuple[Exercise, ...]:
    """All of them, the newest of each feature, host and kind; by feature, host and kind, the newest first."""
    groups: dict[tuple[str, str, str], set[Exercise]] = {}
    for one in (*previous, *done):
        groups.setdefault((one.feature, one.host, one.kind), set()).add(one)
    newest = (sorted(group, key=lambda one: (one.at, repr(one)), reverse=True)[:_KEPT] for group in groups.values())
    by_key = sorted(newest, key=lambda rows: (rows[0].feature, rows[0].host, rows[0].kind))
    return tuple(one for rows in by_key for one in rows)


def exercise_told(one: Exercise) -> dict[str, Any]:
    """As the report has it and `parse_exercises` reads it."""
    steps = [{"title": step.title, "seconds": step.seconds, "ok": step.ok, "text": step.text} for step in one.steps]
    return {**{key: getattr(one, key) for key in _RECORD}, "steps": steps}


def _exercise(value: object, path: str, problems: fields.Problems) -> Exercise:
    row = Fields(value, path, _RECORD, problems)
    steps = row.rows("steps")
    if not steps:
        row.wrong(row.at("steps"), [], "a list of at least one step")
    return Exercise(
        feature=row.named("feature"),
        host=row.named("host"),
        kind=row.choice("kind", KINDS),
        at=row.time("at"),
        steps=tuple(_step(Fields(step, place, _STEP, problems)) for place, step in steps),
        version=row.text("version"),
    )


def _step(row: Fields) -> Step:
    return Step(row.named("title"), row.number("seconds") or 0.0, row.flag("ok"), row.text("text"))
