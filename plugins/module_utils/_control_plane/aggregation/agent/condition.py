# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""APIServices of the API, and their condition Available. Pure.

Reasons and messages are those of kube-aggregator's own controller, which an API server without Services does not run.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ...._core.text.json_text import mapping_in, rows_in
from ..api_services import service_host
from .probe import DiscoveryRequest
from .proxy import Addresses

Object = Mapping[str, Any]
PATH = "/apis/apiregistration.k8s.io/v1/apiservices"
AVAILABLE = "Available"
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?", re.ASCII)


@dataclass(frozen=True)
class Condition:
    status: str  # "True", "False"
    reason: str
    message: str


PASSED = Condition("True", "Passed", "all checks passed")


@dataclass(frozen=True)
class RegisteredService:
    """An APIService that another server serves."""

    name: str
    group: str
    version: str
    service: str
    namespace: str
    port: int
    bundle: str  # PEM, "" for none
    verified: bool
    condition: Optional[Condition]  # in the API
    whole: Object


def parse_api_service(item: Object) -> Optional[RegisteredService]:
    """The APIService; None if the API server serves it itself. ValueError for any other object."""
    metadata, spec = _mapping(item, "metadata"), _mapping(item, "spec")
    service = spec.get("service")
    if service is None:
        return None
    if not isinstance(service, Mapping):
        raise ValueError("spec.service is no object")
    return RegisteredService(
        name=_text(metadata, "name", _SUBDOMAIN),
        group=_text(spec, "group", _SUBDOMAIN),
        version=_text(spec, "version", _LABEL),
        service=_text(service, "name", _LABEL),
        namespace=_text(service, "namespace", _LABEL),
        port=_port(service.get("port", 443)),
        bundle=_pem(spec.get("caBundle") or ""),
        verified=not spec.get("insecureSkipTLSVerify", False),
        condition=_condition(item),
        whole=item,
    )


def discovery_request(service: RegisteredService, addresses: Optional[Addresses]) -> DiscoveryRequest | Condition:
    """The request to the extension API server, or the condition when none can be made. `addresses` are those of the list, None
    where the API server dials names."""
    host, path = service_host(service.service, service.namespace), f"/apis/{service.group}/{service.version}"
    if addresses is None:
        return DiscoveryRequest(host, service.port, "", path, service.bundle, verified=service.verified)
    address = addresses.get((host, service.port))
    if address is None:
        return _not_found(service, f"with port {service.port} is not in the list of the agent")
    if not service.verified:
        message = f"insecureSkipTLSVerify: the serving certificate of {host} is to be verified, by caBundle"
        return failed_discovery(message)
    return DiscoveryRequest(host=host, port=service.port, address=address, path=path, bundle=service.bundle)


def unknown_host(service: RegisteredService) -> Condition:
    """The condition when the host name does not resolve. No Services are served here, so only a name with an address counts
    as present."""
    return _not_found(service, "is not present")


def _not_found(service: RegisteredService, text: str) -> Condition:
    return Condition("False", "ServiceNotFound", f'service/{service.service} in "{service.namespace}" {text}')


def failed_discovery(message: str) -> Condition:
    return Condition("False", "FailedDiscoveryCheck", message)


def with_condition(service: RegisteredService, condition: Condition, now: str) -> dict[str, Any]:
    """The object with this condition; `now` is RFC 3339. Without a change of `status`, its transition time is kept."""
    rest = mapping_in(service.whole, "status")
    rows = [row for row in _rows(service.whole) if row.get("type") != AVAILABLE]
    old = next((row for row in _rows(service.whole) if row.get("type") == AVAILABLE), {})
    since = old.get("lastTransitionTime") if old.get("status") == condition.status else None
    made = {
        "type": AVAILABLE,
        "status": condition.status,
        "lastTransitionTime": since or now,
        "reason": condition.reason,
        "message": condition.message,
    }
    return {**service.whole, "status": {**rest, "conditions": [*rows, made]}}


def _condition(item: Object) -> Optional[Condition]:
    for row in _rows(item):
        if row.get("type") == AVAILABLE:
            return Condition(*(str(row.get(key, "")) for key in ("status", "reason", "message")))
    return None


def _rows(item: Object) -> list[Object]:
    return rows_in(item, "status", "conditions")


def _mapping(item: Object, key: str) -> Object:
    value = item.get(key)
    if not isinstance(value, Mapping):
        raise ValueError(f"{key} is no object")
    return value


def _text(item: Object, key: str, form: re.Pattern[str]) -> str:
    value = item.get(key)
    if not isinstance(value, str) or not form.fullmatch(value):
        raise ValueError(f"{key} is no name")
    return value


def _port(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 65535:
        raise ValueError("spec.service.port is no port")
    return value


def _pem(value: Any) -> str:
    try:
        return base64.b64decode(value, validate=True).decode("ascii")
    except (TypeError, ValueError, binascii.Error):
        raise ValueError("spec.caBundle is no PEM in base64") from None
