# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From the view to what the ipvs backend keeps in the kernel, in kube-proxy's own layout.

Every service address is bound to kube-ipvs0, a dummy link, so that the kernel takes a packet for it as its own: it passes
INPUT, and there ip_vs sends it to a real server. Node ports have a virtual server for each address of the node instead.
ip_vs sets no source address: what is masqueraded is marked in nat PREROUTING and OUTPUT by ipsets, whose elements are all
that changes with a Service, and done in POSTROUTING (iptables.py). Source: reference of kube-proxy 1.2 to 1.6 and 2.3.

What a virtual server cannot say: one and the same set of endpoints serves every source, so that under
externalTrafficPolicy Local pods of this node get the local endpoints too (reference 1.7, 16). Where no endpoint is local,
kube-proxy sends the packet to the endpoints of the cluster, for pods of this node; so do we. Without any endpoint the
virtual server is empty, and ip_vs rejects. A packet that is dropped elsewhere is thus rejected or served here.
"""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Mapping

from ..model import CLUSTER_IP, EXTERNAL_IP, LOAD_BALANCER, NODE_PORT, Endpoint, FamilyView, Frontend, RuleConfig
from ..node_ports import node_port_addresses
from ..topology import reachable
from .iptables import compile_tables
from .objects import DEFAULT_MAXELEM, SET_TYPES, IpSet, IpvsRules, RealServer, VirtualServer, in_order, packed, set_name

_REUSE_MODE_FROM, _REUSE_MODE_UNTIL = (4, 1), (5, 9)  # from 5.9 on the kernel's own setting does no harm
_HALVES = {4: ("0.0.0.0/1", "128.0.0.0/1"), 6: ("::/1", "8000::/1")}


def compile_rules(view: FamilyView, config: RuleConfig) -> IpvsRules:
    """What should be in the kernel. The same view and config give the same value.

    A destination that is claimed both by a service address and by a node port on an address of the node belongs to the
    service address, as in the other backends.
    """
    servers: dict[tuple[int, str, str, int], VirtualServer] = {}
    for frontend in view.frontends:
        for server in _virtual_servers(view, config, frontend):
            servers.setdefault(server.key, server)
    bound = {one.address for one in view.frontends if one.address} - set(view.node.addresses)
    # A cluster IP is bound whatever else has it; an address of the node is on its own link already.
    bound |= {one.address for one in view.frontends if one.kind == CLUSTER_IP}
    elements = _elements(view, config)
    elements["KUBE-IPVS-IPS"] = bound
    return IpvsRules(
        family=view.family,
        link=True,
        addresses=tuple(sorted(bound, key=packed)),
        servers=in_order(list(servers.values())),
        sets=_sets(view.family, elements),
        tables=compile_tables(
            view.family,
            config,
            used=frozenset(name for name, found in elements.items() if found),
            closed_to_node=_closed_to_node(view),
        ),
    )


def requirements(config: RuleConfig, *, kernel: tuple[int, int]) -> tuple[tuple[str, str], ...]:
    """The kernel settings that this backend needs, name and value, for a kernel of that version. Source: reference 1.6."""
    found = [
        ("net.ipv4.vs.conntrack", "1"),
        ("net.ipv4.vs.expire_nodest_conn", "1"),
        ("net.ipv4.vs.expire_quiescent_template", "1"),
        ("net.ipv4.ip_forward", "1"),
    ]
    if _REUSE_MODE_FROM <= kernel < _REUSE_MODE_UNTIL:
        found.insert(1, ("net.ipv4.vs.conn_reuse_mode", "0"))
    if config.strict_arp:
        found += [("net.ipv4.conf.all.arp_ignore", "1"), ("net.ipv4.conf.all.arp_announce", "2")]
    return tuple(found)


def _virtual_servers(view: FamilyView, config: RuleConfig, frontend: Frontend) -> list[VirtualServer]:
    addresses = _node_addresses(view, config) if frontend.kind == NODE_PORT else (frontend.address,)
    real_servers = tuple(sorted(RealServer(one.address, one.port) for one in _endpoints(view, frontend)))
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
    found = reachable(service, node=view.node.name, zone=view.node.zone)
    local = service.internal_local if frontend.kind == CLUSTER_IP else service.external_local
    if local and found.local:
        return found.local
    return found.cluster


def _node_addresses(view: FamilyView, config: RuleConfig) -> tuple[str, ...]:
    found = node_port_addresses(view, config)
    if view.family == 4 or not found.all_local:
        return found.addresses
    # In IPv6 every link has such an address: kube-proxy leaves them out where nothing limits node ports.
    return tuple(one for one in found.addresses if not ipaddress.ip_address(one).is_link_local)


def _elements(view: FamilyView, config: RuleConfig) -> dict[str, set[str]]:
    """Elements by the name that the set has in IPv4."""
    found: dict[str, set[str]] = defaultdict(set)
    for service in view.services:
        for one in service.endpoints:
            if one.node == view.node.name:
                found["KUBE-LOOP-BACK"].add(f"{_key(one.address, service.protocol, one.port)},{one.address}")
        if service.health_check_node_port:
            found["KUBE-HEALTH-CHECK-NODE-PORT"].add(str(service.health_check_node_port))
    node_addresses = _node_addresses(view, config)
    for frontend in view.frontends:
        for name, element in _frontend_elements(view, frontend, node_addresses):
            found[name].add(element)
    return found


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
        if frontend.protocol == "SCTP":  # kube-proxy's own exception, from a time when a set of ports knew no SCTP
            elements = [_key(one, frontend.protocol, frontend.port) for one in node_addresses]
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
        # A packet of this node has the address it is for as its source as well, as that is the node's own.
        yield "KUBE-LOAD-BALANCER-SOURCE-IP", f"{key},{frontend.address}"


def _closed_to_node(view: FamilyView) -> tuple[tuple[str, str, int], ...]:
    """Address, protocol and port of what source ranges close to this node: such a packet does not pass INPUT, so that the
    sets have no say in it."""
    return tuple(
        (one.address, one.protocol, one.port)
        for one in view.frontends
        if one.kind == LOAD_BALANCER and one.service.source_ranges and not _node_is_allowed(view, one)
    )


def _node_is_allowed(view: FamilyView, frontend: Frontend) -> bool:
    if not view.node.primary:
        return False
    primary = ipaddress.ip_address(view.node.primary)
    return any(primary in ipaddress.ip_network(network) for network in frontend.service.source_ranges)


def _storable(network: str, family: int) -> tuple[str, ...]:
    """A set of networks takes none of length 0, but its halves; it prints none of full length as such."""
    parsed = ipaddress.ip_network(network)
    if parsed.prefixlen == 0:
        return _HALVES[family]
    return (str(parsed.network_address) if parsed.num_addresses == 1 else str(parsed),)


def _sets(family: int, elements: Mapping[str, set[str]]) -> tuple[IpSet, ...]:
    """All sets, empty ones too: rules refer to some of them in any case."""
    found = []
    for name, kind in SET_TYPES.items():
        held = frozenset(elements.get(name, ()))
        room = max(DEFAULT_MAXELEM, 1 << len(held).bit_length())
        found.append(IpSet(set_name(name, family), kind, 0 if kind == "bitmap:port" else family, held, room))
    return tuple(sorted(found, key=lambda one: one.name))


def _key(address: str, protocol: str, port: int) -> str:
    return f"{address},{protocol.lower()}:{port}"
