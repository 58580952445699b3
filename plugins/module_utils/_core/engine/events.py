# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Progress of an engine, as events. Engines emit; what a person sees is decided by a renderer elsewhere."""

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

# The option that names the file of a FileSink, in the argument spec of each module that has it.
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
    kind: str  # one of the constants above
    feature: str  # the engine's name: "instance"
    subject: str  # what it is about: "node n1"
    text: str  # "waiting for condition Ready: container runtime network not ready"
    seconds: float  # since the engine started
    at: float  # seconds of Unix time


def parse_event(text: bytes) -> Optional[Event]:
    """None where it is no event; a file of progress is not worth a failure."""
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
    """Events out of a growing file, in whatever parts it is read."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, data: bytes) -> list[Event]:
        *whole, self._rest = (self._rest + data).split(b"\n")
        return [event for event in map(parse_event, whole) if event is not None]


class Sink(Protocol):
    def emit(self, event: Event) -> None: ...


class NullSink:
    def emit(self, event: Event) -> None:
        """For callers that nobody watches."""


class FileSink:
    """Appends JSON lines to a file, one write a line, so that several engines may share it."""

    def __init__(self, path: str) -> None:
        try:
            make_directory(os.path.dirname(path), None)
            self._descriptor = open_own(path, os.O_WRONLY | os.O_APPEND, 0o644)
        except OSError as error:
            raise host_error("write", path, error) from error

    def emit(self, event: Event) -> None:
        with suppress(OSError):  # a full disk must not stop the work through what merely tells of it
            os.write(self._descriptor, json.dumps(asdict(event), sort_keys=True).encode() + b"\n")


class Progress:
    """A sink with the engine's name and its start, so that engines say only what is new. Threads may share it."""

    def __init__(self, sink: Sink, *, feature: str) -> None:
        self._sink = sink
        self._feature = feature
        self._start = time.monotonic()
        self._lock = threading.Lock()
        self.seconds: dict[str, float] = {}  # spent by part of the work, as `time` names them
        self._open: set[str] = set()  # subjects that have begun

    @contextmanager
    def time(self, part: str, text: str) -> Iterator[None]:
        """Add the seconds that the block takes to `seconds`, and say them in an event once it has ended: `text` is what it did."""
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
        """It is done, unless that was said."""
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
