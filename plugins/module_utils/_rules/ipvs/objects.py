# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernel objects of the ipvs backend as values: virtual servers, ipsets, addresses of the dummy link, and rules.

The compiler creates an `IpvsRules`, the parser reads one; the tracer and the planner use both. Addresses are in shortest
form, elements of sets as `ipset save` prints them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Union

from ..iptables.objects import Tables
from ..packet import endpoint_text

Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]

MASQUERADE, ROUTE, TUNNEL = "masq", "route", "tunnel"  # forwarding methods

# kube-proxy's sets with their types, in the order in which elements are added; they are removed in reverse order. In
# between, no packet may be refused or masqueraded that would not be before or after, so exemptions come first. Source:
# kube-proxy, ipvs/proxier.go and ipvs/ipset.go.
SET_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "KUBE-LOOP-BACK": "hash:ip,port,ip",
        "KUBE-LOAD-BALANCER-SOURCE-CIDR": "hash:ip,port,net",
        "KUBE-LOAD-BALANCER-SOURCE-IP": "hash:ip,port,ip",
        "KUBE-LOAD-BALANCER-FW": "hash:ip,port",
        "KUBE-LOAD-BALANCER-LOCAL": "hash:ip,port",
        "KUBE-LOAD-BALANCER": "hash:ip,port",
        "KUBE-CLUSTER-IP": "hash:ip,port",
        "KUBE-EXTERNAL-IP-LOCAL": "hash:ip,port",
        "KUBE-EXTERNAL-IP": "hash:ip,port",
        "KUBE-NODE-PORT-LOCAL-TCP": "bitmap:port",
        "KUBE-NODE-PORT-TCP": "bitmap:port",
        "KUBE-NODE-PORT-LOCAL-UDP": "bitmap:port",
        "KUBE-NODE-PORT-UDP": "bitmap:port",
        "KUBE-NODE-PORT-LOCAL-SCTP-HASH": "hash:ip,port",
        "KUBE-NODE-PORT-SCTP-HASH": "hash:ip,port",
        "KUBE-HEALTH-CHECK-NODE-PORT": "bitmap:port",
        "KUBE-IPVS-IPS": "hash:ip",
    }
)
# Names used by releases before 1.14.
FORMER_SETS = ("KUBE-LOAD-BALANCER-MASQ", "KUBE-NODE-PORT-SCTP", "KUBE-NODE-PORT-LOCAL-SCTP")
_NAME_LIMIT = 31  # IPSET_MAXNAMELEN without the terminating NUL
DEFAULT_MAXELEM = 65536


def set_name(name: str, family: int) -> str:
    """The name of a set of SET_TYPES in a family. kube-proxy truncates it to the kernel's limit."""
    return name if family == 4 else name.replace("KUBE-", "KUBE-6-", 1)[:_NAME_LIMIT]


KUBE_TYPES: Mapping[str, str] = MappingProxyType(
    {set_name(name, family): kind for name, kind in SET_TYPES.items() for family in (4, 6)}
)
# The names in both families. A prefix would not do: kube-router's KUBE-SRC- and KUBE-DST- begin with KUBE- too.
SET_NAMES = frozenset(set_name(name, family) for name in (*SET_TYPES, *FORMER_SETS) for family in (4, 6))


@lru_cache(maxsize=2**16)
def address(text: str) -> str:
    """`text` in its shortest form. ValueError if it is not an address."""
    return str(ipaddress.ip_address(text))


def address_bytes(text: str) -> bytes:
    """A sort key that orders the addresses of a family numerically."""
    return ipaddress.ip_address(text).packed


@dataclass(frozen=True, order=True)
class RealServer:
    address: str
    port: int
    weight: int = 1  # 0: no new connections; open ones continue
    method: str = MASQUERADE
    connections: int = field(default=0, compare=False)  # open ones, active and inactive

    @property
    def text(self) -> str:
        return endpoint_text(self.address, self.port)


@dataclass(frozen=True)
class VirtualServer:
    address: str  # "" if selected by a firewall mark
    port: int
    protocol: str  # TCP, UDP or SCTP
    scheduler: str = "rr"
    persistent_seconds: int = 0  # 0: each connection is scheduled on its own
    flags: tuple[str, ...] = ()  # of the scheduler, "mh-port"
    other: tuple[str, ...] = ()  # options that kube-proxy does not use, as ipvsadm prints them
    mark: int = 0  # 0: selected by address, port and protocol
    real_servers: tuple[RealServer, ...] = ()  # sorted

    @property
    def key(self) -> tuple[int, str, str, int]:
        return (self.mark, self.address, self.protocol, self.port)

    @property
    def text(self) -> str:
        return f"mark {self.mark}" if self.mark else f"{endpoint_text(self.address, self.port)}/{self.protocol}"


@dataclass(frozen=True)
class IpSet:
    """`elements` of another program's set are kept as printed, and so are those of its `options` that affect its content."""

    name: str
    type: str
    family: int = 0  # 0: sets of ports have none
    elements: frozenset[str] = frozenset()
    maxelem: int = field(default=DEFAULT_MAXELEM, compare=False)  # a larger set is equivalent
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class IpvsRules:
    """All kernel objects of one family."""

    family: int  # 4 or 6
    link: bool = False  # whether LINK exists
    addresses: tuple[str, ...] = ()  # on LINK, of this family, sorted
    servers: tuple[VirtualServer, ...] = ()  # by key; those read from a kernel include other programs'
    sets: tuple[IpSet, ...] = ()  # by name; likewise
    tables: Tables = Tables(4)
    # All other links with their addresses; only if read from a kernel.
    links: tuple[tuple[str, tuple[str, ...]], ...] = field(default=(), compare=False)
    # Addresses of the other family on LINK, which stays as long as it has any.
    other_addresses: tuple[str, ...] = field(default=(), compare=False)

    @cached_property
    def set_by_name(self) -> Mapping[str, IpSet]:
        return {ipset.name: ipset for ipset in self.sets}

    @cached_property
    def bound(self) -> frozenset[str]:
        return frozenset(self.addresses)

    @cached_property
    def server_by_key(self) -> Mapping[tuple[int, str, str, int], VirtualServer]:
        return {server.key: server for server in self.servers}

    def kube_set(self, name: str) -> IpSet:
        """The set of SET_TYPES in this family; empty if it does not exist."""
        own_name = set_name(name, self.family)
        return self.set_by_name.get(own_name, IpSet(own_name, SET_TYPES[name]))


def sort_servers(servers: list[VirtualServer]) -> tuple[VirtualServer, ...]:
    return tuple(sorted(servers, key=lambda server: server.key))
