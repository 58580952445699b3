# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests for node instances, and a machine that can carry them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._instance.engine import (
    _INOTIFY_SYSCTLS,
    _KUBELET_SYSCTLS,
    BINARIES,
)
from ansible_collections.ballast.kube.plugins.module_utils._instance.model import InstancesRequest, desired_from_params
from ansible_collections.ballast.kube.plugins.module_utils._instance.spec import SPEC
from tests.unit.fakes import FakeHost, json_answer
from tests.unit.instance.kernel import Kernel

STATE = "/var/lib/ballast/lab/nodes"
BIN = "/opt/kubernetes"
ARCHIVE = "/var/cache/ballast/images/lab.tar"
MACHINES = {"runit, cgroup v1": (1, False), "runit, cgroup v2": (2, False), "systemd": (2, True)}
IMAGES = {"ballast.local/pause:1": "sha256:1111", "ballast.local/busybox:1": "sha256:2222"}


def instance(number: int, **changes: Any) -> dict[str, Any]:
    """An instance as the module gets it: every option, with its default."""
    return {
        "name": f"n{number}",
        "address": f"10.97.0.{10 + number}",
        "pod_cidr": f"10.128.{number}.0/24",
        "labels": None,
        "taints": None,
        "startup_taints": None,
        "cpu": None,
        "memory": None,
        "pids": None,
        "proxy_backend": "nftables",
        "runtime": "runc",
        "kubelet": None,
        "mounts": None,
        "stopped": False,
        "bin_dir": None,
        "kubernetes_version": None,
        **changes,
    }


def credentials(name: str) -> dict[str, str]:
    parts = ("kubelet", "kubelet_serving", "kube_proxy", "service_proxy")
    rows = {f"{part}_{end}": f"{name} {part} {end}\n" for part in parts for end in ("certificate", "key")}
    return {"name": name, **rows}


def params(count: int = 1, **changes: Any) -> dict[str, Any]:
    names = [f"n{number}" for number in range(1, count + 1)]
    return {
        **{name: option.get("default") for name, option in SPEC.items()},
        "state_dir": STATE,
        "instances": [instance(number) for number in range(1, count + 1)],
        "bridge": "ballast-lab",
        "gateway": "10.97.0.1/24",
        "api_server": "https://10.97.0.1:6443",
        "cluster_cidr": "10.128.0.0/16",
        "bin_dir": BIN,
        "kubernetes_version": "1.37.1",
        "cgroup_driver": "cgroupfs",
        "ca": "the authority\n",
        "credentials": [credentials(name) for name in names],
        "archives": [{"path": ARCHIVE, "images": IMAGES}],
        **changes,
    }


def desired(count: int = 1, *, at_boot: bool = False, **changes: Any) -> InstancesRequest:
    # Whatever this machine itself is started by.
    return replace(desired_from_params(params(count, **changes), FakeHost()), at_boot=at_boot)


def machine(*, cgroups: int = 2, systemd: bool = False) -> Kernel:
    host = Kernel(cgroups=cgroups, systemd=systemd)
    for name, value in {**_INOTIFY_SYSCTLS, **_KUBELET_SYSCTLS}.items():
        host.given_sysctl(name, 1 if value > 1 else 0)
    for name in BINARIES:
        host.given(f"{BIN}/{name}", mode=0o755)
    host.given(ARCHIVE, json.dumps(IMAGES))
    host.given_directory("/var/lib/ballast/lab")
    # Another lab holds something; so a kill between making these directories and using them leaves nothing of ours.
    host.given("/run/ballast/sysctl/lock", "1", mode=0o600)
    host.given("/run/ballast/sysctl/other.json", '{"original": 1, "raised_to": 2, "holders": {"else": 2}}')
    host.given("/var/lib/ballast/shared/srv.json", '{"made": "", "holders": ["else"]}')
    host.given_bridge("ballast-lab", "10.97.0.1/24")
    return host


def node(*, ready: str = "True", message: str = "", heartbeat: str = "2030-01-01T00:00:00Z") -> Mapping[str, Any]:
    return {
        "status": {
            "conditions": [{"type": "Ready", "status": ready, "message": message, "lastHeartbeatTime": heartbeat}],
            "nodeInfo": {"kubeletVersion": "v1.37.1+lab", "containerRuntimeVersion": "containerd://2.3.7"},
        }
    }


def answer_ready(host: Kernel, count: int = 1) -> None:
    for number in range(1, count + 1):
        host.answer(f"https://10.97.0.1:6443/api/v1/nodes/n{number}", json_answer(200, node()))
        host.answer(f"http://10.97.0.{10 + number}:10256/healthz", Response(status=200, body=b"{}"))
