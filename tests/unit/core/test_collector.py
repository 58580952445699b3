# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import gc

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.collector import collection_paused, values_kept


def _fail_while_paused() -> None:
    with collection_paused():
        assert not gc.isenabled()
        raise KeyError


def test_the_collector_rests_and_goes_on_also_after_an_error() -> None:
    with pytest.raises(KeyError):
        _fail_while_paused()
    assert gc.isenabled()


def test_a_collector_that_rests_already_is_left_so() -> None:
    with collection_paused():
        with collection_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_collector_does_not_look_at_what_is_kept() -> None:
    try:
        with values_kept():
            assert not gc.isenabled()
            kept = [[]]
        assert gc.isenabled()
        assert not any(one is kept for one in gc.get_objects())
    finally:
        gc.unfreeze()
