# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compiles a view of the cluster into our table of one family. `layout.py` explains where each rule is, and why.

The chains made here are named after the number of endpoints they pick from:

    cluster-ip-tcp-4         for a clusterIP, with either internalTrafficPolicy
    external-tcp-4           for an external or load balancer IP, with externalTrafficPolicy Cluster
    local-tcp-4-2            the same with Local: 4 endpoints on all nodes, 2 on this one
    node-port-external-tcp-4, node-port-local-tcp-4-2
    sources-HASH-...         the networks that may use a load balancer IP, with a set of that name; equal networks share
                             one chain
    ...-HASH-...             with sessionAffinity (`affinity.py`)

The same view gives the same table. Semantics: kube-proxy 1.37, topology.go, nftables/proxier.go, util/localdetector.go,
util/nodeport_addresses.go.
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
    """Our table for the family of the view.

    `priority_offset` is added to the priority of each base chain: with -1 our rules decide before those of a running
    kube-proxy. With `dscp_bypass`, packets with BYPASS_DSCP are left to kube-proxy (layout.py).
    """
    compiler = Compiler(view, config)
    part = Part()
    compiler.add_services(part, view.services, view.frontends)
    return compiler.table(part, table, priority_offset=priority_offset, dscp_bypass=dscp_bypass, owner=owner)


class Part:
    """The part of a table that belongs to Services: to all of them, or to one."""

    __slots__ = ("chains", "elements", "sets")

    def __init__(self) -> None:
        self.elements: dict[str, dict[Key, Element]] = {}  # by name of the set
        self.sets: dict[str, Set] = {}  # without elements; without those that every table has
        self.chains: dict[str, Chain] = {}  # without those that every table has

    def add(self, name: str, key: Key, target: Optional[Target] = None) -> None:
        """Add an element to the set or map `name`. `target` is the value in a map; a set has none."""
        self.elements.setdefault(name, {})[key] = Element(key, target)


class Compiler:
    """Compiles Services for one node and one configuration, all into one Part or each into its own.

    Does not read the Services and frontends of `view`: the caller passes them in, possibly one by one."""

    def __init__(self, view: FamilyView, config: RuleConfig) -> None:
        self.view = view
        self.config = config
        self.family = layout.FAMILY[view.family]
        self.node_ports = node_port_addresses(view, config)
        self.policies = PolicyRules(self.family, config.detector, config.masquerade_mark, config.masquerade_all)
        self.shared: dict[str, tuple[Chain, Verdict]] = {}  # chains that Services share, and the verdict to each
        self.found: dict[int, Reachable] = {}  # by identity, since hashing a Service hashes all its endpoints

    def add_services(self, part: Part, services: Iterable[ServicePort], frontends: Iterable[Frontend]) -> None:
        """`frontends` are those that belong to `services`, each destination once."""
        self.found.clear()
        for service in services:
            self._add_service(part, service)
        for frontend in frontends:
            self._add_frontend(part, frontend)

    def table(
        self,
        part: Part,
        name: str = MARK,
        *,
        priority_offset: int = 0,
        dscp_bypass: bool = False,
        owner: str = layout.SERVICE_RULES,
    ) -> Table:
        """The table with its fixed parts and `part`."""
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
        chains.update(part.chains)
        declared = {each.name: each for each in self.sets()}
        declared.update(part.sets)
        elements = {**part.elements, **self._addresses()}
        sets = {at: replace(each, elements=elements[at]) if at in elements else each for at, each in declared.items()}
        return Table(self.family.name, name, chains=chains, sets=sets)

    def sets(self) -> tuple[Set, ...]:
        """The sets that every table has, without elements."""
        loopback = (layout.loopback_node_ports(),) if self.config.rejected_on_loopback else ()
        return (*layout.sets(self.family), *loopback)

    def _addresses(self) -> dict[str, dict[Key, Element]]:
        """The elements that belong to no Service."""
        served = () if self.node_ports.all_local else self.node_ports.addresses
        return {
            layout.SERVICE_CIDRS: {(network,): Element((network,)) for network in collapse(self.view.service_cidrs)},
            layout.NODE_PORT_IPS: {(address,): Element((address,)) for address in served},
        }

    def _add_service(self, part: Part, service: ServicePort) -> None:
        part.add(layout.CLUSTER_IPS, (service.cluster_ip,))
        here = self.view.node.name
        reach = self._reachable(service)
        if here:
            for endpoint in (*reach.cluster, *reach.local):
                if endpoint.node == here:
                    part.add(layout.HAIRPIN, (endpoint.address, endpoint.address))

    def _add_frontend(self, part: Part, frontend: Frontend) -> None:
        protocol = layout.protocol_name(frontend.protocol)
        if frontend.kind == NODE_PORT:
            part.add(layout.NODE_PORTS, (protocol, _number(frontend.port)), self._verdict(part, frontend))
            if frontend.protocol in self.config.rejected_on_loopback:
                part.add(layout.LOOPBACK_NODE_PORTS, (protocol, _number(frontend.port)), REJECT)
            return
        key = (frontend.address, protocol, _number(frontend.port))
        if frontend.kind == LOAD_BALANCER:
            self._add_source_ranges(part, frontend.service, key)
        part.add(layout.SERVICES, key, self._verdict(part, frontend))

    def _add_source_ranges(self, part: Part, service: ServicePort, key: Key) -> None:
        """Restrict a load balancer IP to its source ranges, if it has any."""
        networks = collapse(service.source_ranges)
        if not networks or networks[0].endswith("/0"):
            return
        node = self.view.node.primary
        if node and any(ipaddress.ip_address(node) in ipaddress.ip_network(network) for network in networks):
            # If the load balancer's address is on a link of this node, packets of the node to it have it as their source,
            # too.
            networks = collapse((*networks, *service.load_balancer_ips))
        name = affinity.hash_name("sources", *networks)
        if name not in part.chains:
            # A named set: in an anonymous one, nft merges adjacent networks into ranges.
            part.sets[name] = Set(name, (self.family.address_type,), flags=("interval",))
            part.elements[name] = {(network,): Element((network,)) for network in networks}
            refused = Match(self.family.source, Named(name), UNEQUAL)
            part.chains[name] = Chain(name, (Rule((refused, Verdict(DROP))),))
        part.add(layout.SOURCE_RANGES, key, Verdict(JUMP, name))

    def _reachable(self, service: ServicePort) -> Reachable:
        if id(service) not in self.found:
            self.found[id(service)] = reachable(service, node=self.view.node.name, zone=self.view.node.zone)
        return self.found[id(service)]

    def _verdict(self, part: Part, frontend: Frontend) -> Verdict:
        """Where a packet to `frontend` goes. Adds the chain and its endpoints to `part`."""
        service = frontend.service
        reach = self._reachable(service)
        if not reach.has_any:
            return REJECT
        if frontend.kind == CLUSTER_IP:
            endpoints = reach.local if service.internal_local else reach.cluster
            return self._translate(part, frontend, endpoints, ()) if endpoints else Verdict(DROP)
        return self._translate(part, frontend, reach.cluster, reach.local if service.external_local else ())

    def _translate(
        self, part: Part, frontend: Frontend, everywhere: Sequence[Endpoint], here: Sequence[Endpoint]
    ) -> Verdict:
        """Translate to `everywhere`; with externalTrafficPolicy Local, packets from outside to `here`."""
        if frontend.service.affinity_seconds:
            made = affinity.translate(self.policies, frontend, everywhere, here)
            part.chains.update((chain.name, chain) for chain in made.chains)
            part.sets.update((sources.name, sources) for sources in made.sets)
            return Verdict(GOTO, made.entry)
        policy = policy_of(frontend)
        protocol = layout.protocol_name(frontend.protocol)
        all_of, local_of = layout.ENDPOINTS, layout.LOCAL_ENDPOINTS
        name = f"{policy}-{protocol}-{len(everywhere)}" + (f"-{len(here)}" if policy == LOCAL else "")
        if frontend.kind == NODE_PORT:
            all_of, local_of = layout.NODE_PORT_ENDPOINTS, layout.LOCAL_NODE_PORT_ENDPOINTS
            name = f"node-port-{name}"
        _add_endpoints(part, f"{all_of}-{protocol}", frontend, everywhere)
        if here:
            _add_endpoints(part, f"{local_of}-{protocol}", frontend, here)
        if name not in self.shared:
            to_all = self._draw(f"{all_of}-{protocol}", frontend, everywhere)
            to_local = self._draw(f"{local_of}-{protocol}", frontend, here) if here else ()
            self.shared[name] = (Chain(name, self.policies.rules(policy, to_all, to_local)), Verdict(GOTO, name))
        part.chains[name], verdict = self.shared[name]
        return verdict

    def _draw(self, name: str, frontend: Frontend, endpoints: Sequence[Endpoint]) -> tuple[Statement, ...]:
        """The statement that picks a random endpoint of the map."""
        slots = Numgen(len(endpoints))
        node_port = frontend.kind == NODE_PORT
        key = layout.slot_key(self.family, frontend.protocol, node_port=node_port, slot=slots)
        return (Nat("dnat", address=MapLookup(key, Named(name))),)


def _add_endpoints(part: Part, name: str, frontend: Frontend, endpoints: Sequence[Endpoint]) -> None:
    """Add each endpoint to the map, in its own slot."""
    elements = part.elements.setdefault(name, {})
    port = _number(frontend.port)
    start = (port,) if frontend.kind == NODE_PORT else (frontend.address, port)
    for slot, endpoint in enumerate(endpoints):
        key = (*start, _number(slot))
        elements[key] = Element(key, (endpoint.address, _number(endpoint.port)))


def collapse(networks: Iterable[str]) -> tuple[str, ...]:
    """The same addresses in the fewest networks, because nft refuses overlapping ones. A single address has no `/32`."""
    parsed = [ipaddress.ip_network(network) for network in networks]
    four = ipaddress.collapse_addresses([network for network in parsed if isinstance(network, ipaddress.IPv4Network)])
    six = ipaddress.collapse_addresses([network for network in parsed if isinstance(network, ipaddress.IPv6Network)])
    return tuple(_shortest(str(network)) for network in (*four, *six))


@lru_cache(maxsize=4096)
def _number(value: int) -> str:
    """Cached, because tens of thousands of elements share few ports and slots: one string each."""
    return str(value)


def _shortest(network: str) -> str:
    """A network of one address as just the address, as nft prints it."""
    address, _slash, length = network.partition("/")
    return address if length == ("128" if ":" in address else "32") else network
