# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The agent's settings: one YAML or JSON file, read strictly. Pure."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Optional

from ...._core.agent.reading import Reader, Wrong, duration, matching, metrics_address, parse_file
from ..api_services import split_address
from ..messages import AGENT

_LEAST_SECONDS = 1.0
_HOST = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\.svc", re.ASCII)


@dataclass(frozen=True)
class Service:
    """`host` and `port` are what the API server asks for, `address` is where that listens."""

    host: str  # "wardle.default.svc"
    port: int
    address: str  # "127.0.0.1:8443"


@dataclass(frozen=True)
class Settings:
    """`certificate` and `key` are what extension API servers know the API server by. `metrics` is address and port, None
    for no listener. `interval`, in seconds, is that between two looks at an extension API server that is well."""

    kubeconfig: str
    socket: str
    certificate: str
    key: str
    services: tuple[Service, ...] = ()
    interval: float = 5.0
    metrics: Optional[tuple[str, int]] = None


_DEFAULTS = Settings(kubeconfig="", socket="", certificate="", key="")


def parse_settings(text: str, *, name: str) -> Settings:
    """`text` is the file, `name` its path, for messages.

    UserError where the file is no mapping in YAML or JSON or has one fault, Problems where it has several.
    """
    return parse_file(AGENT, text, name=name, defaults=_DEFAULTS, read=_settings)


def _settings(reader: Reader) -> Settings:
    return Settings(
        kubeconfig=reader.require("kubeconfig", _path, wanted="the path of a kubeconfig on this machine"),
        socket=reader.require("socket", _path, wanted="the path of the socket that the API server dials through"),
        certificate=reader.require(
            "certificate", _path, wanted="the path of the API server's proxy client certificate"
        ),
        key=reader.require("key", _path, wanted="the path of the key of that certificate"),
        services=_services(reader),
        interval=reader.read("interval", _seconds),
        metrics=reader.read("metrics", metrics_address),
    )


def _services(reader: Reader) -> tuple[Service, ...]:
    rows = reader.rows("services", Service("", 0, ""), wanted="a list of mappings of host, port and address")
    found = [
        Service(
            host=row.require("host", _host, wanted="SERVICE.NAMESPACE.svc"),
            port=row.require("port", _port, wanted="a port"),
            address=row.require("address", _address, wanted="an IP address with a port"),
        )
        for row in rows
    ]
    first: dict[tuple[str, int], Reader] = {}
    for row, each in zip(rows, found):
        if each.host and each.port and first.setdefault((each.host, each.port), row) is not row:
            row.wrong("host", "service-twice", other=first[each.host, each.port].at("host"))
    return tuple(sorted(found, key=lambda each: (each.host, each.port)))


def _path(value: Any) -> str:
    if not isinstance(value, str) or not os.path.isabs(value) or not value.isprintable():
        raise Wrong("value", wanted="an absolute path")
    return value


def _host(value: Any) -> str:
    return matching(_HOST, value, "SERVICE.NAMESPACE.svc")


def _port(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 65535:
        raise Wrong("value", wanted="a port from 1 to 65535")
    return value


def _address(value: Any) -> str:
    wanted = "an IP address with a port, such as 127.0.0.1:8443 or [::1]:8443"
    if not isinstance(value, str):
        raise Wrong("value", wanted=wanted)
    try:
        split_address(value)
    except ValueError:
        raise Wrong("value", wanted=wanted) from None
    return value


def _seconds(value: Any) -> float:
    seconds = duration(value)
    if seconds < _LEAST_SECONDS:
        raise Wrong("value", wanted="a duration of 1s or more")
    return seconds
