# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parses JSON objects from a host or a file; reports every fault with its path, all at once."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Optional, TypeVar

from .._core.text.decode import Faults, Parser, Reader, Words, Wrong, whole
from .._core.text.errors import shorten
from .messages import MESSAGES

T = TypeVar("T")

_TEXT_LIMIT = 4000  # characters; longer texts are not for people
_WHOLE_LIMIT = 2**63
_RFC_3339 = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", re.ASCII)


def new_faults() -> Faults:
    return Faults(Words(MESSAGES, value="readiness-value", key="readiness-key", show=_show))


class Row(Reader):
    """The keys of one object. All must be present except the optional ones. Null is a value."""

    __slots__ = ()

    def __init__(
        self, value: object, faults: Faults, path: str, required: Collection[str], optional: Collection[str] = ()
    ) -> None:
        super().__init__(value, faults, path, known=(*required, *optional))
        for key in required:
            if key not in self.values:
                self.faults.add("readiness-key-missing", path, key=key)

    def read(self, key: str, parse: Parser[T], default: T) -> T:
        """The parsed value; `default` for a missing key, and for a value that `parse` refuses."""
        return self.faults.take(self.at(key), self.values[key], parse, default) if key in self.values else default

    def part(self, key: str, required: Collection[str], optional: Collection[str] = ()) -> Row:
        """The object at `key`. A missing one has been reported already."""
        faults = self.faults if key in self.values else new_faults()
        return Row(self.values.get(key), faults, self.at(key), required, optional)

    def texts(self, key: str) -> tuple[str, ...]:
        """The list at `key`; "" for each entry that is not text."""
        return tuple(self.faults.take(path, value, text, "") for path, value in self.items(key))

    def entries(self, key: str) -> list[tuple[str, str, object]]:
        """The entries of an object as path, key and value, sorted by key."""
        empty: Mapping[Any, Any] = {}
        values = self.read(key, _mapping, empty)
        names = [name for name in values if self.faults.take(self.at(key), name, _is_text, False)]
        return [(f"{self.at(key)}.{shorten(clean(name))}", clean(name), values[name]) for name in sorted(names)]


def text(value: Any) -> str:
    """The text, as `clean` returns it. Wrong for anything else."""
    if isinstance(value, str):
        return clean(value)
    raise Wrong("text")


def parse_filled(value: Any) -> str:
    """As `text`. Wrong for nothing but white space, too."""
    stripped = text(value)
    if not stripped.strip():
        raise Wrong("text that is not empty")
    return stripped


def number(value: Any) -> Optional[float]:
    """A finite number, or None for null. Wrong for anything else."""
    parsed = _finite(value)
    if value is not None and parsed is None:
        raise Wrong("a finite number or null")
    return parsed


def time(value: Any) -> str:
    """RFC 3339 in UTC, in whole seconds, so that texts sort like times."""
    if isinstance(value, str) and _is_time(value):
        return value
    raise Wrong("a time such as 2026-11-22T15:00:00Z")


count = whole(0, _WHOLE_LIMIT - 1, expected="a whole number of at least 0")


def _mapping(value: Any) -> Mapping[Any, Any]:
    if isinstance(value, Mapping):
        return value
    raise Wrong("an object")


def _is_text(value: Any) -> bool:
    if isinstance(value, str):
        return True
    raise Wrong("a key that is text")


def clean(text: str) -> str:
    """`text`, shortened to a length for people, without characters that a terminal would obey, and without halves of UTF-16 surrogate
    pairs."""
    return shorten("".join(sign if sign.isprintable() or sign == "\n" else " " for sign in text), limit=_TEXT_LIMIT)


def _show(value: object) -> str:
    """A value for a message; of a container only the type, as it may have any length."""
    if value is None or isinstance(value, (bool, float, str)) or _finite(value) is not None:
        return shorten(clean(repr(value)))
    return f"a value of type {type(value).__name__}"


def _finite(value: object) -> Optional[float]:
    """The number; None for anything else, and for a number that JSON or a page cannot represent."""
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
