# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parses the output of `nft list ruleset` and `nft list table`, with or without `-a`, of nft 1.0 and later.

Unknown or truncated structure is refused with its line number. Unknown parts of rules are kept as Unknown, because the
firewalls of other programs are parsed too.
"""

from __future__ import annotations

import re
from typing import Optional

from ..._core.text.errors import BallastError
from .expressions import GOTO, JUMP, VERDICTS, Expression, Key, Target, Unknown, Verdict
from .messages import MESSAGES
from .objects import FAMILIES, VERDICT, Chain, Element, Hook, Rule, Ruleset, Set, Table
from .rule_text import Unclear, parse_expression, parse_rule, words_of
from .vocabulary import (
    SERVICE_TYPES,
    STATEFUL,
    constant_of,
    name_parts,
    named_parts,
    number_of,
    parts_of,
    priority_of,
    seconds_of,
    type_of,
)

_OPENING = re.compile(r"(\S+(?: \S+)?) (\S+) \{(?:\s*# handle ([0-9]{1,18}))?")
_TABLE = re.compile(r"table (\S+) (\S+) \{(?:\s*#.*)?")
_HANDLE = re.compile(r"# handle ([0-9]{1,18})$")
_BASE = re.compile(
    r"type (\w+) hook (\w+)(?: device(?:s =)? (\{[^{}]*\}|\S+))? priority ([\w-]+(?: [+-] \w+)?);(?: policy (\w+);)?(?: [\w -]+;)*",
    re.ASCII,
)
_COMMENT = re.compile(r'comment "([^"]*)"')
_REMARK = re.compile(r"\s*#[^\"]*$")
_QUOTED = re.compile(r'"[^"]*"')
_KEEPING = ("gc-interval", "policy", "limit", "quota", "last", "ct", "synproxy", "connlimit")
_ELEMENT_OPTIONS = ("comment", "timeout", "expires")
_PART = r"(?:\"[0-9]+\"|[\w.:/*+-]+)"
_KEY = re.compile(rf"({_PART}(?: \. {_PART})*)((?: .*)?)", re.ASCII)
_DATA = re.compile(rf"{_PART}(?: \. {_PART})*", re.ASCII)


def parse_text(text: str, *, first_line: int = 1) -> Ruleset:
    """Raises UserError `rules-nft-text` with the line at which it stopped. `first_line` is the number of the first line."""
    return _Dump(text, first_line).ruleset()


class _Dump:
    """A cursor over the lines of a dump. `number` is that of the last line consumed."""

    def __init__(self, text: str, first_line: int) -> None:
        self.lines = text.rstrip().split("\n")
        self.number = 0
        self._before = first_line - 1

    def error(self, problem: str) -> BallastError:
        line = self.lines[self.number - 1] if 0 < self.number <= len(self.lines) else ""
        return MESSAGES.error("rules-nft-text", line=self.number + self._before, problem=problem, text=line.strip())

    def next_line(self, *, inside: str) -> str:
        """The next line that is not empty or a comment, without its indentation."""
        while self.number < len(self.lines):
            line = self.lines[self.number].strip()
            self.number += 1
            if line and not line.startswith("#"):
                return line
        raise self.error(f"it ends inside {inside}")

    def ruleset(self) -> Ruleset:
        tables: dict[tuple[str, str], Table] = {}
        while self.number < len(self.lines):
            line = self.lines[self.number].strip()
            self.number += 1
            if not line or line.startswith("#"):
                continue
            match = _TABLE.fullmatch(line)
            if match is None or match[1] not in FAMILIES:
                raise self.error("this does not start a table")
            if (match[1], match[2]) in tables:
                raise self.error("this table is listed twice")
            tables[match[1], match[2]] = self.table(match[1], match[2], handle=_handle_of(line))
        return Ruleset(tables)

    def table(self, family: str, name: str, *, handle: int) -> Table:
        chains: dict[str, Chain] = {}
        sets: dict[str, Set] = {}
        objects: list[tuple[str, str]] = []
        flags: tuple[str, ...] = ()
        comment = ""
        while True:
            line = self.next_line(inside=f"table {name}")
            if line == "}":
                break
            opening = _OPENING.fullmatch(line)
            if opening is None:
                quoted = _COMMENT.fullmatch(line)
                if quoted is not None:
                    comment = quoted[1]
                elif line.startswith("flags "):
                    flags = tuple(sorted(line[6:].split(",")))
                else:
                    raise self.error("not supported in a table")
                continue
            kind, child, number = opening[1], opening[2], int(opening[3] or 0)
            if (kind == "chain" and child in chains) or (kind in ("set", "map") and child in sets):
                raise self.error(f"this {kind} is listed twice")
            if kind == "chain":
                chains[child] = self.chain(child, family=family, handle=number)
            elif kind in ("set", "map"):
                sets[child] = self.set(child, kind=kind, family=family, handle=number)
            else:  # a named object: it has no effect unless a rule refers to it
                objects.append((kind, child))
                self.read_block(f"{kind} {child}")
        return Table(family, name, chains, sets, flags, tuple(sorted(objects)), comment, handle)

    def read_block(self, inside: str) -> list[str]:
        """The lines of a block, up to and including its closing brace."""
        lines = []
        depth = 1
        while depth > 0:
            lines.append(self.next_line(inside=inside))
            depth += lines[-1].count("{") - lines[-1].count("}")
        return lines

    # Chains

    def chain(self, name: str, *, family: str, handle: int) -> Chain:
        rules: list[Rule] = []
        base: Optional[Hook] = None
        comment = ""
        inside = f"chain {name}"
        while True:
            line = self.next_line(inside=inside)
            if line == "}":
                return Chain(name, tuple(rules), base, comment, handle)
            if line.startswith("type ") and " hook " in line:
                base = self.hook(line, family=family)
                continue
            if line.startswith("comment "):
                quoted = _COMMENT.fullmatch(line)
                if quoted is None:
                    raise self.error("this comment is not closed")
                comment = quoted[1]
                continue
            opening = _OPENING.fullmatch(line)
            if opening is not None and opening[1] in ("table", "chain", "set", "map"):
                raise self.error(f"this starts inside {inside}")
            if line.endswith("{"):  # an anonymous chain (`jump {`) or newer syntax: not understood, kept as one rule
                line = " ".join([line, *self.read_block(inside)])
            rules.append(parse_rule(line, family=family))

    def hook(self, line: str, *, family: str) -> Hook:
        match = _BASE.fullmatch(_REMARK.sub("", line))
        priority = None if match is None else priority_of(match[4].split(), family=family)
        if match is None or priority is None:
            raise self.error("unknown hook")
        if match[5] not in (None, "accept", "drop"):
            raise self.error("unknown policy")
        devices = tuple(constant_of(word) for word in words_of(match[3] or "") if word not in "{,}")
        return Hook(match[1], match[2], priority, match[5] or "accept", devices)

    # Sets and maps

    def set(self, name: str, *, kind: str, family: str, handle: int) -> Set:
        declared = _SetLines()
        inside = f"{kind} {name}"
        body = ""
        body_line = 0
        while True:
            line = self.next_line(inside=inside)
            if line == "}":
                break
            if line.startswith("elements = {"):
                body_line = self.number
                body = self.elements_text(line[len("elements = {") :], inside=inside)
            elif not declared.read(_REMARK.sub("", line), family=family):
                raise self.error("not supported in a set")
        if not declared.key:
            raise self.error(f"{inside} has no type")
        if (kind == "map") != bool(declared.data):
            raise self.error(f"the type of {inside} is not one of a {kind}")
        elements: dict[Key, Element] = {}
        if body:
            try:
                elements = _elements(body, declared)
            except ValueError as error:
                self.number = body_line
                raise self.error(f"element of {inside}: {error}") from error
        return Set(
            name=name,
            key=declared.key,
            data=declared.data,
            elements=elements,
            flags=tuple(sorted(set(declared.flags) - {"dynamic"})),
            dynamic="dynamic" in declared.flags,
            auto_merge=declared.auto_merge,
            timeout_seconds=declared.timeout_seconds,
            size=declared.size,
            counter=declared.counter,
            others=tuple(sorted(declared.others)),
            comment=declared.comment,
            key_typeof=declared.key_typeof,
            data_typeof=declared.data_typeof,
            handle=handle,
        )

    def elements_text(self, first: str, *, inside: str) -> str:
        """The text between the braces. The closing brace ends a line."""
        lines = [first.strip()]
        while not lines[-1].endswith("}"):
            lines.append(self.next_line(inside=inside))
        lines[-1] = lines[-1][:-1].rstrip()
        return " ".join(lines)


class _SetLines:
    """The attributes of a set, without its elements."""

    def __init__(self) -> None:
        self.key: tuple[str, ...] = ()
        self.data: tuple[str, ...] = ()
        self.key_typeof: tuple[Expression, ...] = ()
        self.data_typeof: tuple[Expression, ...] = ()
        self.flags: tuple[str, ...] = ()
        self.timeout_seconds = 0
        self.size = 0
        self.counter = False
        self.auto_merge = False
        self.comment = ""
        self.others: list[str] = []

    def read(self, line: str, *, family: str) -> bool:
        """Parse one attribute line; returns whether it was understood."""
        word, _blank, rest = line.partition(" ")
        if word == "type" and rest:
            key, _colon, data = rest.partition(" : ")
            self.key = tuple(key.split(" . "))
            self.data = tuple(data.split(" . ")) if data else ()
            return True
        if word == "typeof" and rest:
            key, _colon, data = rest.partition(" : ")
            self.key, self.key_typeof = _typeof(key, family=family)
            if data == VERDICT:
                self.data = (VERDICT,)
            elif data:
                self.data, self.data_typeof = _typeof(data, family=family)
            return True
        if word == "flags" and rest:
            self.flags = tuple(rest.split(","))
            return True
        if word == "timeout":
            seconds = seconds_of(rest)
            self.timeout_seconds = seconds or 0
            return seconds is not None
        if word == "size":
            size = number_of(rest)
            self.size = size or 0
            return size is not None
        if line == "auto-merge":
            self.auto_merge = True
            return True
        if line == "counter":
            self.counter = True
            return True
        quoted = _COMMENT.fullmatch(line)
        if quoted is not None:
            self.comment = quoted[1]
            return True
        if word in _KEEPING:
            seconds = seconds_of(rest)  # gc-interval, which JSON gives in seconds
            self.others.append(line if seconds is None else f"{word} {seconds}s")
            return True
        return False


def _typeof(text: str, *, family: str) -> tuple[tuple[str, ...], tuple[Expression, ...]]:
    try:
        parts = parts_of(parse_expression(text, family=family))
    except Unclear:
        parts = (Unknown(text),)
    return tuple(type_of(part) or f"typeof {text}" for part in parts), parts


def _handle_of(line: str) -> int:
    match = _HANDLE.search(line)
    return int(match[1]) if match else 0


# Elements. There are tens of thousands, so quoted strings are replaced once and the rest is split.


def _elements(body: str, declared: _SetLines) -> dict[Key, Element]:
    """Parse `10.0.0.1 . tcp . 80 comment "x" : goto y, ...`. ValueError with the element that is not understood."""
    strings: list[str] = []

    def put_aside(match: re.Match[str]) -> str:
        strings.append(match[0][1:-1])
        return f'"{len(strings) - 1}"'

    if '"' in body:
        body = _QUOTED.sub(put_aside, body)
    plain = not strings and "0x" not in body
    width = 0 if any(isinstance(part, Unknown) for part in declared.key_typeof) else len(declared.key)
    is_vmap = declared.data == (VERDICT,)
    is_foreign = not set(declared.key) <= set(SERVICE_TYPES)  # TCP flags may be "psh | ack": kept as one word
    named = named_parts(declared.key)
    ports = [place for place, of in enumerate(declared.key) if of == "inet_service"]
    elements: dict[Key, Element] = {}
    targets: dict[str, Optional[Target]] = {"": None}
    for item in body.split(","):
        left, colon, right = item.strip().partition(" : ")
        if is_foreign and " " in left and not colon:
            elements[(_show(left, strings),)] = Element((_show(left, strings),))
            continue
        match = _KEY.fullmatch(left)
        if match is None or bool(colon) != bool(declared.data):
            raise ValueError(_show(item, strings))
        written, options = match.groups()
        key = tuple(written.split(" . "))
        if not plain:
            key = tuple([_restore(part, strings) for part in key])
        if named:
            key = name_parts(key, named)
        for place in ports:
            if place < len(key) and not key[place][:1].isdigit() and key != ("*",):
                raise ValueError(f"{_show(item, strings)} (list ports as numbers: omit nft -S)")
        if (width and len(key) != width and key != ("*",)) or key in elements:
            raise ValueError(_show(item, strings))
        if right not in targets:
            target = _verdict(right) if is_vmap else _data(right, strings)
            if target is None:
                raise ValueError(_show(item, strings))
            targets[right] = target
        if options:
            comment, seconds = _options(options.split(), strings, item)
            elements[key] = Element(key, targets[right], comment, seconds)
        else:
            elements[key] = Element(key, targets[right])
    return elements


def _restore(part: str, strings: list[str]) -> str:
    return strings[int(part[1:-1])] if part.startswith('"') else constant_of(part)


def _show(item: str, strings: list[str]) -> str:
    return _QUOTED.sub(lambda match: f'"{strings[int(match[0][1:-1])]}"', item.strip()) if strings else item.strip()


def _verdict(text: str) -> Optional[Verdict]:
    kind, _blank, chain = text.partition(" ")
    if kind not in VERDICTS or " " in chain or (kind in (JUMP, GOTO)) != bool(chain):
        return None
    return Verdict(kind, chain)


def _data(text: str, strings: list[str]) -> Optional[Key]:
    if not _DATA.fullmatch(text):
        return None
    return tuple([_restore(part, strings) for part in text.split(" . ")])


def _options(words: list[str], strings: list[str], item: str) -> tuple[str, int]:
    """The comment and timeout of an element. Its expiry, counters and limits are runtime state and are ignored."""
    comment = ""
    timeout = 0
    pending = words[::-1]
    while pending:
        word = pending.pop()
        value = pending[-1] if pending else ""
        seconds = seconds_of(value)
        if word == "comment" and value.startswith('"'):
            comment = strings[int(value[1:-1])]
        elif word in ("timeout", "expires") and (seconds is not None or value == "never"):
            timeout = seconds or 0 if word == "timeout" else timeout
        elif word in STATEFUL:
            while len(pending) > 1 and pending[-2] not in (*_ELEMENT_OPTIONS, *STATEFUL):
                pending.pop()
        else:
            raise ValueError(_show(item, strings))
        pending = pending[:-1]
    return comment, timeout
