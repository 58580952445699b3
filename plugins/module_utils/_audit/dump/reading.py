# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads a saved dump of a node instead of its kernel: the rules of all programs, as far as they were saved. Pure.

nftables    `nft list ruleset`, optionally with -j, -a or -s
iptables    `iptables-save`, `ip6tables-save`, optionally with -c or -t, of both variants
ipvs        these, plus `ipvsadm-save -n` or `ipvsadm -Ln`, `ipset save`, `ip -j address`
optional    `conntrack -L`, `ip -j route`, `ip -j -6 route`
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Optional

from ..._rules.iptables.objects import Jump, Tables
from ..._rules.iptables.restore import LEGACY, NFT, VARIANTS
from ..._rules.ipvs.objects import IpvsRules
from ..._rules.ipvs.parse import parse as parse_node
from ..._rules.messages import MESSAGES
from ..._rules.nftables.json_form import parse_document
from ..._rules.nftables.objects import Ruleset, Table
from ..._rules.nftables.text import parse_text
from ..._rules.routes import Routes, parse_routes
from .iptables import read_iptables
from .listing import links_of, save_form, save_form_of_sets
from .sections import (
    ADDRESS_LIST,
    CONNECTIONS,
    JSON,
    NFT_TEXT,
    SERVER_LIST,
    SERVERS,
    SET_LIST,
    SETS,
    Section,
    Sections,
    split,
)

_HINTS = (("mangle", "KUBE-IPTABLES-HINT"), ("mangle", "KUBE-KUBELET-CANARY"))


@dataclass(frozen=True)
class Dump:
    """None, or a missing entry, means that it was not saved."""

    nftables: Optional[Ruleset] = None
    iptables: Mapping[tuple[str, int], Tables] = field(default_factory=dict)  # by (variant, family)
    # Tables that, according to iptables-save, only nft can show; by (variant, family).
    hidden: Mapping[tuple[str, int], tuple[str, ...]] = field(default_factory=dict)
    legacy_present: frozenset[int] = frozenset()  # families that also have tables in the legacy variant
    servers: Optional[str] = None  # in the form of `ipvsadm -S -n`
    sets: Optional[str] = None
    links: Optional[str] = None  # in the form of `ip -j address`
    routes: Routes = ()  # only used to determine the outgoing link of a packet
    connections: Optional[str] = None

    def variant_in_use(self) -> str:
        """The variant that kube-proxy writes: the one with its jumps; if both have them, the one with the kubelet's
        chain."""
        for has in (_has_jumps, _has_hints):
            variants = [variant for variant in VARIANTS if any(has(self.tables(variant, family)) for family in (4, 6))]
            if len(variants) == 1:
                return variants[0]
        return next((variant for variant in VARIANTS if any(key[0] == variant for key in self.iptables)), NFT)

    def tables(self, variant: str, family: int) -> Tables:
        """Empty if they were not saved."""
        return self.iptables.get((variant, family), Tables(family))

    def ipvs(self, variant: str, family: int) -> IpvsRules:
        """The objects of ipvs; those that were not saved are absent from it."""
        return parse_node(
            tables=self.tables(variant, family),
            servers=self.servers or "",
            sets=self.sets or "",
            links=self.links or "[]",
        )


def _has_jumps(tables: Tables) -> bool:
    chain = tables.chain("nat", "PREROUTING")
    return chain is not None and Jump("KUBE-SERVICES") in [rule.target for rule in chain.rules]


def _has_hints(tables: Tables) -> bool:
    return any(tables.chain(*place) for place in _HINTS)


@lru_cache(maxsize=1)  # called for each family
def read_dump(text: str) -> Dump:
    """Parse a dump. UserError for a line that no tool prints, and for rules that occur twice and differ."""
    sections = split(text)
    nftables = _read_nftables(sections)
    tables, hidden = read_iptables(sections, nftables)
    lists = [section.value for section in sections.of(JSON) if isinstance(section.value, list)]
    listed = [value for value in lists if not _is_routes(value)]
    shown = links_of(sections.lines(ADDRESS_LIST))
    listed += [shown] if shown else []
    return Dump(
        nftables=nftables,
        iptables=tables,
        hidden=hidden,
        legacy_present=frozenset(family for family in sections.legacy_present if (LEGACY, family) not in tables),
        servers=_drop_repeated(save_form(sections.lines(SERVERS, SERVER_LIST))),
        sets=_drop_repeated(save_form_of_sets(sections.lines(SETS, SET_LIST))),
        links=json.dumps([link for value in listed for link in value]) if listed else None,
        routes=tuple(route for value in lists if _is_routes(value) for route in parse_routes(value)),
        connections=sections.lines(CONNECTIONS) or None,
    )


def _is_routes(listed: list[Any]) -> bool:
    return any(isinstance(entry, dict) and "dst" in entry for entry in listed)


def _drop_repeated(text: str) -> Optional[str]:
    """Blank out repeated lines, because a dump may contain a listing twice."""
    seen: set[str] = set()
    lines = []
    for line in text.split("\n"):
        lines.append("" if line in seen else line)
        seen.add(line)
    return "\n".join(lines) if text.strip() else None


def _read_nftables(sections: Sections) -> Optional[Ruleset]:
    tables: dict[tuple[str, str], Table] = {}
    listings = [
        section
        for section in sections.sections
        if section.kind == NFT_TEXT or (section.kind == JSON and isinstance(section.value, dict))
    ]
    for section in listings:
        for key, table in _ruleset(section).tables.items():
            if tables.setdefault(key, table) != table:
                raise MESSAGES.error(
                    "rules-dump-twice", line=section.first_line, what=f"the nftables table {' '.join(key)}"
                )
    return Ruleset(tables) if listings else None


def _ruleset(section: Section) -> Ruleset:
    if section.kind == JSON:
        return parse_document(section.value)
    return parse_text(section.text, first_line=section.first_line)
