# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Counters and modules: what is left over and does nothing. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ...iptables.objects import Accounting, Tables
from ...model import IPTABLES, IPVS
from .artefact import KEPT, REMOVED, Artefact, DeleteCounter, Found, Stage
from .rules import RulesKey

# nfacct objects of the mode iptables since 1.31.
_COUNTERS = ("ct_state_invalid_dropped_pkts", "localhost_nps_accepted_pkts")


def counters_left(tables: Mapping[RulesKey, Tables], present: Iterable[str], mode: str) -> Found:
    """`present`: nfacct objects, as far as there is a tool that lists them. The rules that count are kube-proxy's alone."""
    if mode == IPTABLES:
        return Found()
    gone = [name for name in present if name in _COUNTERS]
    unlisted = sorted({name for one in tables.values() for name in _counted(one)} - set(gone))
    artefacts = [Artefact("counter", name, REMOVED, "only the mode iptables counts by it") for name in gone]
    artefacts += [
        Artefact("counter", name, KEPT, "nfacct does not list it on this machine; without rules it counts nothing")
        for name in unlisted
    ]
    stages = (Stage("counters", tuple(DeleteCounter(name) for name in gone)),) if gone else ()
    return Found(tuple(artefacts), stages)


def _counted(tables: Tables) -> Iterator[str]:
    for table in tables.tables:
        for chain in table.chains:
            for rule in chain.rules if chain.name.startswith("KUBE-") else ():
                for match in rule.matches:
                    if isinstance(match, Accounting) and match.name in _COUNTERS:
                        yield match.name


def modules_left(loaded: Iterable[str], mode: str) -> Found:
    names = sorted(name for name in loaded if name == "ip_vs" or name.startswith("ip_vs_"))
    if mode == IPVS or not names:
        return Found()
    why = "all network namespaces share a module, and others may use it; a restart of the machine leaves it out"
    return Found((Artefact("module", ", ".join(names), KEPT, why),))
