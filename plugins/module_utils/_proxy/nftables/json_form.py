# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The output of `nft -j list ruleset` and `nft -j list table` (libnftables-json(5)), to the same tables as the text gives.

Members of tables, chains, sets and elements that are not known are refused; statements that are not known are Unknown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Optional

from .expressions import Expression, Key, Target
from .messages import MESSAGES
from .objects import FAMILIES, VERDICT, Chain, Element, Hook, Rule, Ruleset, Set, Table
from .rule_json import constant_in, expression_in, key_in, listed, number_in, only, statements_of, text_of, verdict_in
from .rule_text import Unclear
from .vocabulary import STATEFUL, parts_of, type_of

_CHILD = ("family", "table", "name")
_SET_OPTIONS = (
    "handle",
    "comment",
    "map",
    "policy",
    "flags",
    "timeout",
    "gc-interval",
    "size",
    "auto-merge",
    "elem",
    "stmt",
)
_OBJECTS = (
    "counter",
    "quota",
    "limit",
    "flowtable",
    "secmark",
    "synproxy",
    "tunnel",
    "meter",
    "ct helper",
    "ct timeout",
    "ct expectation",
)


def parse_json(text: str) -> Ruleset:
    """Raises UserError `rules-nft-json` with the path of what it stopped at."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MESSAGES.error("rules-nft-json", path="the whole", problem="this is not JSON", value=error) from error
    items = document.get("nftables") if isinstance(document, dict) else None
    if not isinstance(items, list):
        raise MESSAGES.error("rules-nft-json", path="the whole", problem="there is no list nftables", value=text)
    reading = _Reading()
    for index, item in enumerate(items):
        try:
            reading.take(item)
        except (Unclear, RecursionError) as error:
            shown = error.args[0] if isinstance(error, Unclear) and error.args else json.dumps(item)
            path = f"nftables[{index}]"
            raise MESSAGES.error("rules-nft-json", path=path, problem="this is not known", value=shown) from error
    return reading.ruleset()


class _Reading:
    """Tables as their parts come by: nft lists rules after the chains that have them."""

    def __init__(self) -> None:
        self.tables: dict[tuple[str, str], Table] = {}
        self.chains: dict[tuple[str, str], dict[str, Chain]] = {}
        self.rules: dict[tuple[str, str, str], list[Rule]] = {}
        self.sets: dict[tuple[str, str], dict[str, Set]] = {}
        self.objects: dict[tuple[str, str], list[tuple[str, str]]] = {}

    def take(self, item: Any) -> None:
        if not isinstance(item, dict) or len(item) != 1:
            raise Unclear
        kind, value = next(iter(item.items()))
        if kind == "table":
            self.table(value)
        elif kind == "chain":
            self.chain(value)
        elif kind == "rule":
            self.rule(value)
        elif kind in ("set", "map"):
            self.set(value, is_map=kind == "map")
        elif kind in _OBJECTS and isinstance(value, dict):
            self.objects[self.home(value)].append((kind, text_of(value.get("name"))))
        elif kind != "metainfo":
            raise Unclear

    def home(self, value: Mapping[str, Any]) -> tuple[str, str]:
        """The table that something is in."""
        home = (text_of(value.get("family")), text_of(value.get("table")))
        if home not in self.tables:
            raise Unclear(f"table {home[0]} {home[1]} is not listed")
        return home

    def table(self, value: Any) -> None:
        table = only(value, ("family", "name"), ("handle", "flags", "comment"))
        family, name = text_of(table["family"], FAMILIES), text_of(table["name"])
        if (family, name) in self.tables:
            raise Unclear(f"table {family} {name} is there twice")
        flags = tuple(sorted(text_of(flag) for flag in listed(table.get("flags", []))))
        comment, handle = text_of(table.get("comment", "")), number_in(table.get("handle", 0))
        self.tables[family, name] = Table(family, name, flags=flags, comment=comment, handle=handle)
        self.chains[family, name] = {}
        self.sets[family, name] = {}
        self.objects[family, name] = []

    def chain(self, value: Any) -> None:
        hook_members = ("type", "hook", "prio", "policy", "dev")
        chain = only(value, _CHILD, ("handle", "comment", *hook_members))
        home, name = self.home(chain), text_of(chain["name"])
        if name in self.chains[home]:
            raise Unclear(f"chain {name} is there twice")
        base: Optional[Hook] = None
        if set(chain) & set(hook_members):
            policy = text_of(chain.get("policy", "accept"), ("accept", "drop"))
            devices = tuple(text_of(device) for device in listed(chain.get("dev", [])))
            kind, hook = text_of(chain.get("type")), text_of(chain.get("hook"))
            base = Hook(kind, hook, number_in(chain.get("prio")), policy, devices)
        comment, handle = text_of(chain.get("comment", "")), number_in(chain.get("handle", 0))
        self.chains[home][name] = Chain(name, (), base, comment, handle)

    def rule(self, value: Any) -> None:
        rule = only(value, ("family", "table", "chain", "expr"), ("handle", "comment", "index"))
        home, chain = self.home(rule), text_of(rule["chain"])
        if chain not in self.chains[home]:
            raise Unclear(f"chain {chain} is not listed")
        if not isinstance(rule["expr"], list):
            raise Unclear
        statements = statements_of(rule["expr"], family=home[0])
        comment, handle = text_of(rule.get("comment", "")), number_in(rule.get("handle", 0))
        self.rules.setdefault((*home, chain), []).append(Rule(statements, comment, handle))

    def set(self, value: Any, *, is_map: bool) -> None:
        found = only(value, (*_CHILD, "type"), _SET_OPTIONS)
        home, name = self.home(found), text_of(found["name"])
        if name in self.sets[home]:
            raise Unclear(f"set {name} is there twice")
        if ("map" in found) != is_map:
            raise Unclear
        key, key_typeof = _types(found["type"])
        data, data_typeof = _types(found["map"]) if is_map else ((), ())
        flags = {
            text_of(flag, ("constant", "interval", "timeout", "dynamic")) for flag in listed(found.get("flags", []))
        }
        statements = listed(found.get("stmt", []))
        self.sets[home][name] = Set(
            name=name,
            key=key,
            data=data,
            elements=_elements(found.get("elem", []), width=len(key), data=data),
            flags=tuple(sorted(flags - {"dynamic"})),
            dynamic="dynamic" in flags,
            auto_merge=found.get("auto-merge", False) is True,
            timeout_seconds=number_in(found.get("timeout", 0)),
            size=number_in(found.get("size", 0)),
            counter=any(isinstance(statement, dict) and "counter" in statement for statement in statements),
            others=_others(found, statements),
            comment=text_of(found.get("comment", "")),
            key_typeof=key_typeof,
            data_typeof=data_typeof,
            handle=number_in(found.get("handle", 0)),
        )

    def ruleset(self) -> Ruleset:
        return Ruleset({home: self.finished(home, table) for home, table in self.tables.items()})

    def finished(self, home: tuple[str, str], table: Table) -> Table:
        chains = {
            chain.name: Chain(
                chain.name, tuple(self.rules.get((*home, chain.name), ())), chain.base, chain.comment, chain.handle
            )
            for chain in self.chains[home].values()
        }
        objects = tuple(sorted(self.objects[home]))
        return Table(*home, chains, self.sets[home], table.flags, objects, table.comment, table.handle)


def _types(value: Any) -> tuple[tuple[str, ...], tuple[Expression, ...]]:
    """Names of types: one, a list, or joined by dots; or, of newer nft, the expressions that have them."""
    if isinstance(value, dict):
        parts = parts_of(expression_in(only(value, ("typeof",))["typeof"]))
        return tuple(type_of(part) for part in parts), parts
    return tuple(part for name in listed(value) for part in text_of(name).split(" . ")), ()


def _others(found: Mapping[str, Any], statements: list[Any]) -> tuple[str, ...]:
    """As text has them."""
    others = [json.dumps(one, sort_keys=True) for one in statements if not (isinstance(one, dict) and "counter" in one)]
    if "gc-interval" in found:
        others.append(f"gc-interval {number_in(found['gc-interval'])}s")
    if "policy" in found:
        others.append(f"policy {text_of(found['policy'])}")
    return tuple(sorted(others))


def _elements(items: Any, *, width: int, data: tuple[str, ...]) -> dict[Key, Element]:
    if not isinstance(items, list):
        raise Unclear
    is_vmap = data == (VERDICT,)
    elements: dict[Key, Element] = {}
    for item in items:
        try:
            target: Optional[Target] = None
            if data:
                if not isinstance(item, list) or len(item) != 2:
                    raise Unclear
                item, to = item
                target = verdict_in(to) if is_vmap else key_in(to)
            element = _element(item, target)
        except Unclear as error:
            raise Unclear(f"element {json.dumps(item)}") from error
        if (len(element.key) != width and element.key != ("*",)) or element.key in elements:
            raise Unclear(f"element {json.dumps(item)}")
        elements[element.key] = element
    return elements


def _element(item: Any, target: Optional[Target]) -> Element:
    if isinstance(item, str):
        return Element((constant_in(item),), target)
    if isinstance(item, dict) and "elem" in item:
        element = only(only(item, ("elem",))["elem"], ("val",), ("comment", "timeout", "expires", *STATEFUL))
        comment, seconds = text_of(element.get("comment", "")), number_in(element.get("timeout", 0))
        return Element(key_in(element["val"]), target, comment, seconds)
    return Element(key_in(item), target)
