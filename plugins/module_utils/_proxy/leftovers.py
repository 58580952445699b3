# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Chains of iptables that a mode of kube-proxy which is not in use has left, and what is to become of each. Pure.

The audit tells of those that go, and the clean-up removes them: both ask here. A chain of kube-proxy's names goes, with the
jumps to it, unless

    the mode in use leads to it       it is not left over, whatever its name
    it is the kubelet's as well       KUBE-MARK-DROP, KUBE-MARK-MASQ and KUBE-POSTROUTING, as long as its KUBE-FIREWALL drops
                                      what is marked: kubelets of before 1.27 write them again each minute
    another program marks by it       KUBE-MARK-MASQ and KUBE-MARK-DROP are called by port maps of CNI; with the first, what
                                      masquerades the marked packets (KUBE-POSTROUTING) stays, or the mark would mean nothing
    it has rules of another program   they stay as they are, with what leads to the chain; kube-proxy's rules in it go. A rule
                                      that only leads on to a chain of kube-proxy's is kube-proxy's: without that chain it
                                      would do nothing
    another program's rule names it   the kernel keeps the chain; it is emptied

KUBE-FIREWALL (filter), KUBE-IPTABLES-HINT and KUBE-KUBELET-CANARY are the kubelet's, and in no layout.
Source: reference of kube-proxy 2.4; kubelet_network_linux.go of 1.27; KEP-3178.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Optional

from .iptables.compile import JUMPS as IPTABLES_JUMPS
from .iptables.names import FORMER, KUBELET_FIREWALL, MARK_DROP, MARK_MASQ, POSTROUTING
from .iptables.names import LAYOUT as IPTABLES_LAYOUT
from .iptables.objects import (
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
from .iptables.restore import DELETE, EMPTY, REMOVE, Operation, is_jump_of
from .iptables.text import rule_text
from .ipvs.iptables import JUMPS as IPVS_JUMPS
from .ipvs.iptables import LAYOUT as IPVS_LAYOUT
from .ipvs.objects import SET_NAMES
from .model import IPTABLES, IPVS

Place = tuple[str, str]  # table and chain

_NOTHING = Layout(frozenset())
_MARK_DROP = ("nat", MARK_DROP)
_EVERY = Layout(IPTABLES_LAYOUT.chains | IPVS_LAYOUT.chains | {_MARK_DROP}, IPTABLES_LAYOUT.prefixes)
_IN_USE = {IPTABLES: IPTABLES_LAYOUT, IPVS: IPVS_LAYOUT}
_LEFT_BESIDE = {
    IPTABLES: Layout((IPVS_LAYOUT.chains - IPTABLES_LAYOUT.chains) | FORMER.chains | {_MARK_DROP}, FORMER.prefixes),
    IPVS: Layout((IPTABLES_LAYOUT.chains - IPVS_LAYOUT.chains) | {_MARK_DROP}, IPTABLES_LAYOUT.prefixes),
}
# Jumps to chains that both modes have: table, chain, where to, comment.
_JUMPS = {
    IPTABLES: frozenset((table, chain, to, comment) for table, chain, to, _matches, comment in IPTABLES_JUMPS),
    IPVS: frozenset(IPVS_JUMPS),
}
_OTHER = {IPTABLES: IPVS, IPVS: IPTABLES}
# "default/web:http" as every comment of a Service has it.
_SERVICE = re.compile(r"(?:^| )[a-z0-9](?:[-a-z0-9]*[a-z0-9])?/[a-z0-9][-.a-z0-9]*")
_LOOPBACK = ("127.0.0.0/8", "::1/128")


@dataclass(frozen=True)
class Kept:
    table: str
    chain: str
    why: str


@dataclass(frozen=True)
class Leftovers:
    """Of one variant and family. The operations are planned from the rules that were looked at: `jumps` first."""

    jumps: tuple[Operation, ...] = ()
    chains: tuple[Operation, ...] = ()
    kept: tuple[Kept, ...] = ()
    mixed: frozenset[Place] = (
        frozenset()
    )  # chains of which single rules are deleted, so that these are to be read as written


def leftovers(found: Tables, mode: str, *, in_use: bool) -> Leftovers:
    """What the mode does not use; `in_use`: whether `found` is of the variant that kube-proxy writes in this mode (no matter
    for nftables)."""
    beside = mode if in_use else ""
    layout = _LEFT_BESIDE.get(beside, _EVERY)
    parts = [_Table(table, found, layout, beside).sorted_out() for table in found.tables]
    return Leftovers(
        tuple(one for part in parts for one in part.jumps),
        tuple(one for part in parts for one in part.chains),
        tuple(one for part in parts for one in part.kept),
        frozenset(one for part in parts for one in part.mixed),
    )


class _Table:
    def __init__(self, table: Table, found: Tables, layout: Layout, mode: str) -> None:
        self.table = table
        self.name = table.name
        self.layout = layout
        self.mode = mode
        self.stays = _IN_USE.get(mode, _NOTHING)
        self.leaving = {chain.name: chain for chain in table.chains if layout.owns(table.name, chain.name)}
        self.foreign = {
            name: tuple(rule for rule in chain.rules if not is_kube_proxys(self.name, name, rule))
            for name, chain in self.leaving.items()
        }
        self.named = self._named()
        self.whole = dict(self._whole(found))

    def sorted_out(self) -> Leftovers:
        chains, kept, mixed = [], [], set()
        for name, chain in self.leaving.items():
            foreign = self.foreign[name]
            if name in self.whole:
                kept.append(Kept(self.name, name, self.whole[name]))
            elif foreign:
                why = f"it has a rule of another program, which stays with what leads there: {rule_text(foreign[0])}"
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
        return Leftovers(tuple(self._jumps()), tuple(chains), tuple(kept), frozenset(mixed))

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
        """A jump that only the other mode writes, to a chain that the mode in use has as well."""
        if self.mode not in _OTHER:
            return False
        key = (self.name, chain, _target(rule), rule.comment)
        return key in _JUMPS[_OTHER[self.mode]] and key not in _JUMPS[self.mode]

    def _named(self) -> Mapping[str, tuple[str, str]]:
        """Chains that go, by rules that stay: the chain of such a rule, and the rule."""
        found: dict[str, tuple[str, str]] = {}
        for chain in self.table.chains if self.leaving else ():
            for rule in self.foreign.get(chain.name, chain.rules):
                to = _target(rule)
                if to in self.leaving and not (chain.name in BUILT_IN[self.name] and self._is_ours(rule)):
                    found.setdefault(to, (chain.name, f"-A {chain.name} {rule_text(rule)}"))
        return found

    def _whole(self, found: Tables) -> Iterator[tuple[str, str]]:
        """Chains that stay with all their rules, and why."""
        used = [name for name, (holder, _rule) in self.named.items() if self.stays.owns(self.name, holder)]
        reached = dict.fromkeys(used)
        for name in used:
            reached.update(dict.fromkeys(self._reachable(name)))
        for name in reached:
            yield name, f"the rules of the mode {self.mode}, which is in use, lead to it"
        if self.name != "nat":
            return
        if _kubelet_marks(found):
            for name in (MARK_DROP, MARK_MASQ, POSTROUTING):
                if name in self.leaving and name not in reached:
                    yield (
                        name,
                        "it is the kubelet's too: the chain KUBE-FIREWALL drops by mark, as kubelets before 1.27 have it",
                    )
            return
        for name in (MARK_DROP, MARK_MASQ):
            if name in self.named and name not in reached:
                yield name, f"another program marks packets by it: {self.named[name][1]}"
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


def is_kube_proxys(table: str, chain: str, rule: Rule) -> bool:
    """Whether kube-proxy wrote this rule of one of its chains.

    Its rules lead to its chains, look into its sets, or say in their comments what they are for; without any of it there are
    few, each in a chain of its own.
    """
    to = _target(rule)
    if to:
        return _EVERY.owns(table, to)
    if rule.comment.lower().startswith("kubernetes") or _SERVICE.search(rule.comment):
        return True
    if any(isinstance(one, MatchSet) and one.name in SET_NAMES or isinstance(one, IpvsService) for one in rule.matches):
        return True
    return _is_plain(chain, rule)


def _is_plain(chain: str, rule: Rule) -> bool:
    """Rules without a comment, of any release from 1.1 on."""
    if isinstance(rule.target, SetMark):
        return chain in (MARK_MASQ, MARK_DROP, POSTROUTING)
    if isinstance(rule.target, Dnat):
        return chain.startswith("KUBE-SEP-")
    if rule.target is None:
        return any(isinstance(one, Accounting) for one in rule.matches)
    if rule.target == Verdict("RETURN"):
        if chain == POSTROUTING:
            return all(isinstance(one, Mark) and one.negated for one in rule.matches) and bool(rule.matches)
        return any(isinstance(one, Source) and one.network in _LOOPBACK for one in rule.matches)
    if rule.target == Verdict("DROP"):
        if chain == "KUBE-SOURCE-RANGES-FIREWALL":
            return not rule.matches
        states = [one for one in rule.matches if isinstance(one, ConnectionState)]
        return chain == "KUBE-FORWARD" and states == [ConnectionState(("INVALID",))]
    return False


def _kubelet_marks(found: Tables) -> bool:
    """Whether the kubelet's own chain drops what KUBE-MARK-DROP marks."""
    firewall: Optional[Chain] = found.chain("filter", KUBELET_FIREWALL)
    marking: Optional[Chain] = found.chain("nat", MARK_DROP)
    if firewall is None or marking is None:
        return False
    bits = {one.target.mask for one in marking.rules if isinstance(one.target, SetMark)}
    return any(
        rule.target == Verdict("DROP") and any(isinstance(one, Mark) and one.mask in bits for one in rule.matches)
        for rule in firewall.rules
    )


def _rules(table: Table, chain: str) -> tuple[Rule, ...]:
    there = table.by_name.get(chain)
    return there.rules if there is not None else ()


def _target(rule: Rule) -> str:
    return rule.target.chain if isinstance(rule.target, (Jump, Goto)) else ""
