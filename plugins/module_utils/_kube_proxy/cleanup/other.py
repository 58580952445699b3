# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Leftover counters and modules, which have no effect. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ..._rules.iptables.objects import Accounting, Tables
from ..._rules.model import IPTABLES, IPVS
from .artefact import KEPT, REMOVED, Artefact, CleanupPart, DeleteCounter, Stage
from .rules import RulesKey

# nfacct objects of mode iptables since 1.31.
_COUNTERS = ("ct_state_invalid_dropped_pkts", "localhost_nps_accepted_pkts")


def counters_left(tables: Mapping[RulesKey, Tables], present: Iterable[str], mode: str) -> CleanupPart:
    """`present` are nfacct objects, if a tool lists them. Only kube-proxy's rules use them."""
    if mode == IPTABLES:
        return CleanupPart()
    gone = [name for name in present if name in _COUNTERS]
    unlisted = sorted({name for family_tables in tables.values() for name in _counters_of(family_tables)} - set(gone))
    artefacts = [Artefact("counter", name, REMOVED, "only mode iptables uses this counter") for name in gone]
    artefacts += [
        Artefact("counter", name, KEPT, "nfacct does not list it on this node; without rules it counts nothing")
        for name in unlisted
    ]
    stages = (Stage("counters", tuple(DeleteCounter(name) for name in gone)),) if gone else ()
    return CleanupPart(tuple(artefacts), stages)


def _counters_of(tables: Tables) -> Iterator[str]:
    for table in tables.tables:
        for chain in table.chains:
            for rule in chain.rules if chain.name.startswith("KUBE-") else ():
                for match in rule.matches:
                    if isinstance(match, Accounting) and match.name in _COUNTERS:
                        yield match.name


def modules_left(loaded: Iterable[str], mode: str) -> CleanupPart:
    names = sorted(name for name in loaded if name == "ip_vs" or name.startswith("ip_vs_"))
    if mode == IPVS or not names:
        return CleanupPart()
    why = "all network namespaces share a module, and others may use it; it is not loaded after a reboot"
    return CleanupPart((Artefact("module", ", ".join(names), KEPT, why),))
