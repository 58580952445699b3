# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules behind expected verdicts, in an operator's words. Those that do not hold for every backend are the differences.

expected_verdict.py applies them; `backends` says where a rule holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .._rules.gates import NEWEST, OLDEST
from .._rules.model import IPTABLES, IPVS, NFTABLES

EVERY = (NFTABLES, IPTABLES, IPVS)


@dataclass(frozen=True)
class Rule:
    """`backends`: where the rule holds. For kube-proxy's nftables rules, only in minor versions `since` to `until`."""

    id: str
    text: str
    source: str
    backends: tuple[str, ...] = EVERY
    since: int = OLDEST
    until: int = NEWEST

    def holds(self, backend: str, minor: int) -> bool:
        return backend in self.backends and (backend != NFTABLES or self.since <= minor <= self.until)

    def __post_init__(self) -> None:
        if not self.backends or set(self.backends) - set(EVERY):
            raise ValueError(f"rule {self.id} holds for {self.backends}")


_POLICIES = "Kubernetes, Virtual IPs and Service Proxies: traffic policies; kube-proxy, topology.go"
_VERDICTS = "kube-proxy, nftables/proxier.go and iptables/proxier.go"
_MIGRATING = "Kubernetes, Virtual IPs and Service Proxies: migrating from iptables mode to nftables"
_SHORT_CIRCUIT = (
    "kube-proxy, nftables/proxier.go and iptables/proxier.go: pods and the node itself are no outside clients"
)

_ROWS = (
    Rule("no-service", "the destination belongs to no Service", _VERDICTS),
    Rule(
        "undefined-port-rejected",
        "the address is a clusterIP, but no Service has this port on it",
        "kube-proxy, nftables/proxier.go: cluster-ips-check; ipvs/proxier.go: KUBE-IPVS-FILTER",
        (NFTABLES, IPVS),
        since=30,
    ),
    Rule(
        "undefined-external-port-rejected",
        "the address is an external or load balancer IP that is bound to kube-ipvs0, and no Service has this port on it",
        "kube-proxy, ipvs/proxier.go: KUBE-IPVS-IPS has every bound address",
        (IPVS,),
    ),
    Rule(
        "health-check-port",
        "a health check node port, TCP or UDP, reaches the node on every Service's address",
        "kube-proxy, ipvs/proxier.go: KUBE-HEALTH-CHECK-NODE-PORT has ports without addresses",
        (IPVS,),
    ),
    Rule(
        "unallocated-dropped",
        "the address is in a ServiceCIDR, but no Service has it",
        "kube-proxy, nftables/proxier.go: cluster-ips-check drops what is in a ServiceCIDR",
        (NFTABLES,),
        since=30,
    ),
    Rule(
        "taken-by-node",
        "the address is on an interface of the node: packets go to the program that listens there",
        "kube-proxy, nftables/proxier.go: cluster-ips-check is in forward and output",
        (NFTABLES,),
    ),
    Rule(
        "node-port-primary",
        "node ports are served on the node's primary address only, as nodePortAddresses is not set",
        _MIGRATING,
        (NFTABLES,),
    ),
    Rule("node-port-elsewhere", "node ports are not served on this address", "kube-proxy, util/nodeport_addresses.go"),
    Rule(
        "node-port-loopback",
        "node ports are served on loopback",
        _MIGRATING,
        (IPTABLES,),
    ),
    Rule(
        "node-port-after-address",
        "the address is on an interface of the node, the port is also a node port, and the rules for the address "
        "translate nothing: the rules for node ports apply",
        "kube-proxy, iptables/proxier.go: KUBE-NODEPORTS is called last in KUBE-SERVICES",
        (IPTABLES,),
    ),
    Rule(
        "node-port-loopback-rejected",
        "node ports are rejected on loopback, except those that kube-proxy's userspace proxy serves",
        "kube-proxy 1.37, nftables/proxier.go: localhost-nodeport-reject-ports",
        (NFTABLES,),
    ),
    Rule(
        "node-port-new-address",
        "the address was added to an interface after the rules were written: no virtual server has it",
        "kube-proxy, ipvs/proxier.go: a virtual server per node port and address",
        (IPVS,),
    ),
    Rule(
        "node-port-link-local",
        "node ports are not served on link-local addresses of IPv6 unless nodePortAddresses names them",
        "kube-proxy, ipvs/netlink_linux.go: where all addresses are taken, these are not",
        (IPVS,),
    ),
    Rule(
        "node-port-closed-everywhere",
        "a node port without an endpoint is rejected on every address of the node, even where it is not served",
        "kube-proxy, iptables/proxier.go: the rule in KUBE-EXTERNAL-SERVICES asks for a local address only",
        (IPTABLES,),
    ),
    Rule(
        "source-balancer",
        "the source is a load balancer IP of the Service that is bound to the node, and the node is in "
        "loadBalancerSourceRanges",
        _VERDICTS,
        (NFTABLES, IPTABLES),
    ),
    Rule(
        "source-balancer-itself",
        "source and destination are the same address, and the node is in loadBalancerSourceRanges",
        "kube-proxy, ipvs/proxier.go: KUBE-LOAD-BALANCER-SOURCE-IP",
        (IPVS,),
    ),
    Rule("source-refused", "the source is not in loadBalancerSourceRanges", _VERDICTS),
    Rule(
        "ranges-without-endpoints",
        "loadBalancerSourceRanges do not apply without a serving endpoint",
        "kube-proxy, iptables/proxier.go: there is a KUBE-FW chain for a Service with endpoints only",
        (IPTABLES,),
    ),
    Rule(
        "ranges-from-node",
        "loadBalancerSourceRanges apply to incoming packets; the node's own packets are dropped only when sent from "
        "the load balancer's address while the node is in no range",
        "kube-proxy, ipvs/proxier.go: KUBE-IPVS-OUT-FILTER; kernel, ip_vs translates before the filter table of OUTPUT",
        (IPVS,),
    ),
    Rule(
        "ranges-not-on-arrival",
        "kube-proxy 1.29 checks loadBalancerSourceRanges after translating incoming packets, which then have another "
        "destination: every source is accepted",
        "kube-proxy 1.29, nftables/proxier.go: firewall-check is in input, forward and output",
        (NFTABLES,),
        until=29,
    ),
    Rule(
        "ranges-after-endpoints",
        "up to kube-proxy 1.32, a packet from the node itself to a Service without endpoints is rejected "
        "before loadBalancerSourceRanges are checked",
        "kube-proxy 1.32, nftables/proxier.go: order of the jumps in filter-output",
        (NFTABLES,),
        until=32,
    ),
    Rule("no-endpoints", "no endpoint serves on any node", _VERDICTS),
    Rule(
        "no-endpoints-from-node",
        "for packets from the node itself to external and load balancer IPs, no rule checks whether an endpoint serves",
        "kube-proxy, iptables/proxier.go: KUBE-EXTERNAL-SERVICES is in INPUT and FORWARD",
        (IPTABLES,),
    ),
    Rule("internal-cluster", "internalTrafficPolicy Cluster: endpoints of all nodes", _POLICIES),
    Rule("internal-local", "internalTrafficPolicy Local: endpoints of this node", _POLICIES),
    Rule(
        "internal-local-none",
        "internalTrafficPolicy Local, and only other nodes have endpoints",
        _POLICIES,
        (NFTABLES, IPTABLES),
    ),
    Rule(
        "internal-local-others",
        "internalTrafficPolicy Local, only other nodes have endpoints, and the Service has external addresses: endpoints of other nodes",
        "kube-proxy, ipvs/proxier.go: a policy Local without local endpoints takes those of the policy Cluster",
        (IPVS,),
    ),
    Rule(
        "no-real-servers",
        "internalTrafficPolicy Local leaves no endpoint: a virtual server without real servers refuses",
        "kernel, ip_vs_leave",
        (IPVS,),
    ),
    Rule("external-cluster", "externalTrafficPolicy Cluster: endpoints of all nodes, masqueraded", _POLICIES),
    Rule("external-local", "externalTrafficPolicy Local: endpoints of this node, the source is kept", _POLICIES),
    Rule(
        "external-local-pod",
        "externalTrafficPolicy Local, from a pod of this node: endpoints of all nodes",
        _SHORT_CIRCUIT,
        (NFTABLES, IPTABLES),
    ),
    Rule(
        "external-local-node",
        "externalTrafficPolicy Local, from this node itself: endpoints of all nodes, masqueraded",
        _SHORT_CIRCUIT,
        (NFTABLES, IPTABLES),
    ),
    Rule(
        "external-local-none-from-node",
        "externalTrafficPolicy Local, only other nodes have endpoints, and the packet comes from this node: up to "
        "kube-proxy 1.32 it is dropped before the policy applies",
        "kube-proxy 1.32, nftables/proxier.go: filter-output comes before nat-output",
        (NFTABLES,),
        until=32,
    ),
    Rule(
        "node-port-none-from-node",
        "the same with a node port, which only kube-proxy 1.29 drops",
        "kube-proxy 1.29, nftables/proxier.go: endpoints-check has no-endpoint-nodeports too",
        (NFTABLES,),
        until=29,
    ),
    Rule(
        "external-local-none",
        "externalTrafficPolicy Local, and only other nodes have endpoints",
        _POLICIES,
        (NFTABLES, IPTABLES),
    ),
    Rule(
        "external-local-others",
        "externalTrafficPolicy Local, and only other nodes have endpoints: those, as one virtual server serves all sources",
        "kube-proxy, ipvs/proxier.go",
        (IPVS,),
    ),
    Rule("masquerade-all", "masqueradeAll: every source of a clusterIP is masqueraded", _VERDICTS),
    Rule("masquerade-elsewhere", "the source is not a pod of this node: masqueraded", _VERDICTS),
    Rule(
        "masquerade-virtual",
        "detectLocalMode does not decide, but the source is the clusterIP itself, which the node has on kube-ipvs0",
        "kube-proxy, ipvs/proxier.go: KUBE-CLUSTER-IP src,dst",
        (IPVS,),
    ),
    Rule(
        "masquerade-node-port",
        "the address is on kube-ipvs0 and thus local, and the port is also a node port: masqueraded like node ports",
        "kube-proxy, ipvs/proxier.go: KUBE-NODE-PORT asks for a local address and the port",
        (IPVS,),
    ),
    Rule("hairpin", "the source may be chosen as its own endpoint: then it is masqueraded", _VERDICTS),
    Rule(
        "hairpin-elsewhere",
        "the source is a pod of another node and may be chosen as its own endpoint: then it is masqueraded",
        "kube-proxy, iptables/proxier.go: each KUBE-SEP chain marks its own endpoint; other backends handle hairpins of local endpoints only",
        (IPTABLES,),
    ),
    Rule("affinity", "sessionAffinity ClientIP: a source keeps its endpoint", _VERDICTS),
)
RULES: Mapping[str, Rule] = {row.id: row for row in _ROWS}
DIFFERENCES = tuple(row for row in _ROWS if row.backends != EVERY)
