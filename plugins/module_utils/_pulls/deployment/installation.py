# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pull proxy on a host: what of it is the same everywhere."""

from __future__ import annotations

from ..._core.agent.deployment import Installation
from ..._core.agent.running import AgentKind
from ..proxy.messages import AGENT
from ..proxy.settings import parse_settings

INSTALLATION = Installation(
    AGENT,
    packages=("_core", "_pulls"),
    main="_pulls.proxy.main.main",
    needed={"grpc": "python3-grpcio", "prometheus_client": "python3-prometheus-client", "yaml": "python3-yaml"},
    parse=lambda text, name: parse_settings(text, name=name),
    restart_keys=("listeners", "metrics"),
    cgroup="ballast-pull_proxy",
    after=("containerd.service", "crio.service"),
    before=("kubelet.service",),
)
RUNNING = AgentKind(INSTALLATION)
