# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules that steps of a resize are made of, each at its edge: what counts as granted, as room, as a limit, as done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import (
    ACTUATING,
    ASKED,
    CRITICAL,
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
    can_resize,
    granted_size,
    has_room_for,
    is_at_target,
    is_overcommitted,
    left_to_limits,
    left_to_promise,
    limit_for,
    may_preempt,
    next_step,
    next_steps,
    plan_steps,
    steps_of_host,
    within_limit,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import FLOOR, MIB, NONE, Resources

PAGE = 2**16


def size(cpu: int, memory: int) -> Resources:
    return Resources(cpu, memory * MIB)


CAPACITY, ALLOCATABLE = size(4000, 4096), size(3900, 4000)
OVERHEAD = CAPACITY - ALLOCATABLE


def balloon(
    desired: Resources, allocated: Resources | None = None, *, state: str = SETTLED, priority: int = 0
) -> Balloon:
    granted = desired if allocated is None else allocated
    return Balloon("kube-system", "b", "u", "1", desired, granted, granted, state, priority=priority)


def node(own: Balloon | None, name: str = "a", **fields: Any) -> Node:
    return Node(name, "h", CAPACITY, ALLOCATABLE, (1, 37), True, balloon=own, **fields)


def offering(amount: Resources, name: str = "a", **fields: Any) -> Node:
    return node(balloon(ALLOCATABLE - amount), name, **fields)


def limited(amount: Resources, name: str = "a", **fields: Any) -> Node:
    """What it offers is also its limit."""
    return replace(offering(amount, name, **fields), limit=amount + OVERHEAD)


def fleet(*nodes: Node, capacity: Resources = CAPACITY) -> Fleet:
    return Fleet({each.name: each for each in nodes}, {"h": capacity}, {"h": NONE})


SMALL, MIDDLE, LARGE = size(1000, 1024), size(2000, 2048), size(3000, 3072)


class TestSums:
    def test_each_node_counts_with_what_it_offers_and_with_its_limit(self) -> None:
        nodes = [limited(SMALL), replace(limited(SMALL, "b"), limit=MIDDLE + OVERHEAD)]
        assert left_to_promise(nodes, CAPACITY) == CAPACITY - SMALL - SMALL
        assert left_to_limits(nodes, CAPACITY) == CAPACITY - SMALL - MIDDLE

    @pytest.mark.parametrize(
        ("more", "is_within"),
        [(NONE, True), (Resources(0, PAGE - 1), True), (Resources(0, PAGE), False), (Resources(1, 0), False)],
    )
    def test_a_node_may_offer_the_part_of_a_page_that_its_limit_lacks(self, more: Resources, is_within: bool) -> None:
        assert within_limit(replace(limited(MIDDLE), limit=MIDDLE - more + OVERHEAD)) is is_within

    def test_a_host_is_overcommitted_by_either_sum_or_by_a_node_beyond_its_limit(self) -> None:
        half = size(2000, 2048)
        assert not is_overcommitted(fleet(limited(half), limited(half, "b")), "h")
        less = CAPACITY - size(1, 0)
        assert is_overcommitted(fleet(limited(half), limited(half, "b"), capacity=less), "h")
        higher = replace(limited(half), limit=half + OVERHEAD + size(0, 1))
        assert is_overcommitted(fleet(higher, limited(half, "b")), "h")
        lower = replace(limited(half), limit=half + OVERHEAD - size(0, 1))
        assert is_overcommitted(fleet(lower, limited(size(1, 1), "b")), "h")


class TestLimit:
    def test_it_is_in_whole_pages_and_never_above_the_target(self) -> None:
        target = Resources(1000, 100 * MIB + PAGE + 1)
        assert limit_for(limited(SMALL), target) == Resources(1100, 100 * MIB + PAGE + OVERHEAD.memory)

    @pytest.mark.parametrize(("cpu", "kept"), [(9, 10), (10, 10), (11, 11)])
    def test_cpu_is_at_least_10(self, cpu: int, kept: int) -> None:
        whole = replace(limited(SMALL), allocatable=CAPACITY)
        assert limit_for(whole, Resources(cpu, 0)).cpu == kept
        assert limit_for(replace(whole, limit=None), Resources(cpu, 0)).cpu == kept

    def test_of_memory_alone_where_the_present_one_is(self) -> None:
        machine = replace(limited(SMALL), limit=Resources(0, CAPACITY.memory))
        assert limit_for(machine, MIDDLE) == Resources(0, MIDDLE.memory + OVERHEAD.memory)


@pytest.mark.parametrize(("version", "can"), [((1, 32), False), ((1, 33), True), ((1, 34), True), ((2, 0), True)])
def test_kubelets_resize_pods_since_1_33(version: tuple[int, int], can: bool) -> None:
    assert can_resize(replace(offering(SMALL), version=version)) is can


@pytest.mark.parametrize(
    ("state", "granted"),
    [
        (SETTLED, size(500, 100)),
        (ACTUATING, size(500, 100)),
        (FAILING, size(500, 100)),
        (ASKED, size(400, 100)),  # the smaller of each
        (DEFERRED, size(400, 100)),
        (INFEASIBLE, size(400, 200)),  # it never will be
    ],
)
def test_what_counts_as_granted(state: str, granted: Resources) -> None:
    assert granted_size(balloon(size(500, 100), size(400, 200), state=state)) == granted


class TestPreemption:
    @pytest.mark.parametrize(("priority", "preempts"), [(CRITICAL - 1, False), (CRITICAL, True), (CRITICAL + 1, True)])
    def test_a_critical_balloon_that_grows_may_preempt(self, priority: int, preempts: bool) -> None:
        found = node(balloon(FLOOR, priority=priority))
        assert may_preempt(found, SMALL) is preempts
        assert not may_preempt(replace(found, forbids_preemption=True), SMALL)

    def test_one_that_keeps_its_size_or_shrinks_does_not(self) -> None:
        found = node(balloon(ALLOCATABLE - MIDDLE, priority=CRITICAL))
        assert not may_preempt(found, MIDDLE)
        assert not may_preempt(found, LARGE)
        assert may_preempt(found, MIDDLE - Resources(1, 0))
        assert not may_preempt(node(None), SMALL)

    def test_from_the_size_that_is_granted(self) -> None:
        asked = balloon(ALLOCATABLE - SMALL, ALLOCATABLE - MIDDLE, state=DEFERRED, priority=CRITICAL)
        assert may_preempt(node(asked), SMALL)

    def test_such_a_step_is_not_begun(self) -> None:
        found = node(balloon(FLOOR, priority=CRITICAL))
        assert next_step(found, SMALL) is None
        assert next_step(replace(found, forbids_preemption=True), SMALL) is not None


class TestAtTarget:
    def test_with_its_size_and_its_limit(self) -> None:
        assert is_at_target(offering(MIDDLE), MIDDLE)
        assert is_at_target(limited(MIDDLE), MIDDLE)

    @pytest.mark.parametrize(
        "found",
        [
            node(None),
            offering(SMALL),
            replace(limited(MIDDLE), limit=LARGE + OVERHEAD),
            *[
                node(balloon(ALLOCATABLE - MIDDLE, state=state))
                for state in (STARTING, ASKED, DEFERRED, INFEASIBLE, ACTUATING, FAILING)
            ],
        ],
    )
    def test_not_before_all_of_it(self, found: Node) -> None:
        assert not is_at_target(found, MIDDLE)


class TestNextStep:
    def test_a_balloon_grows_at_once_in_what_is_too_small_and_shrinks_later(self) -> None:
        found = offering(Resources(MIDDLE.cpu, SMALL.memory))
        target = Resources(SMALL.cpu, MIDDLE.memory)
        now = ALLOCATABLE - Resources(MIDDLE.cpu, SMALL.memory)
        larger = ALLOCATABLE - Resources(SMALL.cpu, SMALL.memory)
        assert next_step(found, target) == ResizeStep("a", BALLOON, now, larger)
        grown = replace(found, balloon=balloon(larger))
        assert next_step(grown, target) == ResizeStep("a", BALLOON, larger, ALLOCATABLE - target)
        assert next_step(offering(target), target) is None

    def test_a_limit_is_lowered_then_raised_then_the_balloon_shrinks(self) -> None:
        held = Resources(SMALL.cpu, SMALL.memory)
        found = replace(offering(held), limit=Resources(MIDDLE.cpu, SMALL.memory) + OVERHEAD)
        target = Resources(SMALL.cpu, MIDDLE.memory)
        lowered, raised = held + OVERHEAD, target + OVERHEAD
        assert found.limit is not None
        assert next_step(found, target) == ResizeStep("a", LIMIT, found.limit, lowered)
        found = replace(found, limit=lowered)
        assert next_step(found, target) == ResizeStep("a", LIMIT, lowered, raised)
        found = replace(found, limit=raised)
        assert next_step(found, target) == ResizeStep("a", BALLOON, ALLOCATABLE - held, ALLOCATABLE - target)

    def test_a_limit_waits_until_the_balloon_has_settled(self) -> None:
        found = replace(limited(MIDDLE), limit=LARGE + OVERHEAD)
        assert next_step(found, MIDDLE) is not None
        assert found.balloon is not None
        assert next_step(replace(found, balloon=replace(found.balloon, state=FAILING)), MIDDLE) is None

    def test_one_that_the_runtime_refuses_may_be_resized_again(self) -> None:
        found = node(balloon(ALLOCATABLE - MIDDLE, state=FAILING))
        assert next_step(found, SMALL) == ResizeStep("a", BALLOON, ALLOCATABLE - MIDDLE, ALLOCATABLE - SMALL)
        assert next_step(found, LARGE) == ResizeStep("a", BALLOON, ALLOCATABLE - MIDDLE, ALLOCATABLE - LARGE)

    @pytest.mark.parametrize("state", [STARTING, ASKED, ACTUATING])
    def test_an_answer_is_waited_for(self, state: str) -> None:
        assert next_step(node(balloon(ALLOCATABLE - MIDDLE, state=state)), SMALL) is None

    def test_a_kubelet_that_is_not_ready_or_too_old_is_asked_nothing(self) -> None:
        assert next_step(replace(offering(MIDDLE), ready=False), SMALL) is None
        assert next_step(replace(offering(MIDDLE), version=(1, 32)), SMALL) is None
        assert next_step(node(None), SMALL) is None

    def test_a_deferred_request_stays_while_the_target_needs_it(self) -> None:
        granted, asked = ALLOCATABLE - MIDDLE, ALLOCATABLE - SMALL
        found = node(balloon(asked, granted, state=DEFERRED))
        assert next_step(found, SMALL) is None
        assert next_step(found, MIDDLE) == ResizeStep("a", BALLOON, asked, granted)
        assert next_step(node(balloon(granted, asked, state=DEFERRED)), MIDDLE) is None


class TestStepsOfHost:
    ROOM = MIDDLE + MIDDLE

    def test_steps_that_give_come_first_and_need_no_room(self) -> None:
        takes, gives = offering(SMALL, "a"), offering(MIDDLE, "b")
        targets = {"a": MIDDLE, "b": SMALL}
        assert [step.node for step in steps_of_host([takes, gives], self.ROOM, targets, ())] == ["b", "a"]
        assert [step.node for step in steps_of_host([takes, gives], SMALL, targets, ())] == ["b"]

    @pytest.mark.parametrize(
        ("lacking", "begun"), [(NONE, ["a", "b"]), (Resources(1, 0), ["a"]), (Resources(0, 1), ["a"])]
    )
    def test_each_that_takes_lessens_the_room_of_the_next(self, lacking: Resources, begun: list[str]) -> None:
        nodes = offering(SMALL, "a"), offering(SMALL, "b")
        room = self.ROOM - lacking
        targets = {"a": MIDDLE, "b": MIDDLE}
        assert [step.node for step in steps_of_host(nodes, room, targets, ())] == begun
        # A limit that it has already takes nothing more.
        bounded = [replace(each, limit=MIDDLE + OVERHEAD) for each in nodes]
        assert [step.node for step in steps_of_host(bounded, room, targets, ())] == begun

    @pytest.mark.parametrize(
        ("lacking", "begun"), [(NONE, ["a", "b"]), (Resources(1, 0), ["a"]), (Resources(0, PAGE), ["a"])]
    )
    def test_a_raised_limit_counts_at_once(self, lacking: Resources, begun: list[str]) -> None:
        nodes = limited(SMALL, "a"), limited(SMALL, "b")
        steps = steps_of_host(nodes, self.ROOM - lacking, {"a": MIDDLE, "b": MIDDLE}, ())
        assert [(step.node, step.what) for step in steps] == [(name, LIMIT) for name in begun]

    @pytest.mark.parametrize("of", [offering, limited])
    def test_limits_have_a_sum_of_their_own(self, of: Any) -> None:
        """A third node offers less than its limit lets it."""
        nodes = of(SMALL, "a"), of(SMALL, "b"), replace(offering(SMALL, "c"), limit=MIDDLE + OVERHEAD)
        room = MIDDLE + MIDDLE + MIDDLE
        targets = {"a": MIDDLE, "b": MIDDLE}
        assert [step.node for step in steps_of_host(nodes, room, targets, ())] == ["a", "b"]
        assert [step.node for step in steps_of_host(nodes, room - Resources(1, 0), targets, ())] == ["a"]

    def test_a_limit_is_lowered_in_one_resource_though_the_other_has_no_room(self) -> None:
        found = replace(offering(SMALL), limit=Resources(MIDDLE.cpu, SMALL.memory) + OVERHEAD)
        (step,) = steps_of_host([found], SMALL, {"a": Resources(SMALL.cpu, MIDDLE.memory)}, ())
        assert step.after == SMALL + OVERHEAD

    def test_a_limit_is_not_raised_without_room_for_the_balloon_to_shrink(self) -> None:
        """The other node offers more than its limit lets it, so that the sum of limits alone has room."""
        beyond = replace(offering(MIDDLE, "b"), limit=SMALL + OVERHEAD)
        nodes = limited(SMALL, "a"), beyond
        assert [step.node for step in steps_of_host(nodes, self.ROOM, {"a": MIDDLE}, ())] == ["a"]
        assert steps_of_host(nodes, self.ROOM - Resources(1, 0), {"a": MIDDLE}, ()) == []

    def test_a_lowered_limit_takes_nothing(self) -> None:
        found = replace(limited(SMALL), limit=MIDDLE + OVERHEAD)
        assert steps_of_host([found], NONE, {"a": SMALL}, ()) == [
            ResizeStep("a", LIMIT, MIDDLE + OVERHEAD, SMALL + OVERHEAD)
        ]

    def test_nodes_without_a_target_and_those_given_up_count_and_stay(self) -> None:
        nodes = offering(SMALL, "a"), offering(SMALL, "b"), offering(SMALL, "c")
        targets = {"a": MIDDLE, "c": MIDDLE}
        assert [step.node for step in steps_of_host(nodes, SMALL + MIDDLE + MIDDLE, targets, {"c"})] == ["a"]
        assert steps_of_host(nodes, SMALL + SMALL + SMALL, targets, {"c"}) == []


class TestRoom:
    """A step that failed is begun again only where the host has room for what it takes."""

    @pytest.mark.parametrize(
        ("room", "has_room"),
        [
            (MIDDLE + SMALL, True),
            (MIDDLE + SMALL - Resources(1, 0), False),
            (MIDDLE + SMALL - Resources(0, 1), False),
        ],
    )
    def test_for_what_a_node_offers_more(self, room: Resources, has_room: bool) -> None:
        nodes = offering(SMALL, "b"), offering(MIDDLE, "a")
        assert has_room_for(offering(SMALL, "a"), nodes, room) is has_room

    def test_a_resource_that_it_does_not_take_more_of_may_lack(self) -> None:
        nodes = [offering(Resources(MIDDLE.cpu, SMALL.memory))]
        assert has_room_for(offering(SMALL), nodes, Resources(MIDDLE.cpu, 0))
        assert not has_room_for(offering(SMALL), nodes, Resources(MIDDLE.cpu - 1, LARGE.memory))
        assert has_room_for(offering(MIDDLE), [offering(MIDDLE)], NONE)
        assert has_room_for(offering(LARGE), [offering(MIDDLE)], NONE)

    def test_for_what_its_limit_lets_it_offer_more(self) -> None:
        after = replace(offering(SMALL), limit=MIDDLE + OVERHEAD)
        assert has_room_for(limited(SMALL), [after], MIDDLE)
        assert not has_room_for(limited(SMALL), [after], MIDDLE - Resources(1, 0))


class TestPlan:
    def test_it_has_every_step_of_two_nodes_that_trade(self) -> None:
        found = fleet(limited(SMALL, "a"), limited(MIDDLE, "b"), capacity=SMALL + MIDDLE)
        assert plan_steps(found, {"a": MIDDLE, "b": SMALL}) == (
            ResizeStep("b", BALLOON, ALLOCATABLE - MIDDLE, ALLOCATABLE - SMALL),
            ResizeStep("b", LIMIT, MIDDLE + OVERHEAD, SMALL + OVERHEAD),
            ResizeStep("a", LIMIT, SMALL + OVERHEAD, MIDDLE + OVERHEAD),
            ResizeStep("a", BALLOON, ALLOCATABLE - SMALL, ALLOCATABLE - MIDDLE),
        )

    def test_hosts_do_not_share_their_room(self) -> None:
        nodes = offering(SMALL, "a"), replace(offering(SMALL, "b"), host="i")
        found = Fleet({each.name: each for each in nodes}, {"h": MIDDLE, "i": SMALL}, {"h": NONE, "i": NONE})
        targets = {"a": MIDDLE, "b": MIDDLE}
        assert [step.node for step in next_steps(found, targets, ())] == ["a"]
        assert next_steps(found, targets, {"a"}) == ()

    @pytest.mark.parametrize("own", [None, balloon(size(77, 77), NONE, state=STARTING)])
    def test_a_balloon_that_has_not_started_counts_as_one_at_the_floor(self, own: Balloon | None) -> None:
        found = replace(node(own), ready=False)
        assert plan_steps(fleet(found), {"a": SMALL}) == (ResizeStep("a", BALLOON, FLOOR, ALLOCATABLE - SMALL),)

    def test_what_was_asked_counts_as_granted_as_far_as_it_is(self) -> None:
        asked = balloon(ALLOCATABLE - SMALL, ALLOCATABLE - MIDDLE, state=ASKED)
        found = replace(node(asked), ready=False)
        assert plan_steps(fleet(found), {"a": SMALL}) == (
            ResizeStep("a", BALLOON, ALLOCATABLE - MIDDLE, ALLOCATABLE - SMALL),
        )

    def test_nodes_without_a_target_are_left_as_they_are(self) -> None:
        other = replace(node(balloon(ALLOCATABLE - SMALL, state=STARTING), "b"), ready=False)
        found = fleet(offering(SMALL), other, capacity=MIDDLE + SMALL)
        assert [step.node for step in plan_steps(found, {"a": MIDDLE})] == ["a"]

    def test_a_node_that_is_too_old_and_a_target_without_room_are_left_out(self) -> None:
        old = replace(offering(SMALL, "a"), version=(1, 32))
        assert plan_steps(fleet(old, offering(SMALL, "b")), {"a": SMALL - FLOOR, "b": CAPACITY}) == ()
