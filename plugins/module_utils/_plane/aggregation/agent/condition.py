# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""APIServices as the API has them, and their condition Available. Pure.

Reasons and messages are those of kube-aggregator's own controller, which an API server without Services does not run.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ..api_services import service_host
from .probe import Question
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
class Registered:
    """An APIService that is served elsewhere."""

    name: str
    group: str
    version: str
    service: str
    namespace: str
    port: int
    bundle: str  # PEM, "" for none
    verified: bool
    condition: Optional[Condition]  # as it stands there
    whole: Object


def registered(item: Object) -> Optional[Registered]:
    """None for one that the API server serves itself. ValueError where it is no APIService."""
    metadata, spec = _mapping(item, "metadata"), _mapping(item, "spec")
    service = spec.get("service")
    if service is None:
        return None
    if not isinstance(service, Mapping):
        raise ValueError("spec.service is no object")
    return Registered(
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


def question(found: Registered, addresses: Addresses) -> Question | Condition:
    """What to ask of whom, or the condition where there is nothing to ask."""
    host = service_host(found.service, found.namespace)
    address = addresses.get((host, found.port))
    if address is None:
        message = (
            f'service/{found.service} in "{found.namespace}" with port {found.port} is not in the list of the agent'
        )
        return Condition("False", "ServiceNotFound", message)
    if not found.verified:
        message = f"insecureSkipTLSVerify: the serving certificate of {host} is to be verified, by caBundle"
        return failed(message)
    path = f"/apis/{found.group}/{found.version}"
    return Question(host=host, port=found.port, address=address, path=path, bundle=found.bundle)


def failed(message: str) -> Condition:
    return Condition("False", "FailedDiscoveryCheck", message)


def with_condition(found: Registered, condition: Condition, now: str) -> dict[str, Any]:
    """The object with this condition; `now` is RFC 3339. The transition's time stays where `status` does."""
    status = found.whole.get("status")
    rest = status if isinstance(status, Mapping) else {}
    rows = [row for row in _rows(rest) if row.get("type") != AVAILABLE]
    old = next((row for row in _rows(rest) if row.get("type") == AVAILABLE), {})
    since = old.get("lastTransitionTime") if old.get("status") == condition.status else None
    made = {
        "type": AVAILABLE,
        "status": condition.status,
        "lastTransitionTime": since or now,
        "reason": condition.reason,
        "message": condition.message,
    }
    return {**found.whole, "status": {**rest, "conditions": [*rows, made]}}


def _condition(item: Object) -> Optional[Condition]:
    status = item.get("status")
    for row in _rows(status if isinstance(status, Mapping) else {}):
        if row.get("type") == AVAILABLE:
            return Condition(*(str(row.get(key, "")) for key in ("status", "reason", "message")))
    return None


def _rows(status: Object) -> list[Object]:
    rows = status.get("conditions")
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []


def _mapping(item: Object, key: str) -> Object:
    found = item.get(key)
    if not isinstance(found, Mapping):
        raise ValueError(f"{key} is no object")
    return found


def _text(item: Object, key: str, form: re.Pattern[str]) -> str:
    found = item.get(key)
    if not isinstance(found, str) or not form.fullmatch(found):
        raise ValueError(f"{key} is no name")
    return found


def _port(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 65535:
        raise ValueError("spec.service.port is no port")
    return value


def _pem(value: Any) -> str:
    try:
        return base64.b64decode(value, validate=True).decode("ascii")
    except (TypeError, ValueError, binascii.Error):
        raise ValueError("spec.caBundle is no PEM in base64") from None
