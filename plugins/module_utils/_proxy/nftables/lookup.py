# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finding a key among constants of which some are networks, ranges or names that end in a star.

A set may have tens of thousands of such keys, so those whose parts are plain are in dictionaries; where some parts are
not, the plain parts are looked up first.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Generic, Optional, TypeVar, Union

from .expressions import AnonymousMap, AnonymousSet, Expression, Key, Target
from .moment import NotKnown
from .objects import Set
from .vocabulary import SERVICE_TYPES, parts_of, type_of

_ADDRESSES = ("ipv4_addr", "ipv6_addr")
_NUMBERS = ("inet_service", "mark", "integer")
_CATCH_ALL = ("*",)

Found = TypeVar("Found")
Span = tuple[int, int]


class Index(Generic[Found]):
    """Of pairs of a key and what is found by it. `types` has the name of the type of each part of a key.

    Raises ValueError for a constant that is not one of its type.
    """

    def __init__(self, pairs: Iterable[tuple[Key, Found]], types: tuple[str, ...]) -> None:
        self._types = types
        self._plain: dict[Key, Found] = {}
        # By the places of parts that are not plain, then by the plain parts: what those others have to be in.
        self._spans: dict[tuple[int, ...], dict[Key, list[tuple[tuple[Span, ...], Found]]]] = {}
        self._names: list[tuple[Key, Found]] = []  # with a part that ends in a star
        for key, found in pairs:
            self._add(key, found)

    def _add(self, key: Key, found: Found) -> None:
        if key != _CATCH_ALL and any(kind == "ifname" and part.endswith("*") for kind, part in zip(self._types, key)):
            self._names.append((key, found))
            return
        places = tuple(at for at, (kind, part) in enumerate(zip(self._types, key)) if _is_span(kind, part))
        if not places:
            self._plain[key] = found
            return
        spans = tuple(_span(self._types[at], key[at]) for at in places)
        rest = tuple(part for at, part in enumerate(key) if at not in places)
        self._spans.setdefault(places, {}).setdefault(rest, []).append((spans, found))

    def find(self, key: Key) -> Optional[Found]:
        if key in self._plain:
            return self._plain[key]
        for places, by_rest in self._spans.items():
            rest = tuple(part for at, part in enumerate(key) if at not in places)
            candidates = by_rest.get(rest)
            if not candidates:
                continue
            numbers = [_number(self._types[at], key[at]) for at in places]
            for spans, found in candidates:
                if all(low <= number <= high for number, (low, high) in zip(numbers, spans)):
                    return found
        for pattern, found in self._names:
            if all(_is_named(kind, part, wanted) for kind, part, wanted in zip(self._types, key, pattern)):
                return found
        return self._plain.get(_CATCH_ALL)


def _is_span(kind: str, part: str) -> bool:
    return (kind in _ADDRESSES and ("/" in part or "-" in part)) or (kind in _NUMBERS and "-" in part)


def _span(kind: str, part: str) -> Span:
    if "/" in part:
        network = ipaddress.ip_network(part)
        return int(network.network_address), int(network.broadcast_address)
    low, _dash, high = part.partition("-")
    return _number(kind, low), _number(kind, high)


def _number(kind: str, part: str) -> int:
    return int(ipaddress.ip_address(part)) if kind in _ADDRESSES else int(part)


def _is_named(kind: str, part: str, wanted: str) -> bool:
    if kind == "ifname" and wanted.endswith("*"):
        return part.startswith(wanted[:-1])
    return part == wanted


class Indexes:
    """Of the sets and maps of one ruleset, each made when it is first asked. They are told apart by identity, as they
    are great and never change."""

    def __init__(self) -> None:
        self._known: dict[int, Index[Target]] = {}

    def named(self, found: Set, key: Key) -> Optional[Target]:
        """What a map has for `key`; of a set, the element that it is found by."""
        if not set(found.key) <= set(SERVICE_TYPES):  # its elements may have been kept as they were written
            raise NotKnown(f"@{found.name}")
        if "interval" not in found.flags:
            element = found.elements.get(key) or found.elements.get(_CATCH_ALL)
            return None if element is None else element.target or element.key
        if id(found) not in self._known:
            pairs = ((element.key, element.target or element.key) for element in found.elements.values())
            self._known[id(found)] = _index(pairs, found.key)
        return self._known[id(found)].find(key)

    def anonymous(self, to: Union[AnonymousMap, AnonymousSet], left: Expression, key: Key) -> Optional[Target]:
        """`left` is the expression that is looked up, which says the types."""
        if id(to) not in self._known:
            types = tuple(type_of(part) for part in parts_of(left))
            if isinstance(to, AnonymousMap):
                self._known[id(to)] = _index(to.elements, types)
            else:
                self._known[id(to)] = _index(((one, one) for one in to.keys), types)
        return self._known[id(to)].find(key)


def _index(pairs: Iterable[tuple[Key, Target]], types: tuple[str, ...]) -> Index[Target]:
    try:
        return Index(pairs, types)
    except ValueError as error:
        raise NotKnown(str(error)) from error
