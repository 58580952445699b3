# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reconciler against a model cluster over real HTTP: whatever happens to it, targets are reached again, and at the
server the sum of what the nodes of a host promise is never above what the host has."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._balloon.agent import worker
from ansible_collections.ballast.kube.plugins.module_utils._balloon.agent.settings import NodeRow, Retry, Settings
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import MIB, Resources
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.kubeconfig import Credentials
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError
from tests.model_cluster.amounts import Pair
from tests.model_cluster.model import NAMESPACE, TARGET, ModelCluster
from tests.model_cluster.requests import Asked
from tests.model_cluster.store import Object
from tests.unit.balloon.reconciling import (
    LEASE,
    LEASES,
    OVERHEAD,
    annotate,
    delete_balloon,
    foreign_lease,
    forgive,
    hurry,
    is_tainted,
    reconciler,
    settled,
    size,
    target,
    two_nodes,
)


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


@pytest.fixture
def model() -> Iterator[ModelCluster]:
    with two_nodes() as found:
        yield found
        assert found.sums.broken == []


def sizes(model: ModelCluster) -> set[tuple[int, int]]:
    return {size(model, "n1"), size(model, "n2")}


def test_new_nodes_are_sized_and_lose_the_startup_taint(model: ModelCluster) -> None:
    with reconciler(model) as one:
        model.settle(lambda: not is_tainted(model, "n1") and not is_tainted(model, "n2"))
        settled(model, one)
        assert sizes(model) == {(2400, 4864)}
        model.settle(lambda: one.counts.successes > 0)
        assert one.counts.outcomes == {"done": 2}
        calls = model.server.calls
        assert (calls["PATCH pods/resize"], calls["PATCH nodes"]) == (2, 2)
    assert model.store.get(LEASES, LEASE, NAMESPACE) is None


def test_a_node_that_is_at_size_already_loses_the_startup_taint() -> None:
    with ModelCluster() as model:
        model.add_node("n1", target=target(1000, 1024), balloon=Pair(3000, 7168 * MIB), unsized=True)
        with reconciler(model):
            model.settle(lambda: not is_tainted(model, "n1"))
        assert model.server.calls["PATCH pods/resize"] == model.server.calls["POST leases"] == 0


def test_a_node_without_a_target_is_left_alone_and_stays_tainted() -> None:
    with ModelCluster() as model:
        model.add_node("n1", target=target(1000, 1024))
        model.add_node("n2", unsized=True)
        with reconciler(model) as one:
            settled(model, one)
        assert size(model, "n2") == (1, 16)
        assert is_tainted(model, "n2")


def test_only_the_nodes_that_are_named_are_kept(model: ModelCluster) -> None:
    with reconciler(model, nodes=(NodeRow("n2"), NodeRow("n9"))) as one:
        settled(model, one)
        assert one.worker.view().targets.keys() == {"n2"}
    assert size(model, "n1") == (1, 16)


def test_a_balloon_that_was_deleted_grows_again(model: ModelCluster) -> None:
    with reconciler(model) as one:
        settled(model, one)
        for _turn in range(3):
            delete_balloon(model, "n1")
            model.settle(lambda: not one.reached())
            settled(model, one)
            assert sizes(model) == {(2400, 4864)}


def test_on_a_full_node_it_waits_for_room_and_ends_no_pod(model: ModelCluster) -> None:
    with reconciler(model, grow_timeout=0.2) as one:
        settled(model, one)
        delete_balloon(model, "n1")
        assert model.schedule("late", "n1", cpu=1600, memory=2**20), "what is free for a moment is taken"
        model.settle(lambda: one.note("n1") == "reverted")
        assert model.pod("late")["status"]["phase"] == "Running"
        times = one.counts.outcomes["reverted"]
        model.settle(lambda: one.counts.outcomes["reverted"] > times)
        model.remove_pod("late")
        settled(model, one)
        assert sizes(model) == {(2400, 4864)}
    assert "pods occupy capacity that the balloon needs" in one.log


def test_a_node_that_registers_anew_keeps_its_target(model: ModelCluster) -> None:
    """The kubelet makes another Node object, which has no annotation, but the startup taint."""
    with reconciler(model) as one:
        settled(model, one)
        with model.store.lock:
            balloon = model.balloon("n1")["metadata"]["name"]
            model.store.drop("nodes", "n1")
            model.remove_pod(balloon, namespace=NAMESPACE)
        model.settle(lambda: "n1" not in one.worker.view().fleet.nodes)
        time.sleep(0.1)  # the DaemonSet's controller has looked: there is no node
        model.add_node("n1", overhead=OVERHEAD, unsized=True)
        forgive(model)
        model.settle(lambda: not is_tainted(model, "n1"))
        settled(model, one)
        assert sizes(model) == {(2400, 4864)}
        assert model.node("n1")["metadata"]["annotations"][TARGET] == '{"cpu": "1500m", "memory": "3072Mi"}'


def test_a_target_that_was_taken_away_is_gone(model: ModelCluster) -> None:
    with reconciler(model) as one:
        settled(model, one)
        with model.store.lock:
            item = model.node("n1")
            model.store.put("nodes", {**item, "metadata": {**item["metadata"], "annotations": {}}})
        model.settle(lambda: one.worker.view().targets.keys() == {"n2"})
        delete_balloon(model, "n1")
        delete_balloon(model, "n2")
        model.settle(lambda: not one.reached())
        settled(model, one)
    assert size(model, "n1") == (1, 16)


def test_the_api_server_may_be_away(model: ModelCluster) -> None:
    with reconciler(model) as one:
        settled(model, one)
        for fault in ("away", "refused"):
            if fault == "away":
                model.server.go_away()
            else:
                model.server.faults.status = 503
                model.server.cut_watches()
            delete_balloon(model, "n2")
            model.settle(lambda: bool(one.worker.notes().problems))
            model.server.mend()
            model.settle(lambda: not one.worker.notes().problems and size(model, "n2")[0] == 2400)
            settled(model, one)


def test_credentials_that_have_run_out_are_read_anew(model: ModelCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []

    def read(settings: Settings, host: object) -> Credentials:
        reads.append(settings.kubeconfig)
        return Credentials(settings.kubeconfig, token="t")

    monkeypatch.setattr(worker, "read_credentials", read)
    with reconciler(model) as one:
        model.settle(lambda: one.counts.successes > 0)
        model.server.faults.status = 401
        model.server.cut_watches()
        model.settle(lambda: len(reads) > 1)
        model.server.mend()
        delete_balloon(model, "n1")
        model.settle(lambda: size(model, "n1") == (2400, 4864))


def test_a_target_that_is_changed_in_the_last_moment_is_not_written_back(model: ModelCluster) -> None:
    """When the balloon is at size, and the taint is to be taken away."""
    changed: list[str] = []

    def change(verb: str, asked: Asked, body: Object) -> None:
        if asked.resource == "nodes" and asked.name == "n1" and not changed:
            changed.append(asked.name)
            annotate(model, "n1", target(1000, 1024))

    model.server.before_write.append(change)
    with reconciler(model):
        model.settle(lambda: size(model, "n1") == (2900, 6912) and not is_tainted(model, "n1"))
    assert model.node("n1")["metadata"]["annotations"][TARGET] == target(1000, 1024)


def test_it_begins_when_the_api_server_comes(model: ModelCluster) -> None:
    model.server.go_away()
    with reconciler(model) as one:
        model.settle(lambda: bool(one.worker.notes().problems))
        model.server.mend()
        settled(model, one)


def test_a_kubelet_that_was_away_is_waited_for(model: ModelCluster) -> None:
    with reconciler(model) as one:
        settled(model, one)
        model.kubelets.habit("n1").dead = True
        annotate(model, "n1", target(1200, 2048))
        model.settle(lambda: size(model, "n1")[0] == 2700)
        model.kubelets.habit("n1").dead = False
        model.kubelets.wake("n1")
        settled(model, one)


def test_another_s_lease_is_respected_and_what_it_did_is_read_first(model: ModelCluster) -> None:
    foreign_lease(model)
    with reconciler(model) as one:
        model.settle(lambda: one.counts.denials == 1)
        gets = model.server.calls["GET leases"]
        model.settle(lambda: model.server.calls["GET leases"] > gets + 2)
        assert model.server.calls["PATCH pods/resize"] == 0
        assert "denied host=boot-1 holder=a-module" in one.log
        # Nothing of this comes by a watch: n1 is to stay as it is, n2 is to have all the rest.
        model.server.faults.watches_stale = True
        annotate(model, "n1", target(3899, 7920))
        annotate(model, "n2", '{"cpu": "-"}')
        model.store.drop(LEASES, LEASE, NAMESPACE)
        model.settle(lambda: model.server.calls["LIST nodes"] > 1)
        model.settle(lambda: one.worker.view().targets == {"n1": Resources(3899, 7920 * MIB)})
    assert model.server.calls["PATCH pods/resize"] == 0


def test_the_lease_of_one_that_was_killed_runs_out(model: ModelCluster) -> None:
    foreign_lease(model, seconds=1)
    with reconciler(model) as one:
        settled(model, one)
        assert one.counts.denials == 1


def test_two_at_once_do_what_one_does(model: ModelCluster) -> None:
    with reconciler(model) as one, reconciler(model) as other:
        settled(model, one, other)
        for turn in range(6):
            small, large = ("n1", "n2") if turn % 2 else ("n2", "n1")
            annotate(model, large, target(2900, 6144))
            annotate(model, small, target(900, 1024))
            wanted = {small: Resources(900, 1024 * MIB), large: Resources(2900, 6144 * MIB)}
            for each in (one, other):
                model.settle(lambda each=each, wanted=wanted: each.reached() and each.worker.view().targets == wanted)  # type: ignore[misc]
    assert model.server.calls["PATCH pods/resize"] <= 2 + 6 * 4


def test_more_than_a_host_has_is_never_promised(model: ModelCluster) -> None:
    """Whoever annotates by hand may ask for it."""
    with reconciler(model) as one:
        settled(model, one)
        annotate(model, "n1", target(3000, 3072))
        model.settle(lambda: one.note("n1") == "blocked")
        annotate(model, "n2", target(800, 3072))
        settled(model, one)
    assert size(model, "n1")[0] == 900


def test_what_is_refused_is_tried_again_ever_more_slowly(model: ModelCluster) -> None:
    model.server.faults.resize_refused = (403, "Forbidden", "exceeded quota: balloons")
    with reconciler(model) as one:
        model.settle(lambda: one.counts.outcomes["rejected"] >= 4)
        assert one.note("n1") == "rejected"
        assert "exceeded quota: balloons" in one.worker.notes().nodes["n1"].text
        left = one.worker.notes().nodes["n1"].seconds_left
        assert left is not None
        model.server.faults.resize_refused = None
        settled(model, one)


def test_it_ends_in_the_middle_of_a_growth_that_waits(model: ModelCluster) -> None:
    model.add_pod("big", "n1", cpu=2000, memory=2**20)
    with reconciler(model, grow_timeout=60.0) as one:
        model.settle(lambda: size(model, "n1")[0] == 2400)
        model.settle(lambda: one.worker.notes().moving)
    assert size(model, "n1")[0] == 1, "a growth that nobody looks after any more is taken back"
    assert model.store.get(LEASES, LEASE, NAMESPACE) is None


def test_other_settings_count_at_once(model: ModelCluster) -> None:
    with reconciler(model, nodes=(NodeRow("n1"),)) as one:
        settled(model, one)
        before = one.worker.calls()
        wanted = Settings(kubeconfig=one.worker.settings.kubeconfig, nodes=(NodeRow("n2"),), retry=Retry(0.2, 1.0))
        one.worker.take(wanted)
        model.settle(
            lambda: one.worker.settings == wanted and one.reached() and one.worker.view().targets.keys() == {"n2"}
        )
        assert one.worker.calls() > before


def test_limits_move_in_step_and_are_put_back(model: ModelCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = FakeLimits({"n1": Resources(4000, 8192 * MIB), "n2": Resources(4000, 8192 * MIB)})
    monkeypatch.setattr(worker, "limits_of", lambda request, host: limits)
    rows = (NodeRow("n1", slice="ballast-n1"), NodeRow("n2", slice="ballast-n2"))
    at_size = {"n1": Resources(1600, 3328 * MIB), "n2": Resources(1600, 3328 * MIB)}
    with reconciler(model, nodes=rows, slices=True, interval=0.2) as one:
        model.settle(lambda: limits.found == at_size)
        settled(model, one)
        limits.found["n1"] = Resources(4000, 8192 * MIB)
        model.settle(lambda: limits.found == at_size)
        limits.broken = True
        model.settle(lambda: "balloon-test" in one.counts.errors)
        limits.broken = False
        settled(model, one)


class FakeLimits:
    def __init__(self, found: dict[str, Resources]) -> None:
        self.found = found
        self.broken = False

    def most(self, node: str) -> Resources:
        return Resources(4000, 8192 * MIB)

    def read(self, node: str) -> Resources:
        if self.broken:
            raise HostError("the slice is gone", id="balloon-test")
        return self.found[node]

    def write(self, node: str, limit: Resources) -> None:
        self.found[node] = limit


@pytest.mark.parametrize("seed", range(3))
def test_in_a_storm_of_faults_nothing_is_oversold_and_all_is_well_after_it(model: ModelCluster, seed: int) -> None:
    chance = random.Random(seed)
    faults = model.server.faults
    with reconciler(model, grow_timeout=0.2) as one, reconciler(model, grow_timeout=0.2) as other:
        for _turn in range(25):
            what = chance.choice(("trade", "delete", "cut", "conflicts", "lost", "busy", "away", "pod"))
            if what == "trade":
                cpu = chance.randrange(200, 3600)
                annotate(model, "n1", target(cpu, 2 * cpu))
                annotate(model, "n2", target(3800 - cpu, 7600 - 2 * cpu))
            elif what == "delete" and any("ballast" in pod["metadata"]["name"] for pod in model.kubelets.pods("n1")):
                delete_balloon(model, "n1")
            elif what == "cut":
                model.server.cut_watches()
            elif what == "conflicts":
                faults.conflicts = 3
            elif what == "lost":
                faults.lost_answers = 2
            elif what == "busy":
                faults.statuses = 3
            elif what == "away":
                model.server.go_away()
            elif what == "pod":
                model.schedule(f"p{_turn}", chance.choice(("n1", "n2")), cpu=100, memory=2**20)
            time.sleep(chance.random() * 0.1)
            if what == "away":
                faults.away = False
        model.server.mend()
        for pod in [pod for node in ("n1", "n2") for pod in model.kubelets.pods(node)]:
            if pod["metadata"]["namespace"] == "default":
                model.remove_pod(pod["metadata"]["name"])
        settled(model, one, other, seconds=30)
