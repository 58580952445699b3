# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Random clusters as one node sees them, and packets worth sending at them.

`scenarios(backend=..., family=...)` draws a Scenario: a view, a config and surroundings that fit each other. `packets(scenario)`
draws some of `worthwhile_packets(scenario)`, which are all of them. Addresses, ports and names come from small pools, so
that Services share endpoints, claim the same destinations, and meet the node's own addresses.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Optional

from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._rules.frontends import assign_frontends
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import (
    NODE_PORT,
    Endpoint,
    FamilyView,
    LocalDetector,
    NodeView,
    RuleConfig,
    ServicePort,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import PROTOCOLS, Packet, Surroundings

BACKENDS = ("nftables", "iptables", "ipvs")
THIS_NODE, OTHER_NODE, NO_NODE = "n1", "n2", ""
BRIDGE, POD_LINK, POD_LINK_PREFIX, UPLINK, SECOND_LINK = "cni0", "veth1", "veth", "eth0", "eth1"
UNDEFINED_PORT = 7
PORTS = (53, 80, 443)
TARGET_PORTS = (8080, 8081)
NODE_PORTS = (30080, 30081, 30082, 32000)
HEALTH_CHECK_PORTS = (31001, 31002, 31003, 31004)
AFFINITY_SECONDS = (0, 0, 1, 300, 10800)


@dataclass(frozen=True)
class Pool:
    """The addresses of one family that everything is drawn from."""

    primary: str
    second: str
    late: str  # it came to a link after the view was made
    gateway: str  # of this node's pods, on BRIDGE
    loopback: str
    local_pods: tuple[str, ...]
    other_pods: tuple[str, ...]
    other_node: str
    idle_pod: str  # of this node, behind no Service
    cluster_ips: tuple[str, ...]
    unallocated: str
    external_ips: tuple[str, ...]  # the last one is a load balancer's as well
    load_balancer_ips: tuple[str, ...]
    clients: tuple[str, str]  # the first is in the smaller ranges, the second is not
    elsewhere: str
    cluster_cidr: str
    pod_cidr: str
    service_cidr: str
    source_ranges: tuple[str, ...]
    node_networks: tuple[str, ...]  # for nodePortAddresses

    def node_of(self, address: str) -> str:
        return THIS_NODE if address in (*self.local_pods, self.primary) else OTHER_NODE


POOLS = {
    4: Pool(
        primary="192.168.1.10",
        second="10.50.0.10",
        late="10.50.0.11",
        gateway="10.1.0.1",
        loopback="127.0.0.1",
        local_pods=("10.1.0.5", "10.1.0.6", "10.1.0.7"),
        other_pods=("10.1.1.5", "10.1.1.6"),
        other_node="192.168.1.20",
        idle_pod="10.1.0.99",
        cluster_ips=("10.96.0.1", "10.96.0.10", "10.96.0.11", "10.96.0.12"),
        unallocated="10.96.0.200",
        external_ips=("203.0.113.10", "203.0.113.11"),
        load_balancer_ips=("198.51.100.10", "203.0.113.11"),
        clients=("172.16.5.5", "172.17.0.5"),
        elsewhere="192.0.2.99",
        cluster_cidr="10.1.0.0/16",
        pod_cidr="10.1.0.0/24",
        service_cidr="10.96.0.0/24",
        source_ranges=(
            "172.16.0.0/16",
            "172.16.5.0/24",
            "192.168.1.0/24",
            "10.1.0.0/16",
            "198.51.100.10/32",
            "0.0.0.0/0",
        ),
        node_networks=("192.168.1.0/24", "10.50.0.0/16", "10.1.0.0/24", "127.0.0.0/8", "0.0.0.0/0", "172.31.0.0/16"),
    ),
    6: Pool(
        primary="fd00:192::10",
        second="fd00:50::10",
        late="fd00:50::11",
        gateway="fd00:1::1",
        loopback="::1",
        local_pods=("fd00:1::5", "fd00:1::6", "fd00:1::7"),
        other_pods=("fd00:1:0:1::5", "fd00:1:0:1::6"),
        other_node="fd00:192::20",
        idle_pod="fd00:1::99",
        cluster_ips=("fd00:96::1", "fd00:96::10", "fd00:96::11", "fd00:96::12"),
        unallocated="fd00:96::200",
        external_ips=("2001:db8:203::10", "2001:db8:203::11"),
        load_balancer_ips=("2001:db8:198::10", "2001:db8:203::11"),
        clients=("2001:db8:16::5", "2001:db8:17::5"),
        elsewhere="2001:db8:2::99",
        cluster_cidr="fd00:1::/48",
        pod_cidr="fd00:1::/64",
        service_cidr="fd00:96::/112",
        source_ranges=(
            "2001:db8:16::/48",
            "2001:db8:16::/64",
            "fd00:192::/64",
            "fd00:1::/48",
            "2001:db8:198::10/128",
            "::/0",
        ),
        node_networks=("fd00:192::/64", "fd00:50::/64", "fd00:1::/64", "::1/128", "::/0", "fd00:31::/64"),
    ),
}


@dataclass(frozen=True)
class Scenario:
    view: FamilyView
    config: RuleConfig
    surroundings: Surroundings

    @property
    def pool(self) -> Pool:
        return POOLS[self.view.family]

    def on(self, backend: str) -> Scenario:
        """The same cluster, its rules made by another backend."""
        return replace(self, config=replace(self.config, backend=backend))


@st.composite
def scenarios(draw: st.DrawFn, *, backend: Optional[str] = None, family: Optional[int] = None) -> Scenario:
    chosen = family or draw(st.sampled_from((4, 6)))
    pool = POOLS[chosen]
    services = draw(service_ports(pool))
    node, surroundings = draw(nodes(pool))
    owned, duplicates = assign_frontends(services, lambda _service: 0.0)
    view = FamilyView(
        family=chosen,
        node=node,
        services=services,
        frontends=owned,
        duplicates=duplicates,
        service_cidrs=(pool.service_cidr,) if draw(st.booleans()) else (),
    )
    return Scenario(view, draw(configs(pool, backend or draw(st.sampled_from(BACKENDS)))), surroundings)


def views(*, family: Optional[int] = None) -> st.SearchStrategy[FamilyView]:
    return scenarios(family=family).map(lambda scenario: scenario.view)


# --- node and configuration


@st.composite
def nodes(draw: st.DrawFn, pool: Pool) -> tuple[NodeView, Surroundings]:
    """A node with two links to the outside. Now and then a load balancer's address is bound to the second one, as
    keepalived does it; or that has got an address since; or the Node object has no address of the family."""
    bound = pool.load_balancer_ips[:1] if draw(st.booleans()) else ()
    late = (pool.late,) if draw(st.integers(0, 4)) == 0 else ()
    links = (
        ("lo", (pool.loopback,)),
        (BRIDGE, (pool.gateway,)),
        (UPLINK, (pool.primary,)),
        (SECOND_LINK, (pool.second, *bound, *late)),
    )
    node = NodeView(
        name=THIS_NODE,
        zone=draw(st.sampled_from(("", "a", "b"))),
        primary=pool.primary if draw(st.integers(0, 9)) else "",
        addresses=tuple(sorted((pool.gateway, pool.primary, pool.second, *bound))),
        pod_cidr=pool.pod_cidr,
    )
    return node, Surroundings(links)


@st.composite
def configs(draw: st.DrawFn, pool: Pool, backend: str) -> RuleConfig:
    detectors = (
        LocalDetector("cidr", pool.cluster_cidr),
        LocalDetector("cidr", pool.pod_cidr),
        LocalDetector("bridge", BRIDGE),
        LocalDetector("prefix", POD_LINK_PREFIX),
        LocalDetector(),
    )
    networks = st.lists(st.sampled_from(pool.node_networks), min_size=1, max_size=2, unique=True).map(tuple)
    return RuleConfig(
        backend=backend,
        detector=draw(st.sampled_from(detectors)),
        masquerade_all=draw(st.integers(0, 4)) == 0,
        masquerade_bit=draw(st.sampled_from((14, 0, 31))),
        node_port_addresses=draw(st.none() | st.just(("primary",)) | networks),
        localhost_node_ports=draw(st.booleans()),
        rejected_on_loopback=draw(st.sampled_from(((), ("UDP", "SCTP"), PROTOCOLS))) if backend == "nftables" else (),
        tcp_be_liberal=draw(st.booleans()),
        scheduler=draw(st.sampled_from(("rr", "sh", "wlc"))) if backend == "ipvs" else "rr",
    )


# --- Services


@st.composite
def service_ports(draw: st.DrawFn, pool: Pool) -> tuple[ServicePort, ...]:
    """All ports of up to four Services; node ports and health check ports are given out once, as the API server does."""
    free_node_ports = {protocol: list(NODE_PORTS) for protocol in PROTOCOLS}
    found: list[ServicePort] = []
    for number in range(draw(st.integers(0, len(pool.cluster_ips)))):
        found += draw(_one_service(pool, number, free_node_ports))
    return tuple(sorted(found, key=lambda one: (one.namespace, one.name, one.protocol, one.port_name)))


@st.composite
def _one_service(
    draw: st.DrawFn, pool: Pool, number: int, free_node_ports: dict[str, list[int]]
) -> tuple[ServicePort, ...]:
    balanced = draw(st.booleans())
    external_local = draw(st.booleans())
    whole = ServicePort(
        namespace=draw(st.sampled_from(("default", "shop"))),
        name=f"s{number}",
        port_name="",
        protocol="TCP",
        port=0,
        cluster_ip=pool.cluster_ips[number],
        external_ips=draw(_some((*pool.external_ips, pool.primary), 2)) if draw(st.booleans()) else (),
        load_balancer_ips=draw(_some(pool.load_balancer_ips, 2)) if balanced else (),
        source_ranges=draw(_some(pool.source_ranges, 2)) if balanced and draw(st.booleans()) else (),
        internal_local=draw(st.integers(0, 2)) == 0,
        external_local=external_local,
        affinity_seconds=draw(st.sampled_from(AFFINITY_SECONDS)),
        health_check_node_port=HEALTH_CHECK_PORTS[number] if balanced and external_local else 0,
    )
    keys = draw(
        st.lists(st.tuples(st.sampled_from(PROTOCOLS), st.sampled_from(PORTS)), min_size=1, max_size=3, unique=True)
    )
    with_node_ports = draw(st.booleans())
    ports: list[ServicePort] = []
    for index, (protocol, port) in enumerate(keys):
        node_port = 0
        if with_node_ports and free_node_ports[protocol]:
            node_port = draw(st.sampled_from(free_node_ports[protocol]))
            free_node_ports[protocol].remove(node_port)
        ports.append(
            whole._replace(
                port_name="" if len(keys) == 1 else f"p{index}",
                protocol=protocol,
                port=port,
                node_port=node_port,
                endpoints=draw(endpoints(pool)),
            )
        )
    return tuple(ports)


def _some(pool: tuple[str, ...], most: int) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(pool), max_size=most, unique=True).map(lambda found: tuple(sorted(found)))


@st.composite
def endpoints(draw: st.DrawFn, pool: Pool) -> tuple[Endpoint, ...]:
    """None, or a few in every condition; hints on all, on some, or on none of them."""
    addresses = (*pool.local_pods, *pool.other_pods, pool.primary, pool.other_node)
    key = st.tuples(st.sampled_from(addresses), st.sampled_from(TARGET_PORTS))
    keys = draw(st.lists(key, min_size=draw(st.sampled_from((0, 1, 2, 3))), max_size=4, unique=True))
    hinted = draw(st.sampled_from(("none", "none", "zones", "nodes", "both", "some")))
    found: list[Endpoint] = []
    for address, port in keys:
        ready, serving, terminating = draw(st.sampled_from(CONDITIONS))
        with_zones = hinted in ("zones", "both") or (hinted == "some" and draw(st.booleans()))
        with_nodes = hinted in ("nodes", "both") or (hinted == "some" and draw(st.booleans()))
        node = pool.node_of(address)
        found.append(
            Endpoint(
                address,
                port,
                ready=ready,
                serving=serving,
                terminating=terminating,
                node=NO_NODE if node == OTHER_NODE and draw(st.booleans()) else node,
                zone_hints=draw(st.sampled_from((("a",), ("b",), ("a", "b")))) if with_zones else (),
                node_hints=draw(st.sampled_from(((THIS_NODE,), (OTHER_NODE,), (THIS_NODE, OTHER_NODE))))
                if with_nodes
                else (),
            )
        )
    return tuple(sorted(found))


# ready, serving, terminating: mostly ready, else on its way up, draining, or gone but still listed
CONDITIONS = (
    (True, True, False),
    (True, True, False),
    (True, True, False),
    (False, False, False),
    (False, True, True),
    (False, False, True),
)


# --- packets


@st.composite
def packets(draw: st.DrawFn, scenario: Scenario, *, most: int = 25) -> tuple[Packet, ...]:
    """Up to `most` of the worthwhile ones, two of three to a frontend: every so many, in an order without order, so that
    they are of every kind."""
    every = list(worthwhile_packets(scenario))
    random.Random(0).shuffle(every)
    keys = {one.key for one in scenario.view.frontends}
    misses = [
        {(one.destination, one.protocol, one.port), ("", one.protocol, one.port)}.isdisjoint(keys) for one in every
    ]
    served = [one for one, miss in zip(every, misses) if not miss]
    others = [one for one, miss in zip(every, misses) if miss]
    return draw(_every_so_many(served, most * 2 // 3)) + draw(_every_so_many(others, most // 3))


def _every_so_many(found: list[Packet], most: int) -> st.SearchStrategy[tuple[Packet, ...]]:
    step = max(1, -(-len(found) // most))
    return st.integers(0, step - 1).map(lambda start: tuple(found[start::step]))


def worthwhile_packets(scenario: Scenario) -> tuple[Packet, ...]:
    """From every kind of source to every kind of destination; a few hundred to a few thousand."""
    loopback = scenario.pool.loopback
    found: list[Packet] = []
    for source, interface, node_local in sources(scenario):
        for destination, port, protocol in destinations(scenario):
            # Only a process of the node itself can reach its loopback, and it does so from there.
            if (destination == loopback) == (source == loopback):
                found.append(Packet(source, destination, port, protocol, interface, node_local))
    return tuple(found)


def sources(scenario: Scenario) -> tuple[tuple[str, str, bool], ...]:
    """Address, inbound interface and whether it is a process of the node: pods of this node (endpoints among them, for
    hairpins), of another one, another node, clients allowed and refused, the node by each of its addresses, and a load
    balancer's address that is bound to the node."""
    pool = scenario.pool
    pod_link = POD_LINK if scenario.config.detector.kind == "prefix" else BRIDGE
    found = [(address, pod_link, False) for address in (*pool.local_pods, pool.idle_pod)]
    found += [(address, UPLINK, False) for address in (*pool.other_pods, pool.other_node, *pool.clients)]
    found += [(address, "", True) for _link, addresses in scenario.surroundings.interfaces for address in addresses]
    if scenario.config.backend == "ipvs":
        # The node has every clusterIP as its own, and the kernel takes it as the source of packets to it.
        found += [(address, "", True) for address in pool.cluster_ips[:1]]
    return tuple(found)


def destinations(scenario: Scenario) -> tuple[tuple[str, int, str], ...]:
    """Every frontend, an undefined port and every other protocol of its address; node ports and undefined ones on every
    address of the node; health check ports; an unallocated cluster IP, an endpoint directly, and an address outside."""
    view, pool = scenario.view, scenario.pool
    own = tuple(address for _link, addresses in scenario.surroundings.interfaces for address in addresses)
    found: set[tuple[str, int, str]] = {
        (pool.unallocated, 80, "TCP"),
        (pool.unallocated, 53, "UDP"),
        (pool.local_pods[0], TARGET_PORTS[0], "TCP"),
        (pool.elsewhere, 80, "TCP"),
    }
    for frontend in view.frontends:
        addresses = (*own, pool.other_node) if frontend.kind == NODE_PORT else (frontend.address,)
        for address in addresses:
            found |= {(address, frontend.port, protocol) for protocol in PROTOCOLS}
            found.add((address, UNDEFINED_PORT, frontend.protocol))
    for service in view.services:
        if service.health_check_node_port:
            for address in (pool.primary, service.cluster_ip):
                found |= {(address, service.health_check_node_port, protocol) for protocol in PROTOCOLS}
    return tuple(sorted(found))
