# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import itertools
import json
import threading
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import DONE, WAITING, Event
from ansible_collections.ballast.kube.plugins.plugin_utils import relay
from ansible_collections.ballast.kube.plugins.plugin_utils.relay import Relay, relayed
from tests.unit.fakes import ListSink

OLD, WAITS, ENDS = (
    Event(kind, "instance", "node n1", text, seconds=1.0, at=5.0)
    for kind, text in [(DONE, "of an earlier run"), (WAITING, "for condition Ready"), (DONE, "")]
)


def line(event: Event) -> bytes:
    return json.dumps(asdict(event)).encode() + b"\n"


class There:
    """A file of the other machine."""

    def __init__(self, data: bytes = b"") -> None:
        self.data = data

    def read(self, offset: int) -> bytes:
        return self.data[offset:]


def texts(sink: ListSink) -> list[tuple[str, str]]:
    return [(event.kind, event.text) for event in sink.events]


@given(st.lists(st.integers(1, 60), max_size=8))
def test_every_event_is_told_once_however_the_file_grows(parts: list[int]) -> None:
    there, sink, data = There(line(OLD)), ListSink(), line(WAITS) + line(ENDS)
    it = Relay(there.read, sink, offset=len(there.data))
    for size in [*parts, len(data)]:
        there.data, data = there.data + data[:size], data[size:]
        it.catch_up()
    assert texts(sink) == [(WAITING, "for condition Ready"), (DONE, "")]


def test_the_time_of_another_machine_is_replaced_by_that_of_this_one() -> None:
    there, sink = There(line(WAITS)), ListSink()
    Relay(there.read, sink, offset=0, has_own_clock=True).catch_up()
    Relay(there.read, sink, offset=0).catch_up()
    [over_there, here] = sink.events
    assert over_there.at > 1_700_000_000
    assert here.at == 5.0


def test_what_is_no_event_is_passed_over() -> None:
    there, sink = There(b"\x1b]0;owned\x07\n" + line(ENDS)), ListSink()
    Relay(there.read, sink, offset=0).catch_up()
    assert texts(sink) == [(DONE, "")]


def test_events_are_told_while_the_module_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "POLL_SECONDS", 0.01)
    there, told = There(line(OLD)), threading.Event()

    class Telling(ListSink):
        def emit(self, event: Event) -> None:
            super().emit(event)
            told.set()

    sink = Telling()
    with relayed(there.read, sink):
        there.data += line(WAITS)
        assert told.wait(60), "while the block runs"
        there.data += line(ENDS)
    assert texts(sink) == [(WAITING, "for condition Ready"), (DONE, "")]


def test_a_connection_that_breaks_fails_nothing_and_hides_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "POLL_SECONDS", 0.01)

    def read(offset: int) -> bytes:
        raise OSError("connection reset")

    with relayed(read, ListSink()):
        pass
    with pytest.raises(ValueError, match="of the module"), relayed(read, ListSink()):
        raise ValueError("of the module")


def test_a_connection_that_breaks_for_a_while_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "POLL_SECONDS", 0.01)
    there, sink, broken = There(line(OLD)), ListSink(), threading.Event()
    reads = itertools.count()

    def read(offset: int) -> bytes:
        if next(reads) == 2:
            broken.set()
            raise OSError("connection reset")
        return there.read(offset)

    with relayed(read, sink):
        assert broken.wait(60)
        there.data += line(WAITS)
    assert texts(sink) == [(WAITING, "for condition Ready")]
