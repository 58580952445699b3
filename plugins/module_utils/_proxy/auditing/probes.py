# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which packets are sent at a destination to see whether its rules are right: as few as its policies need.

    outside      a client that is neither of the node nor a pod of it; of loadBalancerSourceRanges one that may
    refused      a client that loadBalancerSourceRanges do not name
    pod          a pod of this node; where there is one, an endpoint of the destination itself, which is a hairpin
    node         a process of the node: where that makes a difference, and of the first few destinations of each kind

Everything that only rules for all Services decide (the links of base chains, masquerading by mark) is seen by the first few.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Optional, Union

from ..model import CLUSTER_IP, LOAD_BALANCER, NODE_PORT, FamilyView, Frontend, RuleConfig
from ..node_ports import node_port_addresses
from ..packet import Packet, Surroundings

OUTSIDE, REFUSED, POD, NODE = (
    "from outside",
    "from a source outside loadBalancerSourceRanges",
    "from a pod",
    "from the node",
)
FIRST_FEW = 8  # destinations of each kind that get every probe
UNDEFINED = "to an undefined port of a cluster IP"

# Networks for documentation (RFC 5737, RFC 3849) and of carriers (RFC 6598): no client of a real node is there.
_CLIENTS = {
    4: ("192.0.2.99", "198.51.100.99", "203.0.113.99", "100.127.255.99"),
    6: ("2001:db8:ffff::99", "2001:db8:fffe::99", "2001:db8:fffd::99"),
}
_UNDEFINED_PORTS = range(7, 1024)

Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]


@dataclass(frozen=True)
class Probe:
    title: str
    packet: Packet


class Prober:
    """Of one view."""

    def __init__(self, view: FamilyView, config: RuleConfig, surroundings: Surroundings) -> None:
        self._view = view
        self._config = config
        self._surroundings = surroundings
        self._endpoints = {endpoint.address for service in view.services for endpoint in service.endpoints}
        self._sent: Counter[str] = Counter()
        self._uplink = self._link_of(view.node.primary)
        self._pod_link = {"bridge": config.detector.value, "prefix": f"{config.detector.value}0"}.get(
            config.detector.kind, ""
        )
        self._clients = [one for one in _CLIENTS[view.family] if self._is_outside(one)]
        self._pod = self._idle_pod()
        own = view.node.primary or next(iter(view.node.addresses), "")
        self._node = own if own and surroundings.is_local(own) else ""
        self._node_port_addresses = node_port_addresses(view, config).addresses

    def probes(self, frontend: Frontend) -> Iterator[Probe]:
        self._sent[frontend.kind] += 1
        is_first = self._sent[frontend.kind] <= FIRST_FEW
        for destination in self._destinations(frontend, everywhere=is_first):
            outside, refused = self._client(frontend), self._refused(frontend)
            if outside:
                yield self._probe(OUTSIDE, outside, frontend, destination, interface=self._uplink)
            if refused:
                yield self._probe(REFUSED, refused, frontend, destination, interface=self._uplink)
            pod = self._hairpin(frontend) or self._pod
            if pod:
                yield self._probe(POD, pod, frontend, destination, interface=self._pod_link)
            local_matters = frontend.kind != CLUSTER_IP and frontend.service.external_local
            if self._node and (is_first or local_matters):
                yield self._probe(NODE, self._node, frontend, destination, node_local=True)

    def undefined(self) -> Optional[Probe]:
        """To a port that no Service has on the first of their cluster IPs."""
        if not self._view.services or not self._clients:
            return None
        address = self._view.services[0].cluster_ip
        taken = {one.port for one in self._view.frontends if one.address == address}
        taken |= {one.health_check_node_port for one in self._view.services}
        port = next(one for one in _UNDEFINED_PORTS if one not in taken)
        return Probe(UNDEFINED, Packet(self._clients[0], address, port, "TCP", self._uplink))

    def _probe(
        self,
        title: str,
        source: str,
        frontend: Frontend,
        destination: str,
        *,
        interface: str = "",
        node_local: bool = False,
    ) -> Probe:
        return Probe(title, Packet(source, destination, frontend.port, frontend.protocol, interface, node_local))

    def _destinations(self, frontend: Frontend, *, everywhere: bool) -> Sequence[str]:
        if frontend.kind != NODE_PORT:
            return (frontend.address,)
        if everywhere:  # also where node ports are not served
            return self._view.node.addresses
        # ipvs has a virtual server for each address.
        return self._node_port_addresses if self._config.backend == "ipvs" else self._node_port_addresses[:1]

    def _client(self, frontend: Frontend) -> str:
        ranges = frontend.service.source_ranges if frontend.kind == LOAD_BALANCER else ()
        candidates = [*self._clients, *(_first_in(one) for one in ranges)]
        networks = [ipaddress.ip_network(one) for one in ranges]
        return next((one for one in candidates if not ranges or _is_in(one, networks)), "")

    def _refused(self, frontend: Frontend) -> str:
        """ "" where every client may."""
        ranges = frontend.service.source_ranges if frontend.kind == LOAD_BALANCER else ()
        networks = [ipaddress.ip_network(one) for one in ranges]
        return next((one for one in self._clients if ranges and not _is_in(one, networks)), "")

    def _hairpin(self, frontend: Frontend) -> str:
        here = (one for one in frontend.service.endpoints if one.node == self._view.node.name and one.serving)
        return next((one.address for one in here if not self._surroundings.is_local(one.address)), "")

    def _is_outside(self, address: str) -> bool:
        known = address in self._endpoints or self._surroundings.is_local(address)
        return not known and not self._config.detector.detects(address, self._uplink)

    def _idle_pod(self) -> str:
        """A source that detectLocalMode takes for a pod of this node; "" where it takes none for one."""
        if self._config.detector.kind != "cidr":
            return self._clients[-1] if self._pod_link and self._clients else ""
        network = ipaddress.ip_network(self._config.detector.value)
        pods = ipaddress.ip_network(self._view.node.pod_cidr) if self._view.node.pod_cidr else network
        last = int((pods if pods[0] in network and pods[-1] in network else network)[-1])
        candidates = (str(_address(last - back, self._view.family)) for back in range(1, 256))
        free = (one for one in candidates if one not in self._endpoints and not self._surroundings.is_local(one))
        return next((one for one in free if self._config.detector.detects(one, "")), "")

    def _link_of(self, address: str) -> str:
        return next((name for name, addresses in self._surroundings.interfaces if address in addresses), "")


def _address(number: int, family: int) -> Union[ipaddress.IPv4Address, ipaddress.IPv6Address]:
    return ipaddress.IPv4Address(number) if family == 4 else ipaddress.IPv6Address(number)


def _first_in(network: str) -> str:
    parsed = ipaddress.ip_network(network)
    return str(parsed[0] if parsed.num_addresses == 1 else parsed[1])


def _is_in(address: str, networks: Sequence[Network]) -> bool:
    parsed = ipaddress.ip_address(address)
    return any(parsed in network for network in networks)
