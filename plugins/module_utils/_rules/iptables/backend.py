# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The backend iptables (see backends.py). Its rules are all tables of a family, including chains of other programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from ..._core.host.host import Host
from ..backend import Settings
from ..model import FamilyView, RuleConfig
from . import compile as compiler
from . import restore
from .names import LAYOUT
from .objects import Tables
from .text import render


class Iptables:
    def __init__(self, variant: str = restore.NFT) -> None:
        self.variant = variant

    def compile(self, view: FamilyView, config: RuleConfig) -> Tables:
        return compiler.compile_rules(view, config)

    def settings(self, view: FamilyView, config: RuleConfig) -> Settings:
        return compiler.required_sysctls(view, config)

    def prepare(self, host: Host) -> None:
        """Nothing to do: the kernel loads modules together with the rules."""

    def require_ours(self, host: Host, family: int) -> None:
        """Nothing to check: the chains of the layout are shared with kube-proxy, and in other chains only our own rules
        change."""

    def read(self, host: Host, family: int) -> Tables:
        return restore.read(host, family=family, variant=self.variant)

    def read_for_removal(self, host: Host, family: int) -> Tables:
        return self.read(host, family)

    def plan(self, desired: Optional[Tables], live: Tables) -> Sequence[restore.Operation]:
        return restore.plan_removal(live, LAYOUT) if desired is None else restore.plan(desired, live, LAYOUT)

    def commit(self, operations: Sequence[restore.Operation], host: Host, live: Tables) -> None:
        restore.commit(operations, host, live=live, layout=LAYOUT, variant=self.variant)

    def select_own(self, rules: Tables) -> Tables:
        return restore.select_own(rules, LAYOUT)

    def diff(self, desired: Optional[Tables], live: Tables) -> tuple[str, str]:
        target = Tables(live.family) if desired is None else desired
        return render(restore.changeable(target, live, LAYOUT)), render(restore.result(target, live, LAYOUT))
