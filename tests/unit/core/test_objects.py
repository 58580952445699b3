# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Objects of the API as steps."""

from __future__ import annotations

import json
from typing import Any, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.kube.objects import (
    OURS,
    Object,
    ObjectStep,
    apply_step,
    find_objects,
    is_ours,
    object_steps,
    steps_as_result,
    steps_diff,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, PeerError, Problems
from tests.unit.fake_api import FakeApi

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
SETS = "/apis/apps/v1/namespaces/x/daemonsets"
ROLE: Object = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "r", "labels": {**OURS}},
    "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}],
}
SET: Object = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "d", "namespace": "x", "labels": {**OURS, "tier": "low"}},
    "spec": {"template": {"spec": {"containers": [{"name": "one", "image": "a"}]}}},
}
WANTED: dict[str, Object] = {f"{ROLES}/r": ROLE, f"{SETS}/d": SET}


def foreign(kind: str, name: str) -> BallastError:
    return PeerError(f"{kind} {name} is foreign", id="foreign")


def steps(
    cluster: FakeApi, *, present: bool = True, wanted: Optional[dict[str, Object]] = None
) -> tuple[ObjectStep, ...]:
    """Of WANTED, unless something else is."""
    asked = WANTED if wanted is None else wanted
    return object_steps(asked, find_objects(cluster.api, asked), present=present, foreign=foreign)


def run(cluster: FakeApi, **asked: Any) -> list[str]:
    """The titles of what was done."""
    done = steps(cluster, **asked)
    for step in done:
        apply_step(cluster.api, step)
    assert steps(cluster, **asked) == (), "a second run has nothing to do"
    return [f"{step.verb} {step.title}" for step in done]


def changed(**spec: object) -> dict[str, Object]:
    return {f"{ROLES}/r": ROLE, f"{SETS}/d": {**SET, "spec": {**SET["spec"], **spec}}}


def test_objects_come_in_their_order_and_go_the_other_way_round() -> None:
    cluster = FakeApi()
    assert run(cluster) == ["make ClusterRole r", "make DaemonSet d"]
    assert cluster.changes == [f"POST {ROLES}", f"POST {SETS}"]
    assert all("fieldManager=ballast" in url for method, url, _body in cluster.host.requests if method == "POST")
    assert run(cluster, present=False) == ["remove DaemonSet d", "remove ClusterRole r"]
    assert cluster.objects == {}
    assert run(cluster, present=False) == []


def test_what_the_server_fills_in_is_no_difference() -> None:
    cluster = FakeApi()
    cluster.stored = lambda body: {**body, "status": {"ready": 3}, "filled": True}
    run(cluster)
    found = cluster.objects[f"{SETS}/d"]
    found["spec"]["template"]["spec"]["dnsPolicy"] = "ClusterFirst"
    found["spec"]["template"]["spec"]["containers"][0]["terminationMessagePath"] = "/dev/termination-log"
    assert steps(cluster) == ()


@pytest.mark.parametrize(
    "break_it",
    [
        lambda found: found["spec"]["template"]["spec"]["containers"][0].update(image="b"),
        lambda found: found["spec"]["template"]["spec"]["containers"].append({"name": "two"}),
        lambda found: found["spec"].update(template=None),
        lambda found: found.pop("spec"),
        lambda found: found["metadata"]["labels"].update(tier="high"),
    ],
)
def test_what_somebody_changed_is_put_back(break_it: Any) -> None:
    cluster = FakeApi()
    run(cluster)
    break_it(cluster.objects[f"{SETS}/d"])
    assert run(cluster) == ["change DaemonSet d"]


def test_a_change_keeps_the_marks_of_others_and_replaces_the_rest() -> None:
    cluster = FakeApi()
    run(cluster)
    found = cluster.objects[f"{SETS}/d"]
    found["metadata"]["labels"]["theirs"] = "1"
    found["metadata"]["annotations"] = {"deprecated.daemonset.template.generation": "1"}
    found["spec"]["paused"] = True
    assert run(cluster, wanted=changed(minReadySeconds=4)) == ["change DaemonSet d"]
    found = cluster.objects[f"{SETS}/d"]
    assert found["metadata"]["labels"] == {**OURS, "tier": "low", "theirs": "1"}
    assert found["metadata"]["annotations"] == {"deprecated.daemonset.template.generation": "1"}
    assert "paused" not in found["spec"]


@pytest.mark.parametrize("present", [True, False])
def test_all_that_is_not_ours_is_named_and_none_of_it_touched(present: bool) -> None:
    cluster = FakeApi()
    for path, one in WANTED.items():
        cluster.add(path, {**one, "metadata": {"name": "x", "labels": {"app.kubernetes.io/managed-by": "helm"}}})
    with pytest.raises(Problems) as caught:
        steps(cluster, present=present)
    assert [one.text for one in caught.value.problems] == ["ClusterRole r is foreign", "DaemonSet d is foreign"]
    assert cluster.changes == []


@pytest.mark.parametrize("asked", [{"wanted": changed(minReadySeconds=1)}, {"present": False}])
def test_who_was_faster_is_not_overwritten(asked: dict[str, Any]) -> None:
    cluster = FakeApi()
    run(cluster)
    (step,) = [one for one in steps(cluster, **asked) if one.kind == "DaemonSet"]
    cluster.add(step.path, {**SET, "metadata": {"name": "d", "labels": {}}})
    with pytest.raises(PeerError) as caught:
        apply_step(cluster.api, step)
    assert caught.value.id == "core-api-conflict"
    assert cluster.objects[step.path]["metadata"]["labels"] == {}


def test_what_was_made_meanwhile_is_not_overwritten() -> None:
    cluster = FakeApi()
    (_role, step) = steps(cluster)
    cluster.add(step.path, {**SET, "metadata": {"name": "d", "labels": {}}})
    with pytest.raises(PeerError) as caught:
        apply_step(cluster.api, step)
    assert caught.value.id == "core-api-conflict"


def test_steps_are_told_and_shown() -> None:
    cluster = FakeApi()
    (made, _other) = steps_diff(steps(cluster))
    assert made["before"] == ""
    assert json.loads(made["after"]) == {"metadata": {"labels": {**OURS}}, "rules": ROLE["rules"]}
    run(cluster)
    cluster.objects[f"{SETS}/d"]["spec"]["filled"] = "in"
    planned = steps(cluster, wanted=changed(minReadySeconds=4))
    assert steps_as_result(planned) == [
        {"kind": "DaemonSet", "verb": "change", "title": "DaemonSet d", "target": f"{SETS}/d"}
    ]
    (shown,) = steps_diff(planned)
    assert shown["before_header"] == shown["after_header"] == "DaemonSet d"
    before, after = json.loads(shown["before"]), json.loads(shown["after"])
    assert after["spec"].pop("minReadySeconds") == 4
    assert before == after, "nothing else is shown as a difference"
    (gone, _other) = steps_diff(steps(cluster, present=False))
    assert gone["after"] == ""
    assert json.loads(gone["before"])["spec"]["filled"] == "in"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=3), part, max_size=3),
        max_leaves=8,
    )
)
def test_an_answer_of_any_form_is_not_ours_and_no_traceback(found: Any) -> None:
    there = {"kind": "DaemonSet", "metadata": found, "spec": found}
    assert not is_ours(there)
    ours = {**there, "metadata": {"labels": {**OURS}, "name": found}}
    (step,) = object_steps({f"{SETS}/d": SET}, {f"{SETS}/d": ours}, present=True, foreign=foreign)
    assert steps_diff([step])[0]["before"]
