# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parses addresses and networks as the API server accepts them into the form that the kernel prints.

For years the API server accepted leading zeros (010.0.0.1 is 10.0.0.1) and IPv4-mapped IPv6 addresses, and it still serves
objects from that time; kube-proxy reads them in the same way. Source: k8s.io/utils/net, "sloppy" parsers, issue 100895.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple, Optional, Union

_LONGEST = 100  # characters; a network with many leading zeros has fewer
_OCTETS = re.compile(r"[0-9]+(?:\.[0-9]+){3}")
_DIGITS = re.compile(r"[0-9]{1,10}")
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
# Unspecified, loopback, link-local unicast and multicast, in shortest form.
_SPECIAL_IPV4 = ("0.0.0.0", "127.", "169.254.", "224.0.0.")
_SPECIAL_IPV6 = re.compile(r"::1?\Z|fe[89ab][0-9a-f]:|ff[0-9a-f]2:")


class Address(NamedTuple):
    family: int  # 4 or 6
    text: str  # shortest form

    @property
    def special(self) -> bool:
        """Whether the address is one that only the machine itself can have. As an endpoint or in externalIPs it would lead
        to the node's own services, so the API server refuses it (ValidateEndpointIP)."""
        return self.text.startswith(_SPECIAL_IPV4) or _SPECIAL_IPV6.match(self.text) is not None

    @property
    def loopback(self) -> bool:
        return self.text == "::1" or self.text.startswith("127.")


class Network(NamedTuple):
    family: int
    text: str  # without host bits
    prefix: int


def parse_address(text: str) -> Optional[Address]:
    """None if it is not an address, or has a zone (fe80::1%eth0), which no API field accepts."""
    try:
        if ":" not in text:
            return Address(4, socket.inet_ntop(socket.AF_INET, socket.inet_pton(socket.AF_INET, text)))
        shortest = socket.inet_ntop(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, text))
        if "." not in shortest:
            return Address(6, shortest)
    except (OSError, ValueError):
        pass
    return _parse_sloppily(text)


def is_plain(text: str) -> bool:
    """Whether `text` is an IPv4 address in shortest form that an endpoint may have. Most are; this is faster than
    parse_address, which matters for 100,000 endpoints."""
    try:
        socket.inet_pton(socket.AF_INET, text)  # accepts only the shortest form
    except (OSError, ValueError):
        return False
    return not text.startswith(_SPECIAL_IPV4)


@lru_cache(maxsize=8192)  # a tracer needs the same few for every rule
def as_address(address: str) -> Union[ipaddress.IPv4Address, ipaddress.IPv6Address]:
    """An address in shortest form, for comparison with networks and ranges. ValueError for other text."""
    return ipaddress.ip_address(address)


@lru_cache(maxsize=4096)  # Services share their source ranges
def parse_network(text: str) -> Optional[Network]:
    """The network, with host bits cleared; None if `text` is not a network."""
    head, slash, bits = text.partition("/")
    if not slash or len(text) > _LONGEST or not _DIGITS.fullmatch(bits):
        return None
    try:
        parsed = ipaddress.ip_network(f"{_plain(head)}/{int(bits)}", strict=False)
    except ValueError:
        return None
    if isinstance(parsed, ipaddress.IPv6Network) and parsed.subnet_of(_MAPPED):
        mapped = int(parsed.network_address) & 0xFFFFFFFF
        parsed = ipaddress.IPv4Network((mapped, parsed.prefixlen - 96))
    return Network(parsed.version, str(parsed), parsed.prefixlen)


def _parse_sloppily(text: str) -> Optional[Address]:
    if len(text) > _LONGEST:
        return None
    try:
        parsed = ipaddress.ip_address(_plain(text))
    except ValueError:
        return None
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return Address(parsed.version, str(parsed))


def _plain(text: str) -> str:
    """`text` without leading zeros, which Python refuses or misreads; "" for an address with a zone."""
    if "%" in text:
        return ""
    *groups, tail = text.split(":")
    if _OCTETS.fullmatch(tail):
        tail = ".".join(str(int(octet)) for octet in tail.split("."))
    elif groups:
        tail = _without_zeros(tail)
    return ":".join([*map(_without_zeros, groups), tail])


def _without_zeros(group: str) -> str:
    return group.lstrip("0") or group[:1]


def is_within(address: str, networks: Iterable[Union[ipaddress.IPv4Network, ipaddress.IPv6Network]]) -> bool:
    parsed = ipaddress.ip_address(address)
    return any(parsed in network for network in networks)
