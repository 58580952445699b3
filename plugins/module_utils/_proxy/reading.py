# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Strict reading of one decoded API object: each fault is recorded with its path, and reading goes on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, wraps
from typing import Any, Optional, TypeVar

from .._core.errors import BallastError, shorten
from .addresses import Address, Network, parse_address, parse_network
from .messages import MESSAGES

# RFC 1123, as in k8s.io/apimachinery/pkg/util/validation.
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
SUBDOMAIN = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_BITS = 64  # of a number that a message repeats
T = TypeVar("T")


@lru_cache(maxsize=8192)  # 100,000 endpoints are on few nodes
def is_node_name(text: str) -> bool:
    return SUBDOMAIN.fullmatch(text) is not None


class Place:
    """One object of which fields are read. A field that is absent or null gives the empty value of its type, as in Go;
    a fault is added to `problems` and gives it too. Paths are texts and indexes: ("spec", "ports", 1, "port")."""

    __slots__ = ("problems", "title")

    def __init__(self, title: str, problems: list[BallastError]) -> None:
        self.title = title  # "Service default/web"
        self.problems = problems

    def wrong(self, value: object, wanted: str, *path: object) -> None:
        self.fault("rules-object-field", *path, value=show(value), wanted=wanted)

    def contradiction(self, value: object, reason: str, *path: object) -> None:
        self.fault("rules-object-contradiction", *path, value=show(value), reason=reason)

    def fault(self, id: str, *path: object, **fields: object) -> None:
        field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)[1:]
        where = f"{self.title}: {field}" if field else self.title
        self.problems.append(MESSAGES.error(id, found="", path=where, **fields))

    def text(self, value: object, *path: object) -> str:
        if isinstance(value, str):
            return value
        if value is not None:
            self.wrong(value, "text", *path)
        return ""

    def name(self, value: object, form: re.Pattern[str], *path: object) -> str:
        """`form` allows no blank, quote or control sign: a name may be written into rules and commands as it is."""
        if isinstance(value, str) and form.fullmatch(value):
            return value
        text = self.text(value, *path)
        if text:
            self.wrong(text, "a name of letters, digits and - (RFC 1123)", *path)
        return ""

    def number(self, value: object, least: int, most: int, *path: object) -> int:
        """0 where it is absent."""
        if value is None:
            return 0
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            self.wrong(value, f"a whole number from {least} to {most}", *path)
            return 0
        return value

    def choice(self, value: object, choices: Sequence[str], *path: object) -> str:
        """The first of `choices` where it is absent: the API server's default."""
        if isinstance(value, str) and value in choices:
            return value
        if value is not None and value != "":
            self.wrong(value, f"one of {', '.join(choices)}", *path)
        return choices[0]

    def items(self, value: object, *path: object) -> Sequence[Any]:
        if isinstance(value, list):
            return value
        if value is not None:
            self.wrong(value, "a list", *path)
        return ()

    def mapping(self, value: object, *path: object) -> Mapping[str, Any]:
        if isinstance(value, dict):
            return value
        return {} if value is None else self.element(value, *path) or {}

    def element(self, value: object, *path: object) -> Optional[Mapping[str, Any]]:
        """An element of a list, which cannot be absent. None with a fault where it is no object."""
        if isinstance(value, dict):
            return value
        self.wrong(value, "an object", *path)
        return None

    def address(self, value: object, *path: object) -> Optional[Address]:
        found = parse_address(value) if isinstance(value, str) else None
        if found is None:
            self.wrong(value, "an address of IPv4 or IPv6", *path)
        return found

    def reachable_address(self, value: object, *path: object) -> Optional[Address]:
        found = self.address(value, *path)
        if found is not None and found.special:
            self.wrong(value, "an address that can be reached: it is unspecified, loopback or link-local", *path)
            return None
        return found

    def network(self, value: object, *path: object) -> Optional[Network]:
        found = parse_network(value.strip()) if isinstance(value, str) else None
        if found is None:
            self.wrong(value, "a network as in 10.0.0.0/8 or fd00::/64", *path)
        return found


def remembered(read: Callable[..., T]) -> Callable[..., T]:
    """`read(place, path, *values)`, for values that most objects have in common: what is read without a fault is kept. True,
    1 and 1.0 are not taken for each other."""

    @lru_cache(maxsize=4096, typed=True)
    def without_fault(*values: object) -> Optional[T]:
        problems: list[BallastError] = []
        found = read(Place("", problems), (), *values)
        return None if problems else found

    @wraps(read)
    def remembering(place: Place, path: Sequence[object], *values: object) -> T:
        try:
            found = without_fault(*values)
        except TypeError:  # a list or an object among them, which can be no key
            found = None
        return read(place, path, *values) if found is None else found

    return remembering


def show(value: object) -> str:
    """`value` as a message repeats it: short, on one line, and without signs that a terminal would obey."""
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
