# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses and networks of one IP family or both, as Kubernetes flags take them: `10.97.0.11`, `fd00::b`,
`10.97.0.11,fd00::b`.

The first family is the primary one: Services that name no family, and the API server's address, use it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from typing import Union

Address = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
Interface = Union[ipaddress.IPv4Interface, ipaddress.IPv6Interface]
Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]


def split(text: str) -> list[str]:
    """One item per family; empty list for empty text."""
    return [part.strip() for part in text.split(",")] if text else []


def join(parts: Iterable[object]) -> str:
    return ",".join(str(part) for part in parts)


def primary(text: str) -> str:
    """The item of the primary family; "" for empty text."""
    return text.partition(",")[0].strip()


def is_ipv6(text: str) -> bool:
    """Whether a valid address (with or without port) or network is IPv6."""
    return text.count(":") > 1


def of_family(texts: Iterable[str], *, ipv6: bool) -> list[str]:
    return [text for text in texts if is_ipv6(text) == ipv6]


def with_port(address: str, port: Union[int, str]) -> str:
    """`10.97.0.1:6443`, `[fd00::1]:6443`."""
    return f"[{address}]:{port}" if is_ipv6(address) else f"{address}:{port}"


def parse_networks(text: str) -> tuple[Network, ...]:
    """ValueError for an invalid network, or for two networks of one family."""
    networks = tuple(ipaddress.ip_network(part) for part in text.split(","))
    _refuse_twice(networks, text)
    return networks


def parse_addresses(text: str) -> tuple[Address, ...]:
    """ValueError as for `parse_networks`."""
    if "%" in text:  # a zone is valid on one machine only
        raise ValueError(text)
    addresses = tuple(ipaddress.ip_address(part) for part in text.split(","))
    _refuse_twice(addresses, text)
    return addresses


def parse_interfaces(text: str) -> tuple[Interface, ...]:
    """Addresses with prefix length. ValueError as for `parse_networks`."""
    parts = text.split(",")
    if "%" in text or not all("/" in part for part in parts):
        raise ValueError(text)
    interfaces = tuple(ipaddress.ip_interface(part) for part in parts)
    _refuse_twice(interfaces, text)
    return interfaces


def _refuse_twice(values: Sequence[Union[Address, Interface, Network]], text: str) -> None:
    if len({value.version for value in values}) < len(values):
        raise ValueError(text)
