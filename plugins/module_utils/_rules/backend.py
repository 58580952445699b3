# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every backend of a Linux kernel has: compile, read, compare, commit, show; and the values that backends share.

What they exchange is opaque here: each backend has its own type of rules, the same for compiled, live and dumped ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .._core.host.host import Host
from .._core.host.names import join_name
from .model import FamilyView, RuleConfig

NFT_FAMILIES = {4: "ip", 6: "ip6"}
KUBE_PROXY_TABLE = "kube-proxy"
TAKEOVER_TABLE = join_name("bridge")  # of _kube_proxy/takeover_table.py
SERVICE_PROXY_TABLE = join_name("service-proxy")  # of its own: the module service_rules may have rules beside it
# Packets with it are left to the tables after the takeover table. It is of the pool for experimental and local use: RFC
# 2474, section 6.
BYPASS_DSCP = 0x2B
Settings = tuple[tuple[str, str], ...]


class Operation(Protocol):
    @property
    def kind(self) -> str: ...

    @property
    def target(self) -> str: ...


class Backend(Protocol):
    """`family` is 4 or 6 throughout. Rules are always of one family."""

    def compile(self, view: FamilyView, config: RuleConfig) -> Any:
        """The desired rules. Pure."""

    def settings(self, view: FamilyView, config: RuleConfig) -> Settings:
        """Kernel settings that these rules need: name and value."""

    def prepare(self, host: Host) -> None:
        """Load the kernel module that these settings need."""

    def require_ours(self, host: Host, family: int) -> None:
        """HostError where the kernel has an object of another program under our name."""

    def read(self, host: Host, family: int) -> Any:
        """The live rules."""

    def read_for_removal(self, host: Host, family: int) -> Any:
        """The live rules, as far as a removal of all needs them."""

    def plan(self, desired: Any, live: Any) -> Sequence[Any]:
        """The smallest list of Operations; `desired` None removes all. Pure."""

    def commit(self, operations: Sequence[Any], host: Host, live: Any) -> None:
        """Do them all. A failure is raised, after the live rules were put back."""

    def select_own(self, rules: Any) -> Any:
        """The part of `rules` that belongs to the backend, as `plan` takes it as desired."""

    def diff(self, desired: Any, live: Any) -> tuple[str, str]:
        """All that `plan` can change, as the backend's own tools print it: as it is, and as it is after `commit`. Pure."""


def count_by_kind(operations: Sequence[Operation]) -> Mapping[str, int]:
    """How many operations of each kind, sorted by kind."""
    return dict(sorted(Counter(operation.kind for operation in operations).items()))
