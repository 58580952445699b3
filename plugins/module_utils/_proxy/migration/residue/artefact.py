# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a backend left on a node, as values, and the operations that remove it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union

from ...iptables import restore
from ...ipvs.plan import Operation as BatchOperation
from ...nftables.transaction import Operation as TableOperation
from ...record import SettingChange

REMOVED, KEPT = "removed", "kept"


@dataclass(frozen=True)
class Artefact:
    """One thing that was found, or several that are alike. `kind`: "jump", "chain", "rules" (of kube-proxy, in a
    chain that stays), "virtual server", "link", "set", "table", "counter", "setting", "module", "connection"."""

    kind: str
    target: str
    fate: str  # REMOVED: a clean-up removes it, or puts it back to what it was; KEPT: it does not
    why: str

    @property
    def line(self) -> str:
        return f"{self.kind} {self.target}\n"


@dataclass(frozen=True)
class Forget:
    """UDP connections that conntrack is to forget."""

    destination: str
    port: int
    endpoint: str  # at which they are held
    kind: str = "forget connections"

    @property
    def target(self) -> str:
        return f"{self.destination} {self.port} {self.endpoint}"


@dataclass(frozen=True)
class DeleteCounter:
    target: str
    kind: str = "delete counter"


Operation = Union[restore.Operation, BatchOperation, TableOperation, SettingChange, Forget, DeleteCounter]


@dataclass(frozen=True)
class Stage:
    """Operations that one program does at once."""

    title: str  # "jumps of iptables (legacy), IPv4"
    operations: tuple[Operation, ...]
    variant: str = ""  # of iptables
    family: int = 0


@dataclass(frozen=True)
class Found:
    """What was looked at of one kind: what becomes of it, and how."""

    artefacts: tuple[Artefact, ...] = ()
    stages: tuple[Stage, ...] = ()


@dataclass(frozen=True)
class ResiduePlan:
    mode: str
    artefacts: tuple[Artefact, ...]
    stages: tuple[Stage, ...]
    carried: bool  # whether rules of the mode are there

    @property
    def steps(self) -> Sequence[Operation]:
        return [operation for stage in self.stages for operation in stage.operations]
