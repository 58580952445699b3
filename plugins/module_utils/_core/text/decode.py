# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Strict reading of untrusted data: settings files, module options, API objects. Pure.

    faults = Faults(Words(MESSAGES, value="lab-value", key="lab-key"))
    top = Reader(data, faults, known=("name", "pids", "nodes"))
    pids = top.read("pids", whole(256), 8192)
    nodes = [read_node(row) for row in top.rows("nodes", ("name", "runtime"))]
    faults.raise_all()

A `Reader` reads the keys of one mapping. A parser is a function from a raw value to a parsed one; it raises `Wrong` for a
value it refuses. A fault is recorded with its path and reading continues with a default, so that all faults are reported
together, in the words of the feature's own message table (`Words`).
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple, Optional, TypeVar, Union

from .errors import BallastError, Messages, Problems, Whole, shorten

T = TypeVar("T")
Parser = Callable[[Any], T]

VALUE, KEY, MISSING = "value", "key", "missing"
_EMPTY: Sequence[Any] = ()
_NOTHING: Mapping[Any, Any] = {}  # stands in for a value that is not a mapping
_BITS = 64  # the largest number that a message repeats
_KEY_LIMIT = 200  # of an unknown key, when it is compared with the known keys


class Wrong(Exception):
    """A parser refuses a value because it is not `expected`. With another `id`, that message is used and filled with
    `fields`."""

    def __init__(self, expected: str = "", *, id: str = VALUE, **fields: object) -> None:
        super().__init__(expected or id)
        self.id = id
        self.fields = {"wanted": expected, **fields}


def show(value: object) -> str:
    """`value` for a message: short, on one line, without characters that a terminal interprets."""
    if isinstance(value, str):
        return json.dumps(shorten(value))
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, int) and value.bit_length() > _BITS:
        return f"a number of {value.bit_length()} bits"
    if value is None or isinstance(value, (bool, int, float)):
        return json.dumps(value)
    return f"a {type(value).__name__}"


@dataclass(frozen=True)
class Words:
    """The message ids that a feature uses for a wrong value (fields path, value, wanted), an unknown key (path, key,
    allowed, hint) and a missing key (path, wanted). Other ids, from parsers or callers, get `prefix` in front."""

    messages: Messages
    value: str
    key: str = ""
    missing: str = ""
    prefix: str = ""
    show: Callable[[object], str] = show
    mapping: str = "an object"
    whole: str = ""  # the path that stands for the whole document

    def error(self, id: str, **fields: object) -> BallastError:
        own = {VALUE: self.value, KEY: self.key, MISSING: self.missing}
        return self.messages.error(own.get(id) or self.prefix + id, found="", **fields)


class Faults:
    """Collects faults. `title`, the name of a file or an object, is put before each path."""

    def __init__(self, words: Words, title: str = "", problems: Optional[list[BallastError]] = None) -> None:
        self.words = words
        self.title = title
        self.problems: list[BallastError] = [] if problems is None else problems

    def add(self, id: str, path: str, **fields: object) -> None:
        """Record a fault at `path`. `id` is VALUE, KEY, MISSING or another one, as `Words` explains."""
        where = f"{self.title}: {path}" if self.title and path else self.title or path or self.words.whole
        self.problems.append(self.words.error(id, path=where, **fields))

    def wrong(self, path: str, value: object, expected: str) -> None:
        self.add(VALUE, path, value=self.words.show(value), wanted=expected)

    def take(self, path: str, value: Any, parse: Parser[T], default: T) -> T:
        """`parse(value)`, or `default` where it refuses the value."""
        try:
            return parse(value)
        except Wrong as wrong:
            self.refuse(path, value, wrong)
            return default

    def refuse(self, path: str, value: object, wrong: Wrong) -> None:
        self.add(wrong.id, path, value=self.words.show(value), **wrong.fields)

    def unknown(self, path: str, key: object, known: Collection[str]) -> None:
        near = difflib.get_close_matches(str(key)[:_KEY_LIMIT], list(known), n=1)
        hint = f"did you mean {near[0]}?" if near else "remove it"
        self.add(KEY, path, key=self.words.show(key), allowed=Whole(", ".join(known)), hint=hint)

    def raise_all(self) -> None:
        Problems.raise_if(self.problems)


class Required(NamedTuple):
    """Marks a key as mandatory, for `Reader.fill`."""

    parse: Parser[Any]
    expected: str  # what a message says a missing key must be set to


Parsers = Mapping[str, Union[Parser[Any], Required]]


class Reader:
    """The keys of one mapping, which is at `path` in the data. Keys that are not `known` are faults. A key whose value is
    null counts as absent. A value that is not a mapping is one fault and reads as empty, without further faults."""

    __slots__ = ("faults", "path", "values")

    def __init__(
        self,
        value: object,
        faults: Faults,
        path: str = "",
        known: Optional[Collection[str]] = None,
        expected: str = "",
    ) -> None:
        self.path = path
        self.faults = faults
        if isinstance(value, (dict, Mapping)):  # the fast check first
            self.values: Mapping[Any, Any] = value
            if known is not None:
                self.refuse_unknown(known)
        else:
            self.values = _NOTHING
            faults.wrong(path, value, expected or faults.words.mapping)
            self.faults = Faults(faults.words)

    @property
    def is_mapping(self) -> bool:
        return self.values is not _NOTHING

    def refuse_unknown(self, known: Collection[str]) -> None:
        for key in self.values:
            if key not in known:
                self.faults.unknown(self.path, key, known)

    def get(self, key: str) -> Any:
        """The value as it is, unchecked; None if the key is absent."""
        return self.values.get(key)

    def has(self, key: str) -> bool:
        return self.values.get(key) is not None

    def read(self, key: str, parse: Parser[T], default: T) -> T:
        """`parse` of the value; `default` where the key is absent or refused."""
        value = self.values.get(key)
        if value is None:
            return default
        try:  # `Faults.take` inlined, so that the path is built only for a fault
            return parse(value)
        except Wrong as wrong:
            self.faults.refuse(self.at(key), value, wrong)
            return default

    def require(self, key: str, parse: Parser[T], default: T, *, expected: str) -> T:
        """`read` for a mandatory key: if it is absent, a fault says that it must be set to `expected`."""
        if self.values.get(key) is None:
            self.faults.add(MISSING, self.at(key), wanted=expected)
        return self.read(key, parse, default)

    def fill(self, make: Callable[..., T], parsers: Parsers, **made: Any) -> T:
        """`make` called with the parsed values, by key, and with `made`. Keys that are absent or refused are left to the
        defaults of `make`; mandatory ones are passed as ""."""
        for key, parse in parsers.items():
            if isinstance(parse, Required):
                made[key] = self.require(key, parse.parse, "", expected=parse.expected)
            else:
                value = self.read(key, parse, None)
                made.update({} if value is None else {key: value})
        return make(**made)

    def below(self, key: str, known: Optional[Collection[str]] = None, *, expected: str = "") -> Reader:
        """The mapping at `key`; empty where it is absent."""
        value = self.values.get(key)
        path = f"{self.path}.{key}" if self.path else key
        return Reader({} if value is None else value, self.faults, path, known, expected)

    def mapping(self, key: str) -> Mapping[Any, Any]:
        """The mapping at `key`, for callers that do not check its keys."""
        value = self.values.get(key)
        return value if isinstance(value, dict) else self.below(key).values

    def sequence(self, key: str) -> Sequence[Any]:
        """The list at `key`; empty where it is absent."""
        value = self.values.get(key)
        return value if isinstance(value, list) else self.read(key, listing, _EMPTY)

    def items(self, key: str) -> list[tuple[str, Any]]:
        """The entries of the list at `key`, each with its path."""
        path = self.at(key)
        return [(f"{path}[{number}]", row) for number, row in enumerate(self.sequence(key))]

    def rows(self, key: str, known: Optional[Collection[str]] = None, *, expected: str = "") -> list[Reader]:
        """A Reader per entry of the list at `key`. An entry that is not a mapping is a fault and yields an empty Reader."""
        return [Reader(row, self.faults, path, known=known, expected=expected) for path, row in self.items(key)]

    def wrong(self, key: str, value: object, expected: str) -> None:
        self.faults.wrong(self.at(key), value, expected)

    def fault(self, key: str, id: str, **fields: object) -> None:
        """Record a fault of `key` with a message of its own."""
        self.faults.add(id, self.at(key), value=self.faults.words.show(self.values.get(key)), **fields)

    def at(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key


def text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise Wrong("text")


def boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise Wrong("true or false")


def listing(value: Any) -> Sequence[Any]:
    if isinstance(value, (list, tuple)):
        return value
    raise Wrong("a list")


def absolute_path(value: Any) -> str:
    if isinstance(value, str) and os.path.isabs(value) and value.isprintable():
        return value
    raise Wrong("an absolute path")


def whole(least: int, most: Optional[int] = None, *, expected: str = "") -> Parser[int]:
    """A parser of whole numbers. Unlike Python, it does not accept booleans as numbers."""
    expected = expected or f"a whole number {f'of at least {least}' if most is None else f'from {least} to {most}'}"

    def parse(value: Any) -> int:
        if (
            isinstance(value, int)
            and not isinstance(value, bool)
            and least <= value
            and (most is None or value <= most)
        ):
            return value
        raise Wrong(expected)

    return parse


def choice(choices: Collection[str], expected: str = "") -> Parser[str]:
    expected = expected or f"one of {', '.join(choices)}"

    def parse(value: Any) -> str:
        if isinstance(value, str) and value in choices:
            return value
        raise Wrong(expected)

    return parse


def matching(form: re.Pattern[str], expected: str) -> Parser[str]:
    def parse(value: Any) -> str:
        if isinstance(value, str) and form.fullmatch(value):
            return value
        raise Wrong(expected)

    return parse
