# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from ansible_collections.ballast.kube.plugins.module_utils._pulls.priority.engine import (
    ANNOTATION,
    ENGINE,
    NAME,
    ImagePullPriorityRequest,
    Plan,
)
from tests.unit.fakes import FakeHost, json_answer

GROUP = "/apis/admissionregistration.k8s.io"
SERVER = "https://192.0.2.1:6443"
POLICIES, BINDINGS = "mutatingadmissionpolicies", "mutatingadmissionpolicybindings"
PROGRESS = Progress(NullSink(), feature="test")


class Cluster:
    """An API server that serves both kinds in the versions given, and fills in a default as a real one does."""

    def __init__(self, tmp_path: Path, *versions: str) -> None:
        config = {
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "me"}}],
            "clusters": [{"name": "it", "cluster": {"server": SERVER}}],
            "users": [{"name": "me", "user": {"token": "hunter2"}}],
        }
        self.path = tmp_path / "admin.conf"
        self.path.write_text(json.dumps(config))
        self.host = FakeHost(files={str(self.path): json.dumps(config)})
        self.objects: dict[str, dict[str, Any]] = {}
        self._versions = versions
        for method in ("GET", "POST", "PUT", "DELETE"):
            self.host.answer(SERVER, lambda url, body, method=method: self._answer(method, url, body), method=method)

    @property
    def changes(self) -> list[str]:
        return [
            f"{method} {url.split('/')[-1].split('?')[0]}"
            for method, url, _body in self.host.requests
            if method != "GET"
        ]

    def _answer(self, method: str, url: str, body: Optional[bytes]) -> Response:
        path = url[len(SERVER) :].split("?")[0]
        version, _slash, rest = path[len(GROUP) + 1 :].partition("/")
        if version not in self._versions:
            return json_answer(404, {"message": "not found"})
        if not rest:
            return json_answer(200, {"resources": [{"name": POLICIES}, {"name": BINDINGS}, {"name": "others"}]})
        if method in ("POST", "PUT"):
            given = json.loads(body or b"")
            stored = {**given, "metadata": {**given["metadata"], "resourceVersion": "7"}}
            stored["spec"] = {**stored["spec"], "filledIn": True}
            self.objects[f"{path}/{NAME}" if method == "POST" else path] = stored
            return json_answer(201, stored)
        if path not in self.objects:
            return json_answer(404, {"message": "not found"})
        return json_answer(200, self.objects[path] if method == "GET" else self.objects.pop(path))

    def desired(self, **changes: str) -> ImagePullPriorityRequest:
        params = {
            "state": "present",
            "kubeconfig": str(self.path),
            "context": None,
            "annotation": ANNOTATION,
            **changes,
        }
        return ImagePullPriorityRequest.from_params(params)

    def run(self, **changes: str) -> Plan:
        desired = self.desired(**changes)
        plan = ENGINE.plan(desired, ENGINE.observe(Context(desired, self.host)))
        ENGINE.apply(plan, Context(desired, self.host, PROGRESS))
        assert ENGINE.verify(Context(desired, self.host, PROGRESS)) == []
        return plan


def error(cluster: Cluster, **changes: str) -> BallastError:
    with pytest.raises(BallastError) as caught:
        cluster.run(**changes)
    return caught.value


def test_policy_and_binding_come_and_go_in_their_order(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "v1")
    cluster.run()
    assert cluster.changes == [f"POST {POLICIES}", f"POST {BINDINGS}"]
    (policy,) = [stored for path, stored in cluster.objects.items() if f"/{POLICIES}/" in path]
    assert policy["spec"]["failurePolicy"] == "Ignore", "no pod is refused for want of an annotation"
    assert '"image-pulls.ballast.dev/priority": string(object.spec.priority)' in json.dumps(policy).replace('\\"', '"')
    assert cluster.run().steps == ()
    assert len(cluster.changes) == 2
    cluster.run(state="absent")
    assert cluster.objects == {}
    assert cluster.changes[2:] == [f"DELETE {NAME}"] * 2
    removed = [url for method, url, _body in cluster.host.requests if method == "DELETE"]
    assert [BINDINGS in url for url in removed] == [True, False]
    assert [step.kind for step in cluster.run(state="absent").steps] == []


def test_another_annotation_changes_the_policy_alone(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "v1")
    cluster.run()
    plan = cluster.run(annotation="example.com/Prio")
    assert [f"{step.verb} {step.title}" for step in plan.steps] == [f"change MutatingAdmissionPolicy {NAME}"]
    assert "example.com/Prio" in ENGINE.diff(plan)[0]["after"]


@pytest.mark.parametrize(("versions", "used"), [(("v1", "v1beta1"), "v1"), (("v1beta1",), "v1beta1")])
def test_the_newest_version_that_is_served_is_used(tmp_path: Path, versions: tuple[str, ...], used: str) -> None:
    cluster = Cluster(tmp_path, *versions)
    cluster.run()
    assert all(path.startswith(f"{GROUP}/{used}/") for path in cluster.objects)
    assert {stored["apiVersion"] for stored in cluster.objects.values()} == {f"admissionregistration.k8s.io/{used}"}


def test_a_server_without_it_is_told_of_and_not_changed(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "v1alpha1")
    assert error(cluster).id == "pulls-priority-unserved"
    assert cluster.changes == []
    assert cluster.run(state="absent").steps == ()


@pytest.mark.parametrize("state", ["present", "absent"])
def test_what_somebody_else_made_is_not_touched(tmp_path: Path, state: str) -> None:
    cluster = Cluster(tmp_path, "v1")
    path = f"{GROUP}/v1/{BINDINGS}/{NAME}"
    cluster.objects[path] = {"metadata": {"name": NAME, "labels": {"app.kubernetes.io/managed-by": "helm"}}, "spec": {}}
    assert error(cluster, state=state).id == "pulls-priority-foreign"
    assert cluster.changes == []


def test_every_fault_is_told_at_once(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "v1")
    with pytest.raises(Problems) as caught:
        cluster.desired(kubeconfig="/nowhere", annotation='x"+"y')
    assert [problem.id for problem in caught.value.problems] == [
        "pulls-priority-kubeconfig",
        "pulls-priority-annotation",
    ]
