# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a packet is in an ipset, whose elements are given as by `ipset save`. Pure.

Source: ipset(8); kernel, ip_set_core.c (ip_set_test), ip_set_hash_gen.h: of the networks that contain an address, the
longest prefix decides, and `nomatch` makes it an exception.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Optional

from ..._rules.addresses import as_address
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
    """An ipset that was not read, or whose type is not supported here."""


class IpSets:
    """Methods raise SetNotKnown for what cannot be evaluated here."""

    def __init__(self, sets: Iterable[IpSet]) -> None:
        self._sets = {held.name: held for held in sets}
        self._lookups: dict[tuple[str, tuple[str, ...]], _Lookup] = {}

    def is_in(self, match: MatchSet, view: HookView, state: State) -> bool:
        """Whether the match holds, ignoring its negation."""
        return self._is_in(match.name, match.sides, view, state)

    def _is_in(self, name: str, sides: tuple[str, ...], view: HookView, state: State) -> bool:
        lookup = self._lookups.get((name, sides))
        if lookup is None:
            held = self._find_set(name)
            if held.type == "list:set":
                return self._is_in_any(held, sides, view, state)
            lookup = self._lookups[name, sides] = _Lookup(held, sides)
        return lookup.has(view, state)

    def _find_set(self, name: str) -> IpSet:
        held = self._sets.get(name)
        if held is None:
            raise SetNotKnown(f"the ipset {name}, which was not read")
        if held.type not in _TYPES or held.type != KUBE_TYPES.get(name, held.type):
            raise SetNotKnown(f"the ipset {name} of type {held.type}")
        if held.options:
            raise SetNotKnown(f"the ipset {name} with {' '.join(held.options)}")
        return held

    def _is_in_any(self, held: IpSet, sides: tuple[str, ...], view: HookView, state: State) -> bool:
        """Whether any member of a list:set has the packet. One is enough, even if others are unknown."""
        reason: Optional[SetNotKnown] = None
        for element in sorted(held.elements):
            name = element.partition(" ")[0]
            try:
                if name in self._sets and self._sets[name].type == "list:set":  # no kernel allows that
                    raise SetNotKnown(f"the ipset {held.name} with the list {name}")
                if self._is_in(name, sides, view, state):
                    return True
            except SetNotKnown as error:
                reason = error
        if reason is not None:
            raise reason
        return False


class _Lookup:
    """A set prepared for lookups by the sides that a match names."""

    def __init__(self, held: IpSet, sides: tuple[str, ...]) -> None:
        parts = held.type.partition(":")[2].split(",")
        if len(sides) != len(parts):
            raise SetNotKnown(f"the ipset {held.name}, matched by {','.join(sides)}")
        self._name = held.name
        self._family = held.family
        self._wanted = tuple(zip(parts, sides))
        self._of_one_source = ("ip", "src") in self._wanted
        self._of_source_port = ("port", "src") in self._wanted
        self._only_ports = held.type == "bitmap:port"  # its elements have no protocol
        self._network_at = parts.index("net") if "net" in parts else None
        self._keys, self._networks = _read_elements(held, len(parts), self._network_at)

    def has(self, view: HookView, state: State) -> bool:
        packet = view.packet
        if self._family and self._family != packet.family:
            return False
        if view.other_source and self._of_one_source:
            return False
        if self._only_ports and packet.protocol not in ("TCP", "UDP"):  # ip_set_get_ip_port
            return False
        port = str(state.port) if self._only_ports else f"{packet.protocol.lower()}:{state.port}"
        values = [
            port if part == "port" else packet.source if side == "src" else state.destination
            for part, side in self._wanted
        ]
        if self._of_source_port:
            return self._has_without_port(values)
        if self._network_at is None:
            return ",".join(values) in self._keys
        return self._has_network(values, self._network_at)

    def _has_network(self, values: list[str], at: int) -> bool:
        number, bits = int(as_address(values[at])), _BITS[self._family]
        values[at] = ""
        key = ",".join(values)
        if key not in self._keys:
            return False
        for length in sorted(self._networks, reverse=True):
            is_member = self._networks[length].get((key, number >> (bits - length)))
            if is_member is not None:
                return is_member
        return False

    def _has_without_port(self, values: Sequence[str]) -> bool:
        def fits(key: str) -> bool:
            return all(
                at == self._network_at or self._wanted[at] == ("port", "src") or value == part
                for at, (value, part) in enumerate(zip(values, key.split(",")))
            )

        if any(map(fits, self._keys)):
            raise SetNotKnown(f"the ipset {self._name}, matched by the source's port")
        return False


# By prefix length, then by (other key parts, network): False for an element with `nomatch`.
_Networks = dict[int, dict[tuple[str, int], bool]]


def _read_elements(held: IpSet, count: int, network_at: Optional[int]) -> tuple[Collection[str], _Networks]:
    """The elements, with "" in place of a network, and the networks."""
    if network_at is None and held.name in KUBE_TYPES:
        return held.elements, {}  # its parser returns them in shortest form
    try:
        return _index(held, count, network_at)
    except (ValueError, IndexError) as error:
        raise SetNotKnown(f"the ipset {held.name}, whose elements are not all known") from error


def _index(held: IpSet, count: int, network_at: Optional[int]) -> tuple[Collection[str], _Networks]:
    keys: set[str] = set()
    networks: _Networks = {}
    for element in held.elements:
        parts, is_exception = _row(element, count)
        if network_at is not None:
            network = ipaddress.ip_network(parts[network_at])
            if network.version != held.family:
                raise ValueError(element)
            parts[network_at] = ""
            number = int(network.network_address) >> (_BITS[network.version] - network.prefixlen)
            networks.setdefault(network.prefixlen, {})[",".join(parts), number] = not is_exception
        keys.add(",".join(parts))
    return keys, networks


def _row(element: str, count: int) -> tuple[list[str], bool]:
    """The parts of an element, with addresses in shortest form, and whether it is an exception."""
    words = _QUOTED.sub("", element).split()
    parts = words[0].split(",")
    if len(parts) != count:
        raise ValueError(element)
    return [_shortest(part) for part in parts], "nomatch" in words[1:]


def _shortest(part: str) -> str:
    try:
        return address(part)
    except ValueError:
        return part  # a port or a network
