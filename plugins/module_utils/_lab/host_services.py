# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which Services of a lab its host can reach: by a route to the Service network, and by node ports on the loopback address.

Both lead to the lab's first node, whose kube-proxy follows the cluster. A network or node port can lead to one lab only: the first
lab keeps it, and the summary of another lab names what that lab does not get.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Optional, Union

from .._core.host.host import Host
from .._core.text.json_text import parse_json
from .._instance.node_ports import LOOPBACK, parse_range

Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]

NODE_PORTS = "30000-32767"  # kube-apiserver, service-node-port-range
_NODE_PORTS_ARGUMENT = "service-node-port-range"
_IPV6_NETWORKS = 64
_FIRST_NETWORK, _NEXT_NETWORKS = "10.96.0.0/16", 192  # pod networks of labs end at 10.191.0.0/16


@dataclass(frozen=True)
class Held:
    """Networks and node ports that lead elsewhere already, each with words for what has it."""

    networks: tuple[tuple[Network, str], ...] = ()
    node_ports: tuple[tuple[str, str], ...] = ()


def read_held(host: Host, lab: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> Held:
    """What other labs use, by their records, and the networks of this host's routes, except routes by the lab's own bridge and those
    that lead nowhere."""
    networks: list[tuple[Network, str]] = []
    node_ports: list[tuple[str, str]] = []
    for other in others:
        reached = other.get("host_services") or {}
        owner = f"the lab {other['name']} has"
        networks += [(ipaddress.ip_network(text), f"{owner} {text}") for text in reached.get("networks", ())]
        node_ports += [(text, f"{owner} {text}") for text in [reached.get("node_ports")] if text]
    for version in sorted({ipaddress.ip_network(text).version for text in lab["service_cidr"].split(",")}):
        rows = parse_json(host.run(["ip", "-j", f"-{version}", "route", "show"], timeout=30).stdout or "[]")
        networks += [
            (network, f"this host has a route to {row['dst']}")
            for row in rows
            for network in parse_route(str(row["dst"]))
            if row.get("dev") != lab["bridge"] and row.get("type") != "unreachable"
        ]
    return Held(tuple(networks), tuple(node_ports))


def parse_route(destination: str) -> list[Network]:
    """The network of a route as `ip` prints it. Empty for a default route, also one in two halves, as VPN clients set it: routes to a
    lab's networks are more specific."""
    network = None if destination == "default" else ipaddress.ip_network(destination, strict=False)
    return [network] if network and network.prefixlen > 1 else []


def reach_services(lab: Mapping[str, Any], held: Held) -> Optional[dict[str, Any]]:
    """`networks` and `node_ports` that lead to the lab, "" for none, and `left_out`, in words. None for virtual machines, whose nodes
    are not on the lab's bridge."""
    if lab["target"] != "host":
        return None
    networks, left_out = [], []
    for text in lab["service_cidr"].split(","):
        holder = next((words for network, words in held.networks if _overlap(network, text)), "")
        if holder:
            left_out.append(f"{text}, as {holder}")
        else:
            networks.append(text)
    node_ports = str(lab["arguments"].get("api_server", {}).get(_NODE_PORTS_ARGUMENT, NODE_PORTS))
    own = parse_range(node_ports)
    holder = next((words for text, words in held.node_ports if own and _meet(own, parse_range(text))), "")
    if own is None:
        holder = "they are not written as a range such as 30000-32767"
    if holder:
        left_out.append(f"{LOOPBACK}:{node_ports}, as {holder}")
    return {"networks": networks, "node_ports": "" if holder else node_ports, "left_out": left_out}


def fence_services(lab: Mapping[str, Any], held: Held) -> list[str]:
    """Service networks to which this host refuses packets, as it does not reach their Services. A node with ipvs or iptables forwards
    packets that it does not serve; they would leave this host by the default route, to any machine with that address."""
    if lab["target"] == "host":
        return []
    networks = lab["service_cidr"].split(",")
    return [text for text in networks if not any(_overlap(network, text) for network, _words in held.networks)]


def choose_service_network(used: Iterable[Network], version: int = 4) -> str:
    """The first candidate of that IP version that overlaps no network in `used`; if all overlap, the first candidate."""
    taken = list(used)
    candidates = _candidates(version)
    free = (text for text in candidates if not any(_overlap(network, text) for network in taken))
    return next(free, candidates[0])


def _candidates(version: int) -> list[str]:
    if version == 6:
        return [f"fdba:11a5:ffff:{number:x}::/112" for number in range(_IPV6_NETWORKS)]
    return [_FIRST_NETWORK, *(f"10.{number}.0.0/16" for number in range(_NEXT_NETWORKS, 256))]


def service_routes(lab: Mapping[str, Any]) -> list[dict[str, str]]:
    """Rows of the option `routes` of the module instance_network: to Services that this host reaches, and to refused networks."""
    addresses = {ipaddress.ip_address(text).version: text for text in lab["nodes"][0]["address"].split(",")}
    networks = (lab.get("host_services") or {}).get("networks", ())
    return [
        *({"to": text, "via": addresses[ipaddress.ip_network(text).version]} for text in networks),
        *({"to": text} for text in lab.get("fenced_services", ())),
    ]


def node_port_access(lab: Mapping[str, Any]) -> Optional[dict[str, str]]:
    """The option `node_ports` of the module instance_network. None in an IPv6-only lab: ::1 cannot lead to another machine."""
    ports = (lab.get("host_services") or {}).get("node_ports", "")
    addresses = [text for text in lab["nodes"][0]["address"].split(",") if ipaddress.ip_address(text).version == 4]
    return {"address": addresses[0], "ports": ports} if ports and addresses else None


def _overlap(network: Network, text: str) -> bool:
    other = ipaddress.ip_network(text)
    return network.version == other.version and network.overlaps(other)


def _meet(ports: tuple[int, int], other: Optional[tuple[int, int]]) -> bool:
    return other is not None and ports[0] <= other[1] and other[0] <= ports[1]
