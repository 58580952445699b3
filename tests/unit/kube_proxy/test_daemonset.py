# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes to another mode one by one, where a DaemonSet runs kube-proxy."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import yaml

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.engine import Finding
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.daemonset.engine import (
    DaemonSetEngine,
    _batch_size,
)
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.daemonset.model import SPEC, DaemonSetRequest
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.daemonset.objects import FORMER
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.daemonset.plan import Plan
from tests.unit.fakes import Killed
from tests.unit.kube_proxy.daemonset_cluster import (
    HASH,
    KUBECONFIG,
    LABEL,
    MAPS,
    PODS,
    SETS,
    Cluster,
    Object,
    daemonset,
)

ORIGINAL, CANARY = "kube-proxy", "kube-proxy-nftables"
ZONES = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}],
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]},
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["none"]}]},
            ]
        },
    }
}


def params(state: str, **changes: Any) -> dict[str, Any]:
    defaults = {name: option.get("default") for name, option in SPEC.items()}
    return {**defaults, "kubeconfig": KUBECONFIG, "mode": "nftables", "state": state, **changes}


def desired(state: str, **changes: Any) -> DaemonSetRequest:
    return DaemonSetRequest.from_params(params(state, **changes))


def planned(cluster: Cluster, state: str, **changes: Any) -> Plan:
    wanted, engine = desired(state, **changes), DaemonSetEngine()
    return engine.plan(wanted, engine.observe(Context(wanted, cluster.host)))


def run(cluster: Cluster, state: str, **changes: Any) -> tuple[Plan, list[Finding]]:
    """One run of the module, and a second that has nothing to do."""
    wanted, engine = desired(state, **changes), DaemonSetEngine()
    progress = Progress(NullSink(), feature="kube-proxy")
    plan = engine.plan(wanted, engine.observe(Context(wanted, cluster.host)))
    engine.apply(plan, Context(wanted, cluster.host, progress))
    return plan, engine.verify(Context(wanted, cluster.host, progress))


def make(cluster: Cluster, state: str, **changes: Any) -> Plan:
    plan, findings = run(cluster, state, **changes)
    assert findings == []
    done = len(cluster.host.effects)
    again, _findings = run(cluster, state, **changes)
    assert again.steps == ()
    assert cluster.host.effects[done:] == []
    return plan


def refused(cluster: Cluster, state: str, **changes: Any) -> BallastError:
    before = cluster.state()
    with pytest.raises(BallastError) as caught:
        planned(cluster, state, **changes)
    assert cluster.state() == before
    return caught.value


def config_of(cluster: Cluster, name: str) -> Object:
    found: Object = yaml.safe_load(cluster.objects[f"{MAPS}/{name}"]["data"]["config.conf"])
    return found


def moved(cluster: Cluster, *nodes: str) -> None:
    for node in nodes:
        cluster.label(node, "nftables")


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


def test_and_back_again_by_canaries_of_the_mode_before() -> None:
    cluster = Cluster()
    before = cluster.state()
    make(cluster, "canary")
    moved(cluster, "n1", "n2", "n3")
    make(cluster, "final")
    make(cluster, "canary", mode="iptables")
    for node in ("n1", "n2", "n3"):
        cluster.label(node, "iptables")
    make(cluster, "final", mode="iptables")
    assert config_of(cluster, ORIGINAL) == yaml.safe_load(before[f"{MAPS}/{ORIGINAL}"]["data"]["config.conf"])
    assert cluster.state().keys() == before.keys()


def go_back(cluster: Cluster, **changes: Any) -> None:
    make(cluster, "canary", mode="iptables", **changes)
    for node in ("n1", "n2", "n3"):
        cluster.label(node, "iptables")
    make(cluster, "final", mode="iptables")


def finished(cluster: Cluster, **config: Any) -> None:
    make(cluster, "canary", config=config)
    moved(cluster, "n1", "n2", "n3")
    make(cluster, "final")


def test_a_way_back_after_final_puts_back_the_whole_configuration() -> None:
    """To the byte, comments and form included, with the keys that the change added or removed."""
    cluster = Cluster()
    config_map = cluster.objects[f"{MAPS}/{ORIGINAL}"]
    config_map["metadata"]["annotations"] = {"of": "others"}
    config_map["data"]["config.conf"] = (
        "# ours\nkind: KubeProxyConfiguration\napiVersion: kubeproxy.config.k8s.io/v1alpha1\n"
        "mode: iptables   # for now\nclusterCIDR: 10.0.0.0/8\niptables: {syncPeriod: 9s}\n"
    )
    before = cluster.state()
    finished(cluster, nftables={"syncPeriod": "1s"}, clusterCIDR=None)
    assert config_of(cluster, ORIGINAL)["nftables"] == {"syncPeriod": "1s"}
    go_back(cluster)
    assert cluster.state()[f"{MAPS}/{ORIGINAL}"] == before[f"{MAPS}/{ORIGINAL}"]
    finished(cluster)
    assert config_of(cluster, ORIGINAL)["clusterCIDR"] == "10.0.0.0/8"


def test_a_way_back_keeps_what_others_have_changed_since_final() -> None:
    cluster = Cluster()
    finished(cluster, nftables={"syncPeriod": "1s"})
    data = cluster.objects[f"{MAPS}/{ORIGINAL}"]["data"]
    data["config.conf"] += "metricsBindAddress: 127.0.0.1:1\n"
    go_back(cluster)
    found = config_of(cluster, ORIGINAL)
    assert (found["mode"], found["metricsBindAddress"]) == ("iptables", "127.0.0.1:1")
    assert found["nftables"] == {"syncPeriod": "1s"}


def test_a_configuration_without_a_mode_gets_its_own_back_with_the_mode() -> None:
    cluster = Cluster()
    data = cluster.objects[f"{MAPS}/{ORIGINAL}"]["data"]
    data["config.conf"] = (
        "kind: KubeProxyConfiguration\napiVersion: kubeproxy.config.k8s.io/v1alpha1\nclusterCIDR: 10.0.0.0/8\n"
    )
    before = config_of(cluster, ORIGINAL)
    finished(cluster, clusterCIDR=None)
    go_back(cluster)
    assert config_of(cluster, ORIGINAL) == {**before, "mode": "iptables"}


def test_a_record_of_the_former_configuration_that_is_no_json_is_refused() -> None:
    cluster = Cluster()
    cluster.objects[f"{MAPS}/{ORIGINAL}"]["metadata"]["annotations"] = {FORMER: "{"}
    assert refused(cluster, "canary").id == "daemonset-changed"


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
