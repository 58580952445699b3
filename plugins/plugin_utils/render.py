# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From events to the lines that a person reads. Pure: no clock, no file, no terminal.

     ✓ control plane                 2.9 s   readyz after 2.6 s
     • node n2                       5.1 s   waiting: container runtime network not ready

A subject is open from its first event until it is done or failed, or until its task ends:

    started, waiting, undone -> open      done, failed, finish() -> closed

On a terminal the open subjects share one line, which is redrawn (`live`); elsewhere an open subject gets a line when it
is new, when it waits for something else, and when it has had none for long (`plain`).
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import (
    DONE,
    FAILED,
    STARTED,
    UNDONE,
    WAITING,
    Event,
)

OK, BAD, BUSY = "✓", "✗", "•"

_SUBJECT_WIDTH = 28
_NEWS_SECONDS = 2.0  # a plain line for a subject that ended sooner would only be noise
QUIET_SECONDS = 30.0  # a log in which nothing moves looks like one of something that hangs


def line(mark: str, subject: str, seconds: float, text: str = "") -> str:
    return f" {mark} {plain_text(subject):<{_SUBJECT_WIDTH}} {max(seconds, 0):>7.1f} s   {plain_text(text)}".rstrip()


def plain_text(text: str) -> str:
    """Without control characters: an event may repeat what a program printed, and the terminal obeys them."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


@dataclass
class _Open:
    started: float  # Unix time, like the others
    heard: float
    text: str
    shown: float  # when its last plain line was
    news: bool = True  # since then


class Renderer:
    def __init__(self) -> None:
        self._open: dict[tuple[str, str], _Open] = {}
        self.closed = 0  # subjects that are reported as ended

    def take(self, event: Event) -> list[str]:
        """Lines to print for good: of what ended, and of what was undone."""
        key = (event.feature, event.subject)
        subject = self._open.get(key)
        if event.kind in (DONE, FAILED):
            self._open.pop(key, None)
            self.closed += 1
            seconds = event.seconds if subject is None else event.at - subject.started
            return [line(OK if event.kind == DONE else BAD, event.subject, seconds, event.text)]
        if subject is None:
            subject = self._open[key] = _Open(started=event.at, heard=event.at, text="", shown=event.at)
        subject.heard = event.at
        if event.kind == UNDONE:
            return [line(BUSY, event.subject, event.at - subject.started, f"undone: {event.text}")]
        if event.kind == WAITING:
            text = event.text if event.text.startswith("waiting") else f"waiting: {event.text}"
            subject.news, subject.text = subject.news or subject.text != text, text
        elif event.kind == STARTED:
            subject.text = event.text
        return []

    def plain(self, *, now: float) -> list[str]:
        """Lines for subjects that are open, where there is no terminal to draw on."""
        lines = []
        for (_feature, name), subject in self._open.items():
            if now - subject.shown >= (_NEWS_SECONDS if subject.news else QUIET_SECONDS):
                subject.shown, subject.news = now, False
                lines.append(line(BUSY, name, now - subject.started, subject.text))
        return lines

    def live(self, *, now: float, width: int) -> str:
        """The line of the subject that was heard of last, with the number of others; empty when none is open."""
        if not self._open:
            return ""
        (_feature, name), subject = max(self._open.items(), key=lambda entry: entry[1].heard)
        room = width - 1  # a full last column would make the terminal wrap
        others = f"   ({len(self._open) - 1} more)" if len(self._open) > 1 and room > 2 * _SUBJECT_WIDTH else ""
        text = line(BUSY, name, now - subject.started, subject.text)
        room -= len(others)
        return (text if len(text) <= room else text[: max(room - 3, 0)] + "...")[: max(room, 0)] + others

    def finish(self, *, ok: bool, now: float) -> list[str]:
        """Their task has ended, and with it all that is open."""
        lines = [
            line(OK if ok else BAD, name, now - subject.started, "" if ok else f"not finished: {subject.text}")
            for (_feature, name), subject in self._open.items()
        ]
        self.closed += len(lines)
        self._open.clear()
        return lines
