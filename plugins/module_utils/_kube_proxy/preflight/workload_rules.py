# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks of what Services, their clients and the configuration need that only the old mode provides."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..._core.text.json_text import mapping_in
from ..._rules.addresses import is_within
from ..._rules.config import DEFAULT_MASQUERADE_BIT, KEYWORDS, LOCALHOST
from ..._rules.ipvs.parse import Key
from ..._rules.ipvs.used_addresses import Claim, bound_by_services, describe, find_claims
from ..._rules.model import CLUSTER_IP, IPTABLES, IPVS, NFTABLES, NODE_PORT, FamilyView, Frontend
from ..._rules.node_addresses import LINK
from ..._rules.node_ports import NodePortAddresses, node_port_addresses
from .facts import Facts
from .rule import BLOCKER, WARNING, Rule, Transition
from .versions import Version, Versions

LOCALHOST_GATE = "KubeProxyNFTablesLocalhostNodePorts"
LOCALHOST_METRIC = "kubeproxy_iptables_localhost_nodeports_accepted_packets_total"
INVALID_METRIC = "kubeproxy_iptables_ct_state_invalid_dropped_packets_total"
_LIBERAL_KERNEL: Version = (6, 1, 0)  # since then, conntrack does not consider packets of long connections invalid
_NO_DURATIONS = (None, "", "0", "0s")
_DEFAULT_PERIODS = {"syncPeriod": "30s", "minSyncPeriod": "1s"}
_TIMEOUTS = ("tcpTimeout", "tcpFinTimeout", "udpTimeout")


# Node ports


def node_port_addresses_lost(facts: Facts) -> Sequence[str]:
    lost = []
    for family, view in facts.views.items():
        ports = _node_ports(view)
        if not ports or not _is_known(facts, family):
            continue
        before, after = _node_port_addresses(facts.before, view), _node_port_addresses(facts.after, view)
        for address in before.addresses:
            if address not in after.addresses and not ipaddress.ip_address(address).is_link_local:
                lost.append(f"{address}: {_some_ports(ports)}")
    return lost


def node_port_localhost_lost(facts: Facts) -> Sequence[str]:
    """Only iptables, with IPv4, serves node ports on loopback; since 1.37 kube-proxy can also do so in userspace, for
    TCP."""
    view = facts.views.get(4)
    if view is None or not _is_known(facts, 4) or not _node_port_addresses(facts.before, view).loopback:
        return []
    ports = [port for port in _node_ports(view) if port.protocol != "TCP" or not _has_localhost_proxy(facts)]
    if not ports or _node_port_addresses(facts.after, view).loopback:
        return []
    counted = facts.count_of(LOCALHOST_METRIC)
    seen = "not counted" if counted is None else f"{counted:.0f} packets"
    return [f"127.0.0.1: {_some_ports(ports)}; since kube-proxy's start: {seen}"]


def _has_localhost_proxy(facts: Facts) -> bool:
    if facts.change.to_mode != NFTABLES or facts.version is None or facts.version < (1, 37, 0):
        return False
    setting = facts.gate(LOCALHOST_GATE)
    on = facts.version >= (1, 38, 0) if setting is None else setting
    addresses = facts.change.new_config.get("nodePortAddresses")
    loopback = KEYWORDS[LOCALHOST][4]
    named = (
        [address for address in addresses if address == LOCALHOST or str(address).startswith("127.")]
        if isinstance(addresses, list)
        else []
    )
    return on and any(address in (LOCALHOST, loopback, "127.0.0.1/32") for address in named)


def _is_known(facts: Facts, family: int) -> bool:
    return family in facts.before and family in facts.after


def _node_port_addresses(configs: Mapping[int, Any], view: FamilyView) -> NodePortAddresses:
    return node_port_addresses(view, configs[view.family])


def _node_ports(view: FamilyView) -> list[Frontend]:
    return [frontend for frontend in view.frontends if frontend.kind == NODE_PORT]


def _some_ports(ports: Sequence[Frontend]) -> str:
    first = ports[0]
    rest = f" and {len(ports) - 1} more" if len(ports) > 1 else ""
    return f"node port {first.port}/{first.protocol} of {first.service.title}{rest}"


# Connections


def conntrack_invalid(facts: Facts) -> Sequence[str]:
    conntrack = facts.change.new_config.get("conntrack")
    liberal = isinstance(conntrack, Mapping) and conntrack.get("tcpBeLiberal") is True
    counted = facts.count_of(INVALID_METRIC)
    if liberal or not counted or (facts.kernel is not None and facts.kernel >= _LIBERAL_KERNEL):
        return []
    return [f"{counted:.0f} packets dropped since kube-proxy's start"]


def ipvs_connections(facts: Facts) -> Sequence[str]:
    count = 0 if facts.has_ipvsadm else sum(facts.virtual_servers.values())
    return [f"{count} connections"] if count else []


def udp_connections(facts: Facts) -> Sequence[str]:
    if facts.has_ipvsadm:
        return []
    services = dict.fromkeys(
        f"{service.namespace}/{service.name}"
        for view in facts.views.values()
        for service in view.services
        if service.protocol == "UDP"
    )
    return list(services)


# Services


def duplicates(facts: Facts) -> Sequence[str]:
    return [
        f"{duplicate.destination}: {duplicate.winner} and {duplicate.loser}"
        for view in facts.views.values()
        for duplicate in view.duplicates
    ]


def padded_ranges(facts: Facts) -> Sequence[str]:
    return facts.padded_ranges


def external_ips(facts: Facts) -> Sequence[str]:
    services = dict.fromkeys(
        f"{service.namespace}/{service.name}: {', '.join(service.external_ips)}"
        for view in facts.views.values()
        for service in view.services
        if service.external_ips
    )
    return list(services)


# The configuration


def ipvs_scheduler(facts: Facts) -> Sequence[str]:
    value = mapping_in(facts.change.config, IPVS).get("scheduler")
    return [f"ipvs.scheduler: {value}"] if value not in (None, "", "rr") else []


def ipvs_timeouts(facts: Facts) -> Sequence[str]:
    section = mapping_in(facts.change.config, IPVS)
    return [f"ipvs.{key}: {section[key]}" for key in _TIMEOUTS if section.get(key) not in _NO_DURATIONS]


def ipvs_exclude_cidrs(facts: Facts) -> Sequence[str]:
    if facts.has_ipvsadm:
        return []
    value = mapping_in(facts.change.config, IPVS).get("excludeCIDRs")
    return [f"ipvs.excludeCIDRs: {', '.join(str(cidr) for cidr in value)}"] if isinstance(value, list) and value else []


def ipvs_strict_arp(facts: Facts) -> Sequence[str]:
    return ["ipvs.strictARP: true"] if mapping_in(facts.change.config, IPVS).get("strictARP") is True else []


def section_ignored(facts: Facts) -> Sequence[str]:
    return list(_ignored_fields(facts))


def _ignored_fields(facts: Facts) -> Iterator[str]:
    """The settings that the new mode ignores. iptables and ipvs read masquerading from section iptables; each mode reads
    periods from its own section."""
    old, new = facts.change.from_mode, facts.change.to_mode
    sections = (NFTABLES if old == NFTABLES else IPTABLES, NFTABLES if new == NFTABLES else IPTABLES)
    defaults: tuple[tuple[str, object], ...] = (("masqueradeAll", False), ("masqueradeBit", DEFAULT_MASQUERADE_BIT))
    for key, default in defaults:
        before = mapping_in(facts.change.config, sections[0]).get(key)
        after = mapping_in(facts.change.new_config, sections[1]).get(key)
        if (default if before is None else before) != (default if after is None else after) and before is not None:
            yield _not_read(sections[0], key, before, sections[1], after)
    for key, period in _DEFAULT_PERIODS.items():
        before = mapping_in(facts.change.config, old).get(key)
        after = mapping_in(facts.change.new_config, new).get(key)
        if before not in (*_NO_DURATIONS, period) and after in _NO_DURATIONS:
            yield _not_read(old, key, before, new, after)


def _not_read(old: str, key: str, before: object, new: str, after: object) -> str:
    shown = "not set" if after is None else _show(after)
    return f"{old}.{key}: {_show(before)}; {new}.{key}: {shown}"


def _show(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# Virtual servers and addresses of ipvs


def foreign_virtual_servers(facts: Facts) -> Sequence[str]:
    return [] if facts.has_ipvsadm else [_server_shown(key) for key in _foreign(facts)]


def taken_virtual_servers(facts: Facts) -> Sequence[str]:
    """kube-proxy removes the virtual servers of other programs, except those in excludeCIDRs."""
    excluded = [ipaddress.ip_network(cidr) for config in facts.after.values() for cidr in config.exclude_cidrs]
    return [_server_shown(key) for key in _foreign(facts) if not key[1] or not is_within(key[1], excluded)]


def _foreign(facts: Facts) -> Iterator[Key]:
    """Virtual servers of no Service: neither on the link of ipvs, nor with the address and port of a Service. Without a
    snapshot, those on the node's own addresses may be node ports."""
    bound = set(facts.addresses_of(LINK))
    frontends = {frontend.key for view in facts.views.values() for frontend in view.frontends}
    own = {address for _link, addresses in facts.links for address in addresses}
    for key in sorted(facts.virtual_servers):
        mark, address, protocol, port = key
        node_port = address in own and (not facts.views or ("", protocol, port) in frontends)
        if mark or not (address in bound or (address, protocol, port) in frontends or node_port):
            yield key


def _server_shown(key: Key) -> str:
    mark, address, protocol, port = key
    return f"firewall mark {mark}" if mark else f"{address} port {port}/{protocol}"


def ipvs_addresses_used(facts: Facts) -> Sequence[str]:
    bound = set(facts.addresses_of(LINK))
    return [f"{address} port {port}/{protocol}" for address, port, protocol in facts.listeners if address in bound]


# Addresses that ipvs binds


def used_addresses(facts: Facts) -> Sequence[str]:
    """Addresses of other machines, and the node's own: this node does not bind its own addresses, but other nodes do."""
    has_others = any(name != view.node.name for view in facts.views.values() for _own, name in view.node_addresses)
    return [claim.text for claim in _claims(facts) if has_others or claim.is_felt_here]


def own_addresses(facts: Facts) -> Sequence[str]:
    """Addresses of the only Node, or on a link and of no Node, such as those of keepalived and kube-vip."""
    shown = [*used_addresses(facts)]
    lines = [claim.text for claim in _claims(facts) if claim.text not in shown]
    claimed = {claim.address for claim in _claims(facts)}
    for view in facts.views.values():
        bound = bound_by_services(view)
        for link, addresses in facts.links:
            lines += [
                f"{address} on link {link}: {describe(bound[address])}"
                for address in addresses
                if link != LINK and address in bound and address not in claimed
            ]
    return lines


def _claims(facts: Facts) -> Sequence[Claim]:
    return [claim for view in facts.views.values() for claim in find_claims(view, facts.address_users)]


def cluster_ips_in_link_networks(facts: Facts) -> Sequence[str]:
    """Cluster IPs in a network that a link is directly connected to, which requires an address of the link in it; other
    routes merely lead through the link."""
    lines = []
    for link, network, _gateway in facts.routes:
        own = {ipaddress.ip_address(address) for address in facts.addresses_of(link)}
        view = facts.views.get(network.version)
        if (
            view is None
            or not 0 < network.prefixlen < network.max_prefixlen
            or not any(address in network for address in own)
        ):
            continue
        inside = [
            f"{frontend.address} of Service {frontend.service.namespace}/{frontend.service.name}"
            for frontend in view.frontends
            if frontend.kind == CLUSTER_IP and ipaddress.ip_address(frontend.address) in network
        ]
        rest = f" and {len(inside) - 1} more" if len(inside) > 1 else ""
        lines += [f"{network} on link {link}: {inside[0]}{rest}"] if inside else []
    return lines


_TO_NFTABLES = Transition(leaving=(IPTABLES, IPVS), entering=(NFTABLES,))
_FROM_IPTABLES = Transition(leaving=(IPTABLES,), entering=(NFTABLES,))
_TO_IPVS = Transition(entering=(IPVS,))
_IPVS_TO_NFTABLES = Transition(leaving=(IPVS,), entering=(NFTABLES,))
_FROM_IPVS = Transition(leaving=(IPVS,), entering=(IPTABLES, NFTABLES))

RULES = (
    Rule(
        id="preflight-node-port-addresses",
        severity=WARNING,
        reads="Services with node ports, nodePortAddresses, addresses of the node",
        condition=node_port_addresses_lost,
        applies=Transition(unchanged=True),
        source="pkg/proxy/nftables/README.md; KEP-3866",
    ),
    Rule(
        id="preflight-node-port-localhost",
        severity=WARNING,
        reads=f"Services with node ports, nodePortAddresses, {LOCALHOST_METRIC}",
        condition=node_port_localhost_lost,
        applies=Transition(leaving=(IPTABLES,), unchanged=True),
        source="k/k#132955, KEP-6032",
    ),
    Rule(
        id="preflight-conntrack-invalid",
        severity=WARNING,
        reads=f"{INVALID_METRIC}, /proc/sys/kernel/osrelease, conntrack.tcpBeLiberal",
        condition=conntrack_invalid,
        applies=_FROM_IPTABLES,
        source="KEP-3866; pkg/proxy/iptables/proxier.go",
    ),
    Rule(
        id="preflight-ipvs-scheduler",
        severity=WARNING,
        reads="the section ipvs of the current configuration",
        condition=ipvs_scheduler,
        applies=_FROM_IPVS,
        source="KEP-3866, KEP-5495",
    ),
    Rule(
        id="preflight-ipvs-timeouts",
        severity=WARNING,
        reads="the section ipvs of the current configuration",
        condition=ipvs_timeouts,
        applies=_FROM_IPVS,
        source="pkg/proxy/ipvs/proxier.go",
    ),
    Rule(
        id="preflight-ipvs-exclude-cidrs",
        severity=WARNING,
        reads="PATH of root, the section ipvs of the current configuration",
        condition=ipvs_exclude_cidrs,
        applies=_IPVS_TO_NFTABLES,
        source="k/k#55857; pkg/proxy/ipvs/cleanup.go",
    ),
    Rule(
        id="preflight-ipvs-strict-arp",
        severity=WARNING,
        reads="the section ipvs of the current configuration",
        condition=ipvs_strict_arp,
        applies=_FROM_IPVS,
        source="metallb#2919; pkg/proxy/ipvs/proxier.go",
    ),
    Rule(
        id="preflight-ipvs-connections",
        severity=WARNING,
        reads="PATH of root, /proc/net/ip_vs",
        condition=ipvs_connections,
        applies=_IPVS_TO_NFTABLES,
        source="pkg/proxy/ipvs/cleanup.go; net/netfilter/ipvs/ip_vs_ctl.c of the kernel",
    ),
    Rule(
        id="preflight-ipvs-addresses-used",
        severity=WARNING,
        reads="addresses of kube-ipvs0, /proc/net/tcp, tcp6, udp, udp6",
        condition=ipvs_addresses_used,
        applies=_FROM_IPVS,
        source="pkg/proxy/ipvs/README.md",
    ),
    Rule(
        id="preflight-foreign-virtual-servers",
        severity=WARNING,
        reads="PATH of root, /proc/net/ip_vs, addresses of kube-ipvs0, Services",
        condition=foreign_virtual_servers,
        applies=_TO_NFTABLES,
        source="pkg/proxy/ipvs/cleanup.go, cleanupLeftovers; k/k#55857",
    ),
    Rule(
        id="preflight-ipvs-takes-virtual-servers",
        severity=WARNING,
        reads="/proc/net/ip_vs, addresses of kube-ipvs0, Services, ipvs.excludeCIDRs",
        condition=taken_virtual_servers,
        applies=Transition(leaving=(IPTABLES, NFTABLES), entering=(IPVS,)),
        source="k/k#55857",
    ),
    Rule(
        id="preflight-ipvs-node-address",
        severity=BLOCKER,
        reads="addresses of Services and of all Nodes, endpoints of default/kubernetes, the kubeconfig, /proc/net/route, ipv6_route, "
        "/etc/resolv.conf",
        condition=used_addresses,
        applies=_TO_IPVS,
        source="k/k#66966, k/k#104679, k/k#127410, kubespray#5254, k3s#5000",
    ),
    Rule(
        id="preflight-ipvs-own-address",
        severity=WARNING,
        reads="addresses of Services, of all Nodes and of this node's links",
        condition=own_addresses,
        applies=_TO_IPVS,
        source="k/k#66966, k/k#114815, k/k#115019",
    ),
    Rule(
        id="preflight-ipvs-cluster-ip-network",
        severity=WARNING,
        reads="clusterIPs, /proc/net/route, ipv6_route, addresses of this node's links",
        condition=cluster_ips_in_link_networks,
        applies=_TO_IPVS,
        source="kernel, seen: a node answers ARP for every address that it has",
    ),
    Rule(
        id="preflight-udp-connections",
        severity=WARNING,
        reads="PATH of root, Services of UDP",
        condition=udp_connections,
        applies=_IPVS_TO_NFTABLES,
        believed=True,
        source="pkg/proxy/conntrack/cleanup.go; conntrack translates only new connections",
    ),
    Rule(
        id="preflight-duplicates",
        severity=WARNING,
        reads="Services",
        condition=duplicates,
        source="k/k#69599",
    ),
    Rule(
        id="preflight-source-ranges",
        severity=WARNING,
        reads="loadBalancerSourceRanges of Services",
        condition=padded_ranges,
        applies=_TO_NFTABLES,
        believed=True,
        source="pkg/proxy/serviceport.go: the API lets blanks pass",
    ),
    Rule(
        id="preflight-external-ips",
        severity=WARNING,
        reads="externalIPs of Services",
        condition=external_ips,
        versions=Versions(since=(1, 36, 0)),
        source="KEP-5707",
    ),
    Rule(
        id="preflight-section-ignored",
        severity=WARNING,
        reads="the sections iptables, ipvs and nftables of the current and the new configuration",
        condition=section_ignored,
        source="kubeproxy.config.k8s.io/v1alpha1: each mode has a section of its own",
    ),
)
