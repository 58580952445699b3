# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The backends that a Linux kernel has, each behind the same few functions: compile, read, compare, commit, trace, show.

What they exchange is opaque here: each backend has its own type of rules, the same for compiled, live and dumped ones.
They are nftables/backend.py, iptables/backend.py and ipvs/backend.py. `backend_named` imports the one that is chosen:
Ansible ships modules as source, and to compile and import all that each has behind it takes 0.1 s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional, Protocol

from .._core.host import Host
from .._core.names import MARK, joined
from .model import IPTABLES, NFTABLES, FamilyView, RuleConfig
from .packet import Answer, Packet, Surroundings

NFT_FAMILIES = {4: "ip", 6: "ip6"}
KUBE_PROXY_TABLE = "kube-proxy"
BRIDGE_TABLE = joined("bridge")  # of migration/bridge.py
# What carries it is left to the tables after the bridge. Of the pool for experimental and local use: RFC 2474, section 6.
BYPASS_DSCP = 0x2B
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

    def prepare(self, host: Host) -> None:
        """Bring what the kernel's settings for these rules need to be there at all: a module."""

    def read(self, host: Host, family: int) -> Any:
        """What the kernel holds."""

    def left(self, host: Host, family: int) -> Any:
        """What the kernel holds, as far as a removal of all has to know."""

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


def backend_named(
    name: str,
    host: Optional[Host],
    *,
    table: str = MARK,
    priority_offset: int = 0,
    exclude_cidrs: Sequence[str] = (),
    overdue: frozenset[str] = frozenset(),
) -> Backend:
    """`host` is asked which variant its iptables is; None where no kernel is asked, and either will do. What is no matter of
    the backend is not looked at."""
    if name == NFTABLES:
        from .nftables.backend import Nftables

        return Nftables(table, priority_offset=priority_offset)
    from .iptables.restore import NFT, variant_in_use

    variant = NFT if host is None else variant_in_use(host)
    if name == IPTABLES:
        from .iptables.backend import Iptables

        return Iptables(variant)
    from .ipvs.backend import Ipvs

    return Ipvs(variant, exclude_cidrs=exclude_cidrs, overdue=overdue)


def counted(operations: Sequence[Operation]) -> Mapping[str, int]:
    """How many operations of each kind, sorted by kind."""
    return dict(sorted(Counter(operation.kind for operation in operations).items()))
