# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A view of the cluster to our table of one family. `layout.py` says what stands where, and why.

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

from ..._core.names import MARK
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
    view: FamilyView, config: RuleConfig, *, table: str = MARK, priority_offset: int = 0, lets_by: bool = False
) -> Table:
    """Our table of the view's family.

    `priority_offset` is added to the priority of each base chain: with -1 our rules decide before those of a kube-proxy
    beside them. `lets_by`: leave it the packets that are to try them (layout.py).
    """
    compiler = _Compiler(view, config)
    compiler.add_addresses()
    for frontend in view.frontends:
        compiler.add_frontend(frontend)
    return compiler.table(table, priority_offset=priority_offset, lets_by=lets_by)


class _Compiler:
    """Elements and chains, as they are found while the view is walked once."""

    def __init__(self, view: FamilyView, config: RuleConfig) -> None:
        self.view = view
        self.config = config
        self.family = layout.FAMILY[view.family]
        self.node_ports = node_port_addresses(view, config)
        self.policies = PolicyRules(self.family, config.detector, config.masquerade_mark, config.masquerade_all)
        self.sets: dict[str, Set] = {one.name: one for one in layout.sets(self.family)}
        self.elements: dict[str, dict[Key, Element]] = {name: {} for name in self.sets}
        self.chains: dict[str, Chain] = {}
        self.gotos: dict[str, Verdict] = {}  # to chains that Services share
        self.found: dict[int, Reachable] = {}  # by identity: hashing a Service hashes all of its endpoints

    def table(self, name: str, *, priority_offset: int, lets_by: bool) -> Table:
        fixed = layout.chains(
            self.family,
            mark=self.config.masquerade_mark,
            all_local_node_ports=self.node_ports.all_local,
            priority_offset=priority_offset,
            lets_by=lets_by,
        )
        chains = {chain.name: chain for chain in fixed}
        chains.update(self.chains)
        sets = {one.name: replace(one, elements=self.elements[one.name]) for one in self.sets.values()}
        return Table(self.family.name, name, chains=chains, sets=sets)

    def add(self, name: str, key: Key, target: Optional[Target] = None) -> None:
        self.elements[name][key] = Element(key, target)

    def add_addresses(self) -> None:
        """What is about addresses alone."""
        here = self.view.node.name
        for service in self.view.services:
            self.add(layout.CLUSTER_IPS, (service.cluster_ip,))
            found = self.reachable(service)
            if here:
                for endpoint in (*found.cluster, *found.local):
                    if endpoint.node == here:
                        self.add(layout.HAIRPIN, (endpoint.address, endpoint.address))
        for network in collapsed(self.view.service_cidrs):
            self.add(layout.SERVICE_CIDRS, (network,))
        if not self.node_ports.all_local:
            for address in self.node_ports.addresses:
                self.add(layout.NODE_PORT_IPS, (address,))

    def add_frontend(self, frontend: Frontend) -> None:
        protocol = layout.protocol_name(frontend.protocol)
        if frontend.kind == NODE_PORT:
            self.add(layout.NODE_PORTS, (protocol, _number(frontend.port)), self.verdict(frontend))
            return
        key = (frontend.address, protocol, _number(frontend.port))
        if frontend.kind == LOAD_BALANCER:
            self.add_source_ranges(frontend.service, key)
        self.add(layout.SERVICES, key, self.verdict(frontend))

    def add_source_ranges(self, service: ServicePort, key: Key) -> None:
        """The networks that may use a load balancer's IP; nothing where all may."""
        networks = collapsed(service.source_ranges)
        if not networks or networks[0].endswith("/0"):
            return
        node = self.view.node.primary
        if node and any(ipaddress.ip_address(node) in ipaddress.ip_network(network) for network in networks):
            # Where the load balancer's address is on a link of the node, packets of the node to it come from it.
            networks = collapsed((*networks, *service.load_balancer_ips))
        name = affinity.hashed("sources", *networks)
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
        """Where a packet to `frontend` goes. Adds the chain and the endpoints that it finds there."""
        service = frontend.service
        found = self.reachable(service)
        if not found.has_any:
            return REJECT
        if frontend.kind == CLUSTER_IP:
            endpoints = found.local if service.internal_local else found.cluster
            return self.translation(frontend, endpoints, ()) if endpoints else Verdict(DROP)
        return self.translation(frontend, found.cluster, found.local if service.external_local else ())

    def translation(self, frontend: Frontend, everywhere: Sequence[Endpoint], here: Sequence[Endpoint]) -> Verdict:
        """To `everywhere`, or under externalTrafficPolicy Local from outside to `here`."""
        if frontend.service.affinity_seconds:
            made = affinity.translation(self.policies, frontend, everywhere, here)
            self.chains.update((chain.name, chain) for chain in made.chains)
            for one in made.sets:
                self.sets[one.name] = one
                self.elements[one.name] = {}
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
            to_all = self.drawn(f"{all_of}-{protocol}", frontend, everywhere)
            to_local = self.drawn(f"{local_of}-{protocol}", frontend, here) if here else ()
            self.chains[name] = Chain(name, self.policies.rules(policy, to_all, to_local))
            self.gotos[name] = Verdict(GOTO, name)
        return self.gotos[name]

    def add_endpoints(self, name: str, frontend: Frontend, endpoints: Sequence[Endpoint]) -> None:
        """Put them into their map, each in a slot."""
        elements = self.elements[name]
        port = _number(frontend.port)
        start = (port,) if frontend.kind == NODE_PORT else (frontend.address, port)
        for slot, endpoint in enumerate(endpoints):
            key = (*start, _number(slot))
            elements[key] = Element(key, (endpoint.address, _number(endpoint.port)))

    def drawn(self, name: str, frontend: Frontend, endpoints: Sequence[Endpoint]) -> tuple[Statement, ...]:
        """The statement that draws one of as many from their map."""
        slots = Numgen(len(endpoints))
        node_port = frontend.kind == NODE_PORT
        key = layout.slot_key(self.family, frontend.protocol, node_port=node_port, slot=slots)
        return (Nat("dnat", address=MapLookup(key, Named(name))),)


def collapsed(networks: Iterable[str]) -> tuple[str, ...]:
    """The same addresses in the fewest networks, since nft refuses those that overlap; one address without its `/32`."""
    parsed = [ipaddress.ip_network(network) for network in networks]
    four = ipaddress.collapse_addresses([one for one in parsed if isinstance(one, ipaddress.IPv4Network)])
    six = ipaddress.collapse_addresses([one for one in parsed if isinstance(one, ipaddress.IPv6Network)])
    return tuple(_shortest(str(one)) for one in (*four, *six))


@lru_cache(maxsize=4096)
def _number(value: int) -> str:
    """The few ports and slots of tens of thousands of elements, each written once."""
    return str(value)


def _shortest(network: str) -> str:
    """Of one address, the address: so nft lists it."""
    address, _slash, length = network.partition("/")
    return address if length == ("128" if ":" in address else "32") else network
