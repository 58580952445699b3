# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a change of a DaemonSet is refused or given up: others edit its objects, these have another form, or nothing acts on them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.daemonset.engine import DaemonSetEngine
from tests.unit.kube_proxy.daemonset_cluster import KUBECONFIG, MAPS, SETS, Cluster, daemonset
from tests.unit.kube_proxy.daemonset_runs import CANARY, ORIGINAL, ZONES, desired, make, moved, planned, refused, run


def test_a_conflict_is_tried_again_and_the_others_edit_is_kept_and_told() -> None:
    cluster = Cluster()
    path = f"{SETS}/{ORIGINAL}"

    def label_it(method: str, where: str) -> None:
        if (method, where) == ("PUT", path):
            cluster.before_write.clear()
            cluster.edit(path, lambda found: found["metadata"]["labels"].update(team="net"))

    cluster.before_write.append(label_it)
    _plan, findings = run(cluster, "canary")
    assert [(one.id, one.blocking) for one in findings] == [("daemonset-meanwhile", False)]
    assert cluster.objects[path]["metadata"]["labels"] == {"k8s-app": ORIGINAL, "team": "net"}
    moved(cluster, "n1")
    assert cluster.runs()["n1"] == CANARY


def test_conflicts_without_an_end_are_given_up() -> None:
    cluster = Cluster()
    path = f"{SETS}/{ORIGINAL}"

    def spoil(method: str, where: str) -> None:
        if (method, where) == ("PUT", path):
            cluster.edit(path, lambda found: found["metadata"].update(noise=cluster.uids()))

    cluster.before_write.append(spoil)
    with pytest.raises(BallastError) as caught:
        run(cluster, "canary")
    assert caught.value.id == "daemonset-conflict"


def test_an_edit_that_is_undone_by_others_is_told_as_a_failure() -> None:
    cluster = Cluster()
    wanted, engine, progress = desired("canary"), DaemonSetEngine(), Progress(NullSink(), feature="kube-proxy")
    engine.apply(
        engine.plan(wanted, engine.observe(Context(wanted, cluster.host))), Context(wanted, cluster.host, progress)
    )
    cluster.edit(f"{MAPS}/{CANARY}", lambda found: found["data"].update({"config.conf": "mode: ipvs"}))
    findings = engine.verify(Context(wanted, cluster.host, progress))
    assert [(one.id, one.blocking) for one in findings] == [("daemonset-lost", True)]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda found: found["spec"]["template"]["spec"].update(affinity=ZONES), "affinity"),
        (lambda found: found["spec"].update(updateStrategy={"type": "RollingUpdate"}), "updateStrategy"),
        (lambda found: found["metadata"]["annotations"].update({"ballast.kube/kube-proxy-canaries": "{}"}), "annot"),
        (lambda found: found["metadata"]["annotations"].update({"ballast.kube/kube-proxy-canaries": "["}), "annot"),
    ],
)
def test_what_was_set_for_canaries_and_is_changed_by_others_is_told(change: Any, field: str) -> None:
    cluster = Cluster()
    make(cluster, "canary")
    cluster.blind = True  # or the controller would start pods anew for it
    cluster.edit(f"{SETS}/{ORIGINAL}", change)
    cluster.blind = False
    cluster.objects[f"{SETS}/{ORIGINAL}"]["status"]["observedGeneration"] = 99
    error = refused(cluster, "absent")
    assert error.id == "daemonset-changed"
    assert field in error.text


@pytest.mark.parametrize("kind", [MAPS, SETS])
def test_an_object_of_others_with_our_name_is_left_alone(kind: str) -> None:
    cluster = Cluster()
    foreign = deepcopy(cluster.objects[f"{kind}/{ORIGINAL}"])
    foreign["metadata"] = {"name": CANARY, "labels": {}}
    cluster.objects[f"{kind}/{CANARY}"] = foreign
    assert refused(cluster, "canary").id == "daemonset-foreign"


@pytest.mark.parametrize(
    ("original", "config", "id"),
    [
        (daemonset(pod={"volumes": []}), None, "daemonset-shape"),
        (daemonset(selector={"matchExpressions": [{"key": "a", "operator": "Exists"}]}), None, "daemonset-shape"),
        (None, "- a\n", "migrate-config-shape"),
        (None, "a: [", "core-document"),
    ],
)
def test_a_daemonset_of_another_form_is_not_touched(original: Any, config: Any, id: str) -> None:
    cluster = Cluster(original=original, **({"config": config} if config else {}))
    assert refused(cluster, "canary").id == id


def test_what_is_not_there_is_named() -> None:
    cluster = Cluster()
    assert refused(cluster, "canary", name="kube-proxi").id == "daemonset-none"
    del cluster.objects[f"{MAPS}/{ORIGINAL}"]
    assert "ConfigMap kube-proxy" in refused(cluster, "canary").text
    cluster.host.remove(KUBECONFIG)
    assert refused(cluster, "canary").id == "daemonset-kubeconfig"


def test_a_controller_that_does_not_act_is_told() -> None:
    cluster = Cluster()
    cluster.blind = True
    cluster.edit(f"{SETS}/{ORIGINAL}", lambda found: found["spec"].update(revisionHistoryLimit=3))
    assert refused(cluster, "canary").id == "daemonset-controller"


@pytest.mark.parametrize("answer", [[], 7, {"spec": 1}, {"metadata": {}, "spec": {"template": {}, "selector": {}}}])
def test_nonsense_of_the_api_server_is_told_without_a_traceback(answer: Any) -> None:
    cluster = Cluster()
    cluster.objects[f"{SETS}/{ORIGINAL}"] = answer
    with pytest.raises(BallastError) as caught:
        planned(cluster, "canary")
    assert caught.value.id in ("daemonset-shape", "daemonset-answer", "core-api-answer")


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "Kube"},
        {"name": "x" * 60},
        {"namespace": "a.b"},
        {"config": {"mode": "ipvs"}},
        {"config": {"nosuch": 1}},
        {"config": {"nftables": {"syncPeriod": 3}}},
    ],
)
def test_an_ill_request_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(BallastError) as caught:
        desired("canary", **changes)
    assert not isinstance(caught.value, Problems)
