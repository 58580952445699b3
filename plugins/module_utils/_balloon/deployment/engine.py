# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engine of the reconciler as a service of a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._core.agent.deployment import ABSENT, AgentEngine
from ..._core.host import Host
from ..agent.access import read_credentials
from .installation import INSTALLATION
from .request import Deployment

if TYPE_CHECKING:
    # Ansible brings to a node what a module imports, and the program is made of that there. Nothing of it runs in here.
    from ..agent import main  # noqa: F401


class ReconcilerEngine(AgentEngine[Deployment]):
    def require(self, desired: Deployment, host: Host) -> None:
        super().require(desired, host)
        if desired.state != ABSENT:
            read_credentials(desired.settings, host)


ENGINE = ReconcilerEngine(INSTALLATION)
