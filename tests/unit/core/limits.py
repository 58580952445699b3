# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What tests of limits have in common: an act that ends in time, and its refusal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError


@contextmanager
def within(seconds: float) -> Iterator[None]:
    start = time.monotonic()
    yield
    assert time.monotonic() - start < seconds


def refused(act: Callable[[], object]) -> BallastError:
    with pytest.raises(BallastError) as caught:
        act()
    return caught.value
