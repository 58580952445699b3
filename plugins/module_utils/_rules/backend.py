# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The interface of every Linux backend (compile, read, compare, commit, show), and the values that backends share.

Rules are opaque here: each backend has its own type, the same for compiled, live and dumped rules.
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
TAKEOVER_TABLE = join_name("bridge")  # see _kube_proxy/takeover_table.py
SERVICE_PROXY_TABLE = join_name("service-proxy")  # separate: the module service_rules may have a table next to it
# The takeover table leaves packets with this DSCP to the tables after it. The value is from the pool for experimental and
# local use, RFC 2474, section 6.
BYPASS_DSCP = 0x2B
Settings = tuple[tuple[str, str], ...]


class Operation(Protocol):
    """One change of the rules, as a plan lists it. `kind` is in words, such as "change setting"."""

    @property
    def kind(self) -> str: ...

    @property
    def target(self) -> str: ...


class Backend(Protocol):
    """`family` is 4 or 6 everywhere. Rules belong to one family."""

    def compile(self, view: FamilyView, config: RuleConfig) -> Any:
        """The desired rules. Pure."""

    def settings(self, view: FamilyView, config: RuleConfig) -> Settings:
        """The kernel settings that these rules need, as (name, value)."""

    def prepare(self, host: Host) -> None:
        """Load the kernel module that these settings need."""

    def require_ours(self, host: Host, family: int) -> None:
        """HostError if the kernel has an object with our name that belongs to another program."""

    def read(self, host: Host, family: int) -> Any:
        """The live rules."""

    def read_for_removal(self, host: Host, family: int) -> Any:
        """The live rules, as far as their removal needs them."""

    def plan(self, desired: Any, live: Any) -> Sequence[Any]:
        """The smallest list of Operations from `live` to `desired`; None removes all. Pure."""

    def commit(self, operations: Sequence[Any], host: Host, live: Any) -> None:
        """Do all operations. On failure restore the live rules, then raise the error."""

    def select_own(self, rules: Any) -> Any:
        """The part of `rules` that belongs to the backend, in a form that `plan` accepts as desired."""

    def diff(self, desired: Any, live: Any) -> tuple[str, str]:
        """Everything that `plan` can change, before and after `commit`, as the backend's own tools print it. Pure."""


def count_by_kind(operations: Sequence[Operation]) -> Mapping[str, int]:
    """The number of operations of each kind, sorted by kind."""
    return dict(sorted(Counter(operation.kind for operation in operations).items()))
