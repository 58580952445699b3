# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Renders tables and their parts as input for `nft -f`. Parsing the output gives the same values; equal values give equal
text.

nft has no escapes. A name, constant or comment that could end early and begin something else is refused: UserError
`rules-nft-unwritable`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Union

from .expressions import (
    ANY_BIT,
    EQUAL,
    AnonymousMap,
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
    Verdict,
    Vmap,
    key_order,
)
from .messages import MESSAGES
from .objects import Chain, Element, Hook, Rule, Ruleset, Set, Table
from .vocabulary import META_INTERFACES, parts_of, type_of

_NAME = re.compile(r"[A-Za-z_][\w./-]*", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9_.:/*+-]+")  # three times as fast as with \w
_KEY = re.compile(r"[\w.:/*+-]+(?: \. [\w.:/*+-]+)*", re.ASCII)
_OPTION = re.compile(r"[\w-]+( [\w-]+)*", re.ASCII)
_COUNTER = re.compile("counter")
_COMMENT_LIMIT = 128  # characters; nft rejects longer comments


def render_ruleset(ruleset: Ruleset) -> str:
    return "".join(render_table(ruleset.tables[at]) for at in sorted(ruleset.tables))


def render_table(table: Table) -> str:
    """A block `table ... { }`: sets by name, then chains by name.

    Named counters are rendered without their values; other named objects are refused.
    """
    lines = [f"table {_check(_NAME, table.family, 'family')} {name(table.name)} {{"]
    if table.comment:
        lines.append(f"\tcomment {quote(table.comment)}")
    if table.flags:
        lines.append(f"\tflags {','.join(_check(_NAME, flag, 'flag') for flag in table.flags)}")
    for kind, at in table.objects:
        lines += [f"\t{_check(_COUNTER, kind, 'object')} {name(at)} {{", "\t}"]
    for at in sorted(table.sets):
        lines.extend(_block(table.sets[at]))
    for at in sorted(table.chains):
        chain = table.chains[at]
        lines += [f"\tchain {name(chain.name)} {{", *(f"\t\t{line}" for line in chain_lines(chain)), "\t}"]
    return "\n".join([*lines, "}", ""])


def _block(of: Set) -> Iterator[str]:
    yield f"\t{'map' if of.is_map else 'set'} {name(of.name)} {{"
    for line in set_lines(of):
        yield f"\t\t{line}"
    if of.elements:
        elements = sorted(of.elements.values(), key=lambda element: key_order(element.key))
        yield f"\t\telements = {{ {render_elements(of, elements)} }}"
    yield "\t}"


# Chains and rules


def chain_lines(chain: Chain) -> Iterator[str]:
    """What is in the block of a chain: its hook, its comment and its rules."""
    if chain.base is not None:
        yield hook_line(chain.base)
    if chain.comment:
        yield f"comment {quote(chain.comment)}"
    for rule in chain.rules:
        yield render_rule(rule)


def hook_line(hook: Hook) -> str:
    devices = ", ".join(quote(device) for device in hook.devices)
    where = f" devices = {{ {devices} }}" if devices else ""
    parts = [_check(_NAME, part, "hook") for part in (hook.type, hook.hook, hook.policy)]
    return f"type {parts[0]} hook {parts[1]}{where} priority {hook.priority}; policy {parts[2]};"


def render_rule(rule: Rule) -> str:
    words = [render_statement(statement) for statement in rule.statements]
    if rule.comment:
        words.append(f"comment {quote(rule.comment)}")
    return " ".join(words)


def render_statement(statement: Statement) -> str:
    if isinstance(statement, Match):
        return _match(statement)
    if isinstance(statement, Vmap):
        return f"{render_expression(statement.key)} vmap {_map(statement.key, statement.to)}"
    if isinstance(statement, Verdict):
        return _verdict(statement)
    if isinstance(statement, Reject):
        return f"reject with {_check(_OPTION, statement.reason, 'reason')}" if statement.reason else "reject"
    if isinstance(statement, Mangle):
        return f"{render_expression(statement.target)} set {render_expression(statement.value)}"
    if isinstance(statement, Nat):
        return _nat(statement)
    if isinstance(statement, SetUpdate):
        return _set_update(statement)
    if isinstance(statement, Counter):
        return f"counter name {quote(statement.name)}" if statement.name else "counter"
    if isinstance(statement, Limit):
        return _limit(statement)
    if isinstance(statement, Notrack):
        return "notrack"
    if isinstance(statement, Log):
        return " ".join(["log", *(_log_option(option, value) for option, value in statement.options)])
    return statement.text


def _match(match: Match) -> str:
    left = render_expression(match.left)
    operator = "" if match.operator in (EQUAL, ANY_BIT) else f"{match.operator} "
    if isinstance(match.right, Named):
        return f"{left} {operator}@{name(match.right.name)}"
    keys = [_key(match.left, key) for key in match.right.keys]
    if match.operator == ANY_BIT:
        return f"{left} {','.join(keys)}"
    if len(keys) == 1 and not isinstance(match.left, Concat):
        explicit = "== " if isinstance(match.left, Binary) and not operator else operator
        return f"{left} {explicit}{keys[0]}"
    return f"{left} {operator}{{ {', '.join(keys)} }}"


def _nat(nat: Nat) -> str:
    words = [nat.kind]
    if isinstance(nat.address, MapLookup):
        # Even if the map's values include a port: nft accepts and lists this form, and derives it from the map's type.
        words.append(nat.family or _address_family(nat.address))
    elif nat.family:
        words.append(nat.family)
    address = render_expression(nat.address) if nat.address else ""
    port = render_expression(nat.port) if nat.port else ""
    if port and ":" in address:
        address = f"[{address}]"
    if address or port:
        words += ["to", f"{address}:{port}" if port else address]
    return " ".join([word for word in words if word] + ([",".join(nat.flags)] if nat.flags else []))


def _address_family(lookup: MapLookup) -> str:
    """The family of the addresses in an anonymous map, or else of the key; "" if neither has one: nft then uses that of the
    table."""
    if isinstance(lookup.to, AnonymousMap):
        targets = [target for _key, target in lookup.to.elements if not isinstance(target, Verdict)]
        return "ip6" if any(":" in target[0] for target in targets) else "ip"
    protocols = {part.protocol for part in parts_of(lookup.key) if isinstance(part, Payload)}
    return "ip6" if "ip6" in protocols else "ip" if "ip" in protocols else ""


def _set_update(update: SetUpdate) -> str:
    words = [
        _check(_NAME, update.operation, "operation"),
        f"@{name(update.name)}",
        "{",
        render_expression(update.key),
    ]
    if update.timeout_seconds:
        words += ["timeout", f"{update.timeout_seconds}s"]
    if update.data is not None:
        words += [":", render_expression(update.data)]
    return " ".join([*words, "}"])


def _limit(limit: Limit) -> str:
    unit = "" if limit.unit == "packets" else f" {_check(_NAME, limit.unit, 'unit')}"
    text = f"limit rate {'over ' if limit.over else ''}{limit.rate}{unit}/{_check(_NAME, limit.per, 'unit')}"
    return f"{text} burst {limit.burst} {_check(_NAME, limit.burst_unit, 'unit')}" if limit.burst else text


def _log_option(option: str, value: str) -> str:
    shown = quote(value) if option == "prefix" else _check(_WORD, value, "option")
    return f"{_check(_NAME, option, 'option')} {shown}"


# Expressions


def render_expression(expression: Expression) -> str:
    if isinstance(expression, Payload):
        return f"{expression.protocol} {expression.field}"
    if isinstance(expression, Meta):
        return expression.key if expression.key in META_INTERFACES else f"meta {expression.key}"
    if isinstance(expression, Ct):
        return f"ct {expression.key}"
    if isinstance(expression, Fib):
        return f"fib {' . '.join(expression.flags)} {expression.result}"
    if isinstance(expression, Numgen):
        offset = f" offset {expression.offset}" if expression.offset else ""
        return f"numgen {expression.mode} mod {expression.modulus}{offset}"
    if isinstance(expression, Concat):
        return " . ".join(render_expression(part) for part in expression.parts)
    if isinstance(expression, Binary):
        right = _constant(type_of(expression.left), expression.right)
        return f"{render_expression(expression.left)} {expression.operator} {right}"
    if isinstance(expression, Constant):
        return " . ".join(_check(_WORD, part, "constant") for part in expression.key)
    if isinstance(expression, MapLookup):
        return f"{render_expression(expression.key)} map {_map(expression.key, expression.to)}"
    return expression.text


def _map(key: Expression, to: Union[Named, AnonymousMap]) -> str:
    if isinstance(to, Named):
        return f"@{name(to.name)}"
    return "{ " + ", ".join(f"{_key(key, at)} : {_target(target)}" for at, target in to.elements) + " }"


def _key(expression: Expression, key: Key) -> str:
    types = [type_of(part) for part in parts_of(expression)]
    types += [""] * (len(key) - len(types))
    return " . ".join(_constant(kind, part) for kind, part in zip(types, key))


def _constant(kind: str, value: str) -> str:
    """Marks are bit masks, so they are rendered in hexadecimal. Interface names are quoted, because one may equal a keyword
    of nft."""
    if kind == "mark" and value.isdecimal() and value.isascii():
        return hex(int(value))
    return quote(value) if kind == "ifname" else _check(_WORD, value, "constant")


def _target(target: Target) -> str:
    if isinstance(target, Verdict):
        return _verdict(target)
    return " . ".join(_check(_WORD, part, "constant") for part in target)


@lru_cache(maxsize=1024)  # tens of thousands of elements lead to a few chains
def _verdict(verdict: Verdict) -> str:
    return f"{verdict.kind} {name(verdict.target)}" if verdict.target else verdict.kind


# Sets and elements


def set_lines(of: Set) -> Iterator[str]:
    """The lines of a set's or map's block, without its elements."""
    yield _type_line(of)
    flags = sorted([*of.flags, *(["dynamic"] if of.dynamic else [])])
    if flags:
        yield f"flags {','.join(_check(_NAME, flag, 'flag') for flag in flags)}"
    if of.timeout_seconds:
        yield f"timeout {of.timeout_seconds}s"
    if of.size:
        yield f"size {of.size}"
    if of.auto_merge:
        yield "auto-merge"
    if of.counter:
        yield "counter"
    for other in of.others:
        yield _check(_OPTION, other, "line")
    if of.comment:
        yield f"comment {quote(of.comment)}"


def _type_line(of: Set) -> str:
    if of.key_typeof:
        key = " . ".join(render_expression(part) for part in of.key_typeof)
        data = " . ".join(render_expression(part) for part in of.data_typeof) or " . ".join(of.data)
        return f"typeof {key} : {data}" if data else f"typeof {key}"
    types = [_check(_OPTION, part, "type") for part in (*of.key, *of.data)]
    if "integer" in types:
        raise MESSAGES.error("rules-nft-unwritable", what=f"without key_typeof, the type of {of.name}", value="integer")
    key = " . ".join(of.key)
    return f"type {key} : {' . '.join(of.data)}" if of.data else f"type {key}"


def render_elements(of: Set, elements: Iterable[Element], *, between: str = ",\n\t\t\t") -> str:
    """`10.0.0.1 . 80 : accept, ...` in the given order, for `elements = { }` and `add element ... { }`."""
    listed = list(elements)
    if {"ifname", "mark"} & {*of.key, *of.data}:
        return between.join(_texts(listed, partial(_join_constants, of.key), partial(_join_constants, of.data)))
    _check_words(listed)
    return between.join(_texts(listed, " . ".join, " . ".join))


def _texts(elements: Iterable[Element], written: Callable[[Key], str], value: Callable[[Key], str]) -> Iterator[str]:
    """Each element as text: `written` renders its key, `value` its target."""
    for key, target, comment, timeout_seconds in elements:
        text = written(key)
        if timeout_seconds:
            text += f" timeout {timeout_seconds}s"
        if comment:
            text += f" comment {quote(comment)}"
        if target is None:
            yield text
        elif isinstance(target, Verdict):
            yield f"{text} : {_verdict(target)}"
        else:
            yield f"{text} : {value(target)}"


def _join_constants(types: Sequence[str], values: Key) -> str:
    return " . ".join(_constant(kind, part) for kind, part in zip(types, values))


def _check_words(elements: Sequence[Element]) -> None:
    """Checks the words of all elements with one match, since there are tens of thousands."""
    words = list(itertools.chain.from_iterable([element.key for element in elements]))
    words += itertools.chain.from_iterable(
        [element.target for element in elements if isinstance(element.target, tuple)]
    )
    if not all(words) or not _WORD.fullmatch("".join(words)):
        for element in elements:
            _check(_KEY, " . ".join(element.key), "key")
            if isinstance(element.target, tuple):
                _check(_KEY, " . ".join(element.target), "value")


# Words


def name(value: str) -> str:
    return _check(_NAME, value, "name")


def quote(value: str) -> str:
    if '"' in value or not value.isprintable() or len(value) > _COMMENT_LIMIT:
        raise MESSAGES.error("rules-nft-unwritable", what="comment", value=value)
    return f'"{value}"'


def _check(pattern: re.Pattern[str], value: str, what: str) -> str:
    if not pattern.fullmatch(value):
        raise MESSAGES.error("rules-nft-unwritable", what=what, value=value)
    return value
