# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parses the output of `nft -j list ruleset` and `nft -j list table` (libnftables-json(5)) into the same tables as text.py.

Members that newer releases add to tables, chains and sets do not affect packets and are ignored. Unknown statements become
Unknown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Optional

from ..._core.text import json_text
from .expressions import Expression, Key, Target
from .messages import MESSAGES
from .objects import FAMILIES, VERDICT, Chain, Element, Hook, Rule, Ruleset, Set, Table
from .rule_json import (
    as_list,
    constant_in,
    expression_in,
    having,
    key_in,
    number_in,
    only,
    statements_of,
    text_of,
    verdict_in,
)
from .rule_text import Unclear
from .vocabulary import STATEFUL, name_parts, named_parts, parts_of, type_of

_CHILD = ("family", "table", "name")


def parse_json(text: str) -> Ruleset:
    """Raises UserError `rules-nft-json` with the path at which it stopped."""
    try:
        document = json_text.parse_json(text)
    except ValueError as error:
        raise MESSAGES.error("rules-nft-json", path="the whole", problem="this is not JSON", value=error) from error
    return parse_document(document)


def parse_document(document: Any) -> Ruleset:
    """parse_json for JSON that is decoded already."""
    items = document.get("nftables") if isinstance(document, dict) else None
    if not isinstance(items, list):
        shown = json.dumps(document)
        raise MESSAGES.error("rules-nft-json", path="the whole", problem="it lacks the list nftables", value=shown)
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
    """Collects the parts of tables, because nft lists rules after all chains."""

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
        elif kind != "metainfo":  # a named object: it has no effect unless a rule refers to it
            named = having(value, _CHILD)
            self.objects[self.home(named)].append((kind, text_of(named["name"])))

    def home(self, value: Mapping[str, Any]) -> tuple[str, str]:
        """The family and name of the table that contains `value`."""
        home = (text_of(value.get("family")), text_of(value.get("table")))
        if home not in self.tables:
            raise Unclear(f"table {home[0]} {home[1]} is not listed")
        return home

    def table(self, value: Any) -> None:
        table = having(value, ("family", "name"))
        family, name = text_of(table["family"], FAMILIES), text_of(table["name"])
        if (family, name) in self.tables:
            raise Unclear(f"table {family} {name} is listed twice")
        flags = tuple(sorted(text_of(flag) for flag in as_list(table.get("flags", []))))
        comment, handle = text_of(table.get("comment", "")), number_in(table.get("handle", 0))
        self.tables[family, name] = Table(family, name, flags=flags, comment=comment, handle=handle)
        self.chains[family, name] = {}
        self.sets[family, name] = {}
        self.objects[family, name] = []

    def chain(self, value: Any) -> None:
        hook_members = ("type", "hook", "prio", "policy", "dev")
        chain = having(value, _CHILD)
        home, name = self.home(chain), text_of(chain["name"])
        if name in self.chains[home]:
            raise Unclear(f"chain {name} is listed twice")
        base: Optional[Hook] = None
        if set(chain) & set(hook_members):
            policy = text_of(chain.get("policy", "accept"), ("accept", "drop"))
            devices = tuple(text_of(device) for device in as_list(chain.get("dev", [])))
            kind, hook = text_of(chain.get("type")), text_of(chain.get("hook"))
            base = Hook(kind, hook, number_in(chain.get("prio")), policy, devices)
        comment, handle = text_of(chain.get("comment", "")), number_in(chain.get("handle", 0))
        self.chains[home][name] = Chain(name, (), base, comment, handle)

    def rule(self, value: Any) -> None:
        rule = having(value, ("family", "table", "chain", "expr"))
        home, chain = self.home(rule), text_of(rule["chain"])
        if chain not in self.chains[home]:
            raise Unclear(f"chain {chain} is not listed")
        if not isinstance(rule["expr"], list):
            raise Unclear
        statements = statements_of(rule["expr"], family=home[0])
        comment, handle = text_of(rule.get("comment", "")), number_in(rule.get("handle", 0))
        self.rules.setdefault((*home, chain), []).append(Rule(statements, comment, handle))

    def set(self, value: Any, *, is_map: bool) -> None:
        members = having(value, (*_CHILD, "type"))
        home, name = self.home(members), text_of(members["name"])
        if name in self.sets[home]:
            raise Unclear(f"set {name} is listed twice")
        if ("map" in members) != is_map:
            raise Unclear
        key, key_typeof = _types(members["type"])
        data, data_typeof = _types(members["map"]) if is_map else ((), ())
        flags = {text_of(flag) for flag in as_list(members.get("flags", []))}
        statements = as_list(members.get("stmt", []))
        self.sets[home][name] = Set(
            name=name,
            key=key,
            data=data,
            elements=_elements(members.get("elem", []), types=key, data=data),
            flags=tuple(sorted(flags - {"dynamic"})),
            dynamic="dynamic" in flags,
            auto_merge=members.get("auto-merge", False) is True,
            timeout_seconds=number_in(members.get("timeout", 0)),
            size=number_in(members.get("size", 0)),
            counter=any(isinstance(statement, dict) and "counter" in statement for statement in statements),
            others=_others(members, statements),
            comment=text_of(members.get("comment", "")),
            key_typeof=key_typeof,
            data_typeof=data_typeof,
            handle=number_in(members.get("handle", 0)),
        )

    def ruleset(self) -> Ruleset:
        return Ruleset({home: self.assemble(home, table) for home, table in self.tables.items()})

    def assemble(self, home: tuple[str, str], table: Table) -> Table:
        chains = {
            chain.name: Chain(
                chain.name, tuple(self.rules.get((*home, chain.name), ())), chain.base, chain.comment, chain.handle
            )
            for chain in self.chains[home].values()
        }
        objects = tuple(sorted(self.objects[home]))
        return Table(*home, chains, self.sets[home], table.flags, objects, table.comment, table.handle)


def _types(value: Any) -> tuple[tuple[str, ...], tuple[Expression, ...]]:
    """The types of a set: one name, a list, names joined by dots; or, from newer nft, expressions that have those types."""
    if isinstance(value, dict):
        parts = parts_of(expression_in(only(value, ("typeof",))["typeof"]))
        return tuple(type_of(part) for part in parts), parts
    return tuple(part for name in as_list(value) for part in text_of(name).split(" . ")), ()


def _others(members: Mapping[str, Any], statements: list[Any]) -> tuple[str, ...]:
    """The attribute lines that text.py keeps too."""
    others = [
        json.dumps(statement, sort_keys=True)
        for statement in statements
        if not (isinstance(statement, dict) and "counter" in statement)
    ]
    if "gc-interval" in members:
        others.append(f"gc-interval {number_in(members['gc-interval'])}s")
    if "policy" in members:
        others.append(f"policy {text_of(members['policy'])}")
    return tuple(sorted(others))


def _elements(items: Any, *, types: tuple[str, ...], data: tuple[str, ...]) -> dict[Key, Element]:
    if not isinstance(items, list):
        raise Unclear
    is_vmap = data == (VERDICT,)
    named = named_parts(types)
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
            element = element._replace(key=name_parts(element.key, named)) if named else element
        except Unclear as error:
            raise Unclear(f"element {json.dumps(item)}") from error
        if (len(element.key) != len(types) and element.key != ("*",)) or element.key in elements:
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
