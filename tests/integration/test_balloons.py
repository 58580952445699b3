# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Balloons on real kubelets: sizes that agree everywhere, and no pod that is harmed by them."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._balloon import readiness_answers as readings
from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import (
    CONTAINER,
    FAILING,
    FLOOR,
    LABEL,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.deployment.installation import INSTALLATION
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import MIB, Resources
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.readiness import MEASURED
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.client import STRATEGIC_MERGE_PATCH
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from tests.integration import journal
from tests.integration.adhoc import module
from tests.integration.balloon_lab import NAMES, BalloonLab, balloon_lab
from tests.integration.kube_proxy import eventually
from tests.integration.lab import Run, stopped
from tests.integration.told import assert_told

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a lab")]

EQUAL = {name: {"cpu": "500m", "memory": "4Gi"} for name in NAMES}
ROUNDS = 500
PRIORITIES = {"low": -10, "high": 1_000_000_000}
_SECONDS = 120


@pytest.fixture(scope="module")
def whole() -> Iterator[BalloonLab]:
    with balloon_lab("balloons") as made:
        for name, value in PRIORITIES.items():
            made.api.create(
                "/apis/scheduling.k8s.io/v1/priorityclasses",
                {"metadata": {"name": name}, "value": value, "preemptionPolicy": "PreemptLowerPriority"},
            )
        yield made


@pytest.fixture
def lab(whole: BalloonLab) -> Iterator[BalloonLab]:
    assert set(whole.size(EQUAL).outcomes.values()) <= {"done"}
    yield whole
    whole.clean()


def pods_on_all(lab: BalloonLab) -> dict[str, int]:
    for name in NAMES:
        lab.pod(f"work-{name}", name, cpu="100m", memory="256Mi")
    assert eventually(lambda: lab.running(*(f"work-{name}" for name in NAMES)), seconds=_SECONDS)
    return lab.restarts()


def test_a_lab_is_made_with_the_shares_of_its_nodes(whole: BalloonLab) -> None:
    record = whole.lab.record
    assert record["balloons"]
    assert whole.broken() == []
    taints = [(whole.node(name) or {})["spec"].get("taints") for name in NAMES]
    assert taints == [None, None, None]


def test_a_node_of_the_lab_is_resized_by_one_command_and_all_is_put_back_where_pods_stand_in_the_way(
    lab: BalloonLab,
) -> None:
    def resize(memory: str) -> Run:
        return lab.lab.playbook("lab_resize", lab_node="n1", lab_cpu="400m", lab_memory=memory)

    done = resize("2Gi")
    assert done.status == 0, done.output
    assert lab.lab.record["sizes"] == {"n1": {"cpu": "400m", "memory": "2Gi"}}
    node = lab.fleet().nodes["n1"]
    assert node.target == Resources(400, 2048 * MIB) - node.overhead
    assert node.limit == Resources(400, 2048 * MIB)
    assert lab.broken() == []
    assert resize("2Gi").changed == 0

    before = {name: lab.annotated(name) for name in NAMES}
    lab.pod("hog", "n2", memory="6Gi")
    assert eventually(lambda: lab.running("hog"), seconds=_SECONDS)
    refused = resize("16Gi")
    assert refused.status != 0
    assert "balloon-reverted" in refused.output
    assert "default/hog" in refused.output
    assert "keep their earlier sizes" in refused.output
    assert {name: lab.annotated(name) for name in NAMES} == before
    assert lab.lab.record["sizes"] == {"n1": {"cpu": "400m", "memory": "2Gi"}}
    assert lab.broken() == []


def test_grow_shrink_and_trade_agree_everywhere_and_touch_no_pod(lab: BalloonLab) -> None:
    before = pods_on_all(lab)
    ways = [
        {"n1": {"cpu": "200m", "memory": "1Gi"}},  # grow one balloon
        {"n1": {"cpu": "700m", "memory": "6Gi"}},  # shrink it
        {"n1": {"cpu": "200m", "memory": "1Gi"}, "n2": {"cpu": "800m", "memory": "7Gi"}},  # a trade
        {"n1": {"cpu": "800m", "memory": "1Gi"}, "n2": {"cpu": "200m", "memory": "8Gi"}},  # each gives and takes
        {name: {"cpu": "300m", "memory": "2Gi"} for name in NAMES},  # all at once
        EQUAL,
    ]
    for targets in ways:
        result = lab.size(targets)
        assert {name: result.outcomes[name] for name in targets} == dict.fromkeys(targets, "done"), result.texts
        assert lab.broken() == []
    assert lab.restarts() == before
    assert not lab.size(EQUAL).changed


def test_to_the_floor_and_back(lab: BalloonLab) -> None:
    """Of CPU one millicore more, which each of the others keeps: they cannot promise nothing."""
    allocatable = lab.fleet().nodes["n1"].allocatable
    least = FLOOR + Resources(1, 0)
    rest = {name: {"cpu": "1m", "memory": "64Mi"} for name in ("n2", "n3")}
    most = allocatable - least - Resources(1, 128 * MIB)
    room = Resources(0, lab.fleet().nodes["n1"].capacity.memory - most.memory - 128 * MIB)
    result = lab.size({**rest, "n1": most.as_quantities()}, reserve=room.as_quantities(), slices=False)
    assert set(result.outcomes.values()) == {"done"}, result.texts
    balloon = lab.fleet().nodes["n1"].balloon
    assert balloon is not None
    assert balloon.allocated.fits_in(least + Resources(1, 129 * MIB))
    assert set(lab.size(EQUAL).outcomes.values()) == {"done"}
    assert lab.broken() == []


def test_what_the_scheduler_may_place_is_what_the_balloon_leaves(lab: BalloonLab) -> None:
    """A pod waits for room that a balloon holds, and is placed when the balloon gives it."""
    pod = {
        "metadata": {"name": "waits", "namespace": "default"},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": "n1"},
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {"name": "one", "image": "ballast.local/pause:1", "resources": {"requests": {"cpu": "600m"}}}
            ],
        },
    }
    lab.api.create("/api/v1/namespaces/default/pods", pod)
    why = "Unschedulable"
    assert eventually(lambda: why in str(lab.pods()["waits"]["status"].get("conditions")), seconds=_SECONDS)
    assert lab.size({"n1": {"cpu": "800m"}}).outcomes["n1"] == "done"
    assert eventually(lambda: lab.running("waits"), seconds=_SECONDS)


def test_a_full_node_is_put_back_and_no_pod_is_harmed_over_many_rounds(lab: BalloonLab) -> None:
    """Workloads of every priority fill the nodes; balloons are to grow beyond what fits, again and again."""
    names = []
    for node in NAMES:
        for name, priority in (("lowest", "low"), ("plain", ""), ("highest", "high")):
            lab.pod(f"{name}-{node}", node, cpu="150m", memory="1200Mi", priority=priority)
            names.append(f"{name}-{node}")
    assert eventually(lambda: lab.running(*names), seconds=_SECONDS)
    before, uids, seed = lab.restarts(), lab.uids(), random.randrange(2**32)
    chance = random.Random(seed)
    outcomes: list[str] = []
    with lab.steered(grow_timeout=0.05) as size:
        while len(outcomes) < ROUNDS:
            found = size({name: beyond_what_fits(chance) for name in NAMES})
            outcomes += [outcome.outcome for outcome in found.values()]
            assert set(outcomes) == {"reverted"}, (seed, found)
    assert lab.running(*names)
    assert lab.restarts() == before
    assert lab.harm(uids) == []
    assert lab.broken() == []


def beyond_what_fits(chance: random.Random) -> Resources:
    """Less than the 450m and 3600Mi that pods request on each node, in one resource or in both."""
    small, large = chance.randrange(1, 449), chance.randrange(1, 3599)
    cpu, memory = chance.choice([(small, 4096), (500, large), (small, large)])
    return Resources(cpu, memory * MIB)


def test_a_kubelet_that_is_killed_in_the_middle_ends_at_the_target(lab: BalloonLab) -> None:
    before = pods_on_all(lab)
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(lab.size, {"n1": {"cpu": "200m", "memory": "1Gi"}, "n2": {"cpu": "700m", "memory": "6Gi"}})
        lab.kill_kubelet("n1")
        result = run.result(timeout=300)
    assert {result.outcomes[name] for name in ("n1", "n2")} == {"done"}, result.texts
    assert lab.broken() == []
    assert lab.restarts() == before


def test_an_api_server_that_does_not_answer_for_a_while_is_waited_for(lab: BalloonLab) -> None:
    before = pods_on_all(lab)
    api_server = next(pid for place, pid in lab.lab.services().items() if place.endswith("-kube-apiserver"))
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(lab.size, {"n1": {"cpu": "200m", "memory": "1Gi"}, "n2": {"cpu": "700m", "memory": "6Gi"}})
        time.sleep(0.3)  # somewhere in the middle, another place each time
        os.kill(api_server, signal.SIGSTOP)
        time.sleep(5)
        os.kill(api_server, signal.SIGCONT)
        result = run.result(timeout=300)
    assert {result.outcomes[name] for name in ("n1", "n2")} == {"done"}, result.texts
    assert lab.broken() == []
    assert lab.restarts() == before


def test_a_balloon_that_was_deleted_on_a_full_node_comes_back_without_harm(lab: BalloonLab) -> None:
    """Room is taken before the new balloon is there: nobody is evicted for it, and the run says so."""
    old = balloon_name(lab, "n1")
    lab.pod("fills", "n1", cpu="450m", memory="3Gi")
    assert eventually(lambda: lab.running("fills"), seconds=_SECONDS)
    lab.api.delete(f"/api/v1/namespaces/ballast-balloons/pods/{old}", {"gracePeriodSeconds": 0})
    assert eventually(lambda: balloon_name(lab, "n1") not in ("", old), seconds=_SECONDS)
    assert set(lab.size(EQUAL).outcomes.values()) == {"done"}
    assert lab.running("fills")
    assert lab.broken() == []


def test_its_readiness_is_read_from_real_kubelets_and_a_lost_balloon_turns_it(lab: BalloonLab) -> None:
    assert set(lab.size({**EQUAL, "n1": {"cpu": "300m", "memory": "2Gi"}}).outcomes.values()) == {"done"}
    found = lab.reading()
    answers = found["answers"]
    assert {name: answer["verdict"] for name, answer in answers.items()} == dict.fromkeys(MEASURED, "yes"), found
    assert found["present"] == ()
    latency = answers["healthy"]["figures"][1]
    assert latency["buckets"][-1]["count"] > 0, "no kubelet has told of a resize"
    assert "remove DaemonSet ballast-balloon" in answers["disabling"]["lines"]

    old = balloon_name(lab, "n1")
    lab.api.delete(f"/api/v1/namespaces/ballast-balloons/pods/{old}", {"gracePeriodSeconds": 0})
    assert eventually(lambda: balloon_name(lab, "n1") not in ("", old), seconds=_SECONDS)
    found = lab.reading()
    assert {readings.OFF_TARGET, readings.ABSENT} & set(found["present"]), found
    assert_told(found, readings.HOST_OVERSOLD, no=("healthy", "scale"))


def balloon_name(lab: BalloonLab, node: str) -> str:
    balloon = lab.fleet().nodes[node].balloon
    return "" if balloon is None else balloon.name


def test_a_size_that_a_kubelet_cannot_give_is_told_and_put_back(lab: BalloonLab) -> None:
    """Less memory than its process uses. More than the node has, the API server refuses itself from 1.36 on."""
    path = f"/api/v1/namespaces/ballast-balloons/pods/{balloon_name(lab, 'n1')}/resize"
    memory = {"memory": "4Ki"}
    body = {"spec": {"containers": [{"name": CONTAINER, "resources": {"requests": memory, "limits": memory}}]}}
    lab.api.patch(path, body, content_type=STRATEGIC_MERGE_PATCH)
    assert eventually(lambda: balloon_state(lab, "n1") == FAILING, seconds=_SECONDS)
    assert_told(lab.reading(), readings.KUBELET_REFUSES, readings.OFF_TARGET)
    assert set(lab.size(EQUAL).outcomes.values()) == {"done"}
    assert lab.broken() == []


def balloon_state(lab: BalloonLab, node: str) -> str:
    balloon = lab.fleet().nodes[node].balloon
    return "" if balloon is None else balloon.state


@pytest.mark.skipif(os.path.exists(INSTALLATION.config), reason="this machine has a reconciler of its own")
def test_a_reconciler_that_fails_and_one_that_is_down_are_told(lab: BalloonLab, tmp_path: Path) -> None:
    kubeconfig, state_dir = tmp_path / "kubeconfig", str(tmp_path / "reconciler")
    text = Path(lab.lab.directory, "admin.kubeconfig").read_text(encoding="utf-8")
    kubeconfig.write_text(re.sub("https://[0-9.:]+", "https://127.0.0.1:9", text), encoding="utf-8")  # nothing listens
    kubeconfig.chmod(0o600)
    with journal.undone_by(*journal.module("balloon_reconciler", {"state": "absent", "state_dir": state_dir})):
        module("balloon_reconciler", kubeconfig=str(kubeconfig), state_dir=state_dir)
        assert eventually(lambda: lab.reading()["present"] == (readings.RECONCILER_FAILING,), seconds=_SECONDS)
        assert_told(lab.reading(), readings.RECONCILER_FAILING)
        with stopped(INSTALLATION.target(state_dir)):
            found = lab.reading()
        assert found["present"] == (readings.RECONCILER_DOWN,)
        assert_told(found, readings.RECONCILER_DOWN)


def test_a_node_that_registers_anew_is_sized_before_it_takes_pods(lab: BalloonLab) -> None:
    lab.api.delete("/api/v1/nodes/n3")
    lab.kill_kubelet("n3")
    assert eventually(lambda: lab.node("n3"), seconds=_SECONDS)
    assert "balloons.ballast.dev/unsized" in str((lab.node("n3") or {})["spec"].get("taints"))
    assert eventually(lambda: lab.fleet().nodes["n3"].ready, seconds=_SECONDS)
    assert set(lab.size(EQUAL).outcomes.values()) == {"done"}
    assert "unsized" not in str((lab.node("n3") or {})["spec"].get("taints"))
    assert lab.broken() == []


def test_a_quota_that_does_not_allow_it_is_told_and_nothing_is_changed(lab: BalloonLab) -> None:
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"requests.cpu": "4600m"}}}
    lab.api.create("/api/v1/namespaces/ballast-balloons/resourcequotas", quota)
    try:
        used = "/api/v1/namespaces/ballast-balloons/resourcequotas/small"
        assert eventually(lambda: lab.api.get(used).get("status", {}).get("used"), seconds=_SECONDS)
        result = lab.size({"n1": {"cpu": "1m"}})
        assert result.outcomes["n1"] == "rejected"
        assert "exceeded quota" in result.texts["n1"]
    finally:
        lab.api.delete("/api/v1/namespaces/ballast-balloons/resourcequotas/small")
    assert lab.broken() == []


@pytest.mark.parametrize(
    ("rows", "ids"),
    [
        ([{"name": "n1", "share": "3/2"}], {"balloon-value"}),
        ([{"name": "n1", "share": "2/3"}, {"name": "n2", "share": "2/3"}], {"balloon-shares-over"}),
        ([{"name": "elsewhere"}, {"name": "n1", "target": {"cpu": "-1"}}], {"balloon-value"}),
        ([{"name": "elsewhere"}], {"balloon-unknown-node"}),
        ([{"name": "n1", "target": {"memory": "much"}}], {"core-quantity"}),
        ([{"name": "n1", "target": {"memory": "900Gi"}}], {"balloon-above-node", "balloon-over-room"}),
    ],
)
def test_bad_input_is_refused_before_anything_changes(
    lab: BalloonLab, rows: list[dict[str, object]], ids: set[str]
) -> None:
    with pytest.raises(BallastError) as caught:
        lab.size_rows(rows)
    assert ids & ids_of(caught.value)
    assert lab.broken() == []


def ids_of(error: BallastError) -> set[str]:
    return {one.id for one in error.problems} if isinstance(error, Problems) else {error.id}


def test_a_foreign_pod_with_the_label_of_a_balloon_is_refused(lab: BalloonLab) -> None:
    lab.pod("odd", "n1")
    lab.api.patch("/api/v1/namespaces/default/pods/odd", {"metadata": {"labels": {LABEL: "true"}}})
    assert_told(lab.reading(), readings.FOREIGN_POD, no=())
    with pytest.raises(BallastError) as caught:
        lab.size({"n1": {"cpu": "400m"}})
    assert ids_of(caught.value) == {"balloon-foreign"}


def test_a_target_below_what_daemonsets_request_is_refused_by_name(lab: BalloonLab) -> None:
    spec = {
        "selector": {"matchLabels": {"of": "needs"}},
        "template": {
            "metadata": {"labels": {"of": "needs"}},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [
                    {"name": "one", "image": "ballast.local/pause:1", "resources": {"requests": {"cpu": "50m"}}}
                ],
            },
        },
    }
    lab.api.create("/apis/apps/v1/namespaces/default/daemonsets", {"metadata": {"name": "needs"}, "spec": spec})
    try:
        assert eventually(lambda: len(lab.pods()) == len(NAMES), seconds=_SECONDS)
        with pytest.raises(BallastError) as caught:
            lab.size({"n1": {"cpu": "49m"}})
        assert ids_of(caught.value) == {"balloon-below-pods"}
        assert "default/needs-" in str(caught.value)
    finally:
        lab.api.delete("/apis/apps/v1/namespaces/default/daemonsets/needs", {"propagationPolicy": "Background"})


def test_the_critical_class_is_refused_where_it_would_preempt(lab: BalloonLab) -> None:
    with pytest.raises(BallastError) as caught:
        lab.size(EQUAL, priority="node-critical")
    assert any(id.startswith("balloon-critical") for id in ids_of(caught.value)), str(caught.value)
    assert lab.broken() == []


def test_absent_gives_the_nodes_all_that_they_have_and_leaves_nothing(lab: BalloonLab) -> None:
    lab.size({name: {} for name in NAMES}, state="absent", slices=False)
    assert [lab.annotated(name) for name in NAMES] == [None] * len(NAMES)
    assert lab.api.find("/apis/apps/v1/namespaces/ballast-balloons/daemonsets/ballast-balloon") is None
    assert lab.api.find("/apis/scheduling.k8s.io/v1/priorityclasses/ballast-balloon") is None
    assert not lab.api.list(
        "/apis/coordination.k8s.io/v1/namespaces/ballast-balloons/leases",
        {"labelSelector": "app.kubernetes.io/managed-by=ballast"},
    ).items
    assert not lab.size({name: {} for name in NAMES}, state="absent", slices=False).changed
