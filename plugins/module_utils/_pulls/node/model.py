# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The request for a node's image pulls. All input errors are reported together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..._agent.installation import without_unset
from ..._core.engine.former_names import formerly
from ..._core.text.errors import BallastError, Problems
from .messages import MESSAGES

PRESENT, ABSENT_STATE = "present", "absent"
AUTO, CONTAINERD, CRIO = "auto", "containerd", "crio"
KUBELET_SERVICE = "kubelet"
_INT32_MAX = 2**31 - 1
_ENDPOINT = re.compile(r"(?:unix://)?((?:/[A-Za-z0-9._~!$&'()*+,;=:@-]+)+)", re.ASCII)  # as the proxy reads sockets
_CGROUP = re.compile(r"[A-Za-z0-9_.:-]+\.slice|pod", re.ASCII)

RUNTIME_SPEC: dict[str, Any] = {
    "max_concurrent_downloads": {"type": "int"},
    "max_concurrent_unpacks": {"type": "int"},
    "concurrent_layer_fetch_buffer": {"type": "int"},
    "separate_pull_cgroup": {"type": "str"},
}
HOST_SPEC: dict[str, Any] = {
    "max_in_flight": {"type": "int"},
    "on_full": {"type": "str", "choices": ["block", "retry"]},
    "retry": {"type": "dict", "options": {"attempts": {"type": "int"}, "interval": {"type": "str"}}},
    "join": {"type": "bool"},
    "present": {"type": "str", "choices": ["pass", "succeed"]},
    "order": {"type": "str", "choices": ["fifo", "priority"]},
}
_WHERE: dict[str, Any] = {
    "kubelet_service": {"type": "str", "default": KUBELET_SERVICE},
    "kubeconfig": {"type": "path"},
    "context": {"type": "str"},
    "node_name": {"type": "str"},
    "container_runtime": {"type": "str", "default": AUTO, "choices": [AUTO, CONTAINERD, CRIO]},
    "runtime_service": {"type": "str"},
    "runtime_config": {"type": "path"},
    "pull_proxy_state_dir": {
        "type": "path",
        "default": "/var/lib/ballast/pull-proxy",
        **formerly("proxy_state_dir"),
    },
    "state_dir": {"type": "path", "default": "/var/lib/ballast/image-pulls"},
}
SPEC: dict[str, Any] = {
    "state": {"type": "str", "default": PRESENT, "choices": [PRESENT, ABSENT_STATE]},
    "max_parallel_image_pulls": {"type": "int"},
    "serialize_image_pulls": {"type": "bool"},
    "registry_pull_qps": {"type": "int"},
    "registry_burst": {"type": "int"},
    "image_service_endpoint": {"type": "str"},
    "kubeadm_patches": {"type": "path"},
    "runtime": {"type": "dict", "options": RUNTIME_SPEC},
    "host": {"type": "dict", "options": HOST_SPEC},
    "ready_seconds": {"type": "int", "default": 120},
    **_WHERE,
}
INFO_SPEC: dict[str, Any] = {**_WHERE, "readiness": {"type": "bool", "default": False}}


@dataclass(frozen=True)
class NodeLayout:
    """How kubelet, runtime and proxy run on this node, from the options; "" means detected."""

    kubelet_service: str  # a systemd unit, or the directory of a runit service; so is runtime_service
    kubeconfig: str
    context: str  # "": the current one
    node_name: str
    container_runtime: str
    runtime_service: str
    runtime_config: str
    pull_proxy_state_dir: str  # the option `state_dir` of image_pull_proxy


@dataclass(frozen=True)
class ImagePullsRequest:
    """`kubelet` has keys of KubeletConfiguration, with None for a key without a value; `runtime` and `host` have keys of the options.
    An empty level removes what an earlier run set there."""

    kubelet: Mapping[str, Any]
    runtime: Mapping[str, Any]
    host: Mapping[str, Any]
    kubeadm_patches: str  # a directory; "" for a drop-in
    layout: NodeLayout
    ready_seconds: float
    state_dir: str

    @classmethod
    def to_read(cls, params: Mapping[str, Any]) -> ImagePullsRequest:
        """The request from the options of `image_pulls_info`, which has fewer."""
        return cls.from_params({**{name: row.get("default") for name, row in SPEC.items()}, **params})

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> ImagePullsRequest:
        """Raises Problems with every input error. All levels are empty for `state: absent`."""
        problems: list[BallastError] = []
        kubelet = _kubelet(params, problems)
        runtime = without_unset(params["runtime"] or {})
        for key, value in runtime.items():
            _check_runtime(f"runtime.{key}", key, value, problems)
        _at_least(params, "ready_seconds", 1, problems)
        patches = params["kubeadm_patches"] or ""
        if patches and not patches.startswith("/"):
            problems.append(_wrong("kubeadm_patches", patches, "an absolute path"))
        Problems.raise_if(problems)
        present = params["state"] == PRESENT
        return cls(
            kubelet=kubelet if present else {},
            runtime=runtime if present else {},
            host=without_unset(params["host"] or {}) if present else {},
            kubeadm_patches=patches,
            layout=NodeLayout(**{name: params[name] or "" for name in _WHERE if name != "state_dir"}),
            ready_seconds=params["ready_seconds"],
            state_dir=params["state_dir"],
        )


def _kubelet(params: Mapping[str, Any], problems: list[BallastError]) -> dict[str, Any]:
    """Sets both of serializeImagePulls and maxParallelImagePulls, or neither: one alone, merged into the base file, can be a
    configuration that the kubelet refuses to start with (k8s.io/kubernetes/pkg/kubelet/apis/config/validation)."""
    for name, least in (("max_parallel_image_pulls", 1), ("registry_pull_qps", 0), ("registry_burst", 1)):
        if params[name] is not None:
            _at_least(params, name, least, problems)
    most, serial = params["max_parallel_image_pulls"], params["serialize_image_pulls"]
    if serial and most is not None and most > 1:
        problems.append(MESSAGES.error("pulls-node-serial", value=most))
    settings: dict[str, Any] = {}
    if most is not None or serial is not None:
        settings["maxParallelImagePulls"] = most
        settings["serializeImagePulls"] = bool(serial)
    if params["registry_pull_qps"] is not None:
        settings["registryPullQPS"] = params["registry_pull_qps"]
    if params["registry_burst"] is not None:
        settings["registryBurst"] = params["registry_burst"]
    if params["image_service_endpoint"] is not None:
        endpoint = _ENDPOINT.fullmatch(params["image_service_endpoint"])
        if endpoint is None:
            expected = "the path of a unix socket, or its unix:// URL"
            problems.append(_wrong("image_service_endpoint", params["image_service_endpoint"], expected))
        else:
            settings["imageServiceEndpoint"] = f"unix://{endpoint[1]}"
    return settings


def _check_runtime(path: str, key: str, value: Any, problems: list[BallastError]) -> None:
    if RUNTIME_SPEC[key]["type"] == "int":
        # 0 for "no limit" is not possible: the library that merges containerd's files treats 0 as "not set".
        _at_least({path: value}, path, 1, problems)
    elif not _CGROUP.fullmatch(value):
        problems.append(_wrong(path, value, "the name of a slice of systemd, or pod"))


def _at_least(params: Mapping[str, Any], name: str, least: int, problems: list[BallastError]) -> None:
    if not least <= params[name] <= _INT32_MAX:
        problems.append(_wrong(name, params[name], f"a whole number from {least} to {_INT32_MAX}"))


def _wrong(path: str, value: object, expected: str) -> BallastError:
    return MESSAGES.error("pulls-node-value", path=path, value=value, wanted=expected)
