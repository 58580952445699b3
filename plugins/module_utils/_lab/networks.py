# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The networks of a lab: the requested ones, else the first that are free on this host. Pure.

    lab k       node network 10.97.k.0/24 and fdba:11a5:k::/64          the bridge of this host has .1 and ::1; instances from .11 and ::b
                pod network 10.(128+k).0.0/16 and fdba:11a5:k:100::/56  a /24 and a /64 for each node
    machine j   10.98.k.(16j)/28 for the instances inside it; its own bridge has the first address

k is the first number for which none of these overlaps a network of this host or another lab. fdba:11a5::/32 is in the unique local
addresses (RFC 4193).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional

from .._core.text.errors import BallastError, Problems
from .._core.text.ip_families import Network, parse_interfaces, parse_networks, primary, split
from .ip_family import NODE_POD_PREFIX, VERSIONS, Networks, complete
from .messages import MESSAGES
from .topology import TopologyRequest

_LABS_MAX = 64
_TRIED = {4: "10.97.0.0/18, 10.98.0.0/18 and 10.128.0.0/10", 6: "fdba:11a5::/42"}
_NO_MACHINES = ipaddress.IPv4Network("10.98.0.0/24")  # a placeholder for a lab on this host, which has no machines


class LabNetworks(NamedTuple):
    nodes: Networks
    pods: Networks
    machines: ipaddress.IPv4Network  # inside virtual machines, which only a lab of these uses


def choose_networks(
    request: TopologyRequest, previous: Optional[Mapping[str, Any]], in_use: Sequence[Network]
) -> LabNetworks:
    """The lab's networks. Those that an earlier run recorded are kept."""
    if previous is not None:
        return _read_recorded(previous)
    given = [
        (path, network)
        for path, networks in (
            ("service_cidr", request.service_cidr),
            ("node_cidr", request.node_cidr),
            ("pod_cidr", request.pod_cidr),
        )
        for network in networks
    ]
    used = [(network, f"{network}, which this host uses") for network in in_use]
    problems: list[BallastError] = []
    for path, network in given:
        taken = [shown for other, shown in used if other.overlaps(network)]
        problems += [MESSAGES.error("lab-overlap", path=path, value=network, other=shown) for shown in taken]
        used.append((network, f"{path} ({network})"))
    Problems.raise_if(problems)
    for number in range(_LABS_MAX):
        chosen = _of_lab(number, request)
        free = {*chosen.nodes, *chosen.pods} - {*request.node_cidr, *request.pod_cidr}
        free |= {chosen.machines} if request.target == "vm" else set()
        if not any(find_overlaps(network, [other for other, _shown in used]) for network in free):
            return chosen
    tried = " and ".join(_TRIED[version] for version in VERSIONS[request.ip_family])
    raise MESSAGES.error("lab-no-free-network", tried=tried)


def _read_recorded(previous: Mapping[str, Any]) -> LabNetworks:
    inside = ipaddress.ip_interface(primary(previous["hosts"][0]["gateway"])).network
    of_machines = isinstance(inside, ipaddress.IPv4Network) and inside.prefixlen > 24
    machines = ipaddress.IPv4Network(inside.supernet(new_prefix=24)) if of_machines else _NO_MACHINES
    return LabNetworks(parse_networks(previous["node_cidr"]), parse_networks(previous["pod_cidr"]), machines)


def _of_lab(number: int, request: TopologyRequest) -> LabNetworks:
    nodes = {4: f"10.97.{number}.0/24", 6: f"fdba:11a5:{number:x}::/64"}
    pods = {4: f"10.{128 + number}.0.0/16", 6: f"fdba:11a5:{number:x}:100::/56"}
    return LabNetworks(
        complete(request.node_cidr, request.ip_family, nodes),
        complete(request.pod_cidr, request.ip_family, pods),
        ipaddress.IPv4Network(f"10.98.{number}.0/24"),
    )


def find_overlaps(network: Network, others: Iterable[Network]) -> list[Network]:
    """Those of `others` that share addresses with the network."""
    return [other for other in others if other.overlaps(network)]


class PodNetworks:
    """Gives each node an unused part of each of the lab's pod networks."""

    def __init__(self, networks: Networks, used: Iterable[Network]) -> None:
        self._used = list(used)
        self._free = {whole.version: _node_parts(whole) for whole in networks}

    def take(self, given: Networks) -> Optional[Networks]:
        """`given`, completed with a free network for each missing family. None when no network is free."""
        chosen = {network.version: network for network in given}
        for version, free in self._free.items():
            if version not in chosen:
                part = next((part for part in free if not find_overlaps(part, self._used)), None)
                if part is None:
                    return None
                chosen[version] = part
        self._used += chosen.values()
        return tuple(chosen[version] for version in sorted(chosen))


def _node_parts(whole: Network) -> Iterator[Network]:
    """All parts but the first, which has the address of the whole network."""
    parts = whole.subnets(new_prefix=NODE_POD_PREFIX[whole.version])
    return (part for part in parts if part.network_address != whole.network_address)


def check_pod_networks(
    nodes: Sequence[Mapping[str, Any]],
    fixed: Sequence[tuple[str, Network]],
    in_use: Sequence[Network],
    problems: list[BallastError],
) -> None:
    """Add a problem for each overlap of a node's pod network with another one. `fixed` are pairs of a name for
    messages and a network."""
    used = [(network, f"{network}, which this host uses") for network in in_use]
    used += [(network, f"{network} of {owner}") for owner, network in fixed]
    for node in nodes:
        for network in parse_networks(node["pod_cidr"]):
            for other, shown in used:
                if network.overlaps(other):
                    path = f"nodes.{node['name']}.pod_cidr"
                    problems.append(MESSAGES.error("lab-overlap", path=path, value=network, other=shown))
            used.append((network, f"{network} of {node['name']}"))


def list_networks(lab: Mapping[str, Any]) -> list[Network]:
    """The networks of a lab's record to which this host has a route, or would have one."""
    inside = [interface.network for host in lab["hosts"] for interface in parse_interfaces(host["gateway"])]
    return [*parse_networks(lab["node_cidr"]), *parse_networks(lab["pod_cidr"]), *inside]


def lies_in(network: str, larger: str) -> bool:
    """Whether `network` is part of one of the networks in `larger`, of its IP family."""
    return any(_is_part(part, whole) for part in parse_networks(network) for whole in parse_networks(larger))


def _is_part(part: Network, whole: Network) -> bool:
    return part.version == whole.version and part.network_address in whole and part.prefixlen >= whole.prefixlen


def pods_apart(lab: Mapping[str, Any]) -> list[str]:
    """Pod networks of nodes that are outside the lab's pod networks."""
    networks = [network for node in lab["nodes"] for network in split(node["pod_cidr"])]
    return [network for network in networks if not lies_in(network, lab["pod_cidr"])]
