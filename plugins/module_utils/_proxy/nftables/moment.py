# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an expression of a rule is worth for a packet at one hook. The values are keys as sets have them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Optional

from ..packet import Packet, Surroundings
from .expressions import Binary, Concat, Constant, Ct, Expression, Fib, Key, Meta, Numgen, Payload
from .vocabulary import parts_of

CONNTRACK_PRIORITY = -200  # NF_IP_PRI_CONNTRACK: chains of prerouting and output before it see no connection
ANY = "?"  # what nobody told us of a packet: a rule that asks for it goes both ways


class NotKnown(Exception):
    """An expression that we cannot tell the value of."""


@dataclass(frozen=True)
class State:
    """What the rules so far have made of a packet. `own_...`: a rule did it that is about the packet's own source alone,
    which is how a packet is masqueraded that returns to where it came from."""

    destination: str
    port: int
    mark: int = 0
    ct_mark: int = 0
    translated: bool = False
    masqueraded: bool = False
    own_mark: bool = False
    own_masquerade: bool = False
    affinity_seconds: int = 0
    looped: bool = False  # back over the loopback link
    why: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Moment:
    """A packet as the chains of one hook see it."""

    packet: Packet
    surroundings: Surroundings
    hook: str
    priority: int

    def values(self, expression: Expression, state: State) -> list[Optional[Key]]:
        """All that may be: more than one where lots are drawn. None is no value, with which a rule does not match.

        Raises NotKnown.
        """
        keys: list[Optional[Key]] = [()]
        for part in parts_of(expression):
            values = list(self._part(part, state))
            keys = [None if key is None or value is None else (*key, value) for key in keys for value in values]
        return keys

    def lots(self, expression: Expression) -> int:
        """How many values there are."""
        product = 1
        for part in parts_of(expression):
            product *= max(part.modulus, 1) if isinstance(part, Numgen) else 1
        return product

    def flags(self, expression: Expression, state: State) -> Optional[set[str]]:
        """Of a field of bits, those that are set; None is no value."""
        tracked = state.looped or self.priority >= CONNTRACK_PRIORITY or self.hook not in ("prerouting", "output")
        if expression == Ct("state"):
            return {"new"} if tracked else {"invalid"}
        if expression == Ct("status"):
            happened = {"dnat": state.translated, "snat": state.masqueraded}
            return {flag for flag, is_set in happened.items() if is_set} if tracked else None
        if expression == Payload("tcp", "flags"):
            return {"syn"} if self.packet.protocol == "TCP" else None
        raise NotKnown

    def _part(self, expression: Expression, state: State) -> Iterator[Optional[str]]:
        if isinstance(expression, Numgen):
            for number in range(expression.modulus):
                yield str(number + expression.offset)
        elif isinstance(expression, Payload):
            yield self._payload(expression, state)
        elif isinstance(expression, Meta):
            yield self._meta(expression.key, state)
        elif isinstance(expression, Ct):
            yield self._ct(expression, state)
        elif isinstance(expression, Fib):
            yield self._fib(expression, state)
        elif isinstance(expression, Binary):
            yield self._binary(expression, state)
        elif isinstance(expression, Constant) and len(expression.key) == 1:
            yield expression.key[0]
        else:
            raise NotKnown

    def _payload(self, payload: Payload, state: State) -> Optional[str]:
        protocol = self.packet.protocol.lower()
        if payload.protocol in ("ip", "ip6"):
            if payload.protocol != ("ip" if self.packet.family == 4 else "ip6"):
                return None
            values = {"saddr": self.packet.source, "daddr": state.destination, "dscp": "0"}
            return values.get(payload.field, protocol)
        if payload.protocol not in ("th", protocol):
            return None
        if payload.field == "dport":
            return str(state.port)
        return "syn" if payload.field == "flags" else ANY

    def _meta(self, key: str, state: State) -> str:
        values = {
            "l4proto": self.packet.protocol.lower(),
            "nfproto": f"ipv{self.packet.family}",
            "protocol": "ip" if self.packet.family == 4 else "ip6",
            "mark": str(state.mark),
        }
        if key in ("iif", "iifname"):
            return "lo" if state.looped else "" if self.packet.node_local else self.packet.inbound_interface
        if key in ("oif", "oifname"):
            if self.hook in ("prerouting", "input"):
                return ""
            is_loopback = self.packet.node_local and self.surroundings.is_local(state.destination)
            return "lo" if is_loopback else ANY
        return values.get(key, ANY)

    def _ct(self, ct: Ct, state: State) -> Optional[str]:
        if ct.key == "mark":
            return str(state.ct_mark)
        if ct.key == "direction":
            return "original"
        flags = self.flags(ct, state)
        if ct.key == "status":  # has flags besides, which no rule of ours asks for
            raise NotKnown
        return None if flags is None else next(iter(flags))

    def _fib(self, fib: Fib, state: State) -> str:
        if fib.result != "type" or fib.flags not in (("saddr",), ("daddr",)):
            raise NotKnown
        address = self.packet.source if fib.flags == ("saddr",) else state.destination
        if self.surroundings.is_local(address):
            return "local"
        if address == "255.255.255.255":
            return "broadcast"
        return "multicast" if ipaddress.ip_address(address).is_multicast else "unicast"

    def _binary(self, binary: Binary, state: State) -> Optional[str]:
        if binary.operator == "&" and binary.left == Ct("status"):
            flags = self.flags(binary.left, state)
            return None if flags is None else binary.right if binary.right in flags else "0"
        left = next(self._part(binary.left, state))
        if left is None or left == ANY:
            return left
        if not (left.isdecimal() and binary.right.isdecimal()):
            raise NotKnown
        return str(_BITWISE[binary.operator](int(left), int(binary.right)))


_BITWISE = {"&": int.__and__, "|": int.__or__, "^": int.__xor__}


def is_any(key: Key) -> bool:
    return ANY in key


def is_about_own_source(expression: Expression, *, alone: bool) -> bool:
    """Whether a comparison of this is with the packet's source alone: with one address (`alone`), or as source and
    destination together, as sets of packets that return to where they came from have them."""
    fields = {
        part.field for part in parts_of(expression) if isinstance(part, Payload) and part.protocol in ("ip", "ip6")
    }
    if isinstance(expression, Concat):
        return {"saddr", "daddr"} <= fields
    return alone and fields == {"saddr"}
