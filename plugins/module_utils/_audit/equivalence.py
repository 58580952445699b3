# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds equivalent destinations in an nftables table, so that one trace stands for all of them; iptables_equivalence.py does
the same for iptables. Pure.

A table has tens of thousands of destinations of very few kinds, and a trace takes a millisecond. Two destinations are
equivalent if they differ only in names: replace the address of each with A, its port with P and its endpoints with E0, E1,
... in all its entries of the table, and the results are equal. Packets to both then get the same verdict. The entries of a
destination are

    the elements of sets and maps with its address, its port or an endpoint in their keys,
    the chains that those elements lead to, directly or through other chains,
    and the positions of its address, port and endpoints in the networks and port ranges of shared rules.

Shared rules (those of base chains, and of chains that they jump to) are the same for both, as are the probes. A different
policy or endpoint state also makes a difference, because it changes the expected verdict.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Optional, Union

from .._rules.model import NODE_PORT, Frontend, RuleConfig
from .._rules.nftables.expressions import (
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
from .._rules.nftables.objects import Element, Set, Table
from .._rules.packet import Surroundings

_ADDRESSES = ("ipv4_addr", "ipv6_addr")
_PORT = "inet_service"
NETWORKS_LIMIT = 64  # with more networks in shared rules, the comparison would cost more than it saves
_DEPTH_LIMIT = 8

_Entry = tuple[str, Key, Optional[Target], tuple[str, ...]]  # set, key, target, types of the key's parts


class Places:
    """In which networks and ranges of shared rules (`constants`) an address or port lies, and which addresses are the
    node's."""

    def __init__(self, constants: Iterable[str], surroundings: Surroundings, *, node: str) -> None:
        self.node = node
        self._local = {address for _name, addresses in surroundings.interfaces for address in addresses}
        spans = (_span(constant) for constant in constants)
        self._spans = sorted(span for span in spans if span is not None)  # other constants are words, not ranges

    @property
    def count(self) -> int:
        return len(self._spans)

    def of(self, number: int) -> tuple[int, ...]:
        """The indexes of the ranges that contain `number`, an address or a port."""
        return tuple(at for at, (low, high) in enumerate(self._spans) if low <= number <= high)

    def of_address(self, address: str) -> tuple[int, ...]:
        return self.of(_number(address))

    def is_local(self, address: str) -> bool:
        return address in self._local or address.startswith("127.") or address == "::1"


def policy_of(frontend: Frontend, places: Places) -> Hashable:
    """Everything about a Service that decides the expected verdict of packets to one of its destinations."""
    service = frontend.service
    endpoints = tuple(
        (
            endpoint._replace(address="", node=""),
            endpoint.node == places.node,
            places.is_local(endpoint.address),
            endpoint.address == frontend.address,
        )
        for endpoint in service.endpoints
    )
    return (
        *(frontend.kind, service.protocol, service.internal_local, service.external_local),
        *(service.affinity_seconds, service.externally_accessible, endpoints),
        places.of(frontend.port),
        frontend.kind == NODE_PORT or places.is_local(frontend.address),
    )


class Equivalence:
    """`key` is equal for equivalent destinations."""

    def __init__(self, table: Table, config: RuleConfig, surroundings: Surroundings, *, node: str) -> None:
        self._table = table
        self._by_address: dict[str, list[_Entry]] = {}
        self._by_port: dict[str, list[_Entry]] = {}  # elements whose keys have no address
        constants = {*_constants(table), config.detector.value}
        for named_set in table.sets.values():
            if not _is_memory(named_set):
                self._index(named_set, constants)
        self.places = Places(constants, surroundings, node=node)

    def key(self, frontend: Frontend) -> Optional[Hashable]:
        """The key of a destination; None if it has no equivalent."""
        service = frontend.service
        if service.source_ranges or self.places.count > NETWORKS_LIMIT:
            return None
        names = {endpoint.address: f"E{place}" for place, endpoint in enumerate(service.endpoints)}
        if frontend.address:
            names[frontend.address] = "A"
        return _DestinationKey(self, frontend, names).key()

    def _index(self, named_set: Set, constants: set[str]) -> None:
        """Index the elements of a set by address or port; add the ranges in their keys to `constants`."""
        places = [at for at, kind in enumerate(named_set.key) if kind in _ADDRESSES]
        ports = [at for at, kind in enumerate(named_set.key) if kind == _PORT]
        for key, element in named_set.elements.items():
            entry = (named_set.name, key, element.target, named_set.key)
            parts = [key[at] for at in places if at < len(key)]
            constants.update(part for part in key if _is_range(part))
            for part in dict.fromkeys(parts):
                self._by_address.setdefault(part, []).append(entry)
            if not parts:
                for at in ports:
                    self._by_port.setdefault(key[at], []).append(entry)

    def entries_about(self, names: Iterable[str], port: str) -> Iterator[_Entry]:
        for name in names:
            yield from self._by_address.get(name, ())
        yield from self._by_port.get(port, ())

    def chain(self, name: str) -> Optional[tuple[tuple[Statement, ...], ...]]:
        chain = self._table.chains.get(name)
        return None if chain is None else tuple(rule.statements for rule in chain.rules)

    def set(self, name: str) -> Optional[Set]:
        return self._table.sets.get(name)


class _DestinationKey:
    """Computes the key of one destination."""

    def __init__(self, equivalence: Equivalence, frontend: Frontend, names: Mapping[str, str]) -> None:
        self._equivalence = equivalence
        self._frontend = frontend
        self._names = names
        self._port = str(frontend.port)

    def key(self) -> Hashable:
        entries = {
            (name, self._element_key(key, types), self._target(target, 0))
            for name, key, target, types in self._equivalence.entries_about(self._names, self._port)
        }
        places = self._equivalence.places
        lies_in = tuple(places.of_address(address) for address in self._names)
        return (policy_of(self._frontend, places), frozenset(entries), lies_in)

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
        rules = self._equivalence.chain(name)
        if rules is None or depth > _DEPTH_LIMIT:
            return name  # equal to no other chain
        return tuple(tuple(self._statement(statement, depth + 1) for statement in rule) for rule in rules)

    def _statement(self, statement: Statement, depth: int) -> Hashable:
        if isinstance(statement, Verdict):
            return self._target(statement, depth)
        if isinstance(statement, Match):
            return ("match", statement.left, self._lookup_key(statement.right, depth), statement.operator)
        if isinstance(statement, Vmap):
            return ("vmap", statement.key, self._lookup_key(statement.to, depth))
        if isinstance(statement, Nat):
            address, port = self._expression(statement.address, depth), self._expression(statement.port, depth)
            return ("nat", statement.kind, address, port, statement.flags, statement.family)
        if isinstance(statement, SetUpdate):
            return ("update", self._set(statement.name), replace(statement, name=""))
        return statement

    def _expression(self, expression: Optional[Expression], depth: int) -> Hashable:
        if isinstance(expression, Constant):
            return self._constant(expression.key)
        if isinstance(expression, MapLookup):
            return ("map", expression.key, self._lookup_key(expression.to, depth))
        return expression

    def _lookup_key(self, to: Union[Named, AnonymousSet, AnonymousMap], depth: int) -> Hashable:
        if isinstance(to, Named):
            return self._set(to.name)
        if isinstance(to, AnonymousSet):
            return tuple(self._constant(key) for key in to.keys)
        return tuple((self._constant(key), self._target(target, depth)) for key, target in to.elements)

    def _constant(self, key: Key) -> Hashable:
        """A key with names in place of addresses; a network also has the names of the destination's addresses that it
        contains."""
        return tuple(
            (part, tuple(is_in(name, part) for name in self._names)) if _is_range(part) else self._names.get(part, part)
            for part in key
        )

    def _set(self, name: str) -> Hashable:
        """The key of a set. A set in which rules remember packets belongs to one Service, so its name does not matter."""
        named_set = self._equivalence.set(name)
        if named_set is None or not _is_memory(named_set):
            return name
        elements = tuple(self._memory_element(element) for element in named_set.elements.values())
        return ("memory", named_set.key, named_set.data, named_set.flags, named_set.timeout_seconds, elements)

    def _memory_element(self, element: Element) -> Hashable:
        return (self._constant(element.key), self._target(element.target, 0))


def _is_memory(named_set: Set) -> bool:
    return "timeout" in named_set.flags or named_set.timeout_seconds > 0


def _constants(table: Table) -> Iterator[str]:
    """The constants of shared rules: those of base chains, and of chains that they lead to by name instead of by a map."""
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
    targets = [target.target for _key, target in to.elements if isinstance(target, Verdict) and target.target]
    new = [target for target in dict.fromkeys(targets) if target not in known]
    known.update(new)
    return new


def _is_range(part: str) -> bool:
    """Whether it is a range with several addresses or ports."""
    return ("/" in part or "-" in part) and _span(part) is not None


@lru_cache(maxsize=2**16)
def _number(address: str) -> int:
    return int.from_bytes(socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address), "big")


@lru_cache(maxsize=2**16)
def _span(text: str) -> Optional[tuple[int, int]]:
    """The first and last number of a network, range, address or port; None for anything else."""
    try:
        if "/" in text:
            network = ipaddress.ip_network(text)
            return int(network[0]), int(network[-1])
        low, _dash, high = text.partition("-")
        first, last = (int(bound) if bound.isdecimal() else _number(bound) for bound in (low, high or low))
    except (OSError, ValueError):
        return None
    return first, last


def is_in(address: str, network: str) -> bool:
    """Whether a network, a range or another address contains `address`. False if `network` is none of these."""
    span = _span(network)
    return span is not None and span[0] <= _number(address) <= span[1]
