# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engine of the pull proxy on a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._agent.deployment import AgentEngine
from .installation import INSTALLATION
from .request import Deployment

if TYPE_CHECKING:
    # Ansible ships a node only the imported files, and the program is built from them there. The module runs none of it.
    from ..proxy import main  # noqa: F401

ENGINE: AgentEngine[Deployment] = AgentEngine(INSTALLATION)
