# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of the cluster as values: nodes, their balloons, their pods, and the hosts that several nodes may share.

A node's *target* is what its pods may request in total, without the balloon, which then has `allocatable - target`.
*Schedulable* is what pods have requested or may still request: `allocatable - balloon`. The *limit* is what the host gives
the node: that of a cgroup slice, or the memory of a virtual machine. *Unreserved* is a host's capacity less the reserve.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Optional

from ..._core.text.errors import BallastError
from ..sizing.resources import FLOOR, NONE, Resources, total

LABEL = "balloons.ballast.dev/balloon"  # label of every balloon pod, with the value "true"
TARGET = "balloons.ballast.dev/target"  # annotation of a Node: its target, as JSON {"cpu": "1750m", "memory": "7Gi"}
TAINT = (
    "balloons.ballast.dev/unsized"  # a kubelet registers with it (NoSchedule); removed once the balloon has its size
)
NAME = "ballast-balloon"  # of the DaemonSet, its PriorityClass and the other objects in the cluster
NAMESPACE = "ballast-balloons"
CONTAINER = "balloon"


@dataclass(frozen=True)
class Names:
    """The names of a set of balloons. Only the set NAME sizes nodes: another set counts its balloons as ordinary pods and vice versa,
    is not limited by a host's sum, and leaves startup taint and node policy alone."""

    name: str = NAME

    @property
    def size_nodes(self) -> bool:
        return self.name == NAME

    @property
    def namespace(self) -> str:
        """The default namespace."""
        return NAMESPACE if self.size_nodes else f"{NAMESPACE}-{self.name}"

    @property
    def label(self) -> str:
        """The label of the set's balloon pods."""
        return LABEL if self.size_nodes else f"{LABEL}.{self.name}"

    @property
    def target(self) -> str:
        """The annotation of a Node that has its target for this set."""
        return TARGET if self.size_nodes else f"{TARGET}.{self.name}"


SIZES = Names()

CRITICAL = 2_000_000_000  # SystemCriticalPriority; from here on a kubelet and the scheduler call a pod critical

STATIC, DAEMONSET, WORKLOAD = "static", "daemonset", "workload"

# States of a balloon, see `reading.py`.
STARTING = "starting"  # no pod yet, or one that the kubelet has not admitted
SETTLED = "settled"  # desired, allocated and actual are equal, and no condition of a resize is left
ASKED = "asked"  # patched; the kubelet has not answered yet
DEFERRED = "deferred"
INFEASIBLE = "infeasible"
ACTUATING = "actuating"  # allocated; the runtime has not applied it yet
FAILING = "failing"  # allocated; the runtime refuses it, and the kubelet retries


@dataclass(frozen=True)
class Pod:
    """A live pod that is no balloon. `requests` is what the scheduler counts: the largest of spec, allocated and actual."""

    namespace: str
    name: str
    requests: Resources
    kind: str  # STATIC, DAEMONSET or WORKLOAD
    priority: int = 0


@dataclass(frozen=True)
class Balloon:
    """The balloon pod of a node. `allocated` and `actual` are NONE until the kubelet reports them."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    desired: Resources
    allocated: Resources
    actual: Resources
    state: str
    message: str = ""  # the kubelet's message on an unfinished resize, or on why the container cannot start
    waiting: str = ""  # the reason why the container of a STARTING balloon cannot start: "ImagePullBackOff"
    priority: int = 0
    restarts: int = 0

    @property
    def held(self) -> Resources:
        """What other pods cannot get, whatever the result of a resize under way.

        A settled balloon holds what it requested: `actual` is read from cgroups, which store CPU as a weight and so round it.
        """
        return self.desired if self.state == SETTLED else self.desired.least(self.allocated).least(self.actual)

    @property
    def counted(self) -> Resources:
        """What the scheduler subtracts for it. An infeasible request does not count."""
        there = self.allocated.most(self.actual)
        return there if self.state == INFEASIBLE else there.most(self.desired)


@dataclass(frozen=True)
class Node:
    name: str
    host: str  # nodes with the same value share a machine's capacity; a kernel's boot id, or one name for all VMs of a machine
    capacity: Resources
    allocatable: Resources
    version: tuple[int, int]  # of its kubelet: (1, 37)
    ready: bool
    pods: tuple[Pod, ...] = ()
    balloon: Optional[Balloon] = None
    target: Optional[Resources] = None  # as annotated
    forbids_preemption: bool = (
        False  # its podPreemptionPolicy names somebody, so that no resize on it preempts (KEP-5836)
    )
    unsized: bool = False  # has the startup taint
    limit: Optional[Resources] = None  # None where only the balloon is resized; cpu is 0 where only memory is limited
    uid: str = ""  # a kubelet that registers again gets another uid, and loses the annotation

    @property
    def overhead(self) -> Resources:
        """What is reserved for the kubelet, the system and eviction."""
        return self.capacity - self.allocatable

    @property
    def schedulable(self) -> Resources:
        """The most that pods of this node may request."""
        return self.allocatable if self.balloon is None else self.allocatable - self.balloon.held

    @property
    def left_by_limit(self) -> Resources:
        """The most that pods may request within its limit; `schedulable` for a resource without a limit."""
        if self.limit is None:
            return self.schedulable
        left = self.limit - self.overhead
        return left if self.limit.cpu else Resources(self.schedulable.cpu, left.memory)

    def balloon_for(self, target: Resources) -> Resources:
        """The balloon that leaves `target` to pods, to the byte. Kernels round limits to whole pages, but the scheduler counts requests."""
        return (self.allocatable - target).most(FLOOR)

    @property
    def requested(self) -> Resources:
        """What all its pods request, without the balloon."""
        return total(pod.requests for pod in self.pods)

    @property
    def needed(self) -> Resources:
        """What static and DaemonSet pods request, which the node needs at least."""
        return total(pod.requests for pod in self.pods if pod.kind != WORKLOAD)

    @property
    def free(self) -> Resources:
        """Resources that the scheduler may still place. Negative when more is placed than fits."""
        return self.allocatable - self.requested - (NONE if self.balloon is None else self.balloon.counted)


def format_limit(limit: Resources) -> str:
    """Text for people. A memory-only limit names no cpu."""
    both = str(limit)
    return both if limit.cpu else both.partition(", ")[2]


@dataclass(frozen=True)
class Fleet:
    """`capacities`: by host, what all its nodes share. `reserve`: by host, what no node gets."""

    nodes: Mapping[str, Node]
    capacities: Mapping[str, Resources] = field(default_factory=dict)
    reserve: Mapping[str, Resources] = field(default_factory=dict)

    @property
    def by_host(self) -> dict[str, list[Node]]:
        """The nodes of every host, in one pass."""
        hosts: dict[str, list[Node]] = {}
        for node in self.nodes.values():
            hosts.setdefault(node.host, []).append(node)
        return hosts

    def of_host(self, host: str) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes.values() if node.host == host)

    def with_limits(self, limit_of: Mapping[str, Resources]) -> Fleet:
        """The fleet, with limits for those of its nodes that have one."""
        if not limit_of:
            return self
        nodes = {
            name: replace(node, limit=limit_of[name]) if name in limit_of else node for name, node in self.nodes.items()
        }
        return replace(self, nodes=nodes)

    def unreserved(self, host: str) -> Resources:
        """What all nodes of the host may offer together: its capacity less the reserve."""
        return self.capacities[host] - self.reserve.get(host, NONE)


# Outcomes of a node, as the modules return them.
DONE = "done"
REVERTED = "reverted"  # pods hold what the balloon was to take: back to its former size
INFEASIBLE_OUTCOME = "infeasible"  # the kubelet reports that the size is impossible: reverted
REJECTED = "rejected"  # the API server, a quota, a LimitRange, an admission webhook, or a kubelet too old to resize
BLOCKED = "blocked"  # not begun: the other nodes did not free the capacity
FAILED = "failed"  # anything else; the text gives the reason, and the present state
OUTCOMES = (DONE, REVERTED, INFEASIBLE_OUTCOME, REJECTED, BLOCKED, FAILED)


@dataclass(frozen=True)
class Outcome:
    """The result of a node. `before` and `after` are balloon sizes as allocated; `why` is None when done."""

    node: str
    outcome: str
    before: Resources
    after: Resources
    why: Optional[BallastError] = None

    @property
    def text(self) -> str:
        """Text for people; "" when done."""
        return "" if self.why is None else str(self.why)
