# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pauses Python's garbage collector where it costs time and finds nothing."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_NEVER = 2**31 - 1  # collections of younger generations


class _Pauses:
    """Nested or concurrent pauses of all threads: the collector is enabled again when the last one ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._enabled = True  # its state before the first pause

    def begin(self) -> None:
        with self._lock:
            if not self._count:
                self._enabled = gc.isenabled()
                gc.disable()
            self._count += 1

    def end(self) -> None:
        with self._lock:
            self._count -= 1
            if not self._count and self._enabled:
                gc.enable()


_PAUSES = _Pauses()


@contextmanager
def pause_collection() -> Iterator[None]:
    """For work that creates many values and keeps them. The collector would scan all of them each time their number has
    grown by a quarter, and find nothing: half of the time for a snapshot of 10,000 Services."""
    _PAUSES.begin()
    try:
        yield
    finally:
        _PAUSES.end()


@contextmanager
def keep_values() -> Iterator[None]:
    """For work whose values live until the process ends: the collector never scans them, not even at exit."""
    with pause_collection():
        yield
        gc.freeze()


@contextmanager
def collect_rarely(seconds: float, *, clock: Callable[[], float] = time.monotonic) -> Iterator[Callable[[], None]]:
    """For a program whose values are replaced all the time. By default the collector scans everything each time a quarter of
    the values is new, while every thread waits, and finds nothing. Within this context, a full collection happens only when
    the yielded function is called and the last one was `seconds` ago. Young generations are collected as usual."""
    thresholds = gc.get_threshold()
    due = clock() + seconds

    def collect_if_due() -> None:
        nonlocal due
        if clock() >= due:
            gc.collect()
            due = clock() + seconds

    gc.set_threshold(*thresholds[:2], _NEVER)
    try:
        yield collect_if_due
    finally:
        gc.set_threshold(*thresholds)
