# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import gc

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.gc_pause import keep_values, pause_collection


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


def test_the_collector_does_not_look_at_what_is_kept() -> None:
    try:
        with keep_values():
            assert not gc.isenabled()
            kept = [[]]
        assert gc.isenabled()
        assert not any(one is kept for one in gc.get_objects())
    finally:
        gc.unfreeze()
