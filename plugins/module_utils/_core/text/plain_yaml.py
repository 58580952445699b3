# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plain YAML: the subset that Kubernetes configuration files use, read and written without PyYAML.

    key: value              mappings and lists in blocks, by indentation; a list may begin at the column of its key
    - value                 also "- key: value" and "- - value"
    [a, "b"], {}            on one line
    text, 'text', "text"    on one line
    # comment               and one "---" before the document

Everything else is refused with its line number: anchors, tags, non-empty flow mappings, multi-line strings (| and >),
duplicate keys, tabs. Values are resolved as document.py has PyYAML resolve them; generated tests compare the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

DEPTH_MOST = 100
INT = re.compile(r"[-+]?(0|[1-9][0-9]*)\Z", re.ASCII)
FLOAT = re.compile(r"[-+]?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?\Z", re.ASCII)
_DIGITS_MOST = 4300  # of a whole number: CPython's own limit
_KEY_MOST = 256  # YAML allows 1024
_TRUE = frozenset(("yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"))
_FALSE = frozenset(("no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"))
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_UNREADABLE = re.compile("[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_INDICATORS = "?:,[]{}#&*!|>'\"%@`"  # a plain scalar cannot begin with one of these
_PLAIN_IN_FLOW = re.compile(r"[A-Za-z0-9_./+-][A-Za-z0-9_./+=*%@-]*(?::[A-Za-z0-9_./+=*%@-]+)*")
_ESCAPED = {'"': '"', "\\": "\\", "/": "/", "n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0"}
_SINGLE = re.compile(r"'((?:[^']|'')*)'")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)")
_WORD = re.compile(r"[A-Za-z/_][A-Za-z0-9_./@%+=-]*(?::[A-Za-z0-9_./@%+=-]+)*")


class NotPlain(ValueError):
    """`line` is counted from 1; `reason` does not repeat the text, which may hold a secret."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


def parse_plain(text: str) -> Any:
    """NotPlain for everything outside the subset above, whether or not it is valid YAML."""
    lines = list(_lines(text))
    if not lines:
        return None
    reader = _Reader(lines)
    value = reader.block(lines[0].column, depth=1)
    if reader.at < len(lines):
        raise NotPlain(lines[reader.at].number, "its indentation matches no line before it")
    return value


def format_plain(value: Any) -> str:
    """A mapping or list of JSON data as plain YAML. Keys keep their order. Deterministic."""
    return "".join(f"{line}\n" for line in _format(value))


class _Line(NamedTuple):
    number: int
    column: int
    text: str  # without indentation and trailing blanks


def _lines(text: str) -> Iterator[_Line]:
    begun = False
    for number, raw in enumerate(text.split("\n"), 1):
        content = raw.strip(" ")
        if not content or content.startswith("#"):
            _refuse_signs(number, raw.replace("\t", " "))
            continue
        _refuse_signs(number, raw)
        if raw.startswith(("---", "...", "%")):
            if begun or raw.rstrip(" ") != "---":
                raise NotPlain(number, "several documents, a directive, or a document that begins on the line of ---")
            begun = True
            continue
        begun = True
        yield _Line(number, len(raw) - len(raw.lstrip(" ")), content)


def _refuse_signs(number: int, raw: str) -> None:
    if "\t" in raw:
        raise NotPlain(number, "a tab")
    if _UNREADABLE.search(raw):
        raise NotPlain(number, "a character that is not printable")


class _Reader:
    """Parses blocks from `lines`; `at` is the index of the next line."""

    def __init__(self, lines: list[_Line]) -> None:
        self._lines = lines
        self.at = 0

    def block(self, column: int, *, depth: int) -> Any:
        line = self._lines[self.at]
        if depth > DEPTH_MOST:
            raise NotPlain(line.number, f"it is nested more than {DEPTH_MOST} deep")
        return self._list(column, depth) if _is_item(line.text) else self._mapping(column, depth)

    def _list(self, column: int, depth: int) -> list[Any]:
        items: list[Any] = []
        while self._is_at(column) and _is_item(self._lines[self.at].text):
            line = self._lines[self.at]
            rest = line.text[1:].lstrip(" ")
            if _is_empty(rest):
                items.append(self._below(column, depth))
            elif _is_item(rest) or _Text(line.number, rest).find_key():
                inner = column + len(line.text) - len(rest)
                self._lines[self.at] = _Line(line.number, inner, rest)
                items.append(self.block(inner, depth=depth + 1))
            else:
                items.append(self._value(line.number, rest, column))
        return items

    def _mapping(self, column: int, depth: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        while self._is_at(column) and not _is_item(self._lines[self.at].text):
            line = self._lines[self.at]
            text = _Text(line.number, line.text)
            if not text.find_key():
                raise NotPlain(line.number, "it is not `key: value`, or is a multi-line string")
            key = text.key()
            if key in mapping:
                raise NotPlain(line.number, "a duplicate key")
            rest = text.rest.lstrip(" ")
            mapping[key] = self._value(line.number, rest, column) if not _is_empty(rest) else self._under(column, depth)
        return mapping

    def _under(self, column: int, depth: int) -> Any:
        """The value below a key. A list may begin at the key's own column."""
        value = self._below(column, depth)
        if value is None and self._is_at(column) and _is_item(self._lines[self.at].text):
            return self._list(column, depth + 1)
        return value

    def _below(self, column: int, depth: int) -> Any:
        """The nested block that follows the current line; None where the next line is not indented further."""
        self.at += 1
        if self.at < len(self._lines) and self._lines[self.at].column > column:
            return self.block(self._lines[self.at].column, depth=depth + 1)
        return None

    def _value(self, number: int, text: str, column: int) -> Any:
        """The value on this line. No indented line may follow."""
        value = _Text(number, text).value()
        self.at += 1
        if self.at < len(self._lines) and self._lines[self.at].column > column:
            raise NotPlain(self._lines[self.at].number, "it is indented below a value, or is a multi-line string")
        return value

    def _is_at(self, column: int) -> bool:
        return self.at < len(self._lines) and self._lines[self.at].column == column


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _is_empty(text: str) -> bool:
    return not text or text.startswith("#")


class _Text:
    """A parser for one line; `rest` is the part not consumed yet."""

    def __init__(self, number: int, text: str) -> None:
        self._number = number
        self.rest = text

    def find_key(self) -> bool:
        """Whether the line begins with a key."""
        if self.rest[0] in "'\"":
            match = (_SINGLE if self.rest[0] == "'" else _DOUBLE).match(self.rest)
            return match is not None and self._ends_key(match.end())
        return self.rest[0] not in _INDICATORS and self._ends_key(self._plain_end())

    def key(self) -> str:
        """Consume the key and its colon; `find_key` must have returned true."""
        length = len(self.rest)
        if self.rest[0] in "'\"":
            key = self._quotation()
        else:
            key = self._take(self._plain_end()).rstrip(" ")
            if key == "<<" or not isinstance(self._resolve(key), str):
                self._refuse("a key that is not a string")
        if length - len(self.rest) > _KEY_MOST:
            self._refuse(f"a key of more than {_KEY_MOST} characters")
        self._take(1)
        return key

    def value(self) -> Any:
        """Consume the value; only a comment may follow it."""
        first = self.rest[0]
        value: Any
        if self.rest.startswith("{}"):
            self._take(2)
            value = {}
        elif first == "[":
            value = self._brackets()
        elif first in "'\"":
            value = self._quotation()
        else:
            if first in _INDICATORS or _is_item(self.rest):
                self._refuse(f"a value that begins with {first}")
            end = self._plain_end()
            if end < len(self.rest) and self.rest[end] == ":":
                self._refuse("two keys on one line")
            value = self._resolve(self._take(end).rstrip(" "))
        blanks = len(self.rest) - len(self.rest.lstrip(" "))
        if self.rest[blanks:] and not (blanks and self.rest[blanks] == "#"):
            self._refuse("text after a value")
        return value

    def _ends_key(self, end: int) -> bool:
        return self.rest[end : end + 1] == ":" and self.rest[end + 1 : end + 2] in ("", " ")

    def _plain_end(self) -> int:
        """The offset where a plain scalar ends: before ": ", before " #", or at the end of the line."""
        match = re.search(r":(?= |\Z)| +(?=#)", self.rest)
        return len(self.rest) if match is None else match.start()

    def _brackets(self) -> list[Any]:
        items: list[Any] = []
        self._take(1)
        self._skip_blanks()
        while not self.rest.startswith("]"):
            items.append(self._quotation() if self.rest[:1] in ("'", '"') else self._resolve(self._flow_word()))
            self._skip_blanks()
            if self.rest.startswith(","):
                self._take(1)
                self._skip_blanks()
            elif not self.rest.startswith("]"):
                self._refuse("a bracketed list that is not closed on its line, or not plain")
        self._take(1)
        return items

    def _flow_word(self) -> str:
        match = _PLAIN_IN_FLOW.match(self.rest)
        if match is None or self.rest.startswith(("- ", "---")) or match[0] == "-":
            self._refuse("a bracketed value that is neither quoted nor a plain word")
        return self._take(match.end())

    def _quotation(self) -> str:
        pattern = _SINGLE if self.rest[0] == "'" else _DOUBLE
        match = pattern.match(self.rest)
        if match is None:
            self._refuse("a quotation mark that is not closed on its line")
        self._take(match.end())
        return match[1].replace("''", "'") if pattern is _SINGLE else _ESCAPE.sub(self._unescape, match[1])

    def _unescape(self, match: re.Match[str]) -> str:
        word = match[1]
        if len(word) > 1:
            code = int(word[1:], 16)
            if 0xD800 <= code < 0xE000 or code > 0x10FFFF:
                self._refuse("an escape that is not a character")
            return chr(code)
        if word not in _ESCAPED:
            self._refuse("an escape that is not plain")
        return _ESCAPED[word]

    def _resolve(self, text: str) -> Any:
        """Resolve a plain scalar as document.py has PyYAML resolve it."""
        if text in _NULL:
            return None
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        if INT.match(text):
            if len(text) > _DIGITS_MOST:
                self._refuse(f"a number of more than {_DIGITS_MOST} digits")
            return int(text)
        return float(text) if FLOAT.match(text) else text

    def _take(self, count: int) -> str:
        text, self.rest = self.rest[:count], self.rest[count:]
        return text

    def _skip_blanks(self) -> None:
        self.rest = self.rest.lstrip(" ")

    def _refuse(self, reason: str) -> NoReturn:
        raise NotPlain(self._number, reason)


def _format(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, part in value.items():
            head = f"{_text(key)}:"
            if _is_block(part):
                yield head
                indent = "" if isinstance(part, list) else "  "
                yield from (f"{indent}{line}" for line in _format(part))
            else:
                yield f"{head} {_scalar(part)}"
    elif isinstance(value, list) and value:
        for part in value:
            lines = list(_format(part)) if _is_block(part) else [_scalar(part)]
            yield f"- {lines[0]}"
            yield from (f"  {line}" for line in lines[1:])
    else:
        yield _scalar(value)


def _is_block(value: Any) -> bool:
    return isinstance(value, (Mapping, list)) and bool(value)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, list):
        return "[]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value)


def _text(text: str) -> str:
    """Without quotes where every version of YAML reads the same string. YAML 1.1 takes 0x1f, 1:30 and 1_000 for numbers."""
    if _WORD.fullmatch(text) and text not in _TRUE | _FALSE | _NULL | {"y", "Y", "n", "N"}:
        return text
    return f'"{"".join(map(_escape, text))}"'


def _escape(sign: str) -> str:
    if sign in '"\\':
        return f"\\{sign}"
    if sign == "\n":
        return "\\n"
    if not _UNREADABLE.match(sign):
        return sign
    code = ord(sign)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
