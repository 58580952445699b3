# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The links of a machine and their addresses, as rules ask for them."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from .._core.host import Host
from .ipvs.objects import LINK
from .ipvs.parse import parse_links
from .packet import Surroundings

Links = tuple[tuple[str, tuple[str, ...]], ...]
_SECONDS = 60


def read_links(host: Host) -> Links:
    return parse_links(host.run(["ip", "-j", "address", "show"], timeout=_SECONDS).stdout)


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
