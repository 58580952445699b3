# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The text of a `v1 List` as kubectl prints it, decoded item by item.

What is made of an item is far less than the item itself: decoded all at once, those of 10,000 Services take 70 MB more, and
the processor waits for that memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

_KIND = r'"kind" : "List"'
_METADATA = r'"metadata" : \{ (?:"resourceVersion" : "[0-9]*" )?\}'


class OtherLayout(Exception):
    """What kubectl would not print so. It may be a list all the same, or no JSON."""


def _layout(text: str) -> re.Pattern[str]:
    """A blank of `text` stands for what JSON allows between its words."""
    return re.compile(text.replace(" ", r"[ \t\n\r]*"))


_BEGIN = _layout(rf' \{{ "apiVersion" : "v1" , (?:(?P<kind>{_KIND}) , )?(?:{_METADATA} , )?"items" : \[ ')
_BETWEEN = _layout(" , ")
_END = _layout(rf" \](?: , (?P<kind>{_KIND}))?(?: , {_METADATA})? \}} ")


def listed(text: str, *, parse_constant: Callable[[str], object]) -> Iterator[object]:
    """Each item of the List that `text` is. OtherLayout where it is laid out in another way, which may show at its end."""
    begin = _BEGIN.match(text)
    if begin is None:
        raise OtherLayout
    decoder = json.JSONDecoder(parse_constant=parse_constant)
    at = begin.end()
    while True:
        try:
            item, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise OtherLayout from error
        yield item
        between = _BETWEEN.match(text, end)
        if between is None:
            break
        at = between.end()
    rest = _END.fullmatch(text, end)
    if rest is None or not (begin["kind"] or rest["kind"]):
        raise OtherLayout
