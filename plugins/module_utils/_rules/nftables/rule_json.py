# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parses the statements of a rule in the JSON of `nft -j list` (libnftables-json(5)) into the same values as rule_text.py.
Unknown statements become Unknown. nft writes statements that have no JSON form as text.

The functions for parts of a statement raise Unclear for a value that is not in the grammar.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Optional, Union

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
    Unknown,
    Verdict,
    Vmap,
)
from .rule_text import Unclear, parse_statements
from .vocabulary import (
    BIT_FIELDS,
    CT_KEYS,
    FIB_FLAGS,
    FIB_RESULTS,
    LIMIT_UNITS,
    LOG_OPTIONS,
    META_KEYS,
    NAT_FLAGS,
    PAYLOADS,
    comparison,
    one_of,
    reject_reason,
)

_OPERATORS = (EQUAL, UNEQUAL, ANY_BIT, "<", ">", "<=", ">=")


def statements_of(items: list[Any], *, family: str) -> tuple[Statement, ...]:
    """Parse the `expr` of a rule."""
    statements: list[Statement] = []
    for item in items:
        if isinstance(item, str):
            statements.extend(parse_statements(item, family=family))
            continue
        try:
            statements.append(_statement(item, family=family))
        except Unclear:
            statements.append(Unknown(json.dumps(item, sort_keys=True)))
    return tuple(statements)


# Checks of the shape of values


def having(value: Any, required: tuple[str, ...]) -> Mapping[str, Any]:
    """`value` as an object that has at least these members."""
    if not isinstance(value, dict) or not set(required) <= set(value):
        raise Unclear
    return value


def only(value: Any, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> Mapping[str, Any]:
    """`value` as an object that has these members and no others."""
    if not isinstance(value, dict) or not set(required) <= set(value) <= {*required, *optional}:
        raise Unclear
    return value


def _single(value: Any) -> tuple[str, Any]:
    """The name and value of the only member of an object."""
    if not isinstance(value, dict) or len(value) != 1:
        raise Unclear
    return next(iter(value.items()))


def as_list(value: Any) -> list[Any]:
    """A list; nft writes a list of one as just that element."""
    return value if isinstance(value, list) else [value]


def text_of(value: Any, allowed: Optional[tuple[str, ...]] = None) -> str:
    if not isinstance(value, str) or (allowed is not None and value not in allowed):
        raise Unclear
    return value


def number_in(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Unclear
    return value


def constant_in(value: Any) -> str:
    if isinstance(value, str) and not value.startswith("@"):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    kind, inner = _single(value)
    if kind == "prefix":
        prefix = only(inner, ("addr", "len"))
        return f"{constant_in(prefix['addr'])}/{number_in(prefix['len'])}"
    if kind == "range" and isinstance(inner, list) and len(inner) == 2:
        return f"{constant_in(inner[0])}-{constant_in(inner[1])}"
    raise Unclear


def key_in(value: Any) -> Key:
    if isinstance(value, dict) and "concat" in value and len(value) == 1:
        return tuple(constant_in(part) for part in as_list(value["concat"]))
    return (constant_in(value),)


def verdict_in(value: Any) -> Verdict:
    kind, inner = _single(value)
    if kind not in VERDICTS:
        raise Unclear
    if kind in (JUMP, GOTO):
        return Verdict(kind, text_of(only(inner, ("target",))["target"]) or _unclear())
    return Verdict(kind)


def _unclear() -> str:
    raise Unclear


def _referred_name(value: Any) -> str:
    name = text_of(value)
    if not name.startswith("@") or len(name) == 1:
        raise Unclear
    return name[1:]


# Expressions


def expression_in(value: Any) -> Expression:
    kind, inner = _single(value)
    if kind == "payload":
        protocol = text_of(only(inner, ("protocol", "field"))["protocol"], tuple(PAYLOADS))
        return Payload(protocol, text_of(inner["field"], PAYLOADS[protocol]))
    if kind == "meta":
        return Meta(text_of(only(inner, ("key",))["key"], META_KEYS))
    if kind == "ct":
        return Ct(text_of(only(inner, ("key",))["key"], CT_KEYS))
    if kind == "fib":
        flags = tuple(text_of(flag, FIB_FLAGS) for flag in as_list(only(inner, ("result", "flags"))["flags"]))
        return Fib(flags, text_of(inner["result"], FIB_RESULTS))
    if kind == "numgen":
        numgen = only(inner, ("mode", "mod"), ("offset",))
        mode = text_of(numgen["mode"], ("random", "inc"))
        return Numgen(number_in(numgen["mod"]), mode, number_in(numgen.get("offset", 0)))
    if kind == "concat":
        return Concat(tuple(expression_in(part) for part in as_list(inner)))
    if kind in ("&", "|", "^") and isinstance(inner, list) and len(inner) == 2:
        left = expression_in(inner[0])
        if isinstance(left, Binary) and left.operator != "&":  # as in rule_text.py
            raise Unclear
        return Binary(left, kind, constant_in(inner[1]))
    if kind == "map":
        lookup = only(inner, ("key", "data"))
        return MapLookup(expression_in(lookup["key"]), _map(lookup["data"], verdicts=False))
    raise Unclear


def _value(value: Any) -> Expression:
    """A constant or an expression."""
    if isinstance(value, (str, int)) or (isinstance(value, dict) and set(value) <= {"range", "prefix"}):
        return Constant((constant_in(value),))
    return expression_in(value)


def _map(data: Any, *, verdicts: bool) -> Union[Named, AnonymousMap]:
    if isinstance(data, str):
        return Named(_referred_name(data))
    pairs = only(data, ("set",))["set"]
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise Unclear
    return AnonymousMap(tuple((key_in(key), verdict_in(to) if verdicts else key_in(to)) for key, to in pairs))


# Statements


def _statement(item: Any, *, family: str) -> Statement:
    kind, inner = _single(item)
    if kind in VERDICTS:
        return verdict_in(item)
    if kind in ("masquerade", "redirect", "dnat", "snat"):
        return _nat(kind, inner, family=family)
    if kind == "reject":
        return _reject(inner, family=family)
    read = _STATEMENTS.get(kind)
    if read is None:
        raise Unclear
    return read(inner)


def _match(inner: Any) -> Match:
    match = only(inner, ("op", "left", "right"))
    operator = text_of(match["op"], _OPERATORS)
    left = expression_in(match["left"])
    right = match["right"]
    if isinstance(left, Fib) and isinstance(right, bool):
        return Match(left, AnonymousSet.of("exists" if right else "missing"), operator)
    if isinstance(right, str) and right.startswith("@"):
        return Match(left, Named(_referred_name(right)), operator)
    if isinstance(right, dict) and "set" in right:
        return Match(left, one_of(left, map(key_in, as_list(only(right, ("set",))["set"]))), operator)
    if (operator == ANY_BIT) != (left in BIT_FIELDS) and (operator == ANY_BIT or isinstance(right, list)):
        raise Unclear
    return comparison(left, tuple(key_in(key) for key in as_list(right)), operator)


def _vmap(inner: Any) -> Vmap:
    lookup = only(inner, ("key", "data"))
    return Vmap(expression_in(lookup["key"]), _map(lookup["data"], verdicts=True))


def _mangle(inner: Any) -> Mangle:
    target = expression_in(only(inner, ("key", "value"))["key"])
    if not isinstance(target, (Meta, Ct, Payload)):
        raise Unclear
    return Mangle(target, _value(inner["value"]))


def _nat(kind: str, inner: Any, *, family: str) -> Nat:
    nat = only({} if inner is None else inner, (), ("family", "addr", "port", "flags", "type_flags"))
    address = _value(nat["addr"]) if "addr" in nat else None
    flags = tuple(sorted(text_of(flag, NAT_FLAGS) for flag in as_list(nat.get("flags", []))))
    nat_family = text_of(nat.get("family", ""), ("", "ip", "ip6"))
    port = _value(nat["port"]) if "port" in nat else None
    if (address or port) is None and kind in ("dnat", "snat"):
        raise Unclear
    return Nat(kind, address, port, flags, nat_family if family == "inet" else "")


def _reject(inner: Any, *, family: str) -> Reject:
    reject = only({} if inner is None else inner, (), ("type", "expr"))
    words = [constant_in(reject[member]) for member in ("type", "expr") if member in reject]
    return Reject(reject_reason(" ".join(words), family=family))


def _counter(inner: Any) -> Counter:
    if isinstance(inner, str):
        return Counter(inner)
    counter = only({"packets": 0, "bytes": 0} if inner is None else inner, ("packets", "bytes"))
    return Counter("", number_in(counter["packets"]), number_in(counter["bytes"]))


def _limit(inner: Any) -> Limit:
    limit = only(inner, ("rate", "per", "burst"), ("inv", "rate_unit", "burst_unit"))
    unit = text_of(limit.get("rate_unit", "packets"), LIMIT_UNITS)
    burst = number_in(limit["burst"])
    burst_unit = text_of(limit.get("burst_unit", "packets" if unit == "packets" else "bytes"), LIMIT_UNITS)
    per = text_of(limit["per"], ("second", "minute", "hour", "day", "week"))
    return Limit(number_in(limit["rate"]), per, unit, burst, burst_unit, limit.get("inv", False) is True)


def _log(inner: Any) -> Log:
    options = only({} if inner is None else inner, (), LOG_OPTIONS)
    values = [(name, ",".join(constant_in(part) for part in as_list(value))) for name, value in options.items()]
    return Log(tuple(sorted(values)))


def _set_update(inner: Any) -> SetUpdate:
    return _update(only(inner, ("op", "elem", "set")), name=inner["set"], data=None)


def _map_update(inner: Any) -> SetUpdate:
    return _update(only(inner, ("op", "elem", "data", "map")), name=inner["map"], data=_value(inner["data"]))


def _update(update: Mapping[str, Any], *, name: Any, data: Optional[Expression]) -> SetUpdate:
    operation = text_of(update["op"], ("add", "update", "delete"))
    key = update["elem"]
    seconds = 0
    if isinstance(key, dict) and "elem" in key:
        element = only(only(key, ("elem",))["elem"], ("val",), ("timeout",))
        seconds = number_in(element.get("timeout", 0))
        key = element["val"]
    return SetUpdate(_referred_name(name), expression_in(key), data, operation, seconds)


_STATEMENTS: dict[str, Callable[[Any], Statement]] = {
    "match": _match,
    "vmap": _vmap,
    "mangle": _mangle,
    "counter": _counter,
    "limit": _limit,
    "log": _log,
    "notrack": lambda _inner: Notrack(),
    "set": _set_update,
    "map": _map_update,
}
