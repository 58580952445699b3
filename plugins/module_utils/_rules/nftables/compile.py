# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compile a view of the cluster into our table of one family. `layout.py` explains where each rule is, and why.

Chains that are made here, by the count of endpoints that they draw from:

    cluster-ip-tcp-4         of a clusterIP, under either internalTrafficPolicy
    external-tcp-4           of an external or load balancer's IP, externalTrafficPolicy Cluster
    local-tcp-4-2            the same with Local: 4 endpoints on all nodes, 2 on this one
    node-port-external-tcp-4, node-port-local-tcp-4-2
    sources-HASH-...         the networks that may use a load balancer's IP, with a set of that name; the same networks are
                             the same chain
    ...-HASH-...             with sessionAffinity (`affinity.py`)

The same view gives the same table. Semantics: reference of kube-proxy 1.2 to 1.5.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Optional

from ..._core.host.names import MARK
from ..model import CLUSTER_IP, LOAD_BALANCER, NODE_PORT, Endpoint, FamilyView, Frontend, RuleConfig, ServicePort
from ..node_ports import node_port_addresses
from ..topology import Reachable, reachable
from . import affinity, layout
from .expressions import (
    DROP,
    GOTO,
    JUMP,
    UNEQUAL,
    Key,
    MapLookup,
    Match,
    Named,
    Nat,
    Numgen,
    Statement,
    Target,
    Verdict,
)
from .objects import Chain, Element, Rule, Set, Table
from .policy import LOCAL, PolicyRules, policy_of

REJECT = Verdict(GOTO, layout.REJECT_CHAIN)


def compile_rules(
    view: FamilyView,
    config: RuleConfig,
    *,
    table: str = MARK,
    priority_offset: int = 0,
    dscp_bypass: bool = False,
    owner: str = layout.SERVICE_RULES,
) -> Table:
    """Our table of the view's family.

    `priority_offset` is added to the priority of each base chain: with -1 our rules decide before those of a running
    kube-proxy. `dscp_bypass`: leave packets with BYPASS_DSCP to kube-proxy (layout.py).
    """
    compiler = _Compiler(view, config)
    compiler.add_addresses()
    for frontend in view.frontends:
        compiler.add_frontend(frontend)
    return compiler.table(table, priority_offset=priority_offset, dscp_bypass=dscp_bypass, owner=owner)


class _Compiler:
    """Collects elements and chains in one pass over the view."""

    def __init__(self, view: FamilyView, config: RuleConfig) -> None:
        self.view = view
        self.config = config
        self.family = layout.FAMILY[view.family]
        self.node_ports = node_port_addresses(view, config)
        self.policies = PolicyRules(self.family, config.detector, config.masquerade_mark, config.masquerade_all)
        self.sets: dict[str, Set] = {declared.name: declared for declared in layout.sets(self.family)}
        if config.rejected_on_loopback:
            self.sets[layout.LOOPBACK_NODE_PORTS] = layout.loopback_node_ports()
        self.elements: dict[str, dict[Key, Element]] = {name: {} for name in self.sets}
        self.chains: dict[str, Chain] = {}
        self.gotos: dict[str, Verdict] = {}  # to chains that Services share
        self.found: dict[int, Reachable] = {}  # by identity: hashing a Service hashes all of its endpoints

    def table(self, name: str, *, priority_offset: int, dscp_bypass: bool, owner: str) -> Table:
        fixed = layout.chains(
            self.family,
            mark=self.config.masquerade_mark,
            all_local_node_ports=self.node_ports.all_local,
            rejects_on_loopback=bool(self.config.rejected_on_loopback),
            priority_offset=priority_offset,
            dscp_bypass=dscp_bypass,
            owner=owner,
        )
        chains = {chain.name: chain for chain in fixed}
        chains.update(self.chains)
        sets = {
            declared.name: replace(declared, elements=self.elements[declared.name]) for declared in self.sets.values()
        }
        return Table(self.family.name, name, chains=chains, sets=sets)

    def add(self, name: str, key: Key, target: Optional[Target] = None) -> None:
        self.elements[name][key] = Element(key, target)

    def add_addresses(self) -> None:
        """Elements of the sets of addresses."""
        here = self.view.node.name
        for service in self.view.services:
            self.add(layout.CLUSTER_IPS, (service.cluster_ip,))
            reach = self.reachable(service)
            if here:
                for endpoint in (*reach.cluster, *reach.local):
                    if endpoint.node == here:
                        self.add(layout.HAIRPIN, (endpoint.address, endpoint.address))
        for network in collapse(self.view.service_cidrs):
            self.add(layout.SERVICE_CIDRS, (network,))
        if not self.node_ports.all_local:
            for address in self.node_ports.addresses:
                self.add(layout.NODE_PORT_IPS, (address,))

    def add_frontend(self, frontend: Frontend) -> None:
        protocol = layout.protocol_name(frontend.protocol)
        if frontend.kind == NODE_PORT:
            self.add(layout.NODE_PORTS, (protocol, _number(frontend.port)), self.verdict(frontend))
            if frontend.protocol in self.config.rejected_on_loopback:
                self.add(layout.LOOPBACK_NODE_PORTS, (protocol, _number(frontend.port)), REJECT)
            return
        key = (frontend.address, protocol, _number(frontend.port))
        if frontend.kind == LOAD_BALANCER:
            self.add_source_ranges(frontend.service, key)
        self.add(layout.SERVICES, key, self.verdict(frontend))

    def add_source_ranges(self, service: ServicePort, key: Key) -> None:
        """Limit a load balancer's IP to its source ranges, if it has any."""
        networks = collapse(service.source_ranges)
        if not networks or networks[0].endswith("/0"):
            return
        node = self.view.node.primary
        if node and any(ipaddress.ip_address(node) in ipaddress.ip_network(network) for network in networks):
            # If a link of the node has the load balancer's address, packets of the node to it have it as their source.
            networks = collapse((*networks, *service.load_balancer_ips))
        name = affinity.hash_name("sources", *networks)
        if name not in self.chains:
            # A named set: in an anonymous one, nft joins networks that follow one another to ranges of its own.
            self.sets[name] = Set(name, (self.family.address_type,), flags=("interval",))
            self.elements[name] = {(network,): Element((network,)) for network in networks}
            refused = Match(self.family.source, Named(name), UNEQUAL)
            self.chains[name] = Chain(name, (Rule((refused, Verdict(DROP))),))
        self.add(layout.SOURCE_RANGES, key, Verdict(JUMP, name))

    def reachable(self, service: ServicePort) -> Reachable:
        if id(service) not in self.found:
            self.found[id(service)] = reachable(service, node=self.view.node.name, zone=self.view.node.zone)
        return self.found[id(service)]

    def verdict(self, frontend: Frontend) -> Verdict:
        """Where a packet to `frontend` goes. Adds the chain and its endpoints."""
        service = frontend.service
        reach = self.reachable(service)
        if not reach.has_any:
            return REJECT
        if frontend.kind == CLUSTER_IP:
            endpoints = reach.local if service.internal_local else reach.cluster
            return self.translate(frontend, endpoints, ()) if endpoints else Verdict(DROP)
        return self.translate(frontend, reach.cluster, reach.local if service.external_local else ())

    def translate(self, frontend: Frontend, everywhere: Sequence[Endpoint], here: Sequence[Endpoint]) -> Verdict:
        """Translate to `everywhere`; under externalTrafficPolicy Local, packets from outside to `here`."""
        if frontend.service.affinity_seconds:
            made = affinity.translate(self.policies, frontend, everywhere, here)
            self.chains.update((chain.name, chain) for chain in made.chains)
            for sources in made.sets:
                self.sets[sources.name] = sources
                self.elements[sources.name] = {}
            return Verdict(GOTO, made.entry)
        policy = policy_of(frontend)
        protocol = layout.protocol_name(frontend.protocol)
        all_of, local_of = layout.ENDPOINTS, layout.LOCAL_ENDPOINTS
        name = f"{policy}-{protocol}-{len(everywhere)}" + (f"-{len(here)}" if policy == LOCAL else "")
        if frontend.kind == NODE_PORT:
            all_of, local_of = layout.NODE_PORT_ENDPOINTS, layout.LOCAL_NODE_PORT_ENDPOINTS
            name = f"node-port-{name}"
        self.add_endpoints(f"{all_of}-{protocol}", frontend, everywhere)
        if here:
            self.add_endpoints(f"{local_of}-{protocol}", frontend, here)
        if name not in self.chains:
            to_all = self.draw(f"{all_of}-{protocol}", frontend, everywhere)
            to_local = self.draw(f"{local_of}-{protocol}", frontend, here) if here else ()
            self.chains[name] = Chain(name, self.policies.rules(policy, to_all, to_local))
            self.gotos[name] = Verdict(GOTO, name)
        return self.gotos[name]

    def add_endpoints(self, name: str, frontend: Frontend, endpoints: Sequence[Endpoint]) -> None:
        """Add each endpoint to the map, in a slot of its own."""
        elements = self.elements[name]
        port = _number(frontend.port)
        start = (port,) if frontend.kind == NODE_PORT else (frontend.address, port)
        for slot, endpoint in enumerate(endpoints):
            key = (*start, _number(slot))
            elements[key] = Element(key, (endpoint.address, _number(endpoint.port)))

    def draw(self, name: str, frontend: Frontend, endpoints: Sequence[Endpoint]) -> tuple[Statement, ...]:
        """The statement that picks one endpoint of the map at random."""
        slots = Numgen(len(endpoints))
        node_port = frontend.kind == NODE_PORT
        key = layout.slot_key(self.family, frontend.protocol, node_port=node_port, slot=slots)
        return (Nat("dnat", address=MapLookup(key, Named(name))),)


def collapse(networks: Iterable[str]) -> tuple[str, ...]:
    """The same addresses in the fewest networks, since nft refuses those that overlap; one address without its `/32`."""
    parsed = [ipaddress.ip_network(network) for network in networks]
    four = ipaddress.collapse_addresses([network for network in parsed if isinstance(network, ipaddress.IPv4Network)])
    six = ipaddress.collapse_addresses([network for network in parsed if isinstance(network, ipaddress.IPv6Network)])
    return tuple(_shortest(str(network)) for network in (*four, *six))


@lru_cache(maxsize=4096)
def _number(value: int) -> str:
    """Tens of thousands of elements share few ports and slots: one string for each."""
    return str(value)


def _shortest(network: str) -> str:
    """A network of one address as the bare address, as nft lists it."""
    address, _slash, length = network.partition("/")
    return address if length == ("128" if ":" in address else "32") else network
