# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which destinations rules have something to say about, in every layout of kube-proxy and in ours. Pure.

A destination is an address, a protocol and a port: "" for the address of a node port; "" and 0 for protocol and port where
rules know the address alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Optional

from ..iptables.names import EXTERNAL_SERVICES, NODE_PORTS, PROXY_FIREWALL, SERVICES
from ..iptables.objects import AddressType, Destination, DestinationPort, Protocol, Rule, Tables
from ..ipvs.objects import IpvsRules
from ..nftables.layout import CLUSTER_IPS
from ..nftables.objects import VERDICT, Table
from ..packet import endpoint_text

Key = tuple[str, str, int]

_ADDRESSES = ("ipv4_addr", "ipv6_addr")
_PORT = ("inet_proto", "inet_service")
# Chains of both backends that have rules for destinations; those for node ports match no address, or say that it is local.
_IPTABLES_CHAINS = (
    ("nat", SERVICES),
    ("nat", NODE_PORTS),
    ("filter", SERVICES),
    ("filter", EXTERNAL_SERVICES),
    ("filter", PROXY_FIREWALL),
)
_KEYED_SETS = (
    "KUBE-CLUSTER-IP",
    "KUBE-EXTERNAL-IP",
    "KUBE-EXTERNAL-IP-LOCAL",
    "KUBE-LOAD-BALANCER",
    "KUBE-LOAD-BALANCER-LOCAL",
    "KUBE-LOAD-BALANCER-FW",
)


def text(key: Key) -> str:
    address, protocol, port = key
    if not protocol:
        return address
    return f"{endpoint_text(address, port)}/{protocol}" if address else f"node port {port}/{protocol}"


def in_nftables(table: Table) -> set[Key]:
    """The keys of its verdict maps that are looked up by a destination, whatever their names; and cluster IPs."""
    found = {(address, "", 0) for (address, *_rest) in _elements(table, CLUSTER_IPS)}
    for one in table.sets.values():
        if one.data != (VERDICT,):
            continue
        if len(one.key) == 3 and one.key[0] in _ADDRESSES and one.key[1:] == _PORT:
            found |= {(address, protocol.upper(), int(port)) for address, protocol, port in one.elements}
        elif one.key == _PORT:
            found |= {("", protocol.upper(), int(port)) for protocol, port in one.elements}
    return found


def cluster_ips_in_nftables(table: Table) -> set[str]:
    return {address for (address, *_rest) in _elements(table, CLUSTER_IPS)}


def _elements(table: Table, name: str) -> Iterator[tuple[str, ...]]:
    found = table.sets.get(name)
    return iter(found.elements if found is not None else ())


def in_iptables(tables: Tables) -> set[Key]:
    """What its rules match by -d and --dport."""
    found = set()
    for table, name in _IPTABLES_CHAINS:
        chain = tables.chain(table, name)
        for rule in chain.rules if chain is not None else ():
            key = _key(rule)
            if key is not None:
                found.add(key)
    return found


def _key(rule: Rule) -> Optional[Key]:
    address, protocol, port = "", "", 0
    for match in rule.matches:
        if isinstance(match, Destination) and not match.negated and match.network.endswith(("/32", "/128")):
            address = match.network.partition("/")[0]  # any other network is of loopback, in rules for node ports
        elif isinstance(match, Protocol) and not match.negated:
            protocol = match.name.upper()
        elif isinstance(match, DestinationPort) and not match.negated:
            port = match.port
        elif isinstance(match, AddressType) and match.side == "dst":
            address = ""
    return (address, protocol, port) if port else None


def in_ipvs(own: IpvsRules, services: Collection[Key]) -> set[Key]:
    """Virtual servers, addresses of the link, and elements of ipsets. `own`: without what is foreign. A virtual server on an
    address of the node is of a node port, if none of `services` has just that."""
    on_node = {address for _name, addresses in own.links for address in addresses} - own.bound
    found: set[Key] = {(address, "", 0) for address in own.addresses}
    for server in own.servers:
        key = (server.address, server.protocol, server.port)
        found.add(("", server.protocol, server.port) if server.address in on_node and key not in services else key)
    for name in _KEYED_SETS:
        for element in own.kube_set(name).elements:
            address, _comma, service = element.partition(",")
            protocol, _colon, port = service.partition(":")
            found.add((address, protocol.upper(), int(port)))
    return found
