# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds rules of other programs that take packets to Services before kube-proxy translates them. Pure.

Each such rule selects the destinations that may reach it (foreign_scope.py). For those, packets that match the rule are
traced through the rules of all programs. A rule takes a packet if the answer differs from the Service's and the trace says
that this rule decided. If the order of two programs is unknown, the rule may take it.

No destination is left out: if few destinations reach a rule, all of them are traced; if many do, a quick trace through the
foreign rules alone finds some that it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Optional, TypeVar

from .._rules.addresses import is_within
from .._rules.iptables.objects import Goto, Jump, Rule, Table, Tables
from .._rules.model import NODE_PORT, FamilyView, Frontend, RuleConfig
from .._rules.nftables.objects import Ruleset
from .._rules.node_ports import node_port_addresses
from .._rules.node_rules import NodeRules
from .._rules.packet import EITHER, PASS, UNKNOWN, Answer, Packet, Surroundings
from .expected_verdict import ExpectedVerdicts
from .foreign_rules import OUTPUT, TRANSLATES, ForeignRule, find_foreign_rules, is_foreign_table
from .foreign_scope import Scope
from .probes import Prober
from .stale_chains import OF_KUBE_PROXY
from .tracing.packet_path import Tracer

_TRACED = 16  # packets per rule that are traced through all rules
_FEW_PORTS = 4096
_Any = TypeVar("_Any")
_NODE_LOCAL_DNS = "nodelocaldns"  # the link of NodeLocal DNSCache, which answers on the address of a Service


@dataclass(frozen=True)
class Taken:
    """What a rule takes: one of the packets, and the Services. `is_certain` is False if it depends on an unknown order or on
    conditions that cannot be decided."""

    rule: ForeignRule
    packet: Packet
    expected: Answer
    answer: Answer
    services: tuple[str, ...]  # titles
    is_certain: bool


def find_taken(
    rules: NodeRules,
    view: FamilyView,
    config: RuleConfig,
    surroundings: Surroundings,
    *,
    translated_by: str,
) -> Iterator[Taken]:
    """`rules` are those of all programs; `translated_by` is as in find_foreign_rules. At most one result per rule."""
    foreign: dict[tuple[str, str], list[ForeignRule]] = {}
    for rule in find_foreign_rules(rules, view.family, translated_by=translated_by):
        foreign.setdefault((rule.place, rule.text), []).append(rule)
    if not foreign or not view.frontends:
        return
    finder = _Finder(rules, view, config, surroundings, [rule for same in foreign.values() for rule in same])
    for same in foreign.values():
        taken = next((taken for taken in map(finder.find, same) if taken is not None), None)
        if taken is not None:
            yield taken


def select_met(
    foreign: Sequence[ForeignRule], view: FamilyView, config: RuleConfig, surroundings: Surroundings
) -> list[Frontend]:
    """The destinations that may reach one of these rules."""
    if not foreign or not view.frontends:
        return []
    finder = _Finder(NodeRules(), view, config, surroundings)
    return list({frontend.key: frontend for rule in foreign for frontend, _packet in finder.met(rule)}.values())


class _Finder:
    def __init__(
        self,
        rules: NodeRules,
        view: FamilyView,
        config: RuleConfig,
        surroundings: Surroundings,
        foreign: Sequence[ForeignRule] = (),
    ) -> None:
        self._rules = rules
        self._silent = [rule for rule in foreign if rule.kind != TRANSLATES]
        self._view = view
        self._surroundings = surroundings
        self._expected = ExpectedVerdicts(view, config, surroundings)
        self._prober = Prober(view, config, surroundings)
        # What a dump lacks does not undo what a rule in the dump does.
        self._tracer = Tracer(replace(rules, missing=()), surroundings)
        self._short = Tracer(_that_translate(without_kube_proxy(rules)), surroundings)
        self._node_port_addresses = node_port_addresses(view, config).addresses
        self._tracers: dict[Optional[int], Tracer] = {}  # by the identity of the rule that is kept
        self._by_port: dict[int, list[Frontend]] = {}
        for frontend in view.frontends:
            self._by_port.setdefault(frontend.port, []).append(frontend)
        served = dict(surroundings.interfaces).get(_NODE_LOCAL_DNS, ())
        self._served_by_node = frozenset(served)

    def find(self, rule: ForeignRule) -> Optional[Taken]:
        met = list(self.met(rule))
        if len(met) > _TRACED and rule.kind == TRANSLATES:
            met = self._hit(rule, met)
        unclear: Optional[Taken] = None
        for _frontend, packet in met[:: max(1, len(met) // _TRACED)]:
            taken = self._trace(rule, packet, met)
            if taken is not None and taken.is_certain:
                return taken
            unclear = unclear or taken
        return unclear

    def met(self, rule: ForeignRule) -> Iterator[tuple[Frontend, Packet]]:
        """The destinations that may reach the rule, each with a packet that matches it."""
        for frontend in self._frontends(rule.scope):
            addresses = self._node_port_addresses if frontend.kind == NODE_PORT else (frontend.address,)
            fitting = (address for address in addresses if rule.scope.meets(address, frontend.protocol, frontend.port))
            address = next(fitting, "")
            packet = self._packet(rule, frontend, address) if address else None
            if packet is not None and address not in self._served_by_node:
                yield frontend, packet

    def _frontends(self, scope: Scope) -> Sequence[Frontend]:
        if scope.ports is None or sum(high - low + 1 for low, high in scope.ports) > _FEW_PORTS:
            return self._view.frontends
        ports = dict.fromkeys(port for low, high in scope.ports for port in range(low, high + 1))
        return [frontend for port in ports for frontend in self._by_port.get(port, ())]

    def _packet(self, rule: ForeignRule, frontend: Frontend, address: str) -> Optional[Packet]:
        if rule.hook == OUTPUT:
            own = self._view.node.primary or next(iter(self._view.node.addresses), "")
            fits = own and (rule.scope.sources is None or is_within(own, rule.scope.sources))
            return Packet(own, address, frontend.port, frontend.protocol, node_local=True) if fits else None
        source = self._prober.client_of(frontend)
        if rule.scope.sources is not None and not (source and is_within(source, rule.scope.sources)):
            source = next((str(network[min(1, network.num_addresses - 1)]) for network in rule.scope.sources), "")
        if not source or self._surroundings.is_local(source) or rule.scope.interface == "lo":
            return None
        return self._prober.from_outside(source, frontend, address, interface=rule.scope.interface)

    def _hit(self, rule: ForeignRule, met: Sequence[tuple[Frontend, Packet]]) -> list[tuple[Frontend, Packet]]:
        """The destinations whose packets the rule decides, considering foreign rules alone. If the rule decides all of the
        first _TRACED, the rest is assumed to behave the same."""
        hit: list[tuple[Frontend, Packet]] = []
        for number, (frontend, packet) in enumerate(met, start=1):
            if _names(self._short.answer(packet), rule):
                hit.append((frontend, packet))
            if len(hit) == _TRACED:
                return [*hit, *met[number:]] if number == _TRACED else hit
        return hit

    def _trace(self, rule: ForeignRule, packet: Packet, met: Sequence[tuple[Frontend, Packet]]) -> Optional[Taken]:
        expected = self._expected.answer(packet)
        answer = self._tracer.answer(packet)
        if answer == expected:
            return None
        ways = answer.ways if answer.verdict in (EITHER, UNKNOWN) else (answer,)
        taking = [way for way in ways if way != expected and self._is_by(way, rule, packet)]
        if not taking and not (answer.problem is not None and rule.text in answer.problem.text):
            return None
        services = tuple(dict.fromkeys(frontend.service.title for frontend, _packet in met))
        return Taken(rule, packet, expected, answer, services, is_certain=0 < len(taking) == len(ways))

    def _is_by(self, answer: Answer, rule: ForeignRule, packet: Packet) -> bool:
        if rule.kind == TRANSLATES:
            return _names(answer, rule)
        # A trace does not mention these rules: the packet is untranslated with this one of them, and translated with none.
        if answer.verdict != PASS:
            return False
        with_it, without = (self._tracer_without(kept).answer(packet).verdict for kept in (rule, None))
        return with_it == PASS and without != PASS

    def _tracer_without(self, kept: Optional[ForeignRule]) -> Tracer:
        """A tracer for all rules except those that silently keep packets from a translation; of these, only `kept`
        remains."""
        key = None if kept is None else id(kept.rule)
        if key not in self._tracers:
            gone = {id(rule.rule) for rule in self._silent} - {key}
            self._tracers[key] = Tracer(_without_rules(self._rules, gone), self._surroundings)
        return self._tracers[key]


def _names(answer: Answer, rule: ForeignRule) -> bool:
    return any(line.endswith(rule.text) for way in (answer, *answer.ways) for line in way.why)


def without_kube_proxy(rules: NodeRules) -> NodeRules:
    """Only the rules of other programs."""
    tables = {key: table for key, table in rules.nftables.tables.items() if is_foreign_table(key[1])}
    iptables = {
        variant: replace(both, tables=tuple(_without_jumps(table) for table in both.tables))
        for variant, both in rules.iptables.items()
    }
    return NodeRules(Ruleset(tables), iptables, sets=rules.sets)


def _without_rules(rules: NodeRules, gone: Collection[Optional[int]]) -> NodeRules:
    """`gone` are rules by identity."""

    def keep(listed: Sequence[_Any]) -> tuple[_Any, ...]:
        return tuple(rule for rule in listed if id(rule) not in gone)

    nft = {
        key: replace(
            table, chains={name: replace(chain, rules=keep(chain.rules)) for name, chain in table.chains.items()}
        )
        if is_foreign_table(key[1])
        else table
        for key, table in rules.nftables.tables.items()
    }
    iptables = {variant: _with_tables(both, keep) for variant, both in rules.iptables.items()}
    return replace(rules, nftables=Ruleset(nft), iptables=iptables, missing=())


def _with_tables(tables: Tables, keep: Callable[[Sequence[Rule]], tuple[Rule, ...]]) -> Tables:
    def of_table(table: Table) -> Table:
        if table.name not in ("nat", "raw"):
            return table
        chains = (
            chain if OF_KUBE_PROXY.owns(table.name, chain.name) else replace(chain, rules=keep(chain.rules))
            for chain in table.chains
        )
        return replace(table, chains=tuple(chains))

    return replace(tables, tables=tuple(of_table(table) for table in tables.tables))


def _that_translate(rules: NodeRules) -> NodeRules:
    iptables: Mapping[str, Tables] = {
        variant: replace(both, tables=tuple(table for table in both.tables if table.name == "nat"))
        for variant, both in rules.iptables.items()
    }
    return replace(rules, iptables=iptables)


def _without_jumps(table: Table) -> Table:
    def is_of_services(rule: Rule) -> bool:
        return isinstance(rule.target, (Jump, Goto)) and OF_KUBE_PROXY.owns(table.name, rule.target.chain)

    chains = (
        replace(chain, rules=tuple(rule for rule in chain.rules if not is_of_services(rule)))
        for chain in table.chains
        if not OF_KUBE_PROXY.owns(table.name, chain.name)
    )
    return replace(table, chains=tuple(chains))
