# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""Which Service a destination belongs to, updated as Services come and go. The rule is that of `_rules/frontends.py`."""

from __future__ import annotations

from collections.abc import Iterable

from .._rules.frontends import Key
from .ports import ServiceName

Age = tuple[float, str, str]  # seconds since 1970, namespace, name; the smallest wins


class Claims:
    def __init__(self) -> None:
        self.owners: dict[Key, ServiceName] = {}
        self._ages: dict[ServiceName, Age] = {}
        self._rivals: dict[Key, set[ServiceName]] = {}  # for a destination that several Services claim: all of them

    def replace(
        self, name: ServiceName, created: float, before: Iterable[Key], after: Iterable[Key]
    ) -> set[ServiceName]:
        """`name` claims `after` instead of `before`. Returns the other Services that gain or lose a destination by that."""
        age = (created, *name)
        old, new = frozenset(before), frozenset(after)
        same = old & new if self._ages.get(name) == age else frozenset()
        affected: set[ServiceName] = set()
        for key in old - same:
            self._remove(name, key, affected)
        if new:
            self._ages[name] = age
        else:
            self._ages.pop(name, None)
        for key in new - same:
            self._add(name, key, affected)
        return affected - {name}

    def _remove(self, name: ServiceName, key: Key, affected: set[ServiceName]) -> None:
        rivals = self._rivals.get(key)
        if rivals is None:
            del self.owners[key]
            return
        rivals.discard(name)
        self._decide(key, rivals, affected)
        if len(rivals) == 1:
            del self._rivals[key]

    def _add(self, name: ServiceName, key: Key, affected: set[ServiceName]) -> None:
        owner = self.owners.setdefault(key, name)
        if owner != name:
            rivals = self._rivals.setdefault(key, {owner})
            rivals.add(name)
            self._decide(key, rivals, affected)

    def _decide(self, key: Key, rivals: set[ServiceName], affected: set[ServiceName]) -> None:
        winner = min(rivals, key=self._ages.__getitem__)
        if winner != self.owners[key]:
            affected.update((winner, self.owners[key]))
            self.owners[key] = winner
