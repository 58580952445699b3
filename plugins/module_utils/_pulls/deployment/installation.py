# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pull proxy's installation: program, packages, service and sandbox. It is the same on every host."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..._agent.installation import Installation
from ..._agent.running import AgentKind
from ..._core.service.sandbox import Sandbox
from ..proxy.messages import AGENT
from ..proxy.settings import RESTART_KEYS, parse_settings


def _sandbox(document: Mapping[str, Any]) -> Sandbox:
    """The proxy creates the sockets for kubelets and connects to those of the runtimes, which may start later."""
    rows = [
        {name: str(row[name]).replace("unix://", "") for name in ("socket", "runtime")} for row in document["listeners"]
    ]
    directories = {os.path.dirname(row["socket"]) for row in rows}
    return Sandbox(writes=tuple(sorted(directories)), reads=tuple(sorted(row["runtime"] for row in rows)))


INSTALLATION = Installation(
    AGENT,
    packages=("_agent", "_core", "_pulls"),
    main="_pulls.proxy.main.main",
    needed={
        "grpc": "python3-grpcio",
        "hpack": "python3-hpack",
        "prometheus_client": "python3-prometheus-client",
        "yaml": "python3-yaml",
    },
    parse=lambda text, name: parse_settings(text, name=name),
    restart_keys=RESTART_KEYS,
    cgroup="ballast-pull_proxy",
    after=("containerd.service", "crio.service"),
    before=("kubelet.service",),
    sandbox=_sandbox,
)
RUNNING = AgentKind(INSTALLATION)
