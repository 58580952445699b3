# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds what traces cannot show: chains in the wrong hook, and chains that nothing leads to. Pure.

`inspect` returns findings, and the rules as they would be with every chain in its place. Services are traced through those,
so that one cause is one finding. If too much is missing to trace Services, the rules are None.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Optional, Union

from .._rules.backend import KUBE_PROXY_TABLE, Backend
from .._rules.iptables.backend import Iptables
from .._rules.iptables.names import LAYOUT as IPTABLES_LAYOUT
from .._rules.iptables.names import cluster_chain, external_chain, firewall_chain, local_chain
from .._rules.iptables.objects import BUILT_IN, Goto, Jump, Layout, Tables
from .._rules.iptables.objects import Chain as IptablesChain
from .._rules.ipvs.backend import Ipvs
from .._rules.ipvs.iptables import LAYOUT as IPVS_LAYOUT
from .._rules.ipvs.objects import IpvsRules
from .._rules.model import FamilyView, RuleConfig, ServicePort
from .._rules.nftables.backend import Nftables
from .._rules.nftables.expressions import AnonymousMap, Named, Statement, Verdict, Vmap
from .._rules.nftables.objects import Chain, Hook, Table
from .._rules.node_rules import Missing
from .findings import AuditFinding, finding, list_some
from .kube_proxy_layouts import KubeProxyLayout, layout_of
from .remedies import COMPILED, DUMP, Origin

_SINGLE_FINDINGS = 20  # stale chains with a finding of their own; the rest share one


@dataclass(frozen=True)
class Inspection:
    findings: tuple[AuditFinding, ...]
    rules: Optional[Any]
    # Findings about chains that nothing leads to. Not reported if the rules of a Service are wrong, which may be the cause.
    stale: tuple[AuditFinding, ...] = ()
    layout: Optional[KubeProxyLayout] = None  # the layout of kube-proxy's nftables table


def inspect(
    backend: Backend,
    rules: Any,
    view: FamilyView,
    config: RuleConfig,
    origin: Origin,
    unsaved: Collection[Missing] = (),
) -> Inspection:
    """`unsaved` are parts that the dump lacks, so that they are not expected."""
    if isinstance(backend, Nftables):
        return _Nftables(backend, rules, view, config, origin).inspect()
    bare = replace(view, services=(), frontends=(), duplicates=())
    expected = backend.compile(bare, config)
    if isinstance(backend, Iptables):
        own = backend.select_own(rules)
        expected = _drop_unsaved(expected, unsaved)
        return _inspect_iptables(expected, own, rules, own, IPTABLES_LAYOUT, view, origin)
    if isinstance(backend, Ipvs):
        held = backend.select_own(rules)
        expected = _drop_unsaved(expected.tables, unsaved)
        return _inspect_iptables(expected, held.tables, rules.tables, held, IPVS_LAYOUT, view, origin)
    raise TypeError(f"no backend of this machine: {backend}")


class _Nftables:
    def __init__(
        self, backend: Nftables, table: Optional[Table], view: FamilyView, config: RuleConfig, origin: Origin
    ) -> None:
        self._backend = backend
        self._table = table
        self._view = view
        self._config = config
        self._origin = origin

    def inspect(self) -> Inspection:
        if self._table is None or not self._table.chains or "dormant" in self._table.flags:
            return Inspection(() if not self._view.frontends else (self._missing_table(),), None)
        by_kube_proxy = self._origin.owner == KUBE_PROXY_TABLE
        compiled = None if by_kube_proxy else self._backend.compile(self._view, self._config)
        layout = None
        if compiled is None:
            layout = layout_of(self._chains)
            hooks, static, filled = layout.hooks, layout.shared, layout.filled
        else:
            hooks = _shift_priorities(_hooks(compiled), _hooks(self._table))
            bare = self._backend.compile(replace(self._view, services=(), frontends=()), self._config)
            static = tuple(bare.chains)
            filled = tuple(name for name, chain in bare.chains.items() if chain.rules)
        expected = dict.fromkeys((*hooks, *filled))
        gone = [name for name in expected if name not in self._chains or not self._chains[name].rules]
        if gone:
            return Inspection((self._missing("rules-audit-chains", chains=", ".join(gone)),), None)
        findings = [*self._find_moved(hooks), *self._find_unknown(hooks, static, compiled)]
        return Inspection(tuple(findings), self._with_hooks(hooks), tuple(self._find_stale(static)), layout)

    def _missing_table(self) -> AuditFinding:
        what = f"the table {self._backend.table} with the rules of {len(self._view.services)} ports of Services"
        return self._missing("rules-audit-table", what=what)

    def _missing(self, id: str, **fields: str) -> AuditFinding:
        return _missing_finding(id, self._view.family, self._origin, **fields)

    def _finding(self, id: str, **fields: str) -> AuditFinding:
        return finding(id, family=self._view.family, remedy=self._origin.rewrite, **fields)

    @property
    def _chains(self) -> Mapping[str, Chain]:
        return self._table.chains if self._table is not None else {}

    def _find_moved(self, hooks: Mapping[str, Hook]) -> Iterator[AuditFinding]:
        for name, hook in hooks.items():
            there = self._chains[name].base
            if there != hook:
                actual = "no base chain" if there is None else _hook_text(there)
                yield self._finding("rules-audit-base-chain", chain=name, hook=_hook_text(hook), there=actual)

    def _find_unknown(
        self, hooks: Mapping[str, Hook], static: Collection[str], compiled: Optional[Table]
    ) -> Iterator[AuditFinding]:
        reached = _find_reached(self._table) if self._table is not None else frozenset()
        for name, chain in self._chains.items():
            if compiled is None:
                known = name in hooks or (chain.base is None and ("/" in name or name in static))
            else:
                # A shared chain for a number of endpoints that no Service has any more is stale, not unknown.
                known = name in compiled.chains or (chain.base is None and name not in reached)
            if not known:
                there = "called by rules" if chain.base is None else _hook_text(chain.base)
                yield self._finding("rules-audit-unknown-chain", chain=name, there=there)

    def _find_stale(self, static: Collection[str]) -> Iterator[AuditFinding]:
        """Findings about stale chains of Services and endpoints. Empty chains do not count: kube-proxy flushes a chain a
        second before it removes it."""
        if self._table is None:
            return
        idle = {f"{of.namespace}/{of.name}/{of.protocol.lower()}/{of.port_name}" for of in _idle_services(self._view)}
        called = [name for name in self._chains if name.split("-", 2)[-1] in idle]
        reached = _find_reached(self._table, called)
        own = [name for name, chain in self._chains.items() if chain.rules and name not in static]
        stale = [name for name in own if name not in reached]
        yield from _stale_findings(stale, self._view.family, self._origin.rewrite)

    def _with_hooks(self, hooks: Mapping[str, Hook]) -> Optional[Table]:
        if self._table is None:
            return None
        chains = {
            name: replace(chain, base=hooks.get(name))
            for name, chain in self._chains.items()
            if name in hooks or chain.base is None
        }
        return replace(self._table, chains=chains)


def _idle_services(view: FamilyView) -> Iterator[ServicePort]:
    """Services whose kube-proxy chains may be unreachable: those that share a destination, which only one of them gets, and
    those whose externalIPs are disabled."""
    titles = {title for duplicate in view.duplicates for title in (duplicate.winner, duplicate.loser)}
    return (service for service in view.services if service.title in titles or service.has_unserved_ips)


def _hooks(table: Table) -> dict[str, Hook]:
    return {name: chain.base for name, chain in table.chains.items() if chain.base is not None}


def _shift_priorities(expected: Mapping[str, Hook], actual: Mapping[str, Hook]) -> dict[str, Hook]:
    """Add the `priority_offset` that most chains have: it was an option when the rules were written and is in no
    snapshot."""
    offsets = [actual[name].priority - hook.priority for name, hook in expected.items() if name in actual]
    offset = max(sorted(set(offsets)), key=offsets.count, default=0)
    return {name: replace(hook, priority=hook.priority + offset) for name, hook in expected.items()}


def _hook_text(hook: Hook) -> str:
    return f"type {hook.type} hook {hook.hook} priority {hook.priority} policy {hook.policy}"


def _find_reached(table: Table, also: Iterable[str] = ()) -> frozenset[str]:
    """The chains that a packet may reach, plus those reachable from `also`. A named map leads to all its chains once a
    reached rule refers to it."""
    maps = {name: named_set.elements.values() for name, named_set in table.sets.items() if named_set.is_map}
    targets = {name: _targets_of_map(elements) for name, elements in maps.items()}
    live = [name for name, chain in table.chains.items() if chain.base is not None] + list(also)
    reached = set(live)
    while live:
        chain = table.chains.get(live.pop())
        for rule in chain.rules if chain is not None else ():
            for name in _named_by(rule.statements, targets):
                if name not in reached:
                    reached.add(name)
                    live.append(name)
    return frozenset(reached)


def _targets_of_map(elements: Iterable[Any]) -> frozenset[str]:
    targets = (element.target for element in elements)
    return frozenset(target.target for target in targets if isinstance(target, Verdict) and target.target)


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


def _drop_unsaved(expected: Tables, unsaved: Collection[Missing]) -> Tables:
    absent = {part.part.rpartition(" ")[2] for part in unsaved}
    return Tables(expected.family, tuple(table for table in expected.tables if table.name not in absent))


def _inspect_iptables(
    expected: Tables, own: Tables, whole: Tables, rules: Any, layout: Layout, view: FamilyView, origin: Origin
) -> Inspection:
    """`expected` is what a node without Services has; `own` is the backend's part of `whole`; `rules` are returned for
    tracing."""
    if not own.tables and not (isinstance(rules, IpvsRules) and (rules.link or rules.servers)):
        what = f"chains with the rules of {len(view.services)} ports of Services"
        missing = _missing_finding("rules-audit-table", view.family, origin, what=what)
        return Inspection((missing,) if view.frontends else (), None)
    gone = list(_find_missing(expected, own, layout))
    if gone:
        missing = _missing_finding("rules-audit-chains", view.family, origin, chains=", ".join(gone))
        return Inspection((missing,), None)
    names = (cluster_chain, local_chain, external_chain, firewall_chain)
    idle = {name(service) for service in _idle_services(view) for name in names}
    stale = list(_find_unreached(whole, layout, idle))
    return Inspection((), rules, tuple(_stale_findings(stale, view.family, origin.rewrite)))


def _missing_finding(id: str, family: int, origin: Origin, **fields: str) -> AuditFinding:
    where = {DUMP: "the dump", COMPILED: "what we compiled"}.get(origin.source, "the kernel")
    return finding(id, family=family, where=where, remedy=origin.restore, **fields)


def _find_missing(expected: Tables, actual: Tables, layout: Layout) -> Iterator[str]:
    """Chains that have rules on every node, and jumps to them from built-in chains, that are missing."""
    for table in expected.tables:
        for chain in table.chains:
            there = actual.chain(table.name, chain.name)
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


def _find_unreached(tables: Tables, layout: Layout, idle: Collection[str]) -> Iterator[str]:
    """Unreached chains of single Services and endpoints, without the `idle` ones and what they lead to. Shared chains exist
    on every node."""
    for table in tables.tables:
        by_name = table.by_name
        # Shared chains count as reached: that of node ports is not called if no address of the node serves them.
        shared = {chain.name for chain in table.chains if (table.name, chain.name) in layout.chains}
        roots = shared.union(idle)
        live = [chain.name for chain in table.chains if chain.name in roots or not layout.owns(table.name, chain.name)]
        reached = set(live)
        while live:
            chain: Optional[IptablesChain] = by_name.get(live.pop())
            for rule in chain.rules if chain is not None else ():
                if isinstance(rule.target, (Jump, Goto)) and rule.target.chain not in reached:
                    reached.add(rule.target.chain)
                    live.append(rule.target.chain)
        for chain in table.chains:
            if chain.rules and chain.name not in reached and (table.name, chain.name) not in layout.chains:
                yield f"{table.name} {chain.name}"


def _stale_findings(names: list[str], family: int, remedy: str) -> Iterator[AuditFinding]:
    if len(names) > _SINGLE_FINDINGS:
        shown = f"{len(names)} chains that no rule jumps to: {list_some(names)}"
        yield finding("rules-audit-stale-chain", family=family, chains=shown, remedy=remedy)
        return
    for name in names:
        yield finding("rules-audit-stale-chain", family=family, chains=name, remedy=remedy)
