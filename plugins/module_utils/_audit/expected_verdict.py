# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The expected verdict of a packet in Kubernetes' terms, without tables, chains or virtual servers.

Traces of rules are compared with it. It reads from top to bottom as an operator would reason: which Service has the
destination, may this source use it, which endpoints does the traffic policy allow, which endpoints see the node's address as
the source. Every step is a row of RULES. The backends differ only in the rows of DIFFERENCES.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Optional

from .._rules.addresses import is_within
from .._rules.gates import NEWEST
from .._rules.model import CLUSTER_IP, LOAD_BALANCER, NODE_PORT, Endpoint, FamilyView, Frontend, RuleConfig, ServicePort
from .._rules.node_ports import LOOPBACK_ADDRESS, node_port_addresses
from .._rules.packet import DNAT, DROP, PASS, REJECT, Answer, Packet, Surroundings, translate_to
from .._rules.topology import Reachable, reachable
from .verdict_rules import EVERY, RULES


@dataclass(frozen=True)
class _Choice:
    """The endpoints that a traffic policy allows a packet, the rule that says so, and whether that rule masquerades."""

    endpoints: Sequence[Endpoint]
    masquerade: bool
    why: tuple[str, ...]


@dataclass(frozen=True)
class _SourceCheck:
    """Whether loadBalancerSourceRanges allow a source, and the rule that says so."""

    refused: bool
    why: tuple[str, ...] = ()


class ExpectedVerdicts:
    """A view with an index of its destinations, of which there may be tens of thousands. `minor` is the version of the
    kube-proxy that wrote the nftables rules; our own rules behave like the newest."""

    def __init__(
        self, view: FamilyView, config: RuleConfig, surroundings: Surroundings, *, minor: int = NEWEST
    ) -> None:
        if config.backend not in EVERY:
            raise ValueError(f"no expected verdicts for backend {config.backend}")
        self._view = view
        self._config = config
        self._surroundings = surroundings
        self._minor = minor
        self._node_ports = node_port_addresses(view, config)
        self._frontends: dict[tuple[str, str, int], Frontend] = {frontend.key: frontend for frontend in view.frontends}
        self._cluster_ips = {service.cluster_ip for service in view.services}
        self._external_ips = {
            ip for service in view.services for ip in (*service.external_ips, *service.load_balancer_ips)
        }
        self._health_check_ports = {service.health_check_node_port for service in view.services} - {0}
        self._service_networks = [ipaddress.ip_network(cidr) for cidr in view.service_cidrs]

    def answer(self, packet: Packet) -> Answer:
        frontend = self._frontends.get((packet.destination, packet.protocol, packet.port))
        if frontend:
            return self._answer_as_node_port(packet) or self._answer_served(frontend, packet)
        frontend = self._frontends.get(("", packet.protocol, packet.port))
        if not frontend or not self._surroundings.is_local(packet.destination):
            return self._answer_unserved(packet)
        if self._is_rejected_on_loopback(packet):
            return Answer(REJECT, why=_why("node-port-loopback-rejected"))
        closed_by = self._rule_against(packet.destination)
        return self._answer_closed(frontend, closed_by) if closed_by else self._answer_served(frontend, packet)

    def _answer_as_node_port(self, packet: Packet) -> Optional[Answer]:
        """The answer according to rule node-port-after-address; None where it does not apply."""
        own = self._frontends[packet.destination, packet.protocol, packet.port]
        same = self._frontends.get(("", packet.protocol, packet.port))
        if same is None or not self._holds("node-port-after-address"):
            return None
        if not self._surroundings.is_local(packet.destination) or self._rule_against(packet.destination):
            return None
        if self._answer_served(own, packet).verdict == DNAT:
            return None
        answer = self._answer_served(same, packet)
        why = (*_why("node-port-after-address"), *answer.why)
        return replace(answer, why=why) if answer.verdict == DNAT else None

    def _is_rejected_on_loopback(self, packet: Packet) -> bool:
        rejected = packet.protocol in self._config.rejected_on_loopback and self._holds("node-port-loopback-rejected")
        return rejected and ipaddress.ip_address(packet.destination).is_loopback

    def _rule_against(self, own: str) -> str:
        """The rule by which node ports are not served on the node's address `own`; "" if they are."""
        where = self._node_ports
        if ipaddress.ip_address(own).is_loopback:
            served = where.loopback and (where.all_local or own == LOOPBACK_ADDRESS)
            return "" if served else "node-port-elsewhere"
        link_local = self._view.family == 6 and ipaddress.ip_address(own).is_link_local
        if link_local and where.all_local and self._holds("node-port-link-local"):
            return "node-port-link-local"
        if own in where.addresses:
            return ""
        if where.all_local:  # backends other than ipvs query the routing table
            return "node-port-new-address" if self._holds("node-port-new-address") else ""
        unset = self._config.node_port_addresses is None
        return "node-port-primary" if unset and self._holds("node-port-primary") else "node-port-elsewhere"

    def _answer_closed(self, frontend: Frontend, closed_by: str) -> Answer:
        """The answer for a node port on an address that does not serve node ports."""
        endpoints = self._reachable(frontend.service)
        if not endpoints.has_any and self._holds("node-port-closed-everywhere"):
            return Answer(REJECT, why=_why("node-port-closed-everywhere"))
        if frontend.service.external_local and not endpoints.local and self._holds("node-port-closed-everywhere"):
            return Answer(DROP, why=_why("node-port-closed-everywhere"))
        return Answer(PASS, why=_why(closed_by))

    def _answer_unserved(self, packet: Packet) -> Answer:
        """The answer for a port that no Service has on this address."""
        address = packet.destination
        on_link = self._surroundings.is_local(address)
        checks_health = packet.port in self._health_check_ports and packet.protocol != "SCTP"
        cases = (
            ("undefined-port-rejected", REJECT, address in self._cluster_ips),
            ("undefined-external-port-rejected", REJECT, address in self._external_ips and not on_link),
            ("unallocated-dropped", DROP, is_within(address, self._service_networks)),
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

    def _answer_served(self, frontend: Frontend, packet: Packet) -> Answer:
        service = frontend.service
        endpoints = self._reachable(service)
        why: tuple[str, ...] = (_claim(frontend),)
        if frontend.kind == NODE_PORT and ipaddress.ip_address(packet.destination).is_loopback:
            why += _why("node-port-loopback")
        if frontend.kind == LOAD_BALANCER and service.source_ranges:
            check = self._check_source(service, endpoints, packet)
            why += check.why
            if check.refused:
                return Answer(DROP, why=why)
        if not endpoints.has_any:
            return self._answer_without_endpoints(frontend, packet, why)
        if frontend.kind == CLUSTER_IP:
            choice, none = self._choose_internal(service, endpoints, packet), "internal-local-none"
        else:
            choice, none = self._choose_external(frontend, endpoints, packet), "external-local-none"
        if not choice.masquerade and self._is_taken_for_node_port(frontend):
            choice = replace(choice, masquerade=True, why=choice.why + _why("masquerade-node-port"))
        why += choice.why
        if choice.endpoints:
            return self._translate(service, choice, packet, why)
        if self._holds(none):
            return Answer(DROP, why=why + _why(none))
        return Answer(REJECT, why=why + _why("no-real-servers"))

    def _check_source(self, service: ServicePort, endpoints: Reachable, packet: Packet) -> _SourceCheck:
        """Whether the source may use the load balancer. If the load balancer's address is bound on the node, the node's
        packets to it have that address as their source: a range that contains the node allows them too."""
        networks = [ipaddress.ip_network(source_range) for source_range in service.source_ranges]
        node = self._view.node.primary
        node_may = bool(node) and is_within(node, networks)
        if not endpoints.has_any and self._holds("ranges-without-endpoints"):
            return _SourceCheck(False, _why("ranges-without-endpoints"))
        if not packet.node_local and self._holds("ranges-not-on-arrival"):
            return _SourceCheck(False, _why("ranges-not-on-arrival"))
        if packet.node_local and not endpoints.has_any and self._holds("ranges-after-endpoints"):
            return _SourceCheck(False, _why("ranges-after-endpoints"))
        if packet.node_local and self._holds("ranges-from-node"):
            closed = endpoints.has_any and packet.source == packet.destination and not node_may
            return _SourceCheck(closed, _why("ranges-from-node"))
        if is_within(packet.source, networks):
            return _SourceCheck(False)
        if node_may and packet.source == packet.destination and self._holds("source-balancer-itself"):
            return _SourceCheck(False, _why("source-balancer-itself"))
        if node_may and packet.source in service.load_balancer_ips and self._holds("source-balancer"):
            return _SourceCheck(False, _why("source-balancer"))
        return _SourceCheck(True, _why("source-refused"))

    def _answer_without_endpoints(self, frontend: Frontend, packet: Packet, why: tuple[str, ...]) -> Answer:
        goes_out = packet.node_local and not self._surroundings.is_local(packet.destination)
        if goes_out and frontend.kind != CLUSTER_IP and self._holds("no-endpoints-from-node"):
            return Answer(PASS, why=why + _why("no-endpoints-from-node"))
        return Answer(REJECT, why=why + _why("no-endpoints"))

    def _choose_internal(self, service: ServicePort, endpoints: Reachable, packet: Packet) -> _Choice:
        rule = self._internal_masquerade(packet)
        why = _why(rule) if rule else ()
        if not service.internal_local:
            return _Choice(endpoints.cluster, bool(rule), _why("internal-cluster") + why)
        if not endpoints.local and endpoints.cluster and self._holds("internal-local-others"):
            return _Choice(endpoints.cluster, bool(rule), _why("internal-local-others") + why)
        return _Choice(endpoints.local, bool(rule), _why("internal-local") + why)

    def _internal_masquerade(self, packet: Packet) -> str:
        """The rule by which a packet to a clusterIP is masqueraded; "" if its source is kept."""
        if self._config.masquerade_all:
            return "masquerade-all"
        if self._config.detector.kind and not self._from_local_pod(packet):
            return "masquerade-elsewhere"
        return ""

    def _choose_external(self, frontend: Frontend, endpoints: Reachable, packet: Packet) -> _Choice:
        if not frontend.service.external_local:
            return _Choice(endpoints.cluster, True, _why("external-cluster"))
        too_early = "node-port-none-from-node" if frontend.kind == NODE_PORT else "external-local-none-from-node"
        if packet.node_local and not endpoints.local and self._holds(too_early):
            return _Choice((), False, _why(too_early))
        if self._holds("external-local-pod") and self._from_local_pod(packet):
            return _Choice(endpoints.cluster, False, _why("external-local-pod"))
        if self._holds("external-local-node") and self._surroundings.is_local(packet.source):
            return _Choice(endpoints.cluster, True, _why("external-local-node"))
        if self._holds("external-local-others") and not endpoints.local:
            return _Choice(endpoints.cluster, False, _why("external-local-others"))
        return _Choice(endpoints.local, False, _why("external-local"))

    def _translate(self, service: ServicePort, choice: _Choice, packet: Packet, why: tuple[str, ...]) -> Answer:
        # A packet from outside to an endpoint on the node itself does not leave the node, so it is not masqueraded.
        is_local = self._surroundings.is_local
        leaving = [end for end in choice.endpoints if packet.node_local or not is_local(end.address)]
        virtual = self._is_virtual_source(packet)
        why += _why("masquerade-virtual") if virtual else ()
        replaced = leaving if choice.masquerade or virtual else []
        itself = [] if replaced else [endpoint for endpoint in leaving if endpoint.address == packet.source]
        here = [endpoint for endpoint in itself if endpoint.node == self._view.node.name]
        hairpin = itself if self._holds("hairpin-elsewhere") else here
        why += _why("hairpin") if here else ()
        why += _why("hairpin-elsewhere") if len(hairpin) > len(here) else ()
        why += _why("affinity") if service.affinity_seconds else ()
        return translate_to(
            _texts(choice.endpoints),
            masqueraded=frozenset(_texts([*replaced, *hairpin])),
            hairpin=_texts(hairpin),
            affinity_seconds=service.affinity_seconds,
            why=why,
        )

    def _is_taken_for_node_port(self, frontend: Frontend) -> bool:
        """Whether rule masquerade-node-port applies. Rules for external IPs come before those for node ports, and those for
        SCTP match the address too."""
        if frontend.kind not in (CLUSTER_IP, LOAD_BALANCER) or not self._holds("masquerade-node-port"):
            return False
        same = self._frontends.get(("", frontend.protocol, frontend.port))
        is_open = same is not None and not same.service.external_local and bool(self._node_ports.addresses)
        return is_open and frontend.protocol != "SCTP"

    def _is_virtual_source(self, packet: Packet) -> bool:
        """Whether rule masquerade-virtual applies to the packet's source."""
        if self._config.masquerade_all or self._config.detector.kind or not self._holds("masquerade-virtual"):
            return False
        source = self._frontends.get((packet.source, packet.protocol, packet.port))
        return source is not None and source.kind == CLUSTER_IP

    def _reachable(self, service: ServicePort) -> Reachable:
        return reachable(service, node=self._view.node.name, zone=self._view.node.zone)

    def _from_local_pod(self, packet: Packet) -> bool:
        return self._config.detector.detects(packet.source, packet.inbound_interface)

    def _holds(self, rule: str) -> bool:
        return RULES[rule].holds(self._config.backend, self._minor)


def _claim(frontend: Frontend) -> str:
    service = frontend.service
    place = f"port {frontend.port}" if frontend.kind == NODE_PORT else f"{frontend.address} port {frontend.port}"
    return f"{frontend.kind}: {place}/{service.protocol} belongs to {service.title}"


def _texts(endpoints: Sequence[Endpoint]) -> tuple[str, ...]:
    return tuple(sorted(endpoint.text for endpoint in endpoints))


def _why(rule: str) -> tuple[str, ...]:
    return (f"{rule}: {RULES[rule].text}",)
