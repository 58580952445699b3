# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The part of TOML that is needed here: the output of `containerd config dump`, the head of a hand-written file, and a number
in one of its tables. containerd itself verifies what is written, before it is restarted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Optional, Union

from ..._core.text.json_text import parse_json

Scalar = Union[bool, int, str]

_PART = r"""(?:"[^"\\]*"|'[^']*'|[A-Za-z0-9_-]+)"""
_HEADER = re.compile(rf"""\s*\[\s*({_PART}(?:\s*\.\s*{_PART})*)\s*\]\s*(?:\#.*)?""")
_KEY = re.compile(rf"""\s*({_PART})\s*=\s*(.*?)\s*""")
_STRING = r"""(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_STRINGS = re.compile(rf"""\[(?:\s*{_STRING}\s*,)*\s*(?:{_STRING}\s*)?\]""")
_COMMENT = re.compile(rf"""({_STRING})|\#[^\n]*""")
# Replaces the value of a line between the write and the restart: it means that the restart is still to come.
PENDING = "not in effect yet"


def parse_tables(text: str) -> dict[str, dict[str, Scalar]]:
    """The scalars of each table by the table's name, its parts joined by dots; "" is the head. Arrays are left out. A name whose parts
    contain dots looks like that of a deeper table, but the names of containerd's plugins do not clash."""
    result: dict[str, dict[str, Scalar]] = {"": {}}
    current = result[""]
    for line in _lines(_COMMENT.sub(lambda match: match[1] or "", text)):
        header, key = _HEADER.fullmatch(line), _KEY.fullmatch(line)
        if header:
            current = result.setdefault(_name(header[1]), {})
        elif line.lstrip().startswith("["):
            current = {}  # an array of tables
        elif key:
            value = _scalar(key[2])
            if value is not None:
                current[_unquote(key[1])] = value
    return result


def head_version(text: str) -> int:
    """The version of a configuration file; 1 if it has none, as in containerd."""
    value = parse_tables(_head(text))[""].get("version", 1)
    return value if isinstance(value, int) and not isinstance(value, bool) else 1


def head_imports(text: str) -> Optional[list[str]]:
    """The patterns as written. None if they cannot be read."""
    return head_strings(text, "imports")


def head_strings(text: str, key: str) -> Optional[list[str]]:
    """A list of strings in the head of a configuration file, such as its imports, as written. None if it cannot be read."""
    plain = _COMMENT.sub(lambda match: match[1] or "", _head(text))
    start = re.search(rf"^\s*{key}\s*=\s*", plain, re.MULTILINE)
    if start is None:
        return []
    array = _STRINGS.match(plain, start.end())
    if array is None:
        return None
    return [_unquote(word) for word in re.findall(_STRING, array[0])]


def read_number(text: str, table: str, key: str) -> Union[int, str, None]:
    """The number in a table of a hand-written file; PENDING until the restart, None if there is no number. ValueError
    unless there is exactly one such table, with a number on a line of its own."""
    at = _key_line(_lines(text), table, key)
    if at is None:
        return None
    match = _number_line(_lines(text)[at], key)
    if match is None:
        raise ValueError(f"{key} of [{table}] is not a number on its own line")
    return PENDING if PENDING in match["rest"] or match["value"] is None else int(match["value"])


def set_number(text: str, table: str, key: str, value: Optional[int], *, pending: bool) -> str:
    """The text with another number in the table, marked while the restart is pending; None removes the line, or leaves only the mark.
    All other lines stay byte for byte."""
    lines = _lines(text)
    at = _key_line(lines, table, key)
    if at is None:
        if value is None:
            return text
        at = _table_line(lines, table) + 1
        header = lines[at - 1]
        indent = header[: len(header) - len(header.lstrip())]
        lines[at - 1] = header if header.endswith("\n") else f"{header}\n"
        lines.insert(at, f"{indent}  {key} = 0\n")
    match = _number_line(lines[at], key)
    if match is None:
        raise ValueError(f"{key} of [{table}] is not a number on its own line")
    rest = match["rest"].replace(f" # {PENDING}", "").replace(f"# {PENDING}", "")
    mark = f" # {PENDING}" if pending else ""
    if value is not None:
        lines[at] = f"{match['indent']}{key}{match['equals'] or ' = '}{value}{rest}{mark}{match['end']}"
    elif pending:
        lines[at] = f"{match['indent']}# {key}:{mark}{match['end']}"
    else:
        del lines[at]
    return "".join(lines)


def _lines(text: str) -> list[str]:
    """The lines with their ends: in TOML only LF ends a line, with or without a CR before it."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _head(text: str) -> str:
    """The text before the first table."""
    lines = _lines(text)
    for at, line in enumerate(lines):
        if _HEADER.fullmatch(line.rstrip("\r\n")) or line.lstrip().startswith("[["):
            return "".join(lines[:at])
    return text


def _table_line(lines: list[str], table: str) -> int:
    matches = [at for at, line in enumerate(lines) if _is_header(line, table)]
    if len(matches) != 1:
        raise ValueError(f"it has {len(matches) or 'no'} tables [{table}]")
    return matches[0]


def _is_header(line: str, table: str) -> bool:
    match = _HEADER.fullmatch(line.rstrip("\r\n"))
    return match is not None and _name(match[1]) == table


def _key_line(lines: list[str], table: str, key: str) -> Optional[int]:
    for at in range(_table_line(lines, table) + 1, len(lines)):
        if lines[at].lstrip().startswith("["):
            return None
        if re.match(rf"\s*(?:\"{key}\"|'{key}'|{key})\s*=|\s*# {key}: # {PENDING}", lines[at]):
            return at
    return None


def _number_line(line: str, key: str) -> Optional[re.Match[str]]:
    form = rf"(?P<indent>\s*)(?:# {key}:|{key}(?P<equals>\s*=\s*)(?P<value>[0-9]+))(?P<rest>[ \t]*(?:\#[^\r\n]*)?)(?P<end>\r?\n?)"
    return re.fullmatch(form, line)


def _name(header: str) -> str:
    return ".".join(_unquote(part) for part in re.findall(_PART, header))


def _unquote(word: str) -> str:
    if word.startswith('"'):
        try:
            return str(parse_json(word))
        except ValueError:
            return word[1:-1]
    return word[1:-1] if word.startswith("'") else word


def _scalar(text: str) -> Optional[Scalar]:
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"[+-]?[0-9]+", text):
        return int(text)
    return _unquote(text) if re.fullmatch(_STRING, text) else None


Tables = Mapping[str, Mapping[str, Scalar]]
