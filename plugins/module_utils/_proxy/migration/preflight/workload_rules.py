# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks of what Services, their users and the configuration count on in the mode that is left."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...config import DEFAULT_MASQUERADE_BIT, KEYWORDS, LOCALHOST
from ...ipvs.parse import Key
from ...model import IPTABLES, IPVS, NFTABLES, NODE_PORT, FamilyView, Frontend
from ...node_ports import NodePortAddresses, node_port_addresses
from ...surroundings import LINK
from .facts import Facts
from .rule import SOFT, Rule, Transition
from .versions import Version, Versions

LOCALHOST_GATE = "KubeProxyNFTablesLocalhostNodePorts"
LOCALHOST_METRIC = "kubeproxy_iptables_localhost_nodeports_accepted_packets_total"
INVALID_METRIC = "kubeproxy_iptables_ct_state_invalid_dropped_packets_total"
_LIBERAL_KERNEL: Version = (6, 1, 0)  # from it on, conntrack errs no more about long-lived connections
_NO_DURATIONS = (None, "", "0", "0s")
_DEFAULT_PERIODS = {"syncPeriod": "30s", "minSyncPeriod": "1s"}
_TIMEOUTS = ("tcpTimeout", "tcpFinTimeout", "udpTimeout")


# Node ports


def node_port_addresses_lost(facts: Facts) -> Sequence[str]:
    found = []
    for family, view in facts.views.items():
        ports = _node_ports(view)
        if not ports or not _is_told(facts, family):
            continue
        before, after = _served(facts.before, view), _served(facts.after, view)
        for address in before.addresses:
            if address not in after.addresses and not ipaddress.ip_address(address).is_link_local:
                found.append(f"{address}: {_some_ports(ports)}")
    return found


def node_port_localhost_lost(facts: Facts) -> Sequence[str]:
    """Only iptables, with IPv4, serves them there; from 1.37 on kube-proxy answers for TCP itself where it is asked to."""
    view = facts.views.get(4)
    if view is None or not _is_told(facts, 4) or not _served(facts.before, view).loopback:
        return []
    ports = [one for one in _node_ports(view) if one.protocol != "TCP" or not _has_localhost_proxy(facts)]
    if not ports or _served(facts.after, view).loopback:
        return []
    counted = facts.counted(LOCALHOST_METRIC)
    seen = "not counted" if counted is None else f"{counted:.0f} packets"
    return [f"127.0.0.1: {_some_ports(ports)}; since kube-proxy's start: {seen}"]


def _has_localhost_proxy(facts: Facts) -> bool:
    if facts.asked.to_mode != NFTABLES or facts.version is None or facts.version < (1, 37, 0):
        return False
    said = facts.gate(LOCALHOST_GATE)
    on = facts.version >= (1, 38, 0) if said is None else said
    asked = facts.asked.wanted_config.get("nodePortAddresses")
    loopback = KEYWORDS[LOCALHOST][4]
    named = [one for one in asked if one == LOCALHOST or str(one).startswith("127.")] if isinstance(asked, list) else []
    return on and any(one in (LOCALHOST, loopback, "127.0.0.1/32") for one in named)


def _is_told(facts: Facts, family: int) -> bool:
    return family in facts.before and family in facts.after


def _served(configs: Mapping[int, Any], view: FamilyView) -> NodePortAddresses:
    return node_port_addresses(view, configs[view.family])


def _node_ports(view: FamilyView) -> list[Frontend]:
    return [one for one in view.frontends if one.kind == NODE_PORT]


def _some_ports(ports: Sequence[Frontend]) -> str:
    first = ports[0]
    rest = f" and {len(ports) - 1} more" if len(ports) > 1 else ""
    return f"node port {first.port}/{first.protocol} of {first.service.title}{rest}"


# Connections


def conntrack_invalid(facts: Facts) -> Sequence[str]:
    conntrack = facts.asked.wanted_config.get("conntrack")
    liberal = isinstance(conntrack, Mapping) and conntrack.get("tcpBeLiberal") is True
    counted = facts.counted(INVALID_METRIC)
    if liberal or not counted or (facts.kernel is not None and facts.kernel >= _LIBERAL_KERNEL):
        return []
    return [f"{counted:.0f} packets dropped since kube-proxy's start"]


def ipvs_connections(facts: Facts) -> Sequence[str]:
    count = sum(facts.virtual_servers.values())
    return [f"{count} connections"] if count else []


def udp_connections(facts: Facts) -> Sequence[str]:
    services = dict.fromkeys(
        f"{one.namespace}/{one.name}" for view in facts.views.values() for one in view.services if one.protocol == "UDP"
    )
    return list(services)


# Services


def duplicates(facts: Facts) -> Sequence[str]:
    return [
        f"{one.destination}: {one.winner} and {one.loser}" for view in facts.views.values() for one in view.duplicates
    ]


def padded_ranges(facts: Facts) -> Sequence[str]:
    return facts.padded_ranges


def external_ips(facts: Facts) -> Sequence[str]:
    services = dict.fromkeys(
        f"{one.namespace}/{one.name}: {', '.join(one.external_ips)}"
        for view in facts.views.values()
        for one in view.services
        if one.external_ips
    )
    return list(services)


# The configuration


def ipvs_scheduler(facts: Facts) -> Sequence[str]:
    value = _section(facts.asked.config, IPVS).get("scheduler")
    return [f"ipvs.scheduler: {value}"] if value not in (None, "", "rr") else []


def ipvs_timeouts(facts: Facts) -> Sequence[str]:
    section = _section(facts.asked.config, IPVS)
    return [f"ipvs.{key}: {section[key]}" for key in _TIMEOUTS if section.get(key) not in _NO_DURATIONS]


def ipvs_exclude_cidrs(facts: Facts) -> Sequence[str]:
    value = _section(facts.asked.config, IPVS).get("excludeCIDRs")
    return [f"ipvs.excludeCIDRs: {', '.join(str(one) for one in value)}"] if isinstance(value, list) and value else []


def ipvs_strict_arp(facts: Facts) -> Sequence[str]:
    return ["ipvs.strictARP: true"] if _section(facts.asked.config, IPVS).get("strictARP") is True else []


def section_ignored(facts: Facts) -> Sequence[str]:
    return list(_ignored(facts))


def _ignored(facts: Facts) -> Iterator[str]:
    """iptables and ipvs go by the section iptables for masquerading, and each mode by its own for its periods."""
    old, new = facts.asked.from_mode, facts.asked.to_mode
    sections = (NFTABLES if old == NFTABLES else IPTABLES, NFTABLES if new == NFTABLES else IPTABLES)
    defaults: tuple[tuple[str, object], ...] = (("masqueradeAll", False), ("masqueradeBit", DEFAULT_MASQUERADE_BIT))
    for key, default in defaults:
        before = _section(facts.asked.config, sections[0]).get(key)
        after = _section(facts.asked.wanted_config, sections[1]).get(key)
        if (default if before is None else before) != (default if after is None else after) and before is not None:
            yield _not_read(sections[0], key, before, sections[1], after)
    for key, period in _DEFAULT_PERIODS.items():
        before = _section(facts.asked.config, old).get(key)
        after = _section(facts.asked.wanted_config, new).get(key)
        if before not in (*_NO_DURATIONS, period) and after in _NO_DURATIONS:
            yield _not_read(old, key, before, new, after)


def _not_read(old: str, key: str, before: object, new: str, after: object) -> str:
    shown = "not set" if after is None else _shown(after)
    return f"{old}.{key}: {_shown(before)}; {new}.{key}: {shown}"


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = config.get(name)
    return found if isinstance(found, Mapping) else {}


# Virtual servers and addresses of ipvs


def foreign_virtual_servers(facts: Facts) -> Sequence[str]:
    return [_server_shown(key) for key in _foreign(facts)]


def taken_virtual_servers(facts: Facts) -> Sequence[str]:
    """kube-proxy removes what it does not know, but for what it is told to leave."""
    excluded = [ipaddress.ip_network(one) for config in facts.after.values() for one in config.exclude_cidrs]
    return [
        _server_shown(key)
        for key in _foreign(facts)
        if not key[1] or not any(ipaddress.ip_address(key[1]) in network for network in excluded)
    ]


def _foreign(facts: Facts) -> Iterator[Key]:
    """Those of no Service: neither on the link of ipvs, nor of an address and port that a Service has. Without a snapshot,
    what is on the node's own addresses may be a node port."""
    bound = set(facts.addresses_of(LINK))
    frontends = {one.key for view in facts.views.values() for one in view.frontends}
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


_TO_NFTABLES = Transition(leaving=(IPTABLES, IPVS), entering=(NFTABLES,))
_FROM_IPTABLES = Transition(leaving=(IPTABLES,), entering=(NFTABLES,))
_FROM_IPVS = Transition(leaving=(IPVS,), entering=(IPTABLES, NFTABLES))

RULES = (
    Rule(
        id="preflight-node-port-addresses",
        severity=SOFT,
        reads="Services with node ports, nodePortAddresses, addresses of the node",
        condition=node_port_addresses_lost,
        applies=Transition(unchanged=True),
        source="pkg/proxy/nftables/README.md; KEP-3866",
    ),
    Rule(
        id="preflight-node-port-localhost",
        severity=SOFT,
        reads=f"Services with node ports, nodePortAddresses, {LOCALHOST_METRIC}",
        condition=node_port_localhost_lost,
        applies=Transition(leaving=(IPTABLES,), unchanged=True),
        source="k/k#132955, KEP-6032",
    ),
    Rule(
        id="preflight-conntrack-invalid",
        severity=SOFT,
        reads=f"{INVALID_METRIC}, /proc/sys/kernel/osrelease, conntrack.tcpBeLiberal",
        condition=conntrack_invalid,
        applies=_FROM_IPTABLES,
        source="KEP-3866; pkg/proxy/iptables/proxier.go",
    ),
    Rule(
        id="preflight-ipvs-scheduler",
        severity=SOFT,
        reads="the section ipvs of the configuration as it is now",
        condition=ipvs_scheduler,
        applies=_FROM_IPVS,
        source="KEP-3866, KEP-5495",
    ),
    Rule(
        id="preflight-ipvs-timeouts",
        severity=SOFT,
        reads="the section ipvs of the configuration as it is now",
        condition=ipvs_timeouts,
        applies=_FROM_IPVS,
        source="pkg/proxy/ipvs/proxier.go",
    ),
    Rule(
        id="preflight-ipvs-exclude-cidrs",
        severity=SOFT,
        reads="the section ipvs of the configuration as it is now",
        condition=ipvs_exclude_cidrs,
        applies=Transition(leaving=(IPVS,), entering=(NFTABLES,)),
        source="k/k#55857; pkg/proxy/ipvs/cleanup.go",
    ),
    Rule(
        id="preflight-ipvs-strict-arp",
        severity=SOFT,
        reads="the section ipvs of the configuration as it is now",
        condition=ipvs_strict_arp,
        applies=_FROM_IPVS,
        source="metallb#2919; pkg/proxy/ipvs/proxier.go",
    ),
    Rule(
        id="preflight-ipvs-connections",
        severity=SOFT,
        reads="/proc/net/ip_vs",
        condition=ipvs_connections,
        applies=_FROM_IPVS,
        source="pkg/proxy/ipvs/cleanup.go; the kernel forgets the connections of a virtual server with it",
    ),
    Rule(
        id="preflight-ipvs-addresses-used",
        severity=SOFT,
        reads="addresses of kube-ipvs0, /proc/net/tcp, tcp6, udp, udp6",
        condition=ipvs_addresses_used,
        applies=_FROM_IPVS,
        source="pkg/proxy/ipvs/README.md",
    ),
    Rule(
        id="preflight-foreign-virtual-servers",
        severity=SOFT,
        reads="/proc/net/ip_vs, addresses of kube-ipvs0, Services",
        condition=foreign_virtual_servers,
        applies=_TO_NFTABLES,
        source="pkg/proxy/ipvs/cleanup.go, cleanupLeftovers; k/k#55857",
    ),
    Rule(
        id="preflight-ipvs-takes-virtual-servers",
        severity=SOFT,
        reads="/proc/net/ip_vs, addresses of kube-ipvs0, Services, ipvs.excludeCIDRs",
        condition=taken_virtual_servers,
        applies=Transition(leaving=(IPTABLES, NFTABLES), entering=(IPVS,)),
        source="k/k#55857",
    ),
    Rule(
        id="preflight-udp-connections",
        severity=SOFT,
        reads="Services of UDP",
        condition=udp_connections,
        applies=_FROM_IPVS,
        believed=True,
        source="pkg/proxy/conntrack/cleanup.go; conntrack translates only what begins anew",
    ),
    Rule(
        id="preflight-duplicates",
        severity=SOFT,
        reads="Services",
        condition=duplicates,
        source="k/k#69599",
    ),
    Rule(
        id="preflight-source-ranges",
        severity=SOFT,
        reads="loadBalancerSourceRanges of Services",
        condition=padded_ranges,
        applies=_TO_NFTABLES,
        believed=True,
        source="pkg/proxy/serviceport.go: the API lets blanks pass",
    ),
    Rule(
        id="preflight-external-ips",
        severity=SOFT,
        reads="externalIPs of Services",
        condition=external_ips,
        versions=Versions(since=(1, 36, 0)),
        source="KEP-5707",
    ),
    Rule(
        id="preflight-section-ignored",
        severity=SOFT,
        reads="the sections iptables, ipvs and nftables of the configuration, as it is and as it would be",
        condition=section_ignored,
        source="kubeproxy.config.k8s.io/v1alpha1; reference of kube-proxy 1.7",
    ),
)
