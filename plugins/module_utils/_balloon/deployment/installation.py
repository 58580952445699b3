# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The installation of the reconciler on a machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._agent.installation import Installation
from ..._agent.running import AgentKind
from ..._core.service.sandbox import Sandbox
from ..agent.messages import AGENT
from ..agent.settings import RESTART_KEYS, parse_settings


def _sandbox(document: Mapping[str, Any]) -> Sandbox:
    """The reconciler sets limits of slices, and connects to the sockets of virtual machines."""
    sockets = [str(row["qmp"]) for row in document.get("nodes") or [] if row.get("qmp")]
    return Sandbox(reads=(str(document["kubeconfig"]), *sorted(sockets)), cgroups=True)


INSTALLATION = Installation(
    AGENT,
    packages=("_agent", "_core", "_balloon"),
    main="_balloon.agent.main.main",
    needed={"prometheus_client": "python3-prometheus-client", "yaml": "python3-yaml"},
    parse=lambda text, name: parse_settings(text, name=name),
    restart_keys=RESTART_KEYS,
    cgroup="ballast-balloon_reconciler",
    after=("network-online.target",),
    sandbox=_sandbox,
)
RUNNING = AgentKind(INSTALLATION)
