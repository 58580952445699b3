# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a node's rules are read from: its kernel (kernel_reading.py), a dump (dump_reading.py), or compiled from a
snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from .._rules.backend import Backend
from .._rules.config import ParsedConfig
from .._rules.iptables.restore import NFT
from .._rules.ipvs.objects import IpvsRules
from .._rules.node_addresses import FAMILIES
from .._rules.node_rules import Missing, NodeRules, rules_of_one
from .._rules.parse import Snapshot


class NodeReading(Protocol):
    @property
    def families(self) -> Sequence[int]:
        """The families whose rules are known."""

    @property
    def missing(self) -> tuple[Missing, ...]:
        """The parts that a dump lacks, of all families."""

    def rules(self, family: int) -> Any:
        """The rules of Services, as the backend reads or compiles them."""

    def node_rules(self, family: int) -> NodeRules:
        """The rules of all programs."""


class CompiledReading:
    """The rules compiled from the snapshot. Nothing is read from the host."""

    families = FAMILIES
    missing: tuple[Missing, ...] = ()

    def __init__(self, backend: Backend, snapshot: Snapshot, configs: Mapping[int, ParsedConfig]) -> None:
        self._backend = backend
        self._snapshot = snapshot
        self._configs = configs
        self._rules: dict[int, Any] = {}

    def rules(self, family: int) -> Any:
        if family not in self._rules:
            view = self._snapshot.view(family)
            rules = self._backend.compile(view, self._configs[family].rules)
            # Their links determine which virtual servers are for node ports, and the compiler makes no links.
            links = (("", tuple(view.node.addresses)),)
            self._rules[family] = replace(rules, links=links) if isinstance(rules, IpvsRules) else rules
        return self._rules[family]

    def node_rules(self, family: int) -> NodeRules:
        return rules_of_one(self.rules(family), variant=NFT)
