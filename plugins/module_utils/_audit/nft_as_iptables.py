# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The chains of iptables-nft as `nft list ruleset` shows them, to find stale chains. Pure.

nft shows which chains exist and where rules jump, but not the comments and matches that identify kube-proxy's rules. So
every rule in a chain with a name of kube-proxy counts as kube-proxy's.
"""

from __future__ import annotations

from collections.abc import Iterator

from .._rules.backend import NFT_FAMILIES
from .._rules.iptables.objects import BUILT_IN, Chain, Goto, Jump, Rule, Tables, Target, Unknown, tables
from .._rules.nftables import objects as nft
from .._rules.nftables.expressions import JUMP, Verdict
from .._rules.nftables.render import render_rule

_BY_KUBE_PROXY = "kubernetes"  # how kube-proxy's comments begin


def tables_of(ruleset: nft.Ruleset) -> Iterator[Tables]:
    """For each family, the tables with names of iptables tables."""
    for family, name in NFT_FAMILIES.items():
        named = {key[1]: table for key, table in ruleset.tables.items() if key[0] == name and key[1] in BUILT_IN}
        if named:
            yield tables(family, {of: _chains(table) for of, table in named.items()})


def _chains(table: nft.Table) -> dict[str, Chain]:
    return {name: Chain(name, tuple(_rule(name, rule) for rule in chain.rules)) for name, chain in table.chains.items()}


def _rule(chain: str, rule: nft.Rule) -> Rule:
    last = rule.statements[-1] if rule.statements else None
    to = last.target if isinstance(last, Verdict) else ""
    target: Target = Unknown(render_rule(rule))
    if to:
        target = Jump(to) if last == Verdict(JUMP, to) else Goto(to)
    is_kube = chain.startswith("KUBE-") or to.startswith("KUBE-")
    return Rule((), target, _BY_KUBE_PROXY if is_kube else rule.comment)
