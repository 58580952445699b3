# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks of other programs on the node: firewalls, network agents, their rules in KUBE-* chains."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from ..._audit.remedies import ACCEPT_TRANSLATED
from ..._rules.model import CLUSTER_IP, IPTABLES, IPVS, NFTABLES
from . import foreign_programs
from .facts import Facts
from .foreign_programs import Closed
from .foreign_translations import find_changes
from .rule import ANY, BLOCKER, TO_NFTABLES, WARNING, Rule, Transition


def forwarding_closed(facts: Facts) -> Sequence[str]:
    return [
        f"{closed.where}; to accept them: {closed.insert} {ACCEPT_TRANSLATED[closed.is_nft]}"
        for closed in facts.closed
        if closed.hook == foreign_programs.FORWARD and not closed.lets_services_pass
    ]


def input_closed(facts: Facts) -> Sequence[str]:
    """The old mode's rules accept only health checks of load balancers."""
    ports = sorted(
        {
            service.health_check_node_port
            for view in facts.views.values()
            for service in view.services
            if service.health_check_node_port
        }
    )
    shown = ", ".join(str(port) for port in ports)
    closed = [place for place in facts.closed if place.hook == foreign_programs.INPUT]
    return [
        f"{place.where}; health check node ports: {shown}; to accept them: {_let_in(place, ports)}"
        for place in closed
        if ports
    ]


def _let_in(place: Closed, ports: Sequence[int]) -> str:
    if place.is_nft:
        return f"{place.insert} tcp dport {{ {', '.join(map(str, ports))} }} accept"
    return "; ".join(f"{place.insert} -p tcp --dport {port} -j ACCEPT" for port in ports)


def firewalld_flushes(facts: Facts) -> Sequence[str]:
    return facts.firewalld


def ruleset_flushed(facts: Facts) -> Sequence[str]:
    return facts.flushing_files


def kube_chains_used(facts: Facts) -> Sequence[str]:
    return _in_chains_that_go(facts, inside=False)


def kube_chains_changed(facts: Facts) -> Sequence[str]:
    return _in_chains_that_go(facts, inside=True)


def foreign_translations(facts: Facts) -> Sequence[str]:
    return [line for change in find_changes(facts) if change.is_same for line in change.lines]


def foreign_translations_changed(facts: Facts) -> Sequence[str]:
    return [line for change in find_changes(facts) if not change.is_same for line in change.lines]


def _in_chains_that_go(facts: Facts, *, inside: bool) -> Sequence[str]:
    """Rules in chains of the old mode that the new mode does not have."""
    before, after = foreign_programs.LAYOUTS[facts.change.from_mode], foreign_programs.LAYOUTS[facts.change.to_mode]
    return [
        rule.shown
        for rule in facts.kube_chain_rules
        if rule.inside == inside
        and before.owns(rule.table, rule.kube_chain)
        and not after.owns(rule.table, rule.kube_chain)
    ]


def portmap_mark_chain(facts: Facts) -> Sequence[str]:
    return [
        f"{portmap.path}: externalSetMarkChain {portmap.mark_chain}"
        for portmap in facts.portmaps
        if portmap.mark_chain.startswith("KUBE-") and portmap.backend != NFTABLES
    ]


def node_local_dns(facts: Facts) -> Sequence[str]:
    """NodeLocal DNSCache on the address of a Service. On its own link-local address it needs no rules."""
    if foreign_programs.NODE_LOCAL_DNS not in facts.agents:
        return []
    cluster_ips = {
        frontend.address for view in facts.views.values() for frontend in view.frontends if frontend.kind == CLUSTER_IP
    }
    return [
        f"link nodelocaldns has {address}"
        for address in facts.addresses_of("nodelocaldns")
        if (address in cluster_ips if facts.views else not ipaddress.ip_address(address).is_link_local)
    ]


def calico_in_iptables(facts: Facts) -> Sequence[str]:
    return _agent(facts, foreign_programs.CALICO)


def calico_in_nftables(facts: Facts) -> Sequence[str]:
    return _agent(facts, foreign_programs.CALICO_NFTABLES)


def cilium(facts: Facts) -> Sequence[str]:
    return _agent(facts, foreign_programs.CILIUM)


def antrea(facts: Facts) -> Sequence[str]:
    return _agent(facts, foreign_programs.ANTREA)


def kube_router(facts: Facts) -> Sequence[str]:
    """Empty if kube-router's service proxy runs too: kube_router_proxy reports that."""
    return [] if kube_router_proxy(facts) else _agent(facts, foreign_programs.KUBE_ROUTER)


def kube_router_proxy(facts: Facts) -> Sequence[str]:
    return _agent(facts, foreign_programs.KUBE_ROUTER_PROXY)


def _agent(facts: Facts, name: str) -> Sequence[str]:
    return facts.agents.get(name, ())


_OUT_OF_IPTABLES = Transition(leaving=(IPTABLES, IPVS), entering=(NFTABLES,))
_BETWEEN_CHAINS = Transition(leaving=(IPTABLES, IPVS))

RULES = (
    Rule(
        id="preflight-firewall-forward",
        severity=WARNING,
        reads="base chains of nftables at the hook forward; chain FORWARD of iptables, both variants and families",
        condition=forwarding_closed,
        applies=_OUT_OF_IPTABLES,
        source="pkg/proxy/nftables/README.md; rke2#10469",
    ),
    Rule(
        id="preflight-firewall-input",
        severity=WARNING,
        reads="base chains of nftables at the hook input; chain INPUT of iptables; health check node ports of Services",
        condition=input_closed,
        applies=_OUT_OF_IPTABLES,
        source="pkg/proxy/iptables/proxier.go, chain KUBE-NODEPORTS of filter",
    ),
    Rule(
        id="preflight-firewalld-flush",
        severity=WARNING,
        reads="systemctl is-active firewalld, table inet firewalld, FlushAllOnReload in /etc/firewalld/firewalld.conf",
        condition=firewalld_flushes,
        applies=TO_NFTABLES,
        believed=True,
        source="firewalld#863, rke2#10469",
    ),
    Rule(
        id="preflight-flush-ruleset",
        severity=WARNING,
        reads="/etc/nftables.conf, /etc/sysconfig/nftables.conf, whether nftables.service is enabled",
        condition=ruleset_flushed,
        applies=TO_NFTABLES,
        source="spatiumddi#382; kube-proxy in mode nftables rewrites only what changes, for up to an hour",
    ),
    Rule(
        id="preflight-kube-chains-used",
        severity=WARNING,
        reads="iptables-save, both variants and families",
        condition=kube_chains_used,
        applies=_BETWEEN_CHAINS,
        source="kube-proxy, iptables/cleanup.go",
    ),
    Rule(
        id="preflight-kube-chains-changed",
        severity=WARNING,
        reads="iptables-save, both variants and families",
        condition=kube_chains_changed,
        applies=_BETWEEN_CHAINS,
        source="kube-proxy, iptables/cleanup.go: rules in these chains are flushed with them",
    ),
    Rule(
        id="preflight-foreign-nat",
        severity=WARNING,
        reads="nat and raw tables of iptables, both variants and families; nat chains of nftables; Services",
        condition=foreign_translations,
        applies=ANY,
        source="k/k#66103, k/k#72522, aws/amazon-vpc-cni-k8s#499",
    ),
    Rule(
        id="preflight-foreign-nat-changes",
        severity=BLOCKER,
        reads="nat and raw tables of iptables, both variants and families; nat chains of nftables; Services",
        condition=foreign_translations_changed,
        applies=ANY,
        source="order of chains in the kernel: net/netfilter/nf_nat_core.c; siderolabs/talos#9223",
    ),
    Rule(
        id="preflight-portmap",
        severity=WARNING,
        reads="/etc/cni/net.d",
        condition=portmap_mark_chain,
        applies=_OUT_OF_IPTABLES,
        source="containernetworking plugins, portmap; plugins#512",
    ),
    Rule(
        id="preflight-node-local-dns",
        severity=WARNING,
        reads="addresses of the link nodelocaldns",
        condition=node_local_dns,
        applies=_OUT_OF_IPTABLES,
        believed=True,
        source="kubernetes/dns#682",
    ),
    Rule(
        id="preflight-calico-iptables",
        severity=WARNING,
        reads="chains cali-* of iptables",
        condition=calico_in_iptables,
        applies=TO_NFTABLES,
        believed=True,
        source="calico#8025, kubespray#12198; Calico's page of its nftables data plane",
    ),
    Rule(
        id="preflight-calico-nftables",
        severity=WARNING,
        reads="tables calico of nftables",
        condition=calico_in_nftables,
        applies=Transition(leaving=(NFTABLES,)),
        believed=True,
        source="Calico's page of its nftables data plane",
    ),
    Rule(
        id="preflight-antrea",
        severity=WARNING,
        reads="link antrea-gw0, chains ANTREA-* of iptables",
        condition=antrea,
        applies=ANY,
        believed=True,
        source="antrea#7545",
    ),
    Rule(
        id="preflight-cilium",
        severity=WARNING,
        reads="link cilium_host, chains CILIUM_* of iptables",
        condition=cilium,
        applies=ANY,
        believed=True,
        source="Cilium's page of kubeProxyReplacement",
    ),
    Rule(
        id="preflight-kube-router",
        severity=WARNING,
        reads="link kube-bridge",
        condition=kube_router,
        applies=ANY,
        believed=True,
        source="kube-router's page of its Service proxy",
    ),
    Rule(
        id="preflight-kube-router-proxy",
        severity=BLOCKER,
        reads="link kube-dummy-if",
        condition=kube_router_proxy,
        applies=Transition(unchanged=True),
        believed=True,
        source="kube-router's page of its Service proxy",
    ),
)
