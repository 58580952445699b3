# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The destinations that rules match, in every layout of kube-proxy and in our own. Pure.

A destination is (address, protocol, port). The address of a node port is ""; for an address that rules match without ports,
protocol and port are "" and 0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Optional

from .._rules.iptables.names import EXTERNAL_SERVICES, NODE_PORTS, PROXY_FIREWALL, SERVICES
from .._rules.iptables.objects import AddressType, Destination, DestinationPort, Protocol, Rule, Tables
from .._rules.ipvs.objects import IpvsRules
from .._rules.nftables.layout import CLUSTER_IPS
from .._rules.nftables.objects import VERDICT, Table
from .._rules.packet import endpoint_text

Key = tuple[str, str, int]

_ADDRESSES = ("ipv4_addr", "ipv6_addr")
_PORT = ("inet_proto", "inet_service")
# Chains of both backends with rules for destinations. Rules for node ports match no address, or a local one.
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
    """For messages: "10.96.0.1:443/TCP", "node port 30080/TCP", or an address alone."""
    address, protocol, port = key
    if not protocol:
        return address
    return f"{endpoint_text(address, port)}/{protocol}" if address else f"node port {port}/{protocol}"


def find_in_nftables(table: Table) -> set[Key]:
    """The keys of verdict maps that look up a destination, whatever their names, and cluster IPs."""
    keys = {(address, "", 0) for (address, *_rest) in _elements(table, CLUSTER_IPS)}
    for named_set in table.sets.values():
        if named_set.data != (VERDICT,):
            continue
        if len(named_set.key) == 3 and named_set.key[0] in _ADDRESSES and named_set.key[1:] == _PORT:
            keys |= {(address, protocol.upper(), int(port)) for address, protocol, port in named_set.elements}
        elif named_set.key == _PORT:
            keys |= {("", protocol.upper(), int(port)) for protocol, port in named_set.elements}
    return keys


def cluster_ips_in_nftables(table: Table) -> set[str]:
    return {address for (address, *_rest) in _elements(table, CLUSTER_IPS)}


def _elements(table: Table, name: str) -> Iterator[tuple[str, ...]]:
    named_set = table.sets.get(name)
    return iter(named_set.elements if named_set is not None else ())


def find_in_iptables(tables: Tables) -> set[Key]:
    """The destinations that rules match with -d and --dport."""
    keys = set()
    for table, name in _IPTABLES_CHAINS:
        chain = tables.chain(table, name)
        for rule in chain.rules if chain is not None else ():
            key = _key(rule)
            if key is not None:
                keys.add(key)
    return keys


def _key(rule: Rule) -> Optional[Key]:
    address, protocol, port = "", "", 0
    for match in rule.matches:
        if isinstance(match, Destination) and not match.negated and match.network.endswith(("/32", "/128")):
            address = match.network.partition("/")[0]  # other networks are loopback, in rules for node ports
        elif isinstance(match, Protocol) and not match.negated:
            protocol = match.name.upper()
        elif isinstance(match, DestinationPort) and not match.negated:
            port = match.port
        elif isinstance(match, AddressType) and match.side == "dst":
            address = ""
    return (address, protocol, port) if port else None


def find_in_ipvs(own: IpvsRules, services: Collection[Key]) -> set[Key]:
    """Virtual servers, addresses of the link, and elements of ipsets in our `own` rules. A virtual server on an address of
    the node serves a node port, unless `services` has that destination."""
    on_node = {address for _name, addresses in own.links for address in addresses} - own.bound
    keys: set[Key] = {(address, "", 0) for address in own.addresses}
    for server in own.servers:
        key = (server.address, server.protocol, server.port)
        keys.add(("", server.protocol, server.port) if server.address in on_node and key not in services else key)
    for name in _KEYED_SETS:
        for element in own.kube_set(name).elements:
            address, _comma, service = element.partition(",")
            protocol, _colon, port = service.partition(":")
            keys.add((address, protocol.upper(), int(port)))
    return keys
