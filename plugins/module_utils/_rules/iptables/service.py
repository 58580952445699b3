# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules of one ServicePort: its own chains, and its entries in the chains that all Services share."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Optional

from ..model import CLUSTER_IP, EXTERNAL_IP, LOAD_BALANCER, NODE_PORT, Endpoint, Frontend, LocalDetector, ServicePort
from ..topology import Reachable
from .names import (
    EXTERNAL_SERVICES,
    MARK_MASQ,
    NODE_PORTS,
    PROXY_FIREWALL,
    SERVICES,
    cluster_chain,
    endpoint_chain,
    external_chain,
    firewall_chain,
    local_chain,
)
from .objects import (
    AddressType,
    Destination,
    DestinationPort,
    Dnat,
    InInterface,
    Jump,
    Match,
    Protocol,
    Recent,
    Reject,
    Rule,
    Source,
    Statistic,
    Target,
    Verdict,
    chance,
    network,
    rule,
)

LOCAL_SOURCE = AddressType("src", "LOCAL")
LOCAL_DESTINATION = AddressType("dst", "LOCAL")
DROP = Verdict("DROP")
_KINDS = {EXTERNAL_IP: "external IP", LOAD_BALANCER: "loadbalancer IP"}


@dataclass(frozen=True)
class Context:
    """What all Services of a node share in one family."""

    node_address: str  # "" if the Node object has none of this family
    detector: LocalDetector
    masquerade_all: bool
    # kube-proxy omits the comments of endpoint rules above 1,000 endpoints, which makes the text 40 % shorter.
    endpoint_comments: bool
    refusal: Reject  # of this family


@dataclass
class RuleLists:
    """Collects rules by table and chain."""

    nat: dict[str, list[Rule]] = field(default_factory=dict)
    filter: dict[str, list[Rule]] = field(default_factory=dict)


class ServiceRules:
    """Adds the rules of one ServicePort and its frontends to `lists`."""

    def __init__(
        self, service: ServicePort, frontends: Sequence[Frontend], reach: Reachable, context: Context, lists: RuleLists
    ) -> None:
        self._service = service
        self._internal = [frontend for frontend in frontends if frontend.kind == CLUSTER_IP]
        self._external = [frontend for frontend in frontends if frontend.kind != CLUSTER_IP]
        self._balanced = [frontend for frontend in frontends if frontend.kind == LOAD_BALANCER]
        self._reach = reach
        self._context = context
        self._lists = lists
        self._protocol = Protocol(service.protocol.lower())
        self._cluster_chain = cluster_chain(service)
        self._local_chain = local_chain(service)
        self._external_chain = external_chain(service)
        self._firewall_chain = firewall_chain(service)
        self._endpoint_chains = {
            endpoint: endpoint_chain(service, endpoint) for endpoint in (*reach.cluster, *reach.local)
        }

    def add(self) -> None:
        self._add_internal()
        self._add_external()
        self._add_policy_chains()

    def _add_internal(self) -> None:
        local = self._service.internal_local
        chain = self._local_chain if local else self._cluster_chain
        served = bool(self._reach.local) if local else self._reach.has_any
        for frontend in self._internal:
            entry = self._matches(frontend)
            if not served:
                self._refuse(SERVICES, *entry)
                continue
            comment = f"{self._service.title} cluster IP"
            self._nat(SERVICES, *entry, target=Jump(chain), comment=comment)
            # The reply of a remote endpoint must come back through this node. Unless the source is a pod of this node, only
            # masquerading ensures that.
            elsewhere = () if self._context.masquerade_all else self._from_pod(negated=True)
            if self._context.masquerade_all or elsewhere:
                self._nat(chain, *entry, *elsewhere, target=Jump(MARK_MASQ), comment=comment)

    def _add_external(self) -> None:
        service, reach = self._service, self._reach
        served = bool(reach.local) if service.external_local else reach.has_any
        guarded = bool(self._balanced and service.source_ranges and reach.has_any)
        for frontend in self._external:
            if reach.has_any:
                self._enter(frontend, guarded=guarded and frontend.kind == LOAD_BALANCER)
            if not served:
                # On any local address, even one that serves no node ports, as kube-proxy does.
                here = (LOCAL_DESTINATION,) if frontend.kind == NODE_PORT else ()
                self._refuse(EXTERNAL_SERVICES, *self._matches(frontend), *here)
        if self._external and reach.has_any:
            self._add_external_chain(served=served)
        if guarded:
            self._add_firewall_chain()

    def _enter(self, frontend: Frontend, *, guarded: bool) -> None:
        service = self._service
        if frontend.kind == NODE_PORT:
            chain, comment = NODE_PORTS, service.title
        else:
            chain, comment = SERVICES, f"{service.title} {_KINDS[frontend.kind]}"
        target = self._firewall_chain if guarded else self._external_chain
        self._nat(chain, *self._matches(frontend), target=Jump(target), comment=comment)
        if guarded:
            comment = f"{service.title} traffic not accepted by {self._firewall_chain}"
            self._filter(PROXY_FIREWALL, *self._matches(frontend), target=DROP, comment=comment)

    def _add_external_chain(self, *, served: bool) -> None:
        service, chain = self._service, self._external_chain
        what = f"for {service.title} external destinations"
        if not service.external_local:
            # The endpoint may be on another node, and its reply must come back through this one.
            self._nat(chain, target=Jump(MARK_MASQ), comment=f"masquerade traffic {what}")
            self._nat(chain, target=Jump(self._cluster_chain))
            return
        # Through the load balancer, pods and processes of this node would reach any node: the policy Local does not apply to
        # them.
        everyone = Jump(self._cluster_chain)
        pods = self._from_pod(negated=False)
        if pods:
            self._nat(chain, *pods, target=everyone, comment=f"pod traffic {what}")
        self._nat(chain, LOCAL_SOURCE, target=Jump(MARK_MASQ), comment=f"masquerade LOCAL traffic {what}")
        self._nat(chain, LOCAL_SOURCE, target=everyone, comment=f"route LOCAL traffic {what}")
        if served:
            self._nat(chain, target=Jump(self._local_chain))

    def _add_firewall_chain(self) -> None:
        service, chain = self._service, self._firewall_chain
        allowed = list(service.source_ranges)
        node = self._context.node_address
        if node and any(ipaddress.ip_address(node) in ipaddress.ip_network(cidr) for cidr in allowed):
            # If a load balancer's address is bound here, packets of this node to it have it as their source, too.
            allowed.extend(frontend.address for frontend in self._balanced)
        for source in allowed:
            comment = f"{service.title} {_KINDS[LOAD_BALANCER]}"
            self._nat(chain, Source(network(source)), target=Jump(self._external_chain), comment=comment)
        self._nat(chain, comment=f"other traffic to {service.title} will be dropped by {PROXY_FIREWALL}")

    def _add_policy_chains(self) -> None:
        """The chains of the traffic policies in use, and those of their endpoints."""
        service, reach = self._service, self._reach
        uses_cluster = bool(self._external) or bool(self._internal and not service.internal_local)
        uses_local = bool(self._external and service.external_local) or bool(self._internal and service.internal_local)
        cluster = reach.cluster if uses_cluster else ()
        local = reach.local if uses_local else ()
        if cluster:
            self._balance(self._cluster_chain, cluster)
        if local:
            self._balance(self._local_chain, local)
        for endpoint in sorted({*cluster, *local}):
            self._add_endpoint_chain(endpoint)

    def _balance(self, chain: str, endpoints: Sequence[Endpoint]) -> None:
        service = self._service
        if service.affinity_seconds:
            for endpoint in endpoints:
                seen = Recent("rcheck", self._endpoint_chains[endpoint], service.affinity_seconds, reap=True)
                self._to_endpoint(chain, seen, endpoint=endpoint)
        for left, endpoint in zip(range(len(endpoints), 0, -1), endpoints):
            lot = (Statistic(chance(round(1 / left, 10))),) if left > 1 else ()
            self._to_endpoint(chain, *lot, endpoint=endpoint)

    def _to_endpoint(self, chain: str, *matches: Match, endpoint: Endpoint) -> None:
        comment = f"{self._service.title} -> {endpoint.text}" if self._context.endpoint_comments else ""
        self._nat(chain, *matches, target=Jump(self._endpoint_chains[endpoint]), comment=comment)

    def _add_endpoint_chain(self, endpoint: Endpoint) -> None:
        service, chain = self._service, self._endpoint_chains[endpoint]
        comment = service.title if self._context.endpoint_comments else ""
        # Hairpin: a pod that reaches itself would get a reply from its own address and discard it.
        self._nat(chain, Source(network(endpoint.address)), target=Jump(MARK_MASQ), comment=comment)
        note = (Recent("set", chain),) if service.affinity_seconds else ()
        self._nat(chain, self._protocol, *note, target=Dnat(endpoint.address, endpoint.port), comment=comment)

    def _refuse(self, chain: str, *matches: Match) -> None:
        if self._reach.has_any:  # an endpoint on another node may serve it
            target, why = DROP, "has no local endpoints"
            self._filter(chain, *matches, target=target, comment=f"{self._service.title} {why}")
        else:
            self._filter(
                chain, *matches, target=self._context.refusal, comment=f"{self._service.title} has no endpoints"
            )

    def _matches(self, frontend: Frontend) -> tuple[Match, ...]:
        port: tuple[Match, ...] = (self._protocol, DestinationPort(frontend.port))
        return port if frontend.kind == NODE_PORT else (Destination(network(frontend.address)), *port)

    def _from_pod(self, *, negated: bool) -> tuple[Match, ...]:
        detector = self._context.detector
        if detector.kind == "cidr":
            return (Source(network(detector.value), negated),)
        if detector.kind == "bridge":
            return (InInterface(detector.value, negated),)
        return (InInterface(detector.value + "+", negated),) if detector.kind == "prefix" else ()

    def _nat(self, chain: str, *matches: Match, target: Optional[Target] = None, comment: str = "") -> None:
        self._lists.nat.setdefault(chain, []).append(rule(*matches, target=target, comment=comment))

    def _filter(self, chain: str, *matches: Match, target: Target, comment: str) -> None:
        self._lists.filter.setdefault(chain, []).append(rule(*matches, target=target, comment=comment))
