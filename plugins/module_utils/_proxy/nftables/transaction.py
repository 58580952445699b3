# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From the table that is there to the one that is wanted, in one transaction of nft.

`plan` compares two values and says what differs, as operations in the order that nft takes them: what is referred to is
added before what refers to it, and deleted after it. `commit` hands all of them to one `nft -f -`, which the kernel
does as a whole or not at all, so packets see the old rules or the new ones. No difference is no operation.

Elements are added and deleted one by one. A chain whose rules differ is emptied and filled again, as its rules have no
names. Of a base chain, the kernel changes neither type, hook nor priority: it is deleted and added. A set's type cannot
change while rules refer to it: a table with such a difference is deleted and added as a whole, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, Optional, Union

from ..._core.errors import CommandFailed
from ..._core.host import Host
from .affinity import DYNAMIC_SIZE
from .messages import MESSAGES
from .objects import Chain, Element, Rule, Set, Table
from .presence import is_there
from .render import hook_line, name, quoted, render_elements, render_rule, set_lines

ADD_TABLE, DELETE_TABLE = "add table", "delete table"
ADD_CHAIN, FLUSH_CHAIN, DELETE_CHAIN = "add chain", "flush chain", "delete chain"
ADD_RULE = "add rule"
ADD_SET, DELETE_SET = "add set", "delete set"
ADD_MAP, DELETE_MAP = "add map", "delete map"
ADD_ELEMENT, DELETE_ELEMENT = "add element", "delete element"

_SECONDS = 300  # a limit to what the kernel may take; 50,000 Services take a few
_AT_ONCE = 1000  # elements in one command
_PLAIN = Set("", ())  # keys of ours are no marks or names of links, which are written in their own way


class Operation(NamedTuple):
    """One change. A named tuple, not a dataclass: a new table is made of tens of thousands."""

    kind: str
    family: str
    table: str
    name: str = ""  # of the chain, set or map
    value: Union[None, Chain, Rule, Set, Element] = None  # what is added; of an element also what is deleted

    @property
    def target(self) -> str:
        """`ip ballast services 10.0.0.1 . tcp . 80`"""
        key = self.value.key if isinstance(self.value, Element) else ()
        return " ".join(part for part in (self.family, self.table, self.name, " . ".join(key)) if part)


def plan(wanted: Optional[Table], found: Optional[Table]) -> tuple[Operation, ...]:
    """What makes `found` into `wanted`; None is no table. Elements that packets put into dynamic sets are not compared."""
    if wanted is None:
        return () if found is None else (Operation(DELETE_TABLE, found.family, found.name),)
    if found is None:
        return _everything(wanted)
    if (wanted.family, wanted.name) != (found.family, found.name):
        raise ValueError(f"{wanted.family} {wanted.name} is wanted, {found.family} {found.name} was found")
    if not _is_amendable(wanted, found):
        return (Operation(DELETE_TABLE, found.family, found.name), *_everything(wanted))
    return tuple(_amendments(wanted, found))


def render(operations: Iterable[Operation]) -> str:
    """The transaction as text for `nft -f`. UserError `rules-nft-unwritable` when a value is no word of nft's."""
    return "".join(_commands(operations))


def commit(operations: Sequence[Operation], host: Host) -> None:
    """Do all of `operations`, or none and raise HostError `rules-nft-refused`."""
    _run(operations, host, "nft", "-f", "-")


def check(operations: Sequence[Operation], host: Host) -> None:
    """Ask the kernel whether it would do `operations`, as `commit`, and do nothing."""
    _run(operations, host, "nft", "--check", "-f", "-")


def read(host: Host, family: str, table: str) -> Optional[Table]:
    """The table as the kernel has it, None where it has none."""
    if not is_there(host, family, table):
        return None
    from .json_form import parse_json  # with all that reads rules, which a node without our table does not need

    listed = host.run(["nft", "-j", "list", "table", family, table], timeout=_SECONDS).stdout
    return parse_json(listed).tables[family, table]


def _run(operations: Sequence[Operation], host: Host, *argv: str) -> None:
    if not operations:
        return
    try:
        host.run(argv, stdin=render(operations).encode(), timeout=_SECONDS)
    except CommandFailed as error:
        raise MESSAGES.error("rules-nft-refused", command=" ".join(argv), found=error.found) from error


# What differs


def _is_amendable(wanted: Table, found: Table) -> bool:
    if found.flags != wanted.flags or found.objects:
        return False
    for at, one in found.sets.items():
        if at in wanted.sets and replace(one, elements={}) != replace(wanted.sets[at], elements={}):
            return False
    # A chain that should be a base chain, and that rules jump to as it is.
    return all(
        chain.base is not None or at not in wanted.chains or wanted.chains[at].base is None
        for at, chain in found.chains.items()
    )


def _everything(wanted: Table) -> tuple[Operation, ...]:
    nothing = Table(wanted.family, wanted.name)
    return (Operation(ADD_TABLE, wanted.family, wanted.name), *_amendments(wanted, nothing))


def _amendments(wanted: Table, found: Table) -> Iterator[Operation]:
    def operation(kind: str, at: str, value: Union[None, Chain, Rule, Set, Element] = None) -> Operation:
        return Operation(kind, wanted.family, wanted.name, at, value)

    gone = [at for at in found.chains if at not in wanted.chains]
    rebuilt = [at for at, chain in wanted.chains.items() if at in found.chains and chain.base != found.chains[at].base]
    changed = [
        at for at, chain in wanted.chains.items() if at in found.chains and chain.rules != found.chains[at].rules
    ]
    for at, one in wanted.sets.items():
        if at not in found.sets:
            yield operation(ADD_MAP if one.is_map else ADD_SET, at, replace(one, elements={}))
    for at in dict.fromkeys((*gone, *rebuilt, *changed)):
        if found.chains[at].rules:
            yield operation(FLUSH_CHAIN, at)
    for at in rebuilt:
        yield operation(DELETE_CHAIN, at)
    for at, chain in wanted.chains.items():
        if at not in found.chains or at in rebuilt:
            yield operation(ADD_CHAIN, at, replace(chain, rules=()))
    yield from _element_amendments(wanted, found)
    for at, chain in wanted.chains.items():
        if at not in found.chains or at in rebuilt or at in changed:
            for rule in chain.rules:
                yield operation(ADD_RULE, at, rule)
    for at, one in found.sets.items():
        if at not in wanted.sets:
            yield operation(DELETE_MAP if one.is_map else DELETE_SET, at)
    for at in gone:
        yield operation(DELETE_CHAIN, at)


def _element_amendments(wanted: Table, found: Table) -> list[Operation]:
    """All that go before all that come: an element whose value differs is both, and networks of an interval set must
    not overlap on the way."""
    pairs = [
        (at, one.elements, found.sets[at].elements if at in found.sets else {})
        for at, one in wanted.sets.items()
        if not one.dynamic
    ]
    differing = [pair for pair in pairs if pair[1] != pair[2]]
    family, table = wanted.family, wanted.name
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
            elements = [one.value for one in group if isinstance(one.value, Element)]
            for start in range(0, len(elements), _AT_ONCE):
                yield f"{place} {{ {_elements(kind, elements[start : start + _AT_ONCE])} }}\n"
            continue
        for one in group:
            yield f"{place}{_value(one.value)}\n"


def _elements(kind: str, elements: list[Element]) -> str:
    if kind == DELETE_ELEMENT:
        elements = [Element(element.key) for element in elements]
    return render_elements(_PLAIN, elements, between=",")  # in one line: nft reads that faster by a tenth


def _value(value: Union[None, Chain, Rule, Set, Element]) -> str:
    if isinstance(value, Rule):
        return f" {render_rule(value)}"
    if isinstance(value, Set):
        # The kernel gives a dynamic set this size by itself. Said, it takes memory for all of it at once: 1 MiB a set.
        if value.dynamic and value.size == DYNAMIC_SIZE:
            value = replace(value, size=0)
        return f" {{ {' '.join(f'{line};' for line in set_lines(value))} }}"
    if isinstance(value, Chain):
        lines = [hook_line(value.base)] if value.base else []
        lines += [f"comment {quoted(value.comment)};"] if value.comment else []
        return f" {{ {' '.join(lines)} }}" if lines else ""
    return ""
