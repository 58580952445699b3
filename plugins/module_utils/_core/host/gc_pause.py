# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Python's garbage collector, where it only costs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pause_collection() -> Iterator[None]:
    """For work that makes many values and keeps them. The collector walks through all there are each time their number
    has grown by a quarter, and finds nothing: of a snapshot of 10,000 Services that is half of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def keep_values() -> Iterator[None]:
    """For work whose values stay until the process ends: the collector never walks through them, also not as it ends."""
    with pause_collection():
        yield
        gc.freeze()
