# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""iptables rules as values, shared by compilers, parser, tracer and planner.

Rules that the kernel treats alike are equal, however they were written: networks are in shortest form with a length, a mark
is a value and a mask, a probability is the kernel's own number, REJECT has its type, and comments are separate.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Optional, Union

# The chains that the kernel calls, by table; tables in the order in which a hook runs them.
BUILT_IN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "raw": ("PREROUTING", "OUTPUT"),
        "mangle": ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"),
        "nat": ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"),
        "filter": ("INPUT", "FORWARD", "OUTPUT"),
        "security": ("INPUT", "FORWARD", "OUTPUT"),
    }
)
_PROBABILITY_ONE = 0x80000000  # xt_statistic.h: probability is a number of 31 bits


@dataclass(frozen=True)
class Source:
    """`-s NETWORK`, always with a length: "10.0.0.1/32"."""

    network: str
    negated: bool = False


@dataclass(frozen=True)
class Destination:
    """`-d NETWORK`, always with a length."""

    network: str
    negated: bool = False


@dataclass(frozen=True)
class InInterface:
    """`-i NAME`; a trailing `+` matches any suffix."""

    name: str
    negated: bool = False


@dataclass(frozen=True)
class OutInterface:
    """`-o NAME`; a trailing `+` matches any suffix."""

    name: str
    negated: bool = False


@dataclass(frozen=True)
class Protocol:
    """`-p NAME`; a number if it is not tcp, udp, sctp, icmp or ipv6-icmp."""

    name: str
    negated: bool = False


@dataclass(frozen=True)
class DestinationPort:
    """`-m PROTOCOL --dport PORT`, where the protocol is that of the rule."""

    port: int
    negated: bool = False


@dataclass(frozen=True)
class Mark:
    """`-m mark --mark VALUE/MASK`."""

    value: int
    mask: int
    negated: bool = False


@dataclass(frozen=True)
class ConnectionState:
    """`-m conntrack --ctstate STATES`, sorted; may include SNAT and DNAT."""

    states: tuple[str, ...]
    negated: bool = False


@dataclass(frozen=True)
class AddressType:
    """`-m addrtype --SIDE-type TYPE`."""

    side: str  # "src" or "dst"
    type: str  # "LOCAL", "UNICAST", ...
    negated: bool = False


@dataclass(frozen=True)
class MatchSet:
    """`-m set --match-set NAME SIDES`."""

    name: str
    sides: tuple[str, ...]  # ("dst", "dst")
    negated: bool = False


@dataclass(frozen=True)
class IpvsService:
    """`-m ipvs --vaddr NETWORK --vproto PROTOCOL --vport PORT`."""

    network: str
    protocol: str  # "tcp", "udp" or "sctp"
    port: int


@dataclass(frozen=True)
class PhysicalIn:
    """`-m physdev --physdev-is-in`: the packet came in through a port of a bridge."""

    negated: bool = False


@dataclass(frozen=True)
class Statistic:
    """`-m statistic --mode random --probability P`, where P is chance / 2**31."""

    chance: int
    negated: bool = False


@dataclass(frozen=True)
class Recent:
    """`-m recent --COMMAND --name LIST`: `rcheck` matches a source seen within `seconds`; `set` records the source and
    matches.

    The mask is the whole address and the side is the source, the module's defaults; other forms become Unknown.
    """

    command: str  # "rcheck" or "set"
    name: str
    seconds: int = 0  # for rcheck; 0: any time
    reap: bool = False  # for rcheck: forget older entries


@dataclass(frozen=True)
class Accounting:
    """`-m nfacct --nfacct-name NAME`: counts packets and always matches."""

    name: str


@dataclass(frozen=True)
class Unknown:
    """A match or target outside the grammar, as written: "-m multiport --dports 80,443"."""

    text: str


@dataclass(frozen=True)
class Verdict:
    """`-j ACCEPT`, `-j DROP` or `-j RETURN`."""

    name: str


@dataclass(frozen=True)
class Reject:
    """`-j REJECT --reject-with TYPE`."""

    type: str  # "icmp-port-unreachable", "icmp6-port-unreachable", "tcp-reset", ...


@dataclass(frozen=True)
class Jump:
    """`-j CHAIN`."""

    chain: str


@dataclass(frozen=True)
class Goto:
    """`-g CHAIN`."""

    chain: str


@dataclass(frozen=True)
class SetMark:
    """`-j MARK --set-xmark VALUE/MASK`: clear the bits of `mask`, then XOR with `value`."""

    value: int
    mask: int


@dataclass(frozen=True)
class Masquerade:
    """`-j MASQUERADE`, with or without `--random-fully`."""

    random_fully: bool = False


@dataclass(frozen=True)
class Dnat:
    """`-j DNAT --to-destination`; port 0 keeps the port."""

    address: str
    port: int = 0


Match = Union[
    Source,
    Destination,
    InInterface,
    OutInterface,
    Protocol,
    DestinationPort,
    Mark,
    ConnectionState,
    AddressType,
    MatchSet,
    IpvsService,
    PhysicalIn,
    Statistic,
    Recent,
    Accounting,
    Unknown,
]
Target = Union[Verdict, Reject, Jump, Goto, SetMark, Masquerade, Dnat, Unknown]

# Matches that the kernel checks first, in the order of iptables-save. All others keep their order: of two stateful matches,
# the first decides whether the second is evaluated.
_FIRST: Mapping[type, int] = MappingProxyType(
    {Source: 0, Destination: 1, InInterface: 2, OutInterface: 3, Protocol: 4, DestinationPort: 5}
)


@dataclass(frozen=True)
class Rule:
    """One rule. Without a target it only counts (and does what its matches do). Create it with `rule`."""

    matches: tuple[Match, ...] = ()
    target: Optional[Target] = None
    comment: str = ""
    # The original text of a rule that may be deleted individually: iptables finds a rule only with its matches in their
    # order.
    written: str = field(default="", compare=False, repr=False)


def rule(*matches: Match, target: Optional[Target] = None, comment: str = "", written: str = "") -> Rule:
    """A rule with its matches in canonical order, without those that match every packet."""
    kept = [match for match in matches if not (isinstance(match, (Source, Destination)) and _is_any(match))]
    return Rule(tuple(sorted(kept, key=_place)), target, comment, written)


def _is_any(match: Union[Source, Destination]) -> bool:
    return match.network.endswith("/0") and not match.negated


def _place(match: Match) -> int:
    return _FIRST.get(type(match), len(_FIRST))


@dataclass(frozen=True)
class Chain:
    name: str
    rules: tuple[Rule, ...] = ()
    policy: str = ""  # ACCEPT or DROP for a built-in chain, else ""

    def candidates(self, destination: str, port: int) -> list[Rule]:
        """The rules that may match a packet to `destination` and `port`, in order. Indexed, because few of the thousands of
        rules in KUBE-SERVICES can match."""
        places = [*self._places[()], *self._places.get((destination,), ()), *self._places.get((port,), ())]
        return [self.rules[place] for place in sorted(places)]

    @cached_property
    def _places(self) -> Mapping[tuple[object, ...], list[int]]:
        """Indexes of rules, by the single address that they match, else by the port, else under ()."""
        places: dict[tuple[object, ...], list[int]] = {(): []}
        for place, rule in enumerate(self.rules):
            places.setdefault(_key(rule), []).append(place)
        return places


def host_address(network: str) -> Optional[str]:
    """The address of a network that has just one; None for any other network."""
    address, _slash, length = network.partition("/")
    return address if length == ("128" if ":" in address else "32") else None


def _key(rule: Rule) -> tuple[object, ...]:
    for match in rule.matches:
        if isinstance(match, Destination) and not match.negated:
            address = host_address(match.network)
            if address is not None:
                return (address,)
        if isinstance(match, DestinationPort) and not match.negated:
            return (match.port,)
    return ()


@dataclass(frozen=True)
class Table:
    """`chains` are sorted by name. In a compiled table, a built-in chain has only the rules that we require in it."""

    name: str
    chains: tuple[Chain, ...] = ()

    @cached_property
    def by_name(self) -> Mapping[str, Chain]:
        return {chain.name: chain for chain in self.chains}


@dataclass(frozen=True)
class Tables:
    """The tables of one family, in the order of BUILT_IN."""

    family: int  # 4 or 6
    tables: tuple[Table, ...] = ()

    def table(self, name: str) -> Table:
        """The table of that name; an empty one if it does not exist."""
        return next((table for table in self.tables if table.name == name), Table(name))

    def chain(self, table: str, name: str) -> Optional[Chain]:
        return self.table(table).by_name.get(name)


def tables(family: int, chains: Mapping[str, Mapping[str, Chain]]) -> Tables:
    """`chains` by table and name, sorted."""
    return Tables(
        family,
        tuple(
            Table(name, tuple(sorted(chains[name].values(), key=lambda chain: chain.name)))
            for name in BUILT_IN
            if name in chains
        ),
    )


@dataclass(frozen=True)
class Layout:
    """The chains that a backend owns. It writes them as a whole and removes those that are not desired.

    In any other chain that a compiler fills, missing rules are added and the rest is kept.
    """

    chains: frozenset[tuple[str, str]]  # (table, name)
    prefixes: tuple[tuple[str, str], ...] = ()  # (table, prefix of the name)

    def owns(self, table: str, chain: str) -> bool:
        return (table, chain) in self.chains or any(
            table == of and chain.startswith(prefix) for of, prefix in self.prefixes
        )


def network(text: str) -> str:
    """A network as rules have it: host bits cleared, with its length. Accepts an address in shortest form, too."""
    if "/" not in text:
        return f"{text}/128" if ":" in text else f"{text}/32"
    return str(ipaddress.ip_network(text, strict=False))


def chance(probability: float) -> int:
    """The kernel's number for a probability, rounded as libxt_statistic does."""
    return int(_PROBABILITY_ONE * probability + 0.5)


def probability_text(number: int) -> str:
    """The probability of a kernel's number, as iptables-save prints it."""
    return f"{number / _PROBABILITY_ONE:.11f}"
