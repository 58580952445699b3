# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parses the settings file of a program, with value types that all programs share. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any, Callable, TypeVar

from .._core.text.decode import KEY, MISSING, VALUE, Faults, Reader, Words, Wrong
from .._core.text.document import parse_document
from .identity import Agent

S = TypeVar("S")

_DURATION = re.compile(r"([0-9]{1,6}(\.[0-9]{1,9})?(ms|s|m|h)){1,4}", re.ASCII)
_DURATION_PART = re.compile(r"([0-9.]+)(ms|s|m|h)", re.ASCII)
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_METRICS = re.compile(r"(?:\[(?P<ip6>[0-9a-fA-F:]+)\]|(?P<host>[0-9.]+|localhost)):(?P<port>[0-9]{1,5})", re.ASCII)


def parse_file(agent: Agent, text: str, *, name: str, settings: type[S], read: Callable[[Reader], S]) -> S:
    """`text` is the content of the file, `name` its path, for messages; `read` creates the settings, whose fields are the
    keys of the file.

    UserError if the file is no mapping in YAML or JSON or has one fault, Problems if it has several.
    """
    document = parse_document(text, name=name)
    if not isinstance(document, Mapping):
        raise agent.error("shape", path=name)
    prefix = f"{agent.ids}-"
    words = Words(agent.messages, prefix + VALUE, prefix + KEY, prefix + MISSING, prefix)
    faults = Faults(words, name)
    parsed = read(Reader(document, faults, known=keys_of(settings)))
    faults.raise_all()
    return parsed


def keys_of(settings: Any) -> Collection[str]:
    return [row.name for row in fields(settings)]


def section(reader: Reader, key: str, settings: type[S], parsers: Mapping[str, Any]) -> S:
    """An instance of `settings`, whose fields are the keys of the mapping at `key`."""
    known = keys_of(settings)
    return reader.below(key, known, expected=f"a mapping of {', '.join(known)}").fill(settings, parsers)


def sections(reader: Reader, key: str, settings: Any, *, expected: str) -> list[Reader]:
    """The mappings in the list at `key`, which must not be empty."""
    known = keys_of(settings)
    if not reader.require(key, _not_empty, [], expected=expected):
        return []
    return reader.rows(key, known, expected=f"a mapping of {', '.join(known)}")


def refuse_twice(rows: Collection[tuple[Reader, str, object]], id: str) -> None:
    """Record a fault for each value that occurs twice. `rows` are (reader, key, value); an empty value could not be read and
    is skipped."""
    first: dict[object, str] = {}
    for row, key, value in rows:
        if value and first.setdefault(value, row.at(key)) != row.at(key):
            row.fault(key, id, other=first[value])


def _not_empty(value: Any) -> list[Any]:
    if isinstance(value, list) and value:
        return value
    raise Wrong("a list of at least one")


def duration(value: Any) -> float:
    """Seconds. Durations are in Go's notation, as in Kubernetes, but without microseconds, nanoseconds and signs."""
    if not isinstance(value, str) or not _DURATION.fullmatch(value):
        raise Wrong(id="duration")
    return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in _DURATION_PART.findall(value))


def pause(value: Any) -> float:
    """The duration of a wait between two attempts. It has a minimum, or a program would do nothing but retry."""
    seconds = duration(value)
    if seconds < 1:
        raise Wrong("a duration of 1s or more")
    return seconds


def metrics_address(value: Any) -> tuple[str, int]:
    """Metrics are only for readers on this machine, so this must be a loopback address."""
    match = _METRICS.fullmatch(value) if isinstance(value, str) else None
    if match is None or not 1 <= int(match["port"]) <= 65535:
        raise Wrong(id="metrics")
    host = match["ip6"] or match["host"]
    if host != "localhost" and not _is_loopback(host):
        raise Wrong(id="metrics")
    return host, int(match["port"])


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
