# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which destinations of a table of nftables are alike, so that one of them can be traced for all. Pure.

A table has tens of thousands of destinations and very few kinds of them, and a trace takes a millisecond. Two destinations
are twins when nothing tells them apart but their names: replace in everything that the table has about each its own address
by A, its port by P and its endpoints by E0, E1, ..., and the same is left. Then a packet for the one fares as a packet for
the other. What a table has about a destination is

    the elements of its sets and maps that have the address, the port or an endpoint in their keys,
    the chains that those elements lead to, and what these lead to in turn,
    and where the address, the port and the endpoints lie in the networks and ports that rules for all name.

Rules for all (those of base chains, and what they jump to) are the same for both, and so are the probes. A policy or
a state of an endpoint that differs makes a difference too, as then something else is meant.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Hashable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Optional, Union

from ..model import NODE_PORT, Frontend, RuleConfig
from ..nftables.expressions import (
    AnonymousMap,
    AnonymousSet,
    Constant,
    Expression,
    Key,
    MapLookup,
    Match,
    Named,
    Nat,
    SetUpdate,
    Statement,
    Target,
    Verdict,
    Vmap,
)
from ..nftables.objects import Element, Set, Table
from ..packet import Surroundings

_ADDRESSES = ("ipv4_addr", "ipv6_addr")
_PORT = "inet_service"
_NETWORKS_LIMIT = 64  # with more of them in rules for all, it is not worth while
_DEPTH_LIMIT = 8

_About = tuple[str, Key, Optional[Target], tuple[str, ...]]  # name and element of a set, and the types of its key


class Twins:
    """`key` answers what is equal for twins."""

    def __init__(self, table: Table, config: RuleConfig, surroundings: Surroundings, *, node: str) -> None:
        self._table = table
        self._node = node
        self._local = {one for _name, addresses in surroundings.interfaces for one in addresses}
        self._by_address: dict[str, list[_About]] = {}
        self._by_port: dict[str, list[_About]] = {}  # of keys without an address
        constants = {*_constants(table), config.detector.value}
        for one in table.sets.values():
            if not _is_memory(one):
                self._index(one, constants)
        found = (_span(one) for one in constants)
        self._spans = sorted(one for one in found if one is not None)  # the rest are words, which no address lies in

    def key(self, frontend: Frontend) -> Optional[Hashable]:
        """None: it has no twin."""
        service = frontend.service
        if service.source_ranges or len(self._spans) > _NETWORKS_LIMIT:
            return None
        names = {one.address: f"E{place}" for place, one in enumerate(service.endpoints)}
        if frontend.address:
            names[frontend.address] = "A"
        return _Likeness(self, frontend, names).key()

    def _index(self, one: Set, constants: set[str]) -> None:
        """Into the elements by what they are about, or into the constants of rules for all."""
        places = [at for at, kind in enumerate(one.key) if kind in _ADDRESSES]
        ports = [at for at, kind in enumerate(one.key) if kind == _PORT]
        for key, element in one.elements.items():
            about = (one.name, key, element.target, one.key)
            parts = [key[at] for at in places if at < len(key)]
            constants.update(part for part in key if _is_range(part))
            for part in dict.fromkeys(parts):
                self._by_address.setdefault(part, []).append(about)
            if not parts:
                for at in ports:
                    self._by_port.setdefault(key[at], []).append(about)

    def about(self, names: Iterable[str], port: str) -> Iterator[_About]:
        for name in names:
            yield from self._by_address.get(name, ())
        yield from self._by_port.get(port, ())

    def lies_in(self, number: int) -> tuple[int, ...]:
        """`number`: an address or a port."""
        return tuple(at for at, (low, high) in enumerate(self._spans) if low <= number <= high)

    def is_local(self, address: str) -> bool:
        return address in self._local or address.startswith("127.") or address == "::1"

    def chain(self, name: str) -> Optional[tuple[tuple[Statement, ...], ...]]:
        found = self._table.chains.get(name)
        return None if found is None else tuple(rule.statements for rule in found.rules)

    def set(self, name: str) -> Optional[Set]:
        return self._table.sets.get(name)

    @property
    def node(self) -> str:
        return self._node


class _Likeness:
    """Of one destination."""

    def __init__(self, table: Twins, frontend: Frontend, names: Mapping[str, str]) -> None:
        self._table = table
        self._frontend = frontend
        self._names = names
        self._port = str(frontend.port)

    def key(self) -> Hashable:
        about = {
            (name, self._element_key(key, types), self._target(target, 0))
            for name, key, target, types in self._table.about(self._names, self._port)
        }
        lies_in = tuple(self._table.lies_in(_number(one)) for one in self._names)
        return (self._meant(), frozenset(about), lies_in)

    def _meant(self) -> Hashable:
        """All that the meaning asks of a destination."""
        service, table = self._frontend.service, self._table
        endpoints = tuple(
            (
                *(one.port, one.ready, one.serving, one.terminating, one.zone_hints, one.node_hints),
                *(one.node == table.node, table.is_local(one.address), one.address == self._frontend.address),
            )
            for one in service.endpoints
        )
        return (
            *(self._frontend.kind, service.protocol, service.internal_local, service.external_local),
            *(service.affinity_seconds, service.externally_accessible, endpoints),
            table.lies_in(self._frontend.port),
            self._frontend.kind == NODE_PORT or table.is_local(self._frontend.address),
        )

    def _element_key(self, key: Key, types: tuple[str, ...]) -> Hashable:
        return tuple(
            "P" if kind == _PORT and part == self._port else self._names.get(part, part)
            for part, kind in zip(key, types)
        )

    def _target(self, target: Optional[Target], depth: int) -> Hashable:
        if isinstance(target, Verdict):
            return (target.kind, self._chain(target.target, depth) if target.target else "")
        return None if target is None else self._constant(target)

    def _chain(self, name: str, depth: int) -> Hashable:
        found = self._table.chain(name)
        if found is None or depth > _DEPTH_LIMIT:
            return name  # unlike any other
        return tuple(tuple(self._statement(one, depth + 1) for one in rule) for rule in found)

    def _statement(self, one: Statement, depth: int) -> Hashable:
        if isinstance(one, Verdict):
            return self._target(one, depth)
        if isinstance(one, Match):
            return ("match", one.left, self._looked_up(one.right, depth), one.operator)
        if isinstance(one, Vmap):
            return ("vmap", one.key, self._looked_up(one.to, depth))
        if isinstance(one, Nat):
            address, port = self._expression(one.address, depth), self._expression(one.port, depth)
            return ("nat", one.kind, address, port, one.flags, one.family)
        if isinstance(one, SetUpdate):
            return ("update", self._set(one.name), one.key, one.data, one.operation, one.timeout_seconds)
        return one

    def _expression(self, one: Optional[Expression], depth: int) -> Hashable:
        if isinstance(one, Constant):
            return self._constant(one.key)
        if isinstance(one, MapLookup):
            return ("map", one.key, self._looked_up(one.to, depth))
        return one

    def _looked_up(self, to: Union[Named, AnonymousSet, AnonymousMap], depth: int) -> Hashable:
        if isinstance(to, Named):
            return self._set(to.name)
        if isinstance(to, AnonymousSet):
            return tuple(self._constant(key) for key in to.keys)
        return tuple((self._constant(key), self._target(target, depth)) for key, target in to.elements)

    def _constant(self, key: Key) -> Hashable:
        """A network says which of the endpoints lie in it."""
        return tuple(
            (part, tuple(_is_in(one, part) for one in self._names)) if _is_range(part) else self._names.get(part, part)
            for part in key
        )

    def _set(self, name: str) -> Hashable:
        """What rules remember of packets is in sets that a Service has for itself: those are alike whatever their names."""
        found = self._table.set(name)
        if found is None or not _is_memory(found):
            return name
        elements = tuple(self._remembered(one) for one in found.elements.values())
        return ("memory", found.key, found.data, found.flags, found.timeout_seconds, elements)

    def _remembered(self, one: Element) -> Hashable:
        return (self._constant(one.key), self._target(one.target, 0))


def _is_memory(one: Set) -> bool:
    return "timeout" in one.flags or one.timeout_seconds > 0


def _constants(table: Table) -> Iterator[str]:
    """Of rules for all: base chains, and the chains that they lead to by name and not by a map."""
    live = [name for name, chain in table.chains.items() if chain.base is not None]
    known = set(live)
    while live:
        chain = table.chains.get(live.pop())
        for rule in chain.rules if chain is not None else ():
            for statement in rule.statements:
                if isinstance(statement, Verdict) and statement.target and statement.target not in known:
                    known.add(statement.target)
                    live.append(statement.target)
                elif isinstance(statement, Match) and isinstance(statement.right, AnonymousSet):
                    yield from (part for key in statement.right.keys for part in key)
                elif isinstance(statement, Vmap) and isinstance(statement.to, AnonymousMap):
                    yield from (part for key, _target in statement.to.elements for part in key)
                    live += _new_targets(statement.to, known)


def _new_targets(to: AnonymousMap, known: set[str]) -> list[str]:
    found = [target.target for _key, target in to.elements if isinstance(target, Verdict) and target.target]
    new = [one for one in dict.fromkeys(found) if one not in known]
    known.update(new)
    return new


def _is_range(part: str) -> bool:
    """Whether it is more than one address or port."""
    return ("/" in part or "-" in part) and _span(part) is not None


@lru_cache(maxsize=2**16)
def _number(address: str) -> int:
    return int.from_bytes(socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address), "big")


@lru_cache(maxsize=2**16)
def _span(text: str) -> Optional[tuple[int, int]]:
    """The first and last number of a network, a range, an address or a port; None where it is none of these."""
    try:
        if "/" in text:
            network = ipaddress.ip_network(text)
            return int(network[0]), int(network[-1])
        low, _dash, high = text.partition("-")
        first, last = (int(one) if one.isdecimal() else _number(one) for one in (low, high or low))
    except (OSError, ValueError):
        return None
    return first, last


def _is_in(address: str, network: str) -> bool:
    span = _span(network)
    return span is not None and span[0] <= _number(address) <= span[1]
