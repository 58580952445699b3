# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""Selects the changes that the kernel accepts, if it refuses all of them together. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def select(items: Sequence[T], accepts: Callable[[Sequence[T]], bool]) -> list[T]:
    """As many of `items` as `accepts` takes together, in order, found by bisection: for n items with one faulty one, about 2
    * log2(n) calls. Assumes that a subset of accepted items is accepted too."""

    def take(part: Sequence[T], taken: Sequence[T]) -> list[T]:
        if not part or accepts([*taken, *part]):
            return list(part)
        if len(part) == 1:
            return []
        middle = len(part) // 2
        first = take(part[:middle], taken)
        return first + take(part[middle:], [*taken, *first])

    return take(items, ())
