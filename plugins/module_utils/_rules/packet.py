# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A packet that opens a connection, and what happens to it: input and output of every tracer."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Optional

from .._core.text.errors import BallastError
from .addresses import as_address

PROTOCOLS = ("TCP", "UDP", "SCTP")

DNAT = "dnat"
REJECT = "reject"
DROP = "drop"
PASS = "pass"  # continues unchanged: no Service rule applies
EITHER = "either"  # depends on the order of chains with equal priority, which neither a dump nor `nft list` shows
UNKNOWN = "unknown"  # the packet reaches a construct that cannot be traced


@dataclass(frozen=True)
class Packet:
    """The first packet of a connection (conntrack state new), as it reaches a node.

    `source` and `destination` are addresses of one family in their shortest form. `inbound_interface` is "" where it is
    not known; `not_from` is then the beginning of the names of links by which it did not come ("": any may be). With
    `node_local` a process in the node's own network namespace sends it.
    """

    source: str
    destination: str
    port: int
    protocol: str  # one of PROTOCOLS
    inbound_interface: str = ""
    node_local: bool = False
    not_from: str = ""

    @property
    def family(self) -> int:
        return 6 if ":" in self.destination else 4


@dataclass(frozen=True)
class Answer:
    """What happens to a packet. If the kernel picks an endpoint at random, `masqueraded` has all that it may pick.

    `masqueraded`: for each endpoint, whether the node replaces the source with its own address (a packet from outside to the
    node itself keeps its source); None if unknown. `hairpin`: the endpoints for which it does so only because the packet
    comes from that very endpoint. `ways`: the possible answers, for EITHER and UNKNOWN, and for DNAT if masquerading is
    unknown. `problem`: the construct, with its rule, because of which the answer or a part of it is unknown.
    """

    verdict: str  # DNAT, REJECT, DROP, PASS, EITHER or UNKNOWN
    masqueraded: tuple[tuple[str, Optional[bool]], ...] = ()  # sorted; "10.1.0.5:8080" or "[fd00::5]:8080"
    hairpin: tuple[str, ...] = ()
    affinity_seconds: int = 0  # 0: each connection picks an endpoint of its own
    ways: tuple[Answer, ...] = ()
    problem: Optional[BallastError] = field(default=None, compare=False)
    why: tuple[str, ...] = field(default=(), compare=False)  # the rules that decided, in order

    @property
    def endpoints(self) -> tuple[str, ...]:
        return tuple(endpoint for endpoint, _masqueraded in self.masqueraded)

    @property
    def masquerade(self) -> Optional[bool]:
        """Whether the source is replaced for every endpoint; None if endpoints differ or the answer is unknown."""
        if self.verdict in (EITHER, UNKNOWN):
            return None
        values = {masqueraded for _endpoint, masqueraded in self.masqueraded}
        return None if len(values) > 1 or None in values else values == {True}


def translate_to(
    endpoints: Iterable[str],
    *,
    masqueraded: Collection[str] = (),
    hairpin: Iterable[str] = (),
    affinity_seconds: int = 0,
    why: tuple[str, ...] = (),
) -> Answer:
    """The answer for a packet that goes to one of `endpoints`. `masqueraded` includes those of `hairpin`."""
    pairs = tuple((endpoint, endpoint in masqueraded) for endpoint in sorted(set(endpoints)))
    return Answer(DNAT, pairs, tuple(sorted(set(hairpin))), affinity_seconds, why=why)


@dataclass(frozen=True)
class Surroundings:
    """What rules depend on besides the packet: the node's own addresses, their links, and its routes."""

    interfaces: tuple[tuple[str, tuple[str, ...]], ...] = ()  # name and addresses of both families
    routes: tuple[tuple[str, str], ...] = ()  # (network, link), see routes.py; empty if unknown

    def is_local(self, address: str) -> bool:
        """Whether the kernel's routing table has the address as `local` (fib, addrtype)."""
        parsed = as_address(address)
        return parsed.is_loopback or any(address in addresses for _name, addresses in self.interfaces)

    def link_to(self, address: str) -> Optional[str]:
        """The link of the most specific route; None if unknown."""
        parsed = as_address(address)
        for length, by_network in self._by_length[parsed.version]:
            link = by_network.get(int(parsed) >> (parsed.max_prefixlen - length))
            if link is not None:
                return link or None
        return None

    @cached_property
    def _by_length(self) -> Mapping[int, Sequence[tuple[int, dict[int, str]]]]:
        """For each IP version, by prefix length, longest first: the link of each network, by its leading bits."""
        lengths: dict[int, dict[int, dict[int, str]]] = {4: {}, 6: {}}
        for text, link in self.routes:
            network = ipaddress.ip_network(text)
            bits = int(network.network_address) >> (network.max_prefixlen - network.prefixlen)
            lengths[network.version].setdefault(network.prefixlen, {}).setdefault(bits, link)
        return {version: sorted(by_length.items(), reverse=True) for version, by_length in lengths.items()}


def endpoint_text(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
