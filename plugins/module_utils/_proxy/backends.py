# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The backends that a Linux kernel has, each behind the same few functions: compile, read, compare, commit, trace, show.

What they exchange is opaque here: each backend has its own type of rules, the same for compiled, live and dumped ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Optional, Protocol

from .._core.host import Host
from .._core.names import MARK
from . import dump
from .iptables import compile as iptables_compile
from .iptables import restore
from .iptables import trace as iptables_trace
from .iptables.names import LAYOUT
from .iptables.objects import Tables
from .iptables.text import render as iptables_shown
from .ipvs import apply as ipvs_apply
from .ipvs import compile as ipvs_compile
from .ipvs import plan as ipvs_plan
from .ipvs import trace as ipvs_trace
from .ipvs.objects import IpvsRules
from .model import FamilyView, RuleConfig
from .nftables import compile as nftables_compile
from .nftables import trace as nftables_trace
from .nftables import transaction
from .nftables.objects import Ruleset, Table
from .nftables.render import render_table
from .packet import Answer, Packet, Surroundings

NFT_FAMILIES = {4: "ip", 6: "ip6"}
KUBE_PROXY_TABLE = "kube-proxy"
Settings = tuple[tuple[str, str], ...]
Tracer = Callable[[Packet], Answer]


class Operation(Protocol):
    @property
    def kind(self) -> str: ...

    @property
    def target(self) -> str: ...


class Backend(Protocol):
    """`family` is 4 or 6 throughout. Rules of one family only are ever exchanged."""

    def compile(self, view: FamilyView, config: RuleConfig) -> Any:
        """What the kernel should hold. Pure."""

    def settings(self, view: FamilyView, config: RuleConfig) -> Settings:
        """Kernel settings that these rules need: name and value."""

    def read(self, host: Host, family: int) -> Any:
        """What the kernel holds."""

    def parse(self, text: str, family: int) -> Any:
        """What a dump holds. UserError where it is none of this backend."""

    def plan(self, wanted: Any, found: Any) -> Sequence[Any]:
        """The smallest list of Operations; `wanted` None removes all. Pure."""

    def commit(self, operations: Sequence[Any], host: Host, found: Any) -> None:
        """Do them all; after a failure, which it raises, the kernel holds what it held before."""

    def tracer(self, rules: Any, surroundings: Surroundings) -> Tracer:
        """Answers what becomes of a packet; for many packets of one set of rules."""

    def own(self, rules: Any) -> Any:
        """What of the rules is the backend's: what `plan` takes as wanted."""

    def shown(self, rules: Any) -> str:
        """Those of the rules that are the backend's, as its own tools print them."""


class Nftables:
    def __init__(self, table: str = MARK, *, priority_offset: int = 0) -> None:
        self.table = table
        self.priority_offset = priority_offset

    def compile(self, view: FamilyView, config: RuleConfig) -> Table:
        return nftables_compile.compile_rules(view, config, table=self.table, priority_offset=self.priority_offset)

    def settings(self, view: FamilyView, config: RuleConfig) -> Settings:
        return ()

    def read(self, host: Host, family: int) -> Optional[Table]:
        return transaction.read(host, NFT_FAMILIES[family], self.table)

    def parse(self, text: str, family: int) -> Optional[Table]:
        return dump.parse_nftables(text).tables.get((NFT_FAMILIES[family], self.table))

    def plan(self, wanted: Optional[Table], found: Optional[Table]) -> Sequence[transaction.Operation]:
        return transaction.plan(wanted, found)

    def commit(self, operations: Sequence[transaction.Operation], host: Host, found: Optional[Table]) -> None:
        transaction.commit(operations, host)

    def tracer(self, rules: Optional[Table], surroundings: Surroundings) -> Tracer:
        tables = {} if rules is None else {(rules.family, rules.name): rules}
        return nftables_trace.Tracer(Ruleset(tables), surroundings).answer

    def own(self, rules: Optional[Table]) -> Optional[Table]:
        return rules

    def shown(self, rules: Table) -> str:
        return render_table(rules)


class Iptables:
    def __init__(self, variant: str = restore.NFT) -> None:
        self.variant = variant

    def compile(self, view: FamilyView, config: RuleConfig) -> Tables:
        return iptables_compile.compile_rules(view, config)

    def settings(self, view: FamilyView, config: RuleConfig) -> Settings:
        return iptables_compile.required_sysctls(view, config)

    def read(self, host: Host, family: int) -> Tables:
        return restore.read(host, family=family, variant=self.variant)

    def parse(self, text: str, family: int) -> Tables:
        return dump.parse_iptables(text, family)

    def plan(self, wanted: Optional[Tables], found: Tables) -> Sequence[restore.Operation]:
        return restore.removed(found, LAYOUT) if wanted is None else restore.plan(wanted, found, LAYOUT)

    def commit(self, operations: Sequence[restore.Operation], host: Host, found: Tables) -> None:
        restore.commit(operations, host, found=found, layout=LAYOUT, variant=self.variant)

    def tracer(self, rules: Tables, surroundings: Surroundings) -> Tracer:
        return partial(iptables_trace.trace, rules, surroundings=surroundings)

    def own(self, rules: Tables) -> Tables:
        return restore.own(rules, LAYOUT)

    def shown(self, rules: Tables) -> str:
        return iptables_shown(self.own(rules))


class Ipvs:
    """`exclude_cidrs`: foreign virtual servers; `overdue`: real servers that have drained for long enough (ipvs/plan.py)."""

    def __init__(
        self, variant: str = restore.NFT, *, exclude_cidrs: Sequence[str] = (), overdue: frozenset[str] = frozenset()
    ) -> None:
        self.variant = variant
        self.exclude_cidrs = exclude_cidrs
        self.overdue = overdue

    def compile(self, view: FamilyView, config: RuleConfig) -> IpvsRules:
        return ipvs_compile.compile_rules(view, config)

    def settings(self, view: FamilyView, config: RuleConfig) -> Settings:
        return ipvs_compile.requirements(config, kernel=_kernel())

    def read(self, host: Host, family: int) -> IpvsRules:
        return ipvs_apply.read(host, family=family, variant=self.variant)

    def parse(self, text: str, family: int) -> IpvsRules:
        return dump.parse_ipvs(text, family)

    def plan(self, wanted: Optional[IpvsRules], found: IpvsRules) -> Sequence[ipvs_plan.AnyOperation]:
        return ipvs_plan.plan(wanted, found, exclude_cidrs=self.exclude_cidrs, overdue=self.overdue)

    def commit(self, operations: Sequence[ipvs_plan.AnyOperation], host: Host, found: IpvsRules) -> None:
        ipvs_apply.commit(operations, host, found=found, variant=self.variant)

    def tracer(self, rules: IpvsRules, surroundings: Surroundings) -> Tracer:
        return partial(ipvs_trace.trace, rules, surroundings=surroundings)

    def own(self, rules: IpvsRules) -> IpvsRules:
        return ipvs_plan.own(rules)

    def shown(self, rules: IpvsRules) -> str:
        """As the lines that make them from nothing."""
        own = self.own(rules)
        nothing = IpvsRules(own.family, tables=Tables(own.family))
        made = [one for one in ipvs_plan.plan(own, nothing) if isinstance(one, ipvs_plan.Operation)]
        return "".join(f"{one.tool} {one.line}\n" for one in made) + iptables_shown(own.tables)


def _kernel() -> tuple[int, int]:
    major, minor = os.uname().release.split(".")[:2]
    return int(major), int("".join(sign for sign in minor if sign.isdigit()) or 0)


def counted(operations: Sequence[Operation]) -> Mapping[str, int]:
    """How many operations of each kind, sorted by kind."""
    kinds = [operation.kind for operation in operations]
    return {kind: kinds.count(kind) for kind in sorted(set(kinds))}
