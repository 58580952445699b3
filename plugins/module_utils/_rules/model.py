# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services, their endpoints and this node as every backend sees them: one normalized view per IP family.

The families are compiled separately (reference: serviceport.go filters every list of a Service by family), so nothing here
mixes them. All tuples are sorted, so that equal objects compile to equal rules.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import NamedTuple, Optional

from .packet import endpoint_text

NFTABLES, IPTABLES, IPVS, WINKERNEL = "nftables", "iptables", "ipvs", "winkernel"  # the backends

CLUSTER_IP = "cluster-ip"
EXTERNAL_IP = "external-ip"
LOAD_BALANCER = "load-balancer"
NODE_PORT = "node-port"


class Endpoint(NamedTuple):
    """One address and port behind a ServicePort, merged from all its EndpointSlices. Like ServicePort and Frontend it is a
    named tuple, not a dataclass: a cluster has tens of thousands, and tuples are created three times as fast."""

    address: str
    port: int
    ready: bool = True
    serving: bool = True
    terminating: bool = False
    node: str = ""  # "" if the slice does not say, which counts as another node
    zone_hints: tuple[str, ...] = ()
    node_hints: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return endpoint_text(self.address, self.port)


class ServicePort(NamedTuple):
    """One port of one Service in one family, with its endpoints, which are unique by address and port."""

    namespace: str
    name: str
    port_name: str  # "" for the only port of a Service, if it has no name
    protocol: str  # TCP, UDP or SCTP
    port: int
    cluster_ip: str
    node_port: int = 0  # 0: none
    external_ips: tuple[str, ...] = ()
    load_balancer_ips: tuple[str, ...] = ()  # ingress IPs with ipMode VIP; those with ipMode Proxy get no rules
    source_ranges: tuple[str, ...] = ()  # networks allowed to use load_balancer_ips; empty: all
    internal_local: bool = False  # internalTrafficPolicy: Local
    external_local: bool = False  # externalTrafficPolicy: Local
    affinity_seconds: int = 0  # sessionAffinity: ClientIP; 0: None
    health_check_node_port: int = 0  # 0: none
    preserve_destination: bool = False  # annotation for Windows nodes
    endpoints: tuple[Endpoint, ...] = ()
    # True if a feature gate disables its externalIPs: they get no rules, but the Service still counts as reachable from
    # outside.
    has_unserved_ips: bool = False

    @property
    def title(self) -> str:
        """`NAMESPACE/NAME:PORT`, or `NAMESPACE/NAME` for an unnamed port, as kube-proxy writes it."""
        return f"{self.namespace}/{self.name}" + (f":{self.port_name}" if self.port_name else "")

    @property
    def externally_accessible(self) -> bool:
        return bool(self.node_port or self.external_ips or self.load_balancer_ips or self.has_unserved_ips)


class Frontend(NamedTuple):
    """One destination that belongs to a ServicePort. Unique in a view by address, port and protocol."""

    kind: str  # CLUSTER_IP, EXTERNAL_IP, LOAD_BALANCER or NODE_PORT
    address: str  # "" for NODE_PORT: all addresses that serve node ports
    port: int
    service: ServicePort

    @property
    def protocol(self) -> str:
        return self.service.protocol

    @property
    def key(self) -> tuple[str, str, int]:
        return (self.address, self.protocol, self.port)


@dataclass(frozen=True)
class NodeView:
    """This node in one IP family."""

    name: str
    zone: str = ""
    primary: str = ""  # bindAddress, or else the address of the Node object; "" if there is none of this family
    addresses: tuple[str, ...] = ()  # all addresses on the machine's links, including the primary one, without loopback
    pod_cidr: str = ""
    minor: Optional[int] = None  # minor version of the kubelet, 36 for v1.36.4; None if the Node does not say


@dataclass(frozen=True)
class Duplicate:
    """A destination that two Services claim. It belongs to the older one; of equal age, to the first by name."""

    destination: str  # "10.0.0.1:80/TCP" or "node port 30080/TCP"
    winner: str
    loser: str


@dataclass(frozen=True)
class FamilyView:
    family: int  # 4 or 6
    node: NodeView
    services: tuple[ServicePort, ...] = ()  # sorted by namespace, name, protocol, port name
    frontends: tuple[Frontend, ...] = ()  # sorted by kind, address, protocol, port; duplicates resolved
    duplicates: tuple[Duplicate, ...] = ()
    service_cidrs: tuple[str, ...] = ()  # from ServiceCIDR objects; empty: unknown
    node_addresses: tuple[tuple[str, str], ...] = ()  # (InternalIP or ExternalIP, Node name); sorted


@dataclass(frozen=True)
class LocalDetector:
    """How to recognize a packet from a pod of this node (detectLocalMode). `kind` is "cidr", "bridge" or "prefix"; "" if
    nothing was configured for this family, in which case no packet is known to come from elsewhere."""

    kind: str = ""
    value: str = ""

    def detects(self, source: str, interface: str) -> bool:
        """Whether a packet with this source address, which came by this link, is from a pod of this node."""
        if self.kind == "cidr":
            return ipaddress.ip_address(source) in ipaddress.ip_network(self.value)
        if self.kind == "bridge":
            return interface == self.value
        return self.kind == "prefix" and interface.startswith(self.value)


@dataclass(frozen=True)
class RuleConfig:
    """The settings of KubeProxyConfiguration that affect rules, for one backend and one family.

    Source: kubeproxy.config.k8s.io/v1alpha1. The backend's own section (`iptables`, `nftables`, `ipvs`) is resolved here.
    """

    backend: str  # NFTABLES, IPTABLES, IPVS or WINKERNEL
    detector: LocalDetector = LocalDetector()
    masquerade_all: bool = False
    masquerade_bit: int = 14
    # Networks in which node ports are served. None is the backend's default (node_ports.py); "primary" is not resolved here.
    node_port_addresses: Optional[tuple[str, ...]] = None
    localhost_node_ports: bool = True  # iptables
    # Protocols of node ports that kube-proxy's nftables rules reject on loopback (1.37, behind a gate).
    rejected_on_loopback: tuple[str, ...] = ()
    tcp_be_liberal: bool = False  # conntrack.tcpBeLiberal
    scheduler: str = "rr"  # ipvs
    strict_arp: bool = False  # ipvs
    exclude_cidrs: tuple[str, ...] = ()  # ipvs

    @property
    def masquerade_mark(self) -> int:
        return 1 << self.masquerade_bit
