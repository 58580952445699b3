# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds differences between the rules of a node and the rules that its Services require.

    structure.py            do the chains exist, and are they called where they should be?
    verdict_comparison.py   expected and traced verdicts of packets (probes.py) to every destination
    destinations.py         rules for destinations that no Service has
    duplicates.py           destinations that two Services claim
    foreign_translation.py  packets that rules of other programs keep from the rules of Services
    foreign.py              packets that rules of other programs drop
    stale_connections.py    UDP connections that conntrack keeps to former endpoints
    node.py                 stale rules of other backends, settings

The later steps see the rules as if the structure were repaired, so that one cause is one finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .._rules.backend import KUBE_PROXY_TABLE, Backend
from .._rules.config import ParsedConfig
from .._rules.gates import NEWEST
from .._rules.iptables.backend import Iptables
from .._rules.iptables.objects import Tables
from .._rules.iptables.restore import NFT
from .._rules.ipvs.backend import Ipvs
from .._rules.ipvs.objects import IpvsRules
from .._rules.model import FamilyView, RuleConfig
from .._rules.nftables.objects import Ruleset, Table
from .._rules.node_rules import REFUSALS, Missing, NodeRules, rules_of_one
from .._rules.packet import Surroundings
from .._rules.parse import Snapshot
from . import node
from .destinations import Key, cluster_ips_in_nftables, find_in_iptables, find_in_ipvs, find_in_nftables
from .duplicates import find_duplicates
from .equivalence import Equivalence
from .facts import Facts
from .findings import AuditFinding, sort_findings
from .foreign import find_drops, translation_finding
from .foreign_translation import find_taken
from .iptables_equivalence import IptablesEquivalence
from .probes import Prober
from .remedies import COMPILED, DUMP, KERNEL, Origin
from .stale_connections import find_stale_connections
from .structure import Inspection, inspect
from .tracing.packet_path import Tracer
from .verdict_comparison import EquivalenceKey, VerdictComparison, find_extra, find_missing_cluster_ips

__all__ = ["COMPILED", "DUMP", "KERNEL", "AuditFinding", "AuditInput", "Facts", "audit"]


@dataclass(frozen=True)
class AuditInput:
    snapshot: Snapshot
    configs: Mapping[int, ParsedConfig]  # by family
    backend: Backend
    rules: Mapping[int, Any]  # by family, as the backend reads them
    surroundings: Surroundings
    owner: str  # "ballast" or "kube-proxy"
    source: str = KERNEL  # where `rules` come from: KERNEL, DUMP or COMPILED
    node_rules: Mapping[int, NodeRules] = field(default_factory=dict)  # by family: the rules of all programs


def audit(given: AuditInput, facts: Facts) -> list[AuditFinding]:
    """Findings, sorted by severity, family, service, id; empty on a healthy node."""
    views = {family: given.snapshot.view(family) for family in given.rules}
    inspections = {family: _inspect(given, family) for family in given.rules}
    findings = [
        finding
        for family, inspection in inspections.items()
        for finding in _audit_family(given, facts, family, inspection)
    ]
    settings = [
        setting
        for family, view in views.items()
        for setting in given.backend.settings(view, given.configs[family].rules)
    ]
    findings += node.check_settings(facts, tuple(dict.fromkeys(settings)))
    is_served = any(inspection.rules is not None for inspection in inspections.values())
    is_needed = any(view.frontends for view in given.snapshot.views)  # also of a family that a dump lacks
    findings += node.find_stale_rules(facts, given.backend, in_force=is_served or not is_needed)
    findings += node.report_unread(facts, views)
    findings += node.report_unsaved(given.node_rules)
    return sort_findings(dict.fromkeys(findings))


def _inspect(given: AuditInput, family: int) -> Inspection:
    view, config = given.snapshot.view(family), given.configs[family].rules
    return inspect(
        given.backend, given.rules[family], view, config, _origin(given, family), _missing_parts(given, family)
    )


def _origin(given: AuditInput, family: int) -> Origin:
    return Origin(given.configs[family].rules.backend, given.owner, given.source)


def _missing_parts(given: AuditInput, family: int) -> tuple[Missing, ...]:
    return given.node_rules[family].missing if family in given.node_rules else ()


def _audit_family(given: AuditInput, facts: Facts, family: int, inspection: Inspection) -> Iterator[AuditFinding]:
    view, config = given.snapshot.view(family), given.configs[family].rules
    backend, rules, surroundings = given.backend, given.rules[family], given.surroundings
    origin, unsaved = _origin(given, family), _missing_parts(given, family)
    yield from inspection.findings
    yield from find_stale_connections(facts.connections or (), view, config, surroundings)
    judged = inspection.rules
    if judged is None or any(part.decides != REFUSALS for part in unsaved):
        return
    layout = inspection.layout
    known = _destinations(judged, view)
    sets = given.node_rules[family].sets if family in given.node_rules else ()
    of_services = rules_of_one(judged, variant=NFT)
    trace = Tracer(replace(of_services, sets=of_services.sets or sets, missing=unsaved), surroundings).answer
    comparison = VerdictComparison(
        view,
        config,
        surroundings,
        trace,
        known=known,
        equivalence=_equivalence_keys(judged, view, config, surroundings),
        remedy=origin.rewrite,
        both_right=given.owner == KUBE_PROXY_TABLE,
        minor=layout.last_minor if layout else NEWEST,
    )
    wrong = [*comparison.check_services(), *comparison.check_undefined_port()]
    yield from wrong or inspection.stale
    yield from find_duplicates(view, Prober(view, config, surroundings), trace)
    yield from find_extra(known, view, remedy=origin.rewrite)
    if isinstance(judged, Table) and (layout is None or layout.has_cluster_ips):
        yield from find_missing_cluster_ips(view, cluster_ips_in_nftables(judged), remedy=origin.rewrite)
    yield from _find_foreign_translations(given, facts, family)
    yield from find_drops(facts, backend, rules, judged, comparison.served, surroundings, family=family, sets=sets)


def _find_foreign_translations(given: AuditInput, facts: Facts, family: int) -> Iterator[AuditFinding]:
    view, config, backend = given.snapshot.view(family), given.configs[family].rules, given.backend
    translated_by = backend.variant if isinstance(backend, Iptables) else ""
    rules = given.node_rules.get(family) or _rules_of_all(given, facts, family)
    for taken in find_taken(rules, view, config, given.surroundings, translated_by=translated_by):
        yield translation_finding(taken, family)


def _rules_of_all(given: AuditInput, facts: Facts, family: int) -> NodeRules:
    """The rules of all programs, with those of Services as they were read."""
    rules, backend = given.rules[family], given.backend
    tables = dict(facts.ruleset.tables)
    iptables = {variant: tables for (variant, of), tables in facts.iptables.items() if of == family}
    if isinstance(rules, Table):
        tables[rules.family, rules.name] = rules
    elif isinstance(backend, (Iptables, Ipvs)):
        iptables[backend.variant] = rules.tables if isinstance(rules, IpvsRules) else rules
    return replace(rules_of_one(rules, variant=NFT), nftables=Ruleset(tables), iptables=iptables)


def _equivalence_keys(rules: Any, view: FamilyView, config: RuleConfig, surroundings: Surroundings) -> EquivalenceKey:
    if isinstance(rules, Table):
        return Equivalence(rules, config, surroundings, node=view.node.name).key
    if isinstance(rules, Tables):
        return IptablesEquivalence(rules, view, config, surroundings).key
    return lambda frontend: None


def _destinations(rules: Any, view: FamilyView) -> set[Key]:
    if isinstance(rules, Table):
        return find_in_nftables(rules)
    if isinstance(rules, IpvsRules):
        return find_in_ipvs(rules, {frontend.key for frontend in view.frontends})
    return find_in_iptables(rules)
