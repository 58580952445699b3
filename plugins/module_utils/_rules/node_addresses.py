# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the links of a machine and their addresses."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Sequence

from .._core.host.host import KERNEL_LIMIT, Host
from .._core.text.json_text import parse_json
from .ipvs.messages import MESSAGES
from .packet import Surroundings
from .routes import Routes

FAMILIES = (4, 6)
_IPV6 = "/proc/net/if_inet6"  # exists if the kernel has IPv6
# ipvs binds every Service address to this link, so that packets to it reach the hook of ip_vs in INPUT.
LINK = "kube-ipvs0"
# Its temporary name while a kube-proxy starts that would remove it (_kube_proxy/ipvs_connections.py).
HIDDEN_LINK = "ballast-ipvs0"
_OF_SERVICES = (LINK, HIDDEN_LINK)

Links = tuple[tuple[str, tuple[str, ...]], ...]
_SECONDS = 60


def families(host: Host) -> tuple[int, ...]:
    """The IP families of this kernel: 4, and 6 if it has IPv6."""
    return FAMILIES if host.stat(_IPV6) is not None else FAMILIES[:1]


def read_links(host: Host) -> Links:
    """The links of the host's network namespace, as `parse_links` returns them."""
    return parse_links(host.run(["ip", "-j", "address", "show"], timeout=_SECONDS, limit=KERNEL_LIMIT).stdout)


def parse_links(text: str) -> Links:
    """Parse `ip -j address show`: links in order, each with its addresses of both families as listed."""
    try:
        data = parse_json(text)
    except ValueError as error:
        raise MESSAGES.error("rules-ipvs-addresses", reason=str(error)) from error
    return links_in(data)


def links_in(data: object) -> Links:
    """parse_links for JSON that is decoded already."""
    if not isinstance(data, list):
        raise MESSAGES.error("rules-ipvs-addresses", reason="it is not a list of links")
    return tuple(_link(entry) for entry in data if entry != {})  # iproute2 prints {} for filtered entries


def _link(link: object) -> tuple[str, tuple[str, ...]]:
    name = link.get("ifname") if isinstance(link, dict) else None
    listed = link.get("addr_info", []) if isinstance(link, dict) else None
    if not isinstance(name, str) or not isinstance(listed, list):
        raise MESSAGES.error("rules-ipvs-addresses", reason="a link without ifname or addr_info")
    addresses = []
    for entry in listed:
        local = entry.get("local") if isinstance(entry, dict) else None
        try:
            addresses.append(str(ipaddress.ip_address(local if isinstance(local, str) else "")))
        except ValueError as error:
            reason = f"{name} has an entry without a local address: {json.dumps(entry)}"
            raise MESSAGES.error("rules-ipvs-addresses", reason=reason) from error
    return name, tuple(addresses)


def own_addresses(links: Links) -> list[str]:
    """The node's own addresses, without loopback and without those that ipvs binds for Services."""
    return [
        address
        for name, addresses in links
        if name not in _OF_SERVICES
        for address in addresses
        if not ipaddress.ip_address(address).is_loopback
    ]


def surroundings_with(links: Links, routes: Routes = ()) -> Surroundings:
    """The surroundings of a node with these links. The rules of ipvs add the addresses that it binds for Services."""
    return Surroundings(tuple(link for link in links if link[0] not in _OF_SERVICES), routes)


def surroundings_of(node_ips: Sequence[str]) -> Surroundings:
    """The surroundings of a node of which only the addresses are known."""
    return Surroundings((("", tuple(str(ipaddress.ip_address(address)) for address in node_ips)),))
