# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the container runtime that this node's kubelet uses, and the service that runs it.

The kubelet's configuration names the endpoint, and the process that listens there is the runtime: a machine with Docker has a
containerd that no kubelet uses. Before the kubelet runs, as during a node's setup, the only running runtime is taken.
"""

from __future__ import annotations

import os
from typing import NamedTuple, Optional

from ..._core.host.host import Host, Process
from ..._core.host.processes import program
from ..._core.service.daemon import daemon_exists, daemon_of, daemon_process
from ..._core.text.errors import BallastError
from ..._kubelet.config import runtime_endpoint, socket_path
from ..._kubelet.find import Kubelet
from .kubelet import find_kubelet
from .messages import MESSAGES
from .model import AUTO, CONTAINERD, CRIO, NodeLayout
from .unix_listener import find_unix_listener

_CRI_DOCKERD = "cri-dockerd"
# The service that usually listens on each of these sockets, for a runtime that is down, so that nothing listens.
_DEFAULTS = {"/run/containerd/containerd.sock": CONTAINERD, "/run/crio/crio.sock": CRIO}
_VAR = "/var"


class Runtime(NamedTuple):
    """`service` is the name that the init system knows."""

    name: str
    service: str


def find_runtime(host: Host, layout: NodeLayout) -> Runtime:
    """The runtime. HostError if it cannot be determined, or has nothing that this module sets."""
    kubelet = _running_kubelet(host, layout)
    if layout.runtime_service:
        runtime = _named_service(host, layout)
        if kubelet is not None:
            _refuse_other(host, kubelet, runtime.service)
        return runtime
    return _running_runtime(host, layout) if kubelet is None else _of_kubelet(host, layout, kubelet)


def runtime_service(host: Host, layout: NodeLayout, name: str) -> str:
    """The service of this runtime, which an earlier plan has chosen and which may now be down."""
    try:
        runtime = find_runtime(host, layout)
    except BallastError:
        return layout.runtime_service or name
    return runtime.service if runtime.name == name else layout.runtime_service or name


def _named_service(host: Host, layout: NodeLayout) -> Runtime:
    service = layout.runtime_service
    if layout.container_runtime != AUTO:
        return Runtime(layout.container_runtime, _require_service(host, service, layout.container_runtime))
    running = daemon_process(host, service)
    name = "" if running is None else program(running)
    if name in (CONTAINERD, CRIO):
        return Runtime(name, service)
    raise MESSAGES.error("pulls-node-runtime", why=f"{service} {f'runs {name}' if name else 'does not run'}")


def _running_runtime(host: Host, layout: NodeLayout) -> Runtime:
    if layout.container_runtime != AUTO:
        return Runtime(
            layout.container_runtime, _require_service(host, layout.container_runtime, layout.container_runtime)
        )
    if not host.is_systemd():
        raise MESSAGES.error("pulls-node-runtime", why="its service is not set, and this machine has no systemd to ask")
    up = [service for service in (CONTAINERD, CRIO) if daemon_process(host, service) is not None]
    if len(up) != 1:
        raise MESSAGES.error("pulls-node-runtime", why=f"{' and '.join(up) or 'neither containerd nor crio'} runs")
    return Runtime(up[0], up[0])


def _running_kubelet(host: Host, layout: NodeLayout) -> Optional[Kubelet]:
    """The kubelet; None on a node that is being set up. If one must run, its own level reports that it does not."""
    try:
        kubelet = find_kubelet(host, layout)
    except BallastError:
        return None
    return None if kubelet.pid is None else kubelet


def _refuse_other(host: Host, kubelet: Kubelet, service: str) -> None:
    """The named service is accepted if the kubelet uses a proxy, or if nothing shows that it uses another runtime."""
    endpoint, listener, name = _read_endpoint(host, kubelet)
    main = daemon_process(host, service)
    if name in (CONTAINERD, CRIO) and listener is not None and main is not None and main.id != listener.id:
        of = f"{listener.exe} (process {listener.pid} of {daemon_of(host, listener) or 'no service'})"
        why = f"runtime_service is {service}, but the kubelet uses {endpoint}, where {of} listens"
        raise MESSAGES.error("pulls-node-runtime", why=why)


def _read_endpoint(host: Host, kubelet: Kubelet) -> tuple[str, Optional[Process], str]:
    """The endpoint, the process that listens there, and its program's name. HostError for Docker, which is configured elsewhere."""
    endpoint = runtime_endpoint(host, kubelet)
    path = socket_path(endpoint)
    listener = find_unix_listener(host, path, near=kubelet.pid or 0) if path else None
    name = _usual(path) if listener is None else program(listener)
    if name == _CRI_DOCKERD:
        raise MESSAGES.error("pulls-node-docker", endpoint=endpoint)
    return endpoint, listener, name


def _of_kubelet(host: Host, layout: NodeLayout, kubelet: Kubelet) -> Runtime:
    endpoint, listener, name = _read_endpoint(host, kubelet)
    if name not in (CONTAINERD, CRIO):
        what = (
            f"{listener.exe} (process {listener.pid}) listens" if listener is not None else "no known runtime listens"
        )
        raise MESSAGES.error("pulls-node-runtime", why=f"the kubelet uses {endpoint}, where {what}")
    if layout.container_runtime not in (AUTO, name):
        why = (
            f"container_runtime is {layout.container_runtime}, but the kubelet uses {endpoint}, which belongs to {name}"
        )
        raise MESSAGES.error("pulls-node-runtime", why=why)
    if listener is None:
        return Runtime(name, _require_service(host, name, name))
    service = daemon_of(host, listener)
    main = daemon_process(host, service) if service else None
    if main is None or main.id != listener.id:
        of = f"{service} starts beside its main process" if service else "no service runs"
        why = f"the kubelet uses {endpoint}, where {listener.exe} (process {listener.pid}) listens, that {of}"
        raise MESSAGES.error("pulls-node-runtime", why=why)
    return Runtime(name, service)


def _usual(path: str) -> str:
    if os.path.basename(path) == f"{_CRI_DOCKERD}.sock":
        return _CRI_DOCKERD
    return _DEFAULTS.get(path[len(_VAR) :] if path.startswith(f"{_VAR}/run/") else path, "")


def _require_service(host: Host, service: str, name: str) -> str:
    if not daemon_exists(host, service):
        raise MESSAGES.error("pulls-node-service", option="runtime_service", service=service, what=name)
    return service
