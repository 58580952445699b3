# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The option `aggregation`: whether extension API servers may be asked through this one, and which are registered. Pure.

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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ..._core.agent.reading import Wrong, metrics_address, shown
from ..._core.errors import BallastError
from .messages import MESSAGES

OFF, ON, LISTED = "off", "on", "list"
AGENT_USER = "ballast:aggregation"  # of the agent, in its client certificate

_OPTION = "aggregation"
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_SERVICE = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)  # DNS-1035, as of every Service
_NAMESPACE = re.compile(_LABEL, re.ASCII)
_NAME = re.compile(rf"[a-z]([-a-z0-9]{{0,61}}[a-z0-9])?\.(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*", re.ASCII)
_PATH = re.compile(r"/[-A-Za-z0-9._/]*", re.ASCII)
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
        """That the API server asks for, and expects in the serving certificate."""
        return service_host(self.service, self.namespace)


@dataclass(frozen=True)
class Aggregation:
    """`mode` is OFF, ON or LISTED; only the last has `api_services`, in the order of their names, and an agent, of which
    `metrics` is where it listens for Prometheus, ADDRESS:PORT, "" for not at all."""

    mode: str
    api_services: tuple[ApiService, ...] = ()
    metrics: str = ""


def service_host(service: str, namespace: str) -> str:
    return f"{service}.{namespace}.svc"


def parse_aggregation(value: Any, *, profile: str, metrics: str = "") -> tuple[Aggregation, list[BallastError]]:
    """What the option says, and `aggregation_metrics` with it, and everything that is wrong; with problems the first is of no
    use.

    A boolean may come as a word, which Ansible makes of it in a template. An empty list registers nothing.
    """
    mode = ON if value == [] else _switch(value)
    if mode is not None:
        return Aggregation(mode), [MESSAGES.error("plane-aggregation-metrics-unused")] if metrics else []
    if not isinstance(value, list):
        return Aggregation(ON), [MESSAGES.error("plane-aggregation-option", value=shown(value))]
    problems = [MESSAGES.error("plane-aggregation-full")] if profile == "full" else []
    problems += _metrics_problems(metrics)
    entries = [_Entry(f"{_OPTION}[{number}]", row, problems) for number, row in enumerate(value)]
    found = [(entry.path, entry.api_service()) for entry in entries]
    _compare(found, problems)
    api_services = tuple(sorted((each for _path, each in found), key=lambda each: each.name))
    return Aggregation(LISTED, api_services, metrics), problems


def split_address(address: str) -> tuple[str, int]:
    """IP address, without brackets, and port. ValueError where it is none."""
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
        return [MESSAGES.error("plane-aggregation-metrics", path="aggregation_metrics", value=shown(metrics))]
    return []


def _switch(value: Any) -> Optional[str]:
    if isinstance(value, str):
        return {"true": ON, "yes": ON, "on": ON, "false": OFF, "no": OFF, "off": OFF}.get(value.strip().lower())
    return (ON if value else OFF) if isinstance(value, bool) else None


# Of each setting: what takes it, and what that is called; the default is that of ApiService.
_Take = Callable[[Any], Any]


def _matching(form: re.Pattern[str]) -> _Take:
    def take(value: Any) -> str:
        if not isinstance(value, str) or not form.fullmatch(value):
            raise ValueError
        return value

    return take


def _path(value: Any) -> str:
    found: str = _matching(_PATH)(value)
    if ".." in found.split("/"):
        raise ValueError
    return found


def _address(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    host, port = split_address(value)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _number(most: int) -> _Take:
    def take(value: Any) -> int:
        if isinstance(value, str) and re.fullmatch(r"[0-9]{1,6}", value, re.ASCII):
            value = int(value)  # of a template
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise ValueError
        return value

    return take


_SETTINGS: Mapping[str, tuple[_Take, str]] = {
    "name": (_matching(_NAME), "VERSION.GROUP in lower case, such as v1.wardle.example.com"),
    "service": (_matching(_SERVICE), "the name of a Service"),
    "namespace": (_matching(_NAMESPACE), "the name of a namespace"),
    "port": (_number(65535), "a port from 1 to 65535"),
    "address": (_address, "an IP address with a port, such as 127.0.0.1:8443 or [::1]:8443"),
    "ca": (_path, "the absolute path of a PEM file, of letters, digits and the characters . _ - /"),
    "group_priority_minimum": (_number(20000), "a number from 1 to 20000"),
    "version_priority": (_number(1000), "a number from 1 to 1000"),
}
_REQUIRED = ("name", "service", "namespace", "address", "ca")


class _Entry:
    def __init__(self, path: str, row: Any, problems: list[BallastError]) -> None:
        self.path = path
        self._problems = problems
        self._row: Mapping[Any, Any] = row if isinstance(row, Mapping) else {}
        if not isinstance(row, Mapping):
            self._add("value", "", value=shown(row), wanted=f"a mapping with {', '.join(_REQUIRED)}")
            self._row = dict.fromkeys(_REQUIRED, "")  # told as one problem
            self._problems = []

    def api_service(self) -> ApiService:
        allowed = ", ".join(_SETTINGS)
        for key in self._row:
            if key not in _SETTINGS:
                self._add("setting", "", setting=shown(key), allowed=allowed)
        found = {key: self._taken(key, take, wanted) for key, (take, wanted) in _SETTINGS.items()}
        required: dict[str, Any] = {key: found.pop(key) or "" for key in _REQUIRED}
        made = ApiService(**required, **{key: value for key, value in found.items() if value is not None})
        if made.group in NATIVE_GROUPS:
            self._add("native", "name", value=made.name, group=made.group)
        return made

    def _taken(self, key: str, take: _Take, wanted: str) -> Any:
        value = self._row.get(key)
        if value is None:
            if key in _REQUIRED:
                self._add("missing", key, wanted=wanted)
            return None
        try:
            return take(value)
        except ValueError:
            self._add("value", key, value=shown(value), wanted=wanted)
            return None

    def _add(self, id: str, key: str, **fields: Any) -> None:
        path = f"{self.path}.{key}" if key else self.path
        self._problems.append(MESSAGES.error(f"plane-api-service-{id}", path=path, **fields))


def _compare(found: list[tuple[str, ApiService]], problems: list[BallastError]) -> None:
    """One name has one entry, one service one address."""
    names: set[str] = set()
    addresses: dict[tuple[str, int], tuple[str, str]] = {}
    for path, each in found:
        if each.name in names:
            problems.append(MESSAGES.error("plane-api-service-twice", path=f"{path}.name", value=each.name))
        names.add(each.name)
        if not (each.service and each.namespace and each.address):
            continue  # told already
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
