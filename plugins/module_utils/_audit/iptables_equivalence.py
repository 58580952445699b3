# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds equivalent destinations in iptables rules, as equivalence.py does for an nftables table. Pure.

A rule is for one destination if it matches a single address of a Service or endpoint, or a single port of a Service. A chain
is shared if built-in chains lead to it through rules that are not for one destination. The key of a destination consists of
the rules of shared chains that match its address, its port or one of its endpoints, in order, with the chains they lead to;
and for each rule its position among the rules that are not for one destination, since those may end a packet's path earlier.

If any rule depends on what only the kernel or the tracer knows (sets, virtual servers, matches outside the grammar), no
destination has an equivalent.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple, Optional

from .._rules.iptables.objects import (
    BUILT_IN,
    Chain,
    Destination,
    DestinationPort,
    Dnat,
    Goto,
    InInterface,
    IpvsService,
    Jump,
    Match,
    MatchSet,
    OutInterface,
    Recent,
    Rule,
    Source,
    Table,
    Tables,
    Unknown,
    host_address,
)
from .._rules.model import FamilyView, Frontend, RuleConfig
from .._rules.packet import Surroundings
from .equivalence import NETWORKS_LIMIT, Places, is_in, policy_of
from .tracing.iptables import is_named

_DEPTH_LIMIT = 8


class _ForOne(NamedTuple):
    """A rule for one destination, and how many rules of its chain before it are not for one destination."""

    place: tuple[int, str, int]  # table, chain, and index in the chain
    shared_before: int
    rule: Rule


class IptablesEquivalence:
    """`key` is equal for equivalent destinations of the view."""

    def __init__(self, rules: Tables, view: FamilyView, config: RuleConfig, surroundings: Surroundings) -> None:
        self._rules = rules
        self._surroundings = surroundings
        self._destinations = _Destinations(view, surroundings)
        self._shared = {table.name: _shared_chains(table, self._destinations) for table in rules.tables}
        self._by_address: dict[str, list[_ForOne]] = {}
        self._by_port: dict[int, list[_ForOne]] = {}
        constants = {config.detector.value}
        for number, table in enumerate(rules.tables):
            for name in sorted(self._shared[table.name]):
                constants.update(self._index(number, table.by_name[name]))
        self._places = Places(constants, surroundings, node=view.node.name)
        every_rule = [rule for table in rules.tables for chain in table.chains for rule in chain.rules]
        self._is_decided = not any(_asks_the_kernel(rule) for rule in every_rule)
        matches = [match for rule in every_rule for match in rule.matches]
        # Names and patterns that rules ask the outgoing and the inbound link for.
        self._links_out = sorted({match.name for match in matches if isinstance(match, OutInterface)})
        self._links_in = sorted({match.name for match in matches if isinstance(match, InInterface)})

    def key(self, frontend: Frontend) -> Optional[Hashable]:
        """The key of a destination; None if it has no equivalent."""
        service = frontend.service
        if not self._is_decided or service.source_ranges or self._places.count > NETWORKS_LIMIT:
            return None
        names = {endpoint.address: f"E{place}" for place, endpoint in enumerate(service.endpoints)}
        if frontend.address:
            names[frontend.address] = "A"
        links_out = tuple(self._links_to(address, self._links_out) for address in names)
        if None in links_out:
            return None
        # An endpoint on this node is also the source of a hairpin packet.
        links_in = tuple(self._links_to(address, self._links_in) for address in names)
        lies_in = tuple(self._places.of_address(address) for address in names)
        return (
            policy_of(frontend, self._places),
            tuple(names.values()),
            self._entries(names, frontend),
            lies_in,
            links_out,
            links_in,
        )

    def _entries(self, names: Mapping[str, str], frontend: Frontend) -> Hashable:
        """The rules for the destination, including those for ports that it is translated to."""
        renamed = _Renamed(self._rules, self._shared, names, frontend.port)
        keys: dict[tuple[int, str, int], Hashable] = {}
        live = [entry for name in names for entry in self._by_address.get(name, ())]
        ports: set[int] = set()
        while True:
            for entry in live:
                if entry.place not in keys:
                    keys[entry.place] = (entry.place[:2], entry.shared_before, renamed.rule(entry))
            new = {frontend.port, *renamed.ports} - ports
            if not new:
                return tuple(key for _place, key in sorted(keys.items()))
            ports |= new
            live = [entry for port in new for entry in self._by_port.get(port, ())]

    def _index(self, table: int, chain: Chain) -> Iterator[str]:
        """Index the rules of a chain that are for one destination; yield the networks and ports of all others."""
        shared = 0
        for place, rule in enumerate(chain.rules):
            entry = _ForOne((table, chain.name, place), shared, rule)
            for address in self._destinations.addresses(rule, Source, Destination):
                self._by_address.setdefault(address, []).append(entry)
            port = self._destinations.port(rule)
            if port is not None and not self._destinations.addresses(rule, Destination):
                self._by_port.setdefault(port, []).append(entry)
            if not self._destinations.has_one(rule):
                shared += 1
                for match in rule.matches:
                    if isinstance(match, (Source, Destination)):
                        yield match.network
                    elif isinstance(match, DestinationPort):
                        yield str(match.port)

    def _links_to(self, address: str, names: Sequence[str]) -> Optional[tuple[bool, ...]]:
        """Which of `names` fit the link to it. None where its route is not known."""
        if not names:
            return ()
        link = self._surroundings.link_to(address)
        return None if link is None else tuple(is_named(link, name) for name in names)


class _Destinations:
    """The addresses and ports of Services, without the node's addresses, which all node ports share."""

    def __init__(self, view: FamilyView, surroundings: Surroundings) -> None:
        endpoints = (endpoint.address for service in view.services for endpoint in service.endpoints)
        own = {address for _name, addresses in surroundings.interfaces for address in addresses}
        self._addresses = {frontend.address for frontend in view.frontends} | set(endpoints)
        self._addresses -= own | set(view.node.addresses)
        self._ports = {frontend.port for frontend in view.frontends}

    def has_one(self, rule: Rule) -> bool:
        return bool(self.addresses(rule, Destination)) or self.port(rule) is not None

    def addresses(self, rule: Rule, *kinds: type) -> list[str]:
        """The Service and endpoint addresses that matches of these kinds name as a single address."""
        hosts = (
            host_address(match.network)
            for match in rule.matches
            if isinstance(match, (Source, Destination)) and isinstance(match, kinds) and not match.negated
        )
        return [address for address in hosts if address in self._addresses]

    def port(self, rule: Rule) -> Optional[int]:
        ports = (match.port for match in rule.matches if isinstance(match, DestinationPort) and not match.negated)
        return next((port for port in ports if port in self._ports), None)


class _Renamed:
    """Rules with the address, port and endpoints of one destination replaced by names."""

    def __init__(self, rules: Tables, shared: Mapping[str, set[str]], names: Mapping[str, str], port: int) -> None:
        self._rules = rules
        self._shared = shared
        self._names = names
        self._port = port
        self.ports: set[int] = set()  # the ports that packets are translated to

    def rule(self, entry: _ForOne) -> Hashable:
        return self._rule(entry.rule, self._rules.tables[entry.place[0]], 0)

    def _rule(self, rule: Rule, table: Table, depth: int) -> Hashable:
        target: Hashable = rule.target
        if isinstance(rule.target, (Jump, Goto)):
            target = (type(rule.target), self._chain(rule.target.chain, table, depth + 1))
        elif isinstance(rule.target, Dnat):
            target = (Dnat, self._names.get(rule.target.address, rule.target.address), rule.target.port)
            self.ports.add(rule.target.port)
        return (tuple(self._match(match) for match in rule.matches), target)

    def _chain(self, name: str, table: Table, depth: int) -> Hashable:
        chain = table.by_name.get(name)
        if chain is None or name in self._shared[table.name] or depth > _DEPTH_LIMIT:
            return name
        return tuple(self._rule(rule, table, depth) for rule in chain.rules)

    def _match(self, match: Match) -> Hashable:
        if isinstance(match, (Source, Destination)):
            return (type(match), self._network(match.network), match.negated)
        if isinstance(match, DestinationPort) and match.port == self._port:
            return (DestinationPort, "P", match.negated)
        if isinstance(match, Recent):  # the list belongs to one endpoint
            return (Recent, match.command, match.seconds, match.reap)
        return match

    def _network(self, network: str) -> Hashable:
        """A name for a single address; a larger network with the names of the destination's addresses that it contains."""
        address = host_address(network)
        if address is not None:
            return self._names.get(address, address)
        return (network, tuple(is_in(name, network) for name in self._names))


def _shared_chains(table: Table, destinations: _Destinations) -> set[str]:
    """The chains that built-in chains lead to through rules that are not for one destination."""
    live = [name for name in BUILT_IN[table.name] if name in table.by_name]
    known = set(live)
    while live:
        for rule in table.by_name[live.pop()].rules:
            if isinstance(rule.target, (Jump, Goto)) and not destinations.has_one(rule):
                name = rule.target.chain
                if name in table.by_name and name not in known:
                    known.add(name)
                    live.append(name)
    return known


def _asks_the_kernel(rule: Rule) -> bool:
    return any(isinstance(part, (Unknown, MatchSet, IpvsService)) for part in (*rule.matches, rule.target))
