# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The backend ipvs (see backends.py). Its rules are virtual servers, sets, addresses and iptables tables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Optional

from ..._core.host.host import Host
from ..backend import Settings
from ..iptables import restore
from ..model import FamilyView, RuleConfig
from . import apply
from . import compile as compiler
from . import plan as planner
from .objects import IpvsRules
from .text import render

_SETTINGS = "/proc/sys/net/ipv4/vs"
_SECONDS = 60


class Ipvs:
    """`exclude_cidrs` mark other programs' virtual servers; `overdue` are real servers whose drain time is over
    (ipvs/plan.py)."""

    def __init__(
        self, variant: str = restore.NFT, *, exclude_cidrs: Sequence[str] = (), overdue: frozenset[str] = frozenset()
    ) -> None:
        self.variant = variant
        self.exclude_cidrs = exclude_cidrs
        self.overdue = overdue

    def compile(self, view: FamilyView, config: RuleConfig) -> IpvsRules:
        return compiler.compile_rules(view, config)

    def settings(self, view: FamilyView, config: RuleConfig) -> Settings:
        return compiler.required_sysctls(config, kernel=_kernel())

    def prepare(self, host: Host) -> None:
        """Load ip_vs before its settings are written; ipvsadm, which also loads it, runs later."""
        if host.stat(_SETTINGS) is None and host.which("modprobe"):
            host.run(["modprobe", "ip_vs"], timeout=_SECONDS, check=False)

    def require_ours(self, host: Host, family: int) -> None:
        """Nothing to check: the plan never touches virtual servers of other programs."""

    def read(self, host: Host, family: int) -> IpvsRules:
        return apply.read(host, family=family, variant=self.variant)

    def read_for_removal(self, host: Host, family: int) -> IpvsRules:
        return self.read(host, family)

    def plan(self, desired: Optional[IpvsRules], live: IpvsRules) -> Sequence[planner.AnyOperation]:
        return planner.plan(desired, live, exclude_cidrs=self.exclude_cidrs, overdue=self.overdue)

    def commit(self, operations: Sequence[planner.AnyOperation], host: Host, live: IpvsRules) -> None:
        apply.commit(operations, host, live=live, variant=self.variant)

    def select_own(self, rules: IpvsRules) -> IpvsRules:
        return planner.select_own(rules)

    def diff(self, desired: Optional[IpvsRules], live: IpvsRules) -> tuple[str, str]:
        """The input lines that create the objects."""
        before = planner.changeable(desired, live)
        after = planner.result(desired, live, exclude_cidrs=self.exclude_cidrs, overdue=self.overdue)
        return render(before), render(after)


def _kernel() -> tuple[int, int]:
    major, minor = os.uname().release.split(".")[:2]
    return int(major), int("".join(sign for sign in minor if sign.isdigit()) or 0)
