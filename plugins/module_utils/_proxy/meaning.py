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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union

from .meaning_rules import EVERY, RULES
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


def answer(view: FamilyView, config: RuleConfig, packet: Packet, surroundings: Surroundings) -> Answer:
    """What must become of `packet`, by rules of `config.backend`. For many packets of one view, use a Meaning."""
    return Meaning(view, config, surroundings).answer(packet)


@dataclass(frozen=True)
class _Choice:
    """The endpoints that one policy leaves to a packet, by which rule, and whether that rule masquerades."""

    endpoints: Sequence[Endpoint]
    masquerade: bool
    why: tuple[str, ...]


@dataclass(frozen=True)
class _Judgement:
    """What loadBalancerSourceRanges say of a source."""

    refused: bool
    why: tuple[str, ...] = ()


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
        self._health_check_ports = {one.health_check_node_port for one in view.services} - {0}
        self._service_networks = [ipaddress.ip_network(one) for one in view.service_cidrs]

    def answer(self, packet: Packet) -> Answer:
        frontend = self._frontends.get((packet.destination, packet.protocol, packet.port))
        if frontend:
            return self._served(frontend, packet)
        frontend = self._frontends.get(("", packet.protocol, packet.port))
        if not frontend or not self._surroundings.is_local(packet.destination):
            return self._unserved(packet)
        barred = self._barred(packet.destination)
        return self._not_here(frontend, barred) if barred else self._served(frontend, packet)

    def _barred(self, own: str) -> str:
        """The rule by which node ports are not served on `own`, an address of this node; "" where they are."""
        where = self._node_ports
        if ipaddress.ip_address(own).is_loopback:
            served = where.loopback and (where.all_local or own == LOOPBACK_ADDRESS)
            return "" if served else "node-port-elsewhere"
        link_local = self._view.family == 6 and ipaddress.ip_address(own).is_link_local
        if link_local and where.all_local and self._holds("node-port-link-local"):
            return "node-port-link-local"
        if own in where.addresses:
            return ""
        if where.all_local:  # the other backends ask the routing table
            return "node-port-new-address" if self._holds("node-port-new-address") else ""
        unset = self._config.node_port_addresses is None
        return "node-port-primary" if unset and self._holds("node-port-primary") else "node-port-elsewhere"

    def _not_here(self, frontend: Frontend, barred: str) -> Answer:
        """Of a node port on an address where node ports are not served."""
        found = self._reachable(frontend.service)
        if not found.has_any and self._holds("node-port-closed-everywhere"):
            return Answer(REJECT, why=_why("node-port-closed-everywhere"))
        if frontend.service.external_local and not found.local and self._holds("node-port-closed-everywhere"):
            return Answer(DROP, why=_why("node-port-closed-everywhere"))
        return Answer(PASS, why=_why(barred))

    def _unserved(self, packet: Packet) -> Answer:
        """No Service has this port on this address."""
        address = packet.destination
        on_link = self._surroundings.is_local(address)
        checks_health = packet.port in self._health_check_ports and packet.protocol != "SCTP"
        cases = (
            ("undefined-port-rejected", REJECT, address in self._cluster_ips),
            ("undefined-external-port-rejected", REJECT, address in self._external_ips and not on_link),
            ("unallocated-dropped", DROP, _within(address, self._service_networks)),
        )
        refused = next(((rule, verdict) for rule, verdict, holds in cases if holds and self._holds(rule)), None)
        if refused is None:
            return Answer(PASS, why=_why("no-service"))
        if on_link and not packet.node_local and self._holds("taken-by-node"):
            return Answer(PASS, why=_why("taken-by-node"))
        if checks_health and self._holds("health-check-port"):
            return Answer(PASS, why=_why("health-check-port"))
        rule, verdict = refused
        return Answer(verdict, why=_why(rule))

    def _served(self, frontend: Frontend, packet: Packet) -> Answer:
        service = frontend.service
        found = self._reachable(service)
        why: tuple[str, ...] = (_claim(frontend),)
        if frontend.kind == NODE_PORT and ipaddress.ip_address(packet.destination).is_loopback:
            why += _why("node-port-loopback")
        if frontend.kind == LOAD_BALANCER and service.source_ranges:
            judgement = self._judge(service, found, packet)
            why += judgement.why
            if judgement.refused:
                return Answer(DROP, why=why)
        if not found.has_any:
            return self._without_endpoints(frontend, packet, why)
        if frontend.kind == CLUSTER_IP:
            choice, none = self._internal(service, found, packet), "internal-local-none"
        else:
            choice, none = self._external(service, found, packet), "external-local-none"
        why += choice.why
        if choice.endpoints:
            return self._translated(service, choice, packet, why)
        if self._holds(none):
            return Answer(DROP, why=why + _why(none))
        return Answer(REJECT, why=why + _why("no-real-servers"))

    def _judge(self, service: ServicePort, found: Reachable, packet: Packet) -> _Judgement:
        """Where a load balancer's address is bound to the node, the node's packets to it come from that same address: a
        range with the node in it means them too."""
        networks = [ipaddress.ip_network(one) for one in service.source_ranges]
        node = self._view.node.primary
        node_may = bool(node) and _within(node, networks)
        if not found.has_any and self._holds("ranges-without-endpoints"):
            return _Judgement(False, _why("ranges-without-endpoints"))
        if packet.node_local and self._holds("ranges-from-node"):
            closed = found.has_any and packet.source == packet.destination and not node_may
            return _Judgement(closed, _why("ranges-from-node"))
        if _within(packet.source, networks):
            return _Judgement(False)
        if node_may and packet.source == packet.destination and self._holds("source-balancer-itself"):
            return _Judgement(False, _why("source-balancer-itself"))
        if node_may and packet.source in service.load_balancer_ips and self._holds("source-balancer"):
            return _Judgement(False, _why("source-balancer"))
        return _Judgement(True, _why("source-refused"))

    def _without_endpoints(self, frontend: Frontend, packet: Packet, why: tuple[str, ...]) -> Answer:
        goes_out = packet.node_local and not self._surroundings.is_local(packet.destination)
        if goes_out and frontend.kind != CLUSTER_IP and self._holds("no-endpoints-from-node"):
            return Answer(PASS, why=why + _why("no-endpoints-from-node"))
        return Answer(REJECT, why=why + _why("no-endpoints"))

    def _internal(self, service: ServicePort, found: Reachable, packet: Packet) -> _Choice:
        rule = self._internal_masquerade(packet)
        why = _why(rule) if rule else ()
        if not service.internal_local:
            return _Choice(found.cluster, bool(rule), _why("internal-cluster") + why)
        if not found.local and found.cluster and self._holds("internal-local-others"):
            return _Choice(found.cluster, bool(rule), _why("internal-local-others") + why)
        return _Choice(found.local, bool(rule), _why("internal-local") + why)

    def _internal_masquerade(self, packet: Packet) -> str:
        """The rule by which a packet to a clusterIP is masqueraded; "" where its source is kept."""
        if self._config.masquerade_all:
            return "masquerade-all"
        if self._config.detector.kind and not self._from_local_pod(packet):
            return "masquerade-elsewhere"
        return ""

    def _external(self, service: ServicePort, found: Reachable, packet: Packet) -> _Choice:
        if not service.external_local:
            return _Choice(found.cluster, True, _why("external-cluster"))
        if self._holds("external-local-pod") and self._from_local_pod(packet):
            return _Choice(found.cluster, False, _why("external-local-pod"))
        if self._holds("external-local-node") and self._surroundings.is_local(packet.source):
            return _Choice(found.cluster, True, _why("external-local-node"))
        if self._holds("external-local-others") and not found.local:
            return _Choice(found.cluster, False, _why("external-local-others"))
        return _Choice(found.local, False, _why("external-local"))

    def _translated(self, service: ServicePort, choice: _Choice, packet: Packet, why: tuple[str, ...]) -> Answer:
        # What a packet from outside finds on the node itself does not leave the node: nobody masquerades it.
        leaving = [one for one in choice.endpoints if packet.node_local or not self._surroundings.is_local(one.address)]
        virtual = self._is_virtual_source(packet)
        why += _why("masquerade-virtual") if virtual else ()
        masquerade = (choice.masquerade or virtual) and bool(leaving)
        itself = [] if masquerade else [one for one in leaving if one.address == packet.source]
        here = [one for one in itself if one.node == self._view.node.name]
        hairpin = itself if self._holds("hairpin-elsewhere") else here
        why += _why("hairpin") if here else ()
        why += _why("hairpin-elsewhere") if len(hairpin) > len(here) else ()
        why += _why("affinity") if service.affinity_seconds else ()
        return Answer(
            DNAT,
            endpoints=_texts(choice.endpoints),
            masquerade=masquerade,
            hairpin=_texts(hairpin),
            affinity_seconds=service.affinity_seconds,
            why=why,
        )

    def _is_virtual_source(self, packet: Packet) -> bool:
        """Whether it is of the rule masquerade-virtual, whatever its destination is."""
        if self._config.masquerade_all or self._config.detector.kind or not self._holds("masquerade-virtual"):
            return False
        source = self._frontends.get((packet.source, packet.protocol, packet.port))
        return source is not None and source.kind == CLUSTER_IP

    def _reachable(self, service: ServicePort) -> Reachable:
        return reachable(service, node=self._view.node.name, zone=self._view.node.zone)

    def _from_local_pod(self, packet: Packet) -> bool:
        return self._config.detector.detects(packet.source, packet.inbound_interface)

    def _holds(self, rule: str) -> bool:
        return self._config.backend in RULES[rule].backends


def _claim(frontend: Frontend) -> str:
    service = frontend.service
    place = f"port {frontend.port}" if frontend.kind == NODE_PORT else f"{frontend.address} port {frontend.port}"
    return f"{frontend.kind}: {place}/{service.protocol} belongs to {service.title}"


def _texts(endpoints: Sequence[Endpoint]) -> tuple[str, ...]:
    return tuple(sorted(one.text for one in endpoints))


def _why(rule: str) -> tuple[str, ...]:
    return (f"{rule}: {RULES[rule].text}",)


def _within(address: str, networks: Sequence[Union[ipaddress.IPv4Network, ipaddress.IPv6Network]]) -> bool:
    parsed = ipaddress.ip_address(address)
    return any(parsed in network for network in networks)
