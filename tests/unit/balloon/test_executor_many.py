# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Resizes carried out while anything goes wrong, and of many nodes: no host ever promises what it has not."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.cluster import Cluster
from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import Outcome
from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.lease import Leases
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.executor import execute_resizes
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.scheduler import ResizeScheduler
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import Resources
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import Event, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from tests.model_cluster.amounts import Pair
from tests.model_cluster.model import GIB, MIB, NAMESPACE, ModelCluster
from tests.unit.balloon.executor_runs import HOST, LEASES, TRADE, Told, desired, hurry, kinds, run


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


def test_a_balloon_that_is_deleted_in_the_middle_comes_to_its_size_again() -> None:
    with ModelCluster(daemonset=True) as model:
        for name in ("n1", "n2"):
            model.add_node(name, balloon=Pair(2000, 4 * GIB))
        model.sums.watch()
        deleted: list[str] = []

        def delete(event: Event) -> None:
            if (event.kind, event.subject) == ("started", "node n2") and not deleted:
                deleted.append(model.balloon("n2")["metadata"]["name"])
                model.remove_pod(deleted[0], namespace=NAMESPACE)

        assert set(kinds(run(model, TRADE, told=Told(delete))).values()) == {"done"}
        assert model.balloon("n2")["metadata"]["name"] != deleted[0]
        assert (desired(model, "n1"), desired(model, "n2")) == (Pair(3000, 6 * GIB), Pair(1000, 2 * GIB))


@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens_no_host_promises_what_it_has_not(seed: int) -> None:
    """Two runs, with what can go wrong going wrong at random, pods that come wherever there is room, and an interrupt; then
    one in peace, which brings every node whose pods leave room to its target."""
    chance = random.Random(seed)
    names = [f"n{number}" for number in range(6)]
    with ModelCluster() as model:
        for number, name in enumerate(names):
            model.add_node(name, host=f"boot-{number % 2}", cpu=6000, memory=6 * GIB, balloon=Pair(4000, 4 * GIB))
        model.sums.watch()
        ended = threading.Event()
        trouble = threading.Thread(target=_trouble, args=(model, names, chance, ended))
        trouble.start()
        for _number in range(2):
            with suppress(BallastError, KeyboardInterrupt):
                _run_in_trouble(model, _targets(names, chance), interrupt_at=chance.randrange(5, 60))
        ended.set()
        trouble.join()
        model.server.mend()
        for name in names:
            model.kubelets.habit(name).__init__()  # type: ignore[misc]
            model.kubelets.sync(name)
        for lease_left in model.store.all(LEASES):  # of a run that was interrupted while the server was away
            model.store.drop(LEASES, lease_left["metadata"]["name"], NAMESPACE)
        targets = _targets(names, chance)
        found = _run_in_trouble(model, targets, interrupt_at=10**9)
        assert model.sums.broken == []
        assert [outcome for outcome in found.values() if outcome.outcome not in ("done", "reverted", "blocked")] == []
        for name in names:
            if found[name].outcome == "done":
                assert desired(model, name) == Pair(6000 - targets[name].cpu, 6 * GIB - targets[name].memory)
        assert model.store.all(LEASES) == []


def _targets(names: list[str], chance: random.Random) -> dict[str, Resources]:
    """Of the three nodes of each host, no more than it has."""
    parts = {number: chance.sample([1000, 2000, 3000], 3) for number in range(2)}
    return {
        name: Resources(parts[number % 2][number // 2], parts[number % 2][number // 2] * GIB // 1000)
        for number, name in enumerate(names)
    }


def _run_in_trouble(
    model: ModelCluster, targets: Mapping[str, Resources], *, interrupt_at: int
) -> Mapping[str, Outcome]:
    left = itertools.count()

    def interrupt(event: Event) -> None:
        if next(left) == interrupt_at:
            raise KeyboardInterrupt

    api = model.api(timeout=1)
    leases = Leases(api, HOST, namespace=NAMESPACE)
    with Cluster(api, HOST, namespace=NAMESPACE) as cluster:
        progress = Progress(Told(interrupt), feature="balloon")
        return execute_resizes(
            ResizeScheduler(targets, grow_timeout=0.2), cluster, None, leases, HOST, progress, patience=0.3
        )


def _trouble(model: ModelCluster, names: list[str], chance: random.Random, ended: threading.Event) -> None:
    faults: list[Callable[[str], None]] = [
        lambda name: setattr(model.server.faults, "conflicts", 2),
        lambda name: setattr(model.server.faults, "lost_answers", 2),
        lambda name: setattr(model.server.faults, "statuses", 2),
        lambda name: setattr(model.server.faults, "watches_stale", True),
        lambda name: model.server.go_away(),
        lambda name: model.server.cut_watches(),
        lambda name: model.store.forget(),
        lambda name: setattr(model.kubelets.habit(name), "dead", True),
        lambda name: setattr(model.kubelets.habit(name), "actuate_seconds", 0.05),
        lambda name: setattr(model.kubelets.habit(name), "never_fits", True),
    ]
    for number in itertools.count():
        name = chance.choice(names)
        chance.choice(faults)(name)
        for other in names:
            model.schedule(f"pod-{number}-{other}", other, cpu=chance.choice([50, 200]), memory=64 * MIB)
        if ended.wait(chance.uniform(0, 0.05)):
            return
        model.server.mend()
        model.kubelets.habit(name).dead = model.kubelets.habit(name).never_fits = False
        model.kubelets.wake(name)


# Many.


def test_so_many_are_at_work_and_no_more() -> None:
    with ModelCluster() as model:
        for number in range(12):
            model.add_node(f"n{number}", cpu=12000, memory=12 * GIB)
        model.sums.watch()
        model.server.faults.slow_seconds = 0.02
        found = run(model, {f"n{number}": Resources(1000, GIB) for number in range(12)}, parallel=3)
        assert set(kinds(found).values()) == {"done"}
        assert 2 <= model.server.peak <= 4  # and the Lease of the host


def test_a_fleet_of_500_nodes() -> None:
    """Two of each host's four nodes give what the other two take. Two calls for each node (pods/resize, its Node) and two
    for each host (its Lease), and six for all (a watch and two lists of nodes, and of pods: another run may have been at work
    between the first list and the Lease)."""
    hosts, of_each = 125, 4
    with ModelCluster() as model:
        for host in range(hosts):
            for number in range(of_each):
                name = f"h{host:03}-n{number}"
                model.add_node(
                    name,
                    host=f"boot-{host}",
                    cpu=16000,
                    memory=64 * GIB,
                    overhead=Pair(100, 256 * MIB),
                    balloon=Pair(12000, 48 * GIB),
                )
        model.sums.watch()
        model.server.faults.slow_seconds = 0.002
        targets = {
            f"h{host:03}-n{number}": Resources(2900, 12 * GIB) if number < 2 else Resources(4900, 18 * GIB)
            for host in range(hosts)
            for number in range(of_each)
        }
        found = run(model, targets, grow_timeout=60)
        assert set(kinds(found).values()) == {"done"}
        assert model.server.calls["PATCH pods/resize"] == hosts * of_each
        assert sum(model.server.calls.values()) == 2 * hosts * of_each + 2 * hosts + 6
        assert sum(model.server.calls.values()) <= 4 * hosts * of_each
        assert model.server.peak <= 16 + 8
        assert model.sums.seen >= 3 * hosts * of_each
        assert model.sums.broken == []
