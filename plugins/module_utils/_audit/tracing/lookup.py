# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Looks up keys among constants, some of which are networks, ranges, or names that end in a star.

A set may have tens of thousands of keys. Plain keys are in a dictionary; for the others, the plain parts are looked up
first.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Generic, Optional, TypeVar, Union

from ..._rules.addresses import as_address
from ..._rules.nftables.expressions import AnonymousMap, AnonymousSet, Expression, Key, Target
from ..._rules.nftables.objects import Set
from ..._rules.nftables.vocabulary import SERVICE_TYPES, parts_of, type_of
from .packet_state import NotKnown

_ADDRESSES = ("ipv4_addr", "ipv6_addr")
_NUMBERS = ("inet_service", "mark", "integer")
CATCH_ALL = ("*",)

V = TypeVar("V")
Span = tuple[int, int]


class Index(Generic[V]):
    """An index of (key, value) pairs. `types` has the type of each part of a key.

    Raises ValueError for a constant that is not of its type.
    """

    def __init__(self, pairs: Iterable[tuple[Key, V]], types: tuple[str, ...]) -> None:
        self._types = types
        self._plain: dict[Key, V] = {}
        # By the positions of the parts that are ranges, then by the plain parts: the ranges of the others, and the value.
        self._spans: dict[tuple[int, ...], dict[Key, list[tuple[tuple[Span, ...], V]]]] = {}
        self._names: list[tuple[Key, V]] = []  # keys with a part that ends in a star
        for key, value in pairs:
            self._add(key, value)

    def _add(self, key: Key, value: V) -> None:
        if key != CATCH_ALL and any(kind == "ifname" and part.endswith("*") for kind, part in zip(self._types, key)):
            self._names.append((key, value))
            return
        places = tuple(at for at, (kind, part) in enumerate(zip(self._types, key)) if _is_span(kind, part))
        if any(kind in _NUMBERS and part.isalpha() for kind, part in zip(self._types, key)):
            raise ValueError(" . ".join(key))  # a service by its name, as nft -S prints it
        if not places:
            self._plain[key] = value
            return
        try:
            spans = tuple(_span(self._types[at], key[at]) for at in places)
        except ValueError as error:
            raise ValueError(" . ".join(key)) from error
        rest = tuple(part for at, part in enumerate(key) if at not in places)
        self._spans.setdefault(places, {}).setdefault(rest, []).append((spans, value))

    def find(self, key: Key) -> Optional[V]:
        """The value for `key`: of an equal plain key, else of one with ranges, else of one with a star, else of
        CATCH_ALL. None if there is none."""
        if key in self._plain:
            return self._plain[key]
        for places, by_rest in self._spans.items():
            rest = tuple(part for at, part in enumerate(key) if at not in places)
            candidates = by_rest.get(rest)
            if not candidates:
                continue
            numbers = [_number(self._types[at], key[at]) for at in places]
            for spans, value in candidates:
                if all(low <= number <= high for number, (low, high) in zip(numbers, spans)):
                    return value
        for pattern, value in self._names:
            if all(_is_named(kind, part, expected) for kind, part, expected in zip(self._types, key, pattern)):
                return value
        return self._plain.get(CATCH_ALL)


def _is_span(kind: str, part: str) -> bool:
    return (kind in _ADDRESSES and ("/" in part or "-" in part)) or (kind in _NUMBERS and "-" in part)


def _span(kind: str, part: str) -> Span:
    if "/" in part:
        network = ipaddress.ip_network(part)
        return int(network.network_address), int(network.broadcast_address)
    low, _dash, high = part.partition("-")
    return _number(kind, low), _number(kind, high)


def _number(kind: str, part: str) -> int:
    return int(as_address(part)) if kind in _ADDRESSES else int(part)


def _is_named(kind: str, part: str, pattern: str) -> bool:
    if kind == "ifname" and pattern.endswith("*"):
        return part.startswith(pattern[:-1])
    return part == pattern


class Indexes:
    """The indexes of a ruleset's sets and maps, built on first use. Keyed by identity, since sets are large and never
    change."""

    def __init__(self) -> None:
        self._known: dict[int, Index[Target]] = {}

    def find_named(self, named_set: Set, key: Key) -> Optional[Target]:
        """The value of `key` in a map; in a set, the element that matches."""
        if not set(named_set.key) <= set(SERVICE_TYPES):  # its elements may be unparsed text
            raise NotKnown(f"@{named_set.name}")
        if "interval" not in named_set.flags:
            element = named_set.elements.get(key) or named_set.elements.get(CATCH_ALL)
            return None if element is None else element.target or element.key
        if id(named_set) not in self._known:
            pairs = ((element.key, element.target or element.key) for element in named_set.elements.values())
            self._known[id(named_set)] = _index(pairs, named_set.key)
        return self._known[id(named_set)].find(key)

    def anonymous(self, to: Union[AnonymousMap, AnonymousSet], left: Expression, key: Key) -> Optional[Target]:
        """As find_named, for an anonymous set or map. `left` is the expression looked up, which determines the types."""
        if id(to) not in self._known:
            types = tuple(type_of(part) for part in parts_of(left))
            if isinstance(to, AnonymousMap):
                self._known[id(to)] = _index(to.elements, types)
            else:
                self._known[id(to)] = _index(((constant, constant) for constant in to.keys), types)
        return self._known[id(to)].find(key)


def _index(pairs: Iterable[tuple[Key, Target]], types: tuple[str, ...]) -> Index[Target]:
    try:
        return Index(pairs, types)
    except ValueError as error:
        raise NotKnown(str(error)) from error
