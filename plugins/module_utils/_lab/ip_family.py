# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The IP families of a lab, and the networks that a topology gives it. Pure.

In a lab's record, a value for IP families is a text with one part per family, the primary one first, as in Kubernetes' flags:
`10.128.0.0/16,fdba:11a5:0:100::/56`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, Optional

from .._control_plane.request import SERVICE_PREFIXES
from .._core.text.decode import Faults, Reader, Wrong, choice
from .._core.text.ip_families import Network, parse_networks

IPV4, IPV6, DUAL = IP_FAMILIES = ("ipv4", "ipv6", "dual")
VERSIONS = {IPV4: (4,), IPV6: (6,), DUAL: (4, 6)}
_FORMS = {
    IPV4: "an IPv4 network such as 10.128.0.0/16",
    IPV6: "an IPv6 network such as fd00:128::/56",
    DUAL: "networks of IPv4 and of IPv6, such as 10.128.0.0/16,fd00:128::/56, or one of them",
}
# By IP version: the prefix length of each node's part of the pod network.
NODE_POD_PREFIX = {4: 24, 6: 64}
# The longest prefixes of networks that a topology gives.
NODES_LEAST, PODS_LEAST, NODE_PODS_LEAST = {4: 24, 6: 112}, {4: 16, 6: 56}, {4: 28, 6: 124}
# Addresses that no interface of a node or a pod can have, or that the API server refuses as an endpoint's.
_UNUSABLE = tuple(
    ipaddress.ip_network(text)
    for text in ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3", "::/8", "fe80::/10", "ff00::/8")
)
# Of a family for which no free one was looked for, as a lab of other families is there.
_SERVICE_CIDRS = {4: "10.96.0.0/16", 6: "fdba:11a5:ffff::/112"}

Networks = tuple[Network, ...]  # at most one of each family, IPv4 first


def parse_family(params: Mapping[str, Any], top: Reader, faults: Faults) -> str:
    """One of IP_FAMILIES: the option, else the topology file's, else IPV4. A family that the target lacks goes to
    `faults`."""
    family = params["ip_family"] or top.read("ip_family", choice(IP_FAMILIES), IPV4)
    if params["target"] == "vm" and family != IPV4:
        faults.wrong(
            "ip_family",
            family,
            "ipv4 with virtual machines: User Mode Linux kernels lack the nat table of ip6tables, and machines have only IPv4 addresses",
        )
    return str(family)


def read_networks(row: Reader, key: str, family: str, *, least: Optional[Mapping[int, int]] = None) -> Networks:
    """The given networks, which must be of the lab's families, with prefixes not longer than `least`."""

    def parse(value: Any) -> Networks:
        try:
            networks = sorted(parse_networks(str(value).replace(" ", "")), key=lambda network: network.version)
        except ValueError:
            raise Wrong(_FORMS[family]) from None
        for network in networks:
            if network.version not in VERSIONS[family]:
                raise Wrong(f"{_FORMS[family]}: ip_family is {family}")
            longest = (least or {}).get(network.version, 128)
            if network.prefixlen > longest:
                raise Wrong(f"a network of /{longest} or larger")
            unusable = next((other for other in _UNUSABLE if network.overlaps(other)), None)
            if unusable is not None:
                raise Wrong(f"outside {unusable}, whose addresses no node, pod or Service can have")
        return tuple(networks)

    nothing: Networks = ()
    return row.read(key, parse, nothing)


def read_service_networks(top: Reader, family: str, free: str, faults: Faults) -> Networks:
    """One network for each of the lab's families: that of the topology, else that of `free`."""
    defaults = dict(_SERVICE_CIDRS)
    defaults.update((network.version, str(network)) for network in parse_networks(free))
    networks = complete(read_networks(top, "service_cidr", family), family, defaults)
    for network in networks:
        sizes = SERVICE_PREFIXES[network.version]
        if network.prefixlen not in sizes:
            faults.wrong("service_cidr", network, f"a network of /{sizes[0]} to /{sizes[-1]}")
    return networks


def complete(networks: Networks, family: str, defaults: Mapping[int, str]) -> Networks:
    """The networks, with the defaults of missing families."""
    given: dict[int, Network] = {network.version: network for network in networks}
    return tuple(given.get(version) or parse_networks(defaults[version])[0] for version in VERSIONS[family])
