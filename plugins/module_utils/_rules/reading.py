# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parsers for values of API objects: names, addresses and networks. `_core/text/decode.py` has the reader.

A field that is absent or null has the zero value of its type, as in Go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, wraps
from typing import Any, Optional, TypeVar

from .._core.text.decode import Faults, Parser, Reader, Words, Wrong, show, text
from .addresses import Address, Network, parse_address, parse_network
from .messages import MESSAGES

# RFC 1123, as in k8s.io/apimachinery/pkg/util/validation.
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
SUBDOMAIN = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
WORDS = Words(MESSAGES, value="rules-object-field")
T = TypeVar("T")


@lru_cache(maxsize=8192)  # 100,000 endpoints are on few nodes
def is_node_name(value: str) -> bool:
    return SUBDOMAIN.fullmatch(value) is not None


def contradict(row: Reader, key: str, value: object, reason: str) -> None:
    """Record a fault: the value contradicts the rest of the object. `reason` says which part."""
    row.faults.add("rules-object-contradiction", row.at(key), value=show(value), reason=reason)


SKIPPED = "rules-object-skipped"  # the warning for a value that kube-proxy, like us, skips


def skip(row: Reader, key: str, value: object, expected: str) -> None:
    """Record the warning SKIPPED for this value."""
    row.faults.add(SKIPPED, row.at(key), value=show(value), wanted=expected)


def take_readable(faults: Faults, path: str, value: Any, parse: Parser[T]) -> Optional[T]:
    """`parse` of a text; None for one that it refuses, with a warning if kube-proxy skips it too. The API server accepts
    such texts, or did when they were stored."""
    try:
        return parse(value)
    except Unreadable as wrong:
        faults.add(SKIPPED, path, value=show(value), wanted=wrong.fields["wanted"])
    except Wrong as wrong:
        faults.refuse(path, value, wrong)
    return None


def objects(row: Reader, key: str) -> Iterator[Reader]:
    """The objects in a list; null counts as an empty object."""
    for path, value in row.items(key):
        yield Reader({} if value is None else value, row.faults, path)


def parse_each(row: Reader, key: str, parse: Parser[T]) -> Sequence[tuple[Any, Optional[T]]]:
    """Each value of a list with its parsed form, None if `parse` refuses it."""
    return [(value, row.faults.take(path, value, parse, None)) for path, value in row.items(key)]


def matching_name(form: re.Pattern[str]) -> Parser[str]:
    """`form` must exclude blanks, quotes and control characters, because names are written into rules and commands
    unquoted."""

    def parse(value: Any) -> str:
        if isinstance(value, str) and form.fullmatch(value):
            return value
        if text(value):
            raise Wrong("a name of letters, digits and - (RFC 1123)")
        return ""

    return parse


def enum(choices: Sequence[str]) -> Parser[str]:
    """ "" means the first of `choices`, the API server's default."""
    expected = f"one of {', '.join(choices)}"

    def parse(value: Any) -> str:
        if isinstance(value, str) and (value in choices or not value):
            return value or choices[0]
        raise Wrong(expected)

    return parse


class Unreadable(Wrong):
    """The text is no address or network at all."""


def address(value: Any) -> Address:
    """Raises Unreadable for a text that is no address, Wrong for a value that is no text."""
    expected = "an address of IPv4 or IPv6"
    if not isinstance(value, str):
        raise Wrong(expected)
    parsed = parse_address(value)
    if parsed is None:
        raise Unreadable(expected)
    return parsed


def reachable_address(value: Any) -> Address:
    """`address`, but Wrong for an address that only the machine itself can have."""
    parsed = address(value)
    if parsed.special:
        raise Wrong("an address that can be reached: it is unspecified, loopback or link-local")
    return parsed


def network(value: Any) -> Network:
    """Raises Unreadable for a text that is no network, Wrong for a value that is no text."""
    expected = "a network as in 10.0.0.0/8 or fd00::/64"
    if not isinstance(value, str):
        raise Wrong(expected)
    parsed = parse_network(value.strip())
    if parsed is None:
        raise Unreadable(expected)
    return parsed


def remember(*keys: str) -> Callable[[Callable[[Reader], T]], Callable[[object, Faults, str], T]]:
    """Cache a function that reads `keys` of an object, since most objects share these values. Only results without faults
    are cached. True, 1 and 1.0 are different. null counts as an empty object."""

    def decorate(read: Callable[[Reader], T]) -> Callable[[object, Faults, str], T]:
        @lru_cache(maxsize=4096, typed=True)
        def read_without_fault(*values: object) -> Optional[T]:
            faults = Faults(WORDS)
            parsed = read(Reader(dict(zip(keys, values)), faults))
            return None if faults.problems else parsed

        @wraps(read)
        def recall(value: object, faults: Faults, path: str) -> T:
            known = None
            try:
                if isinstance(value, dict):
                    known = read_without_fault(*map(value.get, keys))
            except TypeError:  # a value is a list or an object, which is not hashable
                pass
            return read(Reader({} if value is None else value, faults, path)) if known is None else known

        return recall

    return decorate
