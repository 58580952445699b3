# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The agent's settings: one YAML or JSON file, read strictly. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Optional

from ...._agent.settings import metrics_address, parse_file, pause, refuse_twice, sections
from ...._core.text.decode import Parsers, Reader, Required, Wrong, absolute_path, matching, whole
from ..api_services import split_address
from ..messages import AGENT

RESTART_KEYS = ("socket", "metrics")  # settings that a reload cannot change
_HOST = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\.svc", re.ASCII)


@dataclass(frozen=True)
class Service:
    """`host` and `port` are what the API server dials, `address` is where that listens."""

    host: str  # "wardle.default.svc"
    port: int
    address: str  # "127.0.0.1:8443"


@dataclass(frozen=True)
class Settings:
    """`certificate` and `key` are the API server's client certificate for extension API servers. The API server dials through
    `socket`; if it is empty, it dials SERVICE.NAMESPACE.svc itself, and no `services` are listed. `metrics` is address and port,
    None for no listener. `interval` is the time in seconds between two probes of a healthy extension API server."""

    kubeconfig: str
    certificate: str
    key: str
    socket: str = ""
    services: tuple[Service, ...] = ()
    interval: float = 5.0
    metrics: Optional[tuple[str, int]] = None


def parse_settings(text: str, *, name: str) -> Settings:
    """`text` is the file, `name` its path, for messages.

    UserError where the file is no mapping in YAML or JSON or has one fault, Problems where it has several.
    """
    return parse_file(AGENT, text, name=name, settings=Settings, read=_settings)


def _settings(reader: Reader) -> Settings:
    needed = reader.has("socket") or reader.has("services")
    rows = sections(reader, "services", Service, expected=_SERVICES) if needed else []
    listed = [row.fill(Service, _SERVICE) for row in rows]
    refuse_twice(
        [(row, "host", (each.host, each.port)) for row, each in zip(rows, listed) if each.host and each.port],
        "service-twice",
    )
    services = tuple(sorted(listed, key=lambda each: (each.host, each.port or 0)))
    return reader.fill(Settings, _SETTINGS, services=services)


def _address(value: Any) -> str:
    try:
        if isinstance(value, str):
            split_address(value)
            return value
    except ValueError:
        pass
    raise Wrong("an IP address with a port, such as 127.0.0.1:8443 or [::1]:8443")


_SERVICES = "a list of mappings of host, port and address"
_SERVICE: Parsers = {
    "host": Required(matching(_HOST, "SERVICE.NAMESPACE.svc"), "SERVICE.NAMESPACE.svc"),
    "port": Required(whole(1, 65535, expected="a port from 1 to 65535"), "a port"),
    "address": Required(_address, "an IP address with a port"),
}
_SETTINGS: Parsers = {
    "kubeconfig": Required(absolute_path, "the path of a kubeconfig on this machine"),
    "socket": absolute_path,
    "certificate": Required(absolute_path, "the path of the API server's proxy client certificate"),
    "key": Required(absolute_path, "the path of the key of that certificate"),
    "interval": pause,
    "metrics": metrics_address,
}
