# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Another version for a lab that is there: which versions are refused, the turns of its nodes, and runs that end anywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.record import record_path
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, CommandFailed
from ansible_collections.ballast.kube.plugins.module_utils._lab.drain import ENGINE, DrainRequest
from ansible_collections.ballast.kube.plugins.module_utils._lab.parts import parts
from ansible_collections.ballast.kube.plugins.module_utils._lab.resolve import LOCAL, Lab
from ansible_collections.ballast.kube.plugins.module_utils._lab.versions import (
    NO_VERSIONS,
    LabVersions,
    NodePrograms,
    find_version_problems,
    read_versions,
    upgrade_turns,
)
from tests.unit.cases import apply, plan_of
from tests.unit.fakes import Call, FakeHost, Killed, json_answer
from tests.unit.lab import given as g

OLD, NEW = "1.36.4", "1.37.1"
BUILDABLE = ("1.35.8", "1.36.3", "1.36.4", "1.36.12", "1.37.1")
KUBECTL = "/new/kubectl"
_GONE = json_answer(404, {})


def programs(version: str, *, running: bool = True) -> NodePrograms:
    return NodePrograms(kubernetes_version=version, bin_dir=f"/{version}", running=running)


def problems(version: str, served: str, nodes: Sequence[str] = (), **options: str) -> list[tuple[str, str]]:
    found = LabVersions(served, {f"n{at}": programs(each) for at, each in enumerate(nodes, start=1)}, ())
    given_options = {"target": "host", "bootstrap": "lab", **options}
    rows = find_version_problems(version, found, **given_options, buildable=BUILDABLE)  # type: ignore[arg-type]
    return [(row.id, row.remedy) for row in rows]


@pytest.mark.parametrize(
    ("version", "served"),
    [("1.36.4", "1.36.4"), ("1.36.5", "1.36.4"), ("1.37.1", "1.36.4"), ("1.10.0", "1.9.9"), ("1.35.8", "")],
)
def test_a_later_patch_and_the_next_minor_version_are_allowed(version: str, served: str) -> None:
    assert problems(version, served) == []


@pytest.mark.parametrize(("version", "served"), [("1.36.4", "1.37.1"), ("1.36.3", "1.36.4"), ("1.36.9", "1.36.10")])
def test_a_downgrade_is_refused(version: str, served: str) -> None:
    ((found, remedy),) = problems(version, served)
    assert found == "lab-downgrade"
    assert f"use {served} or later" in remedy


def test_a_skipped_minor_version_is_refused_with_the_one_between() -> None:
    ((found, remedy),) = problems("1.37.1", "1.35.8")
    assert (found, remedy) == (
        "lab-version-jump",
        "upgrade to the version between them first: -e lab_kubernetes_version=1.36.12",
    )
    ((found, remedy),) = problems("1.40.1", "1.38.0")
    assert "lab_kubernetes_version=1.39.X, of which this collection pins no version" in remedy


def test_a_node_is_left_behind_by_three_minor_versions_at_most() -> None:
    assert problems("1.38.0", "1.37.1", ["1.35.8", "1.37.1"]) == []
    ((found, remedy),) = problems("1.39.0", "1.38.1", ["1.38.1", "1.35.8"])
    assert (found, remedy) == ("lab-node-skew", "upgrade the nodes first: -e lab_kubernetes_version=1.38.1")


@pytest.mark.parametrize(
    ("options", "error"),
    [({"target": "vm"}, "lab-version-machines"), ({"target": "vm", "bootstrap": "kubeadm"}, "lab-version-kubeadm")],
)
def test_virtual_machines_keep_their_version(options: dict[str, str], error: str) -> None:
    assert [found for found, _remedy in problems("1.37.1", "1.36.4", **options)] == [error]
    assert problems("1.36.4", "1.36.4", **options) == []


def turns(found: LabVersions, count: int = 3, version: str = NEW) -> list[dict[str, Any]]:
    lab = {**g.lab(nodes=count), "kubernetes_version": version}
    return upgrade_turns(lab, parts(lab)["hosts"][LOCAL]["instances"], found)


def versions_of(turn: Mapping[str, Any]) -> dict[str, str]:
    return {row["name"]: row.get("kubernetes_version", NEW) for row in turn["instances"]}


def test_each_node_has_its_turn_and_those_to_come_keep_their_programs() -> None:
    found = LabVersions(OLD, {"n1": programs(OLD), "n2": programs(NEW), "n3": programs(OLD)}, ())
    first, last = turns(found)
    assert (first["node"], first["drain"], versions_of(first)) == ("n1", True, {"n1": NEW, "n2": NEW, "n3": OLD})
    assert (last["node"], last["drain"], versions_of(last)) == ("n3", True, {"n1": NEW, "n2": NEW, "n3": NEW})
    assert [row.get("bin_dir") for row in first["instances"]] == [None, None, f"/{OLD}"]


def test_a_drained_node_is_first_and_a_new_one_joins_after_the_turns() -> None:
    found = LabVersions(NEW, {"n1": programs(OLD), "n2": programs(NEW)}, ("n2",))
    first, last = turns(found)
    assert (first["node"], versions_of(first)) == ("n2", {"n1": OLD, "n2": NEW})
    assert last["node"] == "n1"
    assert turns(LabVersions(NEW, {"n1": programs(NEW)}, ())) == []
    assert turns(NO_VERSIONS) == []


def test_a_stopped_node_starts_with_its_new_programs() -> None:
    stopped = programs(OLD, running=False)
    assert turns(LabVersions(OLD, {"n1": stopped, "n2": stopped}, ())) == []
    (turn,) = turns(LabVersions(OLD, {"n1": stopped, "n2": stopped}, ("n1",)))
    assert (turn["node"], turn["drain"], versions_of(turn)) == ("n1", False, {"n1": NEW, "n2": NEW})


class Cluster:
    """A lab of two nodes and its API server in memory; `run` does what the playbook does of an upgrade."""

    def __init__(self) -> None:
        self.lab: Lab = g.lab(nodes=2)
        self.host = g.machine({f"{g.DIR}/plane/etcd/member/wal": ""})
        self.api_server = OLD
        self.kubelets = {"n1": OLD, "n2": OLD}
        self.cordoned: set[str] = set()
        self.held: set[str] = set()  # nodes that a PodDisruptionBudget holds
        for node in self.lab["nodes"]:
            self.host.given(node["mountns"])
        for directory in (f"{g.DIR}/nodes", "/state"):
            self.host.given_directory(directory)
        self._write_plane(OLD)
        self._write_options(OLD, [{"name": "n1"}, {"name": "n2"}])
        self.host.answer(f"{g.API}/api/v1/nodes", self._get)
        self.host.answer(f"{g.API}/api/v1/nodes", self._patch, method="PATCH")
        self.host.answer(f"{g.API}/api/v1/pods", json_answer(200, {"metadata": {}, "items": []}))
        self.host.on(KUBECTL, answer=self._drain)

    def run(self, version: str) -> None:
        host = self.host
        found = read_versions(host, g.DIR, self.lab)
        assert find_version_problems(version, found, target="host", bootstrap="lab", buildable=()) == []
        lab = {**self.lab, "kubernetes_version": version}
        rows = parts(lab)["hosts"][LOCAL]["instances"]
        todo = upgrade_turns(lab, rows, found)
        self._write_plane(version)
        self.api_server = version
        for turn in todo:
            apply(ENGINE, self.request(turn["node"]), host)
            self._run_instances(version, turn["instances"])
            apply(ENGINE, self.request(), host)
        self._run_instances(version, rows)

    def request(self, *nodes: str) -> DrainRequest:
        given_options = {"state_dir": f"{g.DIR}/drain", "plane_dir": f"{g.DIR}/plane", "kubectl": KUBECTL}
        return DrainRequest.from_params({**given_options, "nodes": nodes})

    def _run_instances(self, version: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """First the record of the options, then each node, as the engine of the instances does."""
        self._write_options(version, rows)
        for row in rows:
            own = row.get("kubernetes_version") or version
            if self.kubelets[row["name"]] != own:
                assert self.cordoned == {row["name"]}, "a node is drained, alone, while its programs are replaced"
                assert own <= self.api_server, "no kubelet is newer than the API server"
                self.host.write(f"/state/{row['name']}", b"")
                self.kubelets[row["name"]] = own

    def _write_options(self, version: str, rows: Sequence[Mapping[str, Any]]) -> None:
        kept = [{key: row[key] for key in ("name", "bin_dir", "kubernetes_version") if key in row} for row in rows]
        options = {"kubernetes_version": version, "bin_dir": f"/{version}", "instances": kept}
        self.host.write(f"{g.DIR}/nodes/options.json", json.dumps(options).encode())

    def _write_plane(self, version: str) -> None:
        record = json.loads(g.plane_record().as_text())
        record["kubernetes_version"] = version
        self.host.write(record_path(f"{g.DIR}/plane"), json.dumps(record).encode())

    def _get(self, url: str, _body: Optional[bytes]) -> Response:
        name = url.rpartition("/")[2]
        if name not in self.kubelets:
            return _GONE
        info = {"nodeInfo": {"kubeletVersion": f"v{self.kubelets[name]}"}}
        return json_answer(200, {"spec": {"unschedulable": name in self.cordoned or None}, "status": info})

    def _patch(self, url: str, body: Optional[bytes]) -> Response:
        assert json.loads(body or b"") == {"spec": {"unschedulable": None}}
        self.cordoned.discard(url.rpartition("/")[2].partition("?")[0])
        return json_answer(200, {})

    def _drain(self, call: Call) -> str:
        name = call.argv[call.argv.index("drain") + 1]
        self.cordoned.add(name)
        if name in self.held:
            raise CommandFailed(
                call.argv, status=1, output="Cannot evict pod as it would violate the pod's disruption budget."
            )
        return ""


def assert_upgraded(cluster: Cluster, version: str = NEW) -> None:
    assert cluster.kubelets == {"n1": version, "n2": version}
    assert cluster.cordoned == set()
    assert read_versions(cluster.host, g.DIR, cluster.lab).drained == []
    begun = len(cluster.host.effects)
    assert (
        upgrade_turns(
            {**cluster.lab, "kubernetes_version": version},
            parts(cluster.lab)["hosts"][LOCAL]["instances"],
            read_versions(cluster.host, g.DIR, cluster.lab),
        )
        == []
    )
    assert cluster.host.effects[begun:] == [], "looking changes nothing"


def test_the_control_plane_is_first_and_then_one_node_after_the_other() -> None:
    cluster = Cluster()
    cluster.run(NEW)
    assert_upgraded(cluster)
    drained = [effect for effect in cluster.host.effects if " drain " in str(effect)]
    assert len(drained) == 2


@settings(max_examples=60, deadline=None)
@given(cuts=st.lists(st.integers(min_value=1, max_value=40), max_size=4))
def test_a_run_that_ends_anywhere_is_continued_by_the_next(cuts: Sequence[int]) -> None:
    """`cuts`: at which effect the first run ends, the second, and so on."""
    cluster = Cluster()
    for cut in cuts:
        cluster.host.fail_at(cut, torn=True)
        try:
            cluster.run(NEW)
        except Killed:
            pass
        cluster.host.calm()
        assert len(cluster.cordoned) <= 1
    cluster.run(NEW)
    assert_upgraded(cluster)


def test_every_effect_of_a_run_may_be_its_last() -> None:
    for number in range(1, 200):
        cluster = Cluster()
        cluster.host.fail_at(number, torn=True)
        try:
            cluster.run(NEW)
        except Killed:
            cluster.host.calm()
            cluster.run(NEW)
            assert_upgraded(cluster)
        else:
            break
    assert number > 15


def test_a_budget_that_holds_a_node_is_named_and_the_node_takes_pods_again() -> None:
    cluster = Cluster()
    cluster.held = {"n2"}
    with pytest.raises(BallastError) as caught:
        cluster.run(NEW)
    assert caught.value.id == "lab-node-drain"
    assert "get pdb -A" in caught.value.remedy
    assert (cluster.cordoned, cluster.kubelets) == (set(), {"n1": NEW, "n2": OLD})
    cluster.held = set()
    cluster.run(NEW)
    assert_upgraded(cluster)


def test_a_node_that_was_cordoned_before_stays_so() -> None:
    cluster = Cluster()
    cluster.cordoned = {"n1"}
    pods = [
        {"metadata": {"name": "a"}, "status": {"phase": "Running"}},
        {"metadata": {"name": "b"}, "status": {"phase": "Succeeded"}},
        {"metadata": {"name": "c", "ownerReferences": [{"kind": "DaemonSet"}]}, "status": {"phase": "Running"}},
    ]
    cluster.host.answer(f"{g.API}/api/v1/pods", json_answer(200, {"metadata": {}, "items": pods}))
    plan = plan_of(ENGINE, cluster.request("n1"), cluster.host)
    assert [(f"{step.verb} {step.title}", step.before, step.after) for step in plan.steps] == [
        ("change drain of node n1", {"pods": 1}, {"pods": 0})
    ]
    apply(ENGINE, cluster.request("n1"), cluster.host)
    apply(ENGINE, cluster.request(), cluster.host)
    assert cluster.cordoned == {"n1"}


def test_a_kube_proxy_in_a_pod_is_made_again_with_the_new_image() -> None:
    cluster = Cluster()
    evicted: list[tuple[str, Any]] = []

    def answer(url: str, _body: Optional[bytes]) -> Response:
        own = "labelSelector=k8s-app%3Dkube-proxy" in url
        items = [{"metadata": {"name": "kube-proxy-x", "namespace": "kube-system"}}] if own else []
        return json_answer(200, {"metadata": {}, "items": items})

    def evict(url: str, body: Optional[bytes]) -> Response:
        evicted.append((url[len(g.API) :].partition("?")[0], json.loads(body or b"")["kind"]))
        return _GONE  # it ended meanwhile

    cluster.host.answer(f"{g.API}/api/v1/pods", answer)
    cluster.host.answer(f"{g.API}/api/v1/namespaces", evict, method="POST")
    apply(ENGINE, cluster.request("n1"), cluster.host)
    apply(ENGINE, cluster.request(), cluster.host)
    assert evicted == [("/api/v1/namespaces/kube-system/pods/kube-proxy-x/eviction", "Eviction")]


def test_a_node_that_has_gone_is_forgotten() -> None:
    cluster = Cluster()
    apply(ENGINE, cluster.request("n2"), cluster.host)
    del cluster.kubelets["n2"]
    apply(ENGINE, cluster.request(), cluster.host)
    assert cluster.host.listdir(f"{g.DIR}/drain") == []


def test_a_node_that_left_while_it_was_drained_is_forgotten_before_it_joins_again() -> None:
    found = LabVersions(NEW, {name: programs(NEW) for name in ("n1", "n2", "n3")}, ("n3",))
    (turn,) = turns(found, count=2)
    assert (turn["node"], turn["drain"], versions_of(turn)) == ("n3", False, {"n1": NEW, "n2": NEW})
    late = LabVersions(NEW, {"n1": programs(OLD), "n3": programs(OLD)}, ("n3",))
    assert [turn["node"] for turn in turns(late, count=2)] == ["n1"], "every turn forgets the drains of others"


def test_an_api_that_does_not_answer_makes_no_drain_forgotten() -> None:
    cluster = Cluster()
    apply(ENGINE, cluster.request("n1"), cluster.host)
    away = json_answer(503, {})
    cluster.host.answer(f"{g.API}/api/v1/nodes/n1", away)
    with pytest.raises(BallastError):
        apply(ENGINE, cluster.request(), cluster.host)
    assert read_versions(cluster.host, g.DIR, cluster.lab).drained == ["n1"]
    cluster.host.answer(f"{g.API}/api/v1/nodes/n1", cluster._get)
    apply(ENGINE, cluster.request(), cluster.host)
    assert (cluster.cordoned, read_versions(cluster.host, g.DIR, cluster.lab).drained) == (set(), [])


def test_what_serves_is_asked_not_what_was_meant() -> None:
    """A run that ended before the control plane was upgraded may be taken back."""
    cluster = Cluster()
    meant = {**cluster.lab, "kubernetes_version": NEW}
    assert read_versions(cluster.host, g.DIR, meant).served == OLD
    assert read_versions(FakeHost(), g.DIR, meant).served == ""
    assert read_versions(FakeHost(), g.DIR, g.lab(target="vm")).served == "1.37.1"
