# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From nodes and pods of the API to a `Fleet`. Pure; `Objects` is a store without I/O, which a watch keeps up to date.

    asked -> settled                          nothing to do, or finished
    asked -> deferred -> asked | actuating    waits for capacity; asked again when another size is written
    asked -> infeasible -> asked              impossible
    asked -> actuating -> settled             allocated, then applied by the runtime
             actuating <-> failing            the runtime refuses; the kubelet retries

API objects are untrusted input: one of another form raises PeerError with its place. Pods or annotations by others that look like
a balloon or a target, but are none, become problems in the result; everything else is still read.
Sources: KEP-1287; k8s.io/component-helpers/resource (PodRequests), which the scheduler counts by.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Optional, Union

from ..._core.text.errors import BallastError
from ..._core.text.json_text import parse_json
from ..deployment.priority import owners
from ..sizing.pod_requests import Object, mapping, pod_requests, resources, rows, text, whole
from ..sizing.resources import PAGE, Resources
from .facts import (
    ACTUATING,
    ASKED,
    CONTAINER,
    DAEMONSET,
    DEFERRED,
    FAILING,
    INFEASIBLE,
    SETTLED,
    SIZES,
    STARTING,
    STATIC,
    TAINT,
    WORKLOAD,
    Balloon,
    Fleet,
    Names,
    Node,
    Pod,
)
from .messages import MESSAGES

Key = tuple[str, str]  # namespace and name

_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})", re.ASCII)
_MIRROR = "kubernetes.io/config.mirror"  # the API's copy of a static pod
_OVER = ("Succeeded", "Failed")
_ON_THE_WAY = ("", "ContainerCreating", "PodInitializing")  # reasons of a container that is starting


class Machine(NamedTuple):
    """A machine whose virtual machines are the nodes; it is their host. `nodes`: by name, the resources each was started with.

    These count as the node's capacity. Its kubelet reports less, as its kernel reserves memory, which is overhead too.
    """

    name: str
    capacity: Resources
    nodes: Mapping[str, Resources]


@dataclass(frozen=True)
class Observation:
    """`fleet` has neither reserves nor limits, as the API does not know them. `problems` are for people, and do not make the rest
    wrong: their objects are counted as the scheduler counts them."""

    fleet: Fleet
    problems: tuple[BallastError, ...]


class Placed(NamedTuple):
    """A pod and its node. `problem` is set when it has the label of a balloon and is none."""

    node: str
    what: Union[Pod, Balloon]
    problem: Optional[BallastError] = None


class Registered(NamedTuple):
    """A node that a kubelet has registered. `problem` is set when its target cannot be read."""

    node: Node
    problem: Optional[BallastError] = None


def read_fleet(
    nodes: Iterable[Object], pods: Iterable[Object], *, namespace: str, machine: Optional[Machine] = None
) -> Observation:
    """`namespace` is the balloons' namespace."""
    objects = Objects(namespace=namespace, machine=machine)
    for item in nodes:
        objects.put_node(item)
    for item in pods:
        objects.put_pod(item)
    return objects.observe()


class Objects:
    """Nodes and pods, each parsed once; only changed nodes are joined with their pods again."""

    def __init__(self, *, namespace: str, names: Names = SIZES, machine: Optional[Machine] = None) -> None:
        self._namespace = namespace
        self._names = names
        self._machine = machine
        self._registered: dict[str, Registered] = {}
        self._placed: dict[Key, Placed] = {}
        self._of_node: dict[str, dict[Key, Placed]] = {}
        self._joined: dict[str, Node] = {}
        self._twice: dict[str, BallastError] = {}
        self._changed: set[str] = set()

    def put_node(self, item: Object) -> None:
        """Add or replace a Node."""
        registered, name = read_node(item, names=self._names, machine=self._machine), key_of(item)[1]
        if registered is None:
            self.drop_node(name)
            return
        self._registered[name] = registered
        self._changed.add(name)

    def drop_node(self, name: str) -> None:
        self._registered.pop(name, None)
        self._changed.add(name)

    def put_pod(self, item: Object) -> None:
        """Add or replace a pod."""
        placed, key = read_pod(item, namespace=self._namespace, names=self._names), key_of(item)
        before = self._placed.get(key)
        if before == placed:
            return
        self.drop_pod(key)
        if placed is not None:
            self._placed[key] = placed
            self._of_node.setdefault(placed.node, {})[key] = placed
            self._changed.add(placed.node)

    def drop_pod(self, key: Key) -> None:
        before = self._placed.pop(key, None)
        if before is not None:
            del self._of_node[before.node][key]
            self._changed.add(before.node)

    def observe(self) -> Observation:
        """The fleet, its nodes sorted by name, and the problems of objects."""
        for name in self._changed:
            self._join(name)
        self._changed.clear()
        nodes = dict(sorted(self._joined.items()))
        problems = [row.problem for row in self._registered.values() if row.problem]
        problems += [row.problem for _key, row in sorted(self._placed.items()) if row.problem]
        problems += [problem for _name, problem in sorted(self._twice.items())]
        return Observation(Fleet(nodes, _capacities(nodes.values(), self._machine)), tuple(problems))

    def _join(self, name: str) -> None:
        self._joined.pop(name, None)
        self._twice.pop(name, None)
        registered = self._registered.get(name)
        if registered is None:
            return
        contents = [row.what for _key, row in sorted(self._of_node.get(name, {}).items())]
        balloons = [what for what in contents if isinstance(what, Balloon)]
        pods = [what for what in contents if isinstance(what, Pod)]
        if len(balloons) > 1:
            names = ", ".join(f"{balloon.namespace}/{balloon.name}" for balloon in balloons)
            self._twice[name] = MESSAGES.error("balloon-two", node=name, found=names)
        # Any of them would do, as long as it is the same one each time.
        pods += [_as_pod(balloon) for balloon in balloons[1:]]
        self._joined[name] = replace(registered.node, pods=tuple(pods), balloon=balloons[0] if balloons else None)


def _capacities(nodes: Iterable[Node], machine: Optional[Machine]) -> dict[str, Resources]:
    """Nodes that share a kernel report the same capacity, unless a kubelet started before memory or processors were removed: so
    the smallest one counts."""
    capacities: dict[str, Resources] = {}
    for node in nodes:
        capacities[node.host] = capacities[node.host].least(node.capacity) if node.host in capacities else node.capacity
    if machine is not None:
        capacities[machine.name] = machine.capacity
    return capacities


def read_node(item: Object, *, names: Names = SIZES, machine: Optional[Machine] = None) -> Optional[Registered]:
    """None for a Node that no kubelet has registered: it has no capacity, and gets no pods.

    For balloons that do not size nodes, each node is a host of its own, and the startup taint does not count."""
    name, where = key_of(item)[1], f"node {key_of(item)[1]}"
    status = mapping(item, "status", where)
    if not mapping(status, "capacity", where):
        return None
    node_info = mapping(status, "nodeInfo", where)
    version = _VERSION.match(text(node_info, "kubeletVersion", where))
    annotations = mapping(mapping(item, "metadata", where), "annotations", where)
    target, problem = _target(annotations.get(names.target), name)
    tainted = any(row.get("key") == TAINT for row in rows(mapping(item, "spec", where), "taints", where))
    capacity = resources(status, "capacity", where)
    given = machine.nodes.get(name) if machine else None
    node = Node(
        name=name,
        host=machine.name if machine and given else (names.size_nodes and text(node_info, "bootID", where)) or name,
        capacity=capacity.most(given) if given else capacity,
        allocatable=resources(status, "allocatable", where),
        version=(int(version[1]), int(version[2])) if version else (0, 0),
        ready=any(
            row.get("type") == "Ready" and row.get("status") == "True" for row in rows(status, "conditions", where)
        ),
        target=target,
        forbids_preemption=bool(owners(item)),
        unsized=names.size_nodes and tainted,
        uid=text(mapping(item, "metadata", where), "uid", where),
    )
    return Registered(node, problem)


def _target(written: object, node: str) -> tuple[Optional[Resources], Optional[BallastError]]:
    """The target in the annotation. A malformed one counts as absent: others may annotate Nodes too."""
    if written is None:
        return None, None
    try:
        quantities = parse_json(str(written))
        if not isinstance(quantities, dict) or set(quantities) != {"cpu", "memory"}:
            raise ValueError
        target = resources({"target": quantities}, "target", f"node {node}")
    except (ValueError, BallastError):
        return None, MESSAGES.error("balloon-annotation", node=node, found=str(written)[:200])
    return target, None


def read_pod(item: Object, *, namespace: str, names: Names = SIZES) -> Optional[Placed]:
    """The pod; None if it uses nothing: it is not bound to a node yet, or has ended."""
    own_namespace, name = key_of(item)
    where = f"pod {own_namespace}/{name}"
    metadata, spec, status = (mapping(item, key, where) for key in ("metadata", "spec", "status"))
    node = text(spec, "nodeName", where)
    if not node or text(status, "phase", where) in _OVER:
        return None
    pod = Pod(own_namespace, name, pod_requests(item, where), _kind(metadata, where), whole(spec, "priority", where))
    if names.label not in mapping(metadata, "labels", where):
        return Placed(node, pod)
    place = "" if own_namespace == namespace else f"it is not in the namespace {namespace}"
    reason = place or _not_ours(metadata, spec, where, names)
    if reason:
        problem = MESSAGES.error("balloon-foreign", namespace=own_namespace, name=name, node=node, found=reason)
        return Placed(node, replace(pod, kind=WORKLOAD), problem)
    if metadata.get("deletionTimestamp"):
        # It is being deleted, so its capacity is free soon. Until then the scheduler counts it like any other pod.
        return Placed(node, replace(pod, kind=WORKLOAD))
    return Placed(node, _balloon(item, where))


def _kind(metadata: Object, where: str) -> str:
    if _MIRROR in mapping(metadata, "annotations", where):
        return STATIC
    return DAEMONSET if _owner(metadata, where)[0] == "DaemonSet" else WORKLOAD


def _owner(metadata: Object, where: str) -> tuple[str, str]:
    """Kind and name of the controller that made the object."""
    for row in rows(metadata, "ownerReferences", where):
        if row.get("controller") is True:
            return str(row.get("kind", "")), str(row.get("name", ""))
    return "", ""


def _not_ours(metadata: Object, spec: Object, where: str, names: Names) -> str:
    """Why a pod with the label is not our balloon; "" if it is. Anybody can label a pod."""
    if _owner(metadata, where) != ("DaemonSet", names.name):
        return f"it is not of the DaemonSet {names.name}"
    containers = [str(row.get("name", "")) for row in rows(spec, "containers", where)]
    if containers != [CONTAINER] or rows(spec, "initContainers", where):
        return f"it has containers other than {CONTAINER}, which another program injected: {', '.join(containers)}"
    if mapping(spec, "overhead", where) or mapping(spec, "resources", where):
        return "it has a pod overhead or pod-level resources, which resizing its container does not change"
    return ""


def _balloon(item: Object, where: str) -> Balloon:
    metadata, spec, status = (mapping(item, key, where) for key in ("metadata", "spec", "status"))
    container = rows(spec, "containers", where)[0]
    container_status: Object = next(
        (row for row in rows(status, "containerStatuses", where) if row.get("name") == CONTAINER), {}
    )
    own = _Resize(
        desired=resources(mapping(container, "resources", where), "requests", where),
        allocated=resources(container_status, "allocatedResources", where),
        actual=resources(mapping(container_status, "resources", where), "requests", where),
        limit=resources(mapping(container_status, "resources", where), "limits", where).memory,
        begun=bool(mapping(container_status, "allocatedResources", where))
        and bool(mapping(container_status, "resources", where)),
        generation=whole(metadata, "generation", where),
        seen=whole(status, "observedGeneration", where),
        conditions={
            str(row.get("type")): row for row in rows(status, "conditions", where) if row.get("status") == "True"
        },
    )
    state, message = own.state()
    waiting: Object = {} if state != STARTING else mapping(mapping(container_status, "state", where), "waiting", where)
    reason = text(waiting, "reason", where)
    if reason in _ON_THE_WAY:
        reason = ""
    return Balloon(
        namespace=text(metadata, "namespace", where),
        name=text(metadata, "name", where),
        uid=text(metadata, "uid", where),
        resource_version=text(metadata, "resourceVersion", where),
        desired=own.desired,
        allocated=own.allocated,
        actual=own.actual,
        state=state,
        message=text(waiting, "message", where) if reason else message,
        waiting=reason,
        priority=whole(spec, "priority", where),
        restarts=whole(container_status, "restartCount", where),
    )


@dataclass(frozen=True)
class _Resize:
    """The resize in a pod's status. `limit` is the runtime's memory limit, 0 when there is none."""

    desired: Resources
    allocated: Resources
    actual: Resources
    limit: int
    begun: bool  # the kubelet has admitted the pod, and reports its size
    generation: int
    seen: int  # the generation of the kubelet's status; 0 in Kubernetes 1.33, which does not report it
    conditions: Mapping[str, Object] = field(default_factory=dict)

    def state(self) -> tuple[str, str]:
        """The state, and the kubelet's message."""
        if not self.begun:
            return STARTING, ""
        if self.allocated != self.desired:
            pending = self.conditions.get("PodResizePending")
            # A condition about an earlier size does not count.
            if pending is None or not self._is_current(pending):
                return ASKED, ""
            state = INFEASIBLE if pending.get("reason") == "Infeasible" else DEFERRED
            return state, str(pending.get("message", ""))
        progress = self.conditions.get("PodResizeInProgress")
        if progress is not None:
            return FAILING if progress.get("reason") == "Error" else ACTUATING, str(progress.get("message", ""))
        if "PodResizePending" in self.conditions or (self.seen and self.seen < self.generation):
            return ASKED, ""
        return (SETTLED if self._memory_is_actual else ACTUATING), ""

    def _is_current(self, condition: Object) -> bool:
        of = condition.get("observedGeneration")
        return not isinstance(of, int) or of >= self.generation

    @property
    def _memory_is_actual(self) -> bool:
        """The limit may have been read from a cgroup, which counts in pages. CPU is not compared: cgroup v2 stores it as a weight, which
        container runtimes round differently. The kubelet's condition says whether the runtime has applied it."""
        return abs((self.limit or self.actual.memory) - self.desired.memory) < PAGE


def _as_pod(balloon: Balloon) -> Pod:
    return Pod(balloon.namespace, balloon.name, balloon.counted, WORKLOAD, balloon.priority)


def key_of(item: Object) -> Key:
    """Namespace, empty for a Node, and name. PeerError `balloon-object` when the object has no name."""
    metadata = mapping(item, "metadata", "an object")
    name = text(metadata, "name", "an object")
    if not name:
        raise MESSAGES.error("balloon-object", where="an object", found="it has no name")
    return text(metadata, "namespace", "an object"), name
