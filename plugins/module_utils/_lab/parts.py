# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of the modules that make the parts of a lab, from its record. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from .._balloon.cluster.facts import TAINT
from .._core.text.ip_families import Network, parse_interfaces, split, with_port
from .._instance.model import BALLAST, cgroup_of
from .addons.catalog import addon_parts
from .addons.dns import DOMAIN, cluster_dns, has_dns
from .addons.registry import registry_mirrors
from .host_services import node_port_access, service_routes
from .kubeadm import kubeadm_parts
from .networks import pods_apart
from .programs import program_parts, with_source
from .resolve import LOCAL, MACHINE_BIN_DIR, MACHINE_RESERVE_MIB, NODE_OVERHEAD_BYTES, RESERVE_BYTES, Lab
from .topology import KUBEADM, MEMBER_BYTES

_INSTANCE_OPTIONS = (
    *("name", "address", "pod_cidr", "labels", "taints"),
    *("cpu", "memory", "pids", "proxy_backend", "runtime"),
)


def parts(lab: Lab) -> dict[str, Any]:
    """`credentials`: rows `nodes` of the control plane; `nodes`: Node objects; `hosts`: by name, the instances, routes and masqueraded
    networks of each host, including this host when it carries no instance; `machines`: virtual machines; `balloons`: by host, the options
    `nodes` and `reserve` of the module balloon, and `nodes` again without slices, or null; `kubeadm`: see `kubeadm_parts`, null where the
    lab's own playbooks make the cluster; `addons`: see `addon_parts`; `programs`: see `program_parts`; `registry_mirrors`: an option of
    the module kubelet_instance; `publish`, `node_ports`: options of the module instance_network; `no_proxy`: what nodes reach without a
    proxy; `cluster_dns`: the addresses that kubelets give to pods; `api_server`: its URL."""
    by_kubeadm = lab.get("bootstrap") == KUBEADM
    return {
        "credentials": [] if by_kubeadm else [_credentials(node) for node in lab["nodes"]],
        "nodes": [{name: node[name] for name in ("name", "labels", "taints")} for node in lab["nodes"]],
        "hosts": {name: _host(lab, name) for name in {LOCAL, *(host["name"] for host in lab["hosts"])}},
        "balloons": {host["name"]: _balloons(lab, host) for host in lab["hosts"]},
        "machines": [_machine(lab, host) for host in lab["hosts"] if host["connection"] != "local"],
        "kubeadm": kubeadm_parts(lab) if by_kubeadm else None,
        "addons": _addons(lab),
        "programs": program_parts(lab),
        "registry_mirrors": {**registry_mirrors(lab), **lab.get("registry_mirrors", {})},
        "publish": [
            {
                "port": row["port"],
                "protocol": row["protocol"],
                "address": address,
                "to_port": row["node_port"],
            }
            for row in lab.get("publish", ())
            for address in split(lab["nodes"][0]["address"])
        ],
        "node_ports": node_port_access(lab),
        "no_proxy": _no_proxy(lab),
        "cluster_dns": cluster_dns(lab) if has_dns(lab) else [],
        "api_server": api_server(lab),
    }


def _credentials(node: Mapping[str, Any]) -> dict[str, Any]:
    """The row of the control plane's option `nodes`, for which it issues credentials."""
    own = {"service_proxy": True} if node["proxy_backend"] == BALLAST else {}
    return {"name": node["name"], "addresses": split(node["address"]), **own}


def _addons(lab: Lab) -> dict[str, Any]:
    parts_of_addons = addon_parts(lab.get("addons", ()))
    return {**parts_of_addons, "families": [with_source(lab, family) for family in parts_of_addons["families"]]}


def _no_proxy(lab: Lab) -> list[str]:
    """The lab's own networks and names. The network of the nodes includes the bridge and with it the API server."""
    inside = [str(_network(host)) for host in lab["hosts"] if host["connection"] != "local"]
    own = [network for key in ("node_cidr", "pod_cidr", "service_cidr") for network in split(lab[key])]
    networks = [*own, *pods_apart(lab), *inside]
    return ["localhost", "127.0.0.1", "::1", ".svc", f".{DOMAIN}", *networks]


def _host(lab: Lab, name: str) -> dict[str, Any]:
    others = [host for host in lab["hosts"] if host["name"] != name]
    by_kubeadm = lab.get("bootstrap") == KUBEADM  # its machines are nodes themselves, with no network inside
    routes = [
        {"to": network, "via": host["address"]}
        for host in others
        for network in (
            *([] if by_kubeadm else [str(_network(host))]),
            *(node["pod_cidr"] for node in lab["nodes"] if node["host"] == host["name"]),
        )
    ]
    own = [network for key in ("node_cidr", "pod_cidr") for network in split(lab[key])]
    # Machines reach other networks through this host.
    inside = (
        [*own, *pods_apart(lab), *([] if by_kubeadm else (str(_network(host)) for host in others))]
        if name == LOCAL
        else []
    )
    # Until its balloon has its size, a new node would offer the capacity of the whole host.
    startup_taints = [{"key": TAINT, "value": "", "effect": "NoSchedule"}] if lab.get("balloons") else []
    return {
        "instances": [
            {
                **{option: node[option] for option in _INSTANCE_OPTIONS},
                # Records of earlier versions lack these keys.
                "kubelet": node.get("kubelet", {}),
                "mounts": node.get("mounts", []),
                "startup_taints": startup_taints,
            }
            for node in lab["nodes"]
            if node["host"] == name and not by_kubeadm
        ],
        "routes": [*routes, *(service_routes(lab) if name == LOCAL else [])],
        "masqueraded": inside,
        "bin_dir": "" if name == LOCAL else MACHINE_BIN_DIR,
    }


def _balloons(lab: Lab, host: Mapping[str, Any]) -> Optional[dict[str, Any]]:
    """The slice of a node also holds its own programs, so pods get less: what the kubelet does not reserve."""
    if not lab.get("balloons"):
        return None
    nodes = [node for node in lab["nodes"] if node["host"] == host["name"]]
    rows = [
        {
            "name": node["name"],
            "target": {"cpu": node["cpu"], "memory": str(int(node["memory"]) - NODE_OVERHEAD_BYTES)},
            "slice": cgroup_of(lab["name"], node["name"]),
        }
        for node in nodes
    ]
    members = lab["control_plane"].get("members", 1)  # records of earlier versions lack it
    of_plane = RESERVE_BYTES + (members - 1) * MEMBER_BYTES
    own = of_plane if host["connection"] == "local" else MACHINE_RESERVE_MIB * 2**20
    reserve = {"cpu": "0", "memory": str(own + len(nodes) * NODE_OVERHEAD_BYTES)}
    return {"nodes": rows, "without_slices": [{"name": node["name"]} for node in nodes], "reserve": reserve}


def api_server(lab: Lab) -> str:
    """The URL of the API server."""
    plane = lab["control_plane"]
    return f"https://{with_port(plane['address'], plane['port'])}"


def _network(host: Mapping[str, Any]) -> Network:
    """The network inside a virtual machine."""
    return parse_interfaces(host["gateway"])[0].network


def _machine(lab: Lab, host: Mapping[str, Any]) -> dict[str, Any]:
    length = lab["node_cidr"].partition("/")[2]
    return {
        "name": host["name"],
        "address": f"{host['address']}/{length}",
        "gateway": lab["gateway"].partition("/")[0],
        "memory_mib": host["memory_mib"],
    }
