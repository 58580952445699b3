# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module's engine against the model cluster: what it plans, does, tells, and does not do twice."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._balloon.engine import BalloonEngine, BalloonsPlan
from ansible_collections.ballast.kube.plugins.module_utils._balloon.info import read_params
from ansible_collections.ballast.kube.plugins.module_utils._balloon.request import INFO_SPEC, SPEC, BalloonsRequest
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.engine import Finding
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from tests.model_cluster.amounts import Pair
from tests.model_cluster.model import GIB, LABEL, MIB, NAMESPACE, TARGET, ModelCluster
from tests.unit.balloon.executor_runs import desired, hurry

HOST = LocalHost()
DAEMONSETS = "apps/daemonsets"
HALVES = [{"name": "n1", "share": "1/2"}, {"name": "n2", "share": "1/2"}]
OBJECTS = 10


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture
def model(certificate: Path) -> Iterator[ModelCluster]:
    """Two nodes share a host of 4 CPU and 8 GiB. Their balloons are at the floor."""
    with ModelCluster(tls=certificate) as found:
        for name in ("n1", "n2"):
            found.add_node(name, unsized=True)
        yield found


class Sizing:
    """One after the other, as the run loop of the modules does it."""

    def __init__(self, model: ModelCluster, certificate: Path, nodes: list[dict[str, Any]], **options: Any) -> None:
        path = model.kubeconfig(certificate / "kubeconfig")
        rows = {name: row.get("default") for name, row in SPEC.items()}
        self.request = BalloonsRequest.from_params(
            {**rows, "kubeconfig": str(path), "nodes": nodes, "grow_timeout": 0.3, **options}
        )
        self.engine = BalloonEngine()

    def plan(self) -> BalloonsPlan:
        return self.engine.plan(self.request, self.engine.observe(Context(self.request, HOST)))

    def run(self) -> list[Finding]:
        progress = Progress(NullSink(), feature="balloon")
        self.engine.apply(self.plan(), Context(self.request, HOST, progress))
        return self.engine.verify(Context(self.request, HOST, progress))

    def rows(self) -> dict[str, Any]:
        rows: Any = self.engine.report(Context(self.request, HOST))["nodes"]
        return {row["name"]: row for row in rows}


def read_names(model: ModelCluster, certificate: Path, **options: Any) -> dict[str, Any]:
    path = model.kubeconfig(certificate / "kubeconfig")
    rows = {name: row.get("default") for name, row in INFO_SPEC.items()}
    return dict(read_params(HOST, {**rows, "kubeconfig": str(path), **options}))


def titles(engine: BalloonEngine, plan: BalloonsPlan) -> list[str]:
    steps: Any = engine.as_result(plan)["steps"]
    return [f"{step['verb']} {step['title']}" for step in steps]


def target(model: ModelCluster, node: str) -> object:
    return model.node(node)["metadata"].get("annotations", {}).get(TARGET)


def test_a_plan_says_all_and_changes_nothing(model: ModelCluster, certificate: Path) -> None:
    sizing = Sizing(model, certificate, HALVES)
    plan = sizing.plan()
    told = titles(sizing.engine, plan)
    assert len(told) == OBJECTS + 2 + 2
    assert told[0] == "make Namespace ballast-balloons"
    assert "change balloon of n1: 1m cpu, 16Mi memory -> 2000m cpu, 4096Mi memory" in told
    assert told[-1] == "change target of n2"
    assert sizing.engine.as_result(plan)["targets"] == dict.fromkeys(("n1", "n2"), {"cpu": "2000m", "memory": "4096Mi"})
    shown = sizing.engine.diff(plan)
    assert {"before": "1m cpu, 16Mi memory\n", "after": "2000m cpu, 4096Mi memory\n"}.items() <= shown[OBJECTS].items()
    assert not [call for call in model.server.calls if call.split(" ")[0] not in ("GET", "LIST")]


def test_sizes_are_made_once(model: ModelCluster, certificate: Path) -> None:
    sizing = Sizing(model, certificate, HALVES)
    assert sizing.run() == []
    assert {row["outcome"] for row in sizing.rows().values()} == {"done"}
    assert (desired(model, "n1"), desired(model, "n2")) == (Pair(2000, 4 * GIB), Pair(2000, 4 * GIB))
    assert target(model, "n1") == '{"cpu": "2000m", "memory": "4096Mi"}'
    assert not model.node("n1")["spec"].get("taints")
    assert len(model.store.all(DAEMONSETS)) == 1
    again = Sizing(model, certificate, HALVES)
    assert again.plan().steps == ()
    assert again.run() == []


def test_a_node_that_is_put_back_is_a_finding_with_its_remedy_and_the_rows_tell_both(
    model: ModelCluster, certificate: Path
) -> None:
    model.add_pod("web", "n1", cpu=2500, memory=GIB)
    sizing = Sizing(model, certificate, HALVES)
    (found,) = sizing.run()
    assert (found.id, found.blocking) == ("balloon-reverted", True)
    assert found.text.startswith("n1: pods occupy capacity that the balloon needs")
    assert "found: " in found.text
    assert "kubectl drain" in found.remedy
    rows = sizing.rows()
    assert (rows["n1"]["outcome"], rows["n2"]["outcome"]) == ("reverted", "done")
    assert "default/web" in rows["n1"]["text"]
    assert (target(model, "n1"), target(model, "n2")) == (None, '{"cpu": "2000m", "memory": "4096Mi"}')


def test_a_strangers_pod_with_the_label_stops_it_before_anything_is_changed(
    model: ModelCluster, certificate: Path
) -> None:
    model.add_pod("odd", "n1", cpu=1, memory=1)
    pod = model.store.get("pods", "odd", "default")
    assert pod is not None
    pod["metadata"]["labels"] = {LABEL: "true"}
    model.store.put("pods", pod)
    with pytest.raises(BallastError) as caught:
        Sizing(model, certificate, HALVES).plan()
    assert caught.value.id == "balloon-foreign"


def test_absent_takes_all_away_and_is_done_then(model: ModelCluster, certificate: Path) -> None:
    Sizing(model, certificate, HALVES).run()
    assert Sizing(model, certificate, [{"name": "n1"}, {"name": "n2"}], state="absent").run() == []
    assert (target(model, "n1"), target(model, "n2")) == (None, None)
    assert model.store.all(DAEMONSETS) == []
    for name in ("n1", "n2"):
        model.store.drop("pods", model.balloon(name)["metadata"]["name"], NAMESPACE)
    assert Sizing(model, certificate, [{"name": "n1"}, {"name": "n2"}], state="absent").plan().steps == ()


def test_absent_of_one_node_leaves_what_the_others_need(model: ModelCluster, certificate: Path) -> None:
    Sizing(model, certificate, HALVES).run()
    assert Sizing(model, certificate, [{"name": "n1"}], state="absent").run() == []
    assert (target(model, "n1"), target(model, "n2")) == (None, '{"cpu": "2000m", "memory": "4096Mi"}')
    assert len(model.store.all(DAEMONSETS)) == 1


def test_balloons_of_another_name_are_beside_those_that_size_nodes(model: ModelCluster, certificate: Path) -> None:
    """Of the whole of it nothing is seen by those that size nodes, but a pod more."""
    trial = [{"name": "n1", "target": {"cpu": "3990m", "memory": "8160Mi"}}]
    pod = copy.deepcopy(model.balloon("n1"))
    own = "ballast-balloons-trial"
    pod["metadata"].update(name="trial-1", namespace=own, uid="trial-1", labels={f"{LABEL}.trial": "true"})
    pod["metadata"]["ownerReferences"][0]["name"] = "trial"
    model.store.put("pods", pod)
    assert Sizing(model, certificate, trial, name="trial").run() == []
    assert Sizing(model, certificate, trial, name="trial").plan().steps == ()
    assert model.node("n1")["spec"]["taints"]  # it is not sized by that
    before = target(model, "n1")
    assert Sizing(model, certificate, HALVES).run() == []
    assert (before, target(model, "n1")) == (None, '{"cpu": "2000m", "memory": "4096Mi"}')
    assert model.node("n1")["metadata"]["annotations"][f"{TARGET}.trial"] == '{"cpu": "3990m", "memory": "8160Mi"}'
    assert model.free("n1") == Pair(1990, 4064 * MIB)
    assert read_names(model, certificate)["hosts"][0]["holds"] is True
    found = read_names(model, certificate, name="trial")
    assert [(row["allocated"] or {}).get("cpu") for row in found["nodes"]] == ["10m", None]
    assert (found["findings"], {host["holds"] for host in found["hosts"]}) == ([], {True})
    assert Sizing(model, certificate, [{"name": "n1"}], name="trial", state="absent").run() == []
    assert [one["metadata"]["name"] for one in model.store.all(DAEMONSETS)] == ["ballast-balloon"]
    assert f"{TARGET}.trial" not in model.node("n1")["metadata"]["annotations"]
    assert Sizing(model, certificate, HALVES).plan().steps == ()


def test_absent_takes_all_away_where_the_api_server_refuses_every_size(model: ModelCluster, certificate: Path) -> None:
    """As with a LimitRange that came after the balloons."""
    Sizing(model, certificate, HALVES).run()
    model.server.faults.resize_refused = (
        403,
        "Forbidden",
        "minimum memory usage per Container is 1Gi, but request is 16Mi",
    )
    only = Sizing(model, certificate, [{"name": "n1"}], state="absent")
    assert [finding.id for finding in only.run()] == ["balloon-rejected"]  # its pod stays, as the DaemonSet does
    assert Sizing(model, certificate, [{"name": "n1"}, {"name": "n2"}], state="absent").run() == []
    assert (target(model, "n1"), target(model, "n2")) == (None, None)
    assert model.store.all(DAEMONSETS) == []


def test_absent_does_not_wait_for_a_balloon_that_never_starts(model: ModelCluster, certificate: Path) -> None:
    Sizing(model, certificate, HALVES).run()
    model.kubelets.habit("n3").dead = True
    model.add_node("n3", host="boot-3")
    sizing = Sizing(model, certificate, [{"name": name} for name in ("n1", "n2", "n3")], state="absent")
    assert "n3" not in sizing.plan().behind
    assert sizing.run() == []
    assert model.store.all(DAEMONSETS) == []


def test_a_target_is_forgotten_where_the_balloon_is_gone_already(model: ModelCluster, certificate: Path) -> None:
    model.add_node("n3", host="boot-3", balloon=None, target='{"cpu": "1", "memory": "1Gi"}')
    sizing = Sizing(model, certificate, [{"name": "n3"}], state="absent")
    assert sizing.run() == []
    assert target(model, "n3") is None
    assert Sizing(model, certificate, [{"name": "n3"}], state="absent").plan().steps == ()


def test_the_reading_module_tells_of_all_nodes_and_their_hosts(model: ModelCluster, certificate: Path) -> None:
    Sizing(model, certificate, HALVES).run()
    found = read_names(model, certificate)
    assert [row["name"] for row in found["nodes"]] == ["n1", "n2"]
    assert [host["holds"] for host in found["hosts"]] == [True]
    assert "4000m 8192Mi schedulable of 4000m 8192Mi unreserved" in found["table"]
    assert found["findings"] == []
