# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who waits for a slot, and who is next. Pure: the time is an argument."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from .request import PullRequest
from .settings import Priority

T = TypeVar("T", bound=Hashable)

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)  # Python refuses to read numbers of thousands of digits


def priority_of(request: PullRequest, priority: Priority) -> int:
    """The pod's annotation, 0 where that is not an integer; its namespace's value where it has no such annotation."""
    text = request.pod_annotations.get(priority.annotation) if priority.annotation else None
    if text is None:
        return priority.namespaces.get(request.namespace, 0)
    return int(text) if _INTEGER.fullmatch(text) else 0


@dataclass
class _Place:
    arrived: float
    priority: int


class Queue(Generic[T]):
    """First come, first served; or, with `by_priority`, the highest priority first, and the earlier of equals.

    Who has waited `ageing` seconds goes before all who came later, whatever their priority. Those who have are the first
    to have come, so it is enough to ask the very first.
    """

    def __init__(self, *, by_priority: bool, ageing: float) -> None:
        self._by_priority = by_priority
        self._ageing = ageing
        self._places: OrderedDict[T, _Place] = OrderedDict()  # in order of arrival

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[T]:
        """In order of arrival."""
        return iter(self._places)

    def put(self, item: T, *, arrived: float, priority: int) -> None:
        """Items are put in order of arrival."""
        self._places[item] = _Place(arrived, priority)

    def raise_to(self, item: T, priority: int) -> None:
        """Never lowers; an item that does not wait is passed over."""
        place = self._places.get(item)
        if place is not None:
            place.priority = max(place.priority, priority)

    def remove(self, item: T) -> None:
        """An item that does not wait is passed over."""
        self._places.pop(item, None)

    def pop(self, now: float) -> T:
        """Takes out who is next. The queue is not empty."""
        item = next(iter(self._places))
        if self._by_priority and not self._is_aged(item, now):
            item = max(self._places, key=lambda one: self._places[one].priority)  # the first of equals
        del self._places[item]
        return item

    def in_order(self, now: float) -> list[T]:
        """Those who wait, as they would be taken at this time."""
        if not self._by_priority:
            return list(self._places)
        aged = [item for item in self._places if self._is_aged(item, now)]
        later = list(self._places)[len(aged) :]
        return aged + sorted(later, key=lambda one: -self._places[one].priority)

    def _is_aged(self, item: T, now: float) -> bool:
        return now - self._places[item].arrived >= self._ageing
