# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds out how kube-proxy runs on this node, if the options leave that open, and whether it is ours to change.

A process is identified as kube-proxy by its program and user, as the kernel reports them; where it runs, by its cgroup or
supervisor:

    pod known to the API  daemonset; the API proves that a DaemonSet in kube-system created it here (kubelet.py)
    static pod            the kubelet creates it from a manifest that its owner would write again: not ours
    unit, runit service   service, by that name
    none running          what mode ballast or an unfinished change has recorded, else the unit kube-proxy

A kube-proxy that another program manages is refused before anything is changed, with a hint at what its owner offers instead
(`_kubelet/owners.py`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn, Optional

from .._core.host.host import Host, Process
from .._core.host.processes import pod_uid, read_command
from .._core.service.daemon import daemon_exists, daemon_files, daemon_of, daemon_process, flag_value
from .._core.text.errors import BallastError
from .._core.text.json_text import mapping_in, parse_object
from .._kubelet.distributions import find_distribution
from .._kubelet.find import list_kubelets
from .._kubelet.owners import Owner, owner_by_distribution, owner_by_links, owner_by_nodes
from .._rules.node_addresses import read_links
from . import kubelet, watchdog_files
from .installation import (
    DAEMONSET,
    POD_CONFIG_PATH,
    SERVICE,
    Installation,
    config_flag,
    is_kube_proxy,
    own_processes,
    pod_process,
)
from .messages import MESSAGES
from .own_proxy import read_held
from .request import AUTO, KubeProxyRequest

_UNIT = "kube-proxy"


@dataclass(frozen=True)
class _Places:
    """Where the kube-proxies in this node's network run."""

    services: tuple[str, ...]
    pods: tuple[Process, ...]  # that the API may know
    static_pods: tuple[Process, ...]
    others: tuple[Process, ...]  # in no service or pod: Docker containers, or started by hand


def locate(request: KubeProxyRequest, host: Host) -> KubeProxyRequest:
    """The request with deployment, service and config_path as found on this node. HostError if no kube-proxy is found, or if
    it is not ours to change. Without root nothing can be concluded, and the run is refused later."""
    if not host.is_root():
        return request
    where = find_installation(host, request.where, request.state_dir)
    options = {"deployment": where.deployment, "service": where.service, "config_path": where.config_path}
    return replace(request, where=where, params={**request.params, **options})


def find_installation(host: Host, where: Installation, state_dir: str) -> Installation:
    """`where` with what the options leave open. HostError if no kube-proxy is found, several, or one that is not ours
    to change."""
    if where.deployment == SERVICE or (where.deployment == AUTO and where.service):
        return _as_service(host, where, where.service or _service_name(host, state_dir), state_dir)
    if where.deployment == DAEMONSET:
        return _as_daemonset(host, where)
    places = _places(host)
    if len(places.services) > 1 or (places.services and places.pods and pod_process(host, where) is not None):
        pods = [f"pod process {process.pid}" for process in places.pods]
        raise MESSAGES.error("migrate-several", found=", ".join([*places.services, *pods]))
    if places.services:
        return _as_service(host, where, places.services[0], state_dir)
    if places.pods:
        return _as_daemonset(host, where)
    if places.static_pods:
        _refuse_static_pod(host, where, places.static_pods[0])
    if places.others:
        process = places.others[0]
        raise MESSAGES.error("migrate-elsewhere", pid=process.pid, cgroup=", ".join(sorted(set(process.cgroups))))
    return _while_none_runs(host, where, state_dir)


def _places(host: Host) -> _Places:
    processes = list(own_processes(host))
    services = {process.pid: daemon_of(host, process) for process in processes if pod_uid(process) is None}
    uids = {process.pid: pod_uid(process) or "" for process in processes}
    return _Places(
        services=tuple(sorted({service for service in services.values() if service})),
        pods=tuple(process for process in processes if "-" in uids[process.pid]),
        static_pods=tuple(process for process in processes if uids[process.pid] and "-" not in uids[process.pid]),
        others=tuple(process for process in processes if services.get(process.pid) == ""),
    )


def _as_service(host: Host, where: Installation, service: str, state_dir: str) -> Installation:
    process = _process_of(host, service)
    if process is not None:
        _refuse_owned(owner_by_distribution(find_distribution(host, process, read_command(host, process.id))))
    path = where.config_path or _config_path(host, service, process, state_dir)
    return replace(where, deployment=SERVICE, service=service, config_path=path)


def _service_name(host: Host, state_dir: str) -> str:
    services = _places(host).services
    if len(services) > 1:
        raise MESSAGES.error("migrate-several", found=", ".join(services))
    recorded = _read_record(host, state_dir)
    return services[0] if services else recorded.service if recorded is not None and recorded.service else _UNIT


def _process_of(host: Host, service: str) -> Optional[Process]:
    """The kube-proxy of a service: its main process, or one that its script has started."""
    main = daemon_process(host, service)
    if main is not None and is_kube_proxy(main):
        return main
    return next((process for process in own_processes(host) if daemon_of(host, process) == service), None)


def _config_path(host: Host, service: str, process: Optional[Process], state_dir: str) -> str:
    if process is not None:
        path = config_flag(host, process)
        if not path:
            raise MESSAGES.error("migrate-no-config-flag", service=service)
        return path
    recorded = _read_record(host, state_dir)
    if recorded is not None and recorded.service == service and recorded.config_path:
        return recorded.config_path
    files = daemon_files(host, service) if daemon_exists(host, service) else []
    texts = [(host.read(path) or b"").decode(errors="replace").replace("\\\n", " ") for path in files]
    words = [word.strip("'\"") for text in texts for word in text.split()]
    path = flag_value(words, "--config") or ""
    return path if path.startswith("/") else POD_CONFIG_PATH


def _as_daemonset(host: Host, where: Installation) -> Installation:
    _refuse_owned(_owner_of_kubelet(host))
    node = kubelet.read_node(host, where.node_name)
    for pod in kubelet.list_proxy_pods(host, where.node_name):
        _refuse_owned(owner_by_nodes([node], pod))
    return replace(where, deployment=DAEMONSET, service="", config_path=where.config_path or POD_CONFIG_PATH)


def _refuse_static_pod(host: Host, where: Installation, process: Process) -> NoReturn:
    _refuse_owned(owner_by_distribution(find_distribution(host, process, read_command(host, process.id))))
    _refuse_owned(_owner_of_kubelet(host))
    try:
        node, pods = kubelet.read_node(host, where.node_name), kubelet.list_mirror_pods(host, where.node_name)
    except BallastError:  # then the owner cannot be named
        node, pods = {}, []
    for pod in pods:
        _refuse_owned(owner_by_nodes([node], pod))
    raise MESSAGES.error("migrate-static-pod", pid=process.pid)


def _while_none_runs(host: Host, where: Installation, state_dir: str) -> Installation:
    recorded = _read_record(host, state_dir)
    if recorded is not None:
        path = where.config_path or recorded.config_path
        return replace(where, deployment=recorded.deployment, service=recorded.service, config_path=path)
    if host.is_systemd() and daemon_exists(host, _UNIT):
        return _as_service(host, where, _UNIT, state_dir)
    _refuse_owned(_owner_of_kubelet(host))
    try:
        links = [name for name, _addresses in read_links(host)]
    except BallastError:
        links = []
    _refuse_owned(owner_by_links(links))
    raise MESSAGES.error("migrate-none")


def _read_record(host: Host, state_dir: str) -> Optional[Installation]:
    """The kube-proxy that is held in mode ballast, or that an unfinished change has found; the watchdog uses that for its
    rollback."""
    held = read_held(host, state_dir)
    if held is not None:
        return held
    path = os.path.join(state_dir, watchdog_files.DIRECTORY, watchdog_files.TASK)
    params: Mapping[str, Any] = mapping_in(parse_object(host.read(path)), "params")
    deployment, service, config_path = (params.get(key) for key in ("deployment", "service", "config_path"))
    if deployment not in (SERVICE, DAEMONSET) or not isinstance(service, str) or not isinstance(config_path, str):
        return None
    return Installation(str(deployment), service, config_path)


def _owner_of_kubelet(host: Host) -> Optional[Owner]:
    owners = (owner_by_distribution(kubelet.distribution) for kubelet in list_kubelets(host))
    return next((owner for owner in owners if owner is not None), None)


def _refuse_owned(owner: Optional[Owner]) -> None:
    if owner is not None:
        raise MESSAGES.error(f"migrate-owner-{owner.name}")
