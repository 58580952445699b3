# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""For each check: a node and a change where it finds something, and the nearest ones where it does not."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight import foreign_programs
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.facts import Facts
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.foreign_programs import (
    Closed,
    KubeChainRule,
    Portmap,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.parse import parse as parse_iptables
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.surrounding_machines import Route
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import IPTABLES, IPVS, NFTABLES
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.text import parse_text
from ansible_collections.ballast.kube.plugins.module_utils._rules.node_rules import NodeRules
from tests.unit.kube_proxy.preflight_node import LINKS, asked, facts, node
from tests.unit.rules import given


@dataclass(frozen=True)
class Case:
    finds: Facts
    nearest: tuple[Facts, ...]  # of which it finds nothing
    beside: tuple[str, ...] = ()  # what else is found in `finds`, as it cannot be without


def known(
    from_mode: str = IPTABLES,
    to_mode: str = NFTABLES,
    *,
    links: Optional[Mapping[str, tuple[str, ...]]] = None,
    change: Optional[Mapping[str, Any]] = None,
    **question: Any,
) -> Facts:
    """`change`: of the facts; `question`: of what is asked."""
    return replace(facts(asked(from_mode, to_mode, **question), node(links=links)), **(change or {}))


def changed(*args: str, **change: Any) -> Facts:
    return known(*args, change=change)


SECOND = {**LINKS, "eth1": ("10.50.0.10",)}
NODE_PORT = given.service(
    type="NodePort", ports=[{"name": "http", "port": 80, "protocol": "TCP", "nodePort": 30080}]
)  # fmt: skip
UDP_NODE_PORT = given.service(
    "dns", clusterIP="10.96.0.2", clusterIPs=["10.96.0.2"], type="NodePort",
    ports=[{"name": "dns", "port": 53, "protocol": "UDP", "nodePort": 30053}],
)  # fmt: skip
WITH_PORT = (NODE_PORT, given.node())
WITH_UDP = (
    given.service("dns", ports=[{"name": "dns", "port": 53, "protocol": "UDP"}]),
    given.node(),
)  # fmt: skip
HEALTH = (
    given.balancer(
        {"ip": "198.51.100.1"}, externalTrafficPolicy="Local", healthCheckNodePort=31000,
        ports=[{"name": "http", "port": 80, "protocol": "TCP"}], allocateLoadBalancerNodePorts=False,
    ),
    given.node(),
)  # fmt: skip
EXTERNAL = (given.service(externalIPs=["203.0.113.7"]), given.node())
TWICE = (
    given.service("a", externalIPs=["203.0.113.7"]),
    given.service("b", clusterIP="10.96.0.2", clusterIPs=["10.96.0.2"], externalIPs=["203.0.113.7"]),
    given.node(),
)  # fmt: skip
FREE = ["0.0.0.0/0", "::/0"]
INVALID = 'kubeproxy_iptables_ct_state_invalid_dropped_packets_total{ip_family="IPv4"} 3\n'
LOCALHOST = "kubeproxy_iptables_localhost_nodeports_accepted_packets_total 5\n"
LOCALHOST_ASKED = {
    "nodePortAddresses": ["primary", "localhost"],
    "featureGates": {"KubeProxyNFTablesLocalhostNodePorts": True},
}
OTHER_NODE = given.node("n2")
OTHER_NODE["status"] = {"addresses": [{"type": "InternalIP", "address": "192.0.2.20"}]}
ON_LAN = Route("eth0", ipaddress.ip_network("10.96.0.0/24"), "")
ON_LINK = {**LINKS, "kube-ipvs0": ("10.96.0.1",)}
OURS, NODES_OWN, FOREIGN, MARKED = (
    (0, "10.96.0.1", "TCP", 80),
    (0, "192.0.2.10", "TCP", 30080),
    (0, "203.0.113.80", "TCP", 443),
    (7, "", "", 0),
)
CLOSED = Closed(
    "iptables (nft), IPv4: chain FORWARD, policy DROP", foreign_programs.FORWARD, False, "iptables-nft -I FORWARD"
)
CLOSED_INPUT = replace(CLOSED, hook=foreign_programs.INPUT)
JUMP = KubeChainRule("nat", "KUBE-MARK-MASQ", False, "-A CNI-HOSTPORT-SETMARK -j KUBE-MARK-MASQ")
INSIDE = KubeChainRule("filter", "KUBE-FORWARD", True, "-A KUBE-FORWARD -j ACCEPT")
PORTMAP = Portmap("/etc/cni/net.d/10.conflist", "KUBE-MARK-MASQ", "")
_NAT = """table ip mine {
    chain preroute {
        type nat hook prerouting priority mangle; policy accept;
        tcp dport %d dnat to 10.1.0.99:8080
    }
}
"""
_PUBLISHED = """*nat
:PREROUTING ACCEPT [0:0]
:DOCKER - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A DOCKER -p tcp -m tcp --dport 30080 -j DNAT --to-destination 172.17.0.2:80
COMMIT
"""
EARLY, OTHER_PORT = ({4: NodeRules(parse_text(_NAT % port))} for port in (30080, 30081))
DOCKER = {4: NodeRules(iptables={"nft": parse_iptables(_PUBLISHED, family=4)})}
DNS = {**LINKS, "nodelocaldns": ("169.254.20.10", "10.96.0.1")}
DNS_AGENT = {"agents": {foreign_programs.NODE_LOCAL_DNS: ("link nodelocaldns",)}}


AGENTS = (
    *(foreign_programs.CALICO, foreign_programs.CALICO_NFTABLES, foreign_programs.CILIUM, foreign_programs.ANTREA),
    *(foreign_programs.KUBE_ROUTER, foreign_programs.NODE_LOCAL_DNS),
)


def agent(name: str, from_mode: str = IPTABLES, to_mode: str = NFTABLES) -> Facts:
    return changed(from_mode, to_mode, agents={name: ("a trace",)})


def gates(from_mode: str, to_mode: str, version: str, **values: bool) -> Facts:
    return known(from_mode, to_mode, version=version, wanted={"featureGates": values})


def interfaces(mode: str, version: str, *modes: str) -> Facts:
    wanted = {"detectLocalMode": mode, "detectLocal": {"bridgeInterface": "cni0", "interfaceNamePrefix": "veth"}}
    return known(*modes, version=version, wanted=wanted)


def of_ipvs(settings: Mapping[str, Any], from_mode: str = IPVS, to_mode: str = NFTABLES) -> Facts:
    return known(from_mode, to_mode, config={"ipvs": dict(settings)})


def servers(*keys: tuple[int, str, str, int], modes: tuple[str, str] = (IPVS, NFTABLES), **question: Any) -> Facts:
    return known(*modes, links=ON_LINK, change={"virtual_servers": dict.fromkeys(keys, 0)}, **question)


def troubled(from_mode: str, to_mode: str) -> Facts:
    """A node on which nearly every check of a change finds something, if it is asked."""
    links = {**ON_LINK, **DNS, "eth1": ("10.50.0.10",)}
    node_port = given.service(
        "out", clusterIP="10.96.0.4", clusterIPs=["10.96.0.4"], type="NodePort",
        ports=[{"name": "http", "port": 80, "protocol": "TCP", "nodePort": 30080}],
    )  # fmt: skip
    health = {**HEALTH[0], "metadata": {**HEALTH[0]["metadata"], "name": "balanced"}}
    health["spec"] = {**health["spec"], "clusterIP": "10.96.0.5", "clusterIPs": ["10.96.0.5"]}
    config = {
        "ipvs": {"scheduler": "sh", "tcpTimeout": "15m", "excludeCIDRs": ["198.51.100.0/24"], "strictARP": True},
        "iptables": {"masqueradeAll": True},
        "nftables": {"masqueradeAll": False},
    }
    return known(
        from_mode,
        to_mode,
        version="v1.36.4",
        links=links,
        objects=(*TWICE, node_port, UDP_NODE_PORT, health),
        config=config,
        metrics=INVALID,
        change={
            "kernel": (5, 4, 0),
            "nft": (1, 0, 0),
            "missing_tools": ("nft",),
            "modules": {"ip_vs": "absent"},
            "refused_rules": ("IPv4: no",),
            "closed": (CLOSED, CLOSED_INPUT),
            "kube_chain_rules": (JUMP, INSIDE),
            "firewalld": ("yes",),
            "flushing_files": ("/etc/nftables.conf",),
            "portmaps": (PORTMAP,),
            "agents": dict.fromkeys(AGENTS, ("a trace",)),
            "virtual_servers": {OURS: 2, FOREIGN: 1},
            "listeners": (("10.96.0.1", 53, "TCP"),),
            "padded_ranges": ("default/web: ' 10.0.0.0/8'",),
            "unread": (("x", "y"),),
        },
    )


CASES: Mapping[str, Case] = {
    # The node
    "preflight-tool-missing": Case(
        changed(missing_tools=("nft",)), (changed(),)
    ),  # what is missing, test_preflight_kernel_facts.py asks
    "preflight-service-proxy-packages": Case(
        changed(missing_packages=("python3-prometheus-client",)), (changed(),)
    ),  # only a change to mode ballast looks for them, test_own_proxy_reading.py
    "preflight-rules-refused": Case(changed(NFTABLES, IPTABLES, refused_rules=("IPv4: no",)), (changed(),)),
    "preflight-module-missing": Case(
        changed(refused_statements=("IPv4: reject: no",)), (changed(), changed(modules={"nft_ct": "absent"}))
    ),
    "preflight-kernel-too-old": Case(
        changed(kernel=(5, 12, 19)), (changed(kernel=(5, 13, 0)), changed(NFTABLES, IPTABLES, kernel=(5, 4, 0)))
    ),
    "preflight-nft-too-old": Case(
        changed(nft=(1, 0, 0)), (changed(nft=(1, 0, 1)), changed(NFTABLES, IPTABLES, nft=(1, 0, 0)))
    ),
    "preflight-newer-nft-tables": Case(
        known(deployment="daemonset", version="v1.36.3", change={"nft": (1, 1, 3), "tables_with_sets": ("inet fw",)}),
        (
            known(
                deployment="daemonset", version="v1.36.4", change={"nft": (1, 1, 3), "tables_with_sets": ("inet fw",)}
            ),
            known(
                deployment="daemonset", version="v1.36.3", change={"nft": (1, 1, 2), "tables_with_sets": ("inet fw",)}
            ),
            known(deployment="daemonset", version="v1.36.3", change={"nft": (1, 1, 3)}),
            known(deployment="service", version="v1.36.3", change={"nft": (1, 1, 3), "tables_with_sets": ("inet fw",)}),
        ),
    ),
    "preflight-ipv6-disabled": Case(
        known(version="v1.33.9", change={"has_ipv6": False}),
        (
            known(version="v1.34.0", change={"has_ipv6": False}),
            known(version="v1.33.9"),
            known(NFTABLES, IPTABLES, version="v1.33.9", change={"has_ipv6": False}),
        ),
    ),
    # Releases
    "preflight-nftables-absent": Case(
        known(version="v1.28.15"), (gates(IPTABLES, NFTABLES, "v1.29.0", NFTablesProxyMode=True),)
    ),
    "preflight-nftables-gate": Case(
        known(version="v1.30.14"),
        (
            gates(IPTABLES, NFTABLES, "v1.30.14", NFTablesProxyMode=True),
            known(version="v1.31.0"),
            known(NFTABLES, IPTABLES, version="v1.30.14"),
        ),
        beside=("preflight-nftables-beta",),
    ),
    "preflight-nftables-beta": Case(known(version="v1.32.9"), (known(version="v1.33.0"),)),
    "preflight-nftables-many": Case(
        changed(),  # given its Services by the test, as they are many
        (changed(),),
    ),
    "preflight-interface-mode": Case(
        interfaces("BridgeInterface", "v1.34.1"),
        (
            interfaces("BridgeInterface", "v1.34.2"),
            interfaces("InterfaceNamePrefix", "v1.33.6"),
            interfaces("NodeCIDR", "v1.34.1"),
            interfaces("BridgeInterface", "v1.34.1", NFTABLES, IPTABLES),
        ),
    ),
    "preflight-ipvs-module-missing": Case(
        changed(IPTABLES, IPVS, modules={"ip_vs": "absent"}),
        (changed(IPTABLES, IPVS, modules={"ip_vs": "loadable"}), changed(modules={"ip_vs": "absent"})),
        beside=("preflight-ipvs-deprecated",),
    ),
    "preflight-ipvs-gate": Case(
        known(IPTABLES, IPVS, version="v1.40.0"),
        (
            gates(IPTABLES, IPVS, "v1.40.0", KubeProxyIPVS=True),
            known(IPTABLES, IPVS, version="v1.39.5"),
            known(version="v1.40.0", config={"mode": IPTABLES}),
        ),
        beside=("preflight-ipvs-deprecated",),
    ),
    "preflight-ipvs-removed": Case(
        known(NFTABLES, IPVS, version="v1.43.0"),
        (gates(NFTABLES, IPVS, "v1.42.9", KubeProxyIPVS=True), known(version="v1.43.0")),
    ),
    "preflight-ipvs-deprecated": Case(
        known(IPTABLES, IPVS, version="v1.35.0"),
        (known(IPTABLES, IPVS, version="v1.34.9"), known(IPVS, IPVS, version="v1.35.0")),
    ),
    "preflight-no-way-back": Case(
        known(IPVS, NFTABLES, version="v1.40.1"),
        (
            known(IPVS, NFTABLES, version="v1.39.9"),
            known(IPVS, NFTABLES, version="v1.42.0", config={"featureGates": {"KubeProxyIPVS": True}}),
            known(IPTABLES, NFTABLES, version="v1.40.1"),
        ),
    ),
    "preflight-default-flips": Case(
        known(version="v1.40.0", config={"mode": ""}),
        (known(version="v1.40.0"), known(version="v1.39.0", config={"mode": ""})),
    ),
    "preflight-version-unknown": Case(known(version=""), (known(version="v1.36.0"), known(IPVS, IPVS, version=""))),
    "preflight-snapshot-missing": Case(known(objects=None), (known(objects=(given.node(),)),)),
    "preflight-unread": Case(changed(unread=(("table inet fw", "no"),)), (changed(),)),
    # Services and configuration
    "preflight-node-port-addresses": Case(
        known(objects=WITH_PORT, links=SECOND, config={"iptables": {"localhostNodePorts": False}}),
        (
            known(links=SECOND),
            known(objects=WITH_PORT, config={"iptables": {"localhostNodePorts": False}}),
            known(IPVS, NFTABLES, objects=WITH_PORT, links=SECOND, wanted={"nodePortAddresses": FREE}),
            known(NFTABLES, IPTABLES, objects=WITH_PORT, links=SECOND),
            known(objects=WITH_PORT, links={**LINKS, "eth1": ("169.254.7.7", "fe80::7")}),
        ),
    ),
    "preflight-node-port-localhost": Case(
        known(objects=WITH_PORT, metrics=LOCALHOST),
        (
            known(),
            known(objects=WITH_PORT, config={"iptables": {"localhostNodePorts": False}}),
            known(objects=WITH_PORT, version="v1.37.1", wanted=LOCALHOST_ASKED),
            known(IPVS, NFTABLES, objects=WITH_PORT),
        ),
    ),
    "preflight-conntrack-invalid": Case(
        known(metrics=INVALID, change={"kernel": (6, 0, 19)}),
        (
            known(metrics=INVALID.replace(" 3", " 0"), change={"kernel": (6, 0, 19)}),
            known(metrics=INVALID, change={"kernel": (6, 1, 0)}),
            known(metrics=INVALID, wanted={"conntrack": {"tcpBeLiberal": True}}, change={"kernel": (6, 0, 19)}),
        ),
    ),
    "preflight-ipvs-scheduler": Case(
        of_ipvs({"scheduler": "sh"}),
        (of_ipvs({"scheduler": "rr"}), of_ipvs({"scheduler": ""}), of_ipvs({"scheduler": "sh"}, IPTABLES)),
    ),
    "preflight-ipvs-timeouts": Case(
        of_ipvs({"tcpTimeout": "15m"}), (of_ipvs({"tcpTimeout": "0s", "udpTimeout": None}), of_ipvs({}))
    ),
    "preflight-ipvs-exclude-cidrs": Case(
        of_ipvs({"excludeCIDRs": ["203.0.113.0/24"]}),
        (
            of_ipvs({"excludeCIDRs": None}),
            of_ipvs({"excludeCIDRs": []}),
            of_ipvs({"excludeCIDRs": ["203.0.113.0/24"]}, IPVS, IPTABLES),
            replace(of_ipvs({"excludeCIDRs": ["203.0.113.0/24"]}), has_ipvsadm=True),
        ),
    ),
    "preflight-ipvs-strict-arp": Case(of_ipvs({"strictARP": True}), (of_ipvs({"strictARP": False}),)),
    "preflight-ipvs-connections": Case(
        known(IPVS, NFTABLES, links=ON_LINK, change={"virtual_servers": {OURS: 2}}),
        (
            servers(OURS),
            known(IPVS, NFTABLES, links=ON_LINK, change={"virtual_servers": {OURS: 2}, "has_ipvsadm": True}),
            known(IPVS, IPTABLES, links=ON_LINK, change={"virtual_servers": {OURS: 2}}),
        ),
    ),
    "preflight-ipvs-addresses-used": Case(
        known(IPVS, NFTABLES, links=ON_LINK, change={"listeners": (("10.96.0.1", 53, "TCP"),)}),
        (known(IPVS, NFTABLES, links=ON_LINK, change={"listeners": (("0.0.0.0", 53, "TCP"),)}),),
    ),
    "preflight-foreign-virtual-servers": Case(
        servers(OURS, FOREIGN, MARKED),
        (
            servers(OURS),
            servers(NODES_OWN, objects=WITH_PORT),
            servers(NODES_OWN, objects=None),
            servers(OURS, FOREIGN, modes=(IPVS, IPTABLES)),
            replace(servers(OURS, FOREIGN), has_ipvsadm=True),
        ),
    ),
    "preflight-ipvs-takes-virtual-servers": Case(
        servers(FOREIGN, modes=(IPTABLES, IPVS)),
        (
            servers(FOREIGN, modes=(IPTABLES, IPVS), wanted={"ipvs": {"excludeCIDRs": ["203.0.113.0/24"]}}),
            servers(OURS, modes=(IPTABLES, IPVS)),
        ),
        beside=("preflight-ipvs-deprecated",),
    ),
    # More of them in cases/ipvs_addresses.
    "preflight-ipvs-node-address": Case(
        known(IPTABLES, IPVS, objects=(given.service(externalIPs=["192.0.2.20"]), given.node(), OTHER_NODE)),
        (
            known(IPTABLES, IPVS, objects=(*EXTERNAL, OTHER_NODE)),
            known(IPVS, IPVS, objects=(given.service(externalIPs=["192.0.2.20"]), given.node(), OTHER_NODE)),
        ),
        beside=("preflight-external-ips", "preflight-ipvs-deprecated"),
    ),
    "preflight-ipvs-own-address": Case(
        known(IPTABLES, IPVS, objects=EXTERNAL, links={**LINKS, "eth1": ("203.0.113.7",)}),
        (known(IPTABLES, IPVS, objects=EXTERNAL),),
        beside=("preflight-external-ips", "preflight-ipvs-deprecated"),
    ),
    "preflight-ipvs-cluster-ip-network": Case(
        changed(IPTABLES, IPVS, links=(("eth0", ("10.96.0.99",)),), routes=(ON_LAN,)),
        (
            changed(IPTABLES, IPVS, routes=(ON_LAN,)),  # the link has no address in it: a route that leads there
            changed(IPTABLES, IPVS, links=(("eth0", ("10.96.0.99",)),)),
        ),
        beside=("preflight-ipvs-deprecated",),
    ),
    "preflight-udp-connections": Case(
        known(IPVS, NFTABLES, objects=WITH_UDP),
        (
            known(IPVS, NFTABLES),
            known(IPTABLES, NFTABLES, objects=WITH_UDP),
            known(IPVS, NFTABLES, objects=WITH_UDP, change={"has_ipvsadm": True}),
        ),
    ),
    "preflight-duplicates": Case(
        known(objects=TWICE, version="v1.35.8"), (known(objects=EXTERNAL, version="v1.35.8"),)
    ),
    "preflight-source-ranges": Case(changed(padded_ranges=("default/web: ' 10.0.0.0/8'",)), (changed(),)),
    "preflight-external-ips": Case(
        known(objects=EXTERNAL, version="v1.36.0"),
        (known(objects=EXTERNAL, version="v1.35.8"), known(version="v1.36.0")),
    ),
    "preflight-section-ignored": Case(
        known(config={"iptables": {"masqueradeAll": True}}),
        (
            known(config={"iptables": {"masqueradeAll": True}}, wanted={"nftables": {"masqueradeAll": True}}),
            known(
                config={
                    "iptables": {
                        "masqueradeAll": False,
                        "masqueradeBit": None,
                        "syncPeriod": "0s",
                        "minSyncPeriod": "1s",
                    }
                }
            ),
            known(IPTABLES, IPVS, config={"iptables": {"masqueradeAll": True}}),
            known(config={"iptables": {"minSyncPeriod": "10s"}}, wanted={"nftables": {"minSyncPeriod": "5s"}}),
        ),
    ),
    # Other programs
    "preflight-firewall-forward": Case(
        changed(closed=(CLOSED,)),
        (
            changed(closed=(replace(CLOSED, lets_services_pass=True),)),
            changed(closed=(CLOSED_INPUT,)),
            changed(IPTABLES, IPVS, closed=(CLOSED,)),
        ),
    ),
    "preflight-firewall-input": Case(
        known(objects=HEALTH, change={"closed": (CLOSED_INPUT,)}),
        (changed(closed=(CLOSED_INPUT,)), known(objects=HEALTH)),
    ),
    # More of these: foreign_translations.
    "preflight-foreign-nat": Case(
        known(objects=WITH_PORT, change={"foreign": EARLY}),
        (known(objects=WITH_PORT), known(objects=WITH_PORT, change={"foreign": OTHER_PORT}), changed(foreign=EARLY)),
        beside=("preflight-node-port-localhost",),
    ),
    "preflight-foreign-nat-changes": Case(
        known(objects=WITH_PORT, change={"foreign": DOCKER}),
        (known(objects=WITH_PORT, change={"foreign": EARLY}), changed(foreign=DOCKER)),
        beside=("preflight-node-port-localhost",),
    ),
    "preflight-firewalld-flush": Case(
        changed(firewalld=("yes",)), (changed(), changed(NFTABLES, IPTABLES, firewalld=("yes",)))
    ),
    "preflight-flush-ruleset": Case(
        changed(flushing_files=("/etc/nftables.conf",)), (changed(), changed(IPVS, IPTABLES, flushing_files=("x",)))
    ),
    "preflight-kube-chains-used": Case(
        changed(kube_chain_rules=(JUMP,)),
        (
            changed(IPTABLES, IPVS, kube_chain_rules=(JUMP,)),  # mode ipvs has that chain too
            changed(NFTABLES, IPTABLES, kube_chain_rules=(JUMP,)),
            changed(kube_chain_rules=(replace(JUMP, kube_chain="KUBE-NODE-PORT"),)),  # a chain of mode ipvs
        ),
    ),
    "preflight-kube-chains-changed": Case(
        changed(kube_chain_rules=(INSIDE,)), (changed(), changed(IPTABLES, IPVS, kube_chain_rules=(INSIDE,)))
    ),
    "preflight-portmap": Case(
        changed(portmaps=(PORTMAP,)),
        (
            changed(portmaps=(replace(PORTMAP, mark_chain=""), replace(PORTMAP, mark_chain="MINE"))),
            changed(portmaps=(replace(PORTMAP, backend="nftables"),)),
            changed(IPTABLES, IPVS, portmaps=(PORTMAP,)),
        ),
    ),
    "preflight-node-local-dns": Case(
        known(links=DNS, change=DNS_AGENT),
        (known(links={**LINKS, "nodelocaldns": ("169.254.20.10",)}, change=DNS_AGENT), known()),
    ),
    "preflight-calico-iptables": Case(
        agent(foreign_programs.CALICO),
        (agent(foreign_programs.CALICO_NFTABLES), agent(foreign_programs.CALICO, IPTABLES, IPVS)),
    ),
    "preflight-calico-nftables": Case(
        agent(foreign_programs.CALICO_NFTABLES, NFTABLES, IPTABLES),
        (agent(foreign_programs.CALICO, NFTABLES, IPTABLES), agent(foreign_programs.CALICO_NFTABLES)),
    ),
    "preflight-antrea": Case(
        agent(foreign_programs.ANTREA), (changed(), agent(foreign_programs.ANTREA, IPTABLES, IPTABLES))
    ),
    "preflight-cilium": Case(agent(foreign_programs.CILIUM), (changed(),)),
    "preflight-kube-router": Case(
        agent(foreign_programs.KUBE_ROUTER),
        (changed(agents={foreign_programs.KUBE_ROUTER: ("a",), foreign_programs.KUBE_ROUTER_PROXY: ("b",)}), changed()),
    ),
    "preflight-kube-router-proxy": Case(
        agent(foreign_programs.KUBE_ROUTER_PROXY), (agent(foreign_programs.KUBE_ROUTER),)
    ),
}
