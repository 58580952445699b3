# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Strict reading of the proxy's file: every fault with its path, all at once."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Callable, TypeVar

from ..._core.errors import BallastError
from .messages import MESSAGES

T = TypeVar("T")


class Wrong(Exception):
    """A value is refused; `id` is that of the message, `fields` are what it is filled with besides path and value."""

    def __init__(self, id: str, **fields: object) -> None:
        super().__init__(id)
        self.id = id
        self.fields = fields


class Faults:
    """What is wrong with a file, gathered."""

    def __init__(self, file: str) -> None:
        self.problems: list[BallastError] = []
        self._file = file

    def add(self, id: str, path: str, **fields: Any) -> None:
        where = f"{self._file}: {path}" if path else self._file
        self.problems.append(MESSAGES.error(id, path=where, **fields))


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
                faults.add("pulls-key", path, key=_shown(key), allowed=", ".join(known), hint=hint)

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
            self._faults.add("pulls-missing", self.at(key), wanted=wanted)
        return self.read(key, parse)

    def below(self, key: str, defaults: Any) -> Reader:
        """The mapping at `key`, an empty one where there is none."""
        return self._mapping(self._given.get(key, {}), self.at(key), defaults)

    def rows(self, key: str, defaults: Any, *, wanted: str) -> list[Reader]:
        """The mappings in the list at `key`, of which there must be one."""
        rows = self.require(key, _list, wanted=wanted)
        return [self._mapping(row, f"{self.at(key)}[{number}]", defaults) for number, row in enumerate(rows)]

    def wrong(self, key: str, id: str, **fields: Any) -> None:
        self._faults.add(id, self.at(key), value=_shown(self._given[key]), **fields)

    def at(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    def _mapping(self, value: Any, path: str, defaults: Any) -> Reader:
        if isinstance(value, Mapping):
            return Reader(value, path, self._faults, defaults)
        keys = ", ".join(row.name for row in fields(defaults))
        self._faults.add("pulls-value", path, value=_shown(value), wanted=f"a mapping of {keys}")
        return Reader({}, path, Faults(""), defaults)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise Wrong("pulls-value", wanted="a list of at least one")
    return value


def _shown(value: Any) -> str:
    """As JSON, which has no signs that a terminal would obey."""
    try:
        return json.dumps(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, lists in lists in lists
        return "the value"
