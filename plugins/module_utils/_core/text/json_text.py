# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one parser for JSON from outside this project."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, Optional, TypeVar, Union

from .errors import HostError
from .input_messages import MESSAGES

T = TypeVar("T")
_DIGITS = 4300  # of a whole number: CPython's own limit, which versions before 3.11 lack


class NotJson(HostError, ValueError):
    """A ValueError for callers that add context; a readable error for the user where none does."""


def parse_json(text: Union[str, bytes, bytearray]) -> Any:
    """Like `json.loads`, but raises NotJson for anything invalid, including deep nesting and overlong numbers, which crash
    or stall a naive parser. The error does not repeat the text, which may hold a secret."""
    return _decode(lambda: json.loads(text, parse_int=_PARSE_INT))


def parse_leading_json(text: str, begin: int) -> tuple[Any, int]:
    """The document that starts at `begin`, and the offset where it ends. Other text may follow."""
    return _decode(lambda: json.JSONDecoder(parse_int=_PARSE_INT).raw_decode(text, begin))


def _decode(decode: Callable[[], T]) -> T:
    try:
        return decode()
    except RecursionError:
        reason = "it is nested too deeply"
    except ValueError as error:
        reason = (
            str(error)
            if isinstance(error, json.JSONDecodeError)
            else "it is not text, or has a number of thousands of digits"
        )
    raise NotJson(**MESSAGES.texts("core-json", found=reason))


def parse_object(text: Union[str, bytes, bytearray, None]) -> Optional[dict[str, Any]]:
    """The JSON object in `text`, or None: for responses and files that are ignored when they are not valid."""
    try:
        value = None if text is None else parse_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def mapping_in(data: object, *keys: str) -> Mapping[str, Any]:
    """The mapping at the path `keys` of parsed JSON; empty where there is none. Use decode.py where faults must be
    reported."""
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data if isinstance(data, Mapping) else {}


def rows_in(data: object, *keys: str) -> list[Mapping[str, Any]]:
    """The mappings in the list at the path `keys`; other entries are dropped."""
    rows = mapping_in(data, *keys[:-1]).get(keys[-1])
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []


def _parse_int(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


_PARSE_INT = None if hasattr(sys, "get_int_max_str_digits") else _parse_int
