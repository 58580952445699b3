# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The packets that are traced to check the rules of a destination: as few as its policies require.

    outside      a client that is neither the node nor its pod, and that loadBalancerSourceRanges allow
    refused      a client that loadBalancerSourceRanges do not allow
    pod          a pod of this node; preferably an endpoint of the destination itself, which is a hairpin
    node         a process of the node: if that makes a difference, and for the first few destinations of each kind

The first few destinations reveal everything that shared rules decide (the links of base chains, masquerading by mark).
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Optional, Union

from .._rules.addresses import is_within
from .._rules.model import CLUSTER_IP, LOAD_BALANCER, NODE_PORT, FamilyView, Frontend, RuleConfig
from .._rules.node_ports import LOOPBACK_ADDRESS, node_port_addresses
from .._rules.packet import Packet, Surroundings

OUTSIDE, REFUSED, POD, NODE = (
    "from outside",
    "from a source outside loadBalancerSourceRanges",
    "from a pod",
    "from the node",
)
FIRST_FEW = 8  # destinations of each kind that get every probe
UNDEFINED = "to an undefined port of a cluster IP"

# Networks for documentation (RFC 5737, RFC 3849) and carriers (RFC 6598), which real clients do not use.
_CLIENTS = {
    4: ("192.0.2.99", "198.51.100.99", "203.0.113.99", "100.127.255.99"),
    6: ("2001:db8:ffff::99", "2001:db8:fffe::99", "2001:db8:fffd::99"),
}
_LOOPBACK = {4: LOOPBACK_ADDRESS, 6: "::1"}
_UNDEFINED_PORTS = range(7, 1024)


@dataclass(frozen=True)
class Probe:
    title: str
    packet: Packet


class Prober:
    """Chooses packets for the destinations of one view. It counts them: the first few of each kind get more packets."""

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
        self._pod_links = config.detector.value if self._pod_link else ""  # their beginning
        self._clients = [client for client in _CLIENTS[view.family] if self._is_outside(client)]
        self._pod = self._find_idle_pod_address()
        own = view.node.primary or next(iter(view.node.addresses), "")
        self._node = own if own and surroundings.is_local(own) else ""
        self._node_port_addresses = node_port_addresses(view, config).addresses

    def probes(self, frontend: Frontend) -> Iterator[Probe]:
        self._sent[frontend.kind] += 1
        is_first = self._sent[frontend.kind] <= FIRST_FEW
        for destination in self._destinations(frontend, everywhere=is_first):
            outside, refused = self._allowed_client(frontend), self._refused_client(frontend)
            if outside:
                yield Probe(OUTSIDE, self.from_outside(outside, frontend, destination))
            if refused:
                yield Probe(REFUSED, self.from_outside(refused, frontend, destination))
            pod = self._hairpin_source(frontend) or self._pod
            if pod:
                yield self._probe(POD, pod, frontend, destination, interface=self._pod_link)
            local_matters = frontend.kind != CLUSTER_IP and frontend.service.external_local
            if self._node and (is_first or local_matters):
                yield self._probe(NODE, self._node, frontend, destination, node_local=True)
        if is_first and frontend.kind == NODE_PORT and self._config.rejected_on_loopback:
            loopback = _LOOPBACK[self._view.family]
            yield self._probe(NODE, loopback, frontend, loopback, node_local=True)

    def undefined_port_probe(self) -> Optional[Probe]:
        """A packet to a port that no Service has, on the first cluster IP; None if there are no Services."""
        if not self._view.services or not self._clients:
            return None
        address = self._view.services[0].cluster_ip
        taken = {frontend.port for frontend in self._view.frontends if frontend.address == address}
        taken |= {service.health_check_node_port for service in self._view.services}
        port = next(number for number in _UNDEFINED_PORTS if number not in taken)
        return Probe(UNDEFINED, self._by_uplink(Packet(self._clients[0], address, port, "TCP")))

    def from_outside(self, source: str, frontend: Frontend, destination: str, *, interface: str = "") -> Packet:
        """A packet of the client `source`. It comes by the uplink if `interface` is ""."""
        return self._by_uplink(Packet(source, destination, frontend.port, frontend.protocol, interface))

    def _by_uplink(self, packet: Packet) -> Packet:
        """A client's packet does not come by a link of pods, also where the uplink is not known."""
        if packet.inbound_interface:
            return packet
        return replace(packet, inbound_interface=self._uplink, not_from="" if self._uplink else self._pod_links)

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
        if everywhere:  # including addresses that do not serve node ports
            return self._view.node.addresses
        # ipvs has a virtual server for each address.
        return self._node_port_addresses if self._config.backend == "ipvs" else self._node_port_addresses[:1]

    def client_of(self, frontend: Frontend) -> str:
        """A client outside that may use the destination; "" if there is none."""
        return self._allowed_client(frontend)

    def _allowed_client(self, frontend: Frontend) -> str:
        ranges = frontend.service.source_ranges if frontend.kind == LOAD_BALANCER else ()
        # A range may contain the load balancer itself, which is not a client.
        in_ranges = (_first_in(cidr) for cidr in ranges)
        candidates = [*self._clients, *(address for address in in_ranges if address != frontend.address)]
        networks = [ipaddress.ip_network(cidr) for cidr in ranges]
        return next((client for client in candidates if not ranges or is_within(client, networks)), "")

    def _refused_client(self, frontend: Frontend) -> str:
        """A client that is not allowed; "" if every client is allowed."""
        ranges = frontend.service.source_ranges if frontend.kind == LOAD_BALANCER else ()
        networks = [ipaddress.ip_network(cidr) for cidr in ranges]
        return next((client for client in self._clients if ranges and not is_within(client, networks)), "")

    def _hairpin_source(self, frontend: Frontend) -> str:
        here = (end for end in frontend.service.endpoints if end.node == self._view.node.name and end.serving)
        return next((end.address for end in here if not self._surroundings.is_local(end.address)), "")

    def _is_outside(self, address: str) -> bool:
        known = address in self._endpoints or self._surroundings.is_local(address)
        return not known and not self._config.detector.detects(address, self._uplink)

    def _find_idle_pod_address(self) -> str:
        """An unused address that detectLocalMode recognizes as a pod of this node; "" if there is none."""
        if self._config.detector.kind != "cidr":
            return self._clients[-1] if self._pod_link and self._clients else ""
        network = ipaddress.ip_network(self._config.detector.value)
        pods = ipaddress.ip_network(self._view.node.pod_cidr) if self._view.node.pod_cidr else network
        last = int((pods if pods[0] in network and pods[-1] in network else network)[-1])
        candidates = (str(_address(last - back, self._view.family)) for back in range(1, 256))
        free = (pod for pod in candidates if pod not in self._endpoints and not self._surroundings.is_local(pod))
        return next((pod for pod in free if self._config.detector.detects(pod, "")), "")

    def _link_of(self, address: str) -> str:
        return next((name for name, addresses in self._surroundings.interfaces if address in addresses), "")


def _address(number: int, family: int) -> Union[ipaddress.IPv4Address, ipaddress.IPv6Address]:
    return ipaddress.IPv4Address(number) if family == 4 else ipaddress.IPv6Address(number)


def _first_in(network: str) -> str:
    parsed = ipaddress.ip_network(network)
    return str(parsed[0] if parsed.num_addresses == 1 else parsed[1])
