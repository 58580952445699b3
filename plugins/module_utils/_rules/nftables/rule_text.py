# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parses one rule, as `nft list` prints it, into statements.

The grammar is closed: it covers our own compiler, kube-proxy 1.29 to 1.37, and common firewall rules. The part of a rule
that it does not cover becomes one `Unknown`; a verdict at the end of the rule is still parsed: `tcp flags & (fin | syn) ==
syn drop` is an Unknown and a drop.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Optional, Union

from .expressions import (
    ANY_BIT,
    EQUAL,
    GOTO,
    JUMP,
    UNEQUAL,
    VERDICTS,
    AnonymousMap,
    AnonymousSet,
    Binary,
    Concat,
    Constant,
    Counter,
    Ct,
    Expression,
    Fib,
    Key,
    Limit,
    Log,
    Mangle,
    MapLookup,
    Match,
    Meta,
    Named,
    Nat,
    Notrack,
    Numgen,
    Payload,
    Reject,
    SetUpdate,
    Statement,
    Target,
    Unknown,
    Verdict,
    Vmap,
)
from .objects import Rule
from .vocabulary import (
    BIT_FIELDS,
    CT_KEYS,
    DEFAULT_BURST,
    FIB_FLAGS,
    FIB_RESULTS,
    LIMIT_UNITS,
    LOG_OPTIONS,
    META_INTERFACES,
    META_KEYS,
    NAT_FLAGS,
    PAYLOADS,
    comparison,
    constant_of,
    number_of,
    one_of,
    reject_reason,
    seconds_of,
)

_WORDS = re.compile(r'"[^"]*"|[{},]|[^\s{},"]+|"')
_CONSTANT = re.compile(r'"[^"{},]*"|[\w.:/*+-]+', re.ASCII)
_BRACKETED = re.compile(r"\[([0-9a-fA-F:.-]+)\](?::([0-9-]+))?")
_RATE = re.compile(r"([a-z]*)/(second|minute|hour|day|week)")
_COMPARISONS = (EQUAL, UNEQUAL, "<", ">", "<=", ">=")
_BITWISE = {"&": "&", "|": "|", "^": "^", "and": "&", "or": "|", "xor": "^"}


# Expressions of two words, such as `tcp dport`.
_SIMPLE: dict[str, dict[str, Expression]] = {
    **{protocol: {field: Payload(protocol, field) for field in fields} for protocol, fields in PAYLOADS.items()},
    "meta": {key: Meta(key) for key in META_KEYS},
    "ct": {key: Ct(key) for key in CT_KEYS},
}


class Unclear(Exception):
    """The text is not in the grammar."""


def words_of(text: str) -> list[str]:
    """Split into quoted strings, braces, commas, and words. An unmatched quotation mark is a word of its own."""
    return _WORDS.findall(text)


def parse_rule(text: str, *, family: str) -> Rule:
    """Parse one line of a chain in a table of `family`. Parts that are not understood become Unknown."""
    words = words_of(text)
    handle = 0
    if words[-3:-1] == ["#", "handle"]:  # other remarks (`# xt_tcp`) stand for what nft could not print
        handle = number_of(words[-1]) or 0
        words = words[:-3]
    comment = ""
    if len(words) > 2 and words[-2] == "comment" and words[-1].startswith('"'):
        comment = words[-1][1:-1]
        words = words[:-2]
    return Rule(statements=_statements(words, family=family), comment=comment, handle=handle)


def parse_statements(text: str, *, family: str) -> tuple[Statement, ...]:
    """Parse statements that `nft -j` writes as text because they have no JSON form."""
    return _statements(words_of(text), family=family)


def parse_expression(text: str, *, family: str) -> Expression:
    """Parse the expression in a set's `typeof`. Raises Unclear."""
    reader = _Reader(words_of(text), family=family)
    expression = reader.expression()
    if reader.words[reader.at]:
        raise Unclear
    return expression


def _statements(words: list[str], *, family: str) -> tuple[Statement, ...]:
    reader = _Reader(words, family=family)
    statements: list[Statement] = []
    start = 0
    try:
        while reader.at < len(words):
            if statements and _ends_rule(statements[-1]):
                statements.pop()  # the words that follow qualify it, so it is unknown too
                raise Unclear
            start = reader.at
            statements.append(reader.statement())
    except Unclear:
        last = max((at for at in range(start + 1, len(words)) if words[at] in _VERDICT_WORDS), default=len(words))
        end = _Reader(words[last:], family=family)
        verdict: list[Statement] = []
        try:
            verdict = [end.statement()] if last < len(words) else []
        except Unclear:
            last = len(words)
        if last + end.at < len(words):
            verdict, last = [], len(words)
        statements += [Unknown(" ".join(words[start:last])), *verdict]
    return tuple(statements)


_VERDICT_WORDS = (*VERDICTS, "reject")


def _ends_rule(statement: Statement) -> bool:
    return isinstance(statement, (Verdict, Reject, Nat))


class _Reader:
    """A cursor over the words of one rule. `words` ends with "", so that lookahead needs no bounds check."""

    __slots__ = ("at", "family", "words")

    def __init__(self, words: list[str], *, family: str) -> None:
        self.words = [*words, ""]
        self.at = 0
        self.family = family

    # Words

    def take(self) -> str:
        word = self.words[self.at]
        if not word:
            raise Unclear
        self.at += 1
        return word

    def skip(self, word: str) -> bool:
        """Consume `word` if it is next; returns whether it was."""
        if self.words[self.at] != word:
            return False
        self.at += 1
        return True

    def need(self, word: str) -> None:
        if not self.skip(word):
            raise Unclear

    def one_of(self, allowed: tuple[str, ...]) -> str:
        word = self.take()
        if word not in allowed:
            raise Unclear
        return word

    def number(self) -> int:
        number = number_of(self.take())
        if number is None:
            raise Unclear
        return number

    # Constants

    def constant(self) -> str:
        word = self.take()
        if not _CONSTANT.fullmatch(word):
            raise Unclear
        return constant_of(word) if word[0] in '"0' else word

    def key(self) -> Key:
        first = self.constant()
        if self.words[self.at] != ".":
            return (first,)
        parts = [first]
        while self.skip("."):
            parts.append(self.constant())
        return tuple(parts)

    def name_after(self, word: str) -> str:
        """The name in `@name`."""
        if not word.startswith("@") or len(word) == 1:
            raise Unclear
        return word[1:]

    def verdict(self) -> Verdict:
        kind = self.one_of(VERDICTS)
        return Verdict(kind, self.chain_name() if kind in (JUMP, GOTO) else "")

    def chain_name(self) -> str:
        word = self.take()
        if word in ("{", "}", ",") or word.startswith('"'):
            raise Unclear
        return word

    # Expressions

    def expression(self) -> Expression:
        """An expression with concatenation, bit operations and map lookups."""
        whole = self.part()
        if self.words[self.at] == ".":
            parts = [whole]
            while self.skip("."):
                parts.append(self.part())
            whole = Concat(tuple(parts))
        if self.skip("map"):
            return MapLookup(whole, self.map(verdicts=False))
        return whole

    def part(self) -> Expression:
        at = self.at
        simple = _SIMPLE.get(self.words[at])
        part = simple.get(self.words[at + 1]) if simple is not None else None
        if part is not None:
            self.at += 2
        else:
            part = self.primary()
        while self.words[self.at] in _BITWISE:
            operator = _BITWISE[self.take()]
            if isinstance(part, Binary) and part.operator != "&":  # nft would group them differently
                raise Unclear
            part = Binary(part, operator, self.constant())
        return part

    def primary(self) -> Expression:
        word = self.take()
        if word in META_INTERFACES or word == "mark":
            return Meta(word)
        if word == "fib":
            return self.fib()
        if word == "numgen":
            return self.numgen()
        raise Unclear

    def fib(self) -> Fib:
        flags = [self.one_of(FIB_FLAGS)]
        while self.skip("."):
            flags.append(self.one_of(FIB_FLAGS))
        return Fib(tuple(flags), self.one_of(FIB_RESULTS))

    def numgen(self) -> Numgen:
        mode = self.one_of(("random", "inc"))
        self.need("mod")
        return Numgen(self.number(), mode, self.number() if self.skip("offset") else 0)

    def value(self) -> Expression:
        """The right-hand side of an assignment: an expression or a constant."""
        if number_of(self.words[self.at]) is not None:
            return Constant((self.constant(),))
        return self.expression()

    def map(self, *, verdicts: bool) -> Union[Named, AnonymousMap]:
        word = self.take()
        if word != "{":
            return Named(self.name_after(word))
        elements: list[tuple[Key, Target]] = []
        while True:
            key = self.key()
            self.need(":")
            elements.append((key, self.verdict() if verdicts else self.key()))
            if self.skip("}"):
                return AnonymousMap(tuple(elements))
            self.need(",")

    # Statements

    def statement(self) -> Statement:
        word = self.words[self.at]
        read = _STATEMENTS.get(word)
        if read is None:
            return self.match()
        if word not in VERDICTS:
            self.at += 1
        return read(self)

    def match(self) -> Statement:
        left = self.expression()
        word = self.words[self.at]
        if word == "vmap":
            self.at += 1
            return Vmap(left, self.map(verdicts=True))
        if word == "set":
            self.at += 1
            if not isinstance(left, (Meta, Ct, Payload)):
                raise Unclear
            return Mangle(left, self.value())
        operator = self.take() if word in _COMPARISONS else ""
        right = self.right_side()
        if self.words[self.at] == "/":  # `tcp flags syn / fin,syn`: a mask
            raise Unclear
        if isinstance(right, AnonymousSet):
            return Match(left, one_of(left, right.keys), operator or EQUAL)
        if isinstance(right, Named):
            return Match(left, right, operator or EQUAL)
        if len(right) > 1 and (operator or left not in BIT_FIELDS):
            raise Unclear
        return comparison(left, tuple(right), operator or (ANY_BIT if left in BIT_FIELDS else EQUAL))

    def right_side(self) -> Union[Named, AnonymousSet, list[Key]]:
        """`@name`, `{ ... }`, or bare constants; several bare constants are flags."""
        word = self.words[self.at]
        if word.startswith("@"):
            return Named(self.name_after(self.take()))
        braced = self.skip("{")
        keys = [self.key()]
        while self.skip(","):
            keys.append(self.key())
        if braced:
            self.need("}")
            return AnonymousSet(tuple(keys))
        return keys

    def reject(self) -> Reject:
        if not self.skip("with"):
            return Reject()
        protocol = self.one_of(("tcp", "icmp", "icmpv6", "icmpx"))
        self.skip("type")
        return Reject(reject_reason(f"{protocol} {self.constant()}", family=self.family))

    def counter(self) -> Counter:
        name = constant_of(self.take()) if self.skip("name") else ""
        if not self.skip("packets"):
            return Counter(name)
        packets = self.number()
        self.need("bytes")
        return Counter(name, packets, self.number())

    def limit(self) -> Limit:
        self.need("rate")
        over = self.skip("over")
        word = self.take()
        amount, slash, per = word.partition("/")
        match = _RATE.fullmatch(slash + per if slash else self.take())
        rate = number_of(amount)
        if match is None or rate is None:
            raise Unclear
        unit = match[1] or "packets"
        if not self.skip("burst"):
            packets = unit == "packets"
            return Limit(rate, match[2], unit, DEFAULT_BURST if packets else 0, "packets" if packets else "bytes", over)
        return Limit(rate, match[2], unit, self.number(), self.one_of(LIMIT_UNITS), over)

    def log(self) -> Log:
        options: list[tuple[str, str]] = []
        while self.words[self.at] in LOG_OPTIONS:
            name = self.take()
            word = self.take()
            options.append((name, word[1:-1] if word.startswith('"') else word))
        return Log(tuple(sorted(options)))

    def nat(self) -> Nat:
        kind = self.words[self.at - 1]
        family = ""
        if kind in ("dnat", "snat") and self.words[self.at] in ("ip", "ip6"):
            family = self.take()
            if self.skip("addr"):
                self.need(".")
                self.need("port")
        address: Optional[Expression] = None
        port: Optional[Expression] = None
        if self.skip("to"):
            address, port = self.nat_target()
        if (address or port) is None and kind in ("dnat", "snat"):
            raise Unclear
        flags = []
        while self.words[self.at] in NAT_FLAGS:
            flags.append(self.take())
            if not self.skip(","):
                break
        return Nat(kind, address, port, tuple(sorted(flags)), family if self.family == "inet" else "")

    def nat_target(self) -> tuple[Optional[Expression], Optional[Expression]]:
        word = self.words[self.at]
        if word in _SIMPLE or word in META_INTERFACES or word in ("mark", "fib", "numgen"):
            lookup = self.expression()
            if not isinstance(lookup, MapLookup):
                raise Unclear
            return lookup, None
        self.at += 1
        bracketed = _BRACKETED.fullmatch(word)
        if bracketed is not None:
            address, port = bracketed.groups(default="")
        elif not _CONSTANT.fullmatch(word) or word.startswith('"'):
            raise Unclear
        elif word.count(":") > 1:
            address, port = word, ""
        else:
            address, _colon, port = word.partition(":")
        return (Constant((address,)) if address else None, Constant((port,)) if port else None)

    def update(self) -> SetUpdate:
        operation = self.words[self.at - 1]
        name = self.name_after(self.take())
        self.need("{")
        key = self.expression()
        seconds: Optional[int] = 0
        if self.skip("timeout"):
            seconds = seconds_of(self.take())
        data = self.value() if self.skip(":") else None
        self.need("}")
        if seconds is None:
            raise Unclear
        return SetUpdate(name, key, data, operation, seconds)


_STATEMENTS: dict[str, Callable[[_Reader], Statement]] = {
    **dict.fromkeys(VERDICTS, _Reader.verdict),
    **dict.fromkeys(("dnat", "snat", "masquerade", "redirect"), _Reader.nat),
    **dict.fromkeys(("add", "update", "delete"), _Reader.update),
    "reject": _Reader.reject,
    "counter": _Reader.counter,
    "limit": _Reader.limit,
    "log": _Reader.log,
    "notrack": lambda _reader: Notrack(),
}
