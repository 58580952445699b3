# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What must become of a packet by the words of Kubernetes: no thought of tables, chains or virtual servers.

Traces of rules are judged by this. It reads from top to bottom as an operator would argue: to which Service does the
destination belong, may this source use it, which endpoints does its traffic policy leave, who must see the node's address
as the source. Every step is a row of RULES; the rows that do not hold for every backend are DIFFERENCES, and they are all
that the backends differ in.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Union

from .model import (
    CLUSTER_IP,
    LOAD_BALANCER,
    NODE_PORT,
    Endpoint,
    FamilyView,
    Frontend,
    RuleConfig,
    ServicePort,
)
from .node_ports import LOOPBACK_ADDRESS, node_port_addresses
from .packet import DNAT, DROP, PASS, REJECT, Answer, Packet, Surroundings
from .topology import Reachable, reachable

NFTABLES, IPTABLES, IPVS = "nftables", "iptables", "ipvs"
EVERY = (NFTABLES, IPTABLES, IPVS)


@dataclass(frozen=True)
class Rule:
    id: str
    text: str
    source: str
    backends: tuple[str, ...] = EVERY  # where it holds

    def __post_init__(self) -> None:
        if not self.backends or set(self.backends) - set(EVERY):
            raise ValueError(f"rule {self.id} holds for {self.backends}")


_POLICIES = "Kubernetes, Virtual IPs and Service Proxies: traffic policies; reference of kube-proxy 1.2, 1.3"
_VERDICTS = "reference of kube-proxy 1.3"

_ROWS = (
    Rule("no-service", "the destination belongs to no Service", _VERDICTS),
    Rule(
        "undefined-port-rejected",
        "the address is a clusterIP, but no Service has this port on it",
        "reference of kube-proxy 1.7, row 6",
        (NFTABLES, IPVS),
    ),
    Rule(
        "undefined-external-port-rejected",
        "the address is an external or load balancer IP that is bound to kube-ipvs0, and no Service has this port on it",
        "reference of kube-proxy 2.3: KUBE-IPVS-IPS has every bound address",
        (IPVS,),
    ),
    Rule(
        "unallocated-dropped",
        "the address is in a ServiceCIDR, but no Service has it",
        "reference of kube-proxy 1.3",
        (NFTABLES,),
    ),
    Rule(
        "node-port-primary",
        "node ports are served on the node's primary address only, as nodePortAddresses is not set",
        "reference of kube-proxy 1.5 and 1.7, row 1",
        (NFTABLES,),
    ),
    Rule("node-port-elsewhere", "node ports are not served on this address", "reference of kube-proxy 1.5"),
    Rule(
        "node-port-loopback",
        "node ports are served on loopback",
        "reference of kube-proxy 1.7, row 2",
        (IPTABLES,),
    ),
    Rule(
        "node-port-new-address",
        "the address came to a link after the rules were made: no virtual server has it",
        "reference of kube-proxy 2.3: a virtual server per node port and address",
        (IPVS,),
    ),
    Rule("source-refused", "the source is not in loadBalancerSourceRanges", _VERDICTS),
    Rule("no-endpoints", "no endpoint serves on any node", _VERDICTS),
    Rule("internal-cluster", "internalTrafficPolicy Cluster: endpoints of all nodes", _POLICIES),
    Rule("internal-local", "internalTrafficPolicy Local: endpoints of this node", _POLICIES),
    Rule(
        "internal-local-none",
        "internalTrafficPolicy Local, and only other nodes have endpoints",
        _POLICIES,
        (NFTABLES, IPTABLES),
    ),
    Rule(
        "no-real-servers",
        "a traffic policy Local leaves no endpoint: a virtual server without real servers refuses",
        "reference of kube-proxy 1.7, row 16; kernel, ip_vs_leave",
        (IPVS,),
    ),
    Rule("external-cluster", "externalTrafficPolicy Cluster: endpoints of all nodes, masqueraded", _POLICIES),
    Rule("external-local", "externalTrafficPolicy Local: endpoints of this node, the source is kept", _POLICIES),
    Rule(
        "external-local-pod",
        "externalTrafficPolicy Local, from a pod of this node: endpoints of all nodes",
        "reference of kube-proxy 1.3 and 1.7, row 16",
        (NFTABLES, IPTABLES),
    ),
    Rule(
        "external-local-node",
        "externalTrafficPolicy Local, from this node itself: endpoints of all nodes, masqueraded",
        "reference of kube-proxy 1.3 and 1.7, row 16",
        (NFTABLES, IPTABLES),
    ),
    Rule(
        "external-local-none",
        "externalTrafficPolicy Local, and only other nodes have endpoints",
        _POLICIES,
        (NFTABLES, IPTABLES),
    ),
    Rule(
        "external-local-others",
        "externalTrafficPolicy Local, and only other nodes have endpoints: those, as one virtual server is for all sources",
        "reference of kube-proxy 1.7, row 16",
        (IPVS,),
    ),
    Rule("masquerade-all", "masqueradeAll: every source of a clusterIP is masqueraded", _VERDICTS),
    Rule("masquerade-elsewhere", "the source is not a pod of this node: masqueraded", _VERDICTS),
    Rule("hairpin", "the source may be drawn as its own endpoint: masqueraded then", _VERDICTS),
    Rule("affinity", "sessionAffinity ClientIP: a source keeps its endpoint", _VERDICTS),
)
RULES: Mapping[str, Rule] = {row.id: row for row in _ROWS}
DIFFERENCES = tuple(row for row in _ROWS if row.backends != EVERY)


def answer(view: FamilyView, config: RuleConfig, packet: Packet, surroundings: Surroundings) -> Answer:
    """What must become of `packet`, by rules of `config.backend`. For many packets of one view, use a Meaning."""
    return Meaning(view, config, surroundings).answer(packet)


@dataclass(frozen=True)
class _Choice:
    """The endpoints that one policy leaves to a packet, by which rule, and whether that rule masquerades."""

    endpoints: Sequence[Endpoint]
    masquerade: bool
    why: tuple[str, ...]


class Meaning:
    """A view with its destinations looked up once, as there may be tens of thousands of them."""

    def __init__(self, view: FamilyView, config: RuleConfig, surroundings: Surroundings) -> None:
        if config.backend not in EVERY:
            raise ValueError(f"packets have no meaning on the backend {config.backend}")
        self._view = view
        self._config = config
        self._surroundings = surroundings
        self._node_ports = node_port_addresses(view, config)
        self._frontends: dict[tuple[str, str, int], Frontend] = {one.key: one for one in view.frontends}
        self._cluster_ips = {one.cluster_ip for one in view.services}
        self._external_ips = {ip for one in view.services for ip in (*one.external_ips, *one.load_balancer_ips)}
        self._service_networks = [ipaddress.ip_network(one) for one in view.service_cidrs]

    def answer(self, packet: Packet) -> Answer:
        frontend = self._frontends.get((packet.destination, packet.protocol, packet.port))
        if frontend:
            return self._served(frontend, packet)
        frontend = self._frontends.get(("", packet.protocol, packet.port))
        if not frontend or not self._surroundings.is_local(packet.destination):
            return self._unserved(packet)
        barred = self._barred(packet.destination)
        return Answer(PASS, why=_why(barred)) if barred else self._served(frontend, packet)

    def _barred(self, own: str) -> str:
        """The rule by which node ports are not served on `own`, an address of this node; "" where they are."""
        where = self._node_ports
        if ipaddress.ip_address(own).is_loopback:
            served = where.loopback and (where.all_local or own == LOOPBACK_ADDRESS)
            return "" if served else "node-port-elsewhere"
        if own in where.addresses:
            return ""
        if where.all_local:  # the other backends ask the routing table
            return "node-port-new-address" if self._holds("node-port-new-address") else ""
        unset = self._config.node_port_addresses is None
        return "node-port-primary" if unset and self._holds("node-port-primary") else "node-port-elsewhere"

    def _unserved(self, packet: Packet) -> Answer:
        """No Service has this port on this address."""
        address = packet.destination
        if address in self._cluster_ips:
            if self._holds("undefined-port-rejected"):
                return Answer(REJECT, why=_why("undefined-port-rejected"))
        elif address in self._external_ips:
            # An address that the node has on another link is not bound to kube-ipvs0: its ports are the node's.
            if self._holds("undefined-external-port-rejected") and not self._surroundings.is_local(address):
                return Answer(REJECT, why=_why("undefined-external-port-rejected"))
        elif self._holds("unallocated-dropped") and _within(address, self._service_networks):
            return Answer(DROP, why=_why("unallocated-dropped"))
        return Answer(PASS, why=_why("no-service"))

    def _served(self, frontend: Frontend, packet: Packet) -> Answer:
        service = frontend.service
        why: tuple[str, ...] = (_claim(frontend),)
        if frontend.kind == NODE_PORT and ipaddress.ip_address(packet.destination).is_loopback:
            why += _why("node-port-loopback")
        if frontend.kind == LOAD_BALANCER and not self._may_use(service, packet.source):
            return Answer(DROP, why=why + _why("source-refused"))
        found = reachable(service, node=self._view.node.name, zone=self._view.node.zone)
        if not found.has_any:
            return Answer(REJECT, why=why + _why("no-endpoints"))
        if frontend.kind == CLUSTER_IP:
            choice = self._internal(service, found, packet)
            none = "internal-local-none"
        else:
            choice = self._external(service, found, packet)
            none = "external-local-none"
        why += choice.why
        if choice.endpoints:
            return self._translated(service, choice, packet, why)
        if self._holds(none):
            return Answer(DROP, why=why + _why(none))
        return Answer(REJECT, why=why + _why("no-real-servers"))

    def _may_use(self, service: ServicePort, source: str) -> bool:
        """loadBalancerSourceRanges. Where a load balancer's address is bound to the node, the node's packets to it come
        from that same address: a range with the node in it means them too."""
        if not service.source_ranges:
            return True
        networks = [ipaddress.ip_network(one) for one in service.source_ranges]
        if _within(source, networks):
            return True
        node = self._view.node.primary
        return source in service.load_balancer_ips and bool(node) and _within(node, networks)

    def _internal(self, service: ServicePort, found: Reachable, packet: Packet) -> _Choice:
        if self._config.masquerade_all:
            masquerade, why = True, _why("masquerade-all")
        elif self._config.detector.kind and not self._from_local_pod(packet):
            masquerade, why = True, _why("masquerade-elsewhere")
        else:
            masquerade, why = False, ()
        if service.internal_local:
            return _Choice(found.local, masquerade, _why("internal-local") + why)
        return _Choice(found.cluster, masquerade, _why("internal-cluster") + why)

    def _external(self, service: ServicePort, found: Reachable, packet: Packet) -> _Choice:
        if not service.external_local:
            return _Choice(found.cluster, True, _why("external-cluster"))
        if self._holds("external-local-pod") and self._from_local_pod(packet):
            return _Choice(found.cluster, False, _why("external-local-pod"))
        if self._holds("external-local-node") and self._surroundings.is_local(packet.source):
            return _Choice(found.cluster, True, _why("external-local-node"))
        if self._holds("external-local-others") and not found.local and not service.internal_local:
            return _Choice(found.cluster, False, _why("external-local-others"))
        return _Choice(found.local, False, _why("external-local"))

    def _translated(self, service: ServicePort, choice: _Choice, packet: Packet, why: tuple[str, ...]) -> Answer:
        # What a packet from outside finds on the node itself does not leave the node: nobody masquerades it.
        leaving = [one for one in choice.endpoints if packet.node_local or not self._surroundings.is_local(one.address)]
        masquerade = choice.masquerade and bool(leaving)
        hairpin = () if masquerade else tuple(sorted(one.text for one in leaving if one.address == packet.source))
        return Answer(
            DNAT,
            endpoints=tuple(sorted(one.text for one in choice.endpoints)),
            masquerade=masquerade,
            hairpin=hairpin,
            affinity_seconds=service.affinity_seconds,
            why=why + (_why("hairpin") if hairpin else ()) + (_why("affinity") if service.affinity_seconds else ()),
        )

    def _from_local_pod(self, packet: Packet) -> bool:
        return self._config.detector.detects(packet.source, packet.inbound_interface)

    def _holds(self, rule: str) -> bool:
        return self._config.backend in RULES[rule].backends


def _claim(frontend: Frontend) -> str:
    service = frontend.service
    place = f"port {frontend.port}" if frontend.kind == NODE_PORT else f"{frontend.address} port {frontend.port}"
    return f"{frontend.kind}: {place}/{service.protocol} belongs to {service.title}"


def _why(rule: str) -> tuple[str, ...]:
    return (f"{rule}: {RULES[rule].text}",)


def _within(address: str, networks: Sequence[Union[ipaddress.IPv4Network, ipaddress.IPv6Network]]) -> bool:
    parsed = ipaddress.ip_address(address)
    return any(parsed in network for network in networks)
