# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A table in memory that takes operations one by one and refuses what nft and the kernel refuse."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Optional

from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.expressions import (
    AnonymousMap,
    Concat,
    Expression,
    MapLookup,
    Match,
    Named,
    Nat,
    SetUpdate,
    Target,
    Verdict,
    Vmap,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.objects import (
    Chain,
    Element,
    Rule,
    Set,
    Table,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.transaction import Operation


class RefusedError(Exception):
    pass


def commit(operations: Iterable[Operation], found: Optional[Table]) -> Optional[Table]:
    """`found` with all of `operations` done, in their order."""
    table = found
    for operation in operations:
        table = _commit_one(operation, table)
    return table


def _commit_one(operation: Operation, table: Optional[Table]) -> Optional[Table]:
    kind, at, value = operation.kind, operation.name, operation.value
    if kind == "add table":
        _refuse(table is not None, operation)
        return Table(operation.family, operation.table)
    if table is None or (operation.family, operation.table) != (table.family, table.name):
        raise RefusedError(f"no such table: {operation.kind} {operation.target}")
    if kind == "delete table":
        return None
    chains, sets = dict(table.chains), dict(table.sets)
    if kind == "add chain":
        _refuse(at in chains or not isinstance(value, Chain), operation)
        assert isinstance(value, Chain)
        chains[at] = value
    elif kind == "flush chain":
        chains[at] = replace(chains[at], rules=())
    elif kind == "delete chain":
        _refuse(bool(chains[at].rules) or _is_named(table, chain=at), operation)
        del chains[at]
    elif kind == "add rule":
        assert isinstance(value, Rule)
        for name in _sets_of(value):
            _refuse(name not in sets, operation)
        for target in _chains_of(value):
            _refuse(target not in chains or chains[target].base is not None, operation)
        chains[at] = replace(chains[at], rules=(*chains[at].rules, value))
    elif kind in ("add set", "add map"):
        assert isinstance(value, Set)
        _refuse(at in sets or value.is_map != (kind == "add map") or bool(value.elements), operation)
        sets[at] = value
    elif kind in ("delete set", "delete map"):
        _refuse(_is_named(table, found=at) or sets[at].is_map != (kind == "delete map"), operation)
        del sets[at]
    elif kind == "add element":
        assert isinstance(value, Element)
        _refuse(value.key in sets[at].elements, operation)
        if isinstance(value.target, Verdict) and value.target.target:
            _refuse(value.target.target not in chains, operation)
        sets[at] = replace(sets[at], elements={**sets[at].elements, value.key: value})
    elif kind == "delete element":
        assert isinstance(value, Element)
        _refuse(value.key not in sets[at].elements, operation)
        sets[at] = replace(sets[at], elements={k: v for k, v in sets[at].elements.items() if k != value.key})
    else:
        raise RefusedError(f"no such operation: {kind}")
    return replace(table, chains=chains, sets=sets)


def _refuse(wrong: bool, operation: Operation) -> None:
    if wrong:
        raise RefusedError(f"{operation.kind} {operation.target}")


def _is_named(table: Table, *, chain: str = "", found: str = "") -> bool:
    """Whether a rule or an element of a map leads to `chain`, or a rule looks into `found`."""
    rules = [rule for one in table.chains.values() for rule in one.rules]
    if found:
        return any(found in _sets_of(rule) for rule in rules)
    targets = {target for rule in rules for target in _chains_of(rule)}
    for one in table.sets.values():
        targets |= {element.target.target for element in one.elements.values() if isinstance(element.target, Verdict)}
    return chain in targets


def _sets_of(rule: Rule) -> set[str]:
    found: set[str] = set()
    for statement in rule.statements:
        if isinstance(statement, Match):
            found |= _named(statement.right) | _looked_up(statement.left)
        elif isinstance(statement, Vmap):
            found |= _named(statement.to) | _looked_up(statement.key)
        elif isinstance(statement, SetUpdate):
            found.add(statement.name)
        elif isinstance(statement, Nat) and statement.address is not None:
            found |= _looked_up(statement.address)
    return found


def _named(to: object) -> set[str]:
    return {to.name} if isinstance(to, Named) else set()


def _looked_up(expression: Expression) -> set[str]:
    if isinstance(expression, Concat):
        return {name for part in expression.parts for name in _looked_up(part)}
    return _named(expression.to) if isinstance(expression, MapLookup) else set()


def _chains_of(rule: Rule) -> set[str]:
    targets: list[Optional[Target]] = []
    for statement in rule.statements:
        if isinstance(statement, Verdict):
            targets.append(statement)
        elif isinstance(statement, Vmap) and isinstance(statement.to, AnonymousMap):
            targets += [target for _key, target in statement.to.elements]
    return {target.target for target in targets if isinstance(target, Verdict) and target.target}
