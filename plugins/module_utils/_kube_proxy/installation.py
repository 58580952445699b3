# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How kube-proxy runs on this node: its process, its files, and its supervisor.

service     a systemd unit or a runit service, with a configuration file on the node
daemonset   a pod in the host's network that the API lists in kube-system on this node (kubelet.py). Its files are read
            below its root, and its token is sent only to the API server that the node itself uses
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Optional

from .._core.host.host import PATH, Host, Process, ProcessId
from .._core.host.processes import is_of_root, list_processes, pod_uid, program, read_command
from .._core.service.daemon import daemon_exists, daemon_network, daemon_process, flag_value
from .._core.text.json_text import mapping_in
from . import kubelet
from .config_file import parse_config
from .messages import MESSAGES

if TYPE_CHECKING:
    from .._core.kube.client import Access, Api
    from .._core.kube.kubeconfig import Credentials

SERVICE, DAEMONSET = "service", "daemonset"
MODE_LABEL = "ballast.kube/kube-proxy-mode"  # a label of Nodes: the mode whose DaemonSet runs there
POD_CONFIG_PATH = "/var/lib/kube-proxy/config.conf"
_PROGRAM = "kube-proxy"
_FILE_BYTES = 2**20  # the most that a ConfigMap holds
ACCOUNT_DIRECTORIES = tuple(f"{run}/secrets/kubernetes.io/serviceaccount" for run in ("/var/run", "/run"))


@dataclass(frozen=True)
class Installation:
    """As given by the options; a field that is "" is determined from the node (find.py)."""

    deployment: str
    service: str  # a systemd unit, or the directory of a runit service
    config_path: str
    kubeconfig: str = ""
    context: str = ""  # of `kubeconfig`
    node_name: str = ""


def process(host: Host, where: Installation) -> Optional[Process]:
    """kube-proxy's process; None while it is not running."""
    if where.deployment == DAEMONSET:
        return pod_process(host, where)
    return daemon_process(host, where.service)


def runs_here(host: Host) -> bool:
    """Whether root runs a kube-proxy in this network namespace, as a service or in a pod."""
    return any(True for _process in own_processes(host))


def require_service(host: Host, where: Installation) -> None:
    """HostError if there is no such service, or if it runs with another configuration file than `config_path`."""
    if where.deployment == DAEMONSET:
        return
    if not daemon_exists(host, where.service):
        raise MESSAGES.error("migrate-no-service", service=where.service)
    running = process(host, where)
    if running is None or not is_kube_proxy(running):  # it may still be the script that starts kube-proxy
        return
    if config_flag(host, running) != where.config_path:
        argv = read_command(host, running.id)
        raise MESSAGES.error("migrate-config-unused", found=" ".join(argv[:12]), path=where.config_path)


def config_flag(host: Host, running: Process) -> str:
    """The absolute path in --config of a kube-proxy outside of pods; "" if it has none."""
    path = flag_value(read_command(host, running.id), "--config") or ""
    return os.path.join(host.readlink(f"/proc/{running.pid}/cwd") or "/", path) if path else ""


def config_text(host: Host, where: Installation) -> Optional[str]:
    """The content of the configuration file that kube-proxy reads; None if there is none."""
    if where.deployment == DAEMONSET:
        pod = _pod(host, where)
        data = _read_in_pod(host, pod, flag_value(read_command(host, pod.id), "--config") or POD_CONFIG_PATH)
    else:
        data = host.read(where.config_path)
    return None if data is None else data.decode("utf-8", errors="surrogateescape")


def current_config(host: Host, where: Installation) -> Mapping[str, Any]:
    """The parsed configuration file; empty if there is none."""
    text = config_text(host, where)
    return {} if text is None else parse_config(text, path=where.config_path)


def node_name(host: Host, where: Installation, config: Mapping[str, Any]) -> str:
    """kube-proxy's flag, else its configuration, else the host name; in lower case and without surrounding blanks, as
    kube-proxy determines it (k8s.io/component-helpers/node/util, GetHostname)."""
    if where.node_name:
        return where.node_name
    running = process(host, where)
    flag = None if running is None else flag_value(read_command(host, running.id), "--hostname-override")
    return (flag or str(config.get("hostnameOverride") or "") or platform.node()).strip().lower()


def api(host: Host, where: Installation, config: Mapping[str, Any]) -> Api:
    """A client with kube-proxy's credentials, which may list and watch Services and EndpointSlices."""
    from .._core.kube.client import Api  # a run that changes nothing needs no API
    from .patient_access import PatientAccess

    return Api(host, PatientAccess(_access(host, where, config)))


def api_server(host: Host, where: Installation, config: Mapping[str, Any]) -> str:
    """The URL of the server that `api` uses; "" if the kubeconfig requires the kubernetes library, which decides."""
    from .._core.kube.kubeconfig import Credentials

    access = _access(host, where, config)
    return access.server if isinstance(access, Credentials) else ""


def iptables_variant(host: Host, where: Installation) -> str:
    """The variant of iptables that kube-proxy writes: that of the first `iptables` in its PATH, below its own root. "" if
    unknown."""
    from .._rules.iptables.restore import VARIANTS

    running = process(host, where)
    if running is None:
        return ""
    for directory in _read_environment(host, running.id).get("PATH", PATH).split(":"):
        path = host.resolve_below(running.id, os.path.join(directory, "iptables"))
        name = os.path.basename(path or "")
        for variant in VARIANTS:
            if name.startswith((f"xtables-{variant}", f"iptables-{variant}")):
                return variant
    return ""


def network_namespace(host: Host, where: Installation) -> Optional[str]:
    """The path of the network namespace in which systemd starts kube-proxy; None if that is the host's."""
    return None if where.deployment == DAEMONSET else daemon_network(host, where.service)


def _access(host: Host, where: Installation, config: Mapping[str, Any]) -> Access:
    from .._core.kube.connection import access_by

    if where.kubeconfig and host.stat(where.kubeconfig) is not None:
        return access_by(host, [where.kubeconfig], where.context)
    return _credentials(host, where, config)


def _credentials(host: Host, where: Installation, config: Mapping[str, Any]) -> Credentials:
    from .._core.kube.kubeconfig import parse_credentials

    path = where.kubeconfig
    if not path:
        path = str(mapping_in(config, "clientConnection").get("kubeconfig") or "")
    if not path:
        raise MESSAGES.error("migrate-no-kubeconfig", path="clientConnection.kubeconfig")
    pod = _pod(host, where) if where.deployment == DAEMONSET and not where.kubeconfig else None
    data = host.read(path) if pod is None else _read_in_pod(host, pod, path)
    if data is None:
        raise MESSAGES.error("migrate-unreadable", path=path)
    pod_credentials = parse_credentials(data.decode(errors="replace"), base_dir=os.path.dirname(path), name=path)
    return pod_credentials if pod is None else _of_pod(pod_credentials, pod, kubelet.credentials_of(host), path)


def _of_pod(pod_credentials: Credentials, pod: Process, node: Credentials, path: str) -> Credentials:
    """The credentials of a pod's kubeconfig, with the server and CA of the kubelet's: a pod must not choose which server
    gets its token, or which CA is trusted. Both may name one API by different addresses."""
    for file in (pod_credentials.cert, pod_credentials.key, pod_credentials.token_file):
        if isinstance(file, str) and file and not _is_in(file, ACCOUNT_DIRECTORIES):
            raise MESSAGES.error("migrate-pod-credentials", path=path, found=file)
    if isinstance(pod_credentials.cert, str) or isinstance(
        pod_credentials.key, str
    ):  # a ServiceAccount's mount has none
        raise MESSAGES.error("migrate-pod-credentials", path=path, found="a client certificate's path")
    return replace(
        pod_credentials, server=node.server, ca=node.ca, token_of=pod.id if pod_credentials.token_file else None
    )


def _is_in(path: str, directories: tuple[str, ...]) -> bool:
    return os.path.normpath(path).startswith(tuple(f"{directory}/" for directory in directories))


def _read_in_pod(host: Host, pod: Process, path: str) -> Optional[bytes]:
    return host.read_below(pod.id, path, limit=_FILE_BYTES)


def _pod(host: Host, where: Installation) -> Process:
    pod = pod_process(host, where)
    if pod is None:
        raise MESSAGES.error("migrate-no-process")
    return pod


def pod_process(host: Host, where: Installation) -> Optional[Process]:
    """The process of a kube-proxy that runs as root in this network namespace, in the cgroup of a pod that the API lists as
    kube-proxy's; None if there is none."""
    candidates = [proc for proc in own_processes(host) if pod_uid(proc) is not None]
    known = kubelet.proxy_pods(host, where.node_name) if candidates else frozenset()
    return next((proc for proc in candidates if pod_uid(proc) in known), None)


def own_processes(host: Host) -> Iterator[Process]:
    """All kube-proxies that root runs in this network namespace. A forked child that is about to run ipset or nft still
    looks like kube-proxy, and is not included."""
    alike = [proc for proc in list_processes(host, (_PROGRAM,)) if proc.own_network and is_of_root(proc)]
    pids = {proc.pid for proc in alike}
    return (proc for proc in alike if proc.parent not in pids)


def is_kube_proxy(process: Process) -> bool:
    return program(process) == _PROGRAM


def _read_environment(host: Host, process: ProcessId) -> dict[str, str]:
    """The variables with which the process was started; empty if it has ended."""
    rows = (host.read_process(process, "environ") or b"").decode(errors="replace").split("\0")
    return dict(row.split("=", 1) for row in rows if "=" in row)
