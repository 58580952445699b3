# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is there, as values: nodes, their balloons, their pods, and the hosts that several nodes may share.

Words. A node's *target* is what its pods may request in all, the balloon not counted. Its balloon is to have
`allocatable - target`. *Open* is what the node may still promise to pods or has promised: `allocatable - balloon`.
The *limit* is what the host gives the node: a cgroup slice's, or the memory of a virtual machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Optional

from .._core.errors import BallastError
from .amount import FLOOR, MIB, NONE, Amount, total

LABEL = "balloons.ballast.dev/balloon"  # of every balloon pod; its value is "true"
TARGET = "balloons.ballast.dev/target"  # annotation of a Node: its target, as JSON {"cpu": "1750m", "memory": "7Gi"}
TAINT = (
    "balloons.ballast.dev/unsized"  # a kubelet registers with it (NoSchedule); taken away once the balloon is at size
)
NAME = "ballast-balloon"  # of the DaemonSet, its PriorityClass and what else is made in the cluster
CONTAINER = "balloon"


@dataclass(frozen=True)
class Names:
    """What balloons are known by. Balloons of another name than NAME are beside those that size nodes: each of the two counts
    the others as pods like any, no host is held to a sum by them, and what belongs to a Node's size is none of theirs."""

    name: str = NAME

    @property
    def size_nodes(self) -> bool:
        return self.name == NAME

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
STARTING = "starting"  # no pod yet, or one that the kubelet has not taken in
SETTLED = "settled"  # desired, allocated and actual are one, and no condition of a resize is left
ASKED = "asked"  # patched, the kubelet has not said anything of it yet
DEFERRED = "deferred"
INFEASIBLE = "infeasible"
ACTUATING = "actuating"  # allocated; the runtime is being told
FAILING = "failing"  # allocated; the runtime refuses, the kubelet tries on


@dataclass(frozen=True)
class Pod:
    """One that is not a balloon, and not over. `requests` is what the scheduler counts: the largest of spec, allocated, actual."""

    namespace: str
    name: str
    requests: Amount
    kind: str  # STATIC, DAEMONSET or WORKLOAD
    priority: int = 0


@dataclass(frozen=True)
class Balloon:
    """The balloon pod of a node. `allocated` and `actual` are NONE until the kubelet has said them."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    desired: Amount
    allocated: Amount
    actual: Amount
    state: str
    message: str = ""  # the kubelet's own words on a resize that is not through
    priority: int = 0
    restarts: int = 0

    @property
    def held(self) -> Amount:
        """What the node cannot promise to others, whatever becomes of a resize that is under way.

        A settled one holds what it asked for: `actual` is read back from cgroups, which keep CPU as a weight and round it.
        """
        return self.desired if self.state == SETTLED else self.desired.least(self.allocated).least(self.actual)

    @property
    def counted(self) -> Amount:
        """What the scheduler takes off the node for it: not what can never be."""
        there = self.allocated.most(self.actual)
        return there if self.state == INFEASIBLE else there.most(self.desired)


@dataclass(frozen=True)
class Node:
    name: str
    host: str  # nodes with one value share a machine's capacity; the boot id of the kernel, or one name for all of a machine's VMs
    capacity: Amount
    allocatable: Amount
    version: tuple[int, int]  # of its kubelet: (1, 37)
    ready: bool
    pods: tuple[Pod, ...] = ()
    balloon: Optional[Balloon] = None
    target: Optional[Amount] = None  # as annotated
    forbids_preemption: bool = (
        False  # its podPreemptionPolicy names somebody, so that no resize on it preempts (KEP-5836)
    )
    unsized: bool = False  # has the startup taint
    limit: Optional[Amount] = None  # None where nothing is moved in step with the balloon; cpu 0 where memory alone is
    uid: str = ""  # another one where the kubelet has registered anew, which loses the annotation

    @property
    def overhead(self) -> Amount:
        """Reserved for the kubelet, the system and eviction: part of the node, and no pod's."""
        return self.capacity - self.allocatable

    @property
    def open(self) -> Amount:
        """The most that this node may have promised to pods before long."""
        return self.allocatable if self.balloon is None else self.allocatable - self.balloon.held

    @property
    def left_by_limit(self) -> Amount:
        """The most that its limit lets it promise. In what has no limit, that is what it promises."""
        if self.limit is None:
            return self.open
        left = self.limit - self.overhead
        return left if self.limit.cpu else Amount(self.open.cpu, left.memory)

    def balloon_for(self, target: Amount) -> Amount:
        """The smallest of whole MiB that leaves no more than `target` to pods. The kernel keeps limits in whole pages, so
        one of other bytes would be read back as another value."""
        size = self.allocatable - target
        return Amount(size.cpu, -(-size.memory // MIB) * MIB).most(FLOOR)

    @property
    def requested(self) -> Amount:
        """What all its pods request, the balloon not counted."""
        return total(pod.requests for pod in self.pods)

    @property
    def needed(self) -> Amount:
        """What static pods and those of DaemonSets request, which no size of the node can do without."""
        return total(pod.requests for pod in self.pods if pod.kind != WORKLOAD)

    @property
    def free(self) -> Amount:
        """What the scheduler may still place. Below 0 where more is placed than there is."""
        return self.allocatable - self.requested - (NONE if self.balloon is None else self.balloon.counted)


def told_limit(limit: Amount) -> str:
    """For people. One of memory alone says no cpu."""
    both = str(limit)
    return both if limit.cpu else both.partition(", ")[2]


@dataclass(frozen=True)
class Fleet:
    """`capacities`: of each host, what all its nodes share. `reserve`: of each host, what is no node's."""

    nodes: Mapping[str, Node]
    capacities: Mapping[str, Amount] = field(default_factory=dict)
    reserve: Mapping[str, Amount] = field(default_factory=dict)

    @property
    def by_host(self) -> dict[str, list[Node]]:
        """The nodes of every host, in one pass."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes.values():
            found.setdefault(node.host, []).append(node)
        return found

    def of_host(self, host: str) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes.values() if node.host == host)

    def with_limits(self, limit_of: Mapping[str, Amount]) -> Fleet:
        """The same, with the limits of those of its nodes that have one."""
        if not limit_of:
            return self
        nodes = {
            name: replace(node, limit=limit_of[name]) if name in limit_of else node for name, node in self.nodes.items()
        }
        return replace(self, nodes=nodes)

    def room(self, host: str) -> Amount:
        """What all nodes of the host may promise together: its capacity less the reserve."""
        return self.capacities[host] - self.reserve.get(host, NONE)


# Outcomes of a node, in what the modules return.
DONE = "done"
REVERTED = "reverted"  # pods hold what the balloon was to take: put back to what it had
INFEASIBLE_OUTCOME = "infeasible"  # the kubelet says it can never be: put back
REJECTED = "rejected"  # the API server, a quota, a LimitRange, an admission webhook, or a kubelet too old to resize
BLOCKED = "blocked"  # not begun: the room that it needs was not given by the others
FAILED = "failed"  # anything else; the text says what, and what is there now
OUTCOMES = (DONE, REVERTED, INFEASIBLE_OUTCOME, REJECTED, BLOCKED, FAILED)


@dataclass(frozen=True)
class Outcome:
    """What became of one node. `before` and `after` are balloon sizes as allocated; `why` is None when done."""

    node: str
    outcome: str
    before: Amount
    after: Amount
    why: Optional[BallastError] = None

    @property
    def text(self) -> str:
        """For a person; "" when done."""
        return "" if self.why is None else str(self.why)
