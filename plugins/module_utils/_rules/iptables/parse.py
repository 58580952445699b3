# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parse the output of iptables-save, either variant, 1.8.7 to 1.8.11.

The grammar covers what kube-proxy (1.29 to 1.37, iptables and ipvs mode), the kubelet and this collection write, as
iptables-save prints it: networks, interfaces and protocol first, then each match with its options, then the target. Other
matches and targets are kept as Unknown with their text, so that the rest of the rule can be read. Text that iptables-save
cannot have printed is refused with its line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Optional

from ..._core.host.gc_pause import pause_collection
from ..._core.text.errors import BallastError
from .grammar import Refused, plain_address, protocol, read_match, read_target
from .messages import MESSAGES
from .objects import (
    BUILT_IN,
    Chain,
    Destination,
    Goto,
    InInterface,
    Jump,
    Match,
    OutInterface,
    Protocol,
    Rule,
    Source,
    Tables,
    Target,
    Unknown,
    network,
    rule,
    tables,
)

# An unterminated quotation matches too, up to the end of the line, so that the search is linear for any text.
_TOKEN = re.compile(r'(?P<quoted>"(?:[^"\\]|\\.)*)(?P<end>"?)|[^\s"]+')
_ESCAPED = re.compile(r"\\(.)")
_COUNTERS = re.compile(r"\[\d{1,20}:\d{1,20}\]", re.ASCII)
_CHAIN_NAME = re.compile(r"[!-~]{1,28}", re.ASCII)  # XT_EXTENSION_MAXNAMELEN minus the terminating NUL
_HIDDEN = re.compile(r"# Table `(\S+)' is incompatible")
_COMMENT = ["comment", "--comment"]
_INTERFACE = re.compile(r"\S{1,16}")  # IFNAMSIZ minus the terminating NUL, plus a "+"


@pause_collection()
def parse(
    text: str,
    *,
    family: int,
    as_written: Collection[tuple[str, str]] = (),
    first_line: int = 1,
    refuse_hidden: bool = True,
) -> Tables:
    """Rules of built-in chains and of the chains `as_written`, (table, name), keep their original text. `first_line` is the
    number of the first line.

    Raises rules-iptables-line for a line that iptables-save cannot have printed, rules-iptables-cut for a table without an
    end, rules-iptables-hidden for a table that iptables-save says it cannot show."""
    chains_of: dict[str, dict[str, Chain]] = {}
    reader = _TableReader(family, as_written)
    number = 0
    for number, line in enumerate(text.split("\n"), first_line):
        try:
            if line.startswith("#"):
                if refuse_hidden:
                    _refuse_hidden(line, number)
            elif line.startswith("*"):
                reader.begin(line[1:].strip(), chains_of)
            elif line.rstrip() == "COMMIT":
                name, chains = reader.end()
                chains_of[name] = chains
            elif line.strip():
                reader.line(line)
        except Refused as refused:
            raise _line_error(number, line, str(refused)) from refused
    if reader.table:
        raise MESSAGES.error("rules-iptables-cut", table=reader.table, number=number)
    return tables(family, chains_of)


def _refuse_hidden(line: str, number: int) -> None:
    hidden = _HIDDEN.match(line)
    if hidden and hidden[1] in BUILT_IN:
        raise MESSAGES.error("rules-iptables-hidden", table=hidden[1], number=number)


def _line_error(number: int, line: str, problem: str) -> BallastError:
    return MESSAGES.error("rules-iptables-line", number=number, problem=problem, line=line)


class _TableReader:
    """Reads one table after the other. Chains are declared before rules, as iptables-save prints them."""

    def __init__(self, family: int, as_written: Collection[tuple[str, str]]) -> None:
        self.table = ""
        self._as_written = as_written
        self._family = family
        self._policies: dict[str, str] = {}
        self._rules: dict[str, list[Rule]] = {}
        self._networks: dict[str, str] = {}
        self._groups: dict[str, tuple[Match, ...]] = {}

    def begin(self, table: str, seen: Mapping[str, object]) -> None:
        if self.table:
            raise Refused(f"table {self.table} has not ended")
        if table not in BUILT_IN:
            raise Refused("there is no such table")
        if table in seen:
            raise Refused("a second table of this name; provide one address family at a time")
        self.table = table

    def end(self) -> tuple[str, dict[str, Chain]]:
        if not self.table:
            raise Refused("no table has begun")
        chains = {name: Chain(name, tuple(rules), self._policies[name]) for name, rules in self._rules.items()}
        name, self.table, self._policies, self._rules = self.table, "", {}, {}
        return name, chains

    def line(self, line: str) -> None:
        if not self.table:
            raise Refused("no table has begun")
        if line.startswith(":"):
            self._declare(line[1:].split())
            return
        tokens = _tokens(line)
        if tokens[0].startswith("[") and _COUNTERS.fullmatch(tokens[0]):
            tokens = tokens[1:]
        if len(tokens) < 2 or tokens[0] != "-A":
            raise Refused("neither a chain nor a rule")
        if tokens[1] not in self._rules:
            raise Refused(f"table {self.table} has no chain {tokens[1]}")
        # A program rewrites its own chains as a whole, but deletes its rules from a built-in chain individually.
        single = tokens[1] in BUILT_IN[self.table] or (self.table, tokens[1]) in self._as_written
        written = " ".join(tokens[2:]) if single else ""
        self._rules[tokens[1]].append(self._rule(tokens[2:], written=written))

    def _declare(self, words: Sequence[str]) -> None:
        if len(words) not in (2, 3) or (len(words) == 3 and not _COUNTERS.fullmatch(words[2])):
            raise Refused("not a chain")
        name, policy = words[:2]
        if not _CHAIN_NAME.fullmatch(name) or name in self._rules:
            raise Refused("not a name of a chain, or declared a second time")
        built_in = name in BUILT_IN[self.table]
        if policy not in (("ACCEPT", "DROP") if built_in else ("-",)):
            raise Refused("this chain cannot have this policy")
        self._policies[name] = policy if built_in else ""
        self._rules[name] = []

    def _rule(self, tokens: Sequence[str], *, written: str) -> Rule:
        matches: list[Match] = []
        comment = ""
        target: Optional[Target] = None
        place = 0
        while place < len(tokens):
            word = tokens[place]
            if word in ("-j", "-g"):
                target = self._target(tokens[place:])
                break
            if word == "-m":
                end = _group_end(tokens, place)
                group = tokens[place:end]
                if not comment and group[1:3] == _COMMENT:
                    comment = _unquote(group[3])
                else:
                    matches.extend(self._group(group))
            elif "-f" in tokens[place : place + 2] and word in ("-f", "!"):
                end = place + 1 + (word == "!")  # the only option without a value: fragments
                matches.append(Unknown(" ".join(tokens[place:end])))
            else:
                end = place + (3 if word == "!" else 2)
                matches.append(self._basic(tokens[place:end]))
            place = end
        return rule(*matches, target=target, comment=comment, written=written)

    def _basic(self, words: Sequence[str]) -> Match:
        """`[!] OPTION VALUE`, a match without an extension."""
        negated = words[0] == "!"
        if len(words) < 2 + negated:
            raise Refused(f"{words[-1]} has no value")
        option, value = words[-2:]
        if option == "-s":
            return Source(self._network(value), negated)
        if option == "-d":
            return Destination(self._network(value), negated)
        if option == "-p":
            return Protocol(protocol(value), negated)
        if option in ("-i", "-o"):
            if not _INTERFACE.fullmatch(value):
                raise Refused(f"{value} is not a name of an interface")
            return InInterface(value, negated) if option == "-i" else OutInterface(value, negated)
        raise Refused(f"{option} is not an option that iptables-save prints here")

    def _network(self, text: str) -> str:
        known = self._networks.get(text)
        if known is None:
            address, slash, length = text.partition("/")
            single = not slash or length == ("32" if self._family == 4 else "128")
            try:
                known = network(plain_address(address) if single else text)
            except ValueError as error:
                raise Refused(f"{text} is not a network") from error
            if (":" in known) != (self._family == 6):
                raise Refused(f"{text} is not of IPv{self._family}")
            self._networks[text] = known
        return known

    def _group(self, tokens: Sequence[str]) -> tuple[Match, ...]:
        """The matches of `-m NAME OPTIONS`. Cached, since most rules use the same few."""
        text = " ".join(tokens)
        known = self._groups.get(text)
        if known is None:
            if len(tokens) < 2:
                raise Refused("-m has no name")
            known = read_match(tokens[1], tokens[2:])
            if known is None:
                known = (Unknown(text),)
            self._groups[text] = known
        return known

    def _target(self, tokens: Sequence[str]) -> Target:
        if len(tokens) < 2:
            raise Refused(f"{tokens[0]} has no target")
        name = tokens[1]
        if name in self._rules and name not in BUILT_IN[self.table]:
            if len(tokens) > 2:
                raise Refused(f"chain {name} takes no options")
            return Jump(name) if tokens[0] == "-j" else Goto(name)
        target = read_target(name, tokens[2:]) if tokens[0] == "-j" else None
        return Unknown(" ".join(tokens)) if target is None else target


def _tokens(line: str) -> list[str]:
    """The words of a line. A quoted text is one word, with its quotes."""
    words: list[str] = []
    if "\\" not in line:  # almost every line; seven times as fast
        for place, part in enumerate(line.split('"')):
            if place % 2:
                words.append(f'"{part}"')
            else:
                words.extend(part.split())
        if line.count('"') % 2:
            raise Refused("a quotation that is not closed")
        return words
    for match in _TOKEN.finditer(line):
        if match["quoted"] and not match["end"]:
            raise Refused("a quotation that is not closed")
        words.append(match[0])
    return words


def _unquote(token: str) -> str:
    return _ESCAPED.sub(r"\1", token[1:-1]) if token.startswith('"') else token


def _group_end(tokens: Sequence[str], place: int) -> int:
    """Where the options of the match at `place` end: at the next match or at the target."""
    if list(tokens[place + 1 : place + 3]) == _COMMENT:
        if place + 4 > len(tokens):
            raise Refused("a comment without text")
        return place + 4  # the text may look like an option: iptables-save does not always quote it
    end = place + 1
    while end < len(tokens) and tokens[end] not in ("-m", "-j", "-g"):
        end += 1
    return end
