# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules that a service proxy leaves in the kernel, as a resource of its installation: they are removed with it.

The program creates them, keeps them across restarts and upgrades, and does not remove them when it exits.
"""

from __future__ import annotations

from typing import Any

from ..._core.engine.context import Context
from ..._core.engine.plan import ABSENT, Resource, Value
from ..._core.host.host import Host
from ..._rules.backend import SERVICE_PROXY_TABLE
from ..._rules.nftables.backend import Nftables
from ..._rules.nftables.layout import SERVICE_PROXY
from ..._rules.node_addresses import families
from ..kernel import remove_tables
from .installation import INSTALLATION

_VALUE: Value = {"made_by": INSTALLATION.agent.name}


class RulesKind:
    """`{made_by}`. While the program is installed the rules count as present: an unreachable API server is no difference."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        return _VALUE if ctx.host.stat(INSTALLATION.command) is not None or _has_tables(ctx.host) else ABSENT

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        """Nothing to do: the program creates the rules."""

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        remove_tables(ctx.host)


RULES_KINDS = {"service rules": RulesKind()}


def rules_resource() -> Resource:
    """Listed before the program, because it must be removed after it."""
    return Resource(
        "service rules",
        SERVICE_PROXY_TABLE,
        _VALUE,
        title=f"rules in table {SERVICE_PROXY_TABLE}",
        group=INSTALLATION.group,
    )


def _has_tables(host: Host) -> bool:
    backend = Nftables(SERVICE_PROXY_TABLE, owner=SERVICE_PROXY)
    return any(backend.read_for_removal(host, family) is not None for family in families(host))
