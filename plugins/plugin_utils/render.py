# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Turns events into lines for people. Pure: no clock, no file, no terminal.

     ✓ Build the images                       0.3 s   unchanged
     • Run the control plane
         ✓ control plane certificates             0.4 s
         ✓ control plane                         +2.9 s   Kubernetes 1.37.2
     ✓ Run the control plane                  3.6 s

A task is a line; if its events have several subjects, these are indented below it. A subject is open from its first event until it
is done or failed, or until its task ends:

    started, waiting, undone -> open      done, failed, finish() -> closed

A task's time includes that of its subjects. The subjects' times add up: a subject that ran beside others has a +, and the seconds in
which no subject above it was at work.

The open subjects share one line: on a terminal it is redrawn; elsewhere it is printed after QUIET_SECONDS without output.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import (
    DONE,
    FAILED,
    STARTED,
    UNDONE,
    WAITING,
    Event,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import plain_text
from ansible_collections.ballast.kube.plugins.module_utils._core.text.redaction import redact

OK, BAD, BUSY = "✓", "✗", "•"

_SUBJECT_WIDTH = 36
_INDENT = 4
QUIET_SECONDS = 30.0  # a silent log looks like a hanging program
_UNNOTICED_SECONDS = 0.05  # prints as 0.0
_OF_LOGS = 10_000  # columns of a line in a log


@dataclass(frozen=True)
class Line:
    """A line of progress. `mark` is OK, BAD or BUSY."""

    mark: str
    name: str
    seconds: float
    text: str = ""
    is_added: bool = False  # whether the seconds are those beyond the lines above

    def __str__(self) -> str:
        seconds = f"{'+' if self.is_added else ''}{max(self.seconds, 0):.1f}"
        return (
            f" {self.mark} {plain_text(self.name):<{_SUBJECT_WIDTH}} {seconds:>7} s   {plain_text(self.text)}".rstrip()
        )

    @property
    def indented(self) -> str:
        return f"{' ' * _INDENT}{self}"


def _fit(text: str, room: int) -> str:
    return (text if len(text) <= room else text[: max(room - 3, 0)] + "...")[: max(room, 0)]


def legible(text: str) -> str:
    """Text from other machines, without secrets and terminal control characters."""
    return "\n".join(plain_text(line) for line in redact(text).splitlines())


def message_text(message: object) -> str:
    """A playbook's report: a text or a list of lines unchanged, anything else as JSON."""
    if isinstance(message, list) and all(isinstance(one, str) for one in message):
        message = "\n".join(message)
    return legible(message) if isinstance(message, str) else json.dumps(message, indent=2, default=str)


@dataclass
class _Open:
    started: float  # Unix time, like the others
    heard: float
    text: str


class _Covered:
    """The time that the printed lines account for."""

    def __init__(self) -> None:
        self._spans: list[tuple[float, float]] = []  # disjoint, in order

    def add(self, start: float, end: float) -> float:
        """Seconds between the two that no earlier span covers."""
        apart = [span for span in self._spans if span[1] < start or span[0] > end]
        touched = [span for span in self._spans if span not in apart]
        before = sum(min(span[1], end) - max(span[0], start) for span in touched)
        whole = (min([start, *(span[0] for span in touched)]), max([end, *(span[1] for span in touched)]))
        self._spans = sorted([*apart, whole])
        return max(end - start - before, 0.0)


class Renderer:
    """The subjects of one task."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], _Open] = {}
        self._covered = _Covered()
        self.subjects: set[tuple[str, str]] = set()  # subjects with at least one event

    def take(self, event: Event) -> list[Line]:
        """Lines to print permanently: of what has ended, and of what was undone."""
        key = (event.feature, event.subject)
        self.subjects.add(key)
        subject = self._open.get(key)
        if event.kind in (DONE, FAILED):
            self._open.pop(key, None)
            started = event.at - event.seconds if subject is None else subject.started
            return [self._ended(OK if event.kind == DONE else BAD, event.subject, started, event.at, event.text)]
        if subject is None:
            subject = self._open[key] = _Open(started=event.at, heard=event.at, text="")
        subject.heard = event.at
        if event.kind == UNDONE:
            return [Line(BUSY, event.subject, event.at - subject.started, f"undone: {event.text}")]
        if event.kind == WAITING:
            subject.text = event.text if event.text.startswith("waiting") else f"waiting: {event.text}"
        elif event.kind == STARTED:
            subject.text = event.text
        return []

    def at_work(self, *, now: float) -> list[Line]:
        """The subject with the latest event; empty when none is open."""
        return [
            Line(BUSY, name, now - subject.started, subject.text) for (_feature, name), subject in self._last_heard()
        ]

    def live(self, *, now: float, width: int) -> str:
        """That subject and the number of others, within so many columns; empty when none is open."""
        room = width - 1  # a full last column would make the terminal wrap
        others = f"   ({len(self._open) - 1} more)" if len(self._open) > 1 and room > 2 * _SUBJECT_WIDTH else ""
        return "".join(_fit(str(line), room - len(others)) + others for line in self.at_work(now=now))

    def _last_heard(self) -> list[tuple[tuple[str, str], _Open]]:
        return sorted(self._open.items(), key=lambda entry: entry[1].heard)[-1:]

    def finish(self, *, ok: bool, now: float) -> list[Line]:
        """Lines for all open subjects, as their task has ended."""
        mark = OK if ok else BAD
        lines = [
            self._ended(mark, name, subject.started, now, "" if ok else f"not finished: {subject.text}")
            for (_feature, name), subject in self._open.items()
        ]
        self._open.clear()
        return lines

    def _ended(self, mark: str, name: str, started: float, now: float, text: str) -> Line:
        whole = max(now - started, 0.0)  # a clock may be set back
        seconds = self._covered.add(now - whole, now)
        return Line(mark, name, seconds, text, is_added=whole - seconds > _UNNOTICED_SECONDS)


class TaskLines:
    """A task over all its hosts: one line if it has at most one subject, else its subjects below its name."""

    def __init__(self, name: str, *, started: float) -> None:
        self.name = name
        self.started = started  # Unix time
        self._renderer = Renderer()
        self._held: list[Line] = []  # lines of the only subject so far
        self._is_parent = False  # whether its name is printed above its subjects

    @property
    def has_subjects(self) -> bool:
        """Whether an event has named a subject."""
        return bool(self._renderer.subjects)

    def take(self, event: Event) -> list[str]:
        """The lines that this event completes, to be printed now."""
        return self._below(self._renderer.take(event))

    def live(self, *, now: float, width: int) -> str:
        """The present activity, in one line."""
        return self._renderer.live(now=now, width=width) or _fit(str(self._at_work(now)), width - 1)

    def due(self, *, now: float) -> list[str]:
        """The present activity for a log, below the lines that are printed already."""
        if self._is_parent or len(self._renderer.subjects) > 1:
            at_work = self._renderer.live(now=now, width=_OF_LOGS) or str(self._at_work(now))
            return [*self._reveal(), f"{' ' * _INDENT}{at_work}"]
        return [str(self._at_work(now))]

    def _at_work(self, now: float) -> Line:
        text = "".join(line.text for line in self._renderer.at_work(now=now))
        return Line(BUSY, self.name, now - self.started, text)

    def finish(self, *, ok: bool, now: float) -> list[str]:
        """Called before `end`, and before a failure is shown: open subjects have ended with the task."""
        lines = self._below(self._renderer.finish(ok=ok, now=now))
        return lines if ok else [*lines, *self._reveal()]

    def end(self, *, now: float, text: str) -> str:
        """The line of a task that succeeded. `text` is its result, shown if its only subject reports none."""
        reported = self._held[-1].text if self._held else ""
        return str(Line(OK, self.name, now - self.started, reported or text))

    def _below(self, lines: list[Line]) -> list[str]:
        if not self._is_parent and len(self._renderer.subjects) < 2:
            self._held += lines
            return []
        return [*self._reveal(), *(line.indented for line in lines)]

    def _reveal(self) -> list[str]:
        """The name, and the lines held back, once it is known that there are more."""
        held, self._held = self._held, []
        head = (
            []
            if self._is_parent or not (held or len(self._renderer.subjects) > 1)
            else [f" {BUSY} {plain_text(self.name)}"]
        )
        self._is_parent = self._is_parent or bool(head)
        return [*head, *(line.indented for line in held)]
