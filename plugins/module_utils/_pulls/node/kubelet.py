# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kubelet's own limits: a drop-in of KubeletConfiguration, the flags that would win over it, and /configz.

What wins, from the weakest: defaults, --config, the files of --config-dir in the order of their paths, flags. Source: k8s.io/
kubernetes/cmd/kubelet/app/server.go, mergeKubeletConfigurations and kubeletConfigFlagPrecedence.
"""

from __future__ import annotations

import calendar
import json
import os
import platform
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

from ..._core.daemon import command_line, daemon_exists, daemon_files, daemon_pid, flag_value, restart_daemon
from ..._core.document import parse_document
from ..._core.errors import BallastError, PeerError
from ..._core.events import Progress
from ..._core.host import Host
from ..._core.kubeapi import Api
from ..._core.kubeconfig import credentials
from ..._core.wait import Pending, Ready, wait
from .drop_in import HEADING, DropInKind
from .messages import MESSAGES
from .model import Where

FILE_NAME = "90-ballast-image-pulls.conf"
_HEAD = f"{HEADING}apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
# Of each key: the flag that sets it too, and the default (SetDefaults_KubeletConfiguration). No limit is None, and so is the
# endpoint of the runtime, for images too.
FLAGS = {
    "serializeImagePulls": "--serialize-image-pulls",
    "registryPullQPS": "--registry-qps",
    "registryBurst": "--registry-burst",
    "imageServiceEndpoint": "--image-service-endpoint",
}
DEFAULTS: Mapping[str, Any] = {
    "maxParallelImagePulls": None,
    "serializeImagePulls": True,
    "registryPullQPS": 5,
    "registryBurst": 10,
    "imageServiceEndpoint": None,
}
_HEALTHZ_PORT = 10248
_SECONDS = 5
_READ_BACK_SECONDS = 30
_ENDS_MOST = 3  # of a kubelet that ends by itself, before it counts as failed
_LINE = re.compile(r'([a-zA-Z]+): (null|true|false|[0-9]+|"[^"\\]*")')


@dataclass(frozen=True)
class Kubelet:
    service: str
    argv: tuple[str, ...]  # empty where it does not run
    pid: Optional[int]


@dataclass(frozen=True)
class FlagFound:
    flag: str
    key: str
    places: tuple[str, ...]  # as a person finds them: "process 812", "/var/lib/kubelet/kubeadm-flags.env:1"


def drop_in_text(settings: Mapping[str, Any]) -> str:
    """YAML, as the kubelet takes no comment in JSON. Null takes a key away that the base file sets: RFC 7386."""
    return _HEAD + "".join(f"{key}: {json.dumps(settings[key])}\n" for key in sorted(settings))


def drop_in_settings(text: str) -> dict[str, Any]:
    """What a text of `drop_in_text` sets."""
    rows = (_LINE.fullmatch(line) for line in text.splitlines())
    return {row[1]: json.loads(row[2]) for row in rows if row is not None}


def find_kubelet(host: Host, where: Where) -> Kubelet:
    service = where.kubelet_service
    if not daemon_exists(host, service):
        raise MESSAGES.error("pulls-node-service", option="kubelet_service", service=service, what="the kubelet")
    pid = daemon_pid(host, service)
    argv = () if pid is None else tuple(command_line(host, pid))
    return Kubelet(service=service, argv=argv, pid=pid if argv else None)


def config_dir(host: Host, kubelet: Kubelet) -> str:
    """Of the running kubelet, "" where it has none."""
    return _path(host, kubelet, flag_value(kubelet.argv, "--config-dir") or "")


def flags_found(host: Host, kubelet: Kubelet, keys: Sequence[str]) -> list[FlagFound]:
    """The flags that win over a file for one of the keys: in the running process, and in what its next start is made of."""
    found = []
    files = [(path, (host.read(path) or b"").decode(errors="replace")) for path in daemon_files(host, kubelet.service)]
    for key in sorted(set(keys) & set(FLAGS)):
        flag = FLAGS[key]
        places = [f"process {kubelet.pid}"] if flag_value(kubelet.argv, flag) is not None else []
        places += [f"{path}:{number}" for path, text in files for number in _lines_with(text, flag)]
        if places:
            found.append(FlagFound(flag=flag, key=key, places=tuple(places)))
    return found


def config_files(host: Host, kubelet: Kubelet) -> list[tuple[str, Mapping[str, Any]]]:
    """The files that the kubelet reads, from the weakest, with what they set. HostError where one is YAML and there is no
    PyYAML."""
    directory = config_dir(host, kubelet)
    base = _path(host, kubelet, flag_value(kubelet.argv, "--config") or "")
    paths = ([base] if base else []) + (_drop_ins(host, directory) if directory else [])
    found: list[tuple[str, Mapping[str, Any]]] = []
    for path in paths:
        data = host.read(path)
        if data is not None:
            document = parse_document(data.decode(errors="replace"), name=path)
            found.append((path, document if isinstance(document, dict) else {}))
    return found


def node_name(where: Where, kubelet: Kubelet) -> str:
    return where.node_name or flag_value(kubelet.argv, "--hostname-override") or platform.node().lower()


def read_in_effect(host: Host, where: Where, kubelet: Kubelet) -> Mapping[str, Any]:
    """From /configz, through the API server, which knows the kubelet's certificate. PeerError, HostError or UserError where
    it cannot be asked."""
    path = f"/api/v1/nodes/{node_name(where, kubelet)}/proxy/configz"
    answer = _api(host, where).get(path).get("kubeletconfig")
    config = answer if isinstance(answer, dict) else {}
    return {key: config.get(key) for key in DEFAULTS}


def read_metrics(host: Host, where: Where, kubelet: Kubelet) -> str:
    """As Prometheus scrapes them. Asked, and raises, as `read_in_effect`."""
    return _api(host, where).text(f"/api/v1/nodes/{node_name(where, kubelet)}/proxy/metrics")


def _api(host: Host, where: Where) -> Api:
    data = host.read(where.kubeconfig) if where.kubeconfig else None
    if data is None:
        why = f"{where.kubeconfig} is not there" if where.kubeconfig else "no kubeconfig is named"
        raise MESSAGES.error("pulls-node-not-read-back", why=why)
    base = os.path.dirname(where.kubeconfig)
    return Api(host, credentials(data.decode(errors="replace"), base_dir=base, name=where.kubeconfig), timeout=_SECONDS)


def unlike(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """The keys that do not have the wanted values."""
    return sorted(key for key, value in wanted.items() if found.get(key) != value)


class KubeletKind(DropInKind):
    """The kubelet's drop-in; see DropInKind."""

    def __init__(self, where: Where, ready_seconds: float, progress: Progress) -> None:
        self._where = where
        self._ready_seconds = ready_seconds
        self._progress = progress

    def emptied(self, text: str) -> str:
        return _HEAD

    def take_effect(self, host: Host, target: str, text: str, *, goes_back: bool) -> None:
        service = self._where.kubelet_service
        left = find_kubelet(host, self._where)
        was_ready = _not_ready(host, self._where, left, since=0.0) == ""
        begun = host.now()
        self._progress.started("kubelet", "starting it anew")
        restart_daemon(host, service)
        self._wait_until_healthy(host, begun if was_ready else None)
        if not goes_back:
            self._require_in_effect(host, target, drop_in_settings(text))
        self._progress.done("kubelet", "healthy")

    def _wait_until_healthy(self, host: Host, ready_since: Optional[float]) -> None:
        pids: set[int] = set()

        def probe() -> Union[Ready[None], Pending]:
            kubelet = find_kubelet(host, self._where)
            pids.update([] if kubelet.pid is None else [kubelet.pid])
            if len(pids) > _ENDS_MOST:
                raise PeerError(f"it ended {len(pids) - 1} times", id="pulls-node-kubelet-failed")
            reason = "it does not run" if kubelet.pid is None else unhealthy(host, kubelet)
            if not reason and ready_since is not None:
                reason = _not_ready(host, self._where, kubelet, since=ready_since)
            return Pending(reason) if reason else Ready(None)

        try:
            wait(host, self._progress, "kubelet", probe, deadline_seconds=self._ready_seconds, interval=0.2)
        except PeerError as error:
            shown = f"{self._ready_seconds:.0f}"
            raise MESSAGES.error("pulls-node-kubelet-failed", found=error.found or error.text, seconds=shown) from error

    def _require_in_effect(self, host: Host, target: str, wanted: Mapping[str, Any]) -> None:
        """As far as it can be read: `verify` says where it cannot."""
        kubelet = find_kubelet(host, self._where)
        deadline = host.monotonic() + _READ_BACK_SECONDS
        while wanted and self._where.kubeconfig:
            try:
                require_kubelet_has(wanted, read_in_effect(host, self._where, kubelet), target)
                return
            except BallastError as error:
                if error.id == "pulls-node-not-in-effect":
                    raise
                if error.id == "core-api-forbidden" or host.monotonic() > deadline:
                    return
            host.sleep(0.5)  # it answers on its health port before it serves the API


def require_kubelet_has(wanted: Mapping[str, Any], found: Mapping[str, Any], path: str) -> None:
    for key in unlike(wanted, found):
        shown = {"what": "the kubelet", "key": key, "wanted": json.dumps(wanted[key]), "path": path}
        there = f"{key}: {json.dumps(found.get(key))} in /configz"
        raise MESSAGES.error(
            "pulls-node-not-in-effect", found=there, where="the files after it in --config-dir", **shown
        )


def unhealthy(host: Host, kubelet: Kubelet) -> str:
    """Why not, "" where it says that it is, or is told to listen nowhere."""
    url = _healthz_url(host, kubelet)
    if not url:
        return ""
    try:
        status = host.request(url, timeout=_SECONDS).status
    except PeerError:
        return "its health port does not answer"
    return "" if status == 200 else f"it answers {status} on /healthz"


def _healthz_url(host: Host, kubelet: Kubelet) -> str:
    config: dict[str, Any] = {}
    try:
        for _name, part in config_files(host, kubelet):
            config.update(part)
    except BallastError:  # without PyYAML: a port other than the default is then not known
        config = {}
    configured = config.get("healthzPort")
    port = flag_value(kubelet.argv, "--healthz-port") or str(_HEALTHZ_PORT if configured is None else configured)
    address = flag_value(kubelet.argv, "--healthz-bind-address") or str(config.get("healthzBindAddress") or "127.0.0.1")
    address = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)
    shown = f"[{address}]" if ":" in address else address
    return f"http://{shown}:{port}/healthz" if port.isdigit() and int(port) else ""


def _not_ready(host: Host, where: Where, kubelet: Kubelet, *, since: float) -> str:
    """Why its Node has not said Ready since then, by the kubelet's own credentials; "" where it has."""
    path = _path(host, kubelet, flag_value(kubelet.argv, "--kubeconfig") or "")
    data = host.read(path) if path else None
    if data is None:
        return "it has no kubeconfig"
    try:
        own = credentials(data.decode(errors="replace"), base_dir=os.path.dirname(path), name=path)
        node = Api(host, own, timeout=_SECONDS).get(f"/api/v1/nodes/{node_name(where, kubelet)}")
    except BallastError as error:
        return f"its Node cannot be read: {error.text}"
    return ready_problem(node, since=since)


def ready_problem(node: Mapping[str, Any], *, since: float) -> str:
    """Why the Node has not said Ready since then, in Unix time; "" where it has. Its times are whole seconds."""
    status = node.get("status")
    rows = status.get("conditions") if isinstance(status, dict) else None
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and row.get("type") == "Ready":
            if row.get("status") != "True":
                return f"condition Ready: {row.get('message')}"
            return (
                ""
                if _unix_seconds(row.get("lastHeartbeatTime")) >= int(since)
                else "condition Ready is from before its start"
            )
    return "its Node has no condition Ready"


def _unix_seconds(text: object) -> float:
    """Of a time as the API writes it, 2026-11-21T12:04:15Z; 0 where there is none."""
    try:
        return float(calendar.timegm(time.strptime(str(text), "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return 0.0


def _path(host: Host, kubelet: Kubelet, path: str) -> str:
    """A relative one starts where the kubelet was started."""
    if not path or path.startswith("/"):
        return path
    return os.path.join(host.readlink(f"/proc/{kubelet.pid}/cwd") or "/", path)


def _drop_ins(host: Host, directory: str) -> list[str]:
    """In the order in which they are read: as filepath.WalkDir walks."""
    found = []
    for name in sorted(host.listdir(directory)):
        path = os.path.join(directory, name)
        stat = host.stat(path)
        if stat is not None and stat.kind == "directory":
            found += _drop_ins(host, path)
        elif name.endswith(".conf"):
            found.append(path)
    return found


def _lines_with(text: str, flag: str) -> list[int]:
    name = flag.lstrip("-").replace("-", "[-_]")
    word = re.compile(rf"(?<![\w-])--?{name}(?![\w-])")
    return [
        number
        for number, line in enumerate(text.splitlines(), start=1)
        if word.search(line) and not line.lstrip().startswith(("#", ";"))
    ]
