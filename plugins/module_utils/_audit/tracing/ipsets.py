# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a packet is in an ipset, as `ipset save` printed its elements. Pure.

Source: ipset(8); kernel, ip_set_core.c (ip_set_test), ip_set_hash_gen.h: of the networks that contain an address, the
longest decides, and `nomatch` makes it an exception.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Optional

from ..._rules.iptables.objects import MatchSet
from ..._rules.ipvs.objects import KUBE_TYPES, IpSet, address
from .hook_view import HookView
from .packet_state import NotKnown, State

_TYPES = (
    *("hash:ip", "hash:net", "hash:ip,port", "hash:net,port", "hash:ip,port,ip", "hash:ip,port,net"),
    *("bitmap:ip", "bitmap:port", "list:set"),
)
_QUOTED = re.compile(r'"[^"]*"')
_BITS = {4: 32, 6: 128}


class SetNotKnown(NotKnown):
    """An ipset that was not read, or whose kind is not followed here."""


class IpSets:
    """Methods raise SetNotKnown for what is not known here."""

    def __init__(self, sets: Iterable[IpSet]) -> None:
        self._sets = {held.name: held for held in sets}
        self._indexes: dict[str, _Index] = {}

    def is_in(self, match: MatchSet, view: HookView, state: State) -> bool:
        """Whether the match without its negation holds."""
        return self._is_in(match.name, match.sides, view, state)

    def _is_in(self, name: str, sides: Sequence[str], view: HookView, state: State) -> bool:
        held = self._sets.get(name)
        if held is None:
            raise SetNotKnown(f"the ipset {name}, which was not read")
        if held.type not in _TYPES or held.type != KUBE_TYPES.get(name, held.type):
            raise SetNotKnown(f"the ipset {name} of type {held.type}")
        if held.options:
            raise SetNotKnown(f"the ipset {name} with {' '.join(held.options)}")
        if held.type == "list:set":
            return self._is_in_any(held, sides, view, state)
        parts = held.type.partition(":")[2].split(",")
        if len(sides) != len(parts):
            raise SetNotKnown(f"the ipset {name}, asked for {','.join(sides)}")
        if held.family not in (0, view.packet.family):
            return False
        if view.other_source and ("ip", "src") in zip(parts, sides):
            return False
        if held.type == "bitmap:port" and view.packet.protocol not in ("TCP", "UDP"):  # ip_set_get_ip_port
            return False
        if name not in self._indexes:
            self._indexes[name] = _understood(held, parts)
        return self._indexes[name].has(_values(parts, sides, view, state), name)

    def _is_in_any(self, held: IpSet, sides: Sequence[str], view: HookView, state: State) -> bool:
        """One member that has the packet is enough, whatever the others are."""
        reason: Optional[SetNotKnown] = None
        for element in sorted(held.elements):
            name = element.partition(" ")[0]
            try:
                if name in self._sets and self._sets[name].type == "list:set":  # no kernel has that
                    raise SetNotKnown(f"the ipset {held.name} with the list {name}")
                if self._is_in(name, sides, view, state):
                    return True
            except SetNotKnown as error:
                reason = error
        if reason is not None:
            raise reason
        return False


def _values(parts: Sequence[str], sides: Sequence[str], view: HookView, state: State) -> list[Optional[str]]:
    """What the packet has at each part of an element; None is not known."""
    packet = view.packet
    is_alone = len(parts) == 1  # elements of bitmap:port have no protocol
    port = str(state.port) if is_alone else f"{packet.protocol.lower()}:{state.port}"
    by_side = {"src": packet.source, "dst": state.destination}
    ports = {"src": None, "dst": port}
    return [ports[side] if part == "port" else by_side[side] for part, side in zip(parts, sides)]


@dataclass
class _Index:
    """`keys`: elements, with "" in the place of a network. `networks`: by length and then by key and network, whether it is
    one without `nomatch`."""

    network_at: Optional[int]  # the part that is a network
    keys: frozenset[tuple[str, ...]] = frozenset()
    networks: dict[int, dict[tuple[tuple[str, ...], int], bool]] = field(default_factory=dict)

    def has(self, values: Sequence[Optional[str]], name: str) -> bool:
        if None in values:
            if any(_fits(key, values, self.network_at) for key in self.keys):
                raise SetNotKnown(f"the ipset {name}, asked for the source's port")
            return False
        key = tuple(value or "" for value in values)
        if self.network_at is None:
            return key in self.keys
        parsed = ipaddress.ip_address(key[self.network_at])
        key = _without(key, self.network_at)
        if key not in self.keys:
            return False
        for length in sorted(self.networks, reverse=True):
            is_member = self.networks[length].get((key, int(parsed) >> (_BITS[parsed.version] - length)))
            if is_member is not None:
                return is_member
        return False


def _fits(key: Sequence[str], values: Sequence[Optional[str]], network_at: Optional[int]) -> bool:
    return all(value is None or at == network_at or value == part for at, (value, part) in enumerate(zip(values, key)))


def _without(key: tuple[str, ...], at: int) -> tuple[str, ...]:
    return (*key[:at], "", *key[at + 1 :])


def _understood(held: IpSet, parts: Sequence[str]) -> _Index:
    try:
        return _index(held, parts)
    except (ValueError, IndexError) as error:
        raise SetNotKnown(f"the ipset {held.name}, whose elements are not all known here") from error


def _index(held: IpSet, parts: Sequence[str]) -> _Index:
    network_at = parts.index("net") if "net" in parts else None
    rows = [_row(element, len(parts)) for element in held.elements]
    if network_at is None:
        return _Index(None, frozenset(key for key, _is_exception in rows))
    index = _Index(network_at, frozenset(_without(key, network_at) for key, _is_exception in rows))
    for key, is_exception in rows:
        network = ipaddress.ip_network(key[network_at])
        if network.version != held.family:
            raise ValueError(key)
        shift = _BITS[network.version] - network.prefixlen
        by_key = index.networks.setdefault(network.prefixlen, {})
        by_key[_without(key, network_at), int(network.network_address) >> shift] = not is_exception
    return index


def _row(element: str, count: int) -> tuple[tuple[str, ...], bool]:
    """The parts of an element, with addresses in their shortest form, and whether it is an exception."""
    words = _QUOTED.sub("", element).split()
    parts = words[0].split(",")
    if len(parts) != count:
        raise ValueError(element)
    return tuple(_shortest(part) for part in parts), "nomatch" in words[1:]


def _shortest(part: str) -> str:
    try:
        return address(part)
    except ValueError:
        return part  # a port or a network
