# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compiles Services into iptables rules, with kube-proxy's layout and names, which tools and people know.

The nat table picks an endpoint. PREROUTING and OUTPUT jump to KUBE-SERVICES, which has a rule for each address and port of
a Service and, last, the jump to KUBE-NODEPORTS, for packets to local addresses that none of them takes. From there:

    cluster IP                  KUBE-SVC-x (any endpoint) or KUBE-SVL-x (those of this node)
    external IP, node port      KUBE-EXT-x, which marks for masquerade or handles local sources, then SVC or SVL
    load balancer IP            KUBE-EXT-x; KUBE-FW-x first, if only some sources may use it
    SVC, SVL                    KUBE-SEP-y of an endpoint: the same one for a known source, else a random one
    SEP                         marks hairpin, and rewrites the destination

The filter table refuses what has no endpoints. It sees the translated destination, so only packets that were not translated
still have a Service's address: KUBE-PROXY-FIREWALL can drop all packets that have a restricted load balancer address.
External addresses have their own chain, KUBE-EXTERNAL-SERVICES, which packets sent by the node itself skip. KUBE-FORWARD
accepts marked packets where FORWARD drops by default. KUBE-FIREWALL protects loopback, which route_localnet exposes.

Rules, order and comments: kube-proxy 1.37, pkg/proxy/iptables/proxier.go and topology.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..._core.host.gc_pause import pause_collection
from ..model import FamilyView, Frontend, RuleConfig, ServicePort
from ..node_ports import LOOPBACK_ADDRESS, node_port_addresses
from ..topology import reachable
from .names import (
    EXTERNAL_SERVICES,
    FORWARD,
    KUBELET_FIREWALL,
    MARK_MASQ,
    NODE_PORTS,
    POSTROUTING,
    PROXY_FIREWALL,
    SERVICES,
)
from .objects import (
    BUILT_IN,
    Chain,
    ConnectionState,
    Destination,
    DestinationPort,
    Jump,
    Mark,
    Masquerade,
    Match,
    Protocol,
    Reject,
    Rule,
    SetMark,
    Source,
    Tables,
    Verdict,
    network,
    rule,
    tables,
)
from .service import DROP, LOCAL_DESTINATION, Context, RuleLists, ServiceRules

_MANY_ENDPOINTS = 1000  # with more, kube-proxy omits comments
_ACCEPT = Verdict("ACCEPT")
_NEW = ConnectionState(("NEW",))
_LOOPBACK = "127.0.0.0/8"
_LOOPBACK6 = "::1/128"

# Jumps at the head of the built-in chains, in their final order: kube-proxy inserts each of its list at the head. Table,
# Jumps at the head of the built-in chains, in final order (kube-proxy inserts each of its list at the head): table, chain,
# target, matches, comment.
JUMPS: tuple[tuple[str, str, str, tuple[Match, ...], str], ...] = (
    ("nat", "PREROUTING", SERVICES, (), "kubernetes service portals"),
    ("nat", "OUTPUT", SERVICES, (), "kubernetes service portals"),
    ("nat", "POSTROUTING", POSTROUTING, (), "kubernetes postrouting rules"),
    ("filter", "INPUT", PROXY_FIREWALL, (_NEW,), "kubernetes load balancer firewall"),
    ("filter", "INPUT", NODE_PORTS, (), "kubernetes health check service ports"),
    ("filter", "INPUT", EXTERNAL_SERVICES, (_NEW,), "kubernetes externally-visible service portals"),
    ("filter", "FORWARD", PROXY_FIREWALL, (_NEW,), "kubernetes load balancer firewall"),
    ("filter", "FORWARD", FORWARD, (), "kubernetes forwarding rules"),
    ("filter", "FORWARD", SERVICES, (_NEW,), "kubernetes service portals"),
    ("filter", "FORWARD", EXTERNAL_SERVICES, (_NEW,), "kubernetes externally-visible service portals"),
    ("filter", "OUTPUT", PROXY_FIREWALL, (_NEW,), "kubernetes load balancer firewall"),
    ("filter", "OUTPUT", SERVICES, (_NEW,), "kubernetes service portals"),
)


@pause_collection()
def compile_rules(view: FamilyView, config: RuleConfig) -> Tables:
    lists = RuleLists(
        nat={name: [] for name in (SERVICES, NODE_PORTS)},
        filter={name: [] for name in (SERVICES, EXTERNAL_SERVICES, NODE_PORTS, PROXY_FIREWALL)},
    )
    context = Context(
        node_address=view.node.primary,
        detector=config.detector,
        masquerade_all=config.masquerade_all,
        endpoint_comments=sum(len(service.endpoints) for service in view.services) <= _MANY_ENDPOINTS,
        refusal=Reject("icmp-port-unreachable" if view.family == 4 else "icmp6-port-unreachable"),
    )
    for service, frontends in _by_service(view.frontends):
        reach = reachable(service, node=view.node.name, zone=view.node.zone)
        ServiceRules(service, frontends, reach, context, lists).add()
    lists.nat[SERVICES].extend(_to_node_ports(view, config))
    lists.nat[POSTROUTING] = _postrouting(config)
    lists.nat[MARK_MASQ] = [rule(target=SetMark(config.masquerade_mark, config.masquerade_mark))]
    lists.filter[NODE_PORTS] = _health_checks(view)
    lists.filter[FORWARD] = _forward(config)
    for table, chain, target, matches, comment in JUMPS:
        of_table = lists.nat if table == "nat" else lists.filter
        of_table.setdefault(chain, []).append(rule(*matches, target=Jump(target), comment=comment))
    if node_port_addresses(view, config).loopback:
        _guard_loopback(lists.filter)
    return tables(view.family, {"nat": _chains("nat", lists.nat), "filter": _chains("filter", lists.filter)})


def required_sysctls(view: FamilyView, config: RuleConfig) -> tuple[tuple[str, str], ...]:
    """The kernel settings that these rules need, as (name, value). Source: kube-proxy,
    iptables/proxier.go."""
    if node_port_addresses(view, config).loopback:
        return (("net.ipv4.conf.all.route_localnet", "1"),)
    return ()


def _by_service(frontends: Iterable[Frontend]) -> list[tuple[ServicePort, list[Frontend]]]:
    """Frontends by Service, sorted, so that the order does not depend on addresses."""
    by_key: dict[tuple[str, str, str, str], tuple[ServicePort, list[Frontend]]] = {}
    for frontend in frontends:
        service = frontend.service
        key = (service.namespace, service.name, service.protocol, service.port_name)
        by_key.setdefault(key, (service, []))[1].append(frontend)
    return [by_key[key] for key in sorted(by_key)]


def _chains(table: str, rules: dict[str, list[Rule]]) -> dict[str, Chain]:
    return {
        name: Chain(name, tuple(of_chain), "ACCEPT" if name in BUILT_IN[table] else "")
        for name, of_chain in rules.items()
    }


def _to_node_ports(view: FamilyView, config: RuleConfig) -> list[Rule]:
    serving = node_port_addresses(view, config)
    to = Jump(NODE_PORTS)
    comment = "kubernetes service nodeports; NOTE: this must be the last rule in this chain"
    if not serving.all_local:
        addresses = [*serving.addresses, *((LOOPBACK_ADDRESS,) if serving.loopback else ())]
        return [rule(Destination(network(address)), target=to, comment=comment) for address in addresses]
    closed = () if serving.loopback else (Destination(_LOOPBACK if view.family == 4 else _LOOPBACK6, negated=True),)
    return [rule(LOCAL_DESTINATION, *closed, target=to, comment=comment)]


def _postrouting(config: RuleConfig) -> list[Rule]:
    mark = config.masquerade_mark
    return [
        rule(Mark(mark, mark, negated=True), target=Verdict("RETURN")),
        # Cleared, so that a packet that passes the stack once more is not masqueraded again.
        rule(target=SetMark(mark, 0)),
        rule(target=Masquerade(random_fully=True), comment="kubernetes service traffic requiring SNAT"),
    ]


def _health_checks(view: FamilyView) -> list[Rule]:
    """Accept packets to health check node ports, on which kube-proxy answers."""
    titles: dict[int, str] = {}
    for service in view.services:
        if service.health_check_node_port:
            titles.setdefault(service.health_check_node_port, service.title)
    return [
        rule(
            Protocol("tcp"),
            DestinationPort(port),
            target=_ACCEPT,
            comment=f"{titles[port]} health check node port",
        )
        for port in sorted(titles)
    ]


def _forward(config: RuleConfig) -> list[Rule]:
    mark = config.masquerade_mark
    rules = []
    if not config.tcp_be_liberal:
        # Conntrack's window check marks some late packets invalid. Forwarded without NAT, they would reset the client's
        # connection. Source: Kubernetes issue 74839.
        rules.append(rule(ConnectionState(("INVALID",)), target=DROP))
    rules.append(rule(Mark(mark, mark), target=_ACCEPT, comment="kubernetes forwarding rules"))
    followers = ConnectionState(("ESTABLISHED", "RELATED"))
    rules.append(rule(followers, target=_ACCEPT, comment="kubernetes forwarding conntrack rule"))
    return rules


def _guard_loopback(filter_rules: dict[str, list[Rule]]) -> None:
    """With route_localnet, a neighboring host could reach programs that listen on 127.0.0.1. The kubelet has the same rule.
    Source: Kubernetes issue 90259."""
    filter_rules[KUBELET_FIREWALL] = [
        rule(
            Source(_LOOPBACK, negated=True),
            Destination(_LOOPBACK),
            ConnectionState(("DNAT", "ESTABLISHED", "RELATED"), negated=True),
            target=DROP,
            comment="block incoming localnet connections",
        )
    ]
    for chain in ("INPUT", "OUTPUT"):
        filter_rules[chain].insert(0, rule(target=Jump(KUBELET_FIREWALL)))
