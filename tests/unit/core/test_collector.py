# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import gc
import weakref

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.gc_pause import (
    collect_rarely,
    keep_values,
    pause_collection,
)


class Ring:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.ring = self


def _fail_while_paused() -> None:
    with pause_collection():
        assert not gc.isenabled()
        raise KeyError


def test_the_collector_rests_and_goes_on_also_after_an_error() -> None:
    with pytest.raises(KeyError):
        _fail_while_paused()
    assert gc.isenabled()


def test_a_collector_that_rests_already_is_left_so() -> None:
    with pause_collection():
        with pause_collection():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_of_several_threads_the_last_one_lets_the_collector_go_on() -> None:
    first, second = pause_collection(), pause_collection()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_the_collector_does_not_look_at_what_is_kept() -> None:
    try:
        with keep_values():
            assert not gc.isenabled()
            kept = [[]]
        assert gc.isenabled()
        assert not any(one is kept for one in gc.get_objects())
    finally:
        gc.unfreeze()


def old_garbage() -> weakref.ref[Ring]:
    """Which only a walk through all values finds."""
    ring = Ring()
    gc.collect()
    return weakref.ref(ring)


def test_all_values_are_walked_through_when_that_is_due_and_not_before() -> None:
    now, before = [0.0], gc.get_threshold()
    with collect_rarely(60.0, clock=lambda: now[0]) as collect_if_due:
        assert gc.get_threshold() == (*before[:2], 2**31 - 1)  # never automatically
        for due in (60.0, 120.0):
            garbage = old_garbage()
            now[0] = due - 1
            collect_if_due()
            assert garbage() is not None
            now[0] = due
            collect_if_due()
            assert garbage() is None
    assert gc.get_threshold() == before
