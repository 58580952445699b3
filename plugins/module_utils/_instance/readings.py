# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a running instance says of itself: its Node object, its kube-proxy, its memory."""

from __future__ import annotations

import calendar
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .._core.cgroup import processes
from .._core.cgroup_paths import cgroup_directories
from .._core.errors import PeerError, shorten
from .._core.host import Host
from .config import KUBE_PROXY_HEALTH_PORT
from .model import Desired, Instance


@dataclass(frozen=True)
class NodeReading:
    ready: bool
    reason: str  # why not, as observed; "" when ready
    heartbeat: float = 0.0  # when the kubelet last said so, by its own clock; whole seconds of Unix time
    kubelet_version: str = ""
    container_runtime_version: str = ""


def read_node(desired: Desired, instance: Instance, host: Host) -> NodeReading:
    """The instance's own Node, asked with its kubelet's credentials, which may read just that."""
    pki = os.path.join(desired.state_dir, instance.name, "pki")
    if host.stat(f"{pki}/kubelet.crt") is None:
        return NodeReading(ready=False, reason="it has no credentials yet")
    try:
        answer = host.request(
            f"{desired.api_server}/api/v1/nodes/{instance.name}",
            ca=f"{pki}/ca.crt",
            cert=f"{pki}/kubelet.crt",
            key=f"{pki}/kubelet.key",
            timeout=5,
        )
    except PeerError as error:
        return NodeReading(ready=False, reason=f"the API does not answer: {error.found}")
    if answer.status == 404:
        return NodeReading(ready=False, reason="the kubelet has not registered its Node yet")
    if answer.status != 200:
        return NodeReading(ready=False, reason=f"the API answers {answer.status} for its Node")
    try:
        return _parse_node(json.loads(answer.body))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return NodeReading(ready=False, reason="what the API answers for its Node is no Node")


def _parse_node(node: dict[str, Any]) -> NodeReading:
    status = node.get("status", {})
    info = status.get("nodeInfo", {})
    conditions = {row["type"]: row for row in status.get("conditions", [])}
    ready = conditions.get("Ready", {"status": "Unknown", "message": "no condition Ready yet"})
    return NodeReading(
        ready=ready["status"] == "True",
        heartbeat=_unix_seconds(ready.get("lastHeartbeatTime")),
        reason="" if ready["status"] == "True" else f"condition Ready: {shorten(str(ready.get('message', '')))}",
        kubelet_version=str(info.get("kubeletVersion", "")),
        container_runtime_version=str(info.get("containerRuntimeVersion", "")),
    )


def _unix_seconds(text: object) -> float:
    """Of a time as the API writes it, 2026-11-21T12:04:15Z; 0 where there is none."""
    try:
        return float(calendar.timegm(time.strptime(str(text), "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return 0.0


def read_proxy_health(instance: Instance, host: Host) -> str:
    """Empty when kube-proxy says that its rules are in sync, else why not."""
    url = f"http://{instance.address}:{KUBE_PROXY_HEALTH_PORT}/healthz"
    try:
        answer = host.request(url, timeout=5)
    except PeerError as error:
        return f"kube-proxy does not answer: {error.found}"
    return "" if answer.status == 200 else f"kube-proxy answers {answer.status} on /healthz"


def read_proxy_mode(home: str, instance: Instance, host: Host) -> str:
    """As its configuration has it, which the module kube_proxy may have changed since; of none, the one that was asked for."""
    try:
        found = json.loads(host.read(os.path.join(home, "etc/kube-proxy.json")) or b"{}")
    except (ValueError, RecursionError):
        found = {}
    mode = found.get("mode") if isinstance(found, dict) else None
    return mode if isinstance(mode, str) and mode else instance.proxy_backend


def read_pss_bytes(cgroup: str, unit: str, services: Sequence[str], host: Host) -> int:
    """Proportional set size of the instance's services, with containerd's shims; its pods are not counted."""
    parent = cgroup_directories(host, cgroup)[0]
    names = [f"{unit}-{name}.service" if host.is_systemd() else name for name in services]
    leaves = [os.path.join(parent, name) for name in names]
    return sum(_pss_bytes(pid, host) for leaf in leaves for pid in processes(host, leaf))


def _pss_bytes(pid: int, host: Host) -> int:
    lines = (host.read(f"/proc/{pid}/smaps_rollup") or b"").decode().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
