# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reconcilers at work on a model cluster, each in a thread of its own, as the program runs it."""

from __future__ import annotations

import io
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._agent.log import Log
from ansible_collections.ballast.kube.plugins.module_utils._balloon.agent import loop
from ansible_collections.ballast.kube.plugins.module_utils._balloon.agent import worker as worker_module
from ansible_collections.ballast.kube.plugins.module_utils._balloon.agent.settings import Retry, Settings
from ansible_collections.ballast.kube.plugins.module_utils._balloon.agent.worker import Worker
from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster import lease_holder
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.kube import informer
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.kubeconfig import Credentials
from tests.model_cluster.amounts import Pair, pair
from tests.model_cluster.model import MIB, NAMESPACE, TAINT, TARGET, ModelCluster

LEASE = "ballast-balloon-boot-1"
OVERHEAD = Pair(100, 256 * MIB)
LEASES = "coordination.k8s.io/leases"


def hurry(patch: pytest.MonkeyPatch) -> None:
    """What takes seconds takes hundredths of them, and the model is spoken with without TLS."""
    patch.setattr(worker_module, "read_credentials", lambda settings, host: Credentials(settings.kubeconfig, token="t"))
    patch.setattr(loop, "_PACE_SECONDS", 0.02)
    patch.setattr(loop, "_LEAST_SECONDS", 0.05)
    patch.setattr(loop, "_DENIED_SECONDS", 0.1)
    patch.setattr(lease_holder, "_POLL_SECONDS", 0.05)
    patch.setattr(informer, "_FIRST_SECONDS", 0.02)
    patch.setattr(informer, "_LONGEST_SECONDS", 0.2)


def target(cpu: int, mebibytes: int) -> str:
    return json.dumps({"cpu": f"{cpu}m", "memory": f"{mebibytes}Mi"})


class Counted:
    """Counts as metrics do."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.denials = 0
        self.successes = 0

    def count_outcome(self, outcome: str) -> None:
        self.outcomes[outcome] += 1

    def count_error(self, id: str) -> None:
        self.errors[id] += 1

    def count_denied(self) -> None:
        self.denials += 1

    def note_success(self, now: float) -> None:
        self.successes += 1


@dataclass
class Running:
    worker: Worker
    thread: threading.Thread
    text: io.StringIO
    counts: Counted = field(default_factory=Counted)
    crash: list[BaseException] = field(default_factory=list)

    def reached(self) -> bool:
        """Every node that has a target is at it, and it is the cluster's as we know it."""
        view = self.worker.view()
        return bool(view.targets) and view.reached == view.targets.keys()

    def note(self, node: str) -> str:
        found = self.worker.notes().nodes.get(node)
        return found.outcome if found else ""

    @property
    def log(self) -> str:
        return self.text.getvalue()

    def end(self) -> None:
        self.worker.end()
        self.thread.join(30)
        assert not self.thread.is_alive()
        assert self.crash == []


@contextmanager
def reconciler(model: ModelCluster, **changes: Any) -> Iterator[Running]:
    given = {"interval": 5.0, "grow_timeout": 1.0, "retry": Retry(0.2, 1.0), **changes}
    text = io.StringIO()
    worker = Worker(Settings(kubeconfig=model.url, **given), LocalHost(), Log(text))
    crash: list[BaseException] = []

    def work() -> None:
        try:
            worker.run()
        except BaseException as error:
            crash.append(error)

    running = Running(worker, threading.Thread(target=work), text, crash=crash)
    worker.counts = running.counts
    running.thread.start()
    try:
        yield running
    finally:
        running.end()


@contextmanager
def two_nodes() -> Iterator[ModelCluster]:
    """n1 and n2 of one host of 4 CPU and 8 GiB, with 1.5 CPU and 3 GiB each for pods."""
    with ModelCluster(daemonset=True) as model:
        for name in ("n1", "n2"):
            model.add_node(name, target=target(1500, 3072), overhead=OVERHEAD, unsized=True)
        model.sums.watch()
        yield model


def size(model: ModelCluster, node: str) -> tuple[int, int]:
    """Millicores and MiB that its balloon requests; nothing where it has none."""
    with model.store.lock:
        there = any(pod["metadata"]["name"].startswith("ballast") for pod in model.kubelets.pods(node))
        found = pair(model.balloon(node)["spec"]["containers"][0]["resources"]["requests"]) if there else Pair(0, 0)
    return found.cpu, found.memory // MIB


def is_tainted(model: ModelCluster, node: str) -> bool:
    return any(row["key"] == TAINT for row in model.node(node)["spec"].get("taints") or [])


def annotate(model: ModelCluster, node: str, text: str) -> None:
    with model.store.lock:
        item = model.node(node)
        model.store.put("nodes", {**item, "metadata": {**item["metadata"], "annotations": {TARGET: text}}})


def delete_balloon(model: ModelCluster, node: str) -> None:
    """As by an operator, or a node under pressure."""
    with model.store.lock:
        model.remove_pod(model.balloon(node)["metadata"]["name"], namespace=NAMESPACE)


def forgive(model: ModelCluster) -> None:
    """What was done from outside does not count against who is tried."""
    sums = model.sums
    with model.store.lock:
        sums.broken.clear()
        for host in sums._allowed:
            sums._allowed[host] = sums._room[host].most(sums._sum[host])


def foreign_lease(model: ModelCluster, *, seconds: int = 60) -> None:
    """As the module holds it."""
    spec = {"holderIdentity": "a-module", "leaseDurationSeconds": seconds, "leaseTransitions": 0}
    model.store.put(LEASES, {"metadata": {"name": LEASE, "namespace": NAMESPACE}, "spec": spec})


def settled(model: ModelCluster, *running: Running, seconds: float = 20.0) -> None:
    """At their targets, and what is to be done then is done too."""
    model.settle(lambda: all(one.reached() and not one.worker.notes().moving for one in running), seconds=seconds)
