# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pull proxy's settings: one YAML file, read strictly. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from ..._core.agent.reading import (
    Reader,
    Wrong,
    boolean,
    duration,
    matching,
    metrics_address,
    one_of,
    parse_file,
    text_of,
)
from .messages import AGENT

# The value of system-node-critical, the highest that a pod can have: k8s.io/kubernetes/pkg/apis/scheduling.
_HIGHEST_POD_PRIORITY = 2000001000
_SOCKET_PATH_MOST = 107  # bytes: sun_path of sockaddr_un less its closing NUL, unix(7)

_URL = "unix://"
# What a path may hold in a URI (RFC 3986, pchar) less the percent sign: gRPC reads `unix:PATH` as a URI.
_PATH = re.compile(r"(/[A-Za-z0-9._~!$&'()*+,;=:@-]+)+", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)  # a DNS label
# A qualified name: k8s.io/apimachinery/pkg/util/validation, IsQualifiedName.
_ANNOTATION = re.compile(r"([a-z0-9][a-z0-9.-]{0,252}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)


@dataclass(frozen=True)
class Listener:
    """`socket` and `runtime` are absolute paths. `name` is the socket's path where none is given."""

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

    UserError where the file is no mapping in YAML or JSON or has one fault, Problems where it has several.
    """
    return parse_file(AGENT, text, name=name, defaults=Settings(listeners=(), max_in_flight=0), read=_settings)


def needs_restart(old: Settings, new: Settings) -> tuple[str, ...]:
    """The keys that differ and that a reload cannot change."""
    return tuple(key for key in ("listeners", "metrics") if getattr(old, key) != getattr(new, key))


def _settings(reader: Reader) -> Settings:
    retry = reader.below("retry", Retry())
    priority = reader.below("priority", Priority())
    return Settings(
        listeners=_listeners(reader),
        max_in_flight=reader.require(
            "max_in_flight", _limit, wanted="the number of pulls that may be in flight on this host, or 0 for no limit"
        ),
        on_full=reader.read("on_full", one_of("block", "retry")),
        retry=Retry(attempts=retry.read("attempts", _attempts), interval=retry.read("interval", duration)),
        join=reader.read("join", boolean),
        present=reader.read("present", one_of("pass", "succeed")),
        order=reader.read("order", one_of("fifo", "priority")),
        priority=Priority(
            annotation=priority.read("annotation", _annotation),
            namespaces=priority.read("namespaces", _namespaces),
            ageing=priority.read("ageing", duration),
        ),
        metrics=reader.read("metrics", metrics_address),
        drain=reader.read("drain", duration),
    )


def _listeners(reader: Reader) -> tuple[Listener, ...]:
    wanted = "a list of mappings of socket, runtime and name, one for each kubelet"
    rows = reader.rows("listeners", Listener(socket="", runtime="", name=""), wanted=wanted)
    listeners = [_listener(row) for row in rows]
    _refuse_clashes(rows, listeners)
    return tuple(listeners)


def _listener(reader: Reader) -> Listener:
    socket = reader.require("socket", _socket_path, wanted="the path that a kubelet connects to")
    runtime = reader.require("runtime", _socket_path, wanted="the path where that kubelet's container runtime listens")
    return Listener(socket=socket, runtime=runtime, name=reader.read("name", _name) or socket)


def _refuse_clashes(rows: list[Reader], listeners: list[Listener]) -> None:
    """A socket or a name twice, and a socket that is a runtime. What could not be read is empty, and passed over."""
    sockets: dict[str, Reader] = {}
    names: dict[str, Reader] = {}
    for row, one in zip(rows, listeners):
        if one.socket and sockets.setdefault(one.socket, row) is not row:
            row.wrong("socket", "socket-twice", other=sockets[one.socket].at("socket"))
        elif one.name and names.setdefault(one.name, row) is not row:
            row.wrong("name", "name-twice", other=names[one.name].at("name"))
    for row, one in zip(rows, listeners):
        if one.runtime in sockets:
            row.wrong("runtime", "loop", other=sockets[one.runtime].at("socket"))


def _socket_path(value: Any) -> str:
    """A path, or one as a `unix://` URL. One socket has one spelling here: it is compared as text."""
    path = text_of(value, "path")
    path = path[len(_URL) :] if path.startswith(_URL) else path
    if not _PATH.fullmatch(path) or {".", ".."} & set(path.split("/")):
        raise Wrong("path")
    if len(path) > _SOCKET_PATH_MOST:
        raise Wrong("path-length", length=len(path), most=_SOCKET_PATH_MOST)
    return path


def _name(value: Any) -> str:
    wanted = "a name of up to 63 letters, digits, dots, dashes and underscores, in quotes where it is a number"
    return matching(_NAME, value, wanted)


def _limit(value: Any) -> int:
    if not _is_whole(value) or value < 0:
        raise Wrong("limit")
    return int(value)


def _attempts(value: Any) -> int:
    if not _is_whole(value) or value < 0:
        raise Wrong("value", wanted="a whole number of 0 or more")
    return int(value)


def _annotation(value: Any) -> str:
    return "" if value == "" else matching(_ANNOTATION, value, "the key of an annotation, such as example.com/priority")


def _namespaces(value: Any) -> Mapping[str, int]:
    if not isinstance(value, Mapping):
        raise Wrong("value", wanted="a mapping of namespaces to whole numbers")
    for namespace, priority in value.items():
        if not _NAMESPACE.fullmatch(namespace) or not _is_whole(priority):
            wanted = f"a mapping of namespaces to whole numbers: see {json.dumps(namespace)}"
            raise Wrong("value", wanted=wanted)
    return dict(value)


def _is_whole(value: Any) -> bool:
    """An int32, as Kubernetes has for limits and priorities. To Python, true is a number."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31
