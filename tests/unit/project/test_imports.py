# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is not imported where nothing changes: a host compiles it anew for each task, which was most of a task's time. And what
a module does not bring, as its host keeps it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

PLUGINS = "ansible_collections.ballast.kube.plugins"
UTILS = f"{PLUGINS}.module_utils"
_PRINT = "import importlib, json, sys; importlib.import_module(sys.argv[1]); print(json.dumps(sorted(sys.modules)))"


def imported(name: str) -> set[str]:
    """The modules that Python has once it has imported this one, ours without what their names begin with."""
    argv = [sys.executable, "-c", _PRINT, name if name.startswith(PLUGINS) else f"{UTILS}.{name}"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}  # where pytest finds the collection
    done = subprocess.run(argv, check=True, env=environment, capture_output=True, text=True, timeout=60)
    return {module.replace(f"{UTILS}.", "") for module in json.loads(done.stdout)}


@pytest.mark.parametrize(
    ("name", "unneeded"),
    [
        pytest.param(
            "_kube_proxy.engine",
            {
                "_audit.audit",
                "_rules.engine",
                "_rules.nftables.transaction",
                "_rules.iptables.restore",
                "_core.host.web",
            },
            id="a kube-proxy that is as it should be needs no rules",
        ),
        pytest.param("_kube_proxy.feature", {"_pulls", "_node"}, id="kube_proxy brings no other feature"),
        pytest.param(
            "_pulls.deployment.feature", {"_kube_proxy", "_node", "_pulls.node"}, id="nor does image_pull_proxy"
        ),
        pytest.param(
            "_pulls.node.feature", {"_kube_proxy", "_node", "_pulls.deployment.engine"}, id="nor does image_pulls"
        ),
        pytest.param("_pulls.proxy.main", {"asyncio", "_pulls.proxy.settings"}, id="status needs no event loop"),
    ],
)
def test_what_only_a_change_needs_is_not_imported(name: str, unneeded: set[str]) -> None:
    found = imported(name)
    assert name in found
    assert found & unneeded == set()


def test_the_module_of_a_whole_node_brings_none_of_its_engines() -> None:
    ours = {name for name in imported(f"{PLUGINS}.modules.node") if name.startswith("_") and "." in name}
    assert {name for name in ours if name.split(".")[0] in ("_ansible", "_core", "_node", "_kube_proxy", "_pulls")} == {
        "_ansible.engine_cache",
        "_ansible.engine_cache.start",
        "_node.kept",
    }
