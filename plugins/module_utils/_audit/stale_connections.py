# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds UDP connections that conntrack keeps sending where Services no longer lead. Pure.

Only the first packet of a connection passes the rules. A client that keeps sending keeps its connection, so its packets
still go to an endpoint that is gone; or out of the node, if the connection is older than the Service's rules. TCP and SCTP
connections end on their own.

A connection to a Service is right if an endpoint of the Service serves at its target (address and port). Policies and
topology do not matter, because established TCP connections continue too. Without any serving endpoint, every connection is
stale: the rule that rejects new ones does not see it. A connection without a translation is right if a new one would not be
translated either: nftables rules do not serve node ports on every address, and iptables rules let the node's own packets to
external addresses out while no endpoint serves.

Source: kube-proxy, conntrack/cleanup.go; k/k#139628 (Services without endpoints, since 1.37.1), k/k#141371 (ports that no
Service has any more). kube-proxy does not remove connections to node ports of Services without endpoints, because there it
cannot tell the node's addresses from others.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Optional

from .._rules.addresses import is_within
from .._rules.model import CLUSTER_IP, FamilyView, Frontend, RuleConfig, ServicePort
from .._rules.packet import PASS, Packet, Surroundings, endpoint_text
from .expected_verdict import ExpectedVerdicts
from .facts import UdpConnection
from .findings import AuditFinding, finding


def find_stale_connections(
    connections: Iterable[UdpConnection], view: FamilyView, config: RuleConfig, surroundings: Surroundings
) -> Iterator[AuditFinding]:
    """One finding for all connections with the same Service, destination and target."""
    judge = _Judge(view, config, surroundings)
    of_family = (flow for flow in connections if _version(flow.destination) == view.family)
    counts = Counter((judge.title_of(flow), flow) for flow in of_family if judge.is_stale(flow))
    for (service, flow), count in sorted(counts.items(), key=_order):
        yield finding(
            "rules-audit-conntrack" if service else "rules-audit-conntrack-extra",
            family=view.family,
            service=service,
            destination=endpoint_text(flow.destination, flow.port),
            count=count,
            target=_describe_target(flow),
            command=" ".join(forget_command(flow)),
        )


def _order(counted: tuple[tuple[str, UdpConnection], int]) -> tuple[str, str, int, str, int]:
    (service, flow), _count = counted
    return service, flow.destination, flow.port, flow.target, flow.target_port


def forget_command(flow: UdpConnection) -> list[str]:
    """The command that removes all connections like this one from conntrack."""
    original = ["--orig-dst", flow.destination, "--orig-port-dst", str(flow.port)]
    reply = ["--reply-src", flow.target, "--reply-port-src", str(flow.target_port)]
    return ["conntrack", "-D", "-f", f"ipv{_version(flow.destination)}", "-p", "udp", *original, *reply]


def is_translated(flow: UdpConnection) -> bool:
    return (flow.destination, flow.port) != (flow.target, flow.target_port)


def as_packet(flow: UdpConnection, surroundings: Surroundings) -> Packet:
    """The packet that would open this connection again."""
    local = surroundings.is_local(flow.source)
    return Packet(flow.source, flow.destination, flow.port, "UDP", node_local=local)


class _Judge:
    def __init__(self, view: FamilyView, config: RuleConfig, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._expected = ExpectedVerdicts(view, config, surroundings)
        self._frontends = {(end.address, end.port): end for end in view.frontends if end.protocol == "UDP"}
        self._cluster_ips = {end.address for end in view.frontends if end.kind == CLUSTER_IP}
        self._networks = [ipaddress.ip_network(cidr) for cidr in view.service_cidrs]
        self._serving: dict[int, frozenset[str]] = {}

    def title_of(self, flow: UdpConnection) -> str:
        frontend = self._frontend(flow)
        return frontend.service.title if frontend is not None else ""

    def is_stale(self, flow: UdpConnection) -> bool:
        frontend = self._frontend(flow)
        if frontend is None:
            return is_translated(flow) and self._is_for_services(flow.destination)
        if endpoint_text(flow.target, flow.target_port) in self._serving_of(frontend.service):
            return False
        if is_translated(flow):
            return True
        return self._expected.answer(as_packet(flow, self._surroundings)).verdict != PASS

    def _frontend(self, flow: UdpConnection) -> Optional[Frontend]:
        frontend = self._frontends.get((flow.destination, flow.port))
        if frontend is not None:
            return frontend
        node_port = self._frontends.get(("", flow.port))
        return node_port if node_port is not None and self._surroundings.is_local(flow.destination) else None

    def _is_for_services(self, address: str) -> bool:
        return address in self._cluster_ips or is_within(address, self._networks)

    def _serving_of(self, service: ServicePort) -> frozenset[str]:
        key = id(service)
        if key not in self._serving:
            self._serving[key] = frozenset(endpoint.text for endpoint in service.endpoints if endpoint.serving)
        return self._serving[key]


def _describe_target(flow: UdpConnection) -> str:
    text = endpoint_text(flow.target, flow.target_port)
    return text if is_translated(flow) else f"{text} itself, without a translation"


def _version(address: str) -> int:
    return 6 if ":" in address else 4
