# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The audit over random clusters: rules that are right have no finding, and what stands for its likes stands for them rightly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import find, given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._audit.audit import AuditInput, Facts, audit
from ansible_collections.ballast.kube.plugins.module_utils._audit.destinations import find_in_iptables, find_in_nftables
from ansible_collections.ballast.kube.plugins.module_utils._audit.equivalence import Equivalence
from ansible_collections.ballast.kube.plugins.module_utils._audit.iptables_equivalence import IptablesEquivalence
from ansible_collections.ballast.kube.plugins.module_utils._audit.tracing.packet_path import Tracer
from ansible_collections.ballast.kube.plugins.module_utils._audit.verdict_comparison import (
    EquivalenceKey,
    VerdictComparison,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.backend import Backend
from ansible_collections.ballast.kube.plugins.module_utils._rules.config import ParsedConfig
from ansible_collections.ballast.kube.plugins.module_utils._rules.frontends import assign_frontends
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.backend import Iptables
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.objects import (
    AddressType,
    Destination,
    DestinationPort,
    OutInterface,
    Protocol,
    Rule,
    SetMark,
    Source,
    Tables,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.objects import Verdict as RuleVerdict
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.objects import rule as rule_of
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.backend import Ipvs
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.objects import IpvsRules
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import Endpoint, FamilyView, ServicePort
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.backend import Nftables
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.expressions import Verdict
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.objects import Table
from ansible_collections.ballast.kube.plugins.module_utils._rules.node_rules import rules_of_one
from ansible_collections.ballast.kube.plugins.module_utils._rules.parse import Snapshot
from tests.unit.rules import strategies as s

EQUIVALENCES = ("nftables", "iptables")
BACKENDS: dict[str, Backend] = {"nftables": Nftables("ballast"), "iptables": Iptables(), "ipvs": Ipvs()}


def audited(backend: Backend, scenario: s.Scenario, rules: object) -> AuditInput:
    view = scenario.view
    other = FamilyView(family=10 - view.family, node=replace(view.node, primary="", addresses=()))
    views = (view, other) if view.family == 4 else (other, view)
    configs = {view.family: ParsedConfig(scenario.config)}
    return AuditInput(Snapshot(views), configs, backend, {view.family: rules}, scenario.surroundings, owner="ballast")


@pytest.mark.parametrize("name", BACKENDS)
@given(data=st.data())
def test_what_is_compiled_has_no_finding(name: str, data: st.DataObject) -> None:
    scenario = data.draw(s.scenarios(backend=name))
    backend = BACKENDS[name]
    rules = backend.compile(scenario.view, scenario.config)
    if isinstance(
        rules, IpvsRules
    ):  # by which links it has, a node tells virtual servers of node ports from foreign ones
        rules = replace(rules, links=scenario.surroundings.interfaces)
    findings = audit(audited(backend, scenario, rules), Facts())
    assert [finding for finding in findings if finding.id != "rules-audit-duplicate"] == []
    assert {finding.service for finding in findings} <= {duplicate.loser for duplicate in scenario.view.duplicates}


@pytest.mark.parametrize("name", EQUIVALENCES)
@given(data=st.data())
def test_those_that_are_alike_fare_alike(name: str, data: st.DataObject) -> None:
    """Whether one is asked for all or each for itself, the same Services are found to be wrong."""
    scenario = data.draw(likes(name))
    rules = BACKENDS[name].compile(scenario.view, scenario.config)
    for _time in range(data.draw(st.integers(1, 3))):
        rules = data.draw(HURT[name](rules))
    key = equivalence(name, scenario, rules)
    assert wrong(scenario, rules, key) == wrong(scenario, rules, lambda frontend: None)


@pytest.mark.parametrize("name", EQUIVALENCES)
def test_one_stands_for_its_likes(name: str) -> None:
    """Else the property above would say nothing."""
    scenario = find(likes(name), lambda found: len(found.view.services) > 5)
    key = equivalence(name, scenario, BACKENDS[name].compile(scenario.view, scenario.config))
    keys = [key(frontend) for frontend in scenario.view.frontends]
    assert None not in keys
    assert len(set(keys)) < len(scenario.view.services)


def equivalence(name: str, scenario: s.Scenario, rules: Any) -> EquivalenceKey:
    view, config, surroundings = scenario.view, scenario.config, scenario.surroundings
    if name == "iptables":
        return IptablesEquivalence(rules, view, config, surroundings).key
    return Equivalence(rules, config, surroundings, node=view.node.name).key


_COPIES = 6


@st.composite
def likes(draw: st.DrawFn, backend: str) -> s.Scenario:
    """A Service that is there several times under other names and addresses."""
    scenario = draw(s.scenarios(backend=backend, family=4))
    one = ServicePort(
        "default",
        "s",
        "",
        "TCP",
        80,
        "",
        internal_local=draw(st.booleans()),
        external_local=draw(st.booleans()),
        affinity_seconds=draw(st.sampled_from((0, 0, 300))),
    )
    nodes = draw(st.lists(st.sampled_from((s.THIS_NODE, s.OTHER_NODE)), max_size=3))
    open_to = draw(st.sampled_from(("", "node port", "external", "balancer")))
    copies = []
    for number in range(1, _COPIES + 1):
        endpoints = tuple(
            Endpoint(f"10.1.{0 if node == s.THIS_NODE else 1}.{100 + number * 10 + place}", 8080, node=node)
            for place, node in enumerate(nodes)
        )
        copies.append(
            one._replace(
                name=f"s{number}",
                cluster_ip=f"10.96.0.{100 + number}",
                node_port=30100 + number if open_to == "node port" else 0,
                external_ips=(f"203.0.113.{100 + number}",) if open_to == "external" else (),
                load_balancer_ips=(f"198.51.100.{100 + number}",) if open_to == "balancer" else (),
                endpoints=tuple(sorted(endpoints)),
            )
        )
    owned, _duplicates = assign_frontends(copies, lambda service: 0.0)
    view = replace(scenario.view, services=tuple(copies), frontends=owned, duplicates=())
    return replace(scenario, view=view)


def wrong(scenario: s.Scenario, rules: Table | Tables, key: EquivalenceKey) -> list[tuple[str, str]]:
    comparison = VerdictComparison(
        scenario.view,
        scenario.config,
        scenario.surroundings,
        Tracer(rules_of_one(rules, variant="nft"), scenario.surroundings).answer,
        known=find_in_nftables(rules) if isinstance(rules, Table) else find_in_iptables(rules),
        equivalence=key,
        remedy="",
        both_right=False,
    )
    return sorted({(one.id, one.service) for one in comparison.check_services() if one.id != "rules-audit-common"})


@st.composite
def hurt_table(draw: st.DrawFn, table: Table) -> Table:
    """With an element less, an element that leads elsewhere, or a rule less."""
    sets = [one for one in table.sets.values() if one.elements]
    chains = [one for one in table.chains.values() if one.rules]
    way = draw(st.sampled_from(("delete", "lead elsewhere", "rule")))
    if way == "rule" and chains:
        chain = draw(st.sampled_from(chains))
        place = draw(st.integers(0, len(chain.rules) - 1))
        rules = chain.rules[:place] + chain.rules[place + 1 :]
        return replace(table, chains={**table.chains, chain.name: replace(chain, rules=rules)})
    if not sets:
        return table
    one = draw(st.sampled_from(sets))
    key = draw(st.sampled_from(sorted(one.elements)))
    elements = dict(one.elements)
    element = elements.pop(key)
    if way == "lead elsewhere" and isinstance(element.target, Verdict):
        others = sorted({str(other.target) for other in one.elements.values()})
        chosen = draw(st.sampled_from(others))
        target = next(other.target for other in one.elements.values() if str(other.target) == chosen)
        elements[key] = element._replace(target=target)
    return replace(table, sets={**table.sets, one.name: replace(one, elements=elements)})


@st.composite
def hurt_tables(draw: st.DrawFn, rules: Tables) -> Tables:
    """With a rule less, one that leads elsewhere, or two in the wrong order, or one more that ends or changes what it matches."""
    chains = [(table, chain) for table in rules.tables for chain in table.chains if chain.rules]
    table, chain = draw(st.sampled_from(chains))
    place = draw(st.integers(0, len(chain.rules) - 1))
    rule, before, after = chain.rules[place], chain.rules[:place], chain.rules[place + 1 :]
    way = draw(st.sampled_from(("delete", "lead elsewhere", "swap", "drop a match", "add")))
    if way == "delete":
        changed: tuple[Rule, ...] = (*before, *after)
    elif way == "swap":
        changed = (*before, *after[:1], rule, *after[1:])
    elif way == "drop a match" and rule.matches:
        kept = draw(st.integers(0, len(rule.matches) - 1))
        changed = (*before, replace(rule, matches=rule.matches[:kept] + rule.matches[kept + 1 :]), *after)
    elif way == "add":
        changed = (*before, draw(st.sampled_from(ADDED)), rule, *after)
    else:
        others = [other for every in table.chains for other in every.rules if type(other.target) is type(rule.target)]
        changed = (*before, replace(rule, target=draw(st.sampled_from(others)).target), *after)
    others_of_table = [replace(chain, rules=changed) if other is chain else other for other in table.chains]
    return replace(
        rules,
        tables=tuple(replace(table, chains=tuple(others_of_table)) if one is table else one for one in rules.tables),
    )


# By networks and ports in which some of the copies lie, and by a link.
ADDED = (
    rule_of(Destination("10.96.0.104/30"), target=RuleVerdict("DROP")),
    rule_of(Destination("10.96.0.102/32"), target=RuleVerdict("RETURN")),
    rule_of(Destination("10.96.0.103/32", negated=True), target=RuleVerdict("RETURN")),
    rule_of(Destination("10.1.0.112/28"), target=RuleVerdict("DROP")),
    rule_of(Source("10.1.0.0/24"), target=RuleVerdict("ACCEPT")),
    rule_of(Protocol("tcp"), DestinationPort(80), target=RuleVerdict("RETURN")),
    rule_of(Protocol("tcp"), DestinationPort(8080), Destination("10.1.0.0/25"), target=RuleVerdict("DROP")),
    rule_of(Protocol("tcp"), DestinationPort(30103), target=RuleVerdict("DROP")),
    rule_of(Protocol("tcp"), DestinationPort(30104, negated=True), target=RuleVerdict("RETURN")),
    rule_of(OutInterface("eth0"), target=RuleVerdict("DROP")),
    rule_of(AddressType("dst", "LOCAL"), target=RuleVerdict("RETURN")),
    rule_of(target=SetMark(0x4000, 0x4000)),
)
HURT = {"nftables": hurt_table, "iptables": hurt_tables}
