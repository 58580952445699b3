# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The little of TOML that is read and written here: what `containerd config dump` prints, the head of a file that a person
wrote, and one number in one of its tables. Whatever is written is judged by containerd's own reading before it counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Optional, Union

Scalar = Union[bool, int, str]

_PART = r"""(?:"[^"\\]*"|'[^']*'|[A-Za-z0-9_-]+)"""
_HEADER = re.compile(rf"""\s*\[\s*({_PART}(?:\s*\.\s*{_PART})*)\s*\]\s*(?:\#.*)?""")
_KEY = re.compile(rf"""\s*({_PART})\s*=\s*(.*?)\s*""")
_STRING = r"""(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_STRINGS = re.compile(rf"""\[(?:\s*{_STRING}\s*,)*\s*(?:{_STRING}\s*)?\]""")
_COMMENT = re.compile(rf"""({_STRING})|\#[^\n]*""")
# What a line has in its place between the writing and the restart: who finds it knows that the restart is still to come.
PENDING = "not in effect yet"


def quoted(text: str) -> str:
    """A basic string: quoted as in JSON, but characters beyond the basic plane as they are, and DEL escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def tables(text: str) -> dict[str, dict[str, Scalar]]:
    """The scalars of each table, by the table's name, its parts joined by dots; "" is the head. Arrays are left out, and a
    name whose parts hold dots reads like a deeper one: those of containerd's plugins do not clash."""
    found: dict[str, dict[str, Scalar]] = {"": {}}
    current = found[""]
    for line in _lines(_COMMENT.sub(lambda match: match[1] or "", text)):
        header, key = _HEADER.fullmatch(line), _KEY.fullmatch(line)
        if header:
            current = found.setdefault(_name(header[1]), {})
        elif line.lstrip().startswith("["):
            current = {}  # an array of tables
        elif key:
            value = _scalar(key[2])
            if value is not None:
                current[_unquoted(key[1])] = value
    return found


def head_version(text: str) -> int:
    """The version of a configuration file; 1 where it says none, as containerd takes it."""
    value = tables(_head(text))[""].get("version", 1)
    return value if isinstance(value, int) and not isinstance(value, bool) else 1


def head_imports(text: str) -> Optional[list[str]]:
    """What a configuration file imports, as written. None where that cannot be read."""
    plain = _COMMENT.sub(lambda match: match[1] or "", _head(text))
    start = re.search(r"^\s*imports\s*=\s*", plain, re.MULTILINE)
    if start is None:
        return []
    array = _STRINGS.match(plain, start.end())
    if array is None:
        return None
    return [_unquoted(word) for word in re.findall(_STRING, array[0])]


def number(text: str, table: str, key: str) -> Union[int, str, None]:
    """Of a file that a person wrote: the number in a table, PENDING where a restart is still to come, None where there is
    none. ValueError where there is not exactly one table of that name, or something else than a number."""
    at = _key_line(_lines(text), table, key)
    if at is None:
        return None
    match = _number_line(_lines(text)[at], key)
    if match is None:
        raise ValueError(f"{key} of [{table}] is not a number on a line of its own")
    return PENDING if PENDING in match["rest"] or match["value"] is None else int(match["value"])


def with_number(text: str, table: str, key: str, value: Optional[int], *, pending: bool) -> str:
    """The same text with another number there, marked while the restart is still to come; None takes the line away, or
    leaves the mark alone. What is not on that line stays byte for byte."""
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
        raise ValueError(f"{key} of [{table}] is not a number on a line of its own")
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
    """With their ends. To TOML but LF ends a line, with or without a CR before it."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _head(text: str) -> str:
    """What stands before the first table."""
    lines = _lines(text)
    for at, line in enumerate(lines):
        if _HEADER.fullmatch(line.rstrip("\r\n")) or line.lstrip().startswith("[["):
            return "".join(lines[:at])
    return text


def _table_line(lines: list[str], table: str) -> int:
    found = [at for at, line in enumerate(lines) if _is_header(line, table)]
    if len(found) != 1:
        raise ValueError(f"it has {len(found) or 'no'} tables [{table}]")
    return found[0]


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
    return ".".join(_unquoted(part) for part in re.findall(_PART, header))


def _unquoted(word: str) -> str:
    if word.startswith('"'):
        try:
            return str(json.loads(word))
        except ValueError:
            return word[1:-1]
    return word[1:-1] if word.startswith("'") else word


def _scalar(text: str) -> Optional[Scalar]:
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"[+-]?[0-9]+", text):
        return int(text)
    return _unquoted(text) if re.fullmatch(_STRING, text) else None


Tables = Mapping[str, Mapping[str, Scalar]]
