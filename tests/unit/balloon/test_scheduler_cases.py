# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What becomes of nodes that change their sizes, case by case, over the model: who begins, what is under way, and whose room it is."""

from __future__ import annotations

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import DONE, Outcome
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.scheduler import (
    GROW,
    SHRINK,
    Resize,
    SetLimit,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import FLOOR, MIB, Resources
from tests.unit.balloon.scheduler_steps import CAPACITY, HALF, LARGE, ROOM, SMALL, Steps, of, size, sizes, world


def test_a_donor_is_through_before_its_receiver_begins() -> None:
    steps = Steps(world(LARGE, SMALL), SMALL, LARGE)
    (grow,) = steps.asked
    assert isinstance(grow, Resize)
    assert (grow.node, grow.size, grow.why) == ("n0", of(SMALL), GROW)
    steps.deliver()
    steps.look()
    assert steps.asked == []
    steps.work()
    steps.look()
    (shrink,) = steps.asked
    assert isinstance(shrink, Resize)
    assert (shrink.node, shrink.size, shrink.why) == ("n1", of(LARGE), SHRINK)
    steps.go()
    assert steps.outcomes == {
        "n0": Outcome("n0", DONE, of(LARGE), of(SMALL)),
        "n1": Outcome("n1", DONE, of(SMALL), of(LARGE)),
    }


def test_what_is_under_way_is_not_asked_again() -> None:
    steps = Steps(world(LARGE), SMALL)
    for _time in range(3):
        steps.look(1)
        assert len(steps.asked) == 1


def test_nodes_at_their_targets_are_done_at_once() -> None:
    steps = Steps(world(SMALL, HALF), SMALL, HALF)
    assert steps.asked == []
    assert {one.outcome for one in steps.outcomes.values()} == {DONE}


@pytest.mark.parametrize("limits", [False, True])
def test_two_receivers_never_get_the_same_room_though_nothing_is_seen_yet(limits: bool) -> None:
    steps = Steps(world(SMALL, SMALL, limits=limits), LARGE, LARGE)
    for _time in range(3):
        steps.world.kubelets["n1"].takes(size(1, 1))  # so that there is something new on the host
        steps.look(1)
        assert [action.node for action in steps.asked] == ["n0"]


def test_two_nodes_that_trade_cpu_for_memory_come_through() -> None:
    one, other = size(2000, 6000), Resources(ROOM.cpu - 2000, ROOM.memory - 6000 * MIB)
    steps = Steps(world(one, other), other, one)
    assert sizes(steps.asked) == dict.fromkeys(["n0", "n1"], of(one.least(other)))
    steps.go()
    assert {one.outcome for one in steps.outcomes.values()} == {DONE}


def test_with_limits_the_order_is_balloon_limit_limit_balloon() -> None:
    steps = Steps(world(LARGE, SMALL, limits=True), SMALL, LARGE)
    kinds = []
    for _round in range(6):
        kinds += [(action.node, type(action)) for action in steps.asked]
        steps.deliver()
        steps.work()
        steps.look()
    assert kinds == [("n0", Resize), ("n0", SetLimit), ("n1", SetLimit), ("n1", Resize)]
    assert {one.outcome for one in steps.outcomes.values()} == {DONE}


def test_a_limit_that_is_to_be_lowered_counts_until_it_is() -> None:
    steps = Steps(world(LARGE, SMALL, limits=True), SMALL, LARGE)
    steps.deliver()
    steps.work()
    for _time in range(3):
        steps.world.kubelets["n1"].takes(size(1, 1))
        steps.look(1)
        assert [action.node for action in steps.asked] == ["n0"]


def test_a_shrink_that_is_found_unanswered_is_not_asked_back() -> None:
    """The kubelet may have granted it, and pods may be there in its place."""
    found = world(SMALL)
    Steps(found, LARGE).deliver()
    steps = Steps(found, SMALL)
    assert steps.asked == []
    steps.go()
    assert steps.outcomes["n0"].outcome == DONE


def test_a_machine_that_starts_anew_does_not_give_its_nodes_a_second_room() -> None:
    """Its boot id changes, and each node tells the new one when its kubelet is back."""
    steps = Steps(world(LARGE, SMALL), SMALL, LARGE)
    steps.world.kubelets["n1"].host = "anew"
    steps.world.capacities["anew"], steps.world.reserve["anew"] = CAPACITY, CAPACITY - ROOM
    steps.look()
    assert sizes(steps.asked) == {"n0": of(SMALL)}
    steps.go()
    assert {one.outcome for one in steps.outcomes.values()} == {DONE}


def test_two_runs_at_once_may_give_one_room_to_two_nodes() -> None:
    """Each PATCH is right for its pod. Why a run holds its host's Lease."""
    found = world(SMALL, SMALL)
    one = Steps(found, LARGE, LARGE)
    found.kubelets["n0"].ready = False
    other = Steps(found, LARGE, LARGE)
    assert (sizes(one.asked), sizes(other.asked)) == ({"n0": of(LARGE)}, {"n1": of(LARGE)})


@pytest.mark.parametrize("floor", [True, False])
def test_a_new_host_is_brought_within_its_room_from_any_start(floor: bool) -> None:
    found = world(None, None)
    steps = Steps(found, SMALL, LARGE)
    for name in found.kubelets:
        found.make_balloon(name, FLOOR if floor else of(SMALL))
    steps.go()
    assert {one.outcome for one in steps.outcomes.values()} == {DONE}
