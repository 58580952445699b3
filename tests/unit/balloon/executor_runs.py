# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs of `execute_resizes` against the model cluster, hurried, and what became of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster import lease, lease_holder
from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.cluster import Cluster
from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import Outcome
from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.lease import Leases
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize import executor, node_resize
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.executor import execute_resizes
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.limits import Limits
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.scheduler import ResizeScheduler
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import Resources
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import Event, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from tests.model_cluster.amounts import Pair, pair
from tests.model_cluster.model import GIB, NAMESPACE, ModelCluster

LEASES = "coordination.k8s.io/leases"
HOST = LocalHost()


class Told:
    """The events of a run. `at` is called with each."""

    def __init__(self, at: Callable[[Event], None] = lambda event: None) -> None:
        self.events: list[tuple[str, str, str]] = []
        self._at = at

    def emit(self, event: Event) -> None:
        self.events.append((event.kind, event.subject, event.text))
        self._at(event)


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a fixture: what waits for minutes waits for moments."""
    monkeypatch.setattr(executor, "_IDLE_SECONDS", 0.05)
    monkeypatch.setattr(lease_holder, "_POLL_SECONDS", 0.05)
    monkeypatch.setattr(lease, "_RELEASE_SECONDS", 0.2)
    monkeypatch.setattr(node_resize, "_PAUSE_SECONDS", 0.05)


TRADE = {"n1": Resources(1000, 2 * GIB), "n2": Resources(3000, 6 * GIB)}


def run(
    model: ModelCluster,
    targets: Mapping[str, Resources],
    *,
    told: Optional[Told] = None,
    limits: Optional[Limits] = None,
    grow_timeout: float = 0.3,
    patience: float = 0.5,
    parallel: int = 16,
    holder: str = "us",
) -> Mapping[str, Outcome]:
    api = model.api(timeout=2)
    leases = Leases(api, HOST, namespace=NAMESPACE, holder=holder)
    scheduler = ResizeScheduler(targets, grow_timeout=grow_timeout)
    progress = Progress(told or Told(), feature="balloon")
    with Cluster(api, HOST, namespace=NAMESPACE) as cluster:
        found = execute_resizes(
            scheduler, cluster, limits, leases, HOST, progress, parallel=parallel, patience=patience
        )
    assert model.sums.broken == []
    assert model.store.all(LEASES) == []
    return found


def kinds(outcomes: Mapping[str, Outcome]) -> dict[str, str]:
    return {name: outcome.outcome for name, outcome in outcomes.items()}


def desired(model: ModelCluster, node: str) -> Pair:
    return pair(model.balloon(node)["spec"]["containers"][0]["resources"]["requests"])


def run_only(model: ModelCluster, targets: Mapping[str, Resources], holder: str) -> Mapping[str, Outcome]:
    api = model.api()
    leases = Leases(api, HOST, namespace=NAMESPACE, holder=holder)
    with Cluster(api, HOST, namespace=NAMESPACE) as cluster:
        scheduler = ResizeScheduler(targets, grow_timeout=5)
        return execute_resizes(scheduler, cluster, None, leases, HOST, Progress(Told(), feature="balloon"), patience=30)
