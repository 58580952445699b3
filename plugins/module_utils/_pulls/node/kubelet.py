# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kubelet's own limits: a drop-in of KubeletConfiguration, the flags that override it, and /configz."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ..._core.engine.context import Context
from ..._core.engine.wait import wait_until
from ..._core.host.host import Host
from ..._core.kube.client import Api
from ..._core.kube.kubeconfig import parse_credentials
from ..._core.kube.kubelet_api import PORT, local_kubelet
from ..._core.kube.timestamp import unix_seconds
from ..._core.service.daemon import daemon_exists, daemon_files, flag_value
from ..._core.text.errors import BallastError, PeerError
from ..._core.text.json_text import mapping_in, parse_json, rows_in
from ..._kubelet.config import find_config_dir, read_config_files
from ..._kubelet.find import Kubelet, absolute_path, kubelet_of_service, list_kubelets
from .drop_in import HEADING, DropInKind, restart_until_healthy
from .messages import MESSAGES
from .model import KUBELET_SERVICE, ImagePullsRequest, NodeLayout

FILE_NAME = "90-ballast-image-pulls.conf"
_HEAD = f"{HEADING}apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
# For each key: the flag that also sets it, and the default (SetDefaults_KubeletConfiguration). None stands for no limit, and for
# the runtime's endpoint, which then serves images too.
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
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_SECONDS = 5
_READ_BACK_SECONDS = 30
_ENDS_MOST = 3  # exits of a kubelet after its restart until the change counts as failed
_LINE = re.compile(r'([a-zA-Z]+): (null|true|false|[0-9]+|"[^"\\]*")')


@dataclass(frozen=True)
class OverridingFlag:
    """A flag of the kubelet that overrides `key`, and where it is set."""

    flag: str
    key: str
    places: tuple[str, ...]  # as messages show them: "process 812", "/var/lib/kubelet/kubeadm-flags.env:1"


def drop_in_text(settings: Mapping[str, Any]) -> str:
    """YAML, because the kubelet accepts no comments in JSON. Null removes a key that the base file sets: RFC 7386."""
    return _HEAD + "".join(f"{key}: {json.dumps(settings[key])}\n" for key in sorted(settings))


def drop_in_settings(text: str) -> dict[str, Any]:
    """The settings in a text that `drop_in_text` wrote."""
    rows = (_LINE.fullmatch(line) for line in text.splitlines())
    return {row[1]: parse_json(row[2]) for row in rows if row is not None}


def find_kubelet(host: Host, layout: NodeLayout) -> Kubelet:
    """The kubelet of the service, also while it does not run; or the node's, if a distribution runs it under another name."""
    service = layout.kubelet_service
    others = list_kubelets(host) if service == KUBELET_SERVICE else []
    for kubelet in others:
        if kubelet.distribution is not None:
            return kubelet
    if not daemon_exists(host, service):
        running = ", ".join(f"process {kubelet.pid} of {kubelet.service or 'no service'}" for kubelet in others)
        shown = {"option": "kubelet_service", "service": service, "what": "the kubelet"}
        raise MESSAGES.error("pulls-node-service", found=running, **shown)
    return kubelet_of_service(host, service) or Kubelet(service, (), None)


def find_overriding_flags(host: Host, kubelet: Kubelet, keys: Sequence[str]) -> list[OverridingFlag]:
    """The flags that override a file's value of these keys, in the running process and in the files that start it."""
    flags = []
    paths = daemon_files(host, kubelet.service) if kubelet.service else []
    files = [(path, (host.read(path) or b"").decode(errors="replace")) for path in paths]
    for key in sorted(set(keys) & set(FLAGS)):
        flag = FLAGS[key]
        places = [f"process {kubelet.pid}"] if flag_value(kubelet.argv, flag) is not None else []
        places += [f"{path}:{number}" for path, text in files for number in _lines_with(text, flag)]
        if places:
            flags.append(OverridingFlag(flag=flag, key=key, places=tuple(places)))
    return flags


def node_name(layout: NodeLayout, kubelet: Kubelet) -> str:
    """The name of the Node: the option, else the kubelet's flag, else the lower-case host name."""
    return layout.node_name or flag_value(kubelet.argv, "--hostname-override") or platform.node().lower()


def read_in_effect(host: Host, layout: NodeLayout, kubelet: Kubelet) -> Mapping[str, Any]:
    """The kubelet's values from its /configz. PeerError, HostError or UserError if it cannot be read."""
    config = mapping_in(_api(host, layout, kubelet).get("/configz"), "kubeletconfig")
    return {key: config.get(key) for key in DEFAULTS}


def read_metrics(host: Host, layout: NodeLayout, kubelet: Kubelet) -> str:
    """The kubelet's metrics, as Prometheus scrapes them. Raises as `read_in_effect` does."""
    return _api(host, layout, kubelet).text("/metrics")


def kubelet_url(host: Host, kubelet: Kubelet) -> str:
    """The URL of its API; "" if it serves none."""
    config = _config(host, kubelet)
    address, port = _api_address(config, kubelet)
    return f"https://{address}:{port}" if port else ""


def _api(host: Host, layout: NodeLayout, kubelet: Kubelet) -> Api:
    data = host.read(layout.kubeconfig) if layout.kubeconfig else None
    if data is None:
        why = f"{layout.kubeconfig} is not there" if layout.kubeconfig else "no kubeconfig is named"
        raise MESSAGES.error("pulls-node-not-read-back", why=why)
    base = os.path.dirname(layout.kubeconfig)
    own = parse_credentials(
        data.decode(errors="replace"), base_dir=base, name=layout.kubeconfig, context=layout.context
    )
    config = _config(host, kubelet)
    address, port = _api_address(config, kubelet)
    certificate = _serving_certificate(host, config, kubelet)
    if not port or host.stat(certificate) is None:
        why = f"its certificate {certificate} is not there" if port else "it serves no API"
        raise MESSAGES.error("pulls-node-not-read-back", why=why)
    return local_kubelet(host, own, address=address, port=port, certificate=certificate)


def _config(host: Host, kubelet: Kubelet) -> dict[str, Any]:
    """The merged values of its files; empty if they cannot be read."""
    config: dict[str, Any] = {}
    try:
        for file in read_config_files(host, kubelet):
            config.update(file.settings)
    except BallastError:
        return {}
    return config


def _api_address(config: Mapping[str, Any], kubelet: Kubelet) -> tuple[str, int]:
    """Address and port of its API; port 0 if it serves none."""
    port = flag_value(kubelet.argv, "--port") or str(config.get("port") or PORT)
    address = flag_value(kubelet.argv, "--address") or str(config.get("address") or "0.0.0.0")
    served = config.get("enableServer") is not False and flag_value(kubelet.argv, "--enable-server") != "false"
    return _LOOPBACK.get(address, address), int(port) if served and port.isdigit() else 0


def _serving_certificate(host: Host, config: Mapping[str, Any], kubelet: Kubelet) -> str:
    """The path of its serving certificate: configured, signed by the cluster, or self-signed."""
    given = flag_value(kubelet.argv, "--tls-cert-file") or str(config.get("tlsCertFile") or "")
    if given:
        return absolute_path(host, kubelet, given)
    directory = absolute_path(host, kubelet, flag_value(kubelet.argv, "--cert-dir") or "/var/lib/kubelet/pki")
    return os.path.join(directory, "kubelet-server-current.pem" if config.get("serverTLSBootstrap") else "kubelet.crt")


def differing_keys(expected: Mapping[str, Any], effective: Mapping[str, Any]) -> list[str]:
    """The keys that do not have the expected values."""
    return sorted(key for key, value in expected.items() if effective.get(key) != value)


class KubeletKind(DropInKind):
    """The kubelet's drop-in; see DropInKind. While the kubelet does not read its directory, no restart is needed: the flag that makes
    the kubelet read it is a step of its own."""

    def empty_text(self, text: str) -> str:
        return _HEAD

    def take_effect(
        self, ctx: Context[ImagePullsRequest], target: str, text: str, seen: Any, *, rolls_back: bool
    ) -> None:
        running = find_kubelet(ctx.host, ctx.desired.layout)
        if running.pid is not None and find_config_dir(ctx.host, running) != os.path.dirname(target):
            return
        restart_kubelet(ctx)
        if not rolls_back:
            require_in_effect(ctx, target, drop_in_settings(text))
        ctx.progress.done("kubelet", "healthy")


def restart_kubelet(ctx: Context[ImagePullsRequest], *, config_dir: Optional[str] = None) -> None:
    """Restart the kubelet until it is healthy, and its Node Ready if it was Ready before. `config_dir` is the directory with which it
    must be started, "" for none, None for any. PeerError if it does not come up so."""
    service = ctx.desired.layout.kubelet_service
    old = find_kubelet(ctx.host, ctx.desired.layout)
    was_ready = _check_ready(ctx.host, ctx.desired.layout, old, since=0.0) == ""
    begun = ctx.host.now()
    pids: set[int] = set()

    def check() -> str:
        kubelet = find_kubelet(ctx.host, ctx.desired.layout)
        pids.update([] if kubelet.pid is None else [kubelet.pid])
        if len(pids) > _ENDS_MOST:
            raise PeerError(f"it ended {len(pids) - 1} times", id="pulls-node-kubelet-failed")
        reason = "it is not running" if kubelet.pid is None else check_health(ctx.host, kubelet)
        if not reason and config_dir not in (None, find_config_dir(ctx.host, kubelet)):
            reason = f"it runs without --config-dir={config_dir}" if config_dir else "it still runs with --config-dir"
        if not reason and was_ready:
            reason = _check_ready(ctx.host, ctx.desired.layout, kubelet, since=begun)
        return reason

    restart_until_healthy(ctx, "kubelet", service, check, failure="pulls-node-kubelet-failed")


def require_in_effect(ctx: Context[ImagePullsRequest], path: str, expected: Mapping[str, Any]) -> None:
    """Ignores values that cannot be read, which `verify` reports. The kubelet answers on its health port before it serves its API, so
    reading is retried."""
    if not expected or not ctx.desired.layout.kubeconfig:
        return
    kubelet = find_kubelet(ctx.host, ctx.desired.layout)

    def try_to_read() -> bool:
        try:
            require_kubelet_has(expected, read_in_effect(ctx.host, ctx.desired.layout, kubelet), path)
        except BallastError as error:
            if error.id == "pulls-node-not-in-effect":
                raise
            return error.id == "core-api-forbidden"
        return True

    wait_until(ctx.host, try_to_read, seconds=_READ_BACK_SECONDS, interval=0.5)


def require_kubelet_has(expected: Mapping[str, Any], effective: Mapping[str, Any], path: str) -> None:
    """`path` is the drop-in that sets `expected`. Raises for the first key that /configz shows with another value."""
    for key in differing_keys(expected, effective):
        shown = {"what": "the kubelet", "key": key, "wanted": json.dumps(expected[key]), "path": path}
        there = f"{key}: {json.dumps(effective.get(key))} in /configz"
        raise MESSAGES.error(
            "pulls-node-not-in-effect", found=there, where="the files after it in --config-dir", **shown
        )


def check_health(host: Host, kubelet: Kubelet) -> str:
    """Why the kubelet is not healthy; "" if /healthz answers 200, or if it has no health port."""
    url = _healthz_url(host, kubelet)
    if not url:
        return ""
    try:
        status = host.request(url, timeout=_SECONDS).status
    except PeerError:
        return "its health port does not respond"
    return "" if status == 200 else f"it returns {status} on /healthz"


def _healthz_url(host: Host, kubelet: Kubelet) -> str:
    config = _config(host, kubelet)
    configured = config.get("healthzPort")
    port = flag_value(kubelet.argv, "--healthz-port") or str(_HEALTHZ_PORT if configured is None else configured)
    address = flag_value(kubelet.argv, "--healthz-bind-address") or str(config.get("healthzBindAddress") or "127.0.0.1")
    address = _LOOPBACK.get(address, address)
    shown = f"[{address}]" if ":" in address else address
    return f"http://{shown}:{port}/healthz" if port.isdigit() and int(port) else ""


def _check_ready(host: Host, layout: NodeLayout, kubelet: Kubelet, *, since: float) -> str:
    """Why its Node has not been Ready since then, read with the kubelet's own credentials; "" if it has been Ready."""
    path = absolute_path(host, kubelet, flag_value(kubelet.argv, "--kubeconfig") or "")
    data = host.read(path) if path else None
    if data is None:
        return "it has no kubeconfig"
    try:
        own = parse_credentials(data.decode(errors="replace"), base_dir=os.path.dirname(path), name=path)
        node = Api(host, own, timeout=_SECONDS).get(f"/api/v1/nodes/{node_name(layout, kubelet)}")
    except BallastError as error:
        return f"its Node cannot be read: {error.text}"
    return check_ready(node, since=since)


def check_ready(node: Mapping[str, Any], *, since: float) -> str:
    """Why the Node has not reported Ready since then (Unix time); "" if it has. Times in the API are whole seconds."""
    for row in rows_in(node, "status", "conditions"):
        if row.get("type") == "Ready":
            if row.get("status") != "True":
                return f"condition Ready: {row.get('message')}"
            return (
                ""
                if unix_seconds(row.get("lastHeartbeatTime")) >= int(since)
                else "condition Ready is from before its start"
            )
    return "its Node has no condition Ready"


def _lines_with(text: str, flag: str) -> list[int]:
    name = flag.lstrip("-").replace("-", "[-_]")
    word = re.compile(rf"(?<![\w-])--?{name}(?![\w-])")
    return [
        number
        for number, line in enumerate(text.splitlines(), start=1)
        if word.search(line) and not line.lstrip().startswith(("#", ";"))
    ]
