# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What traces cannot see of rules: chains that are not where the kernel should call them, or that nothing leads to. Pure.

`inspect` answers findings, and the rules as they would be with the chains in their places: over those, single Services are
judged, so that one cause is one finding. None in the place of the rules: too much is gone to judge Services by.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Optional, Union

from ..backends import Backend
from ..iptables.backend import Iptables
from ..iptables.names import LAYOUT as IPTABLES_LAYOUT
from ..iptables.objects import BUILT_IN, Goto, Jump, Layout, Tables
from ..iptables.objects import Chain as IptablesChain
from ..ipvs.backend import Ipvs
from ..ipvs.iptables import LAYOUT as IPVS_LAYOUT
from ..ipvs.objects import IpvsRules
from ..model import FamilyView, RuleConfig
from ..nftables.backend import Nftables
from ..nftables.expressions import AnonymousMap, Named, Statement, Verdict, Vmap
from ..nftables.objects import Chain, Hook, Table
from .findings import AuditFinding, finding, some

_TOLD_APART = 20  # chains of one kind that each have a finding; more are told of in one

# kube-proxy's base chains. Source: reference of kube-proxy 2.1; kube-proxy, nftables/proxier.go.
_NAT_CHAINS = {
    "nat-prerouting": Hook("nat", "prerouting", -100),
    "nat-output": Hook("nat", "output", -100),
    "nat-postrouting": Hook("nat", "postrouting", 100),
}
_BASE_CHAINS = {  # from 1.33 on
    "filter-prerouting-pre-dnat": Hook("filter", "prerouting", -110),
    "filter-output-pre-dnat": Hook("filter", "output", -110),
    "filter-input": Hook("filter", "input", 0),
    "filter-forward": Hook("filter", "forward", 0),
    "filter-output": Hook("filter", "output", 0),
    **_NAT_CHAINS,
}
_OLD_BASE_CHAINS = {  # 1.29 to 1.32
    "filter-prerouting": Hook("filter", "prerouting", -110),
    "filter-input": Hook("filter", "input", -110),
    "filter-forward": Hook("filter", "forward", -110),
    "filter-output": Hook("filter", "output", -110),
    "filter-output-post-dnat": Hook("filter", "output", -90),
    **_NAT_CHAINS,
}
_ONLY_OLD = ("filter-prerouting", "filter-output-post-dnat")
# Its regular chains that are not of one Service or endpoint, whose names have a slash; all that always have rules are here.
_ALWAYS_FILLED: tuple[str, ...] = (
    "services",
    "masquerading",
    "cluster-ips-check",
    "nodeport-endpoints-check",
    "service-endpoints-check",
)
_STOCK: tuple[str, ...] = (*_ALWAYS_FILLED, "firewall-check", "reject-chain", "mark-for-masquerade", "hairpin-check")


@dataclass(frozen=True)
class Inspected:
    findings: tuple[AuditFinding, ...]
    rules: Optional[Any]
    # Of chains that nothing leads to. Where a Service is wrong it may be its chain that is meant, and it is told of already.
    stale: tuple[AuditFinding, ...] = ()


def inspect(
    backend: Backend, rules: Any, view: FamilyView, config: RuleConfig, *, is_kube_proxys: bool, mend: str
) -> Inspected:
    if isinstance(backend, Nftables):
        return _Nftables(backend, rules, view, config, mend).inspected(is_kube_proxys=is_kube_proxys)
    bare = replace(view, services=(), frontends=(), duplicates=())
    wanted = backend.compile(bare, config)
    if isinstance(backend, Iptables):
        found = backend.own(rules)
        return _iptables(wanted, found, rules, found, IPTABLES_LAYOUT, view, mend)
    if isinstance(backend, Ipvs):
        held = backend.own(rules)
        return _iptables(wanted.tables, held.tables, rules.tables, held, IPVS_LAYOUT, view, mend)
    raise TypeError(f"no backend of this machine: {backend}")


class _Nftables:
    def __init__(
        self, backend: Nftables, found: Optional[Table], view: FamilyView, config: RuleConfig, mend: str
    ) -> None:
        self._backend = backend
        self._found = found
        self._view = view
        self._config = config
        self._mend = mend

    def inspected(self, *, is_kube_proxys: bool) -> Inspected:
        if self._found is None or not self._found.chains or "dormant" in self._found.flags:
            return Inspected(() if not self._view.frontends else (self._none_there(),), None)
        compiled = None if is_kube_proxys else self._backend.compile(self._view, self._config)
        if compiled is None:
            wanted, static, filled = self._kube_proxys(), _STOCK, _ALWAYS_FILLED
        else:
            wanted = _shifted(_hooks(compiled), _hooks(self._found))
            bare = self._backend.compile(replace(self._view, services=(), frontends=()), self._config)
            static = tuple(bare.chains)
            filled = tuple(name for name, chain in bare.chains.items() if chain.rules)
        expected = dict.fromkeys((*wanted, *filled))
        gone = [name for name in expected if name not in self._chains or not self._chains[name].rules]
        if gone:
            missing = finding("rules-audit-chains", family=self._view.family, chains=", ".join(gone), mend=self._mend)
            return Inspected((missing,), None)
        findings = [*self._moved(wanted), *self._unknown(wanted, compiled)]
        return Inspected(tuple(findings), self._mended(wanted), tuple(self._stale(static)))

    def _none_there(self) -> AuditFinding:
        what = f"the table {self._backend.table} with the rules of {len(self._view.services)} ports of Services"
        return finding("rules-audit-table", family=self._view.family, what=what, mend=self._mend)

    @property
    def _chains(self) -> Mapping[str, Chain]:
        return self._found.chains if self._found is not None else {}

    def _kube_proxys(self) -> Mapping[str, Hook]:
        is_old = any(name in self._chains for name in _ONLY_OLD)
        is_new = any(name in self._chains for name in _BASE_CHAINS if name not in _OLD_BASE_CHAINS)
        return _OLD_BASE_CHAINS if is_old and not is_new else _BASE_CHAINS

    def _moved(self, wanted: Mapping[str, Hook]) -> Iterator[AuditFinding]:
        for name, hook in wanted.items():
            there = self._chains[name].base
            if there != hook:
                yield finding(
                    "rules-audit-base-chain",
                    family=self._view.family,
                    chain=name,
                    wanted=_hook_text(hook),
                    there="no base chain" if there is None else _hook_text(there),
                    mend=self._mend,
                )

    def _unknown(self, wanted: Mapping[str, Hook], compiled: Optional[Table]) -> Iterator[AuditFinding]:
        reached = _reached(self._found) if self._found is not None else frozenset()
        for name, chain in self._chains.items():
            if compiled is None:
                known = name in wanted or (chain.base is None and ("/" in name or name in _STOCK))
            else:
                # A shared chain of a count that no Service has any more is stale, not unknown.
                known = name in compiled.chains or (chain.base is None and name not in reached)
            if not known:
                there = "called by rules" if chain.base is None else _hook_text(chain.base)
                yield finding(
                    "rules-audit-unknown-chain",
                    family=self._view.family,
                    chain=name,
                    there=there,
                    mend=self._mend,
                )

    def _stale(self, static: Collection[str]) -> Iterator[AuditFinding]:
        """Of the chains that Services and endpoints have. kube-proxy empties a chain first and removes it a second later,
        so empty ones are none."""
        if self._found is None:
            return
        reached = _reached(self._found)
        own = [name for name, chain in self._chains.items() if chain.rules and name not in static]
        yield from _stale_chains([name for name in own if name not in reached], self._view.family, self._mend)

    def _mended(self, wanted: Mapping[str, Hook]) -> Optional[Table]:
        if self._found is None:
            return None
        chains = {
            name: replace(chain, base=wanted.get(name))
            for name, chain in self._chains.items()
            if name in wanted or chain.base is None
        }
        return replace(self._found, chains=chains)


def _hooks(table: Table) -> dict[str, Hook]:
    return {name: chain.base for name, chain in table.chains.items() if chain.base is not None}


def _shifted(wanted: Mapping[str, Hook], found: Mapping[str, Hook]) -> dict[str, Hook]:
    """With the `priority_offset` that most chains have: it was chosen when the rules were made, and is in no snapshot."""
    offsets = [found[name].priority - hook.priority for name, hook in wanted.items() if name in found]
    offset = max(sorted(set(offsets)), key=offsets.count, default=0)
    return {name: replace(hook, priority=hook.priority + offset) for name, hook in wanted.items()}


def _hook_text(hook: Hook) -> str:
    return f"type {hook.type} hook {hook.hook} priority {hook.priority} policy {hook.policy}"


def _reached(table: Table) -> frozenset[str]:
    """Chains that a packet may come to. A named map leads to all its chains once a rule names it."""
    targets = {name: _targets_of_map(one.elements.values()) for name, one in table.sets.items() if one.is_map}
    live = [name for name, chain in table.chains.items() if chain.base is not None]
    found = set(live)
    while live:
        chain = table.chains.get(live.pop())
        for rule in chain.rules if chain is not None else ():
            for name in _named_by(rule.statements, targets):
                if name not in found:
                    found.add(name)
                    live.append(name)
    return frozenset(found)


def _targets_of_map(elements: Iterable[Any]) -> frozenset[str]:
    return frozenset(one.target.target for one in elements if isinstance(one.target, Verdict) and one.target.target)


def _named_by(statements: Iterable[Statement], maps: Mapping[str, frozenset[str]]) -> Iterator[str]:
    for statement in statements:
        if isinstance(statement, Verdict) and statement.target:
            yield statement.target
        elif isinstance(statement, Vmap):
            yield from _in_map(statement.to, maps)


def _in_map(to: Union[Named, AnonymousMap], maps: Mapping[str, frozenset[str]]) -> Iterator[str]:
    if isinstance(to, Named):
        yield from maps.get(to.name, ())
    else:
        yield from (target.target for _key, target in to.elements if isinstance(target, Verdict) and target.target)


# iptables, and the iptables rules of ipvs


def _iptables(
    wanted: Tables, own: Tables, whole: Tables, rules: Any, layout: Layout, view: FamilyView, mend: str
) -> Inspected:
    """`wanted`: what a node without Services has; `own`: what of `whole` is the backend's. `rules` are those to judge."""
    if not own.tables and not (isinstance(rules, IpvsRules) and (rules.link or rules.servers)):
        what = f"chains with the rules of {len(view.services)} ports of Services"
        missing = finding("rules-audit-table", family=view.family, what=what, mend=mend)
        return Inspected((missing,) if view.frontends else (), None)
    gone = list(_gone(wanted, own, layout))
    if gone:
        return Inspected((finding("rules-audit-chains", family=view.family, chains=", ".join(gone), mend=mend),), None)
    stale = list(_unreached(whole, layout))
    return Inspected((), rules, tuple(_stale_chains(stale, view.family, mend)))


def _gone(wanted: Tables, found: Tables, layout: Layout) -> Iterator[str]:
    """Chains that every node has rules in, whatever its Services, and jumps to them from the kernel's chains."""
    for table in wanted.tables:
        for chain in table.chains:
            there = found.chain(table.name, chain.name)
            rules = there.rules if there is not None else ()
            if chain.name not in BUILT_IN[table.name]:
                if chain.rules and not rules and layout.owns(table.name, chain.name):
                    yield f"{table.name} {chain.name}"
                continue
            jumps = {rule.target for rule in rules}
            for rule in chain.rules:
                is_own = isinstance(rule.target, Jump) and layout.owns(table.name, rule.target.chain)
                if isinstance(rule.target, Jump) and is_own and rule.target not in jumps:
                    yield f"{table.name} {chain.name} to {rule.target.chain}"


def _unreached(tables: Tables, layout: Layout) -> Iterator[str]:
    """Of the chains that a Service or an endpoint has for itself. The others are there whether a rule needs them or not."""
    for table in tables.tables:
        by_name = table.by_name
        live = [chain.name for chain in table.chains if not layout.owns(table.name, chain.name)]
        found = set(live)
        while live:
            chain: Optional[IptablesChain] = by_name.get(live.pop())
            for rule in chain.rules if chain is not None else ():
                if isinstance(rule.target, (Jump, Goto)) and rule.target.chain not in found:
                    found.add(rule.target.chain)
                    live.append(rule.target.chain)
        for chain in table.chains:
            if chain.rules and chain.name not in found and (table.name, chain.name) not in layout.chains:
                yield f"{table.name} {chain.name}"


def _stale_chains(names: list[str], family: int, mend: str) -> Iterator[AuditFinding]:
    if len(names) > _TOLD_APART:
        shown = f"{len(names)} chains that nothing leads to: {some(names)}"
        yield finding("rules-audit-stale-chain", family=family, chains=shown, mend=mend)
        return
    for name in names:
        yield finding("rules-audit-stale-chain", family=family, chains=name, mend=mend)
