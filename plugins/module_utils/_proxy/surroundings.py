# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The links of a machine and their addresses, as rules ask for them."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Sequence

from .._core.host import Host
from .ipvs.messages import MESSAGES
from .packet import Surroundings

FAMILIES = (4, 6)
_IPV6 = "/proc/net/if_inet6"  # there where the kernel has IPv6
# ipvs binds every service address to it, so that a packet for it comes to the hook of ip_vs at INPUT.
LINK = "kube-ipvs0"

Links = tuple[tuple[str, tuple[str, ...]], ...]
_SECONDS = 60


def families(host: Host) -> tuple[int, ...]:
    return FAMILIES if host.stat(_IPV6) is not None else FAMILIES[:1]


def read_links(host: Host) -> Links:
    return parse_links(host.run(["ip", "-j", "address", "show"], timeout=_SECONDS).stdout)


def parse_links(text: str) -> Links:
    """`ip -j address show`: links in their order, each with its addresses of both families as listed."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MESSAGES.error("rules-ipvs-addresses", reason=str(error)) from error
    if not isinstance(data, list):
        raise MESSAGES.error("rules-ipvs-addresses", reason="it is not a list of links")
    return tuple(_link(one) for one in data if one != {})  # iproute2 prints {} for what a filter left out


def _link(one: object) -> tuple[str, tuple[str, ...]]:
    name = one.get("ifname") if isinstance(one, dict) else None
    listed = one.get("addr_info", []) if isinstance(one, dict) else None
    if not isinstance(name, str) or not isinstance(listed, list):
        raise MESSAGES.error("rules-ipvs-addresses", reason="a link without ifname or addr_info")
    found = []
    for entry in listed:
        local = entry.get("local") if isinstance(entry, dict) else None
        try:
            found.append(str(ipaddress.ip_address(local if isinstance(local, str) else "")))
        except ValueError as error:
            reason = f"{name} has an entry without a local address: {json.dumps(entry)}"
            raise MESSAGES.error("rules-ipvs-addresses", reason=reason) from error
    return name, tuple(found)


def own_addresses(links: Links) -> list[str]:
    """The node's own: neither loopback nor those that ipvs binds for Services."""
    return [
        address
        for name, addresses in links
        if name != LINK
        for address in addresses
        if not ipaddress.ip_address(address).is_loopback
    ]


def surroundings_of(node_ips: Sequence[str]) -> Surroundings:
    """Of a node that is told of by its addresses alone."""
    return Surroundings((("", tuple(str(ipaddress.ip_address(one)) for one in node_ips)),))
