# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads everything that decides about packets from a node's kernel: the rules of all programs.

If a tool is not installed, it has not made any rules here. Rules of other programs that cannot be read are recorded, and are
no error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from itertools import product
from types import MappingProxyType
from typing import Any, Optional

from .._core.host.host import KERNEL_LIMIT, Host
from .._core.text.errors import BallastError, Unavailable
from .._rules.backend import NFT_FAMILIES, Backend
from .._rules.iptables import restore
from .._rules.iptables.backend import Iptables
from .._rules.iptables.objects import BUILT_IN, MatchSet, Tables
from .._rules.ipvs.apply import CONNECTIONS
from .._rules.ipvs.backend import Ipvs
from .._rules.ipvs.objects import IpSet, IpvsRules
from .._rules.ipvs.parse import parse as parse_ipvs
from .._rules.ipvs.parse import parse_sets
from .._rules.nftables.backend import Nftables
from .._rules.nftables.json_form import parse_json
from .._rules.nftables.objects import Ruleset, Table
from .._rules.node_addresses import LINK, Links, families, parse_links
from .._rules.node_rules import Missing, NodeRules

Slot = tuple[str, int]  # (variant of iptables, IP family)
TableKey = tuple[str, str]  # (family, name) of an nftables table
Unread = list[tuple[str, str]]  # (what, why) for rules that could not be read
_SECONDS = 300
_TABLE = re.compile(r"table (\S+) (\S+) \{", re.ASCII)
_NOTHING: Mapping[Slot, Tables] = MappingProxyType({})
_HEADS = ("Prot", "IP", "->")  # beginnings of lines of CONNECTIONS without a server


class KernelReading:
    """Each part is read once, when it is first needed: with 10,000 Services one listing takes seconds."""

    missing: tuple[Missing, ...] = ()

    def __init__(self, host: Host, backend: Backend) -> None:
        self._host = host
        self.backend = backend
        self._rules: dict[int, Any] = {}
        self._tables: dict[TableKey, Optional[Table]] = {}
        self.unread: Unread = []

    @property
    def own_table(self) -> str:
        """The backend's nftables table; "" for another backend."""
        return self.backend.table if isinstance(self.backend, Nftables) else ""

    @cached_property
    def families(self) -> tuple[int, ...]:
        return families(self._host)

    def rules(self, family: int) -> Any:
        """The backend's rules, as it reads them."""
        if family not in self._rules:
            self._rules[family] = self.backend.read(self._host, family)
        return self._rules[family]

    def node_rules(self, family: int) -> NodeRules:
        return NodeRules(
            nftables=self.ruleset(family),
            iptables={variant: tables for (variant, of), tables in self.iptables.items() if of == family},
            ipvs=self._ipvs(family),
            sets=self._sets,
        )

    def output(self, *argv: str) -> str:
        """The output of a tool; "" if it is not installed."""
        try:
            return self._host.run(argv, timeout=_SECONDS, limit=KERNEL_LIMIT).stdout
        except Unavailable:
            return ""

    # iptables

    @cached_property
    def iptables(self) -> Mapping[Slot, Tables]:
        """By (variant, family). Those of other programs that cannot be read are noted in `unread`."""
        in_use = self.backend.variant if isinstance(self.backend, (Iptables, Ipvs)) else ""
        known = {}
        if in_use:
            for family in self.families:
                rules = self.rules(family)
                known[in_use, family] = rules.tables if isinstance(rules, IpvsRules) else rules
        return read_iptables(self._host, self.unread, known=known, refuse_hidden=False)

    # nftables

    def ruleset(self, family: int) -> Ruleset:
        """The nftables tables of a family, without those that iptables shows."""
        names = (NFT_FAMILIES[family], "inet")
        tables = {key: self.table(key) for key in self.table_keys if key[0] in names}
        return Ruleset({key: table for key, table in tables.items() if table is not None})

    @cached_property
    def table_keys(self) -> tuple[TableKey, ...]:
        """The tables to read. We list chains, which includes the names of all tables, because to list tables nft 1.0.6 first
        fetches all elements of each."""
        matches = map(_TABLE.fullmatch, map(str.strip, self.output("nft", "list", "chains").splitlines()))
        keys = [(match[1], match[2]) for match in matches if match and match[1] in (*NFT_FAMILIES.values(), "inet")]
        shown = {
            (NFT_FAMILIES[family], table.name)
            for (variant, family), tables in self.iptables.items()
            if variant == restore.NFT
            for table in tables.tables
        }
        return tuple(key for key in keys if key[1] not in BUILT_IN or key not in shown)

    def table(self, key: TableKey) -> Optional[Table]:
        """The table; None if it cannot be read."""
        if key not in self._tables:
            self._tables[key] = self._read_table(key)
        return self._tables[key]

    def _read_table(self, key: TableKey) -> Optional[Table]:
        for family, name in NFT_FAMILIES.items():
            if key == (name, self.own_table):
                own: Optional[Table] = self.rules(family)
                return own
        try:
            return parse_json(self.output("nft", "-j", "list", "table", *key)).tables.get(key)
        except BallastError as error:
            self.unread.append((f"table {' '.join(key)}", error.text))
            return None

    # ipvs

    @cached_property
    def _listed_links(self) -> str:
        return self.output("ip", "-j", "address", "show") or "[]"

    @cached_property
    def links(self) -> Links:
        return parse_links(self._listed_links)

    @cached_property
    def virtual_servers(self) -> tuple[str, ...]:
        """The virtual servers, in the kernel's format."""
        lines = (self._host.read(CONNECTIONS, limit=KERNEL_LIMIT) or b"").decode(errors="replace").splitlines()
        return tuple(line.strip() for line in lines if line.strip() and line.split()[0] not in _HEADS)

    def _ipvs(self, family: int) -> Optional[IpvsRules]:
        if isinstance(self.backend, Ipvs):
            rules: IpvsRules = self.rules(family)
            return rules
        if not self.virtual_servers and LINK not in dict(self.links):
            return None
        servers = self._saved_servers
        return parse_ipvs(tables=Tables(family), servers=servers, sets=self._saved_sets, links=self._listed_links)

    @cached_property
    def _saved_servers(self) -> str:
        """The output of ipvsadm. If the kernel has no virtual servers, ipvsadm is not run, because it would load ip_vs."""
        saved = self.output("ipvsadm", "-S", "-n") if self.virtual_servers else ""
        if self.virtual_servers and not saved:
            self.unread.append(
                (f"{len(self.virtual_servers)} virtual servers of ipvs", "ipvsadm is not installed on this node")
            )
        return saved

    @cached_property
    def _saved_sets(self) -> str:
        return self.output("ipset", "save")

    @cached_property
    def _sets(self) -> tuple[IpSet, ...]:
        """The ipsets, read only if a rule uses one, because ipset would load ip_set."""
        if isinstance(self.backend, Ipvs):
            return next((self.rules(family).sets for family in self.families), ())
        if not any(asks_for_sets(tables) for tables in self.iptables.values()):
            return ()
        try:
            return parse_sets(self._saved_sets)
        except BallastError as error:
            self.unread.append(("ipsets", error.text))
            return ()


def asks_for_sets(tables: Tables) -> bool:
    rules = (rule for table in tables.tables for chain in table.chains for rule in chain.rules)
    return any(isinstance(match, MatchSet) for rule in rules for match in rule.matches)


def read_iptables(
    host: Host, unread: Unread, *, known: Mapping[Slot, Tables] = _NOTHING, refuse_hidden: bool = True
) -> dict[Slot, Tables]:
    """The tables of both variants and families; `known` ones are not read again. `refuse_hidden`: whether a family counts as
    unread if iptables-save says that only nft can show one of its tables."""
    tables = dict(known)
    try:
        variants = restore.variants(host)
    except Unavailable:
        return tables
    for slot in product(variants, (4, 6)):
        if slot in tables:
            continue
        variant, family = slot
        try:
            tables[slot] = restore.read(host, family=family, variant=variant, refuse_hidden=refuse_hidden)
        except Unavailable:
            continue
        except BallastError as error:
            unread.append((f"iptables rules of IPv{family}, variant {variant}", error.text))
    return tables
