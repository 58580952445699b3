# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds rules of other programs that may keep packets from kube-proxy's translation: rules that translate, that end the nat
table first, or that take packets out of conntrack. Pure.

A rule that somebody has added to one of kube-proxy's chains is a fault of that chain; verdict_comparison.py finds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .._core.host.names import MARK
from .._core.text.errors import BallastError
from .._rules.backend import KUBE_PROXY_TABLE, NFT_FAMILIES, SERVICE_PROXY_TABLE, TAKEOVER_TABLE
from .._rules.iptables import objects as ipt
from .._rules.iptables.text import rule_text
from .._rules.nftables import expressions as nft
from .._rules.nftables.objects import Chain, Rule, Table
from .._rules.nftables.render import render_rule
from .._rules.node_rules import NodeRules
from .foreign_scope import Scope, narrow_by_iptables, narrow_by_keys, narrow_by_nft, targets_of
from .stale_chains import OF_KUBE_PROXY
from .tracing.iptables_targets import DnatRange, Redirect, Untrack, effect_of

PREROUTING, OUTPUT = "prerouting", "output"
_HOOKS = (PREROUTING, OUTPUT)
_SERVICE_TABLES = (KUBE_PROXY_TABLE, MARK, TAKEOVER_TABLE)
_DEPTH_LIMIT = 16  # nested calls of chains, as nf_tables allows
_CONNTRACK_PRIORITY = -200
# Programs by prefixes of chain and table names.
_PROGRAMS = (
    ("DOCKER", "Docker"),
    ("CNI-", "the CNI plugin portmap"),
    ("cni_hostport", "the CNI plugin portmap"),
    ("NETAVARK", "Podman"),
    ("netavark", "Podman"),
    ("cali", "Calico"),
    ("CILIUM_", "Cilium"),
    ("ANTREA", "Antrea"),
    ("KUBE-ROUTER", "kube-router"),
    ("firewalld", "firewalld"),
    ("ISTIO_", "Istio"),
    ("LIBVIRT_", "libvirt"),
    ("libvirt", "libvirt"),
    ("ufw", "ufw"),
    ("UPNP", "miniupnpd"),
    (SERVICE_PROXY_TABLE, SERVICE_PROXY_TABLE),
)


TRANSLATES = "translates"
ENDS = "ends"  # ends the nat table before kube-proxy's rules in it
UNTRACKS = "untracks"


@dataclass(frozen=True)
class ForeignRule:
    """A rule that decides, in a chain reachable for packets from a link (PREROUTING) or from the node (OUTPUT)."""

    hook: str
    text: str  # only the rule, as a trace shows it
    place: str  # "iptables (nft), table nat, chain DOCKER" or "nftables, table ip x, chain y"
    program: str  # "" if the names do not reveal it
    scope: Scope
    kind: str = TRANSLATES
    rule: object = field(default=None, compare=False, repr=False)  # the rule object of the table

    @property
    def shown(self) -> str:
        return f"{self.place}: {self.text}" + (f" (of {self.program})" if self.program else "")


def find_foreign_rules(rules: NodeRules, family: int, *, translated_by: str) -> Iterator[ForeignRule]:
    """`translated_by` is the variant of iptables whose jump to KUBE-SERVICES translates; "" for nftables and ipvs. Rules
    after that jump see only packets that kube-proxy did not translate."""
    for key, table in rules.nftables.tables.items():
        is_of_family = table.family in (NFT_FAMILIES[family], "inet")
        if is_of_family and is_foreign_table(key[1]) and "dormant" not in table.flags:
            yield from _InNft(table).rules()
    for variant, tables in rules.iptables.items():
        for name in ("nat", "raw"):
            listed = next((of_name for of_name in tables.tables if of_name.name == name), None)
            if listed is not None:
                yield from _InIptables(listed, variant, translates=variant == translated_by).rules()


def is_foreign_table(name: str) -> bool:
    """Whether an nftables table belongs to another program."""
    return name not in _SERVICE_TABLES


class _InIptables:
    def __init__(self, table: ipt.Table, variant: str, *, translates: bool) -> None:
        self._table = table
        self._variant = variant
        self._translates = translates

    def rules(self) -> Iterator[ForeignRule]:
        for hook in _HOOKS:
            chain = self._table.by_name.get(hook.upper())
            for rule in chain.rules if chain is not None else ():
                if self._translates and _target(rule) == "KUBE-SERVICES":
                    break
                yield from self._rule(hook, hook.upper(), rule, Scope(), depth=0)

    def _rule(self, hook: str, chain: str, rule: ipt.Rule, scope: Scope, *, depth: int) -> Iterator[ForeignRule]:
        scope = narrow_by_iptables(scope, rule.matches)
        to = _target(rule)
        if to:
            there = self._table.by_name.get(to)
            if there is not None and depth < _DEPTH_LIMIT and not OF_KUBE_PROXY.owns(self._table.name, to):
                for inner in there.rules:
                    yield from self._rule(hook, to, inner, scope, depth=depth + 1)
        else:
            kind = self._kind(rule, is_built_in=depth == 0)
            place = f"iptables ({self._variant}), table {self._table.name}, chain {chain}"
            if kind:
                yield ForeignRule(hook, f"-A {chain} {rule_text(rule)}", place, program_of(chain), scope, kind, rule)

    def _kind(self, rule: ipt.Rule, *, is_built_in: bool) -> str:
        """The kind of a rule; "" if it keeps no packet from kube-proxy's rules."""
        target = rule.target
        effect = effect_of(target.text) if isinstance(target, ipt.Unknown) else None
        if self._table.name == "raw":
            return UNTRACKS if isinstance(effect, Untrack) else ""
        if isinstance(target, ipt.Dnat) or isinstance(effect, (DnatRange, Redirect)):
            return TRANSLATES
        if target == ipt.Verdict("ACCEPT") or (is_built_in and target == ipt.Verdict("RETURN")):
            return ENDS if self._translates else ""
        return TRANSLATES if isinstance(target, ipt.Unknown) and effect is None else ""


def _target(rule: ipt.Rule) -> str:
    return rule.target.chain if isinstance(rule.target, (ipt.Jump, ipt.Goto)) else ""


class _InNft:
    def __init__(self, table: Table) -> None:
        self._table = table
        self._place = f"nftables, table {table.family} {table.name}"

    def rules(self) -> Iterator[ForeignRule]:
        for chain in self._table.chains.values():
            base = chain.base
            if base is None or base.hook not in _HOOKS:
                continue
            if base.type == "nat" or base.priority < _CONNTRACK_PRIORITY:
                yield from self._chain(base.hook, chain, Scope(), is_nat=base.type == "nat", depth=0)

    def _chain(self, hook: str, chain: Chain, scope: Scope, *, is_nat: bool, depth: int) -> Iterator[ForeignRule]:
        for rule in chain.rules:
            yield from self._rule(hook, chain, rule, scope, is_nat=is_nat, depth=depth)

    def _rule(
        self, hook: str, chain: Chain, rule: Rule, scope: Scope, *, is_nat: bool, depth: int
    ) -> Iterator[ForeignRule]:
        for statement in rule.statements:
            scope = narrow_by_nft(scope, statement, self._table)
            if isinstance(statement, nft.Verdict) and statement.target:
                yield from self._jump(hook, statement, scope, is_nat=is_nat, depth=depth)
            elif isinstance(statement, nft.Vmap):
                for key, verdict in targets_of(statement.to, self._table):
                    if verdict.target:
                        inner = narrow_by_keys(scope, statement.key, [key])
                        yield from self._jump(hook, verdict, inner, is_nat=is_nat, depth=depth)
            elif _kind(statement, is_nat=is_nat):
                place = f"{self._place}, chain {chain.name}"
                program = program_of(self._table.name) or program_of(chain.name)
                yield ForeignRule(hook, _text(rule), place, program, scope, _kind(statement, is_nat=is_nat), rule)

    def _jump(
        self, hook: str, verdict: nft.Verdict, scope: Scope, *, is_nat: bool, depth: int
    ) -> Iterator[ForeignRule]:
        there = self._table.chains.get(verdict.target)
        if there is not None and depth < _DEPTH_LIMIT:
            yield from self._chain(hook, there, scope, is_nat=is_nat, depth=depth + 1)


def _kind(statement: nft.Statement, *, is_nat: bool) -> str:
    if isinstance(statement, nft.Notrack):
        return "" if is_nat else UNTRACKS
    translates = is_nat and isinstance(statement, nft.Nat) and statement.kind in ("dnat", "redirect")
    return TRANSLATES if translates else ""


def _text(rule: Rule) -> str:
    try:
        return render_rule(rule)
    except BallastError:  # a comment that we cannot render
        return f"rule with handle {rule.handle}"


def program_of(name: str) -> str:
    """The program that gives its tables or chains names like this; "" if unknown."""
    return next((program for beginning, program in _PROGRAMS if name.startswith(beginning)), "")
