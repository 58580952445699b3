# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads a running instance: its Node object, its kube-proxy or service proxy, its memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .._core.host.cgroup_paths import cgroup_directories
from .._core.host.host import Host
from .._core.kube.timestamp import unix_seconds
from .._core.service.cgroup import list_processes
from .._core.text.errors import PeerError, shorten
from .._core.text.ip_families import with_port
from .._core.text.json_text import parse_json, parse_object
from .config import PROXY_HEALTH_PORT
from .model import BALLAST, KUBE_PROXY, Instance, InstancesRequest


@dataclass(frozen=True)
class NodeReading:
    ready: bool
    reason: str  # why it is not ready, as observed; "" when it is
    heartbeat: float = 0.0  # when the kubelet last reported, by its own clock; whole seconds of Unix time
    kubelet_version: str = ""
    container_runtime_version: str = ""
    cordoned: bool = False


def read_node(desired: InstancesRequest, instance: Instance, host: Host) -> NodeReading:
    """The instance's Node, read with its kubelet's credentials, which may read no other Node."""
    pki = os.path.join(desired.state_dir, instance.name, "pki")
    if host.stat(f"{pki}/kubelet.crt") is None:
        return NodeReading(ready=False, reason="the instance has no credentials yet")
    try:
        answer = host.request(
            f"{desired.api_server}/api/v1/nodes/{instance.name}",
            ca=f"{pki}/ca.crt",
            cert=f"{pki}/kubelet.crt",
            key=f"{pki}/kubelet.key",
            timeout=5,
        )
    except PeerError as error:
        return NodeReading(ready=False, reason=f"the API server does not respond: {error.found}")
    if answer.status == 404:
        return NodeReading(ready=False, reason="the kubelet has not registered its Node yet")
    if answer.status != 200:
        return NodeReading(ready=False, reason=f"the API server returns status {answer.status} for its Node")
    try:
        return _parse_node(parse_json(answer.body))
    except (ValueError, TypeError, KeyError, AttributeError):
        return NodeReading(ready=False, reason="the API server's response for its Node is not a Node")


def _parse_node(node: dict[str, Any]) -> NodeReading:
    status = node.get("status", {})
    info = status.get("nodeInfo", {})
    conditions = {row["type"]: row for row in status.get("conditions", [])}
    ready = conditions.get("Ready", {"status": "Unknown", "message": "its Node has no condition Ready yet"})
    return NodeReading(
        ready=ready["status"] == "True",
        heartbeat=unix_seconds(ready.get("lastHeartbeatTime")),
        reason="" if ready["status"] == "True" else f"condition Ready: {shorten(str(ready.get('message', '')))}",
        kubelet_version=str(info.get("kubeletVersion", "")),
        container_runtime_version=str(info.get("containerRuntimeVersion", "")),
        cordoned=bool(node.get("spec", {}).get("unschedulable")),
    )


def read_proxy_health(instance: Instance, host: Host) -> str:
    """Empty when the instance's proxy reports that its rules are in sync, else the reason."""
    # /readyz of the service proxy answers 200 only after its rules were in force once. kube-proxy has no such path.
    path = "/healthz" if instance.proxy == KUBE_PROXY else "/readyz"
    try:
        answer = host.request(f"http://{with_port(instance.primary_address, PROXY_HEALTH_PORT)}{path}", timeout=5)
    except PeerError as error:
        return f"{instance.proxy} does not respond: {error.found}"
    return "" if answer.status == 200 else f"{instance.proxy} returns status {answer.status} on {path}"


def read_proxy_backend(home: str, instance: Instance, host: Host) -> str:
    """From the existing configuration, as the module kube_proxy may have changed the mode. Without one, the requested backend."""
    if host.stat(os.path.join(home, "etc/service-proxy.json")) is not None:
        return BALLAST
    mode = (parse_object(host.read(os.path.join(home, "etc/kube-proxy.json"))) or {}).get("mode")
    return mode if isinstance(mode, str) and mode else instance.proxy_backend


def read_pss_bytes(cgroup: str, unit: str, services: Sequence[str], host: Host) -> int:
    """Proportional set size of the instance's services, with containerd's shims; its pods are not counted."""
    parent = cgroup_directories(host, cgroup)[0]
    names = [f"{unit}-{name}.service" if host.is_systemd() else name for name in services]
    leaves = [os.path.join(parent, name) for name in names]
    return sum(_read_process_pss(pid, host) for leaf in leaves for pid in list_processes(host, leaf))


def _read_process_pss(pid: int, host: Host) -> int:
    lines = (host.read(f"/proc/{pid}/smaps_rollup") or b"").decode().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
