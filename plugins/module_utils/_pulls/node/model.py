# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is asked of a node's image pulls, with every input error found in one go."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ..._core.errors import BallastError, Problems
from .messages import MESSAGES

PRESENT, ABSENT_STATE = "present", "absent"
AUTO, CONTAINERD, CRIO = "auto", "containerd", "crio"
_INT32_MAX = 2**31 - 1
_ENDPOINT = re.compile(r"(?:unix://)?((?:/[A-Za-z0-9._~!$&'()*+,;=:@-]+)+)", re.ASCII)  # as the proxy reads its sockets
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
    "kubelet_service": {"type": "str", "default": "kubelet"},
    "kubeconfig": {"type": "path"},
    "node_name": {"type": "str"},
    "container_runtime": {"type": "str", "default": AUTO, "choices": [AUTO, CONTAINERD, CRIO]},
    "runtime_service": {"type": "str"},
    "runtime_config": {"type": "path"},
    "proxy_state_dir": {"type": "path", "default": "/var/lib/ballast/pull-proxy"},
    "state_dir": {"type": "path", "default": "/var/lib/ballast/image-pulls"},
}
SPEC: dict[str, Any] = {
    "state": {"type": "str", "default": PRESENT, "choices": [PRESENT, ABSENT_STATE]},
    "max_parallel_image_pulls": {"type": "int"},
    "serialize_image_pulls": {"type": "bool"},
    "registry_pull_qps": {"type": "int"},
    "registry_burst": {"type": "int"},
    "image_service_endpoint": {"type": "str"},
    "runtime": {"type": "dict", "options": RUNTIME_SPEC},
    "host": {"type": "dict", "options": HOST_SPEC},
    "ready_seconds": {"type": "int", "default": 120},
    **_WHERE,
}
INFO_SPEC: dict[str, Any] = {**_WHERE, "readiness": {"type": "bool", "default": False}}


@dataclass(frozen=True)
class Where:
    """How kubelet, runtime and proxy run on this node, as the operator told it; "" is to be found out."""

    kubelet_service: str  # a systemd unit, or the directory of a runit service; so the others
    kubeconfig: str
    node_name: str
    container_runtime: str
    runtime_service: str
    runtime_config: str
    proxy_state_dir: str  # that of image_pull_proxy


@dataclass(frozen=True)
class ImagePulls:
    """`kubelet` has keys of KubeletConfiguration, with None for one that is to have no value; `runtime` and `host` those of
    the options. Each is empty where nothing of that level is asked for, and then what an earlier run set is taken back."""

    kubelet: Mapping[str, Any]
    runtime: Mapping[str, Any]
    host: Mapping[str, Any]
    where: Where
    ready_seconds: float
    state_dir: str

    @classmethod
    def to_read(cls, params: Mapping[str, Any]) -> ImagePulls:
        """From the options of the reading module, which has fewer."""
        return cls.from_params({**{name: row.get("default") for name, row in SPEC.items()}, **params})

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> ImagePulls:
        problems: list[BallastError] = []
        kubelet = _kubelet(params, problems)
        runtime = _given(params["runtime"])
        for key, value in runtime.items():
            _check_runtime(f"runtime.{key}", key, value, problems)
        host = _given(params["host"])
        host.update({"retry": _given(host["retry"])} if "retry" in host else {})
        _at_least(params, "ready_seconds", 1, problems)
        Problems.raise_if(problems)
        wanted = params["state"] == PRESENT
        return cls(
            kubelet=kubelet if wanted else {},
            runtime=runtime if wanted else {},
            host=host if wanted else {},
            where=Where(**{name: params[name] or "" for name in _WHERE if name != "state_dir"}),
            ready_seconds=params["ready_seconds"],
            state_dir=params["state_dir"],
        )


def _given(section: Optional[Mapping[str, Any]]) -> dict[str, Any]:
    return {key: value for key, value in (section or {}).items() if value is not None}


def _kubelet(params: Mapping[str, Any], problems: list[BallastError]) -> dict[str, Any]:
    """Of serializeImagePulls and maxParallelImagePulls both or none: each alone, merged into what stands in the base file,
    can be a configuration that the kubelet ends with (k8s.io/kubernetes/pkg/kubelet/apis/config/validation)."""
    for name, least in (("max_parallel_image_pulls", 1), ("registry_pull_qps", 0), ("registry_burst", 1)):
        if params[name] is not None:
            _at_least(params, name, least, problems)
    most, serial = params["max_parallel_image_pulls"], params["serialize_image_pulls"]
    if serial and most is not None and most > 1:
        problems.append(MESSAGES.error("pulls-node-serial", value=most))
    found: dict[str, Any] = {}
    if most is not None or serial is not None:
        found["maxParallelImagePulls"] = most
        found["serializeImagePulls"] = bool(serial)
    if params["registry_pull_qps"] is not None:
        found["registryPullQPS"] = params["registry_pull_qps"]
    if params["registry_burst"] is not None:
        found["registryBurst"] = params["registry_burst"]
    if params["image_service_endpoint"] is not None:
        endpoint = _ENDPOINT.fullmatch(params["image_service_endpoint"])
        if endpoint is None:
            wanted = "the path of a unix socket, or its unix:// URL"
            problems.append(_wrong("image_service_endpoint", params["image_service_endpoint"], wanted))
        else:
            found["imageServiceEndpoint"] = f"unix://{endpoint[1]}"
    return found


def _check_runtime(path: str, key: str, value: Any, problems: list[BallastError]) -> None:
    if RUNTIME_SPEC[key]["type"] == "int":
        # Neither is 0, no limit: containerd merges its files by a library that takes 0 for "not set".
        _at_least({path: value}, path, 1, problems)
    elif not _CGROUP.fullmatch(value):
        problems.append(_wrong(path, value, "the name of a slice of systemd, or pod"))


def _at_least(params: Mapping[str, Any], name: str, least: int, problems: list[BallastError]) -> None:
    if not least <= params[name] <= _INT32_MAX:
        problems.append(_wrong(name, params[name], f"a whole number from {least} to {_INT32_MAX}"))


def _wrong(path: str, value: object, wanted: str) -> BallastError:
    return MESSAGES.error("pulls-node-value", path=path, value=value, wanted=wanted)
