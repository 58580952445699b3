# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stale iptables chains of kube-proxy modes that are not in use, and what to do with each. Pure.

The audit reports the chains to remove and kube_proxy_cleanup removes them; both use this module. A chain with a name of
kube-proxy is removed, together with the jumps to it, unless

    the mode in use leads to it       it is not stale
    the kubelet uses it as well       KUBE-MARK-DROP, KUBE-MARK-MASQ and KUBE-POSTROUTING, as long as the kubelet's
                                      KUBE-FIREWALL drops marked packets: kubelets before 1.27 restore them every minute
    another program marks with it     CNI port maps call KUBE-MARK-MASQ and KUBE-MARK-DROP; with the former,
                                      KUBE-POSTROUTING is kept too, or the mark would have no effect
    it has rules of another program   these are kept with the jumps to the chain; kube-proxy's rules in it are removed. A
                                      rule that only leads to a chain of kube-proxy counts as kube-proxy's: without that
                                      chain it would have no effect
    another program's rule names it   the kernel does not delete the chain; it is flushed

KUBE-FIREWALL (filter), KUBE-IPTABLES-HINT and KUBE-KUBELET-CANARY belong to the kubelet and are in no layout. Source:
kube-proxy, iptables/cleanup.go; kubelet_network_linux.go of 1.27; KEP-3178.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Optional

from .._rules.iptables.compile import JUMPS as IPTABLES_JUMPS
from .._rules.iptables.names import FORMER, KUBELET_FIREWALL, MARK_DROP, MARK_MASQ, POSTROUTING
from .._rules.iptables.names import LAYOUT as IPTABLES_LAYOUT
from .._rules.iptables.objects import (
    BUILT_IN,
    Accounting,
    Chain,
    ConnectionState,
    Dnat,
    Goto,
    IpvsService,
    Jump,
    Layout,
    Mark,
    MatchSet,
    Rule,
    SetMark,
    Source,
    Table,
    Tables,
    Verdict,
)
from .._rules.iptables.restore import DELETE, EMPTY, REMOVE, Operation, is_jump_of
from .._rules.iptables.text import rule_text
from .._rules.ipvs.iptables import JUMPS as IPVS_JUMPS
from .._rules.ipvs.iptables import LAYOUT as IPVS_LAYOUT
from .._rules.ipvs.objects import SET_NAMES
from .._rules.model import IPTABLES, IPVS

Place = tuple[str, str]  # (table, chain)

_NOTHING = Layout(frozenset())
_MARK_DROP = ("nat", MARK_DROP)
OF_KUBE_PROXY = Layout(IPTABLES_LAYOUT.chains | IPVS_LAYOUT.chains | {_MARK_DROP}, IPTABLES_LAYOUT.prefixes)
_IN_USE = {IPTABLES: IPTABLES_LAYOUT, IPVS: IPVS_LAYOUT}
_LEFT_BESIDE = {
    IPTABLES: Layout((IPVS_LAYOUT.chains - IPTABLES_LAYOUT.chains) | FORMER.chains | {_MARK_DROP}, FORMER.prefixes),
    IPVS: Layout((IPTABLES_LAYOUT.chains - IPVS_LAYOUT.chains) | {_MARK_DROP}, IPTABLES_LAYOUT.prefixes),
}
# Jumps to chains that both modes have: table, chain, target, comment.
_JUMPS = {
    IPTABLES: frozenset((table, chain, to, comment) for table, chain, to, _matches, comment in IPTABLES_JUMPS),
    IPVS: frozenset(IPVS_JUMPS),
}
_OTHER = {IPTABLES: IPVS, IPVS: IPTABLES}
# "default/web:http", as in the comments of all rules of a Service.
_SERVICE = re.compile(r"(?:^| )[a-z0-9](?:[-a-z0-9]*[a-z0-9])?/[a-z0-9][-.a-z0-9]*")
_LOOPBACK = ("127.0.0.0/8", "::1/128")


@dataclass(frozen=True)
class Kept:
    table: str
    chain: str
    why: str


@dataclass(frozen=True)
class StaleChains:
    """The stale chains of one variant and family, with the operations on the rules that were read; `jumps` are done
    first."""

    jumps: tuple[Operation, ...] = ()
    chains: tuple[Operation, ...] = ()
    kept: tuple[Kept, ...] = ()
    # Chains from which individual rules are deleted, so their rules must be read as written.
    mixed: frozenset[Place] = frozenset()


def find_stale_chains(tables: Tables, mode: str, *, in_use: bool) -> StaleChains:
    """The chains that `mode` does not use. `in_use`: whether kube-proxy writes this variant in `mode` (irrelevant for
    nftables)."""
    beside = mode if in_use else ""
    layout = _LEFT_BESIDE.get(beside, OF_KUBE_PROXY)
    parts = [_Table(table, tables, layout, beside).classify() for table in tables.tables]
    return StaleChains(
        tuple(operation for part in parts for operation in part.jumps),
        tuple(operation for part in parts for operation in part.chains),
        tuple(chain for part in parts for chain in part.kept),
        frozenset(place for part in parts for place in part.mixed),
    )


class _Table:
    def __init__(self, table: Table, tables: Tables, layout: Layout, mode: str) -> None:
        self.table = table
        self.name = table.name
        self.layout = layout
        self.mode = mode
        self.stays = _IN_USE.get(mode, _NOTHING)
        self.leaving = {chain.name: chain for chain in table.chains if layout.owns(table.name, chain.name)}
        self.foreign = {
            name: tuple(rule for rule in chain.rules if not is_by_kube_proxy(self.name, name, rule))
            for name, chain in self.leaving.items()
        }
        self.named = self._find_holders()
        self.whole = dict(self._find_whole(tables))

    def classify(self) -> StaleChains:
        chains, kept, mixed = [], [], set()
        for name, chain in self.leaving.items():
            foreign = self.foreign[name]
            if name in self.whole:
                kept.append(Kept(self.name, name, self.whole[name]))
            elif foreign:
                why = f"it has a rule of another program, which is kept with the jumps to it: {rule_text(foreign[0])}"
                kept.append(Kept(self.name, name, why))
                own = tuple(rule for rule in chain.rules if rule not in foreign)
                if own:
                    mixed.add((self.name, name))
                    chains.append(Operation(REMOVE, self.name, name, own))
            elif name in self.named:
                kept.append(Kept(self.name, name, f"empty: a rule of another program names it: {self.named[name][1]}"))
                if chain.rules:
                    chains.append(Operation(EMPTY, self.name, name))
            else:
                chains.append(Operation(DELETE, self.name, name))
        return StaleChains(tuple(self._jumps()), tuple(chains), tuple(kept), frozenset(mixed))

    def _jumps(self) -> Iterator[Operation]:
        kept = {name for name in self.leaving if name in self.whole or self.foreign[name]}
        for name in BUILT_IN[self.name]:
            stale = tuple(
                rule
                for rule in _rules(self.table, name)
                if self._is_ours(rule) and _target(rule) not in kept or self._is_of_other_mode(name, rule)
            )
            if stale:
                yield Operation(REMOVE, self.name, name, stale)

    def _is_ours(self, rule: Rule) -> bool:
        return is_jump_of(self.layout, self.name, rule)

    def _is_of_other_mode(self, chain: str, rule: Rule) -> bool:
        """Whether it is a jump that only the other mode has, to a chain that the mode in use has too."""
        if self.mode not in _OTHER:
            return False
        key = (self.name, chain, _target(rule), rule.comment)
        return key in _JUMPS[_OTHER[self.mode]] and key not in _JUMPS[self.mode]

    def _find_holders(self) -> Mapping[str, tuple[str, str]]:
        """The stale chains that kept rules refer to: for each, the chain of such a rule, and the rule."""
        holders: dict[str, tuple[str, str]] = {}
        for chain in self.table.chains if self.leaving else ():
            for rule in self.foreign.get(chain.name, chain.rules):
                to = _target(rule)
                if to in self.leaving and not (chain.name in BUILT_IN[self.name] and self._is_ours(rule)):
                    holders.setdefault(to, (chain.name, f"-A {chain.name} {rule_text(rule)}"))
        return holders

    def _find_whole(self, tables: Tables) -> Iterator[tuple[str, str]]:
        """The chains to keep with all their rules, and why."""
        used = [name for name, (holder, _rule) in self.named.items() if self.stays.owns(self.name, holder)]
        reached = dict.fromkeys(used)
        for name in used:
            reached.update(dict.fromkeys(self._reachable(name)))
        for name in reached:
            yield name, f"rules of mode {self.mode}, which is in use, jump to it"
        if self.name != "nat":
            return
        if _kubelet_marks(tables):
            for name in (MARK_DROP, MARK_MASQ, POSTROUTING):
                if name in self.leaving and name not in reached:
                    yield (
                        name,
                        "the kubelet uses it too: chain KUBE-FIREWALL drops by mark, as in kubelets before 1.27",
                    )
            return
        for name in (MARK_DROP, MARK_MASQ):
            if name in self.named and name not in reached:
                yield name, f"another program marks packets with it: {self.named[name][1]}"
        if MARK_MASQ in self.named and POSTROUTING in self.leaving:
            yield POSTROUTING, f"it masquerades what another program marks: {self.named[MARK_MASQ][1]}"

    def _reachable(self, start: str) -> Iterator[str]:
        waiting, seen = [start], {start}
        while waiting:
            for rule in self.leaving[waiting.pop()].rules:
                to = _target(rule)
                if to in self.leaving and to not in seen:
                    seen.add(to)
                    waiting.append(to)
                    yield to


def is_by_kube_proxy(table: str, chain: str, rule: Rule) -> bool:
    """Whether kube-proxy wrote this rule, which is in one of its chains.

    Its rules lead to its chains, use its sets, or have its comments. The few others are each in a chain of their own.
    """
    to = _target(rule)
    if to:
        return OF_KUBE_PROXY.owns(table, to)
    if rule.comment.lower().startswith("kubernetes") or _SERVICE.search(rule.comment):
        return True
    sets = {match.name for match in rule.matches if isinstance(match, MatchSet)}
    if sets & {*SET_NAMES} or any(isinstance(match, IpvsService) for match in rule.matches):
        return True
    return _is_plain(chain, rule)


def _is_plain(chain: str, rule: Rule) -> bool:
    """Whether it is one of kube-proxy's rules without a comment, of any release since 1.1."""
    if isinstance(rule.target, SetMark):
        return chain in (MARK_MASQ, MARK_DROP, POSTROUTING)
    if isinstance(rule.target, Dnat):
        return chain.startswith("KUBE-SEP-")
    if rule.target is None:
        return any(isinstance(match, Accounting) for match in rule.matches)
    if rule.target == Verdict("RETURN"):
        if chain == POSTROUTING:
            return all(isinstance(match, Mark) and match.negated for match in rule.matches) and bool(rule.matches)
        return any(isinstance(match, Source) and match.network in _LOOPBACK for match in rule.matches)
    if rule.target == Verdict("DROP"):
        if chain == "KUBE-SOURCE-RANGES-FIREWALL":
            return not rule.matches
        states = [match for match in rule.matches if isinstance(match, ConnectionState)]
        return chain == "KUBE-FORWARD" and states == [ConnectionState(("INVALID",))]
    return False


def _kubelet_marks(tables: Tables) -> bool:
    """Whether the kubelet's own chain drops the packets that KUBE-MARK-DROP marks."""
    firewall: Optional[Chain] = tables.chain("filter", KUBELET_FIREWALL)
    marking: Optional[Chain] = tables.chain("nat", MARK_DROP)
    if firewall is None or marking is None:
        return False
    bits = {rule.target.mask for rule in marking.rules if isinstance(rule.target, SetMark)}
    return any(
        rule.target == Verdict("DROP") and any(isinstance(match, Mark) and match.mask in bits for match in rule.matches)
        for rule in firewall.rules
    )


def _rules(table: Table, chain: str) -> tuple[Rule, ...]:
    there = table.by_name.get(chain)
    return there.rules if there is not None else ()


def _target(rule: Rule) -> str:
    return rule.target.chain if isinstance(rule.target, (Jump, Goto)) else ""
