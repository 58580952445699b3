# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which moves may begin together, and what a plan is: in any state that facts may have, and case by case."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import (
    ACTUATING,
    ASKED,
    DEFERRED,
    FAILING,
    INFEASIBLE,
    SETTLED,
    STARTING,
    Balloon,
    Fleet,
    Node,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.resize_steps import (
    BALLOON,
    LIMIT,
    ResizeStep,
    is_at_target,
    is_overcommitted,
    left_to_limits,
    left_to_promise,
    limit_for,
    next_step,
    next_steps,
    plan_steps,
    within_limit,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import FLOOR, MIB, NONE, Resources

CAPACITY = Resources(8000, 8192 * MIB)
ALLOCATABLE = Resources(7900, 8000 * MIB)
OVERHEAD = CAPACITY - ALLOCATABLE


def size(cpu: int, memory: int) -> Resources:
    return Resources(cpu, memory * MIB)


def balloon(desired: Resources, allocated: Resources | None = None, state: str = SETTLED) -> Balloon:
    had = desired if allocated is None else allocated
    return Balloon("kube-system", "b", "u", "1", desired, had, had, state)


def node(name: str, own: Balloon | None, limit: Resources | None = None) -> Node:
    return Node(name, "h", CAPACITY, ALLOCATABLE, (1, 37), True, balloon=own, limit=limit)


def promising(name: str, amount: Resources, *, limited: bool = False) -> Node:
    """A node that may promise so much."""
    found = node(name, balloon(ALLOCATABLE - amount))
    return replace(found, limit=limit_for(found, amount)) if limited else found


def fleet(*nodes: Node) -> Fleet:
    return Fleet(
        {one.name: one for one in nodes}, {"h": CAPACITY}, {"h": Resources(OVERHEAD.cpu * 2, OVERHEAD.memory * 2)}
    )


ROOM = CAPACITY - OVERHEAD - OVERHEAD


# In any state.

amounts = st.builds(size, st.integers(1, 7900), st.integers(16, 8000))
limits = st.none() | st.builds(
    lambda cpu, pages: Resources(cpu, pages * 2**16), st.just(0) | st.integers(10, 8000), st.integers(1, 2**17)
)


@st.composite
def balloons(draw: st.DrawFn) -> Balloon | None:
    state = draw(
        st.sampled_from([SETTLED, SETTLED, SETTLED, ASKED, DEFERRED, INFEASIBLE, ACTUATING, FAILING, STARTING, ""])
    )
    desired, allocated, actual = draw(amounts), draw(amounts), draw(amounts)
    if state in (SETTLED, ACTUATING, FAILING):
        allocated = desired
    if state == SETTLED:
        actual = desired
    if state == STARTING:
        allocated = actual = NONE
    return Balloon("kube-system", "b", "u", "1", desired, allocated, actual, state) if state else None


@st.composite
def fleets(draw: st.DrawFn) -> tuple[Fleet, dict[str, Resources]]:
    names = ["a", "b", "c", "d"][: draw(st.integers(1, 4))]
    targets = {name: draw(amounts) for name in names}
    nodes = []
    for name in names:
        found = replace(
            node(name, draw(balloons())), ready=draw(st.integers(0, 9)) > 0, host=draw(st.sampled_from("hhhi"))
        )
        nodes.append(replace(found, limit=draw(limits | st.just(limit_for(found, targets[name])))))
    reserve = draw(st.builds(size, st.integers(0, 1000), st.integers(0, 1000)))
    found = Fleet({one.name: one for one in nodes}, {"h": CAPACITY, "i": CAPACITY}, {"h": reserve, "i": reserve})
    return found, {name: target for name, target in targets.items() if draw(st.integers(0, 4)) > 0}


def begun(before: Node, step: ResizeStep) -> tuple[Node, Node]:
    """As it counts when the move may come true, and when it has."""
    if step.what == LIMIT:
        return replace(before, limit=step.after.most(before.limit or NONE)), replace(before, limit=step.after)
    assert before.balloon is not None
    under_way = replace(before.balloon, desired=step.after, state=ASKED)
    done = replace(under_way, allocated=step.after, actual=step.after, state=SETTLED)
    return replace(before, balloon=under_way), replace(before, balloon=done)


def no_worse(before: Resources, after: Resources) -> bool:
    """In each resource, nothing is lacking, or no more than before."""
    return before.least(NONE).fits_in(after)


@given(fleets())
@settings(max_examples=400)
def test_whichever_moves_are_begun_or_done_no_sum_is_worse(found: tuple[Fleet, dict[str, Resources]]) -> None:
    fleet, targets = found
    steps = next_steps(fleet, targets, ())
    for some in chain.from_iterable(combinations(steps, count) for count in range(1, len(steps) + 1)):
        for stage in (0, 1):
            nodes = {**fleet.nodes, **{step.node: begun(fleet.nodes[step.node], step)[stage] for step in some}}
            after = replace(fleet, nodes=nodes)
            for host, members in fleet.by_host.items():
                room, later = fleet.unreserved(host), after.by_host[host]
                assert no_worse(left_to_promise(members, room), left_to_promise(later, room))
                assert no_worse(left_to_limits(members, room), left_to_limits(later, room))
            for name, one in nodes.items():
                assert within_limit(one) or not within_limit(fleet.nodes[name])


@given(fleets())
def test_moves_that_are_done_come_to_an_end(found: tuple[Fleet, dict[str, Resources]]) -> None:
    fleet, targets = found
    for _round in range(20):
        steps = next_steps(fleet, targets, ())
        if not steps:
            break
        fleet = replace(
            fleet, nodes={**fleet.nodes, **{step.node: begun(fleet.nodes[step.node], step)[1] for step in steps}}
        )
    assert not next_steps(fleet, targets, ())


@given(st.lists(amounts, min_size=1, max_size=4), st.sampled_from([None, CAPACITY, replace(CAPACITY, cpu=0)]))
def test_a_plan_holds_what_must_hold_after_each_of_its_moves_and_comes_to_all_targets(
    sizes: list[Resources], limit: Resources | None
) -> None:
    names = "abcd"[: len(sizes)]
    nodes = {name: node(name, balloon(one), limit) for name, one in zip(names, sizes)}
    found = fleet(*nodes.values())
    targets = {name: Resources(ROOM.cpu // len(sizes), ROOM.memory // len(sizes) // MIB * MIB) for name in names}
    for step in plan_steps(found, targets):
        after = begun(found.nodes[step.node], step)[1]
        then = replace(found, nodes={**found.nodes, step.node: after})
        before, later = found.by_host["h"], then.by_host["h"]
        assert no_worse(left_to_promise(before, ROOM), left_to_promise(later, ROOM))
        assert no_worse(left_to_limits(before, ROOM), left_to_limits(later, ROOM))
        assert within_limit(after)
        found = then
    assert all(is_at_target(found.nodes[name], target) for name, target in targets.items())
    assert not is_overcommitted(found, "h")


# Case by case.


def test_a_donor_gives_before_a_receiver_takes() -> None:
    donor, receiver = promising("a", size(5000, 4000)), promising("b", ROOM - size(5000, 4000))
    targets = {"a": size(1000, 1000), "b": ROOM - size(1000, 1000)}
    assert [step.node for step in next_steps(fleet(donor, receiver), targets, ())] == ["a"]
    assert [step.node for step in plan_steps(fleet(donor, receiver), targets)] == ["a", "b"]


def test_receivers_begin_together_if_there_is_room_for_both() -> None:
    nodes = [promising("a", size(1000, 1000)), promising("b", size(1000, 1000))]
    half = Resources(ROOM.cpu // 2, ROOM.memory // 2)
    assert len(next_steps(fleet(*nodes), {"a": half, "b": half}, ())) == 2
    more = replace(half, cpu=half.cpu + 1)
    assert [step.node for step in next_steps(fleet(*nodes), {"a": more, "b": more}, ())] == ["a"]


def test_two_nodes_that_trade_both_give_first() -> None:
    one, other = size(1000, 6000), ROOM - size(1000, 6000)
    nodes = promising("a", one), promising("b", other)
    steps = plan_steps(fleet(*nodes), {"a": other, "b": one})
    gives = [(step.node, step.after) for step in steps[:2]]
    smaller = ALLOCATABLE - one.least(other)
    assert gives == [("a", smaller), ("b", smaller)]
    assert [(step.node, step.after) for step in steps[2:]] == [("a", ALLOCATABLE - other), ("b", ALLOCATABLE - one)]


def test_with_limits_each_follows_the_giving_balloon_and_precedes_the_taking_one() -> None:
    donor, receiver = promising("a", size(5000, 4096), limited=True), promising("b", size(1000, 1024), limited=True)
    targets = {"a": size(1000, 1024), "b": size(5000, 4096)}
    steps = plan_steps(fleet(donor, receiver), targets)
    assert [(step.node, step.what) for step in steps if step.node == "a"] == [("a", BALLOON), ("a", LIMIT)]
    assert [(step.node, step.what) for step in steps if step.node == "b"] == [("b", LIMIT), ("b", BALLOON)]


def test_a_limit_is_lowered_in_one_resource_before_it_is_raised_in_the_other() -> None:
    found = promising("a", size(5000, 1024), limited=True)
    steps = plan_steps(fleet(found), {"a": size(1000, 4096)})
    assert [step.what for step in steps] == [BALLOON, LIMIT, LIMIT, BALLOON]
    assert steps[1].after == size(1000, 1024) + OVERHEAD
    assert steps[2].after == size(1000, 4096) + OVERHEAD


def test_a_limit_of_memory_alone_is_at_target_whatever_cpu_the_target_has() -> None:
    found = promising("a", size(5000, 4096), limited=True)
    machine = replace(found, limit=replace(limit_for(found, size(5000, 4096)), cpu=0))
    assert is_at_target(machine, size(5000, 4096))
    assert plan_steps(fleet(machine), {"a": size(5000, 4096)}) == ()
    assert [step.what for step in plan_steps(fleet(machine), {"a": size(1000, 4096)})] == [BALLOON]


def oversold_within_limits() -> Node:
    """As when slices are new: its limit is set, and its balloon still at the floor."""
    return node("b", balloon(FLOOR), limit_for(promising("b", NONE), size(1000, 1024)))


def test_a_limit_is_not_raised_for_a_balloon_that_could_not_shrink() -> None:
    found = promising("a", size(1000, 1024), limited=True)
    assert next_steps(fleet(found, oversold_within_limits()), {"a": size(2000, 1024)}, ()) == ()


def test_room_within_the_limits_is_not_taken_where_none_is_left_to_promise() -> None:
    found = promising("a", size(1000, 1024), limited=True)
    limited = replace(found, limit=limit_for(found, size(2000, 1024)))
    assert next_steps(fleet(limited, oversold_within_limits()), {"a": size(2000, 1024)}, ()) == ()


def test_a_node_without_a_limit_counts_beside_those_that_have_one() -> None:
    found = promising("a", size(1000, 1024), limited=True)
    assert left_to_limits([found, promising("b", size(2000, 1024))], ROOM) == ROOM - size(3000, 2048)


def test_on_a_host_that_is_oversold_nothing_is_taken_and_all_is_given() -> None:
    nodes = node("a", balloon(FLOOR)), promising("b", size(1000, 1024))
    targets = {"a": size(4000, 4096), "b": size(1001, 1024)}
    assert [step.node for step in next_steps(fleet(*nodes), targets, ())] == ["a"]


def test_a_resource_that_is_oversold_does_not_hold_up_the_other() -> None:
    nodes = promising("a", size(7899, 1024)), promising("b", size(1000, 1024))
    assert [step.node for step in next_steps(fleet(*nodes), {"b": size(1000, 2048)}, ())] == ["b"]
    assert next_steps(fleet(*nodes), {"b": size(1001, 1024)}, ()) == ()


def test_a_node_that_is_given_up_is_not_moved_and_counts() -> None:
    nodes = promising("a", ROOM - size(100, 100)), promising("b", size(100, 100))
    targets = {"a": size(100, 100), "b": ROOM - size(100, 100)}
    assert next_steps(fleet(*nodes), targets, {"a"}) == ()


@pytest.mark.parametrize("state", [STARTING, ASKED, ACTUATING])
def test_what_is_under_way_is_waited_for(state: str) -> None:
    assert next_step(node("a", balloon(size(100, 100), state=state)), size(1000, 1000)) is None


def test_a_node_that_is_not_ready_or_too_old_is_not_moved() -> None:
    found = promising("a", size(4000, 4000))
    assert next_step(replace(found, ready=False), size(1000, 1000)) is None
    assert next_step(replace(found, version=(1, 32)), size(1000, 1000)) is None
    assert next_step(node("a", None), size(1000, 1000)) is None


@pytest.mark.parametrize("state", [DEFERRED, INFEASIBLE])
def test_what_was_asked_and_is_not_to_be_is_put_back_unless_it_is_what_the_target_takes(state: str) -> None:
    had = ALLOCATABLE - size(4000, 4000)
    found = node("a", balloon(ALLOCATABLE - size(2000, 2000), had, state))
    assert next_step(found, size(2000, 2000)) is None
    assert next_step(found, size(1000, 1000)) == ResizeStep("a", BALLOON, ALLOCATABLE - size(2000, 2000), had)


def test_of_a_deferred_resize_what_may_be_granted_is_not_asked_back_at_once() -> None:
    """More cpu and less memory, by another's hand: without the cpu it is granted, and then the memory can be taken again."""
    found = node("a", balloon(size(5000, 1000), size(1000, 5000), DEFERRED))
    assert next_step(found, ALLOCATABLE - size(1000, 5000)) == ResizeStep(
        "a", BALLOON, size(5000, 1000), size(1000, 1000)
    )


def test_a_balloon_never_goes_below_its_floor_and_a_limit_is_what_a_kernel_can_keep() -> None:
    found = node("a", balloon(size(100, 100)), limit=CAPACITY)
    (step,) = plan_steps(replace(fleet(found), reserve={}), {"a": ALLOCATABLE})
    assert step.after == FLOOR
    odd = replace(found, allocatable=Resources(8000, CAPACITY.memory - 1))
    assert limit_for(odd, NONE) == Resources(10, 0)
    assert limit_for(found, Resources(1000, 100_000_000)) == Resources(
        1100, (100_000_000 + OVERHEAD.memory) // 2**16 * 2**16
    )


def test_a_plan_counts_a_balloon_that_is_not_there_as_one_at_the_floor() -> None:
    (step,) = plan_steps(fleet(node("a", None)), {"a": size(1000, 1000)})
    assert (step.before, step.after) == (FLOOR, ALLOCATABLE - size(1000, 1000))


def test_a_second_plan_is_empty() -> None:
    found = promising("a", size(1000, 1024), limited=True)
    assert plan_steps(fleet(found), {"a": size(1000, 1024)}) == ()
    assert is_at_target(found, size(1000, 1024))


def test_a_host_holds_as_long_as_nothing_is_sold_twice() -> None:
    whole = promising("a", ROOM - size(1000, 1024), limited=True), promising("b", size(1000, 1024), limited=True)
    assert not is_overcommitted(fleet(*whole), "h")
    assert is_overcommitted(fleet(whole[0], promising("b", size(1001, 1024))), "h")
    assert whole[1].limit is not None
    assert is_overcommitted(fleet(replace(whole[1], limit=whole[1].limit - size(1, 0))), "h")
    assert is_overcommitted(fleet(whole[0], replace(whole[1], limit=whole[1].limit + size(1, 0))), "h")
