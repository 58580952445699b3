# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of `kubelet_instance` and its `_info` module."""

from __future__ import annotations

from typing import Any

from .._core.engine.events import PROGRESS_LOG
from .model import KUBE_PROXIES, PROXY_BACKENDS, RUNTIMES, TAINT_EFFECTS

_TAINT: dict[str, Any] = {
    "key": {"type": "str", "required": True, "no_log": False},
    "value": {"type": "str"},
    "effect": {"type": "str", "required": True, "choices": list(TAINT_EFFECTS)},
}
_MOUNT: dict[str, Any] = {
    "host": {"type": "str", "required": True},
    "node": {"type": "str", "required": True},
    "read_only": {"type": "bool", "default": False},
}
_INSTANCE: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "address": {"type": "str", "required": True},
    "pod_cidr": {"type": "str", "required": True},
    "labels": {"type": "dict"},
    "taints": {"type": "list", "elements": "dict", "options": _TAINT},
    "startup_taints": {"type": "list", "elements": "dict", "options": _TAINT},
    "cpu": {"type": "str"},
    "memory": {"type": "str"},
    "pids": {"type": "int"},
    "proxy_backend": {"type": "str", "default": "nftables", "choices": list(PROXY_BACKENDS)},
    "runtime": {"type": "str", "default": "runc", "choices": list(RUNTIMES)},
    "kubelet": {"type": "dict"},
    "mounts": {"type": "list", "elements": "dict", "options": _MOUNT},
    "stopped": {"type": "bool", "default": False},
    "bin_dir": {"type": "path"},
    "kubernetes_version": {"type": "str"},
}
_CREDENTIAL: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "kubelet_certificate": {"type": "str", "required": True},
    "kubelet_key": {"type": "str", "required": True, "no_log": True},
    "kubelet_serving_certificate": {"type": "str", "required": True},
    "kubelet_serving_key": {"type": "str", "required": True, "no_log": True},
    "kube_proxy_certificate": {"type": "str", "required": True},
    "kube_proxy_key": {"type": "str", "required": True, "no_log": True},
    "service_proxy_certificate": {"type": "str"},
    "service_proxy_key": {"type": "str", "no_log": True},
}
_ARCHIVE: dict[str, Any] = {
    "path": {"type": "path", "required": True},
    "images": {"type": "dict", "required": True},
}
_PROXIES: dict[str, Any] = {
    "http": {"type": "str", "no_log": True},
    "https": {"type": "str", "no_log": True},
    "no_proxy": {"type": "list", "elements": "str"},
}
SPEC: dict[str, Any] = {
    "state": {"type": "str", "default": "present", "choices": ["present", "stopped", "absent"]},
    "state_dir": {"type": "path", "required": True},
    **PROGRESS_LOG,
    "lab": {"type": "str", "default": "lab"},
    "instances": {"type": "list", "elements": "dict", "options": _INSTANCE},
    "bridge": {"type": "str"},
    "gateway": {"type": "str"},
    "api_server": {"type": "str"},
    "cluster_cidr": {"type": "str"},
    "cluster_dns": {"type": "list", "elements": "str"},
    "feature_gates": {"type": "dict"},
    "kube_proxy": {"type": "str", "default": KUBE_PROXIES[0], "choices": list(KUBE_PROXIES)},
    "certs_dir": {"type": "path"},
    "registry_mirrors": {"type": "dict"},
    "proxies": {"type": "dict", "options": _PROXIES},
    "bin_dir": {"type": "path"},
    "kubernetes_version": {"type": "str"},
    "cgroup_driver": {"type": "str", "choices": ["systemd", "cgroupfs"]},
    "ca": {"type": "str"},
    "credentials": {"type": "list", "elements": "dict", "options": _CREDENTIAL, "no_log": False},
    "archives": {"type": "list", "elements": "dict", "options": _ARCHIVE},
    "ready_seconds": {"type": "float", "default": 180.0},
}
_NEEDED = ("instances", "bridge", "gateway", "api_server", "cluster_cidr", "bin_dir", "kubernetes_version")
REQUIRED_IF = [("state", "present", _NEEDED)]
