# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds other problems of a node with Services: stale rules, kernel settings, parts that could not be read. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from .._core.text.errors import shorten
from .._rules.backend import Backend, Settings
from .._rules.iptables.backend import Iptables
from .._rules.iptables.objects import Tables
from .._rules.iptables.restore import NFT
from .._rules.ipvs.backend import Ipvs
from .._rules.ipvs.objects import SET_NAMES
from .._rules.model import IPTABLES, IPVS, NFTABLES, FamilyView
from .._rules.nftables.backend import Nftables
from .._rules.node_addresses import LINK
from .._rules.node_rules import NodeRules
from .facts import Facts
from .findings import AuditFinding, finding, list_some
from .nft_as_iptables import tables_of
from .remedies import PRINT_BY_WRITER, remedy_of_chains, remedy_of_ipvs, remedy_of_setting, remedy_of_table
from .stale_chains import find_stale_chains
from .undecoded import find_in_iptables, find_in_nftables

_NAMES = {Nftables: NFTABLES, Iptables: IPTABLES, Ipvs: IPVS}


class _Stale(NamedTuple):
    """Rules of a backend that is not in use. `family`: 0 for both."""

    what: str
    others: Sequence[str]  # the backends that they may be of
    remedy: str
    family: int = 0


def find_stale_rules(facts: Facts, backend: Backend, *, in_force: bool) -> Iterator[AuditFinding]:
    """One finding for each kind of rules of another backend, and family. They are stale where the rules of `backend` are in
    force; where these are not there, they may be what serves the Services."""
    name = _NAMES[type(backend)]
    for stale in (*_in_iptables(facts, backend), *_in_nftables(facts, backend), *_in_ipvs(facts, backend)):
        yield finding(
            "rules-audit-residue" if in_force else "rules-audit-other-backend",
            family=stale.family,
            other=" or ".join(stale.others),
            backend=name,
            what=stale.what,
            remedy=stale.remedy,
        )


def _in_iptables(facts: Facts, backend: Backend) -> Iterator[_Stale]:
    # What iptables shows, nft shows as well: it is not in facts.ruleset.
    listed = [((NFT, tables.family), tables) for tables in tables_of(facts.ruleset)]
    for (variant, family), tables in (*facts.iptables.items(), *listed):
        left = _left_in_iptables(tables, backend, variant)
        if left:
            others = (IPTABLES, IPVS) if isinstance(backend, Nftables) else _others(backend, variant)
            yield _Stale(f"iptables ({variant}) has {list_some(left)}", others, remedy_of_chains(others), family)


def _in_nftables(facts: Facts, backend: Backend) -> Iterator[_Stale]:
    for family, table in () if isinstance(backend, Nftables) else facts.service_tables:
        number = 6 if family == "ip6" else 4
        yield _Stale(f"the nftables table {family} {table}", (NFTABLES,), remedy_of_table(table), number)


def _in_ipvs(facts: Facts, backend: Backend) -> Iterator[_Stale]:
    if isinstance(backend, Ipvs):
        return
    sets = [ipset for ipset in facts.sets if ipset in SET_NAMES]
    servers = facts.virtual_servers if facts.link or sets else ()
    for what in (
        f"the interface {LINK}" if facts.link else "",
        f"{len(servers)} virtual servers: {list_some(servers)}" if servers else "",
        f"ipsets: {list_some(sets)}" if sets else "",
    ):
        if what:
            yield _Stale(what, (IPVS,), remedy_of_ipvs())


def _others(backend: Backend, variant: str) -> tuple[str, ...]:
    in_use = backend.variant if isinstance(backend, (Iptables, Ipvs)) else ""
    if variant != in_use:
        return (IPTABLES, IPVS)
    return (IPVS,) if isinstance(backend, Iptables) else (IPTABLES,)


def _left_in_iptables(tables: Tables, backend: Backend, variant: str) -> Sequence[str]:
    """Stale chains that have rules; empty ones have no effect."""
    in_use = isinstance(backend, (Iptables, Ipvs)) and variant == backend.variant
    stale = find_stale_chains(tables, _NAMES[type(backend)], in_use=in_use)
    full = {(table.name, chain.name) for table in tables.tables for chain in table.chains if chain.rules}
    places = ((operation.table, operation.chain) for operation in stale.chains)
    return [" ".join(place) for place in places if place in full]


def check_settings(facts: Facts, expected: Settings) -> Iterator[AuditFinding]:
    for name, value in expected:
        if name in facts.settings and facts.settings[name] != value:
            there = facts.settings[name]
            shown = "the kernel lacks this setting" if there is None else f"{name} = {there}"
            remedy = remedy_of_setting(name, required=value, exists=there is not None)
            yield finding("rules-audit-setting", name=name, required=value, value=shown, remedy=remedy)


def report_unread(facts: Facts, views: Mapping[int, FamilyView]) -> Iterator[AuditFinding]:
    """Findings about parts of the node that could not be read."""
    has_udp = any(service.protocol == "UDP" for view in views.values() for service in view.services)
    if facts.connections_problem and has_udp:
        yield finding("rules-audit-conntrack-unseen", problem=facts.connections_problem)
    for what, problem in facts.unread:
        yield finding("rules-audit-foreign-unread", what=what, problem=problem)


def report_unsaved(rules: Mapping[int, NodeRules]) -> Iterator[AuditFinding]:
    """One finding for each part that a dump lacks, and one for all rules that were printed with placeholders."""
    for family, of_family in rules.items():
        for part in of_family.missing:
            yield finding("rules-audit-dump-part", family=family, part=part.part, remedy=part.remedy)
    in_iptables = [
        place
        for of_family in rules.values()
        for tables in of_family.iptables.values()
        for place in find_in_iptables(tables)
    ]
    in_nftables = [place for of_family in rules.values() for place in find_in_nftables(of_family.nftables)]
    for undecoded, why, remedy in (
        (in_iptables, "were written by a newer program than the one that printed them", PRINT_BY_WRITER),
        (
            in_nftables,
            "are of xtables, which nft does not decode",
            "print them with iptables-save and ip6tables-save too",
        ),
    ):
        if undecoded:
            (table, chain), rule = undecoded[0]
            place = f"table {table}, chain {chain}"
            yield finding(
                "rules-audit-undecoded",
                count=len(undecoded),
                why=why,
                place=place,
                rule=shorten(rule),
                remedy=remedy,
            )
