# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engine of the service proxy on a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._agent.deployment import AgentEngine
from ..._core.engine.context import Context
from ..._core.engine.engine import Finding
from ..._core.engine.plan import Resource
from .installation import INSTALLATION
from .request import Deployment
from .rules import RULES_KINDS, rules_resource

if TYPE_CHECKING:
    # Ansible brings to a node what a module imports, and the program is made of that there. Nothing of it runs in here.
    from .. import main  # noqa: F401


class ServiceProxyEngine(AgentEngine[Deployment]):
    def __init__(self) -> None:
        super().__init__(INSTALLATION)
        self.kinds = {**self.kinds, **RULES_KINDS}

    def wanted(self, ctx: Context[Deployment]) -> list[Resource]:
        resources = super().wanted(ctx)
        return [rules_resource(), *resources] if resources else []

    def arguments(self, desired: Deployment) -> tuple[str, ...]:
        name = desired.service_proxy_name
        return ("--service-proxy-name", name) if name else ()

    def verify(self, ctx: Context[Deployment]) -> list[Finding]:
        about = INSTALLATION.config
        unused = [Finding(each.id, about, each.text, each.remedy, blocking=False) for each in ctx.desired.warnings]
        return [*super().verify(ctx), *unused]


ENGINE = ServiceProxyEngine()
