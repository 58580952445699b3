# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The summary of a lab, as the file summary.json and as the table at the end of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Optional

from .._core.text.naming import format_name
from .._core.text.quantity import format_memory
from .._instance.node_ports import LOOPBACK
from .addons.network_policy import NETWORK_POLICY
from .addons.registry import REGISTRY, registry_address
from .topology import KUBEADM

DEFAULT_DIR = "/var/lib/ballast/lab"
RUNNING = "running"
READY = "ready"


@dataclass(frozen=True)
class NodeSummary:
    name: str
    host: str
    ready: bool
    cordoned: bool
    ready_seconds: Optional[float]  # from the kubelet's start
    pss_bytes: int
    pod_ip: str
    pods_reached: int
    service_reached: bool
    name_resolved: Optional[bool]  # the Service's name; None in a lab without DNS
    proxy_backend: str
    proxy_reason: str = ""  # why the proxy is not healthy


@dataclass(frozen=True)
class AddonState:
    name: str
    state: str  # READY, or what it waits for


@dataclass(frozen=True)
class Summary:
    name: str
    kubernetes_version: str
    plane_ready_seconds: Optional[float]
    plane_rss_bytes: int
    nodes: tuple[NodeSummary, ...]
    plane_state: str = RUNNING  # as in `control_plane_info`
    plane_members: tuple[
        Mapping[str, Any], ...
    ] = ()  # as the module control_plane returns them; empty where there is one
    addons: tuple[AddonState, ...] = ()
    network_policies: int = 0  # which only the add-on of that name enforces

    @property
    def total(self) -> int:
        """Number of connections to check: each pod to every other, and each to the Service."""
        return len(self.nodes) ** 2

    @property
    def passed(self) -> int:
        """Number of those connections that were made; a pod that reaches the Service counts once."""
        return sum(node.pods_reached + node.service_reached for node in self.nodes)

    def as_json(self) -> dict[str, Any]:
        """What summary.json has."""
        return {
            "name": self.name,
            "kubernetes_version": self.kubernetes_version,
            "control_plane": {
                "state": self.plane_state,
                "ready_seconds": self.plane_ready_seconds,
                "rss_bytes": self.plane_rss_bytes,
                "members": [dict(member) for member in self.plane_members],
            },
            "nodes": [asdict(node) for node in self.nodes],
            "addons": [asdict(addon) for addon in self.addons],
            "network_policies": self.network_policies,
            "connectivity": {"pairs": self.total, "passed": self.passed},
        }


def table(summary: Summary, lab: Mapping[str, Any]) -> str:
    """The table for people: the lab's nodes, the next command, and how to remove the lab."""
    machines = [host["name"] for host in lab["hosts"] if host["connection"] != "local"]
    where = f"{len(machines)} virtual machines" if machines else "this host"
    count = len(summary.nodes)
    by_kubeadm = lab.get("bootstrap") == KUBEADM  # none of our modules measures kubeadm's nodes and control plane
    names = ["DNS"] if any(node.name_resolved is not None for node in summary.nodes) else []
    heads = ("NODE", "HOST", "READY", "PODS REACHED", "SERVICE", *names, "PROXY", "MEMORY", "POD")
    others = count - 1
    rows = [
        (
            node.name,
            node.host,
            _ready(node, by_kubeadm=by_kubeadm),
            f"{node.pods_reached}/{others}",
            "yes" if node.service_reached else "no",
            *([] if node.name_resolved is None else ["yes" if node.name_resolved else "no"]),
            f"{node.proxy_backend} (not healthy)" if node.proxy_reason else node.proxy_backend,
            "-" if by_kubeadm else format_memory(node.pss_bytes),
            node.pod_ip or "-",
        )
        for node in summary.nodes
    ]
    lines = format_table([heads, *rows])
    directory = lab["lab_dir"]
    option = "" if directory == DEFAULT_DIR else f" -e lab_dir={directory}"
    plane = f"ready after {_seconds(summary.plane_ready_seconds)}, {format_memory(summary.plane_rss_bytes)}"
    if summary.plane_state != RUNNING:
        plane = summary.plane_state
    if summary.plane_members:
        plane = f"{_members(summary.plane_members)}; {plane}"
    if by_kubeadm:
        plane = f"kubeadm's, on {lab['nodes'][0]['name']}"
    use = f"use it:      {directory}/bin/kubectl --kubeconfig {directory}/admin.kubeconfig get pods -A -o wide"
    if summary.plane_state != RUNNING:
        use = f"start it:    ansible-playbook ballast.kube.lab_up{option}"
    return "\n".join(
        [
            f"{format_name('lab', summary.name)}: {count} nodes on {where}, Kubernetes {summary.kubernetes_version}",
            "",
            *(f"  {line}" for line in lines),
            "",
            f"connections: {summary.passed} of {summary.total} passed; control plane: {plane}",
            *([f"add-ons:     {', '.join(_addon(row, lab) for row in summary.addons)}"] if summary.addons else []),
            *([f"published:   {', '.join(_ports(lab))}"] if lab.get("publish") else []),
            *_host_services(lab),
            *([f"not enforced: {_policies(summary.network_policies)}"] if _has_idle_policies(summary, lab) else []),
            use,
            f"remove it:   ansible-playbook ballast.kube.lab_down{option}",
        ]
    )


def _host_services(lab: Mapping[str, Any]) -> list[str]:
    """What this host reaches, and what it does not reach, with the reason."""
    access = lab.get("host_services")
    if access is None:  # virtual machines, or recorded by an earlier version
        return []
    reached = [*access["networks"], *([f"{LOOPBACK}:{access['node_ports']}"] if access["node_ports"] else [])]
    rows = [("from here:   Services by ", reached), ("not reached: ", access["left_out"])]
    return [f"{head}{', '.join(texts)}" for head, texts in rows if texts]


def _has_idle_policies(summary: Summary, lab: Mapping[str, Any]) -> bool:
    return summary.network_policies > 0 and NETWORK_POLICY.name not in lab.get("addons", ())


def _policies(count: int) -> str:
    what = "1 NetworkPolicy, which nothing" if count == 1 else f"{count} NetworkPolicies, which nothing"
    return f"{what} in this lab enforces: pods reach each other as if there were none"


def _ports(lab: Mapping[str, Any]) -> list[str]:
    """Ports of this host, and the node ports that they lead to."""
    node = lab["nodes"][0]["name"]
    udp = {"tcp": "", "udp": "/udp"}
    return [f"{row['port']}{udp[row['protocol']]} to {node}:{row['node_port']}" for row in lab["publish"]]


def _addon(addon: AddonState, lab: Mapping[str, Any]) -> str:
    if addon.state != READY:
        return f"{addon.name}: {addon.state}"
    at = f" at {registry_address(lab)}" if addon.name == REGISTRY.name else ""
    return f"{addon.name} {READY}{at}"


def format_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows as lines with aligned columns; the first row is the header."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def _ready(node: NodeSummary, *, by_kubeadm: bool) -> str:
    """The column READY, with the status that `kubectl get nodes` prints for a node that gets no new pods."""
    ready = "no" if not node.ready else "yes" if by_kubeadm else _seconds(node.ready_seconds)
    return f"{ready},SchedulingDisabled" if node.cordoned else ready


def _seconds(value: Optional[float]) -> str:
    return "?" if value is None else f"{value:.1f} s"


def _members(members: Sequence[Mapping[str, Any]]) -> str:
    down = [name for member in members for name in member["down"]]
    well = sum(not member["down"] for member in members)
    return f"{well} of {len(members)} members" + (f", down: {', '.join(down)}" if down else "")
