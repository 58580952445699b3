# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""KubeProxyConfiguration as a file: read, merge, and write in its original form (JSON or YAML)."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from .._core.text.document import format_document, parse_document
from .._rules.config_keys import API_VERSION, KIND
from .messages import MESSAGES

_METRICS_PORT, _HEALTHZ_PORT = 10249, 10256
_ANY = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "[::]": "[::1]"}


def parse_config(text: str, *, path: str) -> dict[str, Any]:
    """Parse YAML or JSON. `migrate-config-shape` if it is no KubeProxyConfiguration; `path` is how messages name it."""
    config = parse_document(text, name=path)
    if not isinstance(config, dict) or (config.get("apiVersion"), config.get("kind")) != (API_VERSION, KIND):
        raise MESSAGES.error("migrate-config-shape", path=path)
    return config


def merge(config: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Apply a JSON merge patch (RFC 7386): null removes a key."""
    result = dict(config)
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            inner = result.get(key)
            result[key] = merge(inner if isinstance(inner, Mapping) else {}, value)
        else:
            result[key] = value
    return result


def changed_text(text: str, changes: Mapping[str, Any], *, path: str) -> str:
    """The text with `changes` merged; the very same text if they change nothing, so that a file keeps its form and
    comments."""
    config = parse_config(text, path=path)
    changed = merge(config, changes)
    return text if changed == config else format_document(changed, like=text)


def metrics_url(config: Mapping[str, Any]) -> str:
    """Where this node reaches kube-proxy's metrics, without a path: "http://127.0.0.1:10249"."""
    return _url(config, "metricsBindAddress", _METRICS_PORT)


def healthz_url(config: Mapping[str, Any]) -> str:
    """Where this node reaches kube-proxy's health, without a path: "http://127.0.0.1:10256"."""
    return _url(config, "healthzBindAddress", _HEALTHZ_PORT)


def _url(config: Mapping[str, Any], key: str, port: int) -> str:
    """The URL of an address that kube-proxy listens on, with loopback for "all addresses". Defaults as in kube-proxy's
    SetDefaults_KubeProxyConfiguration: the family of bindAddress, the usual port."""
    bind = str(config.get(key) or "")
    if not bind:
        bind = "::" if _is_ipv6(str(config.get("bindAddress") or "")) else "0.0.0.0"
    if _is_ipv6(bind):
        bind = f"[{bind}]:{port}"
    elif ":" not in bind:
        bind = f"{bind}:{port}"
    host, _colon, bound_port = bind.rpartition(":")
    return f"http://{_ANY.get(host, host)}:{bound_port}"


def _is_ipv6(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == 6
    except ValueError:
        return False
