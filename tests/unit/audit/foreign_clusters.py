# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A small cluster, and a node of it whose Service rules stand among those of other programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.ballast.kube.plugins.module_utils._rules.backend import Backend
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.backend import Iptables
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.objects import BUILT_IN, Chain, Table, Tables
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.backend import Ipvs
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.objects import IpvsRules
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.backend import Nftables
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import Surroundings
from ansible_collections.ballast.kube.plugins.module_utils._rules.parse import Snapshot, parse_snapshot
from tests.unit.audit.foreign_texts import iptables
from tests.unit.rules import given

BACKENDS: Mapping[str, Backend] = {"nftables": Nftables("ballast"), "iptables": Iptables(), "ipvs": Ipvs()}
NODE_IPS = ("192.0.2.10", "10.9.0.1", "2001:db8::10")
LINKS = (("lo", ("127.0.0.1", "::1")), ("eth0", NODE_IPS), ("cni0", ("10.1.0.1",)))
CONFIG = {"clusterCIDR": "10.1.0.0/16,fd00:1::/48", "nodePortAddresses": ["primary"]}


def snapshot() -> Snapshot:
    """`web` is a node port (30080), `dns` UDP and TCP, `edge` a load balancer; `many-1` to `many-30` have node ports too."""
    items: list[given.Object] = []

    def add(name: str, number: int, ports: list[dict[str, Any]], **spec: Any) -> None:
        addresses = [f"10.96.0.{number}", f"fd00:96::{number}"]
        both = {"clusterIP": addresses[0], "clusterIPs": addresses, "ipFamilies": ["IPv4", "IPv6"]}
        items.append(given.service(name, **both, ports=ports, **spec))
        of = [{"name": port["name"], "port": port["targetPort"], "protocol": port["protocol"]} for port in ports]
        items.append(given.endpoint_slice([given.endpoint(f"10.1.1.{number}", "n2")], of=name, ports=of))
        six = given.endpoint_slice([given.endpoint(f"fd00:1::{number}", "n2")], of=name, ports=of, family="IPv6")
        six["metadata"]["name"] = f"{name}-6"
        items.append(six)

    http = {"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}
    add("web", 1, [{**http, "nodePort": 30080}], type="NodePort")
    udp = {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 5353}
    add("dns", 10, [udp, {**udp, "name": "dns-tcp", "protocol": "TCP"}])
    add("edge", 20, [{**http, "port": 443, "nodePort": 30443}], type="LoadBalancer")
    items[-3]["status"] = {"loadBalancer": {"ingress": [{"ip": "198.51.100.7"}]}}
    for number in range(1, 31):
        add(f"many-{number}", 100 + number, [{**http, "nodePort": 31000 + number}], type="NodePort")
    return parse_snapshot(given.snapshot(given.node(), *items), node_name="n1", node_ips=NODE_IPS)


def add_iptables(rules: Any, text: str, family: int, *, above: bool) -> Any:
    """`rules` with those of another program: `above` the jumps of kube-proxy, or below."""
    if isinstance(rules, IpvsRules):
        return replace(rules, tables=add_iptables(rules.tables, text, family, above=above))
    foreign = iptables(text, family)
    names = [name for name in BUILT_IN if any(table.name == name for table in (*rules.tables, *foreign.tables))]
    return Tables(family, tuple(_merge(rules, foreign, name, above=above) for name in names))


def _merge(rules: Tables, foreign: Tables, name: str, *, above: bool) -> Table:
    own = {chain.name: chain for table in rules.tables if table.name == name for chain in table.chains}
    for table in foreign.tables:
        for chain in table.chains if table.name == name else ():
            there = own.get(chain.name, Chain(chain.name, policy=chain.policy))
            both = (*chain.rules, *there.rules) if above else (*there.rules, *chain.rules)
            own[chain.name] = replace(there, rules=both)
    built_in = [own.pop(chain) for chain in BUILT_IN[name] if chain in own]
    return Table(name, (*built_in, *own.values()))


def surroundings(links: Mapping[str, list[str]]) -> Surroundings:
    return Surroundings((*LINKS, *((name, tuple(addresses)) for name, addresses in links.items())))
