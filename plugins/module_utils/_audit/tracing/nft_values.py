# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The values of nftables expressions for a packet in one hook, as keys of sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from ..._rules.nftables.expressions import Binary, Concat, Constant, Ct, Expression, Fib, Key, Meta, Numgen, Payload
from ..._rules.nftables.vocabulary import parts_of
from .hook_view import HookView
from .packet_state import NotKnown, State

ANY = "?"  # an unknown property of a packet: a rule that matches on it is followed both ways


def values(view: HookView, expression: Expression, state: State) -> list[Optional[Key]]:
    """All possible values; a random choice has several. None means no value, which never matches.

    Raises NotKnown.
    """
    keys: list[Optional[Key]] = [()]
    for part in parts_of(expression):
        parts = list(_part(view, part, state))
        keys = [None if key is None or value is None else (*key, value) for key in keys for value in parts]
    return keys


def choices(expression: Expression) -> int:
    """The number of possible values."""
    product = 1
    for part in parts_of(expression):
        product *= max(part.modulus, 1) if isinstance(part, Numgen) else 1
    return product


def flags(view: HookView, expression: Expression, state: State) -> Optional[set[str]]:
    """The bits that are set in a bit field; None means no value."""
    if expression == Ct("state"):
        return {view.connection_state(state)}
    if expression == Ct("status"):
        happened = {"dnat": state.translated, "snat": state.masqueraded}
        return {flag for flag, is_set in happened.items() if is_set} if view.has_connection(state) else None
    if expression == Payload("tcp", "flags"):
        return {"syn"} if view.packet.protocol == "TCP" else None
    raise NotKnown


def _part(view: HookView, expression: Expression, state: State) -> Iterator[Optional[str]]:
    if isinstance(expression, Numgen):
        for number in range(expression.modulus):
            yield str(number + expression.offset)
    elif isinstance(expression, Payload):
        yield _payload(view, expression, state)
    elif isinstance(expression, Meta):
        yield _meta(view, expression.key, state)
    elif isinstance(expression, Ct):
        yield _ct(view, expression, state)
    elif isinstance(expression, Fib):
        yield _fib(view, expression, state)
    elif isinstance(expression, Binary):
        yield _binary(view, expression, state)
    elif isinstance(expression, Constant) and len(expression.key) == 1:
        yield expression.key[0]
    else:
        raise NotKnown


def _payload(view: HookView, payload: Payload, state: State) -> Optional[str]:
    protocol = view.packet.protocol.lower()
    if payload.protocol in ("ip", "ip6"):
        if payload.protocol != ("ip" if view.packet.family == 4 else "ip6"):
            return None
        known = {"saddr": view.packet.source, "daddr": state.destination, "dscp": "0", "frag-off": ANY}
        return known.get(payload.field, protocol)
    if payload.protocol not in ("th", protocol):
        return None
    if payload.field == "dport":
        return str(state.port)
    return "syn" if payload.field == "flags" else ANY


def _meta(view: HookView, key: str, state: State) -> str:
    if key in ("iif", "iifname", "oif", "oifname"):
        link = view.link_in(state) if key.startswith("iif") else view.link_out(state)
        return ANY if link is None else link
    known = {
        "l4proto": view.packet.protocol.lower(),
        "nfproto": f"ipv{view.packet.family}",
        "protocol": "ip" if view.packet.family == 4 else "ip6",
        "mark": str(state.mark),
        "pkttype": "host",
    }
    return known.get(key, ANY)


def _ct(view: HookView, ct: Ct, state: State) -> Optional[str]:
    if ct.key == "state":
        return view.connection_state(state)
    if not view.has_connection(state):
        return None
    if ct.key == "mark":
        return str(state.ct_mark)
    if ct.key == "direction":
        return "original"
    raise NotKnown  # other status flags are unknown


def _fib(view: HookView, fib: Fib, state: State) -> str:
    if fib.result != "type" or fib.flags[0] not in ("saddr", "daddr") or set(fib.flags[1:]) - {"iif"}:
        raise NotKnown
    address = view.packet.source if fib.flags[0] == "saddr" else state.destination
    return view.address_type(address, state, on_link="iif" in fib.flags)


def _binary(view: HookView, binary: Binary, state: State) -> Optional[str]:
    if binary.operator == "&" and binary.left == Ct("status"):
        happened = flags(view, binary.left, state)
        return None if happened is None else binary.right if binary.right in happened else "0"
    left = next(_part(view, binary.left, state))
    if left is not None and binary.left == _FRAGMENT and binary.operator == "&" and binary.right in _NO_FRAGMENT:
        return "0"
    if left is None or left == ANY:
        return left
    if not (left.isdecimal() and binary.right.isdecimal()):
        raise NotKnown
    return str(_BITWISE[binary.operator](int(left), int(binary.right)))


_FRAGMENT = Payload("ip", "frag-off")
_NO_FRAGMENT = ("8191", "8192", "16383")  # masks of the offset, and of "more follow"; "don't fragment" may be set
_BITWISE = {"&": int.__and__, "|": int.__or__, "^": int.__xor__}


def is_any(key: Key) -> bool:
    """Whether a part of the key is unknown."""
    return ANY in key


def is_about_own_source(expression: Expression, *, alone: bool) -> bool:
    """Whether the expression is about the packet's source: alone if `alone`, or source and destination together, as in sets
    for hairpins."""
    fields = {
        part.field for part in parts_of(expression) if isinstance(part, Payload) and part.protocol in ("ip", "ip6")
    }
    if isinstance(expression, Concat):
        return {"saddr", "daddr"} <= fields
    return alone and fields == {"saddr"}
