# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes to another mode one by one, where a DaemonSet runs kube-proxy."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.daemonset.engine import (
    DaemonSetEngine,
    _batch_size,
)
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.daemonset.objects import FORMER
from tests.unit.fakes import Killed
from tests.unit.kube_proxy.daemonset_cluster import HASH, LABEL, MAPS, PODS, SETS, Cluster, Object, daemonset
from tests.unit.kube_proxy.daemonset_runs import (
    CANARY,
    ORIGINAL,
    ZONES,
    config_of,
    desired,
    make,
    moved,
    planned,
    refused,
    run,
)


def test_canaries_change_nothing_on_a_node_that_is_not_moved() -> None:
    cluster = Cluster()
    pods = cluster.uids()
    make(cluster, "canary", config={"nftables": {"syncPeriod": "1s"}, "clusterCIDR": None})
    assert cluster.uids() == pods
    moved(cluster, "n2")
    assert cluster.runs() == {"n1": ORIGINAL, "n2": CANARY, "n3": ORIGINAL}
    assert {node: uid for node, uid in cluster.uids().items() if node != "n2"} == {
        node: uid for node, uid in pods.items() if node != "n2"
    }
    assert config_of(cluster, CANARY) == {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "nftables": {"syncPeriod": "1s"},
    }
    assert config_of(cluster, ORIGINAL)["mode"] == "iptables"


def test_canaries_are_a_copy_with_pods_of_their_own() -> None:
    cluster = Cluster()
    make(cluster, "canary")
    spec = cluster.objects[f"{SETS}/{CANARY}"]["spec"]
    assert spec["selector"] == {"matchLabels": {"k8s-app": CANARY}}
    assert spec["template"]["metadata"]["labels"] == {"k8s-app": CANARY}
    assert spec["template"]["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux", LABEL: "nftables"}
    assert spec["template"]["spec"]["volumes"][0]["configMap"]["name"] == CANARY
    assert spec["template"]["spec"]["containers"] == daemonset()["spec"]["template"]["spec"]["containers"]
    assert spec["updateStrategy"] == daemonset()["spec"]["updateStrategy"]
    assert "affinity" not in spec["template"]["spec"]


@pytest.mark.parametrize("affinity", [None, ZONES], ids=["none", "of its own"])
def test_absent_puts_everything_back_as_it_was(affinity: Any) -> None:
    cluster = Cluster(original=daemonset(pod={"affinity": affinity} if affinity else {}))
    before, pods = cluster.state(), cluster.uids()
    make(cluster, "canary")
    assert cluster.state() != before
    moved(cluster, "n1", "n3")
    assert refused(cluster, "absent").id == "daemonset-used"
    cluster.label("n1", None)
    assert "n3" in str(refused(cluster, "absent"))
    cluster.label("n3", None)
    started = list(cluster.started)
    make(cluster, "absent")
    assert cluster.state() == before
    assert cluster.started == started, "nobody was started for the sake of the template"
    assert cluster.uids()["n2"] == pods["n2"]


@pytest.mark.parametrize("affinity", [None, ZONES], ids=["none", "of its own"])
def test_final_leaves_one_of_each_and_starts_each_pod_once(affinity: Any) -> None:
    cluster = Cluster(original=daemonset(pod={"affinity": affinity} if affinity else {}))
    wanted = cluster.state()
    wanted[f"{MAPS}/{ORIGINAL}"]["data"]["config.conf"] = ""
    make(cluster, "canary")
    moved(cluster, "n1", "n2", "n3")
    cluster.started.clear()
    cluster.worst.clear()
    make(cluster, "final")
    assert sorted(cluster.started) == [("n1", ORIGINAL), ("n2", ORIGINAL), ("n3", ORIGINAL)]
    assert set(cluster.worst) == {1}, "each node had one kube-proxy all the time"
    assert config_of(cluster, ORIGINAL)["mode"] == "nftables"
    found = cluster.state()
    found[f"{MAPS}/{ORIGINAL}"]["data"]["config.conf"] = ""
    assert list(found[f"{MAPS}/{ORIGINAL}"]["metadata"].pop("annotations")) == [FORMER]
    assert found == wanted
    assert set(cluster.labels().values()) == {"nftables"}
    assert make(cluster, "canary").steps == (), "all nodes are of the mode"


def test_an_affinity_of_its_own_still_holds_beside_canaries() -> None:
    cluster = Cluster(original=daemonset(pod={"affinity": ZONES}))
    make(cluster, "canary")
    found = cluster.objects[f"{SETS}/{ORIGINAL}"]["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    terms = found["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    rows = [[(row["key"], row["operator"], row["values"]) for row in term["matchExpressions"]] for term in terms]
    not_in = (LABEL, "NotIn", ["nftables"])
    own = (("kubernetes.io/os", "In", ["linux"]), ("zone", "In", ["none"]))
    assert rows == [[one, not_in] for one in own], "terms are alternatives"
    kept = "preferredDuringSchedulingIgnoredDuringExecution"
    assert found[kept] == ZONES["nodeAffinity"][kept]
    assert cluster.objects[f"{SETS}/{CANARY}"]["spec"]["template"]["spec"]["affinity"] == ZONES


def test_final_names_the_nodes_that_are_left() -> None:
    cluster = Cluster()
    assert refused(cluster, "final").id == "daemonset-no-canary"
    make(cluster, "canary")
    moved(cluster, "n1")
    error = refused(cluster, "final")
    assert (error.id, "n2, n3" in error.text, "n1" in error.text) == ("daemonset-left", True, False)
    cluster.stuck.add("n3")
    moved(cluster, "n2", "n3")
    error = refused(cluster, "final")
    assert (error.id, "on n3" in error.text) == ("daemonset-not-ready", True)


def test_a_node_that_is_not_for_kube_proxy_is_not_waited_for() -> None:
    cluster = Cluster()
    cluster.objects["/api/v1/nodes/n3"]["metadata"]["labels"]["kubernetes.io/os"] = "windows"
    cluster.act()
    make(cluster, "canary")
    moved(cluster, "n1", "n2")
    make(cluster, "final")
    assert cluster.runs() == {"n1": ORIGINAL, "n2": ORIGINAL, "n3": ""}


def test_a_label_that_is_there_too_early_is_told() -> None:
    cluster = Cluster()
    moved(cluster, "n2")
    error = refused(cluster, "canary")
    assert (error.id, "n2" in error.text) == ("daemonset-early", True)


def test_two_modes_may_have_canaries_but_one_becomes_final() -> None:
    cluster = Cluster()
    before = cluster.state()
    make(cluster, "canary")
    make(cluster, "canary", mode="ipvs")
    cluster.label("n1", "nftables")
    cluster.label("n2", "ipvs")
    assert cluster.runs() == {"n1": CANARY, "n2": "kube-proxy-ipvs", "n3": ORIGINAL}
    assert refused(cluster, "final").id == "daemonset-other"
    cluster.label("n2", "nftables")
    make(cluster, "absent", mode="ipvs")
    assert cluster.runs() == {"n1": CANARY, "n2": CANARY, "n3": ORIGINAL}
    for node in ("n1", "n2"):
        cluster.label(node, None)
    make(cluster, "absent")
    assert cluster.state() == before


def test_a_changed_configuration_starts_the_canaries_anew_and_nobody_else() -> None:
    cluster = Cluster()
    make(cluster, "canary")
    moved(cluster, "n1")
    cluster.started.clear()
    make(cluster, "canary", config={"nftables": {"masqueradeAll": True}})
    assert cluster.started == [("n1", CANARY)]


def test_an_upgrade_meanwhile_reaches_the_canaries_and_is_not_undone() -> None:
    cluster = Cluster()
    make(cluster, "canary")
    moved(cluster, "n1")

    def upgrade(found: Object) -> None:
        found["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example/kube-proxy:v1.37.2"

    cluster.edit(f"{SETS}/{ORIGINAL}", upgrade)
    make(cluster, "canary")
    assert cluster.objects[f"{SETS}/{CANARY}"]["spec"]["template"]["spec"]["containers"][0]["image"].endswith("37.2")
    cluster.label("n1", None)
    cluster.started.clear()
    make(cluster, "absent")
    found = cluster.objects[f"{SETS}/{ORIGINAL}"]["spec"]["template"]["spec"]["containers"][0]["image"]
    assert found.endswith("37.2")
    assert cluster.started == [("n2", ORIGINAL), ("n3", ORIGINAL)], (
        "pods of the old image, and not n1, which has the new"
    )


@pytest.mark.parametrize("state", ["canary", "final", "absent"])
def test_killed_at_any_write_the_next_run_ends_the_same(state: str) -> None:
    def prepared() -> Cluster:
        cluster = Cluster()
        if state != "canary":
            make(cluster, "canary")
        if state == "final":
            moved(cluster, "n1", "n2", "n3")
        return cluster

    ended = prepared()
    make(ended, state)
    number = 0
    while True:
        number += 1
        cluster = prepared()
        cluster.worst.clear()
        cluster.host.fail_at(number)
        try:
            run(cluster, state)
        except Killed:
            assert all(cluster.runs().values()), "kube-proxy runs everywhere while nobody is at work"
            make(cluster, state)
            assert cluster.state() == ended.state(), number
            assert cluster.labels() == ended.labels()
            assert set(cluster.worst) == {1}
            continue
        break
    assert number > 3


def test_another_state_is_refused_until_a_killed_final_is_finished() -> None:
    cluster = Cluster()
    make(cluster, "canary")
    moved(cluster, "n1", "n2", "n3")
    cluster.host.fail_at(4)
    with pytest.raises(Killed):
        run(cluster, "final")
    assert refused(cluster, "absent").id == "daemonset-finishing"
    assert refused(cluster, "canary").id == "daemonset-finishing"


def test_check_mode_asks_and_writes_nothing() -> None:
    cluster = Cluster()
    plan = planned(cluster, "canary")
    assert [(step.verb, step.title) for step in plan.steps] == [
        ("make", f"ConfigMap {CANARY}"),
        ("make", f"DaemonSet {CANARY}"),
        ("change", f"DaemonSet {ORIGINAL}"),
    ]
    told = str(DaemonSetEngine().diff(plan))
    assert "mode: nftables" in told
    assert "OnDelete" in told
    assert "hunter2" not in told
    assert cluster.host.effects == []


def test_a_pod_that_does_not_start_ends_the_run_where_it_is() -> None:
    cluster = Cluster()
    make(cluster, "canary")
    moved(cluster, "n1", "n2", "n3")
    cluster.stuck.add("n2")
    with pytest.raises(BallastError) as caught:
        run(cluster, "final")
    assert caught.value.id == "core-wait-deadline"
    assert "n2: starting" in caught.value.found
    assert cluster.runs() == {"n1": ORIGINAL, "n2": ORIGINAL, "n3": CANARY}
    for pod in [one for path, one in cluster.objects.items() if path.startswith(f"{PODS}/")]:
        pod["status"]["conditions"][0]["status"] = "True"
    make(cluster, "final")
    assert set(cluster.runs().values()) == {ORIGINAL}


@pytest.mark.parametrize(
    ("strategy", "count", "size"),
    [
        ({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}, 9, 1),
        ({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}}, 25, 3),
        ({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}, 9, 1),
        ({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "many"}}, 9, 1),
        ({"type": "OnDelete"}, 9, 1),
        ({}, 9, 1),
    ],
)
def test_as_many_nodes_at_a_time_as_the_strategy_allows(strategy: Any, count: int, size: int) -> None:
    assert _batch_size(strategy, count) == size


def test_the_report_says_which_nodes_run_on_which() -> None:
    cluster, engine = Cluster(), DaemonSetEngine()
    make(cluster, "canary")
    moved(cluster, "n2")
    assert engine.report(Context(desired("canary"), cluster.host)) == {
        "canary": CANARY,
        "modes": ["nftables"],
        "nodes": {"original": ["n1", "n3"], "canary": ["n2"]},
    }
    hashes = {pod["metadata"]["labels"][HASH] for path, pod in cluster.objects.items() if path.startswith(f"{PODS}/")}
    assert len(hashes) == 2
