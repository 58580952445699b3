# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The endpoints that a translation to a range of addresses or ports may pick."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from .packet_state import NotKnown

_LIMIT = 256  # endpoints of one rule that are traced individually


def endpoints_of(target: Sequence[str], destination: str, port: int) -> list[tuple[str, int]]:
    """`target` is an address and a port. Either may be a range "A-B", or "" to keep `destination` or `port`.

    Raises NotKnown for a network, and for more endpoints than are traced.
    """
    addresses = _addresses(target[0]) if target[0] else [destination]
    ports = _ports(target[1]) if len(target) > 1 and target[1] else [port]
    if len(target) > 2 or len(addresses) * len(ports) > _LIMIT:
        raise NotKnown(" ".join(target))
    return [(address, to_port) for address in addresses for to_port in ports]


def _addresses(text: str) -> list[str]:
    low, dash, high = text.partition("-")
    if not dash:
        return [_address(text)]
    try:
        first, last = ipaddress.ip_address(low), ipaddress.ip_address(high)
    except ValueError as error:
        raise NotKnown(text) from error
    count = int(last) - int(first) + 1
    if first.version != last.version or not 0 < count <= _LIMIT:
        raise NotKnown(text)
    return [str(first + step) for step in range(count)]


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError as error:
        raise NotKnown(text) from error


def _ports(text: str) -> Sequence[int]:
    low, _dash, high = text.partition("-")
    if not (low.isdecimal() and (high or low).isdecimal() and int(low) <= int(high or low) <= 65535):
        raise NotKnown(text)
    ports = range(int(low), int(high or low) + 1)
    if len(ports) > _LIMIT:
        raise NotKnown(text)
    return ports
