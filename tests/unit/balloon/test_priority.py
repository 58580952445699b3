# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""node-critical: where it is refused, and what it leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import (
    LABEL,
    NAME,
    REJECTED,
    SETTLED,
    Balloon,
    Fleet,
    Node,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.reading import read_fleet
from ansible_collections.ballast.kube.plugins.module_utils._balloon.deployment.objects import object_steps, read_objects
from ansible_collections.ballast.kube.plugins.module_utils._balloon.deployment.priority import (
    GATE,
    OWNER,
    name_of,
    owner_steps,
    owners,
    write_owner,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.resize_steps import next_step, plan_steps
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.scheduler import Resize, ResizeScheduler
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import MIB, Resources
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, PeerError, Problems
from tests.unit.balloon.test_objects import request, run
from tests.unit.fake_api import FakeApi
from tests.unit.fakes import json_answer

NODES = "/api/v1/nodes"
POLICY = "podPreemptionPolicy"


def cluster_of(*names: str, gate: Optional[object] = True) -> FakeApi:
    cluster = FakeApi()
    for name in names:
        labels = {"kubernetes.io/os": "linux"}
        cluster.add(
            f"{NODES}/{name}", {"metadata": {"name": name, "labels": labels}, "spec": {"podCIDR": "192.0.2.0/24"}}
        )
        gates = {} if gate is None else {GATE: gate}
        kubelet(cluster, name, {"kubeletconfig": {"featureGates": {"Other": True, **gates}}})
    return cluster


def kubelet(cluster: FakeApi, name: str, answer: object, status: int = 200) -> None:
    cluster.answers[f"{NODES}/{name}/proxy/configz"] = json_answer(status, answer)


def names_of(cluster: FakeApi, node: str) -> object:
    return cluster.objects[f"{NODES}/{node}"]["spec"].get(POLICY)


def without_gate(body: dict[str, Any]) -> dict[str, Any]:
    """An API server that drops the field."""
    return (
        {**body, "spec": {key: part for key, part in body["spec"].items() if key != POLICY}}
        if "podCIDR" in body.get("spec", {})
        else body
    )


def refused(cluster: FakeApi) -> BallastError:
    with pytest.raises(BallastError) as caught:
        run(cluster, priority="node-critical")
    return caught.value


def balloon(cluster: FakeApi, node: str, priority: object) -> None:
    path = f"/api/v1/namespaces/kube-system/pods/{NAME}-{node}"
    metadata = {"name": f"{NAME}-{node}", "labels": {LABEL: "true"}}
    cluster.add(path, {"metadata": metadata, "spec": {"nodeName": node, "priority": priority}})


def test_nodes_have_the_policy_before_a_balloon_is_critical() -> None:
    cluster = cluster_of("n1", "n2")
    done = run(cluster, priority="node-critical")
    assert done[:2] == ["change Node n1", "change Node n2"]
    assert done[-1] == f"make DaemonSet {NAME}"
    assert names_of(cluster, "n1") == names_of(cluster, "n2") == {"disableResizePreemption": [OWNER]}
    assert run(cluster, priority="node-critical") == []


def test_never_preempt_asks_no_kubelet_and_writes_to_no_node() -> None:
    cluster = cluster_of("n1", gate=None)
    run(cluster)
    assert names_of(cluster, "n1") is None
    assert not [url for _method, url, _body in cluster.host.requests if "configz" in url or "/pods" in url]


def test_kubelets_without_the_gate_are_named_and_nothing_is_changed() -> None:
    cluster = cluster_of("n1", "n2", "n3", "n4", "n5")
    kubelet(cluster, "n2", {"kubeletconfig": {"featureGates": {GATE: False}}})
    kubelet(cluster, "n3", {"kubeletconfig": {}})
    kubelet(cluster, "n4", {"message": "no route to host"}, status=503)
    kubelet(cluster, "n5", [])
    error = refused(cluster)
    assert error.id == "balloon-critical-gate"
    assert [line.split(":")[0] for line in error.found.splitlines()] == ["n2", "n3", "n4", "n5"]
    assert "n2: off in its configuration" in error.found
    assert "n3: not named in its configuration" in error.found
    assert "no route to host" in error.found
    assert cluster.changes == []


@pytest.mark.parametrize("said", ["true", 1, "yes", {"on": True}, [True]])
def test_only_true_is_on(said: object) -> None:
    assert refused(cluster_of("n1", gate=said)).id == "balloon-critical-gate"


def test_an_api_server_that_drops_the_field_is_found_out_by_a_dry_run() -> None:
    cluster = cluster_of("n1", "n2")
    cluster.stored = without_gate
    error = refused(cluster)
    assert (error.id, error.found) == ("balloon-critical-dropped", "n1, n2")
    assert GATE in error.remedy
    assert cluster.changes == []


def test_both_reasons_are_told_at_once() -> None:
    cluster = cluster_of("n1", gate=None)
    cluster.stored = without_gate
    with pytest.raises(Problems) as caught:
        run(cluster, priority="node-critical")
    assert [one.id for one in caught.value.problems] == ["balloon-critical-gate", "balloon-critical-dropped"]


def test_many_nodes_are_told_as_a_few_and_a_number() -> None:
    cluster = cluster_of(*(f"n{number:03}" for number in range(100)), gate=None)
    assert refused(cluster).found.splitlines()[-1] == "and 95 more"


def test_a_write_that_is_dropped_after_all_is_an_error() -> None:
    """One of several API servers without the gate."""
    cluster = cluster_of("n1")
    asked = request(priority="node-critical")
    (step, *_others) = object_steps(asked, read_objects(cluster.api, asked))
    cluster.stored = without_gate
    with pytest.raises(PeerError) as caught:
        write_owner(cluster.api, step, present=True)
    assert caught.value.id == "balloon-critical-dropped"


def test_the_names_of_others_stay() -> None:
    cluster = cluster_of("n1", "n2")
    cluster.objects[f"{NODES}/n1"]["spec"][POLICY] = {"disableResizePreemption": ["autoscaler.example/x"]}
    run(cluster, priority="node-critical")
    assert names_of(cluster, "n1") == {"disableResizePreemption": ["autoscaler.example/x", OWNER]}
    run(cluster)
    assert names_of(cluster, "n1") == {"disableResizePreemption": ["autoscaler.example/x"]}
    assert names_of(cluster, "n2") is None


def test_who_was_faster_is_not_overwritten() -> None:
    cluster = cluster_of("n1")
    path = f"{NODES}/n1"
    (step,) = owner_steps([cluster.objects[path]], present=True)

    def meanwhile() -> None:
        cluster.add(path, {**cluster.objects[path], "spec": {POLICY: {"disableResizePreemption": ["them"]}}})

    cluster.before[path] = meanwhile
    write_owner(cluster.api, step, present=True)
    assert names_of(cluster, "n1") == {"disableResizePreemption": ["them", OWNER]}


def test_a_node_that_others_change_all_the_time_is_no_hang() -> None:
    cluster = cluster_of("n1")
    path = f"{NODES}/n1"
    (step,) = owner_steps([cluster.objects[path]], present=True)

    def meanwhile() -> None:
        cluster.add(path, cluster.objects[path])
        cluster.before[path] = meanwhile

    cluster.before[path] = meanwhile
    with pytest.raises(PeerError) as caught:
        write_owner(cluster.api, step, present=True)
    assert caught.value.id == "balloon-critical-conflict"


def test_a_node_keeps_its_policy_as_long_as_its_balloon_is_critical() -> None:
    """Pods of a DaemonSet that is OnDelete have the class of before until they are deleted."""
    cluster = cluster_of("n1", "n2")
    run(cluster, priority="node-critical")
    balloon(cluster, "n1", 2_000_001_000)
    balloon(cluster, "n2", 1_000_000_000)
    assert run(cluster) == [f"change DaemonSet {NAME}", "change Node n2"]
    assert names_of(cluster, "n1") == {"disableResizePreemption": [OWNER]}
    balloon(cluster, "n1", 1_000_000_000)
    assert run(cluster) == ["change Node n1"]
    assert names_of(cluster, "n1") is None


def test_a_removal_takes_the_policy_too() -> None:
    cluster = cluster_of("n1")
    run(cluster, priority="node-critical")
    balloon(cluster, "n1", 2_000_001_000)
    done = run(cluster, state="absent", priority="node-critical")
    assert done[0] == f"remove DaemonSet {NAME}"
    assert done[-1] == "change Node n1"
    assert names_of(cluster, "n1") is None


FLOOR_SIZE, LARGE = Resources(1, 16 * MIB), Resources(1000, 2**30)
ALL = Resources(4000, 8 * 2**30)


def sized_node(size: Resources, *, priority: int, forbids: bool = False) -> Node:
    there = Balloon("kube-system", "b", "u", "1", size, size, size, SETTLED, priority=priority)
    return Node("n1", "h1", ALL, ALL, (1, 37), True, balloon=there, forbids_preemption=forbids)


@pytest.mark.parametrize(
    ("priority", "forbids", "grows"),
    [(0, False, True), (1_000_000_000, False, True), (2_000_001_000, True, True), (2_000_001_000, False, False)],
)
def test_a_critical_balloon_grows_only_where_its_node_forbids_preemption(
    priority: int, forbids: bool, grows: bool
) -> None:
    """A Node that has registered anew has lost that, and its balloon may be critical still."""
    before = sized_node(FLOOR_SIZE, priority=priority, forbids=forbids)
    fleet = Fleet({"n1": before}, {"h1": ALL}, {"h1": Resources(0, 0)})
    scheduler = ResizeScheduler({"n1": ALL - LARGE}, grow_timeout=30.0)
    actions = scheduler.decide(fleet, 0.0)
    assert [action.size for action in actions if isinstance(action, Resize)] == ([LARGE] if grows else [])
    assert plan_steps(fleet, {"n1": ALL - LARGE}) != () or not grows
    if not grows:
        assert scheduler.finished
        assert scheduler.outcomes["n1"].outcome == REJECTED
        assert "balloon-would-preempt" in scheduler.outcomes["n1"].text


def test_a_critical_balloon_shrinks_anywhere() -> None:
    before = sized_node(LARGE, priority=2_000_001_000)
    step = next_step(before, ALL - FLOOR_SIZE)
    assert step is not None
    assert step.after == FLOOR_SIZE
    scheduler = ResizeScheduler({"n1": ALL - FLOOR_SIZE}, grow_timeout=30.0)
    scheduler.decide(Fleet({"n1": replace(before, ready=False)}, {"h1": ALL}, {"h1": Resources(0, 0)}), 0.0)
    assert not scheduler.finished, "its kubelet is waited for"


def test_what_a_node_forbids_is_read_from_its_policy() -> None:
    status = {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}, "nodeInfo": {"kubeletVersion": "v1.37.1"}}
    for said, wanted in ((None, False), ([], False), (["them"], True)):
        item = {"metadata": {"name": "n1"}, "spec": {POLICY: {"disableResizePreemption": said}}, "status": status}
        assert read_fleet([item], [], namespace="x").fleet.nodes["n1"].forbids_preemption is wanted


@pytest.mark.parametrize("said", [OWNER, [1], {OWNER: True}, 7])
def test_owners_of_another_form_are_no_owners(said: object) -> None:
    cluster = cluster_of("n1")
    cluster.objects[f"{NODES}/n1"]["spec"][POLICY] = {"disableResizePreemption": said}
    assert refused(cluster).id == "balloon-object"
    assert cluster.changes == []


@pytest.mark.parametrize("name", ["", "a/b", "../pods", "N1", "n 1", 7, None])
def test_a_name_that_is_no_part_of_a_path_is_refused(name: object) -> None:
    with pytest.raises(PeerError) as caught:
        name_of({"metadata": {"name": name}})
    assert caught.value.id == "balloon-object"


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.sampled_from(["spec", POLICY, "name", "x"]), part),
    max_leaves=8,
)


@given(ANY, st.sampled_from(["spec", "policy", "list"]))
def test_a_node_of_any_form_is_read_or_refused(found: Any, place: str) -> None:
    policy = {"disableResizePreemption": found} if place == "list" else found
    node = {"metadata": found, "spec": found if place == "spec" else {POLICY: policy}}
    for read in (owners, name_of):
        error = error_of(read, node)
        assert error is None or error.id == "balloon-object"


def error_of(read: Callable[[dict[str, Any]], object], node: dict[str, Any]) -> Optional[PeerError]:
    try:
        read(node)
    except PeerError as error:
        return error
    return None
