# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stale iptables rules and nftables tables. Pure; _audit/stale_chains.py determines which chains are stale."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from ..._audit.stale_chains import StaleChains
from ..._core.host.names import MARK
from ..._rules.backend import KUBE_PROXY_TABLE, TAKEOVER_TABLE
from ..._rules.iptables.names import LAYOUT
from ..._rules.iptables.restore import DELETE, Operation
from ..._rules.iptables.text import rule_text
from ..._rules.model import NFTABLES
from ..._rules.nftables.objects import Table
from ..._rules.nftables.transaction import Operation as TableOperation
from ..._rules.nftables.transaction import plan as plan_table
from .artefact import KEPT, REMOVED, Artefact, CleanupPart, Stage

RulesKey = tuple[str, int]  # (variant of iptables, family)
_PREFIXES = tuple(prefix for _table, prefix in LAYOUT.prefixes)
_UNDECIDED = (
    "both variants have kube-proxy rules, and the kubelet's mark (KUBE-IPTABLES-HINT) is in the variant that iptables is not: "
    "it is unknown which one kube-proxy writes"
)


def left_in_iptables(stale: Mapping[RulesKey, StaleChains], mode: str, *, undecided: bool) -> CleanupPart:
    """`undecided`: the variant that kube-proxy writes is unknown. All jumps are removed before any chain, so that no packet
    meets half-removed rules."""
    if undecided:
        variants = sorted({variant for variant, _family in stale})
        return CleanupPart(tuple(Artefact("chain", f"iptables ({variant})", KEPT, _UNDECIDED) for variant in variants))
    artefacts = [artefact for key, left in stale.items() for artefact in _artefacts(_place(key), left, mode)]
    stages = [
        *(_stage("jumps", key, left.jumps) for key, left in stale.items() if left.jumps),
        *(_stage("chains", key, left.chains) for key, left in stale.items() if left.chains),
    ]
    return CleanupPart(tuple(artefacts), tuple(stages))


def left_in_nftables(present: Iterable[tuple[str, str]], mode: str, *, change_under_way: bool) -> CleanupPart:
    """`present` are tables, as (family, name). A table is removed as a whole, because no other program writes into it."""
    artefacts: list[Artefact] = []
    operations: list[TableOperation] = []
    for family, name in present:
        fate, why = _fate_of_table(name, mode, change_under_way=change_under_way)
        if fate:
            artefacts.append(Artefact("table", f"nftables {family} {name}", fate, why))
        if fate == REMOVED:
            operations.extend(plan_table(None, Table(family, name)))
    return CleanupPart(tuple(artefacts), (Stage("tables of nftables", tuple(operations)),) if operations else ())


def _fate_of_table(name: str, mode: str, *, change_under_way: bool) -> tuple[str, str]:
    if name == TAKEOVER_TABLE:
        if change_under_way:
            return KEPT, "a running mode change uses it"
        return REMOVED, "no running mode change uses it"
    if name == KUBE_PROXY_TABLE and mode != NFTABLES:
        return REMOVED, f"mode {mode} is in use, and only kube-proxy may write to this table"
    if name == MARK and mode != NFTABLES:
        return KEPT, "ballast.kube.service_rules created it, and removes it with state: absent"
    return "", ""


def _place(key: RulesKey) -> str:
    return f"iptables ({key[0]}) IPv{key[1]}"


def _stage(what: str, key: RulesKey, operations: tuple[Operation, ...]) -> Stage:
    return Stage(f"{what} of {_place(key)}", operations, *key)


def _artefacts(place: str, left: StaleChains, mode: str) -> Iterator[Artefact]:
    for jump in left.jumps:
        for rule in jump.rules:
            target = f"{place} {jump.table} {jump.chain}: {rule_text(rule)}"
            yield Artefact("jump", target, REMOVED, f"it leads to a chain that mode {mode} does not use")
    gone = [(removal.table, removal.chain) for removal in left.chains if removal.kind == DELETE]
    for name in _group(gone):
        yield Artefact("chain", f"{place} {name}", REMOVED, f"mode {mode} does not use it")
    reasons = {(chain.table, chain.chain): chain.why for chain in left.kept}
    for removal in left.chains:
        if removal.kind != DELETE:
            rules = f"{len(removal.rules)} rules" if removal.rules else "all rules"
            target = f"{place} {removal.table} {removal.chain}: {rules} of kube-proxy"
            yield Artefact("rules", target, REMOVED, f"mode {mode} does not use them; the chain remains")
    for (table, chain), why in reasons.items():
        yield Artefact("chain", f"{place} {table} {chain}", KEPT, why)


def _group(chains: Collection[tuple[str, str]]) -> Iterator[str]:
    """Names of chains. Those that exist for each Service are summarized as a prefix with their number."""
    alike: Counter[str] = Counter()
    for table, chain in chains:
        prefix = next((known for known in _PREFIXES if chain.startswith(known)), "")
        if prefix:
            alike[f"{table} {prefix}*"] += 1
        else:
            yield f"{table} {chain}"
    for name, count in sorted(alike.items()):
        yield f"{name} ({count})"
