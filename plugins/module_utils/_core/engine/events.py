# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Progress as events. Engines emit them; a renderer elsewhere decides what a person sees."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any, Optional, Protocol

from ..host.directories import make_directory
from ..host.local_files import host_error
from ..host.safe_path import open_own
from ..text.json_text import parse_json
from ..text.redaction import redact_message
from .former_names import formerly

STARTED = "started"
WAITING = "waiting"
DONE = "done"
FAILED = "failed"
UNDONE = "undone"

# The option for the path of a FileSink, for the argument spec of each module that has it.
PROGRESS_LOG: dict[str, dict[str, Any]] = {
    "progress_log": {
        "type": "path",
        **formerly("events"),
    }
}

_TEXTS = ("kind", "feature", "subject", "text")
_NUMBERS = ("seconds", "at")


@dataclass(frozen=True)
class Event:
    """What happened, as one line of a progress log."""

    kind: str  # one of the constants above
    feature: str  # the engine's name: "instance"
    subject: str  # what it is about: "node n1"
    text: str  # "waiting for condition Ready: container runtime network not ready"
    seconds: float  # since the engine started
    at: float  # seconds of Unix time


def parse_event(text: bytes) -> Optional[Event]:
    """None if the text is not an event; a bad line in a progress log is not worth a failure."""
    try:
        row = parse_json(text)
    except ValueError:
        return None
    if not isinstance(row, Mapping) or set(row) != {*_TEXTS, *_NUMBERS}:
        return None
    if not all(isinstance(row[name], str) for name in _TEXTS):
        return None
    if not all(isinstance(row[name], (int, float)) for name in _NUMBERS):
        return None
    return Event(**row)


class EventStream:
    """Splits a growing file into events, however its data arrives."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, data: bytes) -> list[Event]:
        """The events whose lines `data` completes, in order. Lines that are not events are skipped."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        return [event for event in map(parse_event, whole) if event is not None]


class Sink(Protocol):
    def emit(self, event: Event) -> None: ...


class NullSink:
    def emit(self, event: Event) -> None:
        """Discard the event: nobody is watching."""


class FileSink:
    """Appends JSON lines to a file, one write per line, so that several engines can share it."""

    def __init__(self, path: str) -> None:
        try:
            make_directory(os.path.dirname(path), None)
            self._descriptor = open_own(path, os.O_WRONLY | os.O_APPEND, 0o644)
        except OSError as error:
            raise host_error("write", path, error) from error

    def emit(self, event: Event) -> None:
        with suppress(OSError):  # the log only reports the work: a full disk must not stop it
            os.write(self._descriptor, json.dumps(asdict(event), sort_keys=True).encode() + b"\n")


class Progress:
    """A sink that adds the engine's name and the seconds since its start to each event. Thread-safe."""

    def __init__(self, sink: Sink, *, feature: str) -> None:
        self._sink = sink
        self._feature = feature
        self._start = time.monotonic()
        self._lock = threading.Lock()
        self.seconds: dict[str, float] = {}  # time spent, by `part` of `time`
        self._open: set[str] = set()  # subjects that have started and not ended

    @contextmanager
    def time(self, part: str, text: str) -> Iterator[None]:
        """Add the duration of the block to `seconds[part]` and report it in an event when the block ends; `text` says what
        was done."""
        begun = time.monotonic()
        try:
            yield
        finally:
            spent = time.monotonic() - begun
            self.seconds[part] = round(self.seconds.get(part, 0.0) + spent, 3)
        self.done(self._feature, f"{text} took {spent:.1f} s")

    def started(self, subject: str, text: str = "") -> None:
        self._emit(STARTED, subject, text)

    def waiting(self, subject: str, text: str) -> None:
        self._emit(WAITING, subject, text)

    def done(self, subject: str, text: str = "") -> None:
        self._emit(DONE, subject, text)

    def end(self, subject: str) -> None:
        """Emit `done` for the subject, unless that has been emitted."""
        if subject in self._open:
            self.done(subject)

    def failed(self, subject: str, text: str) -> None:
        self._emit(FAILED, subject, text)

    def undone(self, subject: str, text: str = "") -> None:
        self._emit(UNDONE, subject, text)

    def _emit(self, kind: str, subject: str, text: str) -> None:
        with self._lock:
            (self._open.discard if kind in (DONE, FAILED) else self._open.add)(subject)
            subject, text = redact_message(subject), redact_message(text)
            seconds = round(time.monotonic() - self._start, 3)
            self._sink.emit(
                Event(kind=kind, feature=self._feature, subject=subject, text=text, seconds=seconds, at=time.time())
            )
