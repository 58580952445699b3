# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules of iptables and tables of nftables that are left over. Pure; which chains those are: leftovers.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from ...._core.names import MARK, joined
from ...backends import KUBE_PROXY_TABLE
from ...iptables.names import LAYOUT
from ...iptables.restore import DELETE, Operation
from ...iptables.text import rule_text
from ...leftovers import Leftovers
from ...model import NFTABLES
from ...nftables.objects import Table
from ...nftables.transaction import Operation as TableOperation
from ...nftables.transaction import plan as plan_table
from .artefact import KEPT, REMOVED, Artefact, Found, Stage

BRIDGE = joined("bridge")
RulesKey = tuple[str, int]  # variant of iptables, family
_PREFIXES = tuple(prefix for _table, prefix in LAYOUT.prefixes)
_UNDECIDED = (
    "both variants have rules of kube-proxy, and the kubelet's mark (KUBE-IPTABLES-HINT) is in the one that iptables is not: "
    "it cannot be told which of the two kube-proxy writes"
)


def left_in_iptables(found: Mapping[RulesKey, Leftovers], mode: str, *, undecided: bool) -> Found:
    """`undecided`: whether it cannot be told which variant kube-proxy writes. All jumps go before any chain: from then on nothing is met that is half
    removed."""
    if undecided:
        variants = sorted({variant for variant, _family in found})
        return Found(tuple(Artefact("chain", f"iptables ({one})", KEPT, _UNDECIDED) for one in variants))
    artefacts = [one for key, left in found.items() for one in _artefacts(_place(key), left, mode)]
    stages = [
        *(_stage("jumps", key, left.jumps) for key, left in found.items() if left.jumps),
        *(_stage("chains", key, left.chains) for key, left in found.items() if left.chains),
    ]
    return Found(tuple(artefacts), tuple(stages))


def left_in_nftables(present: Iterable[tuple[str, str]], mode: str, *, bridge_in_use: bool) -> Found:
    """`present`: tables, by family and name. A table goes as a whole: nobody else writes into it."""
    artefacts: list[Artefact] = []
    operations: list[TableOperation] = []
    for family, name in present:
        fate, why = _fate_of_table(name, mode, bridge_in_use=bridge_in_use)
        if fate:
            artefacts.append(Artefact("table", f"nftables {family} {name}", fate, why))
        if fate == REMOVED:
            operations.extend(plan_table(None, Table(family, name)))
    return Found(tuple(artefacts), (Stage("tables of nftables", tuple(operations)),) if operations else ())


def _fate_of_table(name: str, mode: str, *, bridge_in_use: bool) -> tuple[str, str]:
    if name == BRIDGE:
        if bridge_in_use:
            return KEPT, "a change of the mode is at work and uses it"
        return REMOVED, "no change of the mode is at work that uses it"
    if name == KUBE_PROXY_TABLE and mode != NFTABLES:
        return REMOVED, f"the mode {mode} is in use, and no other program may write into kube-proxy's table"
    if name == MARK and mode != NFTABLES:
        return KEPT, "ballast.kube.service_rules made it, and removes it with state: absent"
    return "", ""


def _place(key: RulesKey) -> str:
    return f"iptables ({key[0]}) IPv{key[1]}"


def _stage(what: str, key: RulesKey, operations: tuple[Operation, ...]) -> Stage:
    return Stage(f"{what} of {_place(key)}", operations, *key)


def _artefacts(place: str, left: Leftovers, mode: str) -> Iterator[Artefact]:
    for jump in left.jumps:
        for rule in jump.rules:
            target = f"{place} {jump.table} {jump.chain}: {rule_text(rule)}"
            yield Artefact("jump", target, REMOVED, f"it leads to a chain that the mode {mode} does not use")
    gone = [(one.table, one.chain) for one in left.chains if one.kind == DELETE]
    for name in _grouped(gone):
        yield Artefact("chain", f"{place} {name}", REMOVED, f"the mode {mode} does not use it")
    reasons = {(one.table, one.chain): one.why for one in left.kept}
    for one in left.chains:
        if one.kind != DELETE:
            rules = f"{len(one.rules)} rules" if one.rules else "all rules"
            target = f"{place} {one.table} {one.chain}: {rules} of kube-proxy"
            yield Artefact("rules", target, REMOVED, f"the mode {mode} does not use them; the chain stays")
    for (table, chain), why in reasons.items():
        yield Artefact("chain", f"{place} {table} {chain}", KEPT, why)


def _grouped(chains: Collection[tuple[str, str]]) -> Iterator[str]:
    """By their names; those that each Service has by the beginning of their names and their count."""
    alike: Counter[str] = Counter()
    for table, chain in chains:
        prefix = next((one for one in _PREFIXES if chain.startswith(one)), "")
        if prefix:
            alike[f"{table} {prefix}*"] += 1
        else:
            yield f"{table} {chain}"
    for name, count in sorted(alike.items()):
        yield f"{name} ({count})"
