# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reconciler on a machine: what of it is the same everywhere."""

from __future__ import annotations

from ..._core.agent.deployment import Installation
from ..._core.agent.running import AgentKind
from ..agent.messages import AGENT
from ..agent.settings import parse_settings

INSTALLATION = Installation(
    AGENT,
    packages=("_core", "_balloon"),
    main="_balloon.agent.main.main",
    needed={"prometheus_client": "python3-prometheus-client", "yaml": "python3-yaml"},
    parse=lambda text, name: parse_settings(text, name=name),
    restart_keys=("metrics",),
    cgroup="ballast-balloon_reconciler",
    after=("network-online.target",),
)
RUNNING = AgentKind(INSTALLATION)
