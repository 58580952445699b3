# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changes the live table into the desired one. At no moment are rules missing that are in both.

`plan` compares two tables and returns the differences as operations in the order that nft requires: an object is added
before what refers to it, and deleted after it. `commit` passes them to `nft -f -`, which the kernel applies completely or
not at all. Without differences there are no operations.

A transaction takes effect at one instant, but not for a packet that is being processed: it continues in the chains as they
were when it entered the first one, and looks up elements as they are now. A new element may send it to a new chain, which is
empty for this packet, or an old chain to an element that is gone: it would not be translated. So if elements change their
target, `stages` splits the operations into up to three transactions: first what the elements will lead to, then the
elements, then what nothing leads to any more.

Elements are added and deleted individually. A chain whose rules differ is flushed and filled again, because its rules have
no names. The kernel cannot change the type, hook or priority of a base chain: it is deleted and added. A set's type cannot
change while rules refer to it: a table with such a difference is deleted and added as a whole, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, Optional, Union

from ..._core.host.host import KERNEL_LIMIT, Host
from ..._core.text.errors import CommandFailed
from .affinity import DYNAMIC_SIZE
from .expressions import Key, Target, Verdict
from .messages import MESSAGES
from .objects import Chain, Element, Rule, Set, Table
from .presence import has_table
from .render import hook_line, name, quote, render_elements, render_rule, set_lines

ADD_TABLE, DELETE_TABLE = "add table", "delete table"
ADD_CHAIN, FLUSH_CHAIN, DELETE_CHAIN = "add chain", "flush chain", "delete chain"
ADD_RULE = "add rule"
ADD_SET, DELETE_SET = "add set", "delete set"
ADD_MAP, DELETE_MAP = "add map", "delete map"
ADD_ELEMENT, DELETE_ELEMENT = "add element", "delete element"

_SECONDS = 300  # an upper limit; 50,000 Services take a few seconds
_AT_ONCE = 1000  # elements per command
_PLAIN = Set("", ())  # renders our keys: they have no marks or interface names, which need a special form


class Operation(NamedTuple):
    """One change. A named tuple, not a dataclass, because a new table consists of tens of thousands."""

    kind: str
    family: str
    table: str
    name: str = ""  # of the chain, set or map
    value: Union[None, Chain, Rule, Set, Element] = None  # what is added; for elements also what is deleted

    @property
    def target(self) -> str:
        """`ip ballast services 10.0.0.1 . tcp . 80`"""
        key = self.value.key if isinstance(self.value, Element) else ()
        return " ".join(part for part in (self.family, self.table, self.name, " . ".join(key)) if part)


def plan(desired: Optional[Table], live: Optional[Table]) -> tuple[Operation, ...]:
    """The operations that change `live` into `desired`; None means no table. Elements that packets add to dynamic sets are
    not compared."""
    if desired is None:
        return () if live is None else (Operation(DELETE_TABLE, live.family, live.name),)
    if live is None:
        return _everything(desired)
    if (desired.family, desired.name) != (live.family, live.name):
        raise ValueError(f"{desired.family} {desired.name} is wanted, {live.family} {live.name} was found")
    if not _is_amendable(desired, live):
        return (Operation(DELETE_TABLE, live.family, live.name), *_everything(desired))
    return tuple(_amendments(desired, live))


def result(desired: Optional[Table], live: Optional[Table]) -> Optional[Table]:
    """`live` after the operations of `plan`. For objects that stay, the kernel keeps comments, declarations of sets, and the
    elements that packets have added to dynamic sets."""
    if desired is None or live is None or not _is_amendable(desired, live):
        return desired
    chains = {at: _kept_chain(chain, live.chains.get(at)) for at, chain in desired.chains.items()}
    sets = {at: _kept_set(declared, live.sets.get(at)) for at, declared in desired.sets.items()}
    return replace(desired, comment=live.comment, chains=chains, sets=sets)


def _kept_chain(chain: Chain, there: Optional[Chain]) -> Chain:
    return replace(there, rules=chain.rules) if there is not None and there.base == chain.base else chain


def _kept_set(declared: Set, there: Optional[Set]) -> Set:
    if there is None:
        return declared
    return there if declared.dynamic else replace(there, elements=declared.elements)


def stages(operations: Sequence[Operation]) -> tuple[tuple[Operation, ...], ...]:
    """The operations of `plan` as consecutive transactions. After each of them, every element that was in force leads to its
    old or its desired target."""
    deleted = _targets(operations, DELETE_ELEMENT)
    added = _targets(operations, ADD_ELEMENT) if deleted else {}
    replaced = added.keys() & deleted.keys()
    if not any(isinstance(added[at], Verdict) for at in replaced):
        return (tuple(operations),) if operations else ()
    gone = {operation.name for operation in operations if operation.kind == DELETE_CHAIN}
    chains = {at.name: at.value for at in operations if at.kind == ADD_CHAIN and isinstance(at.value, Chain)}
    new = {at for at, chain in chains.items() if chain.base is None and at not in gone}
    # New networks must not overlap those that are deleted, so a set with both changes in one transaction.
    exchanged = {name for name, _key in added if added[name, _key] is None} & {name for name, _key in deleted}

    def stage(operation: Operation) -> int:
        kind, name = operation.kind, operation.name
        if isinstance(operation.value, Element):
            if name in exchanged or (name, operation.value.key) in replaced:
                return 1
            return 0 if kind == ADD_ELEMENT else 2
        if kind in (ADD_CHAIN, ADD_RULE):
            return 0 if name in new else 1
        if kind in (FLUSH_CHAIN, DELETE_CHAIN):
            return 2 if name in gone - chains.keys() else 1
        return 0 if kind in (ADD_SET, ADD_MAP) else 2

    parts: tuple[list[Operation], ...] = ([], [], [])
    for operation in operations:
        parts[stage(operation)].append(operation)
    return tuple(tuple(part) for part in parts if part)


def _targets(operations: Iterable[Operation], kind: str) -> dict[tuple[str, Key], Optional[Target]]:
    return {
        (operation.name, operation.value.key): operation.value.target
        for operation in operations
        if operation.kind == kind and isinstance(operation.value, Element)
    }


def render(operations: Iterable[Operation]) -> str:
    """The transaction as input for `nft -f`. UserError `rules-nft-unwritable` for a value that nft cannot read."""
    return "".join(_commands(operations))


def commit(operations: Sequence[Operation], host: Host) -> None:
    """Do `operations` in their `stages`. HostError `rules-nft-refused` if one is refused: that stage and all later ones are
    not applied, and what earlier stages did has no effect on packets."""
    for stage in stages(operations):
        commit_stage(stage, host)


def commit_stage(stage: Sequence[Operation], host: Host) -> None:
    """Apply one of `stages` as one transaction."""
    _run(stage, host, "nft", "-f", "-")


def check(operations: Sequence[Operation], host: Host) -> None:
    """Ask the kernel whether `commit` would succeed, without changing anything."""
    _run(operations, host, "nft", "--check", "-f", "-")


def read(host: Host, family: str, table: str) -> Optional[Table]:
    """The table as the kernel has it; None if there is none."""
    if not has_table(host, family, table):
        return None
    from .json_form import parse_json  # imports the rule parsers, which a node without our table does not need

    listed = host.run(["nft", "-j", "list", "table", family, table], timeout=_SECONDS, limit=KERNEL_LIMIT).stdout
    return parse_json(listed).tables[family, table]


def _run(operations: Sequence[Operation], host: Host, *argv: str) -> None:
    if not operations:
        return
    try:
        host.run(argv, stdin=render(operations).encode(), timeout=_SECONDS)
    except CommandFailed as error:
        raise MESSAGES.error("rules-nft-refused", command=" ".join(argv), found=error.found) from error


# Differences


def _is_amendable(desired: Table, live: Table) -> bool:
    if live.flags != desired.flags or live.objects:
        return False
    for at, declared in live.sets.items():
        if at in desired.sets and replace(declared, elements={}) != replace(desired.sets[at], elements={}):
            return False
    # A regular chain, to which rules may jump, cannot become a base chain.
    return all(
        chain.base is not None or at not in desired.chains or desired.chains[at].base is None
        for at, chain in live.chains.items()
    )


def _everything(desired: Table) -> tuple[Operation, ...]:
    nothing = Table(desired.family, desired.name)
    return (Operation(ADD_TABLE, desired.family, desired.name), *_amendments(desired, nothing))


def _amendments(desired: Table, live: Table) -> Iterator[Operation]:
    def operation(kind: str, at: str, value: Union[None, Chain, Rule, Set, Element] = None) -> Operation:
        return Operation(kind, desired.family, desired.name, at, value)

    gone = [at for at in live.chains if at not in desired.chains]
    rebuilt = [at for at, chain in desired.chains.items() if at in live.chains and chain.base != live.chains[at].base]
    changed = [at for at, chain in desired.chains.items() if at in live.chains and chain.rules != live.chains[at].rules]
    for at, declared in desired.sets.items():
        if at not in live.sets:
            yield operation(ADD_MAP if declared.is_map else ADD_SET, at, replace(declared, elements={}))
    for at in dict.fromkeys((*gone, *rebuilt, *changed)):
        if live.chains[at].rules:
            yield operation(FLUSH_CHAIN, at)
    for at in rebuilt:
        yield operation(DELETE_CHAIN, at)
    for at, chain in desired.chains.items():
        if at not in live.chains or at in rebuilt:
            yield operation(ADD_CHAIN, at, replace(chain, rules=()))
    yield from _element_amendments(desired, live)
    for at, chain in desired.chains.items():
        if at not in live.chains or at in rebuilt or at in changed:
            for rule in chain.rules:
                yield operation(ADD_RULE, at, rule)
    for at, declared in live.sets.items():
        if at not in desired.sets:
            yield operation(DELETE_MAP if declared.is_map else DELETE_SET, at)
    for at in gone:
        yield operation(DELETE_CHAIN, at)


def _element_amendments(desired: Table, live: Table) -> list[Operation]:
    """All deletions before all additions: an element whose value changes is in both, and the networks of an interval set
    must never overlap."""
    pairs = [
        (at, declared.elements, live.sets[at].elements if at in live.sets else {})
        for at, declared in desired.sets.items()
        if not declared.dynamic
    ]
    differing = [pair for pair in pairs if pair[1] != pair[2]]
    family, table = desired.family, desired.name
    going = [
        Operation(DELETE_ELEMENT, family, table, at, element)
        for at, after, before in differing
        for key, element in before.items()
        if after.get(key) != element
    ]
    coming = [
        Operation(ADD_ELEMENT, family, table, at, element)
        for at, after, before in differing
        for key, element in after.items()
        if before.get(key) != element
    ]
    return going + coming


# Text


def _commands(operations: Iterable[Operation]) -> Iterator[str]:
    for (kind, family, table, at), group in groupby(operations, key=itemgetter(0, 1, 2, 3)):
        place = " ".join([kind, family, name(table), *([name(at)] if at else [])])
        if kind in (ADD_ELEMENT, DELETE_ELEMENT):
            elements = [operation.value for operation in group if isinstance(operation.value, Element)]
            for start in range(0, len(elements), _AT_ONCE):
                yield f"{place} {{ {_elements(kind, elements[start : start + _AT_ONCE])} }}\n"
            continue
        for operation in group:
            yield f"{place}{_value(operation.value)}\n"


def _elements(kind: str, elements: list[Element]) -> str:
    if kind == DELETE_ELEMENT:
        elements = [Element(element.key) for element in elements]
    return render_elements(_PLAIN, elements, between=",")  # on one line, which nft reads ten percent faster


def _value(value: Union[None, Chain, Rule, Set, Element]) -> str:
    if isinstance(value, Rule):
        return f" {render_rule(value)}"
    if isinstance(value, Set):
        # This is the kernel's default for a dynamic set. If given explicitly, the kernel allocates all of it at once: 1 MiB
        # per set.
        if value.dynamic and value.size == DYNAMIC_SIZE:
            value = replace(value, size=0)
        return f" {{ {' '.join(f'{line};' for line in set_lines(value))} }}"
    if isinstance(value, Chain):
        lines = [hook_line(value.base)] if value.base else []
        lines += [f"comment {quote(value.comment)};"] if value.comment else []
        return f" {{ {' '.join(lines)} }}" if lines else ""
    return ""
