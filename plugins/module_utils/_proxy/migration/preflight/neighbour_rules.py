# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks of what other programs on the node make of a change: firewalls, network agents, what they have in KUBE-* chains."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from ...model import CLUSTER_IP, IPTABLES, IPVS, NFTABLES
from . import neighbours
from .facts import Facts
from .rule import ANY, HARD, SOFT, TO_NFTABLES, Rule, Transition


def forwarding_closed(facts: Facts) -> Sequence[str]:
    return [one.where for one in facts.closed if one.hook == neighbours.FORWARD and not one.lets_services_pass]


def input_closed(facts: Facts) -> Sequence[str]:
    """iptables and ipvs let health checks of load balancers in, and nothing else."""
    ports = sorted(
        {
            one.health_check_node_port
            for view in facts.views.values()
            for one in view.services
            if one.health_check_node_port
        }
    )
    shown = ", ".join(str(port) for port in ports)
    closed = [one.where for one in facts.closed if one.hook == neighbours.INPUT]
    return [f"{where}; health check node ports: {shown}" for where in closed] if ports else []


def firewalld_flushes(facts: Facts) -> Sequence[str]:
    return facts.firewalld


def ruleset_flushed(facts: Facts) -> Sequence[str]:
    return facts.flushing_files


def kube_chains_used(facts: Facts) -> Sequence[str]:
    return _in_chains_that_go(facts, inside=False)


def kube_chains_changed(facts: Facts) -> Sequence[str]:
    return _in_chains_that_go(facts, inside=True)


def _in_chains_that_go(facts: Facts, *, inside: bool) -> Sequence[str]:
    """Rules of chains that the mode which is left has, and the one that is entered has not."""
    before, after = neighbours.LAYOUTS[facts.asked.from_mode], neighbours.LAYOUTS[facts.asked.to_mode]
    return [
        one.shown
        for one in facts.kube_chain_rules
        if one.inside == inside and before.owns(one.table, one.kube_chain) and not after.owns(one.table, one.kube_chain)
    ]


def portmap_mark_chain(facts: Facts) -> Sequence[str]:
    return [
        f"{one.path}: externalSetMarkChain {one.mark_chain}"
        for one in facts.portmaps
        if one.mark_chain.startswith("KUBE-") and one.backend != NFTABLES
    ]


def node_local_dns(facts: Facts) -> Sequence[str]:
    """Where it answers under a Service's address; on its own link-local one it needs no rules."""
    if neighbours.NODE_LOCAL_DNS not in facts.agents:
        return []
    cluster_ips = {one.address for view in facts.views.values() for one in view.frontends if one.kind == CLUSTER_IP}
    return [
        f"link nodelocaldns has {address}"
        for address in facts.addresses_of("nodelocaldns")
        if (address in cluster_ips if facts.views else not ipaddress.ip_address(address).is_link_local)
    ]


def calico_in_iptables(facts: Facts) -> Sequence[str]:
    return _agent(facts, neighbours.CALICO)


def calico_in_nftables(facts: Facts) -> Sequence[str]:
    return _agent(facts, neighbours.CALICO_NFTABLES)


def cilium(facts: Facts) -> Sequence[str]:
    return _agent(facts, neighbours.CILIUM)


def antrea(facts: Facts) -> Sequence[str]:
    return _agent(facts, neighbours.ANTREA)


def kube_router(facts: Facts) -> Sequence[str]:
    """Where its Service proxy runs too, that is told of instead."""
    return [] if kube_router_proxy(facts) else _agent(facts, neighbours.KUBE_ROUTER)


def kube_router_proxy(facts: Facts) -> Sequence[str]:
    return _agent(facts, neighbours.KUBE_ROUTER_PROXY)


def _agent(facts: Facts, name: str) -> Sequence[str]:
    return facts.agents.get(name, ())


_OUT_OF_IPTABLES = Transition(leaving=(IPTABLES, IPVS), entering=(NFTABLES,))
_BETWEEN_CHAINS = Transition(leaving=(IPTABLES, IPVS))

RULES = (
    Rule(
        id="preflight-firewall-forward",
        severity=SOFT,
        reads="base chains of nftables at the hook forward; chain FORWARD of iptables, both variants and families",
        condition=forwarding_closed,
        applies=_OUT_OF_IPTABLES,
        source="pkg/proxy/nftables/README.md; rke2#10469",
    ),
    Rule(
        id="preflight-firewall-input",
        severity=SOFT,
        reads="base chains of nftables at the hook input; chain INPUT of iptables; health check node ports of Services",
        condition=input_closed,
        applies=_OUT_OF_IPTABLES,
        source="pkg/proxy/iptables/proxier.go, chain KUBE-NODEPORTS of filter",
    ),
    Rule(
        id="preflight-firewalld-flush",
        severity=SOFT,
        reads="systemctl is-active firewalld, table inet firewalld, FlushAllOnReload in /etc/firewalld/firewalld.conf",
        condition=firewalld_flushes,
        applies=TO_NFTABLES,
        believed=True,
        source="firewalld#863, rke2#10469",
    ),
    Rule(
        id="preflight-flush-ruleset",
        severity=SOFT,
        reads="/etc/nftables.conf, /etc/sysconfig/nftables.conf, whether nftables.service is enabled",
        condition=ruleset_flushed,
        applies=TO_NFTABLES,
        source="spatiumddi#382; kube-proxy in mode nftables writes anew only what changes, for up to an hour",
    ),
    Rule(
        id="preflight-kube-chains-used",
        severity=SOFT,
        reads="iptables-save, both variants and families",
        condition=kube_chains_used,
        applies=_BETWEEN_CHAINS,
        source="reference of kube-proxy 1.7, 2.4",
    ),
    Rule(
        id="preflight-kube-chains-changed",
        severity=SOFT,
        reads="iptables-save, both variants and families",
        condition=kube_chains_changed,
        applies=_BETWEEN_CHAINS,
        source="reference of kube-proxy 1.7, 2.4: rules in these chains are flushed with them",
    ),
    Rule(
        id="preflight-portmap",
        severity=SOFT,
        reads="/etc/cni/net.d",
        condition=portmap_mark_chain,
        applies=_OUT_OF_IPTABLES,
        source="containernetworking plugins, portmap; plugins#512",
    ),
    Rule(
        id="preflight-node-local-dns",
        severity=SOFT,
        reads="addresses of the link nodelocaldns",
        condition=node_local_dns,
        applies=_OUT_OF_IPTABLES,
        believed=True,
        source="kubernetes/dns#682",
    ),
    Rule(
        id="preflight-calico-iptables",
        severity=SOFT,
        reads="chains cali-* of iptables",
        condition=calico_in_iptables,
        applies=TO_NFTABLES,
        believed=True,
        source="calico#8025, kubespray#12198; Calico's page of its nftables data plane",
    ),
    Rule(
        id="preflight-calico-nftables",
        severity=SOFT,
        reads="tables calico of nftables",
        condition=calico_in_nftables,
        applies=Transition(leaving=(NFTABLES,)),
        believed=True,
        source="Calico's page of its nftables data plane",
    ),
    Rule(
        id="preflight-antrea",
        severity=SOFT,
        reads="link antrea-gw0, chains ANTREA-* of iptables",
        condition=antrea,
        applies=ANY,
        believed=True,
        source="antrea#7545",
    ),
    Rule(
        id="preflight-cilium",
        severity=SOFT,
        reads="link cilium_host, chains CILIUM_* of iptables",
        condition=cilium,
        applies=ANY,
        believed=True,
        source="Cilium's page of kubeProxyReplacement",
    ),
    Rule(
        id="preflight-kube-router",
        severity=SOFT,
        reads="link kube-bridge",
        condition=kube_router,
        applies=ANY,
        believed=True,
        source="kube-router's page of its Service proxy",
    ),
    Rule(
        id="preflight-kube-router-proxy",
        severity=HARD,
        reads="link kube-dummy-if",
        condition=kube_router_proxy,
        applies=Transition(unchanged=True),
        believed=True,
        source="kube-router's page of its Service proxy",
    ),
)
