# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""iptables behind the functions that all backends have (backends.py). Rules are all tables of a family, foreign chains too."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Optional

from ..._core.host import Host
from ..backends import Settings, Tracer
from ..model import FamilyView, RuleConfig
from ..packet import Surroundings
from . import compile as compiler
from . import restore
from .names import LAYOUT
from .objects import Tables
from .text import render
from .trace import trace


class Iptables:
    def __init__(self, variant: str = restore.NFT) -> None:
        self.variant = variant

    def compile(self, view: FamilyView, config: RuleConfig) -> Tables:
        return compiler.compile_rules(view, config)

    def settings(self, view: FamilyView, config: RuleConfig) -> Settings:
        return compiler.required_sysctls(view, config)

    def prepare(self, host: Host) -> None:
        """The kernel loads modules of rules when rules come."""

    def read(self, host: Host, family: int) -> Tables:
        return restore.read(host, family=family, variant=self.variant)

    def left(self, host: Host, family: int) -> Tables:
        return self.read(host, family)

    def parse(self, text: str, family: int) -> Tables:
        from ..dump import parse_iptables  # a dump may have parts of every backend

        return parse_iptables(text, family)

    def plan(self, wanted: Optional[Tables], found: Tables) -> Sequence[restore.Operation]:
        return restore.removed(found, LAYOUT) if wanted is None else restore.plan(wanted, found, LAYOUT)

    def commit(self, operations: Sequence[restore.Operation], host: Host, found: Tables) -> None:
        restore.commit(operations, host, found=found, layout=LAYOUT, variant=self.variant)

    def tracer(self, rules: Tables, surroundings: Surroundings) -> Tracer:
        return partial(trace, rules, surroundings=surroundings)

    def own(self, rules: Tables) -> Tables:
        return restore.own(rules, LAYOUT)

    def shown(self, rules: Tables) -> str:
        return render(self.own(rules))
