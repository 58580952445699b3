# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Strict reading of a program's file of settings: every fault with its path, all at once. Pure."""

from __future__ import annotations

import difflib
import ipaddress
import json
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Callable, TypeVar

from ..document import parse_document
from ..errors import BallastError, Problems
from .identity import Agent

T = TypeVar("T")
S = TypeVar("S")

_DURATION = re.compile(r"([0-9]{1,6}(\.[0-9]{1,9})?(ms|s|m|h)){1,4}", re.ASCII)
_DURATION_PART = re.compile(r"([0-9.]+)(ms|s|m|h)", re.ASCII)
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_METRICS = re.compile(r"(?:\[(?P<ip6>[0-9a-fA-F:]+)\]|(?P<host>[0-9.]+|localhost)):(?P<port>[0-9]{1,5})", re.ASCII)


class Wrong(Exception):
    """A value is refused; `id` is that of the message, less what the program's ids begin with, `fields` are what it is filled
    with besides path and value."""

    def __init__(self, id: str, **fields: object) -> None:
        super().__init__(id)
        self.id = id
        self.fields = fields


class Faults:
    """What is wrong with a file, gathered."""

    def __init__(self, agent: Agent, file: str) -> None:
        self.agent = agent
        self.problems: list[BallastError] = []
        self._file = file

    def add(self, id: str, path: str, **fields: Any) -> None:
        where = f"{self._file}: {path}" if path else self._file
        self.problems.append(self.agent.error(id, path=where, **fields))


def parse_file(agent: Agent, text: str, *, name: str, defaults: Any, read: Callable[[Reader], S]) -> S:
    """`text` is the file, `name` its path, for messages; `read` makes the settings of its top.

    UserError where the file is no mapping in YAML or JSON or has one fault, Problems where it has several.
    """
    document = parse_document(text, name=name)
    if not isinstance(document, Mapping):
        raise agent.error("shape", path=name)
    faults = Faults(agent, name)
    settings = read(Reader(document, "", faults, defaults))
    Problems.raise_if(faults.problems)
    return settings


class Reader:
    """The keys of one mapping, which are the fields of `defaults`, a dataclass; `path` is where it is in the file.

    What is wrong is added to `faults`, and the default is answered: a result with faults is thrown away. A key without a
    value is like one that is not there.
    """

    def __init__(self, value: Mapping[str, Any], path: str, faults: Faults, defaults: Any) -> None:
        self._path = path
        self._faults = faults
        self._defaults = defaults
        self._given = {key: part for key, part in value.items() if part is not None}
        known = [row.name for row in fields(defaults)]
        for key in value:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean {near[0]}?" if near else "remove it"
                faults.add("key", path, key=shown(key), allowed=", ".join(known), hint=hint)

    def read(self, key: str, parse: Callable[[Any], T]) -> T:
        """What `parse` makes of the value; it raises Wrong for one that it refuses."""
        default: T = getattr(self._defaults, key)
        if key not in self._given:
            return default
        try:
            return parse(self._given[key])
        except Wrong as wrong:
            self.wrong(key, wrong.id, **wrong.fields)
            return default

    def require(self, key: str, parse: Callable[[Any], T], *, wanted: str) -> T:
        if key not in self._given:
            self._faults.add("missing", self.at(key), wanted=wanted)
        return self.read(key, parse)

    def has(self, key: str) -> bool:
        return key in self._given

    def below(self, key: str, defaults: Any) -> Reader:
        """The mapping at `key`, an empty one where there is none."""
        return self._mapping(self._given.get(key, {}), self.at(key), defaults)

    def rows(self, key: str, defaults: Any, *, wanted: str) -> list[Reader]:
        """The mappings in the list at `key`, of which there must be one."""
        rows = self.require(key, _list, wanted=wanted)
        return [self._mapping(row, f"{self.at(key)}[{number}]", defaults) for number, row in enumerate(rows)]

    def wrong(self, key: str, id: str, **fields: Any) -> None:
        self._faults.add(id, self.at(key), value=shown(self._given[key]), **fields)

    def at(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    def _mapping(self, value: Any, path: str, defaults: Any) -> Reader:
        if isinstance(value, Mapping):
            return Reader(value, path, self._faults, defaults)
        keys = ", ".join(row.name for row in fields(defaults))
        self._faults.add("value", path, value=shown(value), wanted=f"a mapping of {keys}")
        return Reader({}, path, Faults(self._faults.agent, ""), defaults)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise Wrong("value", wanted="a list of at least one")
    return value


def boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Wrong("value", wanted="true or false")
    return value


def one_of(*choices: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if value not in choices:
            raise Wrong("value", wanted=f"one of {', '.join(choices)}")
        return str(value)

    return parse


def duration(value: Any) -> float:
    """Seconds. Go's notation, in which Kubernetes writes durations, less its microseconds, nanoseconds and signs."""
    text = text_of(value, "duration")
    if not _DURATION.fullmatch(text):
        raise Wrong("duration")
    return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in _DURATION_PART.findall(text))


def metrics_address(value: Any) -> tuple[str, int]:
    """Only who is on this machine may read: the addresses of loopback alone."""
    match = _METRICS.fullmatch(text_of(value, "metrics"))
    if match is None or not 1 <= int(match["port"]) <= 65535:
        raise Wrong("metrics")
    host = match["ip6"] or match["host"]
    if host != "localhost" and not _is_loopback(host):
        raise Wrong("metrics")
    return host, int(match["port"])


def matching(form: re.Pattern[str], value: Any, wanted: str) -> str:
    if not isinstance(value, str) or not form.fullmatch(value):
        raise Wrong("value", wanted=wanted)
    return value


def text_of(value: Any, id: str) -> str:
    if not isinstance(value, str):
        raise Wrong(id)
    return value


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def shown(value: Any) -> str:
    """As JSON, which has no signs that a terminal would obey."""
    try:
        return json.dumps(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, lists in lists in lists
        return "the value"
