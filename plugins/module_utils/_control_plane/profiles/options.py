# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parses the options profile, deployment_mode, etcd, encryption and audit. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional
from urllib.parse import urlsplit

from ..._core.text.errors import BallastError
from .options_messages import MESSAGES
from .profiles import EXISTING, FULL, Choice, default_deployment_mode, default_etcd

NONE = "none"
ENCRYPTION_PROVIDERS = ("secretbox", "aesgcm")
AUDIT_LEVELS = ("Metadata", "Request", "RequestResponse")  # audit.k8s.io/v1 also has None
POD_OPTIONS = ("nodes", "service_cidr", "pod_cidr")
ETCD_PATHS = ("etcd_ca", "etcd_certificate", "etcd_key")
_ETCD_OPTIONS = ("etcd_endpoints", *ETCD_PATHS, "etcd_prefix")
_RESOURCE = re.compile(r"[a-z][a-z0-9-]*(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_PREFIX = re.compile(r"(/[A-Za-z0-9._-]+)+", re.ASCII)
_URL_HOST = re.compile(r"[A-Za-z0-9.-]+|[0-9a-f:]+", re.ASCII)


@dataclass(frozen=True)
class ExistingEtcd:
    """An etcd that others manage. Paths are empty when not given."""

    endpoints: tuple[str, ...]  # URLs
    ca: str
    certificate: str
    key: str
    prefix: str  # "/ballast-lab"


@dataclass(frozen=True)
class Encryption:
    """Encryption at rest. What earlier runs encrypted must stay readable: `readers` are the providers that they used,
    `readable` the resources. The engine adds both from the existing file."""

    provider: str  # NONE or one of ENCRYPTION_PROVIDERS
    resources: tuple[str, ...]
    readers: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()


def parse_choice(params: Mapping[str, Any], *, aggregation: bool) -> Choice:
    """The options that decide what runs and is served, with the defaults of the profile."""
    profile = str(params["profile"] or FULL)
    deployment_mode = str(params["deployment_mode"] or default_deployment_mode(profile))
    lists = {
        f"{option}_{part}": _names(params[option], part)
        for option, parts in (
            ("resources", ("add", "remove")),
            ("controllers", ("add", "remove")),
            ("admission", ("enable", "disable")),
        )
        for part in parts
    }
    return Choice(
        profile=profile,
        version=str(params["kubernetes_version"] or "").lstrip("v"),
        deployment_mode=deployment_mode,
        crds=bool(params["crds"]),
        aggregation=aggregation,
        etcd=str(params["etcd"] or default_etcd(deployment_mode)),
        **lists,
    )


def _names(option: Optional[Mapping[str, Any]], part: str) -> tuple[str, ...]:
    return tuple(sorted(set((option or {}).get(part) or ())))


def parse_existing_etcd(params: Mapping[str, Any], choice: Choice, *, mark: str) -> Optional[ExistingEtcd]:
    """None unless `choice` has the data in an existing etcd. `mark` makes the default prefix of the keys."""
    if choice.etcd != EXISTING:
        return None
    return ExistingEtcd(
        endpoints=tuple(params["etcd_endpoints"] or ()),
        ca=str(params["etcd_ca"] or ""),
        certificate=str(params["etcd_certificate"] or ""),
        key=str(params["etcd_key"] or ""),
        # Not the API server's default, which another cluster may use.
        prefix=str(params["etcd_prefix"] or f"/{mark}"),
    )


def parse_encryption(params: Mapping[str, Any]) -> Encryption:
    return Encryption(
        provider=str(params["encryption"] or NONE), resources=tuple(sorted(set(params["encryption_resources"] or ())))
    )


def find_option_problems(params: Mapping[str, Any], choice: Choice) -> list[BallastError]:
    """Input errors of these options. `profiles.find_problems` checks profile, deployment mode and the lists."""
    problems = [] if choice.profile == FULL else _pod_problems(params, choice.profile)
    problems += _etcd_problems(params, choice)
    if params["encryption"] != NONE:
        problems += _encryption_problems(params["encryption_resources"])
    return problems


def _pod_problems(params: Mapping[str, Any], profile: str) -> list[BallastError]:
    return [MESSAGES.error("plane-no-pods", option=option, profile=profile) for option in POD_OPTIONS if params[option]]


def _etcd_problems(params: Mapping[str, Any], choice: Choice) -> list[BallastError]:
    if choice.etcd != EXISTING:
        return [
            MESSAGES.error("plane-etcd-option", option=option, etcd=choice.etcd)
            for option in _ETCD_OPTIONS
            if params[option]
        ]
    endpoints: Sequence[str] = params["etcd_endpoints"] or ()
    problems = [
        MESSAGES.error("plane-etcd-endpoint", option=f"etcd_endpoints[{number}]", value=url)
        for number, url in enumerate(endpoints)
        if not _is_endpoint(url)
    ]
    if not endpoints:
        problems.append(MESSAGES.error("plane-etcd-without-endpoints"))
    if any(url.startswith("https:") for url in endpoints) and not params["etcd_ca"]:
        problems.append(MESSAGES.error("plane-etcd-without-ca"))
    if bool(params["etcd_certificate"]) != bool(params["etcd_key"]):
        problems.append(MESSAGES.error("plane-etcd-half-a-client"))
    if params["etcd_prefix"] and not _PREFIX.fullmatch(params["etcd_prefix"]):
        problems.append(MESSAGES.error("plane-etcd-prefix", value=params["etcd_prefix"]))
    return problems


def _is_endpoint(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    plain = not (parts.path or parts.query or parts.fragment or parts.username or parts.password)
    known = parts.scheme in ("http", "https") and _URL_HOST.fullmatch(parts.hostname or "") is not None
    return plain and known and port is not None and "," not in url


def _encryption_problems(resources: Sequence[str]) -> list[BallastError]:
    if not resources:
        return [MESSAGES.error("plane-encryption-nothing")]
    return [
        MESSAGES.error("plane-encryption-resource", option=f"encryption_resources[{number}]", value=name)
        for number, name in enumerate(resources)
        if not _RESOURCE.fullmatch(name)
    ]
