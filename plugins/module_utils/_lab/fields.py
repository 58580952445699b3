# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Strict reading of a mapping that a person wrote: every fault with its path, all at once."""

from __future__ import annotations

import difflib
import ipaddress
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Optional

from .._core.errors import BallastError
from .._core.quantity import parse_quantity
from .messages import MESSAGES


class Fields:
    """The keys of one mapping. What is wrong is added to `problems`; the reading answers None then."""

    def __init__(self, value: object, path: str, allowed: Collection[str], problems: list[BallastError]) -> None:
        self.path = path
        self.problems = problems
        self._values: Mapping[str, Any] = {}
        self.is_mapping = isinstance(value, Mapping)
        if not isinstance(value, Mapping):
            self._wrong(path, value, "a mapping")
            return
        self._values = value
        for key in value:
            if key not in allowed:
                near = difflib.get_close_matches(str(key), sorted(allowed), n=1)
                hint = f"did you mean {near[0]}?" if near else "remove it"
                known = ", ".join(sorted(allowed))
                problems.append(MESSAGES.error("lab-key", path=path or "topology", key=key, allowed=known, hint=hint))

    def text(self, key: str) -> Optional[str]:
        """YAML reads 2 and 0.5 as numbers: they are taken as text."""
        value = self._values.get(key)
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return str(value)
        self._wrong(self.at(key), value, "text")
        return None

    def integer(self, key: str, *, least: int) -> Optional[int]:
        value = self._values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self._wrong(self.at(key), value, f"a whole number of at least {least}")
            return None
        return value

    def boolean(self, key: str) -> Optional[bool]:
        value = self._values.get(key)
        if value is None or isinstance(value, bool):
            return value
        self._wrong(self.at(key), value, "true or false")
        return None

    def choice(self, key: str, choices: Sequence[str]) -> Optional[str]:
        value = self.text(key)
        if value is not None and value not in choices:
            self._wrong(self.at(key), value, f"one of {', '.join(choices)}")
            return None
        return value

    def quantity(self, key: str, *, least: str) -> Optional[int]:
        """In thousandths of a unit."""
        text = self.text(key)
        if text is None:
            return None
        try:
            quantity = parse_quantity(text, path=self.at(key))
        except BallastError as error:
            self.problems.append(error)
            return None
        if quantity < parse_quantity(least):
            self._wrong(self.at(key), text, f"at least {least}")
            return None
        return quantity.thousandths

    def network(self, key: str) -> Optional[ipaddress.IPv4Network]:
        text = self.text(key)
        if text is None:
            return None
        try:
            return ipaddress.IPv4Network(text)
        except ValueError:
            self._wrong(self.at(key), text, "an IPv4 network such as 10.128.0.0/16")
            return None

    def rows(self, key: str) -> list[tuple[str, object]]:
        """The entries of a list, each with its path."""
        value = self._values.get(key)
        if value is None:
            return []
        if not isinstance(value, Sequence) or isinstance(value, str):
            self._wrong(self.at(key), value, "a list")
            return []
        return [(f"{self.at(key)}[{number}]", row) for number, row in enumerate(value)]

    def mapping(self, key: str) -> dict[str, str]:
        value = self._values.get(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self._wrong(self.at(key), value, "a mapping of names to text")
            return {}
        wrong = {
            name: part for name, part in value.items() if isinstance(part, bool) or not isinstance(part, (str, int))
        }
        for name, part in wrong.items():  # YAML takes yes and 1.10 for something else than text
            self._wrong(f"{self.at(key)}.{name}", part, "text; put it in quotes")
        value = {name: part for name, part in value.items() if name not in wrong}
        return {str(name): str(part) for name, part in sorted(value.items())}

    def given(self, key: str) -> bool:
        return self._values.get(key) is not None

    def get(self, key: str) -> object:
        return self._values.get(key)

    def at(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def wrong(self, key: str, value: object, wanted: str) -> None:
        self._wrong(self.at(key), value, wanted)

    def _wrong(self, path: str, value: object, wanted: str) -> None:
        self.problems.append(MESSAGES.error("lab-value", path=path or "topology", value=value, wanted=wanted))
