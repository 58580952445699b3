# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The next steps of a resize, chosen so that they never overcommit a host. Pure.

Invariants of every host and each resource, whatever succeeds, fails or is interrupted:

    I1  sum(schedulable) <= capacity - reserve
    I2  sum(limit - overhead) <= capacity - reserve    where nodes have limits
    I3  schedulable <= limit - overhead                of each node that has a limit

If one is violated already, as on a host whose balloons are still at their floor, no step makes it worse.

A node is resized in up to four steps, and each begins when the previous one has taken effect:

    1  its balloon grows             in each resource in which it is too small
    2  its limit is lowered          by as much as the balloon grew
    3  its limit is raised           when the host has capacity
    4  its balloon shrinks           when the host has capacity

Steps 1 and 2 give capacity, and may begin at any time; 3 and 4 take it. Steps that take begin together only if the capacity
suffices for all of them, so that it does not matter which ones succeed. A node that gives one resource and takes the other gives
first: so two nodes that trade never wait for each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Optional

from ..cluster.facts import ACTUATING, ASKED, CRITICAL, DEFERRED, INFEASIBLE, SETTLED, STARTING, Balloon, Fleet, Node
from ..sizing.resources import FLOOR, NONE, PAGE, Resources, total

BALLOON, LIMIT = "balloon", "limit"
# From this kubelet version on, pods are resized in place by default (KEP-1287).
RESIZES_SINCE = (1, 33)
# A kernel can enforce whole pages, and a CPU quota of at least 1 ms in 100 ms.
_LEAST_CPU = 10


@dataclass(frozen=True)
class ResizeStep:
    """`before` and `after` are sizes of the balloon, or limits, by `what`."""

    node: str
    what: str  # BALLOON or LIMIT
    before: Resources
    after: Resources


def left_to_promise(nodes: Iterable[Node], unreserved: Resources) -> Resources:
    """The slack of I1 for the nodes of one host; negative in an overcommitted resource."""
    return unreserved - total(node.schedulable for node in nodes)


def left_to_limits(nodes: Collection[Node], unreserved: Resources) -> Resources:
    """The slack of I2 for the nodes of one host. A node without a limit counts with what it offers; without any limit this is I1."""
    return unreserved - total(node.left_by_limit for node in nodes)


def within_limit(node: Node) -> bool:
    """Whether I3 holds, ignoring the part of a page by which `limit_for` rounds down."""
    return node.schedulable.fits_in(node.left_by_limit + Resources(0, PAGE - 1))


def is_overcommitted(fleet: Fleet, host: str) -> bool:
    """Whether I1, I2 or I3 is violated."""
    nodes, unreserved = fleet.of_host(host), fleet.unreserved(host)
    sums = (left_to_promise(nodes, unreserved), left_to_limits(nodes, unreserved))
    return not (all(NONE.fits_in(left) for left in sums) and all(map(within_limit, nodes)))


def limit_for(node: Node, target: Resources) -> Resources:
    """The limit, rounded down, as the sum must not exceed the host's capacity. Only of memory if the present limit is."""
    whole = target + node.overhead
    memory_alone = node.limit is not None and not node.limit.cpu
    return Resources(0 if memory_alone else max(whole.cpu, _LEAST_CPU), whole.memory - whole.memory % PAGE)


def can_resize(node: Node) -> bool:
    """Whether its kubelet resizes running pods without a feature gate."""
    return node.version >= RESIZES_SINCE


def may_preempt(node: Node, target: Resources) -> bool:
    """Whether the growth of this balloon could preempt pods: it is critical, and its Node does not forbid preemption, for example
    after it registered again (KEP-5836)."""
    balloon = node.balloon
    if balloon is None or balloon.priority < CRITICAL or node.forbids_preemption:
        return False
    return not node.balloon_for(target).fits_in(granted_size(balloon))


def granted_size(balloon: Balloon) -> Resources:
    """The size from which the next step starts, and to which an impossible resize is reverted.

    A smaller request counts as granted: a kubelet may grant it at any time unless it reported that it never will. A larger request
    does not count before the kubelet's answer, which would leave the size of the node in doubt.
    """
    if balloon.state == INFEASIBLE:
        return balloon.allocated
    return balloon.desired.least(balloon.allocated) if balloon.state in (ASKED, DEFERRED) else balloon.desired


def is_at_target(node: Node, target: Resources) -> bool:
    """Whether nothing is left to resize, and no resize is under way."""
    balloon = node.balloon
    return (
        balloon is not None
        and balloon.state == SETTLED
        and balloon.desired == node.balloon_for(target)
        and node.limit in (None, limit_for(node, target))
    )


def next_step(node: Node, target: Resources) -> Optional[ResizeStep]:
    """The next step of this node, regardless of its host's capacity. None when it is at its target, or must wait.

    It waits for its kubelet, for a balloon, or for the answer to a resize. A request that is not granted, and that this target does
    not need, is reverted first.
    """
    balloon = node.balloon
    if balloon is None or balloon.state in (STARTING, ASKED, ACTUATING) or not (node.ready and can_resize(node)):
        return None
    size, goal = granted_size(balloon), node.balloon_for(target)
    larger = size.most(goal)
    if balloon.state in (DEFERRED, INFEASIBLE):
        return None if balloon.desired in (larger, size) else _resize(node, balloon.desired, size)
    if larger != size:
        return None if may_preempt(node, target) else _resize(node, size, larger)
    limit = _next_limit(node, target)
    if limit is not None:
        return limit if balloon.state == SETTLED else None
    return _resize(node, size, goal) if goal != size else None


def _resize(node: Node, before: Resources, after: Resources) -> ResizeStep:
    return ResizeStep(node.name, BALLOON, before, after)


def _next_limit(node: Node, target: Resources) -> Optional[ResizeStep]:
    """The limit is lowered in one resource before it is raised in the other."""
    if node.limit is None:
        return None
    limit = limit_for(node, target)
    for after in (node.limit.least(limit), limit):
        if after != node.limit:
            return ResizeStep(node.name, LIMIT, node.limit, after)
    return None


@dataclass(frozen=True)
class _Taken:
    """The most that a step takes of the host's capacity: `promise` counts in I1, `limit` in I2. A raised limit counts as used at once."""

    promise: Resources
    limit: Resources


def _count_taken(node: Node, target: Resources, step: ResizeStep) -> _Taken:
    if step.what == LIMIT:
        more = (step.after - step.before).most(NONE)
        # A limit raised without capacity for the balloon's shrink would only keep that capacity from other nodes.
        promise = (node.allocatable - node.balloon_for(target) - node.schedulable).most(NONE) if more != NONE else NONE
        return _Taken(promise, more)
    more = (node.allocatable - step.after - node.schedulable).most(NONE)
    return _Taken(more, more if node.limit is None else NONE)


def steps_of_host(
    nodes: Sequence[Node], unreserved: Resources, targets: Mapping[str, Resources], given_up: Collection[str]
) -> list[ResizeStep]:
    """`next_steps` for one host. Steps that give come first; the others get capacity in their order."""
    steps: list[ResizeStep] = []
    takes: list[tuple[ResizeStep, _Taken]] = []
    for node in nodes:
        target = None if node.name in given_up else targets.get(node.name)
        step = None if target is None else next_step(node, target)
        if target is not None and step is not None:
            taken = _count_taken(node, target, step)
            if taken == _Taken(NONE, NONE):
                steps.append(step)
            else:
                takes.append((step, taken))
    if not takes:
        return steps
    promise = left_to_promise(nodes, unreserved).most(NONE)
    limits = left_to_limits(nodes, unreserved).most(NONE)
    for step, taken in takes:
        if taken.promise.fits_in(promise) and taken.limit.fits_in(limits):
            promise, limits = promise - taken.promise, limits - taken.limit
            steps.append(step)
    return steps


def has_room_for(before: Node, nodes: Collection[Node], unreserved: Resources) -> bool:
    """Whether the host has capacity for what a node now counts more than it did as `before`."""
    after = next(node for node in nodes if node.name == before.name)
    promise = _is_covered(after.schedulable - before.schedulable, left_to_promise(nodes, unreserved))
    return promise and _is_covered(after.left_by_limit - before.left_by_limit, left_to_limits(nodes, unreserved))


def _is_covered(more: Resources, left: Resources) -> bool:
    """For each resource: either nothing more is taken, or nothing is lacking."""
    return more.least(NONE - left).fits_in(NONE)


def next_steps(fleet: Fleet, targets: Mapping[str, Resources], given_up: Collection[str]) -> tuple[ResizeStep, ...]:
    """The steps that may begin now, together and in any order. Empty when every node is at its target or must wait."""
    steps: list[ResizeStep] = []
    for host, nodes in fleet.by_host.items():
        steps += steps_of_host(nodes, fleet.unreserved(host), targets, given_up)
    return tuple(steps)


def plan_steps(fleet: Fleet, targets: Mapping[str, Resources]) -> tuple[ResizeStep, ...]:
    """All steps, in order, if each succeeded, and each node were ready and had its balloon.

    Steps of nodes too old to resize, or without capacity in the end, are left out.
    """
    fleet = replace(
        fleet, nodes={name: _settle_node(node) if name in targets else node for name, node in fleet.nodes.items()}
    )
    steps: list[ResizeStep] = []
    while True:
        ready = next_steps(fleet, targets, ())
        if not ready:
            return tuple(steps)
        steps += ready
        fleet = replace(fleet, nodes={**fleet.nodes, **{step.node: _do_step(fleet, step) for step in ready}})


def _settle_node(node: Node) -> Node:
    balloon = node.balloon
    if balloon is None or balloon.state == STARTING:
        return replace(node, ready=True, balloon=_settle(Balloon("", "", "", "", FLOOR, FLOOR, FLOOR, SETTLED), FLOOR))
    return replace(node, ready=True, balloon=_settle(balloon, granted_size(balloon)))


def _do_step(fleet: Fleet, step: ResizeStep) -> Node:
    node = fleet.nodes[step.node]
    if step.what == LIMIT:
        return replace(node, limit=step.after)
    if node.balloon is None:
        raise ValueError(f"{node.name} has no balloon to resize")
    return replace(node, balloon=_settle(node.balloon, step.after))


def _settle(balloon: Balloon, size: Resources) -> Balloon:
    return replace(balloon, desired=size, allocated=size, actual=size, state=SETTLED)
