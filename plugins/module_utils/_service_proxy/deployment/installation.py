# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The installation of the service proxy: program, packages, service and sandbox. It is the same on every node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._agent.installation import Installation
from ..._core.host.host import Host
from ..._core.service.sandbox import Sandbox
from ..._core.text.packages import package_names, read_distribution
from ..configuration import RESTART_KEYS, parse_configuration
from ..messages import AGENT

_NFT = "nft"  # from package nftables; if kube-proxy runs in a pod, possibly only that pod has it


class ServiceProxyInstallation(Installation):
    def missing(self, host: Host) -> dict[str, str]:
        missing = super().missing(host)
        if host.which(_NFT) is None:
            missing[_NFT] = package_names(read_distribution(host), ["nftables"])[0]
        return missing


def _sandbox(document: Mapping[str, Any]) -> Sandbox:
    """It writes rules and its sockets, and reads one kubeconfig."""
    kubeconfig = document.get("clientConnection", {}).get("kubeconfig")
    return Sandbox(capabilities=("CAP_NET_ADMIN",), reads=(kubeconfig,) if kubeconfig else ())


INSTALLATION = ServiceProxyInstallation(
    AGENT,
    packages=("_agent", "_core", "_rules", "_service_proxy"),
    main="_service_proxy.main.main",
    needed={"prometheus_client": "python3-prometheus-client"},
    parse=lambda text, name: parse_configuration(text, name=name),
    restart_keys=tuple(RESTART_KEYS),
    config_mode=0o644,  # contains no secret, and the program reads it as its own user
    cgroup="ballast-service_proxy",
    after=("network-online.target",),
    sandbox=_sandbox,
)
