# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of the cluster as values: nodes, their balloons, their pods, and the hosts that several nodes may share.

A node's *target* is what its pods may request in all, without the balloon. Its balloon then has `allocatable - target`.
*Schedulable* is what pods have requested or may still request: `allocatable - balloon`. The *limit* is what the host gives
the node: that of a cgroup slice, or the memory of a virtual machine. *Unreserved* is the capacity of a host less the reserve.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Optional

from ..._core.text.errors import BallastError
from ..sizing.resources import FLOOR, NONE, Resources, total

LABEL = "balloons.ballast.dev/balloon"  # of every balloon pod; its value is "true"
TARGET = "balloons.ballast.dev/target"  # annotation of a Node: its target, as JSON {"cpu": "1750m", "memory": "7Gi"}
TAINT = (
    "balloons.ballast.dev/unsized"  # a kubelet registers with it (NoSchedule); removed once the balloon has its size
)
NAME = "ballast-balloon"  # of the DaemonSet, its PriorityClass and the other objects in the cluster
NAMESPACE = "ballast-balloons"
CONTAINER = "balloon"


@dataclass(frozen=True)
class Names:
    """The names of a set of balloons. A set of another name than NAME does not size nodes: each set counts the other's balloons
    as ordinary pods, no sum of a host limits it, and it leaves startup taint and node policy alone."""

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
        return LABEL if self.size_nodes else f"{LABEL}.{self.name}"

    @property
    def target(self) -> str:
        return TARGET if self.size_nodes else f"{TARGET}.{self.name}"


SIZES = Names()

CRITICAL = 2_000_000_000  # SystemCriticalPriority; from here on a kubelet and the scheduler call a pod critical

STATIC, DAEMONSET, WORKLOAD = "static", "daemonset", "workload"

# States of a balloon, see `reading.py`.
STARTING = "starting"  # no pod yet, or one that the kubelet has not admitted
SETTLED = "settled"  # desired, allocated and actual are equal, and no condition of a resize is left
ASKED = "asked"  # patched; no answer of the kubelet yet
DEFERRED = "deferred"
INFEASIBLE = "infeasible"
ACTUATING = "actuating"  # allocated; the runtime is at work
FAILING = "failing"  # allocated; the runtime refuses, the kubelet tries again


@dataclass(frozen=True)
class Pod:
    """A pod that is no balloon and has not ended. `requests` is what the scheduler counts: the largest of spec, allocated, actual."""

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
    message: str = ""  # the kubelet's own words on an unfinished resize, or on why the container cannot start
    waiting: str = ""  # the reason why the container of a STARTING balloon cannot start: "ImagePullBackOff"
    priority: int = 0
    restarts: int = 0

    @property
    def held(self) -> Resources:
        """What other pods cannot get, whatever the result of a resize under way.

        A settled balloon holds what it requested: `actual` is read back from cgroups, which keep CPU as a weight and round it.
        """
        return self.desired if self.state == SETTLED else self.desired.least(self.allocated).least(self.actual)

    @property
    def counted(self) -> Resources:
        """What the scheduler subtracts for it: an infeasible request does not count."""
        there = self.allocated.most(self.actual)
        return there if self.state == INFEASIBLE else there.most(self.desired)


@dataclass(frozen=True)
class Node:
    name: str
    host: str  # nodes with one value share a machine's capacity; the boot id of the kernel, or one name for all of a machine's VMs
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
    limit: Optional[Resources] = None  # None where only the balloon is resized; cpu 0 where memory alone is limited
    uid: str = ""  # a kubelet that registers again gets another, and loses the annotation

    @property
    def overhead(self) -> Resources:
        """Reserved for the kubelet, the system and eviction."""
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
        """It leaves `target` to pods, to the byte. A kernel keeps its limit in whole pages, but the scheduler counts requests."""
        return (self.allocatable - target).most(FLOOR)

    @property
    def requested(self) -> Resources:
        """What all its pods request, the balloon not counted."""
        return total(pod.requests for pod in self.pods)

    @property
    def needed(self) -> Resources:
        """What static and DaemonSet pods request: the node needs at least that."""
        return total(pod.requests for pod in self.pods if pod.kind != WORKLOAD)

    @property
    def free(self) -> Resources:
        """Resources that the scheduler may still place. Negative where more is placed than fits."""
        return self.allocatable - self.requested - (NONE if self.balloon is None else self.balloon.counted)


def format_limit(limit: Resources) -> str:
    """For people. A limit of memory alone names no cpu."""
    both = str(limit)
    return both if limit.cpu else both.partition(", ")[2]


@dataclass(frozen=True)
class Fleet:
    """`capacities`: of each host, what all its nodes share. `reserve`: of each host, what no node gets."""

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
        """The same, with the limits of those of its nodes that have one."""
        if not limit_of:
            return self
        nodes = {
            name: replace(node, limit=limit_of[name]) if name in limit_of else node for name, node in self.nodes.items()
        }
        return replace(self, nodes=nodes)

    def unreserved(self, host: str) -> Resources:
        """What all nodes of the host may offer together: its capacity less the reserve."""
        return self.capacities[host] - self.reserve.get(host, NONE)


# Outcomes of a node, in what the modules return.
DONE = "done"
REVERTED = "reverted"  # pods hold what the balloon was to take: reverted to its former size
INFEASIBLE_OUTCOME = "infeasible"  # the kubelet reports that it can never be: reverted
REJECTED = "rejected"  # the API server, a quota, a LimitRange, an admission webhook, or a kubelet too old to resize
BLOCKED = "blocked"  # not begun: the other nodes did not free the capacity
FAILED = "failed"  # anything else; the text says what, and the present state
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
        """For a person; "" when done."""
        return "" if self.why is None else str(self.why)
