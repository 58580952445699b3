# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one reader of JSON that somebody else wrote."""

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
    """A ValueError for who says more of it, and an error for people where nobody does."""


def parse_json(text: Union[str, bytes, bytearray]) -> Any:
    """As `json.loads`. NotJson for everything that is no JSON, also for what is nested too deeply and for numbers of too
    many digits, which take a parser down that trusts its input. It does not repeat the text, which may hold a secret."""
    return _decode(lambda: json.loads(text, parse_int=_PARSE_INT))


def parse_leading_json(text: str, begin: int) -> tuple[Any, int]:
    """The document at `begin`, and where it ends: other text may follow."""
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
    """None where `text` is no object in JSON: of an answer or a file that counts for nothing then."""
    try:
        value = None if text is None else parse_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def mapping_in(data: object, *keys: str) -> Mapping[str, Any]:
    """What is at `keys` of parsed JSON, empty where that is no mapping. decode.py is for data whose faults are reported."""
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data if isinstance(data, Mapping) else {}


def rows_in(data: object, *keys: str) -> list[Mapping[str, Any]]:
    """The mappings in the list at `keys`."""
    rows = mapping_in(data, *keys[:-1]).get(keys[-1])
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []


def _parse_int(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


_PARSE_INT = None if hasattr(sys, "get_int_max_str_digits") else _parse_int
