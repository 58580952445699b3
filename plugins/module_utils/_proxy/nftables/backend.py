# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""nftables behind the functions that all backends have (backends.py). Rules are the one table that is ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from ..._core.host import Host
from ..._core.names import MARK
from ..backends import NFT_FAMILIES, Settings, Tracer
from ..model import FamilyView, RuleConfig
from ..packet import Surroundings
from . import transaction
from .compile import compile_rules
from .objects import Ruleset, Table
from .presence import is_there
from .render import render_table


class Nftables:
    def __init__(self, table: str = MARK, *, priority_offset: int = 0, lets_by: bool = False) -> None:
        self.table = table
        self.priority_offset = priority_offset
        self.lets_by = lets_by

    def compile(self, view: FamilyView, config: RuleConfig) -> Table:
        return compile_rules(view, config, table=self.table, priority_offset=self.priority_offset, lets_by=self.lets_by)

    def settings(self, view: FamilyView, config: RuleConfig) -> Settings:
        return ()

    def prepare(self, host: Host) -> None:
        """The kernel loads modules of rules when rules come."""

    def read(self, host: Host, family: int) -> Optional[Table]:
        return transaction.read(host, NFT_FAMILIES[family], self.table)

    def left(self, host: Host, family: int) -> Optional[Table]:
        """The table without what is in it: it goes as a whole."""
        there = is_there(host, NFT_FAMILIES[family], self.table)
        return Table(NFT_FAMILIES[family], self.table) if there else None

    def parse(self, text: str, family: int) -> Optional[Table]:
        from ..dump import parse_nftables  # a dump may have parts of every backend

        return parse_nftables(text).tables.get((NFT_FAMILIES[family], self.table))

    def plan(self, wanted: Optional[Table], found: Optional[Table]) -> Sequence[transaction.Operation]:
        return transaction.plan(wanted, found)

    def commit(self, operations: Sequence[transaction.Operation], host: Host, found: Optional[Table]) -> None:
        transaction.commit(operations, host)

    def tracer(self, rules: Optional[Table], surroundings: Surroundings) -> Tracer:
        from .trace import Tracer as Asked  # a module that brings rules into the kernel never traces

        tables = {} if rules is None else {(rules.family, rules.name): rules}
        return Asked(Ruleset(tables), surroundings).answer

    def own(self, rules: Optional[Table]) -> Optional[Table]:
        return rules

    def shown(self, rules: Table) -> str:
        return render_table(rules)
