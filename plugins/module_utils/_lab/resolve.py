# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Resolves a request into a lab: hosts, addresses, networks, limits. Pure.

`networks` chooses the networks. A node has the same number in the node network of each IP family. Recorded values are kept: a node
keeps its address and pod network as long as it is in the lab.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Optional

from .._core.host.names import join_name, link_name
from .._core.text.errors import BallastError, Problems
from .._core.text.ip_families import Network, join, parse_interfaces, parse_networks
from .._core.text.quantity import parse_quantity
from .._instance.config import EVICTION_MEMORY, KUBE_RESERVED_MEMORY
from .._instance.model import KUBE_PROXIES
from .._instance.network import netns_path
from .._instance.places import mountns_path
from .ip_family import IPV4, Networks
from .messages import MESSAGES
from .networks import LabNetworks, PodNetworks, check_pod_networks, choose_networks
from .topology import KUBEADM, LAB, LEAST_CPU, LEAST_MEMORY, MEMBER_BYTES, NodeRequest, TopologyRequest

Lab = dict[str, Any]  # the content of lab.json

VERSION = 1
API_PORT = 6443
LOCAL = "localhost"
_LABS_MAX = 64
_FIRST_INSTANCE, _LAST_INSTANCE = 11, 199
_FIRST_MACHINE = 201
_LEAST_CPU_MILLIS = parse_quantity(LEAST_CPU).thousandths
_LEAST_BYTES = parse_quantity(LEAST_MEMORY).whole
# Of a node's memory, what pods are not promised: its own programs and the eviction threshold.
NODE_OVERHEAD_BYTES = sum(parse_quantity(text).whole for text in (KUBE_RESERVED_MEMORY, EVICTION_MEMORY))
RESERVE_BYTES = 2**30  # of this host's memory, for the control plane and the host itself
_MACHINE_BASE_MIB, _MACHINE_NODE_MIB = 768, 640
_KUBEADM_PLANE_MIB, _KUBEADM_NODE_MIB = 3072, 1536  # kubeadm warns of less than 1700 MiB for a control plane
# Reserve of a machine's memory. Its kernel takes as much again; both are in the half of the base that no node gets.
MACHINE_RESERVE_MIB = 128
MACHINE_STATE_DIR = "/var/lib/ballast/lab"
MACHINE_BIN_DIR = "/opt/ballast/bin"


@dataclass(frozen=True)
class HostFacts:
    cpu_millis: int
    memory_bytes: int
    networks: tuple[Network, ...]  # in use on this host or recorded by other labs, without this lab's own


def resolve(request: TopologyRequest, previous: Optional[Lab], facts: HostFacts) -> Lab:
    """The desired lab. Raises every problem at once."""
    problems: list[BallastError] = []
    if previous is not None:
        problems += _find_fixed_changes(request, previous)
    networks = choose_networks(request, previous, facts.networks)
    gateway = str(networks.nodes[0][1])
    hosts = _make_hosts(request, networks)
    by_kubeadm = request.bootstrap == KUBEADM
    if by_kubeadm:
        nodes = _make_machine_nodes(request, hosts, networks.pods[0])
    else:
        nodes = _make_nodes(request, previous, hosts, networks.pods, problems)
    for host in hosts:
        on_host = [node for node in nodes if node["host"] == host["name"]]
        requests = [node for node in request.nodes if node.name in {node["name"] for node in on_host}]
        if request.target == "vm":
            host["memory_mib"] = _MACHINE_BASE_MIB + _MACHINE_NODE_MIB * max(len(on_host), 1)
        if by_kubeadm:
            host["memory_mib"] = _KUBEADM_PLANE_MIB if host is hosts[0] else _KUBEADM_NODE_MIB
            continue
        reserve = RESERVE_BYTES + (request.control_planes - 1) * MEMBER_BYTES
        _set_limits(host, on_host, requests, facts, problems, balloons=request.balloons, reserve=reserve)
    fixed = [("node_cidr", network) for network in networks.nodes]
    fixed += [("service_cidr", network) for network in request.service_cidr]
    fixed += [("the virtual machines", networks.machines)] if request.target == "vm" else []
    check_pod_networks(nodes, fixed, facts.networks, problems)
    Problems.raise_if(problems)
    return {
        "version": VERSION,
        "name": request.name,
        "kubernetes_version": request.kubernetes_version,
        "lab_dir": request.lab_dir,
        "target": request.target,
        "bootstrap": request.bootstrap,
        "upgrade_to": request.upgrade_to,
        "bridge": link_name(request.name),
        "ip_family": request.ip_family,
        "node_cidr": join(networks.nodes),
        "gateway": _gateway(networks.nodes),
        "pod_cidr": join(networks.pods),
        "service_cidr": join(request.service_cidr),
        "kube_proxy": request.kube_proxy,
        "audit": request.audit,
        "encryption": request.encryption,
        "arguments": {program: dict(arguments) for program, arguments in request.arguments.items()},
        "feature_gates": dict(request.feature_gates),
        "registry_mirrors": {registry: list(urls) for registry, urls in request.registry_mirrors.items()},
        "publish": [asdict(port) for port in request.publish],
        "addons": list(request.addons),
        "balloons": request.balloons,
        "control_plane": {
            "address": hosts[0]["address"] if by_kubeadm else gateway,
            "port": API_PORT,
            "members": request.control_planes,
        },
        "hosts": hosts,
        "nodes": nodes if by_kubeadm else [{**node, **_namespaces(request.name, node["name"])} for node in nodes],
    }


def _find_fixed_changes(request: TopologyRequest, previous: Lab) -> list[BallastError]:
    """Changes that a running lab cannot make."""
    members = previous["control_plane"].get("members", 1)
    # Records of earlier versions lack the following keys.
    recorded = {
        "bootstrap": LAB,
        "kube_proxy": KUBE_PROXIES[0],
        "control_planes": members,
        "ip_family": IPV4,
        **previous,
    }
    fixed: list[tuple[str, object]] = [
        ("target", request.target),
        ("bootstrap", request.bootstrap),
        ("ip_family", request.ip_family),
        ("service_cidr", join(request.service_cidr)),
        ("kube_proxy", request.kube_proxy),
        ("control_planes", request.control_planes),
    ]
    changed = [(path, value, recorded[path]) for path, value in fixed if value != recorded[path]]
    for path, networks in (("node_cidr", request.node_cidr), ("pod_cidr", request.pod_cidr)):
        if not {*networks} <= {*parse_networks(recorded[path])}:
            changed.append((path, join(networks), recorded[path]))
    machines = len(previous["hosts"])
    # The Node of a removed machine would stay in the cluster.
    if request.bootstrap == KUBEADM and request.hosts < machines:
        changed.append(("hosts", request.hosts, f"{machines} or more"))
    return [MESSAGES.error("lab-fixed", path=path, value=value, recorded=old) for path, value, old in changed]


def _gateway(networks: Networks) -> str:
    return join(f"{network[1]}/{network.prefixlen}" for network in networks)


def _make_hosts(request: TopologyRequest, networks: LabNetworks) -> list[dict[str, Any]]:
    if request.target == "host":
        return [
            {
                "name": LOCAL,
                "connection": "local",
                "address": str(networks.nodes[0][1]),
                "bridge": link_name(request.name),
                "gateway": _gateway(networks.nodes),
                "state_dir": request.lab_dir,
            }
        ]
    inside = list(networks.machines.subnets(new_prefix=28))[: request.hosts]
    machines_dir = os.path.join(request.lab_dir, "vms")
    return [
        {
            "name": f"vm{machine + 1}",
            "connection": "ssh",
            "user": "root",
            "address": str(networks.nodes[0][_FIRST_MACHINE + machine]),
            "ssh_key": os.path.join(machines_dir, "ssh_key"),
            "known_hosts": os.path.join(machines_dir, "known_hosts"),
            "bridge": link_name(request.name),
            "gateway": f"{network[1]}/{network.prefixlen}",
            "state_dir": MACHINE_STATE_DIR,
        }
        for machine, network in enumerate(inside)
    ]


def _make_nodes(
    request: TopologyRequest,
    previous: Optional[Lab],
    hosts: Sequence[Mapping[str, Any]],
    pod_cidr: Networks,
    problems: list[BallastError],
) -> list[dict[str, Any]]:
    known = {node["name"]: node for node in previous["nodes"]} if previous else {}
    kept = [known[node.name] for node in request.nodes if node.name in known]
    used = {node["address"] for node in kept}
    used_pods = [network for node in kept for network in parse_networks(node["pod_cidr"])]
    free_pods = PodNetworks(pod_cidr, [*used_pods, *(network for node in request.nodes for network in node.pod_cidr)])
    nodes: list[dict[str, Any]] = []
    for node in request.nodes:
        old = known.get(node.name)
        host = _choose_host(node, old, hosts, nodes, problems)
        address = old["address"] if old and old["host"] == host["name"] else _find_free_address(host, used)
        if address is None:
            room = _addresses_of(host)
            count = len(request.nodes)
            problems.append(
                MESSAGES.error(
                    "lab-too-many-nodes", count=count, host=host["name"], network=host["gateway"], room=len(room)
                )
            )
            break
        used.add(address)
        pods = free_pods.take((*(parse_networks(old["pod_cidr"]) if old else ()), *node.pod_cidr))
        if pods is None:
            problems.append(MESSAGES.error("lab-no-pod-network", name=node.name, network=join(pod_cidr)))
            break
        nodes.append(
            {
                "name": node.name,
                "host": host["name"],
                "address": address,
                "pod_cidr": join(pods),
                "labels": dict(node.labels),
                "taints": [dict(taint) for taint in node.taints],
                "pids": node.pids,
                "proxy_backend": node.proxy_backend,
                "runtime": node.runtime,
                "kubelet": dict(node.kubelet),
                "mounts": [mount.as_value() for mount in node.mounts],
            }
        )
    return nodes


def _make_machine_nodes(
    request: TopologyRequest, hosts: Sequence[Mapping[str, Any]], pod_cidr: Network
) -> list[dict[str, Any]]:
    """kubeadm's nodes: a controller gives each node the next /24 of the pod network, in the order in which they join."""
    return [
        {
            "name": node.name,
            "host": host["name"],
            "address": host["address"],
            "pod_cidr": str(pods),
            "labels": {},
            "taints": [],
            "proxy_backend": node.proxy_backend,
        }
        for node, host, pods in zip(request.nodes, hosts, pod_cidr.subnets(new_prefix=24))
    ]


def _choose_host(
    node: NodeRequest,
    old: Optional[Mapping[str, Any]],
    hosts: Sequence[Mapping[str, Any]],
    placed: Sequence[Mapping[str, Any]],
    problems: list[BallastError],
) -> Mapping[str, Any]:
    """The host that the node names, else its present host, else the first host with the fewest nodes."""
    names = {host["name"]: host for host in hosts}
    if node.host is not None and node.host not in names:
        known = ", ".join(names)
        problems.append(
            MESSAGES.error("lab-value", path=f"nodes.{node.name}.host", value=node.host, wanted=f"a host ({known})")
        )
    name = node.host or (old["host"] if old else None)
    if name in names:
        return names[name]
    return min(hosts, key=lambda host: sum(node["host"] == host["name"] for node in placed))


def _addresses_of(host: Mapping[str, Any]) -> list[str]:
    """Addresses for the instances of a host, in order."""
    networks = [interface.network for interface in parse_interfaces(host["gateway"])]
    if host["connection"] == "local":
        numbers = range(_FIRST_INSTANCE, _LAST_INSTANCE + 1)
        return [join(network[number] for network in networks) for number in numbers]
    return [str(address) for address in list(networks[0].hosts())[1:]]


def _find_free_address(host: Mapping[str, Any], used: set[str]) -> Optional[str]:
    return next((address for address in _addresses_of(host) if address not in used), None)


def _set_limits(
    host: Mapping[str, Any],
    nodes: Sequence[dict[str, Any]],
    requests: Sequence[NodeRequest],
    facts: HostFacts,
    problems: list[BallastError],
    *,
    balloons: bool,
    reserve: int,
) -> None:
    """Adds `cpu` and `memory` to each node: its request, its share, or for memory an equal part of what is left.

    CPU is limited on request alone: equal weights divide it where it is scarce. With balloons each node promises a part
    of the CPU, so each has one.
    """
    local = host["connection"] == "local"
    cpu = facts.cpu_millis
    memory = facts.memory_bytes - reserve if local else (host["memory_mib"] - _MACHINE_BASE_MIB // 2) * 2**20
    cpu_requests = [request.cpu_millis if request.share is None else int(cpu * request.share) for request in requests]
    memory_requests = [
        request.memory_bytes if request.share is None else int(memory * request.share) for request in requests
    ]
    least_cpu = _LEAST_CPU_MILLIS if balloons else 0
    least_memory = NODE_OVERHEAD_BYTES + 2**20 if balloons else _LEAST_BYTES
    form = f"at least {LEAST_CPU} of CPU and {least_memory // 2**20}Mi of memory"
    form += f" in a lab with balloons, where {NODE_OVERHEAD_BYTES // 2**20}Mi are not for pods" if balloons else ""
    for request, own_cpu, own_memory in zip(requests, cpu_requests, memory_requests):
        of_cpu = own_cpu is not None and own_cpu < _LEAST_CPU_MILLIS
        if of_cpu or (own_memory is not None and own_memory < least_memory):
            key, value = ("memory", request.memory_bytes) if request.share is None else ("share", request.share)
            path = f"nodes.{request.name}.{key}"
            problems.append(MESSAGES.error("lab-value", path=path, value=str(value), wanted=form))
    least = (("CPU", cpu_requests, cpu, "m", least_cpu), ("memory", memory_requests, memory, " bytes", least_memory))
    for what, parts, has, unit, default_least in least:
        total = sum(default_least if part is None else part for part in parts)
        if total > has:
            shown = {"asked": f"{total}{unit}", "has": f"{max(has, 0)}{unit}"}
            problems.append(MESSAGES.error("lab-shares", host=host["name"], what=what, **shown))
    equal_cpu = _equal_part(cpu, cpu_requests) if balloons else None
    equal_memory = _equal_part(memory, memory_requests)
    for node, own_cpu, own_memory in zip(nodes, cpu_requests, memory_requests):
        part = equal_cpu if own_cpu is None else own_cpu
        node["cpu"] = None if part is None else f"{part}m"
        node["memory"] = str((equal_memory if own_memory is None else own_memory) // 2**20 * 2**20)


def _equal_part(has: int, requests: Sequence[Optional[int]]) -> int:
    """What each node without a request gets: an equal part of what the other nodes leave."""
    return max(has - sum(part or 0 for part in requests), 0) // max(requests.count(None), 1)


def _namespaces(lab: str, node: str) -> dict[str, str]:
    return {"netns": netns_path(join_name(lab, node)), "mountns": mountns_path(lab, node)}
