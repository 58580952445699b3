# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pull proxy's settings: one YAML file, read strictly. Pure."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Callable, Optional

from ..._core.document import parse_document
from ..._core.errors import Problems
from .messages import MESSAGES
from .reading import Faults, Reader, Wrong

# The value of system-node-critical, the highest that a pod can have: k8s.io/kubernetes/pkg/apis/scheduling.
_HIGHEST_POD_PRIORITY = 2000001000
_SOCKET_PATH_MOST = 107  # bytes: sun_path of sockaddr_un less its closing NUL, unix(7)

_URL = "unix://"
# What a path may hold in a URI (RFC 3986, pchar) less the percent sign: gRPC reads `unix:PATH` as a URI.
_PATH = re.compile(r"(/[A-Za-z0-9._~!$&'()*+,;=:@-]+)+", re.ASCII)
_DURATION = re.compile(r"([0-9]{1,6}(\.[0-9]{1,9})?(ms|s|m|h)){1,4}", re.ASCII)
_DURATION_PART = re.compile(r"([0-9.]+)(ms|s|m|h)", re.ASCII)
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)  # a DNS label
# A qualified name: k8s.io/apimachinery/pkg/util/validation, IsQualifiedName.
_ANNOTATION = re.compile(r"([a-z0-9][a-z0-9.-]{0,252}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
_METRICS = re.compile(r"(?:\[(?P<ip6>[0-9a-fA-F:]+)\]|(?P<host>[0-9.]+|localhost)):(?P<port>[0-9]{1,5})", re.ASCII)


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
    document = parse_document(text, name=name)
    if not isinstance(document, Mapping):
        raise MESSAGES.error("pulls-shape", path=name)
    faults = Faults(name)
    settings = _settings(Reader(document, "", faults, Settings(listeners=(), max_in_flight=0)))
    Problems.raise_if(faults.problems)
    return settings


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
        on_full=reader.read("on_full", _one_of("block", "retry")),
        retry=Retry(attempts=retry.read("attempts", _attempts), interval=retry.read("interval", _duration)),
        join=reader.read("join", _boolean),
        present=reader.read("present", _one_of("pass", "succeed")),
        order=reader.read("order", _one_of("fifo", "priority")),
        priority=Priority(
            annotation=priority.read("annotation", _annotation),
            namespaces=priority.read("namespaces", _namespaces),
            ageing=priority.read("ageing", _duration),
        ),
        metrics=reader.read("metrics", _metrics),
        drain=reader.read("drain", _duration),
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
            row.wrong("socket", "pulls-socket-twice", other=sockets[one.socket].at("socket"))
        elif one.name and names.setdefault(one.name, row) is not row:
            row.wrong("name", "pulls-name-twice", other=names[one.name].at("name"))
    for row, one in zip(rows, listeners):
        if one.runtime in sockets:
            row.wrong("runtime", "pulls-loop", other=sockets[one.runtime].at("socket"))


def _socket_path(value: Any) -> str:
    """A path, or one as a `unix://` URL. One socket has one spelling here: it is compared as text."""
    path = _text(value, "pulls-path")
    path = path[len(_URL) :] if path.startswith(_URL) else path
    if not _PATH.fullmatch(path) or {".", ".."} & set(path.split("/")):
        raise Wrong("pulls-path")
    if len(path) > _SOCKET_PATH_MOST:
        raise Wrong("pulls-path-length", length=len(path), most=_SOCKET_PATH_MOST)
    return path


def _name(value: Any) -> str:
    wanted = "a name of up to 63 letters, digits, dots, dashes and underscores, in quotes where it is a number"
    return _matching(_NAME, value, wanted)


def _limit(value: Any) -> int:
    if not _is_whole(value) or value < 0:
        raise Wrong("pulls-limit")
    return int(value)


def _attempts(value: Any) -> int:
    if not _is_whole(value) or value < 0:
        raise Wrong("pulls-value", wanted="a whole number of 0 or more")
    return int(value)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Wrong("pulls-value", wanted="true or false")
    return value


def _one_of(*choices: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if value not in choices:
            raise Wrong("pulls-value", wanted=f"one of {', '.join(choices)}")
        return str(value)

    return parse


def _duration(value: Any) -> float:
    """Seconds. Go's notation, in which Kubernetes writes durations, less its microseconds, nanoseconds and signs."""
    text = _text(value, "pulls-duration")
    if not _DURATION.fullmatch(text):
        raise Wrong("pulls-duration")
    return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in _DURATION_PART.findall(text))


def _annotation(value: Any) -> str:
    return (
        "" if value == "" else _matching(_ANNOTATION, value, "the key of an annotation, such as example.com/priority")
    )


def _namespaces(value: Any) -> Mapping[str, int]:
    if not isinstance(value, Mapping):
        raise Wrong("pulls-value", wanted="a mapping of namespaces to whole numbers")
    for namespace, priority in value.items():
        if not _NAMESPACE.fullmatch(namespace) or not _is_whole(priority):
            wanted = f"a mapping of namespaces to whole numbers: see {json.dumps(namespace)}"
            raise Wrong("pulls-value", wanted=wanted)
    return dict(value)


def _metrics(value: Any) -> tuple[str, int]:
    """Only who is on this machine may read: the addresses of loopback alone."""
    match = _METRICS.fullmatch(_text(value, "pulls-metrics"))
    if match is None or not 1 <= int(match["port"]) <= 65535:
        raise Wrong("pulls-metrics")
    host = match["ip6"] or match["host"]
    if host != "localhost" and not _is_loopback(host):
        raise Wrong("pulls-metrics")
    return host, int(match["port"])


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _is_whole(value: Any) -> bool:
    """An int32, as Kubernetes has for limits and priorities. To Python, true is a number."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31


def _matching(form: re.Pattern[str], value: Any, wanted: str) -> str:
    if not isinstance(value, str) or not form.fullmatch(value):
        raise Wrong("pulls-value", wanted=wanted)
    return value


def _text(value: Any, id: str) -> str:
    if not isinstance(value, str):
        raise Wrong(id)
    return value
