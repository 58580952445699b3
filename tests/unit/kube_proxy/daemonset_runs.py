# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs of the module of a DaemonSet on a cluster in memory, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.engine import Finding
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.daemonset.engine import DaemonSetEngine
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.daemonset.model import SPEC, DaemonSetRequest
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.daemonset.plan import Plan
from tests.unit.kube_proxy.daemonset_cluster import KUBECONFIG, MAPS, Cluster, Object

ORIGINAL, CANARY = "kube-proxy", "kube-proxy-nftables"
ZONES = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}],
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]},
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["none"]}]},
            ]
        },
    }
}


def params(state: str, **changes: Any) -> dict[str, Any]:
    defaults = {name: option.get("default") for name, option in SPEC.items()}
    return {**defaults, "kubeconfig": KUBECONFIG, "mode": "nftables", "state": state, **changes}


def desired(state: str, **changes: Any) -> DaemonSetRequest:
    return DaemonSetRequest.from_params(params(state, **changes))


def planned(cluster: Cluster, state: str, **changes: Any) -> Plan:
    wanted, engine = desired(state, **changes), DaemonSetEngine()
    return engine.plan(wanted, engine.observe(Context(wanted, cluster.host)))


def run(cluster: Cluster, state: str, **changes: Any) -> tuple[Plan, list[Finding]]:
    """One run of the module, and a second that has nothing to do."""
    wanted, engine = desired(state, **changes), DaemonSetEngine()
    progress = Progress(NullSink(), feature="kube-proxy")
    plan = engine.plan(wanted, engine.observe(Context(wanted, cluster.host)))
    engine.apply(plan, Context(wanted, cluster.host, progress))
    return plan, engine.verify(Context(wanted, cluster.host, progress))


def make(cluster: Cluster, state: str, **changes: Any) -> Plan:
    plan, findings = run(cluster, state, **changes)
    assert findings == []
    done = len(cluster.host.effects)
    again, _findings = run(cluster, state, **changes)
    assert again.steps == ()
    assert cluster.host.effects[done:] == []
    return plan


def refused(cluster: Cluster, state: str, **changes: Any) -> BallastError:
    before = cluster.state()
    with pytest.raises(BallastError) as caught:
        planned(cluster, state, **changes)
    assert cluster.state() == before
    return caught.value


def config_of(cluster: Cluster, name: str) -> Object:
    found: Object = yaml.safe_load(cluster.objects[f"{MAPS}/{name}"]["data"]["config.conf"])
    return found


def moved(cluster: Cluster, *nodes: str) -> None:
    for node in nodes:
        cluster.label(node, "nftables")
