# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The request for the service proxy as a DaemonSet. Pure, except that it checks whether the kubeconfig exists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional
from urllib.parse import urlsplit

from ..._agent.installation import as_text, without_unset
from ..._core.engine.events import PROGRESS_LOG
from ..._core.kube import connection
from ..._core.text.decode import show
from ..._core.text.errors import BallastError, Problems, UserError
from ..._rules.config_keys import API_VERSION, KIND
from ..configuration import Configuration, parse_configuration
from ..configuration_messages import MESSAGES as CONFIGURATION_MESSAGES
from ..deployment.request import is_label_value
from .messages import MESSAGES

PRESENT, ABSENT = "present", "absent"
SPEC: dict[str, Any] = {
    "state": {"type": "str", "default": PRESENT, "choices": [PRESENT, ABSENT]},
    **connection.SPEC,
    "server": {"type": "str"},
    "image": {"type": "str", "default": "ballast.local/service-proxy:1"},
    "config": {"type": "dict", "default": {}},
    "service_proxy_name": {"type": "str", "default": ""},
    "node_selector": {"type": "dict", "default": {}},
    **PROGRESS_LOG,
}
REQUIRED_IF = [("state", PRESENT, ("server",))]
# Settings that cannot be the same on all nodes, with the reason.
_NOT_FOR_ALL = {
    ("clientConnection", "kubeconfig"): "pods use their ServiceAccount",
    ("hostnameOverride",): "each pod has the name of its node",
}
_HTTPS_PORT = 443


@dataclass(frozen=True)
class DaemonSetRequest:
    state: str
    kubeconfig: str  # "" as in connection.py
    context: str
    image: str
    host: str = ""  # of the API server
    port: int = _HTTPS_PORT
    text: str = ""  # content of the configuration file
    healthz: tuple[str, int] = ("", 0)
    service_proxy_name: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[BallastError, ...] = ()

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> DaemonSetRequest:
        """Raises all errors of the options together."""
        problems: list[BallastError] = []
        if connection.is_missing(params["kubeconfig"]):
            problems.append(MESSAGES.error("service-proxy-daemonset-kubeconfig", path=params["kubeconfig"]))
        request = cls(params["state"], params["kubeconfig"] or "", params["context"] or "", params["image"])
        if params["state"] == ABSENT:
            Problems.raise_if(problems)
            return request
        host, port = _server(params["server"], problems)
        if not _is_image(params["image"]):
            problems.append(MESSAGES.error("service-proxy-daemonset-image", value=show(params["image"])))
        if not is_label_value(params["service_proxy_name"]):
            value = show(params["service_proxy_name"])
            problems.append(CONFIGURATION_MESSAGES.error("service-proxy-name", value=value))
        config = without_unset(params["config"])
        problems += _find_misplaced(config)
        text = as_text({"apiVersion": API_VERSION, "kind": KIND, **config})
        configuration = _configuration(text, problems)
        Problems.raise_if(problems)
        return cls(
            request.state,
            request.kubeconfig,
            request.context,
            request.image,
            host,
            port,
            text,
            configuration.healthz if configuration is not None else ("", 0),
            params["service_proxy_name"],
            {str(key): str(value) for key, value in params["node_selector"].items()},
            configuration.warnings if configuration is not None else (),
        )


def _server(text: str, problems: list[BallastError]) -> tuple[str, int]:
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port or _HTTPS_PORT
        is_plain = text.isascii() and text.isprintable() and " " not in text
        if is_plain and parts.scheme == "https" and host and parts.path in ("", "/") and not parts.query:
            return host, port
    except ValueError:
        pass
    problems.append(MESSAGES.error("service-proxy-daemonset-server", value=show(text)))
    return "", _HTTPS_PORT


def _is_image(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def _find_misplaced(config: Mapping[str, Any]) -> Iterator[BallastError]:
    for keys, reason in _NOT_FOR_ALL.items():
        value: Any = config
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        if value:
            yield MESSAGES.error("service-proxy-daemonset-config", path=".".join(keys), reason=reason)


def _configuration(text: str, problems: list[BallastError]) -> Optional[Configuration]:
    try:
        return parse_configuration(text, name="config")
    except UserError as error:
        problems += Problems.of(error)
    return None
