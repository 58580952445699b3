# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compiles a view into load balancer policies of the Windows Host Networking Service (HNS, schema 2), and plans the change.

Pure: nothing here runs on Windows. Source: kube-proxy, winkernel/hns.go and winkernel/proxier.go; the flags are those of hcsshim's hcn package.

HNS has no transactions and cannot change a policy in place: replacing a policy is a delete and a create, and in between the
destination does not respond. Endpoints are referred to by HNS id if it is known, else by address.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from .._rules.config import Winkernel
from .._rules.model import CLUSTER_IP, EXTERNAL_IP, LOAD_BALANCER, NODE_PORT, Endpoint, FamilyView, Frontend
from .._rules.topology import reachable

PROTOCOL_NUMBERS = {"TCP": 6, "UDP": 17}  # HNS does not support SCTP

# Flags of a load balancer.
DSR = 1
IPV6 = 2
# Flags of a port mapping.
LOCAL_ROUTED_VIP = 2
USE_MUX = 4
PRESERVE_DIP = 8
VIP_EXTERNAL_IP = 16
# Distribution types.
PER_CONNECTION = 0
SOURCE_IP = 2

_MAC_PREFIX = "02-11"  # locally administered; for remote endpoints, never sent on the wire

Identity = tuple[int, int, int, str, str, bool]


@dataclass(frozen=True)
class RemoteSubnet:
    """A RemoteSubnetRoute policy of an overlay network: pods in `prefix` are behind `provider_address`."""

    prefix: str
    provider_address: str


@dataclass(frozen=True)
class HnsNetwork:
    """The node's HNS network. The default is an L2Bridge without known endpoints."""

    id: str = ""
    overlay: bool = False
    host_mac: str = ""  # overlay: the node's
    remote_subnets: tuple[RemoteSubnet, ...] = ()  # overlay
    endpoint_ids: tuple[tuple[str, str], ...] = ()  # (address, HNS id) of each existing endpoint

    def provider_of(self, address: str) -> str:
        """The provider address for `address`; "" if no node is known to have it, so that it is a public address."""
        parsed = ipaddress.ip_address(address)
        providers = [subnet for subnet in self.remote_subnets if parsed in ipaddress.ip_network(subnet.prefix)]
        return providers[0].provider_address if providers else ""


@dataclass(frozen=True)
class RemoteEndpoint:
    """An HNS endpoint for an address on another node. The network plugin creates those of this node."""

    address: str
    mac: str
    provider_address: str = ""  # overlay

    def as_hns(self) -> Mapping[str, Any]:
        policy = {"Type": "ProviderAddress", "Settings": {"ProviderAddress": self.provider_address}}
        return {
            "SchemaVersion": {"Major": 2, "Minor": 0},
            "IpConfigurations": [{"IpAddress": self.address}],
            "MacAddress": self.mac,
            "Flags": 1,  # a remote endpoint
            "Policies": [policy] if self.provider_address else [],
        }


@dataclass(frozen=True)
class LoadBalancer:
    vip: str  # "" for a node port
    protocol: int  # one of PROTOCOL_NUMBERS
    external_port: int
    internal_port: int
    endpoints: tuple[str, ...]  # HNS ids or addresses; sorted
    source_vip: str
    distribution: int = PER_CONNECTION
    port_flags: int = 0
    flags: int = 0
    title: str = field(default="", compare=False)  # the ServicePort's

    @property
    def frontend(self) -> tuple[str, int, int, bool]:
        """The key of a policy: HNS refuses a second one with the same frontend. The last item distinguishes the families of
        a node port."""
        return (self.vip, self.protocol, self.external_port, bool(self.flags & IPV6))

    @property
    def identity(self) -> Identity:
        """How kube-proxy identifies a policy: protocol, internal and external port, VIP, XOR of the SHA-1 sums of its
        endpoints (which are a set), family."""
        combined = 0
        for endpoint in self.endpoints:
            combined ^= int.from_bytes(hashlib.sha1(endpoint.upper().encode(), usedforsecurity=False).digest(), "big")
        vip, protocol, external_port, ipv6 = self.frontend
        return (protocol, self.internal_port, external_port, vip, f"{combined:040x}", ipv6)

    def as_hns(self) -> Mapping[str, Any]:
        mapping = {
            "Protocol": self.protocol,
            "InternalPort": self.internal_port,
            "ExternalPort": self.external_port,
            "DistributionType": self.distribution,
            "Flags": self.port_flags,
        }
        return {
            "SchemaVersion": {"Major": 2, "Minor": 0},
            "HostComputeEndpoints": list(self.endpoints),
            "SourceVIP": self.source_vip,
            "FrontendVIPs": [self.vip] if self.vip else [],
            "PortMappings": [mapping],
            "Flags": self.flags,
        }


@dataclass(frozen=True)
class HnsRules:
    network_id: str
    endpoints: tuple[RemoteEndpoint, ...] = ()  # by address
    load_balancers: tuple[LoadBalancer, ...] = ()  # by frontend


@dataclass(frozen=True)
class Operation:
    kind: str  # "create endpoint", "create load balancer", "delete load balancer" or "delete endpoint"
    target: str
    value: Union[RemoteEndpoint, LoadBalancer]


def compile_rules(view: FamilyView, winkernel: Winkernel, network: HnsNetwork) -> HnsRules:
    """One policy for each frontend that has endpoints. Packets to a frontend without endpoints get no response.

    HNS allows one internal port per policy: that of the first endpoint, even if others differ. SCTP and
    loadBalancerSourceRanges have no equivalent in HNS. RuleConfig is not used: HNS decides about masquerading, and serves
    node ports on all addresses.
    """
    balancers = []
    remote: dict[str, RemoteEndpoint] = {}
    ids = dict(network.endpoint_ids)
    for frontend in view.frontends:
        endpoints = _endpoints(frontend, view)
        if not endpoints or frontend.protocol not in PROTOCOL_NUMBERS:
            continue
        balancers.append(_load_balancer(frontend, endpoints, view, winkernel, network, ids))
        for endpoint in _remote_endpoints(frontend, endpoints, view, network):
            remote[endpoint.address] = endpoint
    return HnsRules(
        network.id,
        tuple(remote[address] for address in sorted(remote)),
        tuple(sorted(balancers, key=lambda balancer: balancer.frontend)),
    )


def plan(desired: HnsRules, live: HnsRules) -> tuple[Operation, ...]:
    """Operations in order; empty if nothing differs.

    Endpoints are created before the policies that refer to them, and deleted after them. A policy is replaced as a whole if
    anything in it differs. If the HNS network is a different one, only the policies of the old one remain, and all of them
    are deleted first.
    """
    if desired.network_id != live.network_id:
        gone = tuple(_delete(balancer) for balancer in live.load_balancers)
        return gone + plan(desired, HnsRules(desired.network_id))
    before = {balancer.frontend: balancer for balancer in live.load_balancers}
    kept_frontends = {balancer.frontend for balancer in desired.load_balancers}
    there = {endpoint.address: endpoint for endpoint in live.endpoints}
    operations: list[Operation] = []
    for endpoint in desired.endpoints:
        former = there.get(endpoint.address)
        if former != endpoint:
            operations.extend([Operation("delete endpoint", former.address, former)] if former is not None else [])
            operations.append(Operation("create endpoint", endpoint.address, endpoint))
    for balancer in desired.load_balancers:
        old = before.get(balancer.frontend)
        if old == balancer:
            continue
        operations.extend([_delete(old)] if old is not None else [])
        operations.append(Operation("create load balancer", _target(balancer), balancer))
    operations.extend(_delete(balancer) for balancer in live.load_balancers if balancer.frontend not in kept_frontends)
    kept = {endpoint.address for endpoint in desired.endpoints}
    unused = [endpoint for endpoint in live.endpoints if endpoint.address not in kept]
    operations.extend(Operation("delete endpoint", endpoint.address, endpoint) for endpoint in unused)
    return tuple(operations)


def _endpoints(frontend: Frontend, view: FamilyView) -> Sequence[Endpoint]:
    service = frontend.service
    reach = reachable(service, node=view.node.name, zone=view.node.zone)
    if frontend.kind == CLUSTER_IP:
        return reach.local if service.internal_local else reach.cluster
    if service.external_local:
        return reach.local
    # The annotation preserves the VIP as the destination of packets, with which only pods of this node can be reached.
    if service.preserve_destination and frontend.kind != EXTERNAL_IP:
        return [endpoint for endpoint in reach.cluster if endpoint.node == view.node.name]
    return reach.cluster


def _load_balancer(
    frontend: Frontend,
    endpoints: Sequence[Endpoint],
    view: FamilyView,
    winkernel: Winkernel,
    network: HnsNetwork,
    ids: Mapping[str, str],
) -> LoadBalancer:
    service = frontend.service
    preserve = service.preserve_destination and frontend.kind == LOAD_BALANCER
    port_flags = 0 if frontend.kind == CLUSTER_IP else VIP_EXTERNAL_IP
    port_flags |= LOCAL_ROUTED_VIP if frontend.kind == NODE_PORT else 0
    port_flags |= USE_MUX | PRESERVE_DIP if preserve else 0
    direct = winkernel.enable_dsr if frontend.kind == CLUSTER_IP else service.external_local or preserve
    return LoadBalancer(
        vip=frontend.address,
        protocol=PROTOCOL_NUMBERS[frontend.protocol],
        external_port=frontend.port,
        internal_port=endpoints[0].port,
        endpoints=tuple(sorted({ids.get(endpoint.address, endpoint.address) for endpoint in endpoints})),
        source_vip=_source_vip(endpoints, view, winkernel, network),
        distribution=SOURCE_IP if service.affinity_seconds else PER_CONNECTION,
        port_flags=port_flags,
        flags=(DSR if direct else 0) | (IPV6 if view.family == 6 else 0),
        title=service.title,
    )


def _source_vip(endpoints: Sequence[Endpoint], view: FamilyView, winkernel: Winkernel, network: HnsNetwork) -> str:
    """The configured address; the node's own if an endpoint is another node or outside of the overlay."""
    if network.overlay:
        for endpoint in endpoints:
            if endpoint.node != view.node.name and network.provider_of(endpoint.address) in ("", endpoint.address):
                return view.node.primary
    return winkernel.source_vip or view.node.primary


def _remote_endpoints(
    frontend: Frontend, endpoints: Sequence[Endpoint], view: FamilyView, network: HnsNetwork
) -> Iterator[RemoteEndpoint]:
    """In an overlay also for the cluster IP, because packets to it must leave the pod's compartment."""
    primary = view.node.primary
    if network.overlay and frontend.kind == CLUSTER_IP:
        yield RemoteEndpoint(frontend.address, network.host_mac, primary)
    for endpoint in endpoints:
        if endpoint.node != view.node.name:
            provider = (network.provider_of(endpoint.address) or primary) if network.overlay else ""
            yield RemoteEndpoint(endpoint.address, _mac(endpoint.address), provider)


def _mac(address: str) -> str:
    """From the four octets of an IPv4 address, or the last four of an IPv6 address in reverse order."""
    packed = ipaddress.ip_address(address).packed
    octets = packed if len(packed) == 4 else packed[:-5:-1]
    return "-".join([_MAC_PREFIX, *(f"{octet:02x}" for octet in octets)])


def _delete(balancer: LoadBalancer) -> Operation:
    return Operation("delete load balancer", _target(balancer), balancer)


def _target(balancer: LoadBalancer) -> str:
    name = {number: name for name, number in PROTOCOL_NUMBERS.items()}[balancer.protocol]
    return f"{balancer.vip or 'node port'} {balancer.external_port}/{name}"
