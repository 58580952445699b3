# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a mode has left on a node, and the operations that remove it, as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional, Union

from ..._audit.facts import UdpConnection
from ..._rules.iptables import restore
from ..._rules.ipvs.plan import Operation as BatchOperation
from ..._rules.nftables.transaction import Operation as TableOperation
from ..._rules.packet import endpoint_text
from ..._rules.record import SettingChange
from ..drain_record import Draining

REMOVED, KEPT = "removed", "kept"


@dataclass(frozen=True)
class Artefact:
    """One leftover, or several of one kind. `kind`: "jump", "chain", "rules" (kube-proxy's, in a chain that is kept),
    "virtual server", "link", "address", "set", "table", "counter", "setting", "module", "connection"."""

    kind: str
    target: str
    fate: str  # REMOVED: a clean-up removes it or restores its former value; KEPT: it does not
    why: str

    @property
    def line(self) -> str:
        return f"{self.kind} {self.target}\n"


@dataclass(frozen=True)
class Forget:
    """Remove UDP connections from conntrack."""

    connections: UdpConnection  # without sources
    kind: str = "forget connections"

    @property
    def target(self) -> str:
        flow = self.connections
        return f"{endpoint_text(flow.destination, flow.port)} {endpoint_text(flow.target, flow.target_port)}"


@dataclass(frozen=True)
class DeleteCounter:
    target: str
    kind: str = "delete counter"


Operation = Union[restore.Operation, BatchOperation, TableOperation, SettingChange, Forget, DeleteCounter]


@dataclass(frozen=True)
class Stage:
    """Operations of one program that are done at once."""

    title: str  # "jumps of iptables (legacy), IPv4"
    operations: tuple[Operation, ...]
    variant: str = ""  # of iptables
    family: int = 0


@dataclass(frozen=True)
class CleanupPart:
    """A part of the plan about one kind of leftover: what was found, and the operations that remove it."""

    artefacts: tuple[Artefact, ...] = ()
    stages: tuple[Stage, ...] = ()


@dataclass(frozen=True)
class IpvsConnections:
    """Open connections through ipvs, and what the plan does with them."""

    cut: int = 0
    kept: int = 0
    until: str = ""  # the deadline of those that are kept, in UTC; "" if none is recorded
    record: Optional[Draining] = None  # the record to write


@dataclass(frozen=True)
class CleanupPlan:
    mode: str
    artefacts: tuple[Artefact, ...]
    stages: tuple[Stage, ...]
    carried: bool  # whether rules of the mode in use exist
    connections: IpvsConnections = IpvsConnections()

    @property
    def steps(self) -> Sequence[Operation]:
        return [operation for stage in self.stages for operation in stage.operations]
