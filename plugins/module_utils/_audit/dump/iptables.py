# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Determines the family and variant of saved iptables tables. Pure.

iptables-save begins each table with a comment that names the program. Without it, and for xtables-save (1.8.2), the
addresses determine the family. The variant is known from the name of the program, or from "(nf_tables)", which the nft
variant prints since 1.8.8. Otherwise it is assumed to be nft, unless nft tables of these names were already read or nft
lists none of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Optional

from ..._rules.backend import NFT_FAMILIES
from ..._rules.iptables.objects import Table, Tables, tables
from ..._rules.iptables.parse import parse
from ..._rules.iptables.restore import LEGACY, NFT
from ..._rules.messages import MESSAGES
from ..._rules.nftables.objects import Ruleset
from .sections import IPTABLES, Section, Sections

_IPV4 = re.compile(r" -[sd] [0-9]+\.| --to-(?:destination|source) [0-9]+\.| --reject-with icmp-| -p icmp\b", re.ASCII)
_IPV6 = re.compile(
    r" -[sd] [0-9a-f]*:[0-9a-f:]*| --to-(?:destination|source) \[| --reject-with icmp6-| -p (?:ipv6-icmp|icmpv6)\b"
    r"| --match-set KUBE-6-",
    re.ASCII,
)

Slot = tuple[str, int]  # (variant, family)


@dataclass
class _Run:
    """Consecutive tables printed by one program."""

    sections: list[Section] = field(default_factory=list)

    def takes(self, section: Section) -> bool:
        last = self.sections[-1]
        return (
            section.run == last.run
            and section.header == last.header
            and section.table not in {taken.table for taken in self.sections}
        )

    def family(self) -> int:
        """The family; 0 if nothing reveals it."""
        stated = self.sections[0].header.family
        if stated:
            return stated
        for family, form in ((4, _IPV4), (6, _IPV6)):
            if any(form.search(section.text) for section in self.sections):
                return family
        return 0


def read_iptables(
    sections: Sections, nftables: Optional[Ruleset]
) -> tuple[Mapping[Slot, Tables], Mapping[Slot, tuple[str, ...]]]:
    """The tables, and the names of those that the program could not show. UserError rules-dump-twice if a table occurs twice
    with different rules."""
    runs: list[_Run] = []
    for section in sections.of(IPTABLES):
        if section.header.other:
            continue
        if not runs or not runs[-1].takes(section):
            runs.append(_Run())
        runs[-1].sections.append(section)
    slots: dict[Slot, dict[str, Table]] = {}
    for run in sorted(runs, key=lambda run: not run.sections[0].header.variant):  # runs with a known variant first
        _place(run, slots, nftables)
    hidden: dict[Slot, tuple[str, ...]] = {}
    for header, table in sections.hidden:
        slot = (NFT, header.family or 4)
        hidden[slot] = tuple(dict.fromkeys((*hidden.get(slot, ()), table)))
    by_slot = {
        slot: tables(slot[1], {table.name: table.by_name for table in by_name.values()})
        for slot, by_name in sorted(slots.items())
    }
    return by_slot, hidden


def _place(run: _Run, slots: dict[Slot, dict[str, Table]], nftables: Optional[Ruleset]) -> None:
    """Assign the tables to a slot that has no tables with these names, or has equal ones."""
    certain = run.family()
    read = {family: _parse(run, family) for family in ((certain,) if certain else (4, 6))}
    stated = run.sections[0].header.variant
    order = (stated,) if stated else _likely_variants(read, nftables)
    for variant in order:
        for family, of_run in read.items():
            there = slots.get((variant, family), {})
            taken = set(of_run) & set(there)
            # If nothing reveals the family, tables equal to those of IPv4 are taken for IPv6.
            if not taken or (certain and all(there[name] == of_run[name] for name in taken)):
                slots[variant, family] = {**of_run, **there}
                return
    first = run.sections[0]
    raise MESSAGES.error("rules-dump-twice", line=first.first_line, what=f"the iptables table {first.table}")


def _parse(run: _Run, family: int) -> dict[str, Table]:
    read = {}
    for section in run.sections:
        parsed = parse(section.text, family=family, first_line=section.first_line, refuse_hidden=False)
        read.update({table.name: table for table in parsed.tables})
    return read


def _likely_variants(read: Mapping[int, Mapping[str, Table]], nftables: Optional[Ruleset]) -> tuple[str, str]:
    """The variants to try, in order: legacy first if nft does not list the tables."""
    filled = [
        (NFT_FAMILIES[family], table.name)
        for family, by_name in read.items()
        for table in by_name.values()
        if any(chain.rules for chain in table.chains)
    ]
    if nftables is None or not filled or any(key in nftables.tables for key in filled):
        return NFT, LEGACY
    return LEGACY, NFT
