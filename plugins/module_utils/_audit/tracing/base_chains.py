# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The chains of all programs that the kernel calls in each hook, in the kernel's order.

Entries of a hook run by priority. All nat chains of a hook are one entry, at dstnat (-100) or srcnat (100); their own
priorities order them among themselves. Of two entries at equal priority, the kernel calls the one registered later first
(nf_hook_entries_grow in netfilter/core.c; observed on Linux 6.18 between nftables tables, chains of one table, iptables-nft
and iptables-legacy, for nat and filter chains alike). A table lists its chains in creation order. Nothing lists when chains
of different tables were registered, so these form a group whose order is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Union

from ..._rules.nftables import objects as nft
from ..._rules.node_rules import NodeRules
from .hook_view import HookView
from .lookup import Indexes
from .outcome import Outcome
from .packet_state import Exits, State

HOOKS = ("prerouting", "input", "forward", "output", "postrouting")
# NF_IP_PRI_NAT_DST and NF_IP_PRI_NAT_SRC.
NAT_PRIORITIES = {"prerouting": -100, "output": -100, "postrouting": 100, "input": 100}
_FAMILIES = {4: ("ip", "inet"), 6: ("ip6", "inet")}
IP_VS_PRIORITIES = {"input": 99, "output": -98}  # NF_IP_PRI_NAT_SRC - 1, NF_IP_PRI_NAT_DST + 2
_IPTABLES_PRIORITIES = {"raw": -300, "mangle": -150, "filter": 0, "security": 50}

Run = Callable[[HookView, Sequence[State], Outcome], Exits]


@dataclass(frozen=True)
class Entry:
    """A chain that the kernel calls."""

    table: str
    label: str  # table and chain, for messages
    hook: str
    is_nat: bool
    priority: int  # its own
    run: Run


@dataclass(frozen=True)
class Chains:
    """Chains of one table at one priority, whose order is known."""

    label: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class NatChains:
    """All nat chains of a hook, by their own priority."""

    groups: tuple[Group, ...]
    label: str = "nat chains"


@dataclass(frozen=True)
class IpVsStep:
    """The point at which ip_vs looks for a virtual server."""

    label: str = "ip_vs"


@dataclass(frozen=True, eq=False)
class Group:
    """Everything that is called at one priority. Groups are compared by identity, which is fast."""

    hook: str
    priority: int  # for nat chains: their own
    parties: tuple[Union[Chains, NatChains, IpVsStep], ...]

    @property
    def order(self) -> str:
        """For people: that the order of these parties is unknown."""
        labels = ", ".join(party.label for party in self.parties)
        return f"the order of chains at priority {self.priority} of {self.hook} is unknown: {labels}"


def hook_groups(rules: NodeRules, indexes: Indexes, family: int) -> Mapping[str, tuple[Group, ...]]:
    """The groups of each hook, in order of priority."""
    entries = [*_of_nftables(rules, indexes, family), *_of_iptables(rules, family)]
    return {hook: _groups(hook, entries, has_ip_vs=rules.ipvs is not None) for hook in HOOKS}


def _groups(hook: str, entries: Sequence[Entry], *, has_ip_vs: bool) -> tuple[Group, ...]:
    steps: dict[int, list[Union[Chains, NatChains, IpVsStep]]] = {}
    for priority, parties in _by_priority(hook, entries, is_nat=False):
        steps[priority] = [*parties]
    nat = tuple(Group(hook, at, tuple(parties)) for at, parties in _by_priority(hook, entries, is_nat=True))
    if nat:
        steps.setdefault(NAT_PRIORITIES[hook], []).append(NatChains(nat))
    if has_ip_vs and hook in IP_VS_PRIORITIES:
        steps.setdefault(IP_VS_PRIORITIES[hook], []).append(IpVsStep())
    return tuple(Group(hook, priority, tuple(parties)) for priority, parties in sorted(steps.items()))


def _by_priority(hook: str, entries: Iterable[Entry], *, is_nat: bool) -> Iterable[tuple[int, list[Chains]]]:
    by_priority: dict[int, dict[str, list[Entry]]] = {}
    for entry in entries:
        if entry.hook == hook and entry.is_nat == is_nat:
            by_priority.setdefault(entry.priority, {}).setdefault(entry.table, []).append(entry)
    for priority, tables in sorted(by_priority.items()):
        yield priority, [_party(tables[table]) for table in sorted(tables)]


def _party(listed: Sequence[Entry]) -> Chains:
    return Chains(listed[-1].label, tuple(reversed(listed)))


def _of_nftables(rules: NodeRules, indexes: Indexes, family: int) -> Iterable[Entry]:
    if not rules.nftables.tables:
        return
    from .chain_interpreter import ChainInterpreter  # on first use: compiling it takes time on a node

    def runner(table: nft.Table, chain: nft.Chain) -> Run:
        return lambda view, states, outcome: ChainInterpreter(table, view, indexes, outcome).base(chain, states)

    for table in rules.nftables.tables.values():
        if "dormant" in table.flags or table.family not in _FAMILIES[family]:
            continue
        for chain in table.chains.values():
            hook = chain.base
            if hook is not None and hook.hook in HOOKS and (chain.rules or hook.policy == "drop"):
                name = f"{table.family} {table.name}"
                run = runner(table, chain)
                yield Entry(name, f"{name} {chain.name}", hook.hook, hook.type == "nat", hook.priority, run)


def _of_iptables(rules: NodeRules, family: int) -> Iterable[Entry]:
    if not rules.iptables:
        return
    from ..._rules.iptables.objects import BUILT_IN, Chain, Tables
    from .ipsets import IpSets
    from .iptables import TableInterpreter
    from .ipvs import Ipvs

    sets = IpSets(rules.sets)
    ipvs = None if rules.ipvs is None else Ipvs(rules.ipvs)

    def runner(tables: Tables, table: str, chain: Chain, label: str) -> Run:
        return lambda view, states, outcome: TableInterpreter(
            tables, table, view, outcome, sets, ipvs, label=label
        ).base(chain, states)

    filled = [
        variant
        for variant, tables in rules.iptables.items()
        if any(chain.rules or chain.policy == "DROP" for table in tables.tables for chain in table.chains)
    ]
    for variant, tables in rules.iptables.items():
        for table in tables.tables if tables.family == family else ():
            label = f"{table.name} ({variant})" if len(filled) > 1 else table.name
            for name in BUILT_IN[table.name]:
                chain = table.by_name.get(name)
                if chain is None or not (chain.rules or chain.policy == "DROP"):
                    continue
                is_nat, hook = table.name == "nat", name.lower()
                priority = NAT_PRIORITIES[hook] if is_nat else _IPTABLES_PRIORITIES[table.name]
                run = runner(tables, table.name, chain, label)
                yield Entry(f"iptables {label}", f"iptables {label} {name}", hook, is_nat, priority, run)
