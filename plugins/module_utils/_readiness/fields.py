# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Strict reading of JSON objects that came from a host or from a file: every fault with its path, all at once."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Optional

from .._core.errors import BallastError, shorten
from .messages import MESSAGES

_TEXT_LIMIT = 4000  # characters; more is not for people
_WHOLE_LIMIT = 2**63
_RFC_3339 = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", re.ASCII)

Problems = list[BallastError]


class Fields:
    """The keys of one object, all of which have to be there. What is wrong is added to `problems`, and the reading
    answers something empty then: who reads raises the problems before using what was read."""

    def __init__(self, value: object, path: str, keys: Collection[str], problems: Problems) -> None:
        self.path = path
        self.problems = problems
        self._values: Mapping[object, object] = {}
        if not isinstance(value, Mapping):
            self.wrong(path, value, "an object")
            return
        self._values = value
        known = ", ".join(keys)
        for key in value:
            if key not in keys:
                problems.append(MESSAGES.error("readiness-key", path=path, key=repr(key), known=known))
        for key in keys:
            if key not in value:
                self.missing(path, key)

    def text(self, key: str) -> str:
        return self.text_at(self.at(key), self._values[key]) if key in self._values else ""

    def text_at(self, path: str, value: object) -> str:
        """Of a part of the object, whose path is `path`."""
        if isinstance(value, str):
            return clean(value)
        self.wrong(path, value, "text")
        return ""

    def named(self, key: str) -> str:
        """Text that is not empty."""
        text = self.text(key)
        if isinstance(self._values.get(key), str) and not text.strip():
            self._wrong(key, text, "text that is not empty")
        return text

    def choice(self, key: str, choices: Collection[str]) -> str:
        value = self._values.get(key)
        if isinstance(value, str) and value in choices:
            return value
        self._wrong(key, value, f"one of {', '.join(choices)}")
        return ""

    def flag(self, key: str) -> bool:
        value = self._values.get(key)
        if isinstance(value, bool):
            return value
        self._wrong(key, value, "true or false")
        return False

    def number(self, key: str) -> Optional[float]:
        """Null is None."""
        value = self._values.get(key)
        number = _finite(value)
        if value is not None and number is None:
            self._wrong(key, value, "a finite number or null")
        return number

    def count(self, key: str) -> int:
        value = self._values.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _WHOLE_LIMIT:
            return value
        self._wrong(key, value, "a whole number of at least 0")
        return 0

    def time(self, key: str) -> str:
        """RFC 3339 in UTC, without parts of a second, so that texts sort as times do."""
        value = self._values.get(key)
        if isinstance(value, str) and _is_time(value):
            return value
        self._wrong(key, value, "a time such as 2026-11-22T15:00:00Z")
        return ""

    def rows(self, key: str) -> list[tuple[str, object]]:
        """The entries of a list, each with its path."""
        value = self._values.get(key)
        if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
            return [(f"{self.at(key)}[{number}]", row) for number, row in enumerate(value)]
        self._wrong(key, value, "a list")
        return []

    def texts(self, key: str) -> tuple[str, ...]:
        return tuple(self.text_at(path, row) for path, row in self.rows(key))

    def entries(self, key: str) -> list[tuple[str, str, object]]:
        """The entries of an object: path, key and value, by key."""
        value = self._values.get(key)
        if not isinstance(value, Mapping):
            self._wrong(key, value, "an object")
            return []
        for name in value:
            if not isinstance(name, str):
                self.wrong(self.at(key), name, "a key that is text")
        texts = sorted(name for name in value if isinstance(name, str))
        return [(f"{self.at(key)}.{shorten(clean(name))}", clean(name), value[name]) for name in texts]

    def at(self, key: str) -> str:
        return f"{self.path}.{key}"

    def _wrong(self, key: str, value: object, wanted: str) -> None:
        if key in self._values:  # what is missing was said
            self.wrong(self.at(key), value, wanted)

    def missing(self, path: str, key: str) -> None:
        self.problems.append(MESSAGES.error("readiness-key-missing", path=path, key=key))

    def wrong(self, path: str, value: object, wanted: str) -> None:
        self.problems.append(MESSAGES.error("readiness-value", path=path, value=_shown(value), wanted=wanted))


def clean(text: str) -> str:
    """`text`, cut where it is too long for people, and without what a terminal would obey, or what is no character at
    all: the half of a pair of UTF-16."""
    return shorten("".join(sign if sign.isprintable() or sign == "\n" else " " for sign in text), limit=_TEXT_LIMIT)


def _shown(value: object) -> str:
    """Of what has parts, the type alone: it may be as long as it likes."""
    if value is None or isinstance(value, (bool, float, str)) or _finite(value) is not None:
        return shorten(clean(repr(value)))
    return f"a value of type {type(value).__name__}"


def _finite(value: object) -> Optional[float]:
    """None of what is no number, and of one that JSON or a page cannot hold."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _WHOLE_LIMIT else None


def _is_time(text: str) -> bool:
    if not _RFC_3339.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text[:-1])
    except ValueError:
        return False
    return True
