# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The objects of the service proxy's DaemonSet at a real API server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.integration import adhoc
from tests.integration.containerds import VERSION, bin_dir
from tests.integration.kube_proxy import control_plane

CONFIG = {"clusterCIDR": "10.244.0.0/16", "healthzBindAddress": "0.0.0.0:10356"}

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a control plane")


def test_its_objects_are_taken_by_an_api_server_once_and_all_go(tmp_path: Path) -> None:
    """No Node is there, so that no pod is waited for."""
    with control_plane(VERSION, str(bin_dir()), tmp_path):
        where = {"kubeconfig": str(tmp_path / "admin.kubeconfig"), "server": "https://10.0.0.10:6443"}

        def run(*arguments: str, **options: Any) -> list[str]:
            made = adhoc.module("service_proxy_daemonset", *arguments, **{**where, "config": CONFIG, **options})
            return [f"{step['verb']} {step['kind']}" for step in made["steps"]]

        making = [
            f"make {kind}" for kind in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "ConfigMap", "DaemonSet")
        ]
        assert run("--check", "--diff") == making
        assert run() == making
        assert run() == []
        assert run(service_proxy_name="ballast", node_selector={"pool": "a"}) == ["change DaemonSet"]
        removing = [row.replace("make", "remove") for row in reversed(making)]
        assert run("--check", state="absent") == ["change DaemonSet", *removing]
        assert run(state="absent") == ["change DaemonSet", *removing]
        assert run(state="absent") == []
