# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One Service on one node, one packet, and what must become of it on each backend: a case or more for each rule."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Union

from ansible_collections.ballast.kube.plugins.module_utils._rules.frontends import assign_frontends
from ansible_collections.ballast.kube.plugins.module_utils._rules.gates import NEWEST
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import (
    Endpoint,
    FamilyView,
    LocalDetector,
    NodeView,
    RuleConfig,
    ServicePort,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import (
    DROP,
    PASS,
    REJECT,
    Answer,
    Packet,
    Surroundings,
)
from tests.unit.audit.answers import to
from tests.unit.rules import strategies as s

POOL, POOL6 = s.POOLS[4], s.POOLS[6]
POD, NEIGHBOUR = POOL.local_pods[0], POOL.local_pods[1]
REMOTE_POD = POOL.other_pods[0]
CLIENT, STRANGER = POOL.clients
CLUSTER_IP, EXTERNAL, BALANCER = POOL.cluster_ips[0], POOL.external_ips[0], POOL.load_balancer_ips[0]
HERE, THERE = f"{POD}:8080", f"{REMOTE_POD}:8080"
LATE = "10.50.0.78"  # on a link since the view was made
HERE6 = f"[{POOL6.local_pods[0]}]:8080"
TAKEN = "10.96.0.250"  # in the ServiceCIDR
LINK_LOCAL, LINK_LOCAL6 = "169.254.20.10", "fe80::10"
BOUND = "10.50.0.77"  # a load balancer's address on a link of the node

SURROUNDINGS = Surroundings(
    (
        ("lo", ("127.0.0.1", "::1")),
        ("cni0", (POOL.gateway,)),
        ("eth0", (POOL.primary, POOL6.primary, LINK_LOCAL6)),
        ("eth1", (POOL.second, BOUND, LATE, LINK_LOCAL, TAKEN)),
    )
)
NODE = NodeView(
    s.THIS_NODE, primary=POOL.primary, addresses=(POOL.gateway, POOL.second, BOUND, LINK_LOCAL, POOL.primary)
)
NODE6 = NodeView(s.THIS_NODE, primary=POOL6.primary, addresses=(POOL6.primary, LINK_LOCAL6))

SERVICE = ServicePort(
    namespace="default",
    name="web",
    port_name="",
    protocol="TCP",
    port=80,
    cluster_ip=CLUSTER_IP,
    node_port=30080,
    external_ips=(EXTERNAL,),
    load_balancer_ips=(BALANCER, BOUND),
    endpoints=(Endpoint(POD, 8080, node=s.THIS_NODE), Endpoint(REMOTE_POD, 8080, node=s.OTHER_NODE)),
)
DRAINING = Endpoint(POD, 8080, ready=False, serving=True, terminating=True, node=s.THIS_NODE)
REMOTE_ONLY = SERVICE._replace(endpoints=SERVICE.endpoints[1:])
SERVICE6 = ServicePort(
    namespace="default",
    name="web",
    port_name="",
    protocol="TCP",
    port=80,
    cluster_ip=POOL6.cluster_ips[0],
    node_port=30080,
    endpoints=(Endpoint(POOL6.local_pods[0], 8080, node=s.THIS_NODE),),
)
LOCAL = SERVICE._replace(external_local=True)
LOCAL_REMOTE_ONLY = REMOTE_ONLY._replace(external_local=True)
BOTH_LOCAL = LOCAL_REMOTE_ONLY._replace(internal_local=True)
EMPTY = SERVICE._replace(endpoints=())
INSIDE = SERVICE._replace(node_port=0, external_ips=(), load_balancer_ips=())
RANGED = SERVICE._replace(source_ranges=("172.16.0.0/16",))


def tcp(source: str, destination: str, port: int, *, link: str = "eth0", node_local: bool = False) -> Packet:
    return Packet(source, destination, port, "TCP", "" if node_local else link, node_local)


def udp(destination: str, port: int, *, source: str) -> Packet:
    return Packet(source, destination, port, "UDP", node_local=True)


def from_node(destination: str, port: int, *, source: str = POOL.primary) -> Packet:
    return tcp(source, destination, port, node_local=True)


@dataclass(frozen=True)
class Case:
    title: str
    service: ServicePort
    packet: Packet
    want: Union[Answer, dict[str, Answer]]  # dict: by backend, "" for the others
    config: dict[str, object] = field(default_factory=dict)
    minor: int = NEWEST  # of the kube-proxy that wrote the nftables rules

    def scenario(self, backend: str) -> s.Scenario:
        family = self.packet.family
        pods = LocalDetector("cidr", s.POOLS[family].pod_cidr)
        config = replace(RuleConfig(backend, pods), **self.config)  # type: ignore[arg-type]
        owned, duplicates = assign_frontends((self.service,), lambda _service: 0.0)
        node = NODE if family == 4 else NODE6
        view = FamilyView(family, node, (self.service,), owned, duplicates, (s.POOLS[family].service_cidr,))
        return s.Scenario(view, config, SURROUNDINGS)

    def wanted(self, backend: str) -> Answer:
        return self.want if isinstance(self.want, Answer) else self.want.get(backend) or self.want[""]


EVERYWHERE = {"node_port_addresses": ("0.0.0.0/0",)}
NO_DETECTOR = {"detector": LocalDetector()}
NO_LOOPBACK = {"localhost_node_ports": False}
CASES = (
    # No Service
    Case("an address outside", SERVICE, tcp(CLIENT, POOL.elsewhere, 80), Answer(PASS)),
    Case(
        "an undefined port of a clusterIP",
        SERVICE,
        tcp(POD, CLUSTER_IP, 7),
        {"iptables": Answer(PASS), "": Answer(REJECT)},
    ),
    Case(
        "another protocol on a port of a clusterIP",
        SERVICE,
        Packet(POD, CLUSTER_IP, 80, "UDP", "cni0"),
        {"iptables": Answer(PASS), "": Answer(REJECT)},
    ),
    Case(
        "an undefined port of an external IP",
        SERVICE,
        tcp(CLIENT, EXTERNAL, 7),
        {"ipvs": Answer(REJECT), "": Answer(PASS)},
    ),
    Case("an undefined port of a load balancer IP on a link", SERVICE, tcp(CLIENT, BOUND, 7), Answer(PASS)),
    Case(
        "an unallocated clusterIP",
        SERVICE,
        tcp(POD, POOL.unallocated, 80),
        {"nftables": Answer(DROP), "": Answer(PASS)},
    ),
    Case("a clusterIP of nobody that the node has on a link", SERVICE, tcp(POD, TAKEN, 80), Answer(PASS)),
    Case(
        "a clusterIP of nobody that the node has on a link, from the node",
        SERVICE,
        from_node(TAKEN, 80),
        {"nftables": Answer(DROP), "": Answer(PASS)},
    ),
    Case(
        "an external IP in a ServiceCIDR",
        SERVICE._replace(external_ips=(POOL.unallocated,)),
        tcp(CLIENT, POOL.unallocated, 7),
        {"nftables": Answer(DROP), "iptables": Answer(PASS), "ipvs": Answer(REJECT)},
    ),
    # clusterIP
    Case("a pod of this node keeps its address", SERVICE, tcp(NEIGHBOUR, CLUSTER_IP, 80), to(HERE, THERE)),
    Case("a client is masqueraded", SERVICE, tcp(CLIENT, CLUSTER_IP, 80), to(HERE, THERE, masquerade=True)),
    Case("the node is masqueraded", SERVICE, from_node(CLUSTER_IP, 80), to(HERE, THERE, masquerade=True)),
    Case("without a detector nobody is", SERVICE, tcp(CLIENT, CLUSTER_IP, 80), to(HERE, THERE), NO_DETECTOR),
    Case(
        "with masqueradeAll a pod is too",
        SERVICE,
        tcp(NEIGHBOUR, CLUSTER_IP, 80),
        to(HERE, THERE, masquerade=True),
        {"masquerade_all": True},
    ),
    Case(
        "a pod is told by its link",
        SERVICE,
        tcp(CLIENT, CLUSTER_IP, 80, link="cni0"),
        to(HERE, THERE),
        {"detector": LocalDetector("bridge", "cni0")},
    ),
    Case(
        "or by how its link's name begins",
        SERVICE,
        tcp(POD, CLUSTER_IP, 80, link="eth0"),
        to(HERE, THERE, masquerade=True),
        {"detector": LocalDetector("prefix", "veth")},
    ),
    Case("a pod that may draw itself", SERVICE, tcp(POD, CLUSTER_IP, 80), to(HERE, THERE, hairpin=(HERE,))),
    Case(
        "affinity",
        SERVICE._replace(affinity_seconds=300),
        tcp(NEIGHBOUR, CLUSTER_IP, 80),
        to(HERE, THERE, affinity=300),
    ),
    Case("no endpoints", EMPTY, tcp(POD, CLUSTER_IP, 80), Answer(REJECT)),
    Case("iTP Local", SERVICE._replace(internal_local=True), tcp(NEIGHBOUR, CLUSTER_IP, 80), to(HERE)),
    Case(
        "iTP Local, none local",
        REMOTE_ONLY._replace(internal_local=True),
        tcp(POD, CLUSTER_IP, 80),
        {"ipvs": to(THERE), "": Answer(DROP)},
    ),
    Case(
        "iTP Local, none local, nothing else leads to the Service",
        INSIDE._replace(internal_local=True, endpoints=REMOTE_ONLY.endpoints),
        tcp(POD, CLUSTER_IP, 80),
        {"ipvs": Answer(REJECT), "": Answer(DROP)},
    ),
    Case(
        "from the clusterIP itself, nobody told from another",
        SERVICE,
        from_node(CLUSTER_IP, 80, source=CLUSTER_IP),
        {"ipvs": to(HERE, THERE, masquerade=True), "": to(HERE, THERE)},
        NO_DETECTOR,
    ),
    Case(
        "from the clusterIP itself to an external IP, eTP Local",
        LOCAL,
        from_node(EXTERNAL, 80, source=CLUSTER_IP),
        {"ipvs": to(HERE, masquerade=True), "": to(HERE)},
        NO_DETECTOR,
    ),
    Case(
        "from a clusterIP that has no such port",
        SERVICE._replace(port=81),
        from_node(CLUSTER_IP, 81, source=POOL.cluster_ips[1]),
        to(HERE, THERE),
        NO_DETECTOR,
    ),
    Case(
        "a pod of another node that may draw itself",
        SERVICE,
        tcp(REMOTE_POD, CLUSTER_IP, 80),
        {"iptables": to(HERE, THERE, hairpin=(THERE,)), "": to(HERE, THERE)},
        NO_DETECTOR,
    ),
    Case("eTP Local is nothing to a clusterIP", LOCAL_REMOTE_ONLY, tcp(POD, CLUSTER_IP, 80), to(THERE)),
    # External addresses
    Case("an external IP", SERVICE, tcp(CLIENT, EXTERNAL, 80), to(HERE, THERE, masquerade=True)),
    Case("a pod is masqueraded there", SERVICE, tcp(NEIGHBOUR, EXTERNAL, 80), to(HERE, THERE, masquerade=True)),
    Case("iTP Local is nothing to an external IP", BOTH_LOCAL, tcp(NEIGHBOUR, EXTERNAL, 80), to(THERE)),
    Case("an external IP without endpoints", EMPTY, tcp(CLIENT, EXTERNAL, 80), Answer(REJECT)),
    Case("eTP Local", LOCAL, tcp(CLIENT, BALANCER, 80), to(HERE)),
    Case("eTP Local, none local", LOCAL_REMOTE_ONLY, tcp(CLIENT, BALANCER, 80), {"ipvs": to(THERE), "": Answer(DROP)}),
    Case("eTP Local, from a pod", LOCAL, tcp(NEIGHBOUR, BALANCER, 80), {"ipvs": to(HERE), "": to(HERE, THERE)}),
    Case("eTP Local, from a pod nobody can tell", LOCAL, tcp(NEIGHBOUR, BALANCER, 80), to(HERE), NO_DETECTOR),
    Case(
        "eTP Local, from the node",
        LOCAL,
        from_node(BALANCER, 80),
        {"ipvs": to(HERE), "": to(HERE, THERE, masquerade=True)},
    ),
    Case(
        "eTP Local, from the node by the address of its bridge, which a pod might have",
        LOCAL,
        from_node(BALANCER, 80, source=POOL.gateway),
        {"ipvs": to(HERE), "": to(HERE, THERE)},
    ),
    Case("a source in a range", RANGED, tcp(CLIENT, BALANCER, 80), to(HERE, THERE, masquerade=True)),
    Case("a source in no range", RANGED, tcp(STRANGER, BALANCER, 80), Answer(DROP)),
    Case("ranges bind pods", RANGED, tcp(POD, BALANCER, 80), Answer(DROP)),
    Case(
        "ranges bind the node",
        RANGED,
        from_node(BALANCER, 80),
        {"ipvs": to(HERE, THERE, masquerade=True), "": Answer(DROP)},
    ),
    Case(
        "an address that is a range, the node in none",
        SERVICE._replace(source_ranges=(f"{BOUND}/32",)),
        from_node(BOUND, 80, source=BOUND),
        {"ipvs": Answer(DROP), "": to(HERE, THERE, masquerade=True)},
    ),
    Case(
        "a source in no range, no endpoints",
        RANGED._replace(endpoints=()),
        tcp(STRANGER, BALANCER, 80),
        {"iptables": Answer(REJECT), "": Answer(DROP)},
    ),
    Case(
        "the node in no range, no endpoints",
        RANGED._replace(endpoints=()),
        from_node(BOUND, 80, source=BOUND),
        {"nftables": Answer(DROP), "": Answer(REJECT)},
    ),
    Case(
        "an external IP without endpoints, from the node",
        EMPTY,
        from_node(EXTERNAL, 80),
        {"iptables": Answer(PASS), "": Answer(REJECT)},
    ),
    Case("an external IP on a link without endpoints, from the node", EMPTY, from_node(BOUND, 80), Answer(REJECT)),
    Case("a clusterIP without endpoints, from the node", EMPTY, from_node(CLUSTER_IP, 80), Answer(REJECT)),
    Case("ranges are nothing to an external IP", RANGED, tcp(STRANGER, EXTERNAL, 80), to(HERE, THERE, masquerade=True)),
    Case(
        "ranges are nothing to a node port",
        RANGED,
        tcp(STRANGER, POOL.primary, 30080),
        to(HERE, THERE, masquerade=True),
    ),
    Case("the bound address itself, the node in no range", RANGED, from_node(BOUND, 80, source=BOUND), Answer(DROP)),
    Case(
        "the bound address itself, the node in a range",
        SERVICE._replace(source_ranges=("192.168.1.0/24",)),
        from_node(BOUND, 80, source=BOUND),
        to(HERE, THERE, masquerade=True),
    ),
    Case(
        "the bound address, as if it came from outside",
        SERVICE._replace(source_ranges=("192.168.1.0/24",)),
        tcp(BOUND, BOUND, 80),
        to(HERE, THERE, masquerade=True),
    ),
    Case(
        "another bound address, as if it came from outside",
        SERVICE._replace(source_ranges=("192.168.1.0/24",)),
        tcp(BOUND, BALANCER, 80),
        {"ipvs": Answer(DROP), "": to(HERE, THERE, masquerade=True)},
    ),
    Case(
        "another address, the node in a range",
        SERVICE._replace(source_ranges=("192.168.1.0/24",)),
        from_node(BOUND, 80, source=POOL.second),
        {"ipvs": to(HERE, THERE, masquerade=True), "": Answer(DROP)},
    ),
    Case(
        "eTP Local, the only endpoint here drains and may draw itself",
        LOCAL._replace(endpoints=(DRAINING, SERVICE.endpoints[1])),
        tcp(POD, EXTERNAL, 80),
        to(HERE, hairpin=(HERE,)),
        NO_DETECTOR,
    ),
    # Node ports
    Case("a node port", SERVICE, tcp(CLIENT, POOL.primary, 30080), to(HERE, THERE, masquerade=True)),
    Case("a node port, from the node", SERVICE, from_node(POOL.primary, 30080), to(HERE, THERE, masquerade=True)),
    Case("another port of the node", SERVICE, tcp(CLIENT, POOL.primary, 30081), Answer(PASS)),
    Case("a node port elsewhere", SERVICE, tcp(CLIENT, POOL.other_node, 30080), Answer(PASS)),
    Case("a node port elsewhere without endpoints", EMPTY, tcp(CLIENT, POOL.other_node, 30080), Answer(PASS)),
    Case(
        "a node port on the second address",
        SERVICE,
        tcp(CLIENT, POOL.second, 30080),
        {"nftables": Answer(PASS), "": to(HERE, THERE, masquerade=True)},
    ),
    Case(
        "a node port on the second address, all asked for",
        SERVICE,
        tcp(CLIENT, POOL.second, 30080),
        to(HERE, THERE, masquerade=True),
        EVERYWHERE,
    ),
    Case(
        "a node port on the second address, the primary asked for",
        SERVICE,
        tcp(CLIENT, POOL.second, 30080),
        Answer(PASS),
        {"node_port_addresses": ("primary",)},
    ),
    Case(
        "a node port on an address that is new",
        SERVICE,
        tcp(CLIENT, LATE, 30080),
        {"ipvs": Answer(PASS), "": to(HERE, THERE, masquerade=True)},
        EVERYWHERE,
    ),
    Case(
        "a node port on a link-local address",
        SERVICE,
        tcp(CLIENT, LINK_LOCAL, 30080),
        to(HERE, THERE, masquerade=True),
        EVERYWHERE,
    ),
    Case(
        "a node port on a link-local address of IPv6",
        SERVICE6,
        tcp(POOL6.clients[0], LINK_LOCAL6, 30080),
        {"ipvs": Answer(PASS), "": to(HERE6, masquerade=True)},
        {"node_port_addresses": ("::/0",)},
    ),
    Case(
        "a node port on a link-local address of IPv6 that is asked for",
        SERVICE6,
        tcp(POOL6.clients[0], LINK_LOCAL6, 30080),
        to(HERE6, masquerade=True),
        {"node_port_addresses": ("fe80::/10",)},
    ),
    Case(
        "a node port on loopback",
        SERVICE,
        from_node("127.0.0.1", 30080, source="127.0.0.1"),
        {"iptables": to(HERE, THERE, masquerade=True), "": Answer(PASS)},
        EVERYWHERE,
    ),
    Case(
        "a node port on another address of loopback",
        SERVICE,
        from_node("127.0.0.2", 30080, source="127.0.0.1"),
        {"iptables": to(HERE, THERE, masquerade=True), "": Answer(PASS)},
        EVERYWHERE,
    ),
    Case(
        "a node port on another address of loopback, that network asked for",
        SERVICE,
        from_node("127.0.0.2", 30080, source="127.0.0.1"),
        Answer(PASS),
        {"node_port_addresses": ("127.0.0.0/8",)},
    ),
    Case(
        "a node port on loopback, forbidden",
        SERVICE,
        from_node("127.0.0.1", 30080, source="127.0.0.1"),
        Answer(PASS),
        {"localhost_node_ports": False},
    ),
    Case(
        "a node port of UDP on loopback, where kube-proxy's proxy serves TCP there",
        SERVICE._replace(protocol="UDP"),
        udp("127.0.0.1", 30080, source="127.0.0.1"),
        {"nftables": Answer(REJECT), "": Answer(PASS)},
        {"node_port_addresses": ("primary", "127.0.0.0/8"), "rejected_on_loopback": ("UDP", "SCTP"), **NO_LOOPBACK},
    ),
    Case(
        "a node port of TCP on loopback, where kube-proxy's proxy serves it",
        SERVICE,
        from_node("127.0.0.1", 30080, source="127.0.0.1"),
        Answer(PASS),
        {"node_port_addresses": ("primary", "127.0.0.0/8"), "rejected_on_loopback": ("UDP", "SCTP"), **NO_LOOPBACK},
    ),
    Case(
        "a node port of TCP on loopback, where nothing serves it",
        SERVICE,
        from_node("127.0.0.1", 30080, source="127.0.0.1"),
        {"nftables": Answer(REJECT), "": Answer(PASS)},
        {"rejected_on_loopback": ("TCP", "UDP", "SCTP"), **NO_LOOPBACK},
    ),
    Case(
        "a source that is refused at a load balancer's address on the node, whose port is the number of a node port",
        RANGED._replace(node_port=80),
        tcp(STRANGER, BOUND, 80),
        {"iptables": to(HERE, THERE, masquerade=True), "": Answer(DROP)},
    ),
    Case(
        "the same where node ports are not served on it",
        RANGED._replace(node_port=80),
        tcp(STRANGER, BOUND, 80),
        Answer(DROP),
        {"node_port_addresses": ("primary",)},
    ),
    Case(
        "a clusterIP whose port is the number of a node port",
        SERVICE._replace(node_port=80),
        tcp(NEIGHBOUR, CLUSTER_IP, 80),
        {"ipvs": to(HERE, THERE, masquerade=True), "": to(HERE, THERE)},
    ),
    Case(
        "a clusterIP whose port is the number of a node port, eTP Local",
        LOCAL._replace(node_port=80),
        tcp(NEIGHBOUR, CLUSTER_IP, 80),
        to(HERE, THERE),
    ),
    Case(
        "a clusterIP whose port is the number of a node port, SCTP",
        SERVICE._replace(node_port=80, protocol="SCTP"),
        replace(tcp(NEIGHBOUR, CLUSTER_IP, 80), protocol="SCTP"),
        to(HERE, THERE),
    ),
    Case(
        "a clusterIP whose port is the number of a node port that is served nowhere",
        SERVICE._replace(node_port=80),
        tcp(NEIGHBOUR, CLUSTER_IP, 80),
        to(HERE, THERE),
        {"node_port_addresses": ("192.0.2.0/24",)},
    ),
    Case("a node port without endpoints", EMPTY, tcp(CLIENT, POOL.primary, 30080), Answer(REJECT)),
    Case(
        "a node port without endpoints where node ports are not served",
        EMPTY,
        tcp(CLIENT, POOL.second, 30080),
        {"iptables": Answer(REJECT), "": Answer(PASS)},
        {"node_port_addresses": ("primary",)},
    ),
    Case(
        "a node port, eTP Local, none local, where node ports are not served",
        LOCAL_REMOTE_ONLY,
        tcp(POD, POOL.second, 30080),
        {"iptables": Answer(DROP), "": Answer(PASS)},
        {"node_port_addresses": ("primary",)},
    ),
    Case(
        "a node port, eTP Local, where node ports are not served",
        LOCAL,
        tcp(POD, POOL.second, 30080),
        Answer(PASS),
        {"node_port_addresses": ("primary",)},
    ),
    Case(
        "a node port on a clusterIP",
        SERVICE,
        tcp(POD, CLUSTER_IP, 30080),
        {"iptables": Answer(PASS), "": Answer(REJECT)},
    ),
    Case(
        "a health check node port on a clusterIP",
        LOCAL._replace(health_check_node_port=31001),
        tcp(POD, CLUSTER_IP, 31001),
        {"nftables": Answer(REJECT), "": Answer(PASS)},
    ),
    Case(
        "a health check node port on a clusterIP over SCTP",
        LOCAL._replace(health_check_node_port=31001),
        Packet(POD, CLUSTER_IP, 31001, "SCTP", "cni0"),
        {"iptables": Answer(PASS), "": Answer(REJECT)},
    ),
    # Endpoints on the node itself
    Case(
        "a client's packet ends on the node: nobody rewrites its source",
        SERVICE._replace(endpoints=(Endpoint(POOL.primary, 6443, node=s.THIS_NODE),)),
        tcp(CLIENT, CLUSTER_IP, 80),
        to(f"{POOL.primary}:6443"),
    ),
    Case(
        "the node's own packet goes out by loopback",
        SERVICE._replace(endpoints=(Endpoint(POOL.primary, 6443, node=s.THIS_NODE),)),
        from_node(CLUSTER_IP, 80),
        to(f"{POOL.primary}:6443", hairpin=(f"{POOL.primary}:6443",)),
        NO_DETECTOR,
    ),
    # nftables of older releases
    Case(
        "1.29: an undefined port of a clusterIP",
        SERVICE,
        tcp(POD, CLUSTER_IP, 7),
        {"ipvs": Answer(REJECT), "": Answer(PASS)},
        minor=29,
    ),
    Case("1.29: an unallocated clusterIP", SERVICE, tcp(POD, POOL.unallocated, 80), Answer(PASS), minor=29),
    Case(
        "1.29: a source in no range",
        RANGED,
        tcp(STRANGER, BALANCER, 80),
        {"nftables": to(HERE, THERE, masquerade=True), "": Answer(DROP)},
        minor=29,
    ),
    Case("1.30: a source in no range", RANGED, tcp(STRANGER, BALANCER, 80), Answer(DROP), minor=30),
    Case(
        "1.32: the node in no range, no endpoints",
        RANGED._replace(endpoints=()),
        from_node(BOUND, 80, source=BOUND),
        Answer(REJECT),
        minor=32,
    ),
    Case(
        "1.33: the node in no range, no endpoints",
        RANGED._replace(endpoints=()),
        from_node(BOUND, 80, source=BOUND),
        {"nftables": Answer(DROP), "": Answer(REJECT)},
        minor=33,
    ),
    Case(
        "1.32: eTP Local, none local, from the node",
        LOCAL_REMOTE_ONLY,
        from_node(BALANCER, 80),
        {"nftables": Answer(DROP), "iptables": to(THERE, masquerade=True), "ipvs": to(THERE)},
        minor=32,
    ),
    Case(
        "1.32: a node port, eTP Local, none local, from the node",
        LOCAL_REMOTE_ONLY,
        from_node(POOL.primary, 30080),
        {"ipvs": to(THERE), "": to(THERE, masquerade=True)},
        minor=32,
    ),
    Case(
        "1.29: a node port, eTP Local, none local, from the node",
        LOCAL_REMOTE_ONLY,
        from_node(POOL.primary, 30080),
        {"nftables": Answer(DROP), "iptables": to(THERE, masquerade=True), "ipvs": to(THERE)},
        minor=29,
    ),
)
