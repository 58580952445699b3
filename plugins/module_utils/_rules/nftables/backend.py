# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The backend nftables (see backends.py). Its rules are a table of our own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Optional

from ..._core.host.host import Host
from ..._core.host.names import MARK
from ..._core.text.errors import BallastError, shorten
from ..backend import NFT_FAMILIES, Settings
from ..model import FamilyView, RuleConfig
from . import transaction
from .compile import compile_rules
from .layout import EARLIER_CHAINS, OWNERS, SERVICE_RULES, owner_chain
from .messages import MESSAGES
from .objects import Table
from .presence import has_table, list_chains
from .render import render_table


class Nftables:
    """`owner` is one of OWNERS; `priority_offset` and `dscp_bypass` are as for `compile_rules`."""

    def __init__(
        self,
        table: str = MARK,
        *,
        priority_offset: int = 0,
        dscp_bypass: bool = False,
        owner: str = SERVICE_RULES,
    ) -> None:
        self.table = table
        self.priority_offset = priority_offset
        self.dscp_bypass = dscp_bypass
        self.owner = owner

    def compile(self, view: FamilyView, config: RuleConfig) -> Table:
        return compile_rules(
            view,
            config,
            table=self.table,
            priority_offset=self.priority_offset,
            dscp_bypass=self.dscp_bypass,
            owner=self.owner,
        )

    def settings(self, view: FamilyView, config: RuleConfig) -> Settings:
        return ()

    def prepare(self, host: Host) -> None:
        """Nothing to do: the kernel loads modules together with the rules."""

    def require_ours(self, host: Host, family: int) -> None:
        chains = list_chains(host, NFT_FAMILIES[family], self.table)
        if chains is None or owner_chain(self.owner) in chains:
            return
        others = {owner_chain(owner) for owner in OWNERS}
        if others & set(chains) or not set(chains) >= EARLIER_CHAINS:
            listing = f"its chains: {shorten(', '.join(chains)) or 'none'}"
            table = f"{NFT_FAMILIES[family]} {self.table}"
            raise MESSAGES.error("rules-nft-others", table=table, owner=self.owner, found=listing)

    def read(self, host: Host, family: int) -> Optional[Table]:
        return transaction.read(host, NFT_FAMILIES[family], self.table)

    def read_for_removal(self, host: Host, family: int) -> Optional[Table]:
        """The table without its contents: it is removed as a whole."""
        there = has_table(host, NFT_FAMILIES[family], self.table)
        return Table(NFT_FAMILIES[family], self.table) if there else None

    def plan(self, desired: Optional[Table], live: Optional[Table]) -> Sequence[transaction.Operation]:
        return transaction.plan(desired, live)

    def commit(self, operations: Sequence[transaction.Operation], host: Host, live: Optional[Table]) -> None:
        try:
            transaction.commit(operations, host)
        except BallastError:
            if live is not None and len(transaction.stages(operations)) > 1:
                now = transaction.read(host, live.family, live.name)
                transaction.commit(transaction.plan(live, now), host)
            raise

    def select_own(self, rules: Optional[Table]) -> Optional[Table]:
        return rules

    def diff(self, desired: Optional[Table], live: Optional[Table]) -> tuple[str, str]:
        return _render(live), _render(transaction.result(desired, live))


def _render(table: Optional[Table]) -> str:
    """The table as text, with named objects by name only: ours has none, and nft prints them in forms that we do not
    parse."""
    if table is None:
        return ""
    objects = "".join(f"{kind} {table.family} {table.name} {at}\n" for kind, at in table.objects)
    return render_table(replace(table, objects=())) + objects
