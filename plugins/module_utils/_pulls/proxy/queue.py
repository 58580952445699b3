# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The queue of pulls that wait for a slot, and the choice of the next one. Pure: the time is an argument."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from .request import PullRequest
from .settings import Priority

T = TypeVar("T", bound=Hashable)

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)  # Python refuses to parse numbers of thousands of digits


def priority_of(request: PullRequest, priority: Priority) -> int:
    """The integer in the pod's annotation, 0 if that is none; without the annotation, its namespace's value."""
    text = request.pod_annotations.get(priority.annotation) if priority.annotation else None
    if text is None:
        return priority.namespaces.get(request.namespace, 0)
    return int(text) if _INTEGER.fullmatch(text) else 0


@dataclass
class _Place:
    arrived: float
    priority: int


class Queue(Generic[T]):
    """First come, first served; or, with `by_priority`, highest priority first, and the earlier of equals.

    An item that has waited `ageing` seconds precedes all later ones, whatever their priority. Such items arrived first, so `pop` only
    looks at the very first item.
    """

    def __init__(self, *, by_priority: bool, ageing: float) -> None:
        self._by_priority = by_priority
        self._ageing = ageing
        self._places: OrderedDict[T, _Place] = OrderedDict()  # in order of arrival

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[T]:
        """Items in order of arrival."""
        return iter(self._places)

    def put(self, item: T, *, arrived: float, priority: int) -> None:
        """Must be called in order of arrival."""
        self._places[item] = _Place(arrived, priority)

    def raise_to(self, item: T, priority: int) -> None:
        """Raise the priority, never lower it. Ignores an item that is not in the queue."""
        place = self._places.get(item)
        if place is not None:
            place.priority = max(place.priority, priority)

    def remove(self, item: T) -> None:
        """Ignores an item that is not in the queue."""
        self._places.pop(item, None)

    def pop(self, now: float) -> T:
        """Remove and return the next item. The queue must not be empty."""
        item = next(iter(self._places))
        if self._by_priority and not self._is_aged(item, now):
            item = max(self._places, key=lambda waiting: self._places[waiting].priority)  # the first of equals
        del self._places[item]
        return item

    def in_order(self, now: float) -> list[T]:
        """The items in the order in which `pop` would return them now."""
        if not self._by_priority:
            return list(self._places)
        aged = [item for item in self._places if self._is_aged(item, now)]
        later = list(self._places)[len(aged) :]
        return aged + sorted(later, key=lambda waiting: -self._places[waiting].priority)

    def _is_aged(self, item: T, now: float) -> bool:
        return now - self._places[item].arrived >= self._ageing
