# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the rules of a node differ from what its Services mean.

    structure     are the chains there, and called where they should be?       auditing/structure.py
    behaviour     packets to every destination, traced, against the meaning    auditing/behaviour.py, probes.py
    destinations  rules for what no Service has                                auditing/destinations.py
    foreign       what other programs' rules drop                              auditing/foreign.py
    node          residue of other backends, settings, stale connections       auditing/node.py

What is found to be wrong with the structure is taken as mended for the next steps, so that one cause is one finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .auditing import node
from .auditing.behaviour import Behaviour, Likeness, extra, unknown_addresses
from .auditing.destinations import Key, cluster_ips_in_nftables, in_iptables, in_ipvs, in_nftables
from .auditing.facts import Facts, dump_facts, read_facts
from .auditing.findings import AuditFinding, in_order
from .auditing.foreign import dropped
from .auditing.structure import inspect
from .auditing.twins import Twins
from .backends import KUBE_PROXY_TABLE, Backend
from .config import ParsedConfig
from .ipvs.objects import IpvsRules
from .model import FamilyView, RuleConfig
from .nftables.objects import Table
from .packet import Surroundings
from .parse import Snapshot

__all__ = ["AuditFinding", "Audited", "Facts", "audit", "dump_facts", "read_facts"]

_MEND = {
    KUBE_PROXY_TABLE: "restart kube-proxy on this node, which writes all its rules anew",
    "ballast": "run ballast.kube.service_rules with the snapshot",
}


@dataclass(frozen=True)
class Audited:
    snapshot: Snapshot
    configs: Mapping[int, ParsedConfig]  # by family
    backend: Backend
    rules: Mapping[int, Any]  # by family, as the backend reads them
    surroundings: Surroundings
    owner: str  # "ballast" or "kube-proxy"


def audit(audited: Audited, facts: Facts) -> list[AuditFinding]:
    """Sorted by severity, family, service, id; empty on a healthy node."""
    views = {family: audited.snapshot.view(family) for family in audited.rules}
    findings = [one for family in audited.rules for one in _of_family(audited, facts, family)]
    wanted = [
        setting
        for family, view in views.items()
        for setting in audited.backend.settings(view, audited.configs[family].rules)
    ]
    findings += node.settings(facts, tuple(dict.fromkeys(wanted)))
    findings += node.residue(facts, audited.backend)
    findings += node.unseen(facts, views)
    return in_order(dict.fromkeys(findings))


def _of_family(audited: Audited, facts: Facts, family: int) -> Iterator[AuditFinding]:
    view, config = audited.snapshot.view(family), audited.configs[family].rules
    backend, rules, surroundings = audited.backend, audited.rules[family], audited.surroundings
    mend = _MEND[audited.owner]
    inspected = inspect(backend, rules, view, config, is_kube_proxys=audited.owner == KUBE_PROXY_TABLE, mend=mend)
    yield from inspected.findings
    yield from node.connections(facts, view, surroundings)
    judged = inspected.rules
    if judged is None:
        return
    known = _destinations(judged, view)
    behaviour = Behaviour(
        view,
        config,
        surroundings,
        backend.tracer(judged, surroundings),
        known=known,
        likeness=_likeness(judged, config, surroundings, view.node.name),
        mend=mend,
        both_right=audited.owner == KUBE_PROXY_TABLE,
    )
    found = [*behaviour.findings(), *behaviour.undefined()]
    yield from found or inspected.stale
    yield from extra(known, view, mend=mend)
    if isinstance(judged, Table):
        yield from unknown_addresses(view, cluster_ips_in_nftables(judged), mend=mend)
    yield from dropped(facts, backend, rules, judged, behaviour.served, surroundings, family=family)


def _likeness(rules: Any, config: RuleConfig, surroundings: Surroundings, node_name: str) -> Likeness:
    if isinstance(rules, Table):
        return Twins(rules, config, surroundings, node=node_name).key
    return lambda frontend: None


def _destinations(rules: Any, view: FamilyView) -> set[Key]:
    if isinstance(rules, Table):
        return in_nftables(rules)
    if isinstance(rules, IpvsRules):
        return in_ipvs(rules, {one.key for one in view.frontends})
    return in_iptables(rules)
