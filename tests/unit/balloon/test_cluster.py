# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cluster over real HTTP, from a model API server: what is kept up with, what is written, and who refuses it."""

from __future__ import annotations

import queue
from collections.abc import Iterator, Mapping
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.cluster import Cluster
from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import Balloon, Node
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.scheduler import Resize
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import Resources
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import NOTHING
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.kube import client as kubeapi
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.client import Api, Listed, is_temporary
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.kubeconfig import Credentials
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from tests.model_cluster.amounts import Pair
from tests.model_cluster.model import GIB, LABEL, MIB, NAMESPACE, TARGET, ModelCluster

SIZE = Resources(2000, GIB)


@pytest.fixture
def model() -> Iterator[ModelCluster]:
    with ModelCluster() as found:
        found.add_node("n1", overhead=Pair(100, 256 * MIB))
        yield found


@pytest.fixture
def cluster(model: ModelCluster) -> Iterator[Cluster]:
    with Cluster(model.api(timeout=2), LocalHost(), namespace=NAMESPACE) as found:
        yield found


def until(cluster: Cluster, done: Any) -> None:
    for _number in range(400):
        if done():
            return
        cluster.wait(0.05)
    raise AssertionError("what was waited for has not come")


def node(cluster: Cluster, name: str = "n1") -> Node:
    return cluster.fleet().nodes[name]


def balloon(cluster: Cluster, name: str = "n1") -> Balloon:
    found = node(cluster, name).balloon
    assert found is not None
    return found


def action(cluster: Cluster, size: Resources = SIZE) -> Resize:
    own = balloon(cluster)
    return Resize("n1", own.namespace, own.name, own.resource_version, size, "grow")


def refused(cluster: Cluster, what: Optional[Resize] = None) -> BallastError:
    with pytest.raises(BallastError) as raised:
        cluster.resize(what or action(cluster))
    return raised.value


def test_a_fleet_of_several_pages_with_its_reserves(model: ModelCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeapi, "_PAGE_SIZE", 2)
    for number in range(2, 6):
        model.add_node(f"n{number}", host=f"boot-{number}")
    cluster = Cluster(model.api(), LocalHost(), namespace=NAMESPACE)
    cluster.load()
    fleet = cluster.fleet()
    assert list(fleet.nodes) == ["n1", "n2", "n3", "n4", "n5"]
    assert fleet.reserve["boot-1"] == Resources(100, 256 * MIB)
    assert cluster.calls == {"LIST nodes": 3, "LIST pods": 3}
    given = Cluster(model.api(), LocalHost(), namespace=NAMESPACE, reserve=Resources(7, 7))
    given.load()
    assert set(given.fleet().reserve.values()) == {Resources(7, 7)}


def test_a_list_that_was_forgotten_between_two_pages_is_begun_anew(
    model: ModelCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubeapi, "_PAGE_SIZE", 1)
    model.add_node("n2")
    with Cluster(model.api(), LocalHost(), namespace=NAMESPACE) as cluster:
        pages: list[str] = []

        def forget(verb: str, asked: Any) -> None:
            pages.append(asked.params.get("continue", ""))
            if len(pages) == 1:
                model.store.forget()

        model.server.before_read.append(forget)
        model.server.cut_watches()
        model.server.faults.statuses = 2  # so that both have to list again
        model.add_node("n3")
        until(cluster, lambda: "n3" in cluster.fleet().nodes and cluster.lost is None)


def test_a_resize_is_one_call_and_is_seen_at_once(model: ModelCluster, cluster: Cluster) -> None:
    model.kubelets.habit("n1").dead = True
    cluster.resize(action(cluster))
    assert (balloon(cluster).desired, balloon(cluster).state) == (SIZE, "asked")
    (container,) = model.balloon("n1")["spec"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "2000m", "memory": "1024Mi"}, "limits": {"memory": "1024Mi"}}
    assert container["image"] == "pause"
    model.kubelets.habit("n1").dead = False
    model.kubelets.wake("n1")
    until(cluster, lambda: balloon(cluster).state == "settled")
    assert balloon(cluster).allocated == SIZE
    assert {
        call: count for call, count in model.server.calls.items() if "LIST" not in call and "WATCH" not in call
    } == {"PATCH pods/resize": 1}
    assert cluster.calls["PATCH pods/resize"] == 1


def test_what_was_decided_from_older_facts_is_not_even_asked(model: ModelCluster, cluster: Cluster) -> None:
    old = action(cluster)
    cluster.resize(old)
    assert refused(cluster, old).id == "balloon-changed"
    assert model.server.calls["PATCH pods/resize"] == 1


def test_a_conflict_is_read_anew_though_the_watch_tells_nothing(model: ModelCluster, cluster: Cluster) -> None:
    model.server.faults.watches_stale = True
    pod = model.balloon("n1")
    model.store.put("pods", {**pod, "metadata": {**pod["metadata"], "annotations": {"a": "b"}}})
    assert refused(cluster).id == "balloon-changed"
    cluster.resize(action(cluster))
    assert balloon(cluster).desired == SIZE


def test_a_balloon_that_has_gone_is_no_refusal(model: ModelCluster, cluster: Cluster) -> None:
    model.server.faults.watches_stale = True
    model.remove_pod(balloon(cluster).name, namespace=NAMESPACE)
    assert refused(cluster).id == "balloon-changed"
    assert node(cluster).balloon is None


REFUSALS = [
    (403, 'pods "{name}" is forbidden: exceeded quota: small, requested: requests.cpu=2, limited: 1', "quota"),
    (403, 'pods "{name}" is forbidden: failed quota: small: must specify limits.cpu', "quota"),
    (403, 'pods "{name}" is forbidden: [maximum cpu usage per Container is 1, but limit is 2]', "limit-range"),
    (403, 'pods "{name}" is forbidden: minimum memory usage per Pod is 1Gi, but request is 2', "limit-range"),
    (403, 'admission webhook "resize.example.com" denied the request: exceeded quota', "webhook"),
    (400, 'admission webhook "resize.example.com" denied the request: no', "webhook"),
    (422, "pods is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no", "webhook"),
    (403, 'pods "{name}" is forbidden: User "u" cannot patch resource "pods/resize" in API group ""', "access"),
    (401, "Unauthorized", "access"),
    (422, 'Pod "{name}" is invalid: spec: Invalid value: "Guaranteed": Pod QOS Class may not change', "invalid"),
    (400, "no words that we know", "otherwise"),
]


@pytest.mark.parametrize(("status", "words", "id"), REFUSALS)
def test_who_refuses_a_resize(model: ModelCluster, cluster: Cluster, status: int, words: str, id: str) -> None:
    model.server.faults.resize_refused = (status, "Forbidden", words)
    error = refused(cluster)
    assert error.id == f"balloon-refused-{id}"
    assert words.format(name=balloon(cluster).name)[:150] in error.found
    assert not is_temporary(error)
    assert model.server.calls["PATCH pods/resize"] == 1


def test_an_api_server_without_the_subresource(model: ModelCluster, cluster: Cluster) -> None:
    model.server.faults.resize_absent = True
    assert refused(cluster).id == "balloon-refused-unserved"


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_what_is_worth_another_try(model: ModelCluster, cluster: Cluster, status: int) -> None:
    model.server.faults.status = status
    assert is_temporary(refused(cluster))
    model.server.mend()
    cluster.resize(action(cluster))


def test_a_resize_whose_answer_is_lost_is_not_done_twice(model: ModelCluster, cluster: Cluster) -> None:
    model.server.faults.watches_stale = True
    asked = action(cluster)
    model.server.faults.lost_answers = 1
    error = refused(cluster, asked)
    assert (error.id, is_temporary(error)) == ("core-no-answer", True)
    assert refused(cluster, asked).id == "balloon-changed"
    assert balloon(cluster).desired == SIZE
    assert model.balloon("n1")["metadata"]["generation"] == 2


# The Node.


def test_a_node_is_told_its_target_and_freed_of_its_taint_by_one_call(model: ModelCluster) -> None:
    model.add_node("n2", unsized=True)
    item = model.node("n2")
    taints = [*item["spec"]["taints"], {"key": "other", "effect": "NoExecute"}]
    model.store.put("nodes", {**item, "spec": {"taints": taints}})
    with Cluster(model.api(), LocalHost(), namespace=NAMESPACE) as cluster:
        cluster.annotate("n2", SIZE)
        after = model.node("n2")
        assert after["metadata"]["annotations"] == {TARGET: '{"cpu": "2000m", "memory": "1024Mi"}'}
        assert after["spec"]["taints"] == [{"key": "other", "effect": "NoExecute"}]
        assert (node(cluster, "n2").target, node(cluster, "n2").unsized) == (SIZE, False)
        cluster.annotate("n2", SIZE)
        assert model.server.calls["PATCH nodes"] == 1
        cluster.annotate("n2", None)
        assert model.node("n2")["metadata"]["annotations"] == {}
        assert model.server.calls["PATCH nodes"] == 2


def test_the_last_taint_is_taken_away_where_the_target_was_written_already(model: ModelCluster) -> None:
    model.add_node("n2", unsized=True, target='{"cpu": "2", "memory": "1Gi"}')
    with Cluster(model.api(), LocalHost(), namespace=NAMESPACE) as cluster:
        cluster.annotate("n2", SIZE)
        assert "taints" not in model.node("n2")["spec"]


def test_a_taint_that_somebody_adds_meanwhile_stays(model: ModelCluster) -> None:
    model.add_node("n2", unsized=True)
    with Cluster(model.api(), LocalHost(), namespace=NAMESPACE) as cluster:
        model.server.faults.watches_stale = True
        item = model.node("n2")
        model.store.put("nodes", {**item, "spec": {"taints": [{"key": "new"}, *item["spec"]["taints"]]}})
        cluster.annotate("n2", SIZE)
        assert model.node("n2")["spec"]["taints"] == [{"key": "new"}]
        assert (model.server.calls["PATCH nodes"], model.server.calls["GET nodes"]) == (2, 1)


def test_a_node_that_always_conflicts_is_an_error(model: ModelCluster, cluster: Cluster) -> None:
    model.server.faults.conflicts = 100
    with pytest.raises(BallastError) as raised:
        cluster.annotate("n1", SIZE)
    assert raised.value.id == "core-api-conflict"
    assert model.server.calls["PATCH nodes"] == 5


def test_a_node_that_has_gone_is_told_nothing(model: ModelCluster, cluster: Cluster) -> None:
    model.server.faults.watches_stale = True
    model.store.drop("nodes", "n1")
    cluster.annotate("n1", SIZE)
    cluster.annotate("n9", SIZE)
    assert model.server.calls["PATCH nodes"] == 1


def test_a_node_that_was_registered_anew_is_not_told_what_was_meant_for_the_old_one(
    model: ModelCluster, cluster: Cluster
) -> None:
    model.server.faults.watches_stale = True
    model.store.drop("nodes", "n1")
    model.add_node("n1", balloon=None)
    with pytest.raises(BallastError):
        cluster.annotate("n1", SIZE)
    assert model.node("n1")["metadata"]["annotations"] == {}


# What others do.


def test_what_others_do_is_seen(model: ModelCluster, cluster: Cluster) -> None:
    model.add_pod("web", "n1", cpu=500, memory=MIB)
    until(cluster, lambda: [pod.name for pod in node(cluster).pods] == ["web"])
    pod = model.pod("web")
    model.store.put("pods", {**pod, "status": {**pod["status"], "phase": "Succeeded"}})
    until(cluster, lambda: node(cluster).pods == ())
    model.add_node("n2")
    until(cluster, lambda: cluster.fleet().nodes.get("n2") is not None and node(cluster, "n2").balloon is not None)
    model.remove_pod(balloon(cluster, "n2").name, namespace=NAMESPACE)
    until(cluster, lambda: node(cluster, "n2").balloon is None)
    model.store.drop("nodes", "n2")
    until(cluster, lambda: list(cluster.fleet().nodes) == ["n1"])
    assert (model.server.calls["LIST pods"], model.server.calls["LIST nodes"]) == (1, 1)


def test_a_watch_that_ends_in_order_goes_on_without_another_list(model: ModelCluster, cluster: Cluster) -> None:
    until(cluster, lambda: model.server.calls["WATCH pods"] == 1)
    model.server.cut_watches()
    model.add_pod("web", "n1", cpu=500, memory=MIB)
    until(cluster, lambda: len(node(cluster).pods) == 1 and model.server.calls["WATCH pods"] == 2)
    assert model.server.calls["LIST pods"] == 1
    assert cluster.lost is None


def test_a_watch_goes_on_from_what_it_has_told_last(model: ModelCluster, cluster: Cluster) -> None:
    until(cluster, lambda: model.server.calls["WATCH pods"] == 1)
    model.store.forget()  # all that was before, the list of which the watch was begun too
    model.add_pod("one", "n1", cpu=500, memory=MIB)
    until(cluster, lambda: [pod.requests.cpu for pod in node(cluster).pods] == [500])
    model.server.cut_watches()
    model.add_pod("two", "n1", cpu=500, memory=MIB)
    until(cluster, lambda: len(node(cluster).pods) == 2)
    assert model.server.calls["LIST pods"] == 1


def test_after_an_outage_all_is_as_it_is_then(model: ModelCluster, cluster: Cluster) -> None:
    model.add_pod("old", "n1", cpu=500, memory=MIB)
    until(cluster, lambda: len(node(cluster).pods) == 1)
    model.server.go_away()
    until(cluster, lambda: cluster.lost is not None)
    assert cluster.lost is not None
    assert cluster.lost[1].id == "core-no-answer"
    assert refused(cluster).id == "core-no-answer"
    model.remove_pod("old")
    model.add_pod("new", "n1", cpu=500, memory=MIB)
    model.store.forget()
    model.server.mend()
    # Nodes and pods are watched each by itself, and may come back one after the other.
    until(cluster, lambda: cluster.lost is None and [pod.name for pod in node(cluster).pods] == ["new"])


def test_a_watch_from_too_long_ago_lists_anew_at_once(model: ModelCluster, cluster: Cluster) -> None:
    until(cluster, lambda: model.server.calls["WATCH pods"] == 1)
    model.server.faults.watches_stale = True
    model.add_pod("new", "n1", cpu=500, memory=MIB)
    model.store.forget()
    model.server.cut_watches()
    model.server.mend()
    until(cluster, lambda: len(node(cluster).pods) == 1 and cluster.lost is None)
    assert model.server.calls["LIST pods"] == 2


def test_watches_that_are_refused_are_asked_for_again(model: ModelCluster, cluster: Cluster) -> None:
    model.server.faults.watches_refused = True
    model.server.cut_watches()
    until(cluster, lambda: cluster.lost is not None)
    model.server.mend()
    model.add_pod("new", "n1", cpu=500, memory=MIB)
    until(cluster, lambda: len(node(cluster).pods) == 1 and cluster.lost is None)


def test_a_cluster_that_cannot_be_listed_is_an_error_at_once(model: ModelCluster) -> None:
    model.server.go_away()
    with pytest.raises(BallastError) as raised:
        Cluster(model.api(), LocalHost(), namespace=NAMESPACE).load()
    assert raised.value.id == "core-no-answer"


def test_nonsense_by_a_watch_ends_no_thread(model: ModelCluster, cluster: Cluster) -> None:
    item = model.node("n1")
    model.store.put("nodes", {**item, "status": {**item["status"], "allocatable": {"cpu": "much"}}})
    until(cluster, lambda: cluster.lost is not None)
    assert cluster.lost is not None
    assert cluster.lost[1].id == "balloon-object"
    model.store.put("nodes", item)
    until(cluster, lambda: cluster.lost is None)


class _Scripted(Api):
    """Lists what there is; its watch of pods gives what a test puts in."""

    def __init__(self, items: Mapping[str, tuple[dict[str, Any], ...]]) -> None:
        super().__init__(LocalHost(), Credentials(server="http://127.0.0.1:1", token="t"))
        self.items = items
        self.events: queue.Queue[dict[str, Any]] = queue.Queue()
        self.seen: queue.Queue[str] = queue.Queue()

    def pages(self, path: str, params: Mapping[str, str] = NOTHING) -> Iterator[Listed]:
        yield Listed(self.items[path], "100")

    def watch(
        self, path: str, params: Mapping[str, str] = NOTHING, *, silence_seconds: float = 1
    ) -> Iterator[dict[str, Any]]:
        events = self.events if path == "/api/v1/pods" else queue.Queue()
        while True:
            yield events.get()
            self.seen.put("")  # asked for the next: it has dealt with the one before

    def patch(self, path: str, body: object, **more: Any) -> dict[str, Any]:
        return _versioned(self.items["/api/v1/pods"][0], "130", "2000m")


def _versioned(pod: Mapping[str, Any], version: str, cpu: str) -> dict[str, Any]:
    (container,) = pod["spec"]["containers"]
    resources = {"requests": {**container["resources"]["requests"], "cpu": cpu}}
    return {
        **pod,
        "metadata": {**pod["metadata"], "resourceVersion": version},
        "spec": {**pod["spec"], "containers": [{**container, "resources": resources}]},
    }


def test_an_older_event_does_not_undo_what_a_newer_answer_has_said(model: ModelCluster) -> None:
    pod = {**model.balloon("n1"), "metadata": {**model.balloon("n1")["metadata"], "resourceVersion": "99"}}
    api = _Scripted({"/api/v1/nodes": (model.node("n1"),), "/api/v1/pods": (pod,)})
    with Cluster(api, LocalHost(), namespace=NAMESPACE) as cluster:
        cluster.resize(action(cluster))
        assert balloon(cluster).desired.cpu == 2000
        api.events.put({"type": "MODIFIED", "object": _versioned(pod, "120", "7m")})
        api.seen.get(timeout=20)
        assert balloon(cluster).desired.cpu == 2000
        api.events.put({"type": "MODIFIED", "object": _versioned(pod, "131", "8m")})
        api.seen.get(timeout=20)
        assert balloon(cluster).desired.cpu == 8


def test_an_event_that_is_older_than_a_list_does_not_bring_back_what_is_gone(model: ModelCluster) -> None:
    pod = {**model.balloon("n1"), "metadata": {**model.balloon("n1")["metadata"], "resourceVersion": "90"}}
    node_item = {**model.node("n1"), "metadata": {**model.node("n1")["metadata"], "resourceVersion": "80"}}
    api = _Scripted({"/api/v1/nodes": (node_item,), "/api/v1/pods": (pod,)})
    with Cluster(api, LocalHost(), namespace=NAMESPACE) as cluster:
        api.items = {"/api/v1/nodes": (node_item,), "/api/v1/pods": ()}
        cluster.load()
        assert node(cluster).balloon is None
        api.events.put({"type": "MODIFIED", "object": _versioned(pod, "95", "7m")})
        api.seen.get(timeout=20)
        assert node(cluster).balloon is None
        api.events.put({"type": "ADDED", "object": _versioned(pod, "120", "8m")})
        api.seen.get(timeout=20)
        assert balloon(cluster).desired.cpu == 8


def test_problems_of_what_others_have_written(model: ModelCluster, cluster: Cluster) -> None:
    model.add_pod("web", "n1", cpu=1, memory=MIB)
    pod = model.pod("web")
    model.store.put("pods", {**pod, "metadata": {**pod["metadata"], "labels": {LABEL: "true"}}})
    until(cluster, lambda: [problem.id for problem in cluster.observe().problems] == ["balloon-foreign"])
