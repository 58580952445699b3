# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules of other programs that take packets to Services, in the present mode and in the new one. Pure.

The rules of other programs are those on the node. kube-proxy's are compiled from the snapshot, for the Services that those
rules may affect; if the present mode is iptables or ipvs, its iptables rules are read from the kernel, because their
position matters. If the new mode is iptables or ipvs, kube-proxy inserts its jumps above all other rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Optional

from ..._audit.foreign_rules import find_foreign_rules
from ..._audit.foreign_translation import Taken, find_taken, select_met, without_kube_proxy
from ..._audit.verdict_comparison import describe_route
from ..._rules.backend import KUBE_PROXY_TABLE
from ..._rules.iptables.backend import Iptables
from ..._rules.iptables.objects import BUILT_IN, Chain, Table, Tables
from ..._rules.iptables.restore import NFT
from ..._rules.ipvs.backend import Ipvs
from ..._rules.ipvs.objects import IpvsRules
from ..._rules.model import IPTABLES, IPVS, NFTABLES, FamilyView, RuleConfig
from ..._rules.nftables.backend import Nftables
from ..._rules.nftables.objects import Ruleset
from ..._rules.node_addresses import surroundings_with
from ..._rules.node_rules import NodeRules
from ..._rules.packet import Answer, Surroundings
from .facts import Facts

_Key = tuple[str, str]  # (place, text) of a rule
_SERVED = "as the Service says"


@dataclass(frozen=True)
class Change:
    """What a rule takes before and after; None if it takes nothing."""

    before: Optional[Taken]
    after: Optional[Taken]

    @property
    def is_same(self) -> bool:
        return self.before is not None and self.after is not None and self.before.is_certain == self.after.is_certain

    @property
    def lines(self) -> tuple[str, ...]:
        """The rule, and what it does; findings shorten longer lines."""
        taken = self.after or self.before
        if taken is None:
            return ()
        more = len(taken.services) - 1
        met = taken.services[0] + (f" and {more} more Services" if more else "")
        return (taken.rule.shown, f"matched by {met}: {describe_route(taken.packet)}: {self._outcome}")

    @property
    def _outcome(self) -> str:
        before, after = (_describe(taken) for taken in (self.before, self.after))
        return after if self.is_same else f"now {before}, after the change {after}"


def _describe(taken: Optional[Taken]) -> str:
    if taken is None:
        return _SERVED
    answers = [_show(way) for way in taken.answer.ways] or [_show(taken.answer)]
    return f"{' or '.join(answers)}, by unknown order" if len(answers) > 1 else answers[0]


def _show(answer: Answer) -> str:
    more = len(answer.endpoints) - 1
    return (
        f"{answer.verdict} to {answer.endpoints[0]}" + (f" and {more} more" if more else "")
        if more >= 0
        else answer.verdict
    )


def find_changes(facts: Facts) -> list[Change]:
    """The change of every rule that takes packets to Services before or after."""
    surroundings = surroundings_with(facts.links)
    changes: list[Change] = []
    for family, view in facts.views.items():
        rules = facts.foreign.get(family)
        if rules is None or family not in facts.after:
            continue
        taken_after = _find(rules, view, facts.after[family], surroundings, facts.change.to_mode, is_new=True)
        if not facts.change.from_mode or family not in facts.before:
            changes += [Change(taken, taken) for taken in taken_after.values()]
            continue
        taken_before = _find(rules, view, facts.before[family], surroundings, facts.change.from_mode, is_new=False)
        keys = dict.fromkeys((*taken_before, *taken_after))
        changes += [Change(taken_before.get(key), taken_after.get(key)) for key in keys]
    return changes


def _find(
    rules: NodeRules,
    view: FamilyView,
    config: RuleConfig,
    surroundings: Surroundings,
    mode: str,
    *,
    is_new: bool,
) -> Mapping[_Key, Taken]:
    variant = next(iter(rules.iptables), NFT)
    in_kernel = not is_new and mode in (IPTABLES, IPVS)
    bare = rules if in_kernel else without_kube_proxy(rules)
    translated_by = variant if in_kernel and mode == IPTABLES else ""
    met = select_met(
        list(find_foreign_rules(bare, view.family, translated_by=translated_by)), view, config, surroundings
    )
    if not met:
        return {}
    titles = {frontend.service.title for frontend in met}
    narrow = replace(
        view,
        services=tuple(service for service in view.services if service.title in titles),
        frontends=tuple(frontend for frontend in view.frontends if frontend.service.title in titles),
    )
    whole = _with_kube_proxy(bare, narrow, config, mode, variant, in_kernel=in_kernel)
    after_jump = variant if mode == IPTABLES else ""
    findings = find_taken(whole, narrow, config, surroundings, translated_by=after_jump)
    return {(taken.rule.place, taken.rule.text): taken for taken in findings}


def _with_kube_proxy(
    rules: NodeRules, view: FamilyView, config: RuleConfig, mode: str, variant: str, *, in_kernel: bool
) -> NodeRules:
    if mode == NFTABLES:
        table = Nftables(KUBE_PROXY_TABLE).compile(view, config)
        return replace(rules, nftables=Ruleset({**rules.nftables.tables, (table.family, table.name): table}))
    if mode == IPVS:
        compiled = Ipvs(variant).compile(view, config)
        there = rules.iptables.get(variant, Tables(view.family))
        tables = there if in_kernel else _above(compiled.tables, there)
        ipvs: IpvsRules = replace(compiled, tables=tables)
        return replace(rules, iptables={**rules.iptables, variant: tables}, ipvs=ipvs, sets=ipvs.sets)
    if in_kernel:
        return rules
    tables = _above(Iptables(variant).compile(view, config), rules.iptables.get(variant, Tables(view.family)))
    return replace(rules, iptables={**rules.iptables, variant: tables})


def _above(own: Tables, others: Tables) -> Tables:
    """Both, with the rules of `own` first in chains that both have."""
    names = [name for name in BUILT_IN if any(table.name == name for table in (*own.tables, *others.tables))]
    return Tables(own.family, tuple(_merge(own, others, name) for name in names))


def _merge(own: Tables, others: Tables, name: str) -> Table:
    chains: dict[str, Chain] = {}
    for tables in (own, others):
        for chain in next((table.chains for table in tables.tables if table.name == name), ()):
            there = chains.get(chain.name)
            chains[chain.name] = chain if there is None else replace(there, rules=(*there.rules, *chain.rules))
    return Table(name, tuple(chains.values()))
