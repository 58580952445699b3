# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which packets may reach a rule of another program, as far as its matches show. Pure.

A scope is a superset: a match that is not understood restricts nothing. It selects the few Service destinations whose
packets are traced, so that one node port is found among tens of thousands of destinations without tracing all of them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Optional, Union

from .._rules.addresses import is_within
from .._rules.iptables import objects as ipt
from .._rules.iptables.grammar import options_of
from .._rules.nftables import expressions as nft
from .._rules.nftables.objects import Table
from .._rules.nftables.vocabulary import parts_of

AnyNetwork = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]
Ports = tuple[tuple[int, int], ...]  # ranges, as (first, last)


@dataclass(frozen=True)
class Scope:
    """Restrictions on packets; None does not restrict. `sources` and `interface` describe one packet that is in the
    scope."""

    protocols: Optional[frozenset[str]] = None  # in upper case
    ports: Optional[Ports] = None
    networks: Optional[tuple[AnyNetwork, ...]] = None  # of the destination
    sources: Optional[tuple[AnyNetwork, ...]] = None
    interface: str = ""

    def meets(self, address: str, protocol: str, port: int) -> bool:
        """Whether the scope has packets to this destination. `protocol` is in upper case."""
        if self.protocols is not None and protocol not in self.protocols:
            return False
        if self.ports is not None and not any(low <= port <= high for low, high in self.ports):
            return False
        return self.networks is None or is_within(address, self.networks)

    def with_protocols(self, names: Iterable[str]) -> Scope:
        protocols = frozenset(name.upper() for name in names)
        return replace(self, protocols=protocols if self.protocols is None else self.protocols & protocols)

    def with_ports(self, ports: Ports) -> Scope:
        if self.ports is None:
            return replace(self, ports=ports)
        both = ((max(low, start), min(high, end)) for low, high in self.ports for start, end in ports)
        return replace(self, ports=tuple(span for span in both if span[0] <= span[1]))

    def with_networks(self, networks: Iterable[str]) -> Scope:
        """Also restricted to these networks or ranges of destinations. Unchanged if one of them is neither."""
        parsed = _networks(networks)
        if parsed is None:
            return self
        if self.networks is None:
            return replace(self, networks=parsed)
        smaller = [min(own, other, key=_size) for own in self.networks for other in parsed if own.overlaps(other)]
        return replace(self, networks=tuple(smaller))

    def with_sources(self, networks: Iterable[str]) -> Scope:
        """With these sources instead of its own. Unchanged if one of them is neither a network nor a range."""
        parsed = _networks(networks)
        return self if parsed is None else replace(self, sources=parsed)


def _size(network: AnyNetwork) -> int:
    return network.num_addresses


def _networks(texts: Iterable[str]) -> Optional[tuple[AnyNetwork, ...]]:
    """None if one of them is not a network or a range."""
    networks: list[AnyNetwork] = []
    try:
        for text in texts:
            low, dash, high = text.partition("-")
            if dash:
                networks += ipaddress.summarize_address_range(ipaddress.ip_address(low), ipaddress.ip_address(high))
            else:
                networks.append(ipaddress.ip_network(text, strict=False))
    except (ValueError, TypeError):
        return None
    return tuple(networks)


# iptables


def narrow_by_iptables(scope: Scope, matches: Iterable[ipt.Match]) -> Scope:
    """The scope, restricted by the matches of a rule. Negated matches restrict nothing."""
    for match in matches:
        if isinstance(match, ipt.Unknown):
            scope = _narrow_by_text(scope, match.text)
        elif not getattr(match, "negated", False):
            scope = _narrow_by_match(scope, match)
    return scope


def _narrow_by_match(scope: Scope, match: ipt.Match) -> Scope:
    if isinstance(match, ipt.Protocol):
        return scope.with_protocols([match.name])
    if isinstance(match, ipt.DestinationPort):
        return scope.with_ports(((match.port, match.port),))
    if isinstance(match, ipt.Destination):
        return scope.with_networks([match.network])
    if isinstance(match, ipt.Source):
        return scope.with_sources([match.network])
    return replace(scope, interface=match.name) if isinstance(match, ipt.InInterface) else scope


_PORT_OPTIONS = {"tcp": "--dport", "udp": "--dport", "sctp": "--dport", "multiport": "--dports"}


def _narrow_by_text(scope: Scope, text: str) -> Scope:
    """Narrow by `-m NAME OPTIONS`, a match that the grammar keeps as text."""
    words = text.split()
    options = options_of(words[2:]) if words[:1] == ["-m"] and len(words) > 1 else None
    if options is None:
        return scope
    negated, values = options.get(_PORT_OPTIONS.get(words[1], ""), (True, ()))
    ports = None if negated or len(values) != 1 else _ports(values[0].split(","), ":")
    if ports is not None:
        scope = scope.with_ports(ports)
    negated, values = options.get("--dst-range", (True, ()))
    return scope if words[1] != "iprange" or negated else scope.with_networks(values)


def _ports(texts: Iterable[str], dash: str) -> Optional[Ports]:
    ports = []
    for text in texts:
        low, sign, high = text.partition(dash)
        try:
            ports.append((int(low or "0"), int(high or "65535") if sign else int(low)))
        except ValueError:
            return None
    return tuple(ports)


# nftables


def narrow_by_nft(scope: Scope, statement: nft.Statement, table: Table) -> Scope:
    """The scope, restricted by a comparison for equality, or by the maps of a translation. Other statements restrict
    nothing."""
    if isinstance(statement, nft.Match) and statement.operator == nft.EQUAL:
        return narrow_by_keys(scope, statement.left, keys_of(statement.right, table))
    if isinstance(statement, nft.Nat):
        for value in (statement.address, statement.port):
            if isinstance(value, nft.MapLookup):
                scope = narrow_by_keys(scope, value.key, keys_of(value.to, table))
    return scope


def keys_of(to: Union[nft.Named, nft.AnonymousSet, nft.AnonymousMap], table: Table) -> Optional[Sequence[nft.Key]]:
    """The keys of a set or map; None if they are not known."""
    if isinstance(to, nft.AnonymousSet):
        return to.keys
    if isinstance(to, nft.AnonymousMap):
        return [key for key, _target in to.elements]
    named = table.sets.get(to.name)
    return None if named is None or named.dynamic else list(named.elements)


def targets_of(to: Union[nft.Named, nft.AnonymousMap], table: Table) -> Iterator[tuple[nft.Key, nft.Verdict]]:
    """The keys and verdicts of a verdict map."""
    if isinstance(to, nft.AnonymousMap):
        elements: Iterable[tuple[nft.Key, object]] = to.elements
    else:
        named = table.sets.get(to.name)
        by_key: Mapping[nft.Key, object] = {} if named is None else named.elements
        elements = ((key, getattr(element, "target", None)) for key, element in by_key.items())
    for key, target in elements:
        if isinstance(target, nft.Verdict):
            yield key, target


def narrow_by_keys(scope: Scope, left: nft.Expression, keys: Optional[Sequence[nft.Key]]) -> Scope:
    """Narrow by each part of `keys` separately."""
    if keys is None:
        return scope
    for place, part in enumerate(parts_of(left)):
        values = sorted({key[place] for key in keys if len(key) > place})
        if isinstance(part, nft.Payload) and part.field == "dport":
            ports = _ports(values, "-")
            scope = scope if ports is None else scope.with_ports(ports)
            scope = scope if part.protocol == "th" else scope.with_protocols([part.protocol])
        elif isinstance(part, nft.Payload) and part.protocol in ("ip", "ip6"):
            if part.field == "daddr":
                scope = scope.with_networks(values)
            elif part.field == "saddr":
                scope = scope.with_sources(values)
        elif part == nft.Meta("l4proto"):
            scope = scope.with_protocols(values)
        elif part in (nft.Meta("iifname"), nft.Meta("iif")) and values:
            scope = replace(scope, interface=values[0])
    return scope
