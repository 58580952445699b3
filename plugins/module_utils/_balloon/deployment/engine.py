# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engine of the reconciler as a service of a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._agent.deployment import ABSENT, AgentEngine
from ..._core.engine.context import Context
from ..._core.engine.plan import State
from ..agent.access import read_credentials
from .installation import INSTALLATION
from .request import Deployment

if TYPE_CHECKING:
    # Ansible ships a node only the imported files, and the program is built from them there. The module runs none of it.
    from ..agent import main  # noqa: F401


class ReconcilerEngine(AgentEngine[Deployment]):
    def require(self, ctx: Context[Deployment], state: State) -> None:
        super().require(ctx, state)
        if ctx.desired.state != ABSENT:
            read_credentials(ctx.desired.settings, ctx.host)


ENGINE = ReconcilerEngine(INSTALLATION)
