# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The iptables rules of the ipvs backend: identical to kube-proxy's, rule by rule.

    nat     PREROUTING, OUTPUT   KUBE-SERVICES       marks packets to be masqueraded, which the sets select
            POSTROUTING          KUBE-POSTROUTING    masquerades hairpins of local endpoints, and what is marked
    filter  INPUT                KUBE-IPVS-FILTER    rejects packets to a service address without such a port:
                                                     the address is local, so a port of the host would answer
            INPUT, FORWARD       KUBE-PROXY-FIREWALL drops what source ranges do not allow, before ip_vs
            INPUT                KUBE-NODE-PORT      lets health checks in
            OUTPUT               KUBE-IPVS-OUT-FILTER  the same firewall for packets of this node, which pass no INPUT
            FORWARD              KUBE-FORWARD        accepts replies under a policy of DROP

Except in KUBE-IPVS-FILTER, a rule that matches a set exists only if the set has elements.
Source: kube-proxy, ipvs/proxier.go, ipvs/iptables.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from ..iptables.objects import (
    AddressType,
    Chain,
    ConnectionState,
    InInterface,
    IpvsService,
    Jump,
    Layout,
    Mark,
    Masquerade,
    Match,
    MatchSet,
    PhysicalIn,
    Protocol,
    Reject,
    Rule,
    SetMark,
    Source,
    Tables,
    Target,
    Verdict,
    network,
    rule,
    tables,
)
from ..iptables.text import rule_text
from ..model import LocalDetector, RuleConfig
from .objects import set_name

ACCEPT, DROP, RETURN = Verdict("ACCEPT"), Verdict("DROP"), Verdict("RETURN")
MARK_MASQ = Jump("KUBE-MARK-MASQ")

COMMENTS: Mapping[str, str] = MappingProxyType(
    {
        "KUBE-LOOP-BACK": "Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose",
        "KUBE-CLUSTER-IP": "Kubernetes service cluster ip + port for masquerade purpose",
        "KUBE-EXTERNAL-IP": "Kubernetes service external ip + port for masquerade and filter purpose",
        "KUBE-EXTERNAL-IP-LOCAL": "Kubernetes service external ip + port with externalTrafficPolicy=local",
        "KUBE-LOAD-BALANCER": "Kubernetes service lb portal",
        "KUBE-LOAD-BALANCER-LOCAL": "Kubernetes service load balancer ip + port with externalTrafficPolicy=local",
        "KUBE-LOAD-BALANCER-FW": "Kubernetes service load balancer ip + port for load balancer with sourceRange",
        "KUBE-LOAD-BALANCER-SOURCE-IP": "Kubernetes service load balancer ip + port + source IP for packet filter purpose",
        "KUBE-LOAD-BALANCER-SOURCE-CIDR": "Kubernetes service load balancer ip + port + source cidr for packet filter purpose",
        "KUBE-NODE-PORT-TCP": "Kubernetes nodeport TCP port for masquerade purpose",
        "KUBE-NODE-PORT-LOCAL-TCP": "Kubernetes nodeport TCP port with externalTrafficPolicy=local",
        "KUBE-NODE-PORT-UDP": "Kubernetes nodeport UDP port for masquerade purpose",
        "KUBE-NODE-PORT-LOCAL-UDP": "Kubernetes nodeport UDP port with externalTrafficPolicy=local",
        "KUBE-NODE-PORT-SCTP-HASH": "Kubernetes nodeport SCTP port for masquerade purpose with type 'hash ip:port'",
        "KUBE-NODE-PORT-LOCAL-SCTP-HASH": "Kubernetes nodeport SCTP port with externalTrafficPolicy=local with type 'hash ip:port'",
        "KUBE-HEALTH-CHECK-NODE-PORT": "Kubernetes health check node port",
    }
)

# Table, built-in chain, our chain, comment; for each built-in chain in final order. kube-proxy inserts each at the head.
JUMPS = (
    ("nat", "PREROUTING", "KUBE-SERVICES", "kubernetes service portals"),
    ("nat", "OUTPUT", "KUBE-SERVICES", "kubernetes service portals"),
    ("nat", "POSTROUTING", "KUBE-POSTROUTING", "kubernetes postrouting rules"),
    ("filter", "INPUT", "KUBE-IPVS-FILTER", "kubernetes ipvs access filter"),
    ("filter", "INPUT", "KUBE-PROXY-FIREWALL", "kube-proxy firewall rules"),
    ("filter", "INPUT", "KUBE-NODE-PORT", "kubernetes health check rules"),
    ("filter", "FORWARD", "KUBE-PROXY-FIREWALL", "kube-proxy firewall rules"),
    ("filter", "FORWARD", "KUBE-FORWARD", "kubernetes forwarding rules"),
    ("filter", "OUTPUT", "KUBE-IPVS-OUT-FILTER", "kubernetes ipvs access filter"),
)
_OWN = {
    "nat": ("KUBE-SERVICES", "KUBE-POSTROUTING", "KUBE-NODE-PORT", "KUBE-LOAD-BALANCER", "KUBE-MARK-MASQ"),
    "filter": (
        "KUBE-FORWARD",
        "KUBE-NODE-PORT",
        "KUBE-PROXY-FIREWALL",
        "KUBE-SOURCE-RANGES-FIREWALL",
        "KUBE-IPVS-FILTER",
        "KUBE-IPVS-OUT-FILTER",
    ),
}
# The chain for load balancers before 1.24. In table filter, this name belongs to the kubelet.
_FORMER = ("nat", "KUBE-FIREWALL")
LAYOUT = Layout(chains=frozenset([_FORMER, *((table, name) for table, names in _OWN.items() for name in names)]))


def compile_tables(
    family: int, config: RuleConfig, *, used: Collection[str], closed_to_node: Iterable[tuple[str, str, int]]
) -> Tables:
    """`used` are the sets, by their IPv4 names, that have elements. `closed_to_node` has the address, protocol and port of
    load balancers that this node itself must not use."""
    writer = _Writer(family, frozenset(used))
    mark = config.masquerade_mark
    chains = {
        "nat": {
            "KUBE-SERVICES": _services(writer, config),
            "KUBE-POSTROUTING": _postrouting(writer, mark),
            "KUBE-NODE-PORT": _node_ports(writer),
            "KUBE-LOAD-BALANCER": [*writer.if_used("KUBE-LOAD-BALANCER-LOCAL", RETURN), rule(target=MARK_MASQ)],
            "KUBE-MARK-MASQ": [rule(target=SetMark(mark, mark))],
        },
        "filter": {
            "KUBE-FORWARD": _forward(mark),
            "KUBE-NODE-PORT": [writer.look_up("KUBE-HEALTH-CHECK-NODE-PORT", ACCEPT, sides=("dst",))],
            "KUBE-PROXY-FIREWALL": writer.if_used("KUBE-LOAD-BALANCER-FW", Jump("KUBE-SOURCE-RANGES-FIREWALL")),
            "KUBE-SOURCE-RANGES-FIREWALL": [
                *writer.if_used("KUBE-LOAD-BALANCER-SOURCE-CIDR", RETURN, sides=("dst", "dst", "src")),
                *writer.if_used("KUBE-LOAD-BALANCER-SOURCE-IP", RETURN, sides=("dst", "dst", "src")),
                rule(target=DROP),
            ],
            "KUBE-IPVS-FILTER": _access_filter(writer),
            "KUBE-IPVS-OUT-FILTER": _out_filter(closed_to_node),
        },
    }
    for table, built_in, name, comment in JUMPS:
        chains[table].setdefault(built_in, []).append(rule(target=Jump(name), comment=comment))
    return sort_out_filter(
        tables(
            family,
            {
                table: {
                    name: Chain(name, tuple(rules), policy="" if name in _OWN[table] else "ACCEPT")
                    for name, rules in by_chain.items()
                }
                for table, by_chain in chains.items()
            },
        )
    )


def sort_out_filter(rules: Tables) -> Tables:
    """Sort KUBE-IPVS-OUT-FILTER, so that equal rules compare equal. kube-proxy writes it in the random order of a Go map;
    the order does not matter, because every rule drops."""
    chain = rules.chain("filter", "KUBE-IPVS-OUT-FILTER")
    if chain is None or any(rule.target != DROP for rule in chain.rules):
        return rules
    ordered = replace(chain, rules=tuple(sorted(chain.rules, key=rule_text)))
    chains = {table.name: {**table.by_name} for table in rules.tables}
    chains["filter"][chain.name] = ordered
    return tables(rules.family, chains)


class _Writer:
    """Writes rules that match the sets of one family."""

    def __init__(self, family: int, used: frozenset[str]) -> None:
        self.family = family
        self.used = used

    def match(self, name: str, sides: tuple[str, ...]) -> MatchSet:
        return MatchSet(set_name(name, self.family), sides)

    def look_up(self, name: str, target: Target, *more: Match, sides: tuple[str, ...] = ("dst", "dst")) -> Rule:
        return rule(self.match(name, sides), *more, target=target, comment=COMMENTS[name])

    def if_used(self, name: str, target: Target, *more: Match, sides: tuple[str, ...] = ("dst", "dst")) -> list[Rule]:
        return [self.look_up(name, target, *more, sides=sides)] if name in self.used else []

    def bare(self, name: str, target: Target, *before: Match, sides: tuple[str, ...] = ("dst", "dst")) -> Rule:
        return rule(*before, self.match(name, sides), target=target)


def _services(writer: _Writer, config: RuleConfig) -> list[Rule]:
    loopback = "127.0.0.0/8" if writer.family == 4 else "::1/128"
    rules = [rule(Source(loopback), target=RETURN)]
    rules += writer.if_used("KUBE-LOAD-BALANCER", Jump("KUBE-LOAD-BALANCER"))
    rules += _cluster_ip(writer, config)
    if "KUBE-EXTERNAL-IP" in writer.used:
        rules += [writer.look_up("KUBE-EXTERNAL-IP", MARK_MASQ), *_external_ip(writer, "KUBE-EXTERNAL-IP")]
    if "KUBE-EXTERNAL-IP-LOCAL" in writer.used:
        rules += _external_ip(writer, "KUBE-EXTERNAL-IP-LOCAL")
    rules.append(rule(AddressType("dst", "LOCAL"), target=Jump("KUBE-NODE-PORT")))
    # Accept packets to a virtual server here, so that they skip the nat rules of other programs, which come later.
    return rules + [
        writer.bare(name, ACCEPT) for name in ("KUBE-CLUSTER-IP", "KUBE-LOAD-BALANCER") if name in writer.used
    ]


def _cluster_ip(writer: _Writer, config: RuleConfig) -> list[Rule]:
    if config.masquerade_all:
        return writer.if_used("KUBE-CLUSTER-IP", MARK_MASQ)
    if config.detector.kind:
        return writer.if_used("KUBE-CLUSTER-IP", MARK_MASQ, _not_from_local_pod(config.detector))
    # The source of a packet of this node to a Service address may be a Service address, as all of them are local; the reply
    # would never leave the node.
    return writer.if_used("KUBE-CLUSTER-IP", MARK_MASQ, sides=("src", "dst"))


def _not_from_local_pod(detector: LocalDetector) -> Match:
    if detector.kind == "cidr":
        return Source(network(detector.value), negated=True)
    return InInterface(detector.value + ("+" if detector.kind == "prefix" else ""), negated=True)


def _external_ip(writer: _Writer, name: str) -> list[Rule]:
    """Accept packets to the virtual server that come from outside the machine or never leave it."""
    off_machine = (PhysicalIn(negated=True), AddressType("src", "LOCAL", negated=True))
    return [
        writer.look_up(name, ACCEPT, *off_machine),
        writer.look_up(name, ACCEPT, AddressType("dst", "LOCAL")),
    ]


def _node_ports(writer: _Writer) -> list[Rule]:
    rules: list[Rule] = []
    for protocol, kind in (("tcp", "TCP"), ("udp", "UDP"), ("sctp", "SCTP-HASH")):
        sides = ("dst", "dst") if protocol == "sctp" else ("dst",)
        rules += writer.if_used(f"KUBE-NODE-PORT-LOCAL-{kind}", RETURN, Protocol(protocol), sides=sides)
        rules += writer.if_used(f"KUBE-NODE-PORT-{kind}", MARK_MASQ, Protocol(protocol), sides=sides)
    return rules


def _postrouting(writer: _Writer, mark: int) -> list[Rule]:
    return [
        *writer.if_used("KUBE-LOOP-BACK", Masquerade(), sides=("dst", "dst", "src")),
        rule(Mark(mark, mark, negated=True), target=RETURN),
        rule(target=SetMark(mark, 0)),  # so that a packet that passes here twice is not masqueraded again
        rule(target=Masquerade(random_fully=True), comment="kubernetes service traffic requiring SNAT"),
    ]


def _forward(mark: int) -> list[Rule]:
    states = ConnectionState(("ESTABLISHED", "RELATED"))
    return [
        rule(Mark(mark, mark), target=ACCEPT, comment="kubernetes forwarding rules"),
        rule(states, target=ACCEPT, comment="kubernetes forwarding conntrack rule"),
    ]


def _access_filter(writer: _Writer) -> list[Rule]:
    names = ("KUBE-LOAD-BALANCER", "KUBE-CLUSTER-IP", "KUBE-EXTERNAL-IP", "KUBE-EXTERNAL-IP-LOCAL")
    reject = Reject("icmp-port-unreachable" if writer.family == 4 else "icmp6-port-unreachable")
    return [
        *(writer.bare(name, RETURN) for name in names),
        writer.bare("KUBE-HEALTH-CHECK-NODE-PORT", RETURN, sides=("dst",)),
        writer.bare("KUBE-IPVS-IPS", reject, ConnectionState(("NEW",)), sides=("dst",)),
    ]


def _out_filter(closed_to_node: Iterable[tuple[str, str, int]]) -> list[Rule]:
    """The rules after ip_vs, where the source is still the load balancer's address if the node has not masqueraded yet."""
    return [
        rule(Source(network(address)), IpvsService(network(address), protocol.lower(), port), target=DROP)
        for address, protocol, port in closed_to_node
    ]
