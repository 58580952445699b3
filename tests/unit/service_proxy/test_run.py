# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When the loop sleeps, works and rests, by a clock that only work moves."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._service_proxy import loop as module
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.loop import Loop, Waker, rest_seconds, run


@dataclass
class Clock:
    now: float = 0.0

    def monotonic(self) -> float:
        return self.now


@dataclass
class Turns:
    """A loop, each turn of which takes the next of `work` seconds, and another change comes during it."""

    clock: Clock
    waker: Waker
    work: list[float]
    timeout: float = 60.0

    def turn(self) -> None:
        self.clock.now += self.work.pop(0)
        self.waker()


@dataclass
class Rests:
    """An event that is set once there is no work left, and keeps how long it was waited for."""

    turns: Turns
    rests: list[float] = field(default_factory=list)

    def is_set(self) -> bool:
        return not self.turns.work

    def wait(self, seconds: float) -> bool:
        self.rests.append(seconds)
        return self.is_set()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module.time, "monotonic", made.monotonic)
    return made


@pytest.fixture
def kernel() -> Iterator[Any]:
    silent, far = socket.socketpair()

    class Addresses:
        socket = far

        def drain(self) -> bool:
            return False

    class Kernel:
        addresses = Addresses()

        def fileno(self) -> int:
            return silent.fileno()

    yield Kernel()
    silent.close()
    far.close()


def test_changes_gather_while_it_rests_and_a_change_that_comes_alone_does_not_wait(clock: Clock, kernel: Any) -> None:
    waker = Waker()
    turns = Turns(clock, waker, work=[0.0, 0.001, 3.0])
    rests = Rests(turns)
    waker()
    run(cast(Loop, turns), waker, kernel, cast(threading.Event, rests), list)
    waker.close()
    assert rests.rests == [0.0, pytest.approx(0.039), 1 / 15]


def test_a_rest_grows_with_the_work_before_it_and_is_a_fifteenth_of_a_second_at_most() -> None:
    assert [rest_seconds(worked) for worked in (0.0, 0.001, 0.01, 600.0)] == [0.0, pytest.approx(0.039), 1 / 15, 1 / 15]


def test_a_waker_that_was_called_often_wakes_once_and_then_again() -> None:
    waker = Waker()
    for _ in range(3):
        waker()
    assert waker.socket.recv(4096) == b"\0"
    waker.drain()
    waker()
    assert waker.socket.recv(4096) == b"\0"
    waker.close()


def test_a_call_during_a_drain_does_not_keep_later_ones_from_waking() -> None:
    waker = Waker()
    real = waker.socket

    class Interrupted:
        """Is called again as its byte was just read."""

        def recv(self, size: int) -> bytes:
            data = real.recv(size)
            waker()
            return data

    waker.socket = cast(socket.socket, Interrupted())
    waker()
    waker.drain()
    waker()
    assert real.recv(4096) == b"\0"
    waker.socket = real
    waker.close()
