# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Formats the names of many nodes in few words, and equal lines about many nodes as one line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

# The last number of the first label: n1.example.com, ip-10-0-1-23.internal.
_NUMBERED = re.compile(r"([^.]*?)([0-9]+)([^.0-9]*(?:\..*)?)", re.ASCII)
_SHOWN = 8  # names and ranges in one line


def fold(names: Sequence[str], *, limit: int = _SHOWN) -> str:
    """`n1, n2, n3, web` as "n[1-3], web"; names beyond `limit` parts are only counted."""
    parts = _folded(names)
    shown = parts[:limit]
    left_out = sum(count for _text, count in parts[limit:])
    more = [f"and {left_out} more"] if left_out else []
    return ", ".join([*(text for text, _count in shown), *more])


def count_nodes(names: Sequence[str]) -> str:
    """`3 nodes (n[1-3])`."""
    return f"{len(names)} node{'' if len(names) == 1 else 's'} ({fold(names)})"


def group_lines(rows: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Names by line, from pairs of a name and a line, in the order in which the lines first occur."""
    groups: dict[str, list[str]] = {}
    for name, line in rows:
        groups.setdefault(line, []).append(name)
    return groups


def grouped(rows: Iterable[tuple[str, str]]) -> list[str]:
    """`LINE: 3 nodes (n[1-3])` for each different line, those with most nodes first."""
    groups = group_lines(rows)
    return [f"{line}: {count_nodes(names)}" for line, names in sorted(groups.items(), key=lambda group: -len(group[1]))]


def _folded(names: Sequence[str]) -> list[tuple[str, int]]:
    """Texts, each with the number of its names, in the order of the first name of each."""
    families: dict[tuple[str, str, int], list[int]] = {}
    order: dict[tuple[str, str, int], str] = {}
    for name in names:
        match = _NUMBERED.fullmatch(name)
        if match is None:
            key = (name, "", -1)
            families.setdefault(key, []).append(0)
        else:
            before, digits, after = match.groups()
            # Numbers with leading zeros form a family by their width; others form one whatever their width.
            width = len(digits) if digits.startswith("0") or _is_padded(families, before, after, len(digits)) else 0
            key = (before, after, width)
            families.setdefault(key, []).append(int(digits))
        order.setdefault(key, name)
    return [_family(key, numbers) for key, numbers in families.items()]


def _is_padded(families: Mapping[tuple[str, str, int], object], before: str, after: str, width: int) -> bool:
    return (before, after, width) in families


def _family(key: tuple[str, str, int], numbers: Sequence[int]) -> tuple[str, int]:
    before, after, width = key
    if width < 0:
        return before, len(numbers)
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    texts = [f"{first:0{width}}" if first == last else f"{first:0{width}}-{last:0{width}}" for first, last in ranges]
    inside = ",".join(texts)
    is_single = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
    return f"{before}{inside}{after}" if is_single else f"{before}[{inside}]{after}", len(numbers)
