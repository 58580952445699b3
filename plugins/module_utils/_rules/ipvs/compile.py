# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compiles a view into the kernel objects of the ipvs backend, in kube-proxy's own layout.

Every Service address is bound to kube-ipvs0, a dummy link, so that packets to it are local for the kernel: they pass INPUT,
where ip_vs sends them to a real server. Node ports have a virtual server per address of the node instead. ip_vs does not
change source addresses: nat PREROUTING and OUTPUT mark packets by ipsets, and POSTROUTING masquerades those (iptables.py). A
Service changes only elements of the sets. Source: kube-proxy, topology.go, ipvs/proxier.go, ipvs/ipset.go.

Limits: a virtual server has one set of endpoints for every source, so with externalTrafficPolicy Local pods of this node get
only local endpoints too. Without a local endpoint kube-proxy uses the cluster's endpoints, for the sake
of pods of this node; so do we. Without any endpoint the virtual server is empty, and ip_vs rejects. So some packets that
other backends drop are rejected or served here.
"""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Mapping

from ..model import CLUSTER_IP, EXTERNAL_IP, LOAD_BALANCER, NODE_PORT, Endpoint, FamilyView, Frontend, RuleConfig
from ..node_ports import node_port_addresses
from ..topology import reachable
from .iptables import compile_tables
from .objects import (
    DEFAULT_MAXELEM,
    SET_TYPES,
    IpSet,
    IpvsRules,
    RealServer,
    VirtualServer,
    address_bytes,
    set_name,
    sort_servers,
)

_REUSE_MODE_FROM, _REUSE_MODE_UNTIL = (4, 1), (5, 9)  # since 5.9 the kernel's default is harmless
_HALVES = {4: ("0.0.0.0/1", "128.0.0.0/1"), 6: ("::/1", "8000::/1")}


def compile_rules(view: FamilyView, config: RuleConfig) -> IpvsRules:
    """The desired kernel objects. The same view and config give the same value.

    A destination claimed both by a Service address and by a node port on an address of the node belongs to the Service
    address, as in the other backends.
    """
    servers: dict[tuple[int, str, str, int], VirtualServer] = {}
    for frontend in view.frontends:
        for server in _virtual_servers(view, config, frontend):
            servers.setdefault(server.key, server)
    bound = {frontend.address for frontend in view.frontends if frontend.address} - set(view.node.addresses)
    # A cluster IP is always bound; an address of the node is already on another link.
    bound |= {frontend.address for frontend in view.frontends if frontend.kind == CLUSTER_IP}
    elements = _elements(view, config)
    elements["KUBE-IPVS-IPS"] = bound
    return IpvsRules(
        family=view.family,
        link=True,
        addresses=tuple(sorted(bound, key=address_bytes)),
        servers=sort_servers(list(servers.values())),
        sets=_sets(view.family, elements),
        tables=compile_tables(
            view.family,
            config,
            used=frozenset(name for name, members in elements.items() if members),
            closed_to_node=_closed_to_node(view),
        ),
    )


def required_sysctls(config: RuleConfig, *, kernel: tuple[int, int]) -> tuple[tuple[str, str], ...]:
    """The kernel settings that this backend needs, as (name, value), for this kernel version. Source:
    kube-proxy, ipvs/proxier.go."""
    settings = [
        ("net.ipv4.vs.conntrack", "1"),
        ("net.ipv4.vs.expire_nodest_conn", "1"),
        ("net.ipv4.vs.expire_quiescent_template", "1"),
        ("net.ipv4.ip_forward", "1"),
    ]
    if _REUSE_MODE_FROM <= kernel < _REUSE_MODE_UNTIL:
        settings.insert(1, ("net.ipv4.vs.conn_reuse_mode", "0"))
    if config.strict_arp:
        settings += [("net.ipv4.conf.all.arp_ignore", "1"), ("net.ipv4.conf.all.arp_announce", "2")]
    return tuple(settings)


def _virtual_servers(view: FamilyView, config: RuleConfig, frontend: Frontend) -> list[VirtualServer]:
    addresses = _node_addresses(view, config) if frontend.kind == NODE_PORT else (frontend.address,)
    real_servers = tuple(sorted(RealServer(endpoint.address, endpoint.port) for endpoint in _endpoints(view, frontend)))
    return [
        VirtualServer(
            address=address,
            port=frontend.port,
            protocol=frontend.protocol,
            scheduler=config.scheduler,
            persistent_seconds=frontend.service.affinity_seconds,
            flags=("mh-port",) if config.scheduler == "mh" else (),
            real_servers=real_servers,
        )
        for address in addresses
    ]


def _endpoints(view: FamilyView, frontend: Frontend) -> Iterable[Endpoint]:
    service = frontend.service
    reach = reachable(service, node=view.node.name, zone=view.node.zone)
    local = service.internal_local if frontend.kind == CLUSTER_IP else service.external_local
    if local and reach.local:
        return reach.local
    return reach.cluster


def _node_addresses(view: FamilyView, config: RuleConfig) -> tuple[str, ...]:
    serving = node_port_addresses(view, config)
    if view.family == 4 or not serving.all_local:
        return serving.addresses
    # In IPv6 every link has a link-local address: kube-proxy omits those if node ports are not limited to networks.
    return tuple(address for address in serving.addresses if not ipaddress.ip_address(address).is_link_local)


def _elements(view: FamilyView, config: RuleConfig) -> dict[str, set[str]]:
    """The elements of each set, by its IPv4 name."""
    elements: dict[str, set[str]] = defaultdict(set)
    for service in view.services:
        for endpoint in service.endpoints:
            if endpoint.node == view.node.name:
                elements["KUBE-LOOP-BACK"].add(
                    f"{_key(endpoint.address, service.protocol, endpoint.port)},{endpoint.address}"
                )
        if service.health_check_node_port:
            elements["KUBE-HEALTH-CHECK-NODE-PORT"].add(str(service.health_check_node_port))
    node_addresses = _node_addresses(view, config)
    for frontend in view.frontends:
        for name, element in _frontend_elements(view, frontend, node_addresses):
            elements[name].add(element)
    return elements


def _frontend_elements(
    view: FamilyView, frontend: Frontend, node_addresses: tuple[str, ...]
) -> Iterable[tuple[str, str]]:
    local = frontend.service.external_local
    key = _key(frontend.address, frontend.protocol, frontend.port)
    if frontend.kind == CLUSTER_IP:
        yield "KUBE-CLUSTER-IP", key
    elif frontend.kind == EXTERNAL_IP:
        yield ("KUBE-EXTERNAL-IP-LOCAL" if local else "KUBE-EXTERNAL-IP"), key
    elif frontend.kind == LOAD_BALANCER:
        yield "KUBE-LOAD-BALANCER", key
        if local:
            yield "KUBE-LOAD-BALANCER-LOCAL", key
        yield from _firewall_elements(view, frontend, key)
    elif node_addresses:
        kind = f"{frontend.protocol}-HASH" if frontend.protocol == "SCTP" else frontend.protocol
        elements = [str(frontend.port)]
        if frontend.protocol == "SCTP":  # as in kube-proxy: port sets did not support SCTP
            elements = [_key(address, frontend.protocol, frontend.port) for address in node_addresses]
        for element in elements:
            yield f"KUBE-NODE-PORT-{kind}", element
            if local:
                yield f"KUBE-NODE-PORT-LOCAL-{kind}", element


def _firewall_elements(view: FamilyView, frontend: Frontend, key: str) -> Iterable[tuple[str, str]]:
    ranges = frontend.service.source_ranges
    if not ranges:
        return
    yield "KUBE-LOAD-BALANCER-FW", key
    for network in ranges:
        for part in _storable(network, view.family):
            yield "KUBE-LOAD-BALANCER-SOURCE-CIDR", f"{key},{part}"
    if _node_is_allowed(view, frontend):
        # The source of a packet of this node is its destination, since that is an address of the node.
        yield "KUBE-LOAD-BALANCER-SOURCE-IP", f"{key},{frontend.address}"


def _closed_to_node(view: FamilyView) -> tuple[tuple[str, str, int], ...]:
    """Address, protocol and port of load balancers whose source ranges exclude this node. Its packets do not pass INPUT, so
    the sets cannot drop them."""
    return tuple(
        (frontend.address, frontend.protocol, frontend.port)
        for frontend in view.frontends
        if frontend.kind == LOAD_BALANCER and frontend.service.source_ranges and not _node_is_allowed(view, frontend)
    )


def _node_is_allowed(view: FamilyView, frontend: Frontend) -> bool:
    if not view.node.primary:
        return False
    primary = ipaddress.ip_address(view.node.primary)
    return any(primary in ipaddress.ip_network(network) for network in frontend.service.source_ranges)


def _storable(network: str, family: int) -> tuple[str, ...]:
    """A network in the form that a set can hold: one of length 0 as two halves, one of full length as an address."""
    parsed = ipaddress.ip_network(network)
    if parsed.prefixlen == 0:
        return _HALVES[family]
    return (str(parsed.network_address) if parsed.num_addresses == 1 else str(parsed),)


def _sets(family: int, elements: Mapping[str, set[str]]) -> tuple[IpSet, ...]:
    """All sets, including empty ones, because some rules always refer to them."""
    sets = []
    for name, kind in SET_TYPES.items():
        held = frozenset(elements.get(name, ()))
        room = max(DEFAULT_MAXELEM, 1 << len(held).bit_length())
        sets.append(IpSet(set_name(name, family), kind, 0 if kind == "bitmap:port" else family, held, room))
    return tuple(sorted(sets, key=lambda ipset: ipset.name))


def _key(address: str, protocol: str, port: int) -> str:
    return f"{address},{protocol.lower()}:{port}"
