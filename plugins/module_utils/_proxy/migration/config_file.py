# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""KubeProxyConfiguration as a file: read, merged, written in the form that it had."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from ..._core.document import format_document, parse_document
from ..config_keys import API_VERSION, KIND
from .messages import MESSAGES

_METRICS_PORT, _HEALTHZ_PORT = 10249, 10256
_ANY = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "[::]": "[::1]"}


def parse_config(text: str, *, path: str) -> dict[str, Any]:
    found = parse_document(text, name=path)
    if not isinstance(found, dict) or (found.get("apiVersion"), found.get("kind")) != (API_VERSION, KIND):
        raise MESSAGES.error("migrate-config-shape", path=path)
    return found


def merged(config: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON merge patch: RFC 7386. Null removes a key."""
    found = dict(config)
    for key, value in changes.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, Mapping):
            inner = found.get(key)
            found[key] = merged(inner if isinstance(inner, Mapping) else {}, value)
        else:
            found[key] = value
    return found


def changed_text(text: str, changes: Mapping[str, Any], *, path: str) -> str:
    """The same text where the changes change nothing: a file that a person wrote keeps its form and comments."""
    config = parse_config(text, path=path)
    wanted = merged(config, changes)
    return text if wanted == config else format_document(wanted, like=text)


def metrics_url(config: Mapping[str, Any]) -> str:
    return _url(config, "metricsBindAddress", _METRICS_PORT)


def healthz_url(config: Mapping[str, Any]) -> str:
    return _url(config, "healthzBindAddress", _HEALTHZ_PORT)


def _url(config: Mapping[str, Any], key: str, port: int) -> str:
    """Of an address that kube-proxy listens at: asked at loopback where it listens at all. One that is not said is of the
    family of bindAddress, one without a port has the usual one: kube-proxy's SetDefaults_KubeProxyConfiguration."""
    bind = str(config.get(key) or "")
    if not bind:
        bind = "::" if _is_ipv6(str(config.get("bindAddress") or "")) else "0.0.0.0"
    if _is_ipv6(bind):
        bind = f"[{bind}]:{port}"
    elif ":" not in bind:
        bind = f"{bind}:{port}"
    host, _colon, found = bind.rpartition(":")
    return f"http://{_ANY.get(host, host)}:{found}"


def _is_ipv6(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == 6
    except ValueError:
        return False
