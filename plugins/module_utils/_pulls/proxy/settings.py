# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pull proxy's settings: a YAML file, parsed strictly. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from ..._agent.settings import duration, metrics_address, parse_file, section, sections
from ..._core.text.decode import Parsers, Reader, Required, Wrong, boolean, choice, matching, whole
from .messages import AGENT

RESTART_KEYS = ("listeners", "metrics")  # settings that a reload cannot change
# The value of system-node-critical, the highest that a pod can have: k8s.io/kubernetes/pkg/apis/scheduling.
_HIGHEST_POD_PRIORITY = 2000001000
_SOCKET_PATH_MOST = 107  # bytes: sun_path of sockaddr_un less its closing NUL, unix(7)

_URL = "unix://"
# Characters of a path in a URI (RFC 3986, pchar) without the percent sign: gRPC reads `unix:PATH` as a URI.
_PATH = re.compile(r"(/[A-Za-z0-9._~!$&'()*+,;=:@-]+)+", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)  # a DNS label
# A qualified name: k8s.io/apimachinery/pkg/util/validation, IsQualifiedName.
_ANNOTATION = re.compile(r"([a-z0-9][a-z0-9.-]{0,252}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)


@dataclass(frozen=True)
class Listener:
    """`socket` and `runtime` are absolute paths. `name` defaults to the socket's path."""

    socket: str
    runtime: str
    name: str


@dataclass(frozen=True)
class Retry:
    """For `on_full: retry`: `attempts` after the first one, `interval` seconds apart."""

    attempts: int = 3
    interval: float = 10.0


@dataclass(frozen=True)
class Priority:
    """For `order: priority`. `annotation` is the key of a pod annotation, "" for none; `ageing` is in seconds."""

    annotation: str = ""
    namespaces: Mapping[str, int] = field(default_factory=lambda: {"kube-system": _HIGHEST_POD_PRIORITY})
    ageing: float = 60.0


@dataclass(frozen=True)
class Settings:
    """`max_in_flight` 0 is no limit; `metrics` is address and port, None for no listener; `drain` is in seconds."""

    listeners: tuple[Listener, ...]
    max_in_flight: int
    on_full: str = "block"  # or "retry"
    retry: Retry = field(default_factory=Retry)
    join: bool = True
    present: str = "pass"  # or "succeed"
    order: str = "fifo"  # or "priority"
    priority: Priority = field(default_factory=Priority)
    metrics: Optional[tuple[str, int]] = None
    drain: float = 30.0


def parse_settings(text: str, *, name: str) -> Settings:
    """`text` is the file, `name` its path, for messages.

    UserError if the file is not a mapping in YAML or JSON, or has an error; Problems if it has several.
    """
    return parse_file(AGENT, text, name=name, settings=Settings, read=_settings)


def needs_restart(old: Settings, new: Settings) -> tuple[str, ...]:
    """The keys that differ and that a reload cannot change."""
    return tuple(key for key in RESTART_KEYS if getattr(old, key) != getattr(new, key))


def _settings(reader: Reader) -> Settings:
    return reader.fill(
        Settings,
        _SETTINGS,
        listeners=_listeners(reader),
        max_in_flight=reader.require(
            "max_in_flight",
            _limit,
            0,
            expected="the number of pulls that may be in flight on this host, or 0 for no limit",
        ),
        retry=section(reader, "retry", Retry, _RETRY),
        priority=section(reader, "priority", Priority, _PRIORITY),
    )


def _listeners(reader: Reader) -> tuple[Listener, ...]:
    expected = "a list of mappings of socket, runtime and name, one for each kubelet"
    rows = sections(reader, "listeners", Listener, expected=expected)
    listeners = [row.fill(_listener, _LISTENER) for row in rows]
    _refuse_clashes(rows, listeners)
    return tuple(listeners)


def _listener(socket: str, runtime: str, name: str = "") -> Listener:
    return Listener(socket, runtime, name or socket)


def _refuse_clashes(rows: list[Reader], listeners: list[Listener]) -> None:
    """Refuse duplicate sockets and names, and a socket that is also a runtime. Unreadable values are empty and ignored."""
    sockets: dict[str, Reader] = {}
    names: dict[str, Reader] = {}
    for row, listener in zip(rows, listeners):
        if listener.socket and sockets.setdefault(listener.socket, row) is not row:
            row.fault("socket", "socket-twice", other=sockets[listener.socket].at("socket"))
        elif listener.name and names.setdefault(listener.name, row) is not row:
            row.fault("name", "name-twice", other=names[listener.name].at("name"))
    for row, listener in zip(rows, listeners):
        if listener.runtime in sockets:
            row.fault("runtime", "loop", other=sockets[listener.runtime].at("socket"))


def _socket_path(value: Any) -> str:
    """A path, or a `unix://` URL. Each socket has only one spelling, because paths are compared as text."""
    path = value if isinstance(value, str) else ""
    path = path[len(_URL) :] if path.startswith(_URL) else path
    if not _PATH.fullmatch(path) or {".", ".."} & set(path.split("/")):
        raise Wrong(id="path")
    if len(path) > _SOCKET_PATH_MOST:
        raise Wrong(id="path-length", length=len(path), most=_SOCKET_PATH_MOST)
    return path


def _limit(value: Any) -> int:
    if not _is_int32(value) or value < 0:
        raise Wrong(id="limit")
    return int(value)


def _annotation(value: Any) -> str:
    return "" if value == "" else _ANNOTATION_KEY(value)


def _namespaces(value: Any) -> Mapping[str, int]:
    if not isinstance(value, Mapping):
        raise Wrong("a mapping of namespaces to whole numbers")
    for namespace, priority in value.items():
        if not _NAMESPACE.fullmatch(namespace) or not _is_int32(priority):
            raise Wrong(f"a mapping of namespaces to whole numbers: see {json.dumps(namespace)}")
    return dict(value)


def _is_int32(value: Any) -> bool:
    """The type of limits and priorities in Kubernetes. In Python, a bool is an int."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31


_ANNOTATION_KEY = matching(_ANNOTATION, "the key of an annotation, such as example.com/priority")
_NAME_WANTED = "a name of up to 63 letters, digits, dots, dashes and underscores, in quotes where it is a number"
_LISTENER: Parsers = {
    "socket": Required(_socket_path, "the path that a kubelet connects to"),
    "runtime": Required(_socket_path, "the path where that kubelet's container runtime listens"),
    "name": matching(_NAME, _NAME_WANTED),
}
_RETRY: Parsers = {"attempts": whole(0, 2**31 - 1, expected="a whole number of 0 or more"), "interval": duration}
_PRIORITY: Parsers = {"annotation": _annotation, "namespaces": _namespaces, "ageing": duration}
_SETTINGS: Parsers = {
    "on_full": choice(("block", "retry")),
    "join": boolean,
    "present": choice(("pass", "succeed")),
    "order": choice(("fifo", "priority")),
    "metrics": metrics_address,
    "drain": duration,
}
