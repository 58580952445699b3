# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ipvs behind the functions that all backends have (backends.py). Rules are virtual servers, sets, addresses and tables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Optional

from ..._core.host import Host
from ..backends import Settings, Tracer
from ..iptables import restore
from ..iptables.objects import Tables
from ..iptables.text import render
from ..model import FamilyView, RuleConfig
from ..packet import Surroundings
from . import apply
from . import compile as compiler
from . import plan as planner
from .objects import IpvsRules
from .trace import trace

_SETTINGS = "/proc/sys/net/ipv4/vs"
_SECONDS = 60


class Ipvs:
    """`exclude_cidrs`: foreign virtual servers; `overdue`: real servers that have drained for long enough (ipvs/plan.py)."""

    def __init__(
        self, variant: str = restore.NFT, *, exclude_cidrs: Sequence[str] = (), overdue: frozenset[str] = frozenset()
    ) -> None:
        self.variant = variant
        self.exclude_cidrs = exclude_cidrs
        self.overdue = overdue

    def compile(self, view: FamilyView, config: RuleConfig) -> IpvsRules:
        return compiler.compile_rules(view, config)

    def settings(self, view: FamilyView, config: RuleConfig) -> Settings:
        return compiler.requirements(config, kernel=_kernel())

    def prepare(self, host: Host) -> None:
        """ipvsadm loads ip_vs too, but only when it is run, which is after the settings."""
        if host.stat(_SETTINGS) is None and host.which("modprobe"):
            host.run(["modprobe", "ip_vs"], timeout=_SECONDS, check=False)

    def read(self, host: Host, family: int) -> IpvsRules:
        return apply.read(host, family=family, variant=self.variant)

    def left(self, host: Host, family: int) -> IpvsRules:
        return self.read(host, family)

    def parse(self, text: str, family: int) -> IpvsRules:
        from ..dump import parse_ipvs  # a dump has parts of iptables as well

        return parse_ipvs(text, family)

    def plan(self, wanted: Optional[IpvsRules], found: IpvsRules) -> Sequence[planner.AnyOperation]:
        return planner.plan(wanted, found, exclude_cidrs=self.exclude_cidrs, overdue=self.overdue)

    def commit(self, operations: Sequence[planner.AnyOperation], host: Host, found: IpvsRules) -> None:
        apply.commit(operations, host, found=found, variant=self.variant)

    def tracer(self, rules: IpvsRules, surroundings: Surroundings) -> Tracer:
        return partial(trace, rules, surroundings=surroundings)

    def own(self, rules: IpvsRules) -> IpvsRules:
        return planner.own(rules)

    def shown(self, rules: IpvsRules) -> str:
        """As the lines that make them from nothing."""
        own = self.own(rules)
        nothing = IpvsRules(own.family, tables=Tables(own.family))
        made = [one for one in planner.plan(own, nothing) if isinstance(one, planner.Operation)]
        return "".join(f"{one.tool} {one.line}\n" for one in made) + render(own.tables)


def _kernel() -> tuple[int, int]:
    major, minor = os.uname().release.split(".")[:2]
    return int(major), int("".join(sign for sign in minor if sign.isdigit()) or 0)
