# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The option `aggregation`: whether this API server forwards to extension API servers, and which are registered. Pure.

    aggregation: true | false
    aggregation:
      - name: v1.wardle.example.com      # VERSION.GROUP
        service: wardle                  # the API server speaks with wardle.default.svc, which its certificate is for
        namespace: default
        address: 127.0.0.1:8443          # where that really listens
        ca: /etc/wardle/ca.crt           # PEM of the authority that signed its serving certificate

The limits are those that kube-aggregator puts on an APIService (k8s.io/kube-aggregator, apiregistration/validation).
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Any, Optional

from ..._agent.settings import metrics_address
from ..._core.text.decode import Faults, Parser, Parsers, Reader, Required, Words, Wrong, matching, show, whole
from ..._core.text.errors import BallastError
from .messages import MESSAGES

OFF, ON, LISTED = "off", "on", "list"
AGENT_USER = "ballast:aggregation"  # user name of the agent, in its client certificate

_OPTION = "aggregation"
_WORDS = Words(
    MESSAGES, "plane-api-service-value", key="plane-api-service-setting", missing="plane-api-service-missing"
)
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_SERVICE = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)  # DNS-1035, as of every Service
_NAMESPACE = re.compile(_LABEL, re.ASCII)
_NAME = re.compile(rf"[a-z]([-a-z0-9]{{0,61}}[a-z0-9])?\.(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*", re.ASCII)
_PATH = re.compile(r"/[-A-Za-z0-9._/]*", re.ASCII)
_DIGITS = re.compile(r"[0-9]{1,6}", re.ASCII)
_ADDRESS = re.compile(r"(?:\[(?P<ip6>[0-9a-fA-F:.]+)\]|(?P<ip4>[0-9.]+)):(?P<port>[0-9]{1,5})", re.ASCII)
# Groups that an API server of Kubernetes 1.34 to 1.37 serves itself. Of the others in k8s.io some are those of well-known
# extension API servers, such as metrics.k8s.io.
NATIVE_GROUPS = frozenset(
    [
        *("apps", "autoscaling", "batch", "extensions", "policy"),
        *("flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io", "rbac.authorization.k8s.io"),
        *(
            f"{name}.k8s.io"
            for name in (
                *("admissionregistration", "apiextensions", "apiregistration", "authentication", "authorization"),
                *("certificates", "coordination", "discovery", "events", "lifecycle", "networking", "node", "resource"),
                *("scheduling", "storage", "storagemigration"),
            )
        ),
    ]
)


@dataclass(frozen=True)
class ApiService:
    """An APIService, and where its extension API server listens."""

    name: str  # "v1.wardle.example.com"
    service: str
    namespace: str
    address: str  # "127.0.0.1:8443", "[::1]:8443"
    ca: str  # path
    port: int = 443
    group_priority_minimum: int = 1000
    version_priority: int = 15

    @property
    def version(self) -> str:
        return self.name.partition(".")[0]

    @property
    def group(self) -> str:
        return self.name.partition(".")[2]

    @property
    def host(self) -> str:
        """The host name that the API server dials and expects in the serving certificate."""
        return service_host(self.service, self.namespace)


@dataclass(frozen=True)
class Aggregation:
    """`mode` is OFF, ON or LISTED. Only LISTED has `api_services`, sorted by name, and an agent. `metrics` is the ADDRESS:PORT of
    the agent's Prometheus metrics, "" for none."""

    mode: str
    api_services: tuple[ApiService, ...] = ()
    metrics: str = ""


def service_host(service: str, namespace: str) -> str:
    """The name of a Service within its cluster, "wardle.default.svc"."""
    return f"{service}.{namespace}.svc"


def parse_aggregation(value: Any, *, profile: str, metrics: str = "") -> tuple[Aggregation, list[BallastError]]:
    """The options `aggregation` and `aggregation_metrics`, and their input errors. With errors, the value is unusable.

    A boolean may be a word, as Ansible templates make it. An empty list registers nothing.
    """
    mode = ON if value == [] else _switch(value)
    if mode is not None:
        return Aggregation(mode), [MESSAGES.error("plane-aggregation-metrics-unused")] if metrics else []
    if not isinstance(value, list):
        return Aggregation(ON), [MESSAGES.error("plane-aggregation-option", value=show(value))]
    problems = [MESSAGES.error("plane-aggregation-full")] if profile == "full" else []
    problems += _metrics_problems(metrics)
    faults = Faults(_WORDS, problems=problems)
    rows = [Reader(row, faults, f"{_OPTION}[{number}]", expected=_MAPPING) for number, row in enumerate(value)]
    services = [(row.path, _api_service(row)) for row in rows]
    _find_duplicates(services, problems)
    api_services = tuple(sorted((each for _path, each in services), key=lambda each: each.name))
    return Aggregation(LISTED, api_services, metrics), problems


def split_address(address: str) -> tuple[str, int]:
    """IP address, without brackets, and port. ValueError for any other text."""
    match = _ADDRESS.fullmatch(address)
    if match is None or not 1 <= int(match["port"]) <= 65535:
        raise ValueError(address)
    if match["ip4"]:
        return str(ipaddress.IPv4Address(match["ip4"])), int(match["port"])
    return str(ipaddress.IPv6Address(match["ip6"])), int(match["port"])


def _metrics_problems(metrics: str) -> list[BallastError]:
    try:
        if metrics:
            metrics_address(metrics)
    except Wrong:
        return [MESSAGES.error("plane-aggregation-metrics", path="aggregation_metrics", value=show(metrics))]
    return []


def _switch(value: Any) -> Optional[str]:
    if isinstance(value, str):
        return {"true": ON, "yes": ON, "on": ON, "false": OFF, "no": OFF, "off": OFF}.get(value.strip().lower())
    return (ON if value else OFF) if isinstance(value, bool) else None


def _path(value: Any) -> str:
    path = _PLAIN_PATH(value)
    if ".." in path.split("/"):
        raise Wrong(_PATH_WANTED)
    return path


def _address(value: Any) -> str:
    try:
        host, port = split_address(value if isinstance(value, str) else "")
    except ValueError:
        raise Wrong(_ADDRESS_WANTED) from None
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _number(most: int, what: str = "a number") -> Parser[int]:
    parse = whole(1, most, expected=f"{what} from 1 to {most}")

    def take(value: Any) -> int:
        """Templates give numbers as text."""
        return parse(int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else value)

    return take


def _require_form(form: re.Pattern[str], description: str) -> Required:
    return Required(matching(form, description), description)


_ADDRESS_WANTED = "an IP address with a port, such as 127.0.0.1:8443 or [::1]:8443"
_PATH_WANTED = "the absolute path of a PEM file, of letters, digits and the characters . _ - /"
_PLAIN_PATH = matching(_PATH, _PATH_WANTED)
_KEYS: Parsers = {
    "name": _require_form(_NAME, "VERSION.GROUP in lower case, such as v1.wardle.example.com"),
    "service": _require_form(_SERVICE, "the name of a Service"),
    "namespace": _require_form(_NAMESPACE, "the name of a namespace"),
    "port": _number(65535, "a port"),
    "address": Required(_address, _ADDRESS_WANTED),
    "ca": Required(_path, _PATH_WANTED),
    "group_priority_minimum": _number(20000),
    "version_priority": _number(1000),
}
_MAPPING = f"a mapping with {', '.join(key for key, parse in _KEYS.items() if isinstance(parse, Required))}"


def _api_service(row: Reader) -> ApiService:
    row.refuse_unknown(_KEYS)
    service = row.fill(ApiService, _KEYS)
    if service.group in NATIVE_GROUPS:
        row.faults.add("plane-api-service-native", row.at("name"), value=service.name, group=service.group)
    return service


def _find_duplicates(services: list[tuple[str, ApiService]], problems: list[BallastError]) -> None:
    """Report names with several entries, and services with several addresses."""
    names: set[str] = set()
    addresses: dict[tuple[str, int], tuple[str, str]] = {}
    for path, each in services:
        if each.name in names:
            problems.append(MESSAGES.error("plane-api-service-twice", path=f"{path}.name", value=each.name))
        names.add(each.name)
        if not (each.service and each.namespace and each.address):
            continue  # reported already
        other, other_path = addresses.setdefault((each.host, each.port), (each.address, path))
        if other != each.address:
            service = f"{each.host}:{each.port}"
            problems.append(
                MESSAGES.error(
                    "plane-api-service-two-addresses",
                    path=f"{path}.address",
                    service=service,
                    value=each.address,
                    other=other,
                    other_path=f"{other_path}.address",
                )
            )
