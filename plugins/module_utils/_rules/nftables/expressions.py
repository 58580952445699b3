# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parts of an nftables rule: expressions, which have a value for each packet, and statements, which act.

Names are those of nft(8). Constants are text in one canonical form, whether read from text or JSON: numbers are decimal
("16384", never "0x4000"), addresses are in shortest form, networks are "10.0.0.0/8", ranges "80-90", protocols and flags are
names ("tcp", "new"), interface names have no quotes and may end in "*". A `Key` is a tuple with one constant for each part
of a concatenation; that of a plain value has one element.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional, Union

Key = tuple[str, ...]

ACCEPT = "accept"
DROP = "drop"
RETURN = "return"
CONTINUE = "continue"
JUMP = "jump"
GOTO = "goto"
VERDICTS = (ACCEPT, DROP, RETURN, CONTINUE, JUMP, GOTO)

EQUAL = "=="
UNEQUAL = "!="
ANY_BIT = "in"  # `ct state new`, `ct status dnat`: one of the flags is set


def key_order(key: Key) -> tuple[tuple[int, str], ...]:
    """The sort key of a `Key`, which orders numbers by value."""
    return tuple((len(part), part) for part in key)


@dataclass(frozen=True)
class Unknown:
    """Text of another program's table that we do not understand, in place of an expression or statement."""

    text: str


# Expressions


@dataclass(frozen=True)
class Payload:
    protocol: str  # "ip", "ip6", "tcp", "udp", "sctp", "th", "icmp", "icmpv6"
    field: str


@dataclass(frozen=True)
class Meta:
    key: str  # "mark", "l4proto", "nfproto", "iifname", ...


@dataclass(frozen=True)
class Ct:
    key: str  # "state", "status", "mark", "direction"


@dataclass(frozen=True)
class Fib:
    """`fib daddr type`: what the kernel's routing table knows about an address."""

    flags: tuple[str, ...]  # as written: "saddr" or "daddr", then "mark", "iif", "oif"
    result: str  # "type", "oif", "oifname"


@dataclass(frozen=True)
class Numgen:
    modulus: int
    mode: str = "random"  # or "inc"
    offset: int = 0


@dataclass(frozen=True)
class Concat:
    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Binary:
    """`meta mark | 0x4000`, `ct mark & 0xff | 0x100`"""

    left: Expression
    operator: str  # "&", "|" or "^"
    right: str  # a constant


@dataclass(frozen=True)
class Constant:
    key: Key


@dataclass(frozen=True)
class MapLookup:
    """`KEY map @name` or `KEY map { ... }`: the value that a map has for a key; the rule does not match if there is none."""

    key: Expression
    to: Union[Named, AnonymousMap]


# Sets and maps that keys are looked up in


@dataclass(frozen=True)
class Named:
    """`@name`: a set or map of the same table."""

    name: str


@dataclass(frozen=True)
class AnonymousSet:
    """`{ ... }`. A comparison with a single constant has a set of one: nft itself writes `{ 80 }` as `80`."""

    keys: tuple[Key, ...]

    def __post_init__(self) -> None:
        if len(self.keys) > 1:
            object.__setattr__(self, "keys", tuple(sorted(set(self.keys), key=key_order)))

    @classmethod
    def of(cls, *values: str) -> AnonymousSet:
        """A set of constants that are not concatenated."""
        return cls(tuple((value,) for value in values))


@dataclass(frozen=True)
class Verdict:
    """A statement, or a value in a verdict map."""

    kind: str  # one of VERDICTS
    target: str = ""  # a chain of the same table, for JUMP and GOTO

    def __post_init__(self) -> None:
        if self.kind not in VERDICTS or (self.kind in (JUMP, GOTO)) != bool(self.target):
            raise ValueError(f"no verdict: {self.kind} {self.target}")


Target = Union[Verdict, Key]


@dataclass(frozen=True)
class AnonymousMap:
    elements: tuple[tuple[Key, Target], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "elements", tuple(sorted(self.elements, key=lambda element: key_order(element[0]))))


Expression = Union[Payload, Meta, Ct, Fib, Numgen, Concat, Binary, Constant, MapLookup, Unknown]

# Statements


@dataclass(frozen=True)
class Match:
    left: Expression
    right: Union[Named, AnonymousSet]
    operator: str = EQUAL  # also UNEQUAL, ANY_BIT, "<", ">", "<=", ">="


@dataclass(frozen=True)
class Vmap:
    """`KEY vmap @name`: the verdict that a map has for a key; if there is none, evaluation continues with the next rule."""

    key: Expression
    to: Union[Named, AnonymousMap]


@dataclass(frozen=True)
class Reject:
    reason: str = ""  # "tcp reset", "icmp admin-prohibited", ...; "" is ICMP port unreachable, in the packet's family


@dataclass(frozen=True)
class Mangle:
    """`meta mark set ...`"""

    target: Union[Meta, Ct, Payload]
    value: Expression


@dataclass(frozen=True)
class Nat:
    """`dnat to ...`, `snat to ...`, `masquerade`, `redirect`.

    The values of a map have an address, or an address and a port: `dnat ip addr . port to` and `dnat ip to` are the same
    (nft lists the former as the latter).
    """

    kind: str  # "dnat", "snat", "masquerade" or "redirect"
    address: Optional[Expression] = None  # a Constant of one part, or a MapLookup
    port: Optional[Expression] = None
    flags: tuple[str, ...] = ()  # sorted: "fully-random", "persistent", "random"
    family: str = ""  # "ip" or "ip6" in a table of family inet, else ""


@dataclass(frozen=True)
class Notrack:
    """`notrack`: conntrack ignores the packet, so no nat chain translates it."""


@dataclass(frozen=True)
class SetUpdate:
    """`update @name { ip saddr }`, `update @name { ip saddr : ip daddr }`: adds a key of the packet to a dynamic set or
    map."""

    name: str
    key: Expression
    data: Optional[Expression] = None  # for a map
    operation: str = "update"  # refreshes the timeout; or "add", "delete"
    timeout_seconds: int = 0  # 0: the set's own


@dataclass(frozen=True)
class Counter:
    name: str = ""  # for a named counter
    packets: int = field(default=0, compare=False)
    bytes: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Limit:
    rate: int
    per: str  # "second", "minute", ...
    unit: str = "packets"  # or "bytes", "kbytes", "mbytes"
    burst: int = 5  # nft's default for packets, which it does not print; for bytes it is 0
    burst_unit: str = "packets"
    over: bool = False  # matches packets above the rate instead of below


@dataclass(frozen=True)
class Log:
    options: tuple[tuple[str, str], ...] = ()  # name and value, sorted: ("prefix", "dropped ")


Statement = Union[Match, Vmap, Verdict, Reject, Mangle, Nat, Notrack, SetUpdate, Counter, Limit, Log, Unknown]
