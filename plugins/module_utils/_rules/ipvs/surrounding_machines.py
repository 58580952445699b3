# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds machines that a node depends on, from its own files: gateways, name servers, the API server; and the networks of its
links.

Files and lines that cannot be read or understood are skipped: they are only hints about who uses an address.
"""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple, Optional, Union
from urllib.parse import urlsplit

from ..._core.host.host import KERNEL_LIMIT, Host
from ..._core.text.errors import BallastError
from ..addresses import parse_address
from ..node_addresses import LINK
from .used_addresses import API_SERVER, User

_ROUTES, _ROUTES6 = "/proc/net/route", "/proc/net/ipv6_route"
_RESOLVERS = ("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf")
_HOSTS = "/etc/hosts"
_UP, _REJECT, _LOCAL = 0x1, 0x200, 0x80000000  # flags of a route (linux/route.h, linux/ipv6_route.h)
_NOT_OUT = ("lo", LINK)
_DOMAIN = frozenset([("UDP", 53)])
_HTTPS = 443
Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]


class Route(NamedTuple):
    link: str
    network: Network
    gateway: str  # "" if the network is directly on the link


def read_routes(host: Host) -> tuple[Route, ...]:
    """The routes out of this node, of both families."""
    return (*_parse_each(host, _ROUTES, _route4), *_parse_each(host, _ROUTES6, _route6))


def read_users(host: Host, routes: tuple[Route, ...], *, api_server: str = "") -> tuple[User, ...]:
    """The machines that use addresses near this node. `api_server` is its URL; "" if unknown."""
    users = [User(route.gateway, f"the gateway on interface {route.link}") for route in routes if route.gateway]
    users += [User(address, "a name server of this node", _DOMAIN) for address in _name_servers(host)]
    users += _api_server(host, api_server)
    return tuple(dict.fromkeys(user for user in users if not ipaddress.ip_address(user.address).is_loopback))


def _api_server(host: Host, url: str) -> Iterator[User]:
    try:
        parts = urlsplit(url)
        name, port = parts.hostname or "", parts.port or _HTTPS
    except ValueError:
        return
    own = parse_address(name)
    for address in [own.text] if own else _addresses_in_hosts(host, name):
        yield User(address, API_SERVER, frozenset([("TCP", port)]))


def _addresses_in_hosts(host: Host, name: str) -> Iterator[str]:
    for words in _words(host, _HOSTS):
        address = parse_address(words[0])
        if address and name and name in (word.lower() for word in words[1:]):
            yield address.text


def _name_servers(host: Host) -> Iterator[str]:
    for path in _RESOLVERS:
        for words in _words(host, path):
            address = parse_address(words[1]) if words[0] == "nameserver" and len(words) > 1 else None
            if address:
                yield address.text


def _words(host: Host, path: str) -> Iterator[list[str]]:
    try:
        text = (host.read(path, limit=KERNEL_LIMIT) or b"").decode(errors="replace")
    except BallastError:
        return
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if words:
            yield words


def _parse_each(host: Host, path: str, parse: Callable[[list[str]], Optional[Route]]) -> Iterator[Route]:
    for words in _words(host, path):
        try:
            route = parse(words)
        except (ValueError, IndexError):
            continue
        if route is not None and route.link not in _NOT_OUT:
            yield route


def _route4(words: list[str]) -> Optional[Route]:
    """Columns: link, destination, gateway, flags, ..., mask (7); hexadecimal, in host byte order."""
    flags = int(words[3], 16)
    if not flags & _UP or flags & _REJECT:
        return None
    destination, gateway, mask = (_ipv4(words[at]) for at in (1, 2, 7))
    network = ipaddress.IPv4Network(f"{destination}/{mask}")
    return Route(words[0], network, "" if gateway == "0.0.0.0" else gateway)


def _ipv4(text: str) -> str:
    return str(ipaddress.IPv4Address(int(text, 16).to_bytes(4, sys.byteorder)))


def _route6(words: list[str]) -> Optional[Route]:
    """Columns: destination, its length, source, its length, gateway, ..., flags (8), link."""
    flags = int(words[8], 16)
    if not flags & _UP or flags & (_REJECT | _LOCAL):
        return None
    network = ipaddress.IPv6Network((int(words[0], 16), int(words[1], 16)))
    gateway = ipaddress.IPv6Address(int(words[4], 16))
    return Route(words[9], network, "" if gateway.is_unspecified else str(gateway))
