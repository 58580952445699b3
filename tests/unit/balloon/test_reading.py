# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Objects of the API to a fleet: the states of a balloon, what the scheduler counts, and what others have written."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import (
    LABEL,
    TAINT,
    TARGET,
    Balloon,
    Fleet,
    Pod,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.reading import (
    Machine,
    Objects,
    key_of,
    read_fleet,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import MIB, NONE, Resources
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError

GIB = 2**30
NAMESPACE = "kube-system"
Object = dict[str, Any]


def a_node(name: str = "n1", *, boot: str = "boot-1", cpu: str = "4", memory: str = "8Gi", **metadata: Any) -> Object:
    return {
        "metadata": {"name": name, "uid": f"u-{name}", "resourceVersion": "7", **metadata},
        "spec": {},
        "status": {
            "capacity": {"cpu": cpu, "memory": memory, "pods": "110"},
            "allocatable": {"cpu": "3900m", "memory": "7Gi", "ephemeral-storage": "1"},
            "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
            "nodeInfo": {"bootID": boot, "kubeletVersion": "v1.36.4"},
        },
    }


def a_pod(
    name: str = "web", requests: Optional[Object] = None, *, node: str = "n1", namespace: str = "default"
) -> Object:
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"u-{name}", "resourceVersion": "9", "generation": 3},
        "spec": {
            "nodeName": node,
            "priority": 5,
            "containers": [{"name": "main", "resources": {"requests": requests or {}}}],
        },
        "status": {"phase": "Running"},
    }


def a_balloon(
    desired: str = "2",
    allocated: Optional[str] = "2",
    actual: Optional[str] = "2",
    *,
    memory: str = "1Gi",
    name: str = "b",
) -> Object:
    """Sizes are those of CPU; conditions and generations are the caller's."""
    pod = a_pod(name, namespace=NAMESPACE)
    pod["metadata"]["labels"] = {LABEL: "true"}
    pod["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "ballast-balloon", "controller": True}]
    resources = {"requests": {"cpu": desired, "memory": memory}, "limits": {"memory": memory}}
    pod["spec"]["containers"] = [{"name": "balloon", "resources": resources}]
    told: Object = {"name": "balloon", "restartCount": 2}
    if allocated is not None:
        told["allocatedResources"] = {"cpu": allocated, "memory": memory}
        told["resources"] = {"requests": {"cpu": actual, "memory": memory}, "limits": {"memory": memory}}
    pod["status"]["containerStatuses"] = [told]
    pod["status"]["observedGeneration"] = 3
    return pod


def condition(kind: str, reason: str = "", generation: Optional[int] = 3, message: str = "") -> Object:
    of = {} if generation is None else {"observedGeneration": generation}
    return {"type": kind, "status": "True", "reason": reason, "message": message, **of}


def pending(reason: str, generation: Optional[int] = 3) -> Object:
    return condition("PodResizePending", reason, generation, "the kubelet's words")


def progress(reason: str = "", generation: Optional[int] = 3) -> Object:
    return condition("PodResizeInProgress", reason, generation)


def read(*items: Object, nodes: Optional[list[Object]] = None) -> Fleet:
    reading = read_fleet(nodes or [a_node()], items, namespace=NAMESPACE)
    assert reading.problems == ()
    return reading.fleet


def balloon_of(pod: Object) -> Balloon:
    found = read(pod).nodes["n1"].balloon
    assert found is not None
    return found


def pod_of(pod: Object) -> Pod:
    (found,) = read(pod).nodes["n1"].pods
    return found


def error_id(nodes: list[Object], pods: list[Object]) -> str:
    with pytest.raises(BallastError) as raised:
        read_fleet(nodes, pods, namespace=NAMESPACE)
    return raised.value.id


STATES = [
    ("nothing was to do", a_balloon(), [], "settled"),
    ("not taken in by the kubelet", a_balloon(allocated=None), [], "starting"),
    ("patched, nothing said", a_balloon("3"), [], "asked"),
    ("deferred", a_balloon("3"), [pending("Deferred")], "deferred"),
    ("deferred, of a kubelet without generations", a_balloon("3"), [pending("Deferred", None)], "deferred"),
    ("deferred was what was asked before", a_balloon("3"), [pending("Deferred", 2)], "asked"),
    ("infeasible", a_balloon("3"), [pending("Infeasible")], "infeasible"),
    ("infeasible was what was asked before", a_balloon("3"), [pending("Infeasible", 2)], "asked"),
    ("put back, the kubelet has not seen it", a_balloon(), [pending("Deferred", 2)], "asked"),
    ("put back, a kubelet without generations", a_balloon(), [pending("Deferred", None)], "asked"),
    ("allocated", a_balloon("3", "3"), [progress()], "actuating"),
    ("allocated, and the runtime refuses", a_balloon("3", "3"), [progress("Error")], "failing"),
    ("allocated before, asked for more since", a_balloon("4", "3"), [progress("", 2)], "asked"),
    ("allocated, asked for more, deferred", a_balloon("4", "3"), [progress("", 2), pending("Deferred")], "deferred"),
    ("CPU is read back rounded", a_balloon(actual="1979m"), [], "settled"),
    ("a condition that is over", a_balloon(), [{**pending("Deferred"), "status": "False"}], "settled"),
]


@pytest.mark.parametrize(("pod", "conditions", "state"), [row[1:] for row in STATES], ids=[row[0] for row in STATES])
def test_state_of_a_balloon(pod: Object, conditions: list[Object], state: str) -> None:
    found = copy.deepcopy(pod)
    found["status"]["conditions"] = [{"type": "Ready", "status": "True"}, *conditions]
    balloon = balloon_of(found)
    assert balloon.state == state
    assert balloon.message == ("the kubelet's words" if state in ("deferred", "infeasible") else "")


def test_a_balloon_is_not_settled_before_the_kubelet_has_seen_what_is_asked() -> None:
    pod = a_balloon()
    pod["status"]["observedGeneration"] = 2
    assert balloon_of(pod).state == "asked"
    del pod["status"]["observedGeneration"]  # Kubernetes 1.33
    assert balloon_of(pod).state == "settled"


@pytest.mark.parametrize(
    ("limit", "state"),
    [("1073741824", "settled"), ("1073739000", "settled"), ("1073700000", "settled"), ("536870912", "actuating")],
)
def test_memory_is_actual_when_the_runtime_has_its_limit_in_whole_pages(limit: str, state: str) -> None:
    pod = a_balloon()
    pod["status"]["containerStatuses"][0]["resources"]["limits"]["memory"] = limit
    assert balloon_of(pod).state == state


def test_sizes_of_a_balloon_and_what_it_holds() -> None:
    found = balloon_of(a_balloon("3", "2", "1500m"))
    assert (found.desired.cpu, found.allocated.cpu, found.actual.cpu) == (3000, 2000, 1500)
    assert (found.held.cpu, found.counted.cpu) == (1500, 3000)
    assert (found.uid, found.resource_version, found.priority, found.restarts) == ("u-b", "9", 5, 2)
    starting = balloon_of(a_balloon(allocated=None))
    assert (starting.allocated, starting.actual, starting.held) == (NONE, NONE, NONE)
    infeasible = a_balloon("9", "2", "2")
    infeasible["status"]["conditions"] = [pending("Infeasible")]
    assert balloon_of(infeasible).counted.cpu == 2000


def container(name: str, cpu: str, **more: Any) -> Object:
    return {"name": name, "resources": {"requests": {"cpu": cpu}}, **more}


def told(name: str, allocated: str, actual: str) -> Object:
    return {"name": name, "allocatedResources": {"cpu": allocated}, "resources": {"requests": {"cpu": actual}}}


SIDECAR = {"restartPolicy": "Always"}
REQUESTS = [
    ("containers add up", {"containers": [container("a", "1"), container("b", "500m")]}, {}, 1500),
    ("an init container is larger", {"initContainers": [container("i", "3")]}, {}, 3000),
    ("init containers run one by one", {"initContainers": [container("i", "600m"), container("j", "700m")]}, {}, 1000),
    ("a sidecar runs beside", {"initContainers": [container("s", "2", **SIDECAR)]}, {}, 3000),
    (
        "an init container beside a sidecar that was started before",
        {"initContainers": [container("s", "2", **SIDECAR), container("i", "4")]},
        {},
        6000,
    ),
    (
        "an init container before a sidecar",
        {"initContainers": [container("i", "4"), container("s", "2", **SIDECAR)]},
        {},
        4000,
    ),
    ("a RuntimeClass", {"overhead": {"cpu": "250m"}}, {}, 1250),
    ("the pod as a whole", {"resources": {"requests": {"cpu": "3"}}}, {}, 3000),
    ("the pod as a whole, of memory alone", {"resources": {"requests": {"memory": "1Gi"}}}, {}, 1000),
    ("shrinking, not allocated", {}, {"containerStatuses": [told("main", "2", "2")]}, 2000),
    ("shrinking, allocated, not actual", {}, {"containerStatuses": [told("main", "1", "2")]}, 2000),
    (
        "a growth that can never be",
        {"containers": [container("main", "9")]},
        {"containerStatuses": [told("main", "2", "1")], "conditions": [pending("Infeasible")]},
        2000,
    ),
    ("a status before the kubelet says what it has", {}, {"containerStatuses": [{"name": "main"}]}, 1000),
    (
        "a sidecar that shrinks",
        {"initContainers": [container("s", "1", **SIDECAR)]},
        {"initContainerStatuses": [told("s", "3", "3")]},
        4000,
    ),
    (
        "the pod as a whole that shrinks",
        {"resources": {"requests": {"cpu": "1"}}},
        {"allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "3"}}},
        3000,
    ),
]


@pytest.mark.parametrize(("spec", "status", "cpu"), [row[1:] for row in REQUESTS], ids=[row[0] for row in REQUESTS])
def test_requests_as_the_scheduler_counts_them(spec: Object, status: Object, cpu: int) -> None:
    pod = a_pod(requests={"cpu": "1"})
    pod["spec"].update(spec)
    pod["status"].update(status)
    assert pod_of(pod).requests.cpu == cpu


def test_quantities_are_exact_and_rounded_up_where_they_are_finer() -> None:
    assert pod_of(a_pod(requests={"cpu": "0.1", "memory": "128974848"})).requests == Resources(100, 128974848)
    assert pod_of(a_pod(requests={"cpu": "1u", "memory": "1500m"})).requests == Resources(1, 2)


def test_kinds_of_pods() -> None:
    static, mine, its, plain = (a_pod(name) for name in ("static", "mine", "its", "plain"))
    static["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    mine["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "proxy", "controller": True}]
    its["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "proxy"}, {"kind": "Job", "controller": True}]
    found = {pod.name: pod.kind for pod in read(static, mine, its, plain).nodes["n1"].pods}
    assert found == {"static": "static", "mine": "daemonset", "its": "workload", "plain": "workload"}


def test_pods_that_take_nothing_are_left_out() -> None:
    over, failed, unbound = a_pod("over"), a_pod("failed"), a_pod("unbound", node="")
    over["status"]["phase"], failed["status"]["phase"] = "Succeeded", "Failed"
    of_nobody = a_pod("of-nobody", node="gone")
    rejected = a_balloon()
    rejected["status"]["phase"] = "Failed"
    node = read(over, failed, unbound, of_nobody, rejected).nodes["n1"]
    assert (node.pods, node.balloon, node.schedulable) == ((), None, node.allocatable)


def test_a_balloon_that_is_being_deleted_holds_nothing_and_is_counted_as_a_pod() -> None:
    pod = a_balloon()
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    node = read(pod).nodes["n1"]
    assert node.balloon is None
    assert [(row.name, row.kind, row.requests) for row in node.pods] == [("b", "workload", Resources(2000, GIB))]
    assert node.needed == NONE
    both = read(pod, a_balloon(name="c")).nodes["n1"]
    assert both.balloon is not None
    assert both.balloon.name == "c"


def foreign_pods() -> Iterator[tuple[str, Object]]:
    elsewhere = a_balloon()
    elsewhere["metadata"]["namespace"] = "default"
    yield "it is not in the namespace kube-system", elsewhere
    bare = a_balloon()
    bare["metadata"]["ownerReferences"] = []
    yield "it is not of the DaemonSet ballast-balloon", bare
    injected = a_balloon()
    injected["spec"]["containers"].append(container("istio-proxy", "100m"))
    yield "balloon, istio-proxy", injected
    heavy = a_balloon()
    heavy["spec"]["overhead"] = {"cpu": "250m"}
    yield "overhead", heavy


@pytest.mark.parametrize(("words", "pod"), list(foreign_pods()))
def test_a_foreign_pod_with_the_label_is_told_and_counted_as_any_other(words: str, pod: Object) -> None:
    reading = read_fleet([a_node()], [pod], namespace=NAMESPACE)
    (problem,) = reading.problems
    assert problem.id == "balloon-foreign"
    assert words in problem.found
    node = reading.fleet.nodes["n1"]
    assert node.balloon is None
    assert [row.kind for row in node.pods] == ["workload"]


def test_of_two_balloons_one_counts() -> None:
    reading = read_fleet([a_node()], [a_balloon(name="c"), a_balloon(name="b")], namespace=NAMESPACE)
    assert [problem.id for problem in reading.problems] == ["balloon-two"]
    node = reading.fleet.nodes["n1"]
    assert node.balloon is not None
    assert (node.balloon.name, [pod.name for pod in node.pods]) == ("b", ["c"])


def test_a_node() -> None:
    item = a_node(annotations={TARGET: '{"cpu": "1750m", "memory": "2Gi"}'})
    item["spec"]["taints"] = [{"key": TAINT, "effect": "NoSchedule"}]
    node = read(nodes=[item]).nodes["n1"]
    assert (node.capacity, node.allocatable) == (Resources(4000, 8 * GIB), Resources(3900, 7 * GIB))
    assert (node.version, node.ready, node.unsized, node.target) == ((1, 36), True, True, Resources(1750, 2 * GIB))
    plain = read().nodes["n1"]
    assert (plain.unsized, plain.target) == (False, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"cpu": "1"}',
        '{"cpu": "-1", "memory": "1Gi"}',
        '{"cpu": 1, "memory": "1Gi"}',
        "[" * 9999,
    ],
)
def test_an_annotation_of_another_form_is_told_and_counts_as_none(text: str) -> None:
    reading = read_fleet([a_node(annotations={TARGET: text})], [], namespace=NAMESPACE)
    assert [problem.id for problem in reading.problems] == ["balloon-annotation"]
    assert reading.fleet.nodes["n1"].target is None


@pytest.mark.parametrize(
    ("text", "version"), [("v1.31.0-gke.100", (1, 31)), ("v1.33.1+k3s1", (1, 33)), ("fake", (0, 0)), ("", (0, 0))]
)
def test_versions(text: str, version: tuple[int, int]) -> None:
    item = a_node()
    item["status"]["nodeInfo"]["kubeletVersion"] = text
    assert read(nodes=[item]).nodes["n1"].version == version


def test_nodes_that_share_a_kernel_share_a_host_and_the_smallest_capacity_of_them() -> None:
    nodes = [a_node("n1"), a_node("n2", memory="6Gi"), a_node("n3", boot="boot-2"), a_node("n4", boot="")]
    fleet = read(nodes=nodes)
    assert {name: node.host for name, node in fleet.nodes.items()} == {
        "n1": "boot-1",
        "n2": "boot-1",
        "n3": "boot-2",
        "n4": "n4",
    }
    assert fleet.capacities["boot-1"] == Resources(4000, 6 * GIB)


def test_virtual_machines_of_one_machine_share_it() -> None:
    given = {"n1": Resources(4000, 9 * GIB), "n2": Resources(4000, 8 * GIB)}
    machine = Machine("big", Resources(64000, 256 * GIB), given)
    nodes = [a_node("n1", boot="a"), a_node("n2", boot="b"), a_node("n3", boot="c")]
    fleet = read_fleet(nodes, [], namespace=NAMESPACE, machine=machine).fleet
    assert {name: node.host for name, node in fleet.nodes.items()} == {"n1": "big", "n2": "big", "n3": "c"}
    assert fleet.capacities == {"big": Resources(64000, 256 * GIB), "c": Resources(4000, 8 * GIB)}
    # What the kernel of a virtual machine keeps to itself is overhead: its limit is target and overhead.
    assert fleet.nodes["n1"].overhead - fleet.nodes["n2"].overhead == Resources(0, GIB)


def test_a_node_that_no_kubelet_has_registered_is_left_out() -> None:
    item = a_node("n2")
    item["status"] = {}
    assert list(read(nodes=[a_node(), item]).nodes) == ["n1"]


@pytest.mark.parametrize("written", ["-1", "1x", "", 1, None, [], "1" * 100])
def test_a_quantity_of_another_form_is_an_error_with_its_place(written: object) -> None:
    node = a_node()
    node["status"]["allocatable"]["cpu"] = written
    with pytest.raises(BallastError) as raised:
        read_fleet([node], [], namespace=NAMESPACE)
    assert (raised.value.id, "node n1" in raised.value.text) == ("balloon-object", True)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    rows = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else []
    for key, inner in rows:
        yield from places(inner, (*path, key))


FULL = a_balloon("3", "2")
FULL["status"]["conditions"] = [pending("Deferred"), progress()]
FULL["spec"].update(overhead={}, initContainers=[], resources={})
FULL_NODE = a_node(annotations={TARGET: '{"cpu": "1", "memory": "1Gi"}'}, labels={})
FULL_NODE["spec"]["taints"] = [{"key": TAINT}]


@given(
    st.sampled_from([*[(0, path) for path in places(FULL_NODE)], *[(1, path) for path in places(FULL)]]),
    st.sampled_from([None, True, -1, 1.5, "", "x", "9" * 70, [], [None], {}, {"cpu": []}, {"": ""}]),
)
def test_nonsense_at_any_place_is_an_error_of_ours_or_passed_over(
    place: tuple[int, tuple[Any, ...]], value: object
) -> None:
    items = copy.deepcopy([FULL_NODE, FULL])
    found: Any = items[place[0]]
    for key in place[1][:-1]:
        found = found[key]
    found[place[1][-1]] = value
    with suppress(BallastError):
        read_fleet(items[:1], items[1:], namespace=NAMESPACE)


def some_objects() -> st.SearchStrategy[list[Object]]:
    names = st.sampled_from(["n1", "n2", "n3"])
    nodes = st.builds(lambda name, boot: a_node(name, boot=boot), names, st.sampled_from(["x", "y"]))
    pods = st.builds(
        lambda name, node, cpu: a_pod(name, {"cpu": cpu}, node=node),
        st.sampled_from("abc"),
        names,
        st.sampled_from(["1", "2"]),
    )
    balloons = st.builds(lambda name, node: _at(a_balloon(name=name), node), st.sampled_from(["b", "c", "d"]), names)
    return st.lists(st.one_of(nodes, pods, balloons), max_size=12)


def _at(pod: Object, node: str) -> Object:
    pod["spec"]["nodeName"] = node
    return pod


@given(some_objects(), st.lists(st.integers(0, 11), max_size=6))
def test_what_is_kept_up_with_is_what_is_read_at_once(items: list[Object], dropped: list[int]) -> None:
    objects = Objects(namespace=NAMESPACE)
    last: dict[tuple[str, tuple[str, str]], Object] = {}
    for number, item in enumerate(items):
        kind = "pod" if "containers" in item["spec"] else "node"
        last[kind, key_of(item)] = item
        objects.put_pod(item) if kind == "pod" else objects.put_node(item)
        if number in dropped:
            del last[kind, key_of(item)]
            objects.drop_pod(key_of(item)) if kind == "pod" else objects.drop_node(key_of(item)[1])
        if number % 3 == 0:
            objects.observe()
    whole = read_fleet(
        [item for (kind, _key), item in last.items() if kind == "node"],
        [item for (kind, _key), item in last.items() if kind == "pod"],
        namespace=NAMESPACE,
    )
    found = objects.observe()
    assert found.fleet == whole.fleet
    assert sorted(map(str, found.problems)) == sorted(map(str, whole.problems))


def test_a_node_that_has_not_changed_is_the_same_value_still() -> None:
    objects = Objects(namespace=NAMESPACE)
    objects.put_node(a_node("n1"))
    objects.put_node(a_node("n2"))
    before = objects.observe().fleet.nodes
    objects.put_pod(a_pod(node="n2"))
    after = objects.observe().fleet.nodes
    assert after["n1"] is before["n1"]
    assert after["n2"] != before["n2"]


def test_the_annotation_that_is_written_can_be_read() -> None:
    target = Resources(1750, 7 * GIB + 3 * MIB)
    text = json.dumps(target.as_quantities())
    assert read(nodes=[a_node(annotations={TARGET: text})]).nodes["n1"].target == target


def test_objects_that_are_none() -> None:
    assert error_id([{}], []) == "balloon-object"
    assert error_id([a_node()], [{"metadata": {"name": "x"}, "spec": {"nodeName": 5}}]) == "balloon-object"
