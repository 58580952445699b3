# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Drills that were done: enable -> disable -> enable, and up -> down -> up of a setup. Pure.

Nodes keep nothing of them: the report of a run holds them, and the next run reads and keeps them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .._core.engine.readiness import ENABLE_DISABLE_ENABLE, UP_DOWN_UP
from .._core.text.decode import Faults, boolean, choice
from .._core.text.errors import BallastError
from .._core.text.json_text import parse_json
from .fields import Row, new_faults, number, parse_filled, text, time

KINDS = (ENABLE_DISABLE_ENABLE, UP_DOWN_UP)
FORMAT = 1  # format of readiness.json
_KEPT = 5  # the newest of each feature, host and kind, so that a report does not grow with every run
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
    kind: str  # one of KINDS
    at: str  # RFC 3339, UTC
    steps: tuple[Step, ...]
    version: str  # version of what was drilled

    @property
    def passed(self) -> bool:
        return all(step.ok for step in self.steps)


def parse_exercises(rows: Sequence[object]) -> tuple[Exercise, ...]:
    """Drills from options or a report; Problems with every fault. One without a step shows nothing and is refused."""
    faults = new_faults()
    parsed = tuple(_exercise(row, f"exercises[{index}]", faults) for index, row in enumerate(rows))
    faults.raise_all()
    return parsed


def parse_previous(report_text: str) -> tuple[Exercise, ...]:
    """The drills of an earlier readiness.json. ValueError, in words, if the text is none, or has another format."""
    try:
        report = parse_json(report_text)
    except ValueError:
        raise ValueError("it is not JSON") from None
    if not isinstance(report, dict) or report.get("format") != FORMAT or isinstance(report["format"], bool):
        raise ValueError(f"it is not a report of format {FORMAT}")
    if not isinstance(report.get("exercises"), list):
        raise ValueError("its drills are not a list")
    try:
        return parse_exercises(report["exercises"])
    except BallastError as error:
        raise ValueError(str(error)) from None


def latest_exercises(previous: Iterable[Exercise], done: Iterable[Exercise]) -> tuple[Exercise, ...]:
    """All drills, limited to the newest of each feature, host and kind; sorted by these, newest first."""
    groups: dict[tuple[str, str, str], set[Exercise]] = {}
    for exercise in (*previous, *done):
        groups.setdefault((exercise.feature, exercise.host, exercise.kind), set()).add(exercise)
    newest = (
        sorted(group, key=lambda exercise: (exercise.at, repr(exercise)), reverse=True)[:_KEPT]
        for group in groups.values()
    )
    by_key = sorted(newest, key=lambda rows: (rows[0].feature, rows[0].host, rows[0].kind))
    return tuple(exercise for rows in by_key for exercise in rows)


def exercise_as_json(exercise: Exercise) -> dict[str, Any]:
    """A drill in the form of the report, which `parse_exercises` reads."""
    steps = [
        {"title": step.title, "seconds": step.seconds, "ok": step.ok, "text": step.text} for step in exercise.steps
    ]
    return {**{key: getattr(exercise, key) for key in _RECORD}, "steps": steps}


def _exercise(value: object, path: str, faults: Faults) -> Exercise:
    row = Row(value, faults, path, _RECORD)
    steps = row.items("steps")
    if not steps:
        faults.wrong(row.at("steps"), [], "a list of at least one step")
    return Exercise(
        feature=row.read("feature", parse_filled, ""),
        host=row.read("host", parse_filled, ""),
        kind=row.read("kind", choice(KINDS), ""),
        at=row.read("at", time, ""),
        steps=tuple(_step(Row(step, faults, place, _STEP)) for place, step in steps),
        version=row.read("version", text, ""),
    )


def _step(row: Row) -> Step:
    return Step(
        title=row.read("title", parse_filled, ""),
        seconds=row.read("seconds", number, None) or 0.0,
        ok=row.read("ok", boolean, False),
        text=row.read("text", text, ""),
    )
