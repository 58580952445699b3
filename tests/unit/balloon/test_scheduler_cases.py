# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What becomes of a node, case by case, over the model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import (
    BLOCKED,
    DONE,
    FAILED,
    INFEASIBLE_OUTCOME,
    REJECTED,
    REVERTED,
    Outcome,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.resize_steps import limit_for
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.scheduler import (
    GROW,
    REVERT,
    SHRINK,
    Action,
    Resize,
    SetLimit,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import FLOOR, MIB, NONE, Resources
from tests.unit.balloon.model_kubelet import Kubelet, World
from tests.unit.balloon.schedules import Run

CAPACITY = Resources(10_000, 10_240 * MIB)
ALLOCATABLE = Resources(9_900, 10_000 * MIB)
ROOM = CAPACITY - (CAPACITY - ALLOCATABLE) - (CAPACITY - ALLOCATABLE)


def size(cpu: int, memory: int) -> Resources:
    return Resources(cpu, memory * MIB)


SMALL, LARGE = size(2000, 2000), ROOM - size(2000, 2000)
HALF = Resources(ROOM.cpu // 2, ROOM.memory // 2)


def of(target: Resources) -> Resources:
    """The balloon for it."""
    return ALLOCATABLE - target


def world(*targets: Resources | None, limits: bool = False) -> World:
    """Nodes n0, n1, ... on one host with a reserve for two, that may promise so much; None has no balloon."""
    found = World({}, {"h": CAPACITY - ROOM}, {"h": CAPACITY})
    for number, target in enumerate(targets):
        name = f"n{number}"
        kubelet = found.kubelets[name] = Kubelet("h", CAPACITY, ALLOCATABLE)
        if target is not None:
            found.settle(name, of(target))
            facts = found.facts(name)
            assert facts is not None
            kubelet.limit = limit_for(facts, target) if limits else None
    return found


class Steps:
    """A run, a step at a time, with facts that are never late."""

    def __init__(self, world: World, *targets: Resources) -> None:
        self.world = world
        self.now = 0.0
        self.run = Run(world, {f"n{number}": target for number, target in enumerate(targets)}, self.now)

    @property
    def asked(self) -> list[Action]:
        return [sent.action for sent in self.run.sent]

    @property
    def outcomes(self) -> dict[str, Outcome]:
        return self.run.scheduler.outcomes

    def told(self, name: str = "n0") -> str:
        return self.outcomes[name].text

    def look(self, seconds: float = 0.0) -> None:
        """Decide, after so much time."""
        self.now += seconds
        for name in self.world.kubelets:
            self.run.watch(name)
        self.run.decide(self.now)

    def deliver(self) -> None:
        for sent in list(self.run.sent):
            self.run.deliver(sent)

    def work(self) -> None:
        for kubelet in self.world.kubelets.values():
            kubelet.works()

    def go(self) -> None:
        """Until there is nothing to do but wait."""
        for _round in range(20):
            self.deliver()
            self.work()
            self.look()

    def wait(self) -> float:
        """Until the time at which it wants to decide again. How long that was."""
        wake = self.run.scheduler.wake
        assert wake is not None
        seconds = wake - self.now
        self.look(seconds)
        return seconds


def sizes(actions: list[Action]) -> dict[str, Resources]:
    return {action.node: action.size for action in actions if isinstance(action, Resize)}


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


def deferred() -> Steps:
    """The balloon of n0 is to grow, and a pod is in its way."""
    found = world(LARGE)
    found.kubelets["n0"].takes(size(5000, 5000))
    steps = Steps(found, SMALL)
    steps.go()
    return steps


def test_a_deferred_growth_is_put_back_when_its_time_is_over() -> None:
    steps = deferred()
    assert steps.wait() == 30
    (back,) = steps.asked
    assert isinstance(back, Resize)
    assert (back.size, back.why) == (of(LARGE), REVERT)
    steps.go()
    assert steps.outcomes["n0"].outcome == REVERTED
    assert steps.outcomes["n0"].after == of(LARGE)
    for part in ("default/w0 5000m cpu, 5000Mi memory", f"leaves them {SMALL}", "balloon-reverted"):
        assert part in steps.told()


def test_growth_that_is_granted_in_time_is_done() -> None:
    steps = deferred()
    steps.look(29)
    steps.world.kubelets["n0"].workloads.clear()
    steps.go()
    assert steps.outcomes["n0"].outcome == DONE


def test_a_grant_that_comes_after_the_growth_is_put_back_is_given_back() -> None:
    steps = deferred()
    steps.wait()
    steps.deliver()
    kubelet = steps.world.kubelets["n0"]
    kubelet.workloads.clear()
    kubelet.acts()  # on what it saw before
    kubelet.actuates()
    kubelet.reports()
    steps.look()
    assert steps.outcomes == {}
    steps.go()
    assert steps.outcomes["n0"].outcome == REVERTED
    assert kubelet.allocated == of(LARGE)


def test_a_grant_that_comes_before_the_growth_is_put_back_counts() -> None:
    steps = deferred()
    steps.wait()
    steps.world.kubelets["n0"].workloads.clear()
    steps.work()
    steps.deliver()  # a conflict: the pod is another than the one that was to be put back
    steps.look()
    assert steps.outcomes["n0"].outcome == DONE


def test_a_deferred_growth_that_is_found_counts_from_the_first_look() -> None:
    steps = deferred()
    steps.now = 1000
    steps.run = Run(steps.world, {"n0": SMALL}, steps.now)
    assert steps.asked == []
    assert steps.wait() == 30
    assert sizes(steps.asked) == {"n0": of(LARGE)}


def test_a_deferred_growth_that_is_found_and_not_wanted_is_put_back_at_once() -> None:
    steps = deferred()
    steps.run = Run(steps.world, {"n0": LARGE}, steps.now)
    assert sizes(steps.asked) == {"n0": of(LARGE)}
    steps.go()
    assert steps.outcomes["n0"].outcome == DONE


def test_a_shrink_that_is_found_unanswered_is_not_asked_back() -> None:
    """The kubelet may have granted it, and pods may be there in its place."""
    found = world(SMALL)
    Steps(found, LARGE).deliver()
    steps = Steps(found, SMALL)
    assert steps.asked == []
    steps.go()
    assert steps.outcomes["n0"].outcome == DONE


def test_what_is_infeasible_is_put_back_at_once() -> None:
    found = world(LARGE)
    found.kubelets["n0"].most = of(LARGE)
    steps = Steps(found, SMALL)
    steps.go()
    assert (steps.outcomes["n0"].outcome, steps.outcomes["n0"].after) == (INFEASIBLE_OUTCOME, of(LARGE))
    assert "balloon-infeasible" in steps.told()


def test_what_the_server_refuses_is_rejected_with_its_words() -> None:
    found = world(LARGE, SMALL)
    found.rejects = True
    steps = Steps(found, SMALL, LARGE)
    steps.go()
    assert steps.outcomes["n0"].outcome == REJECTED
    assert "the server says rejected" in steps.told()
    assert steps.outcomes["n1"].outcome == BLOCKED
    assert "n0 has" in steps.told("n1")
    assert "rejected" in steps.told("n1")


def test_what_cannot_be_put_back_is_told() -> None:
    steps = deferred()
    steps.wait()
    steps.world.rejects = True
    steps.deliver()
    assert steps.outcomes["n0"].outcome == FAILED
    assert "balloon-not-put-back" in steps.told()


def test_a_conflict_is_decided_anew_from_newer_facts() -> None:
    steps = Steps(world(LARGE), SMALL)
    written = steps.world.kubelets["n0"].written
    assert written is not None
    written.version += 1
    steps.deliver()
    steps.look()
    (again,) = steps.asked
    assert isinstance(again, Resize)
    assert again.resource_version.endswith(f".{written.version}")


def test_what_nobody_knows_of_is_repeated_in_growing_pauses_until_it_is_given_up() -> None:
    steps = Steps(world(LARGE), SMALL)
    pauses = []
    while not steps.run.scheduler.finished:
        (sent,) = steps.run.sent
        first = sent.action
        steps.run.sent.clear()
        steps.run.scheduler.note_refusal("n0", "no answer", again=True)
        steps.look()
        if not steps.run.scheduler.finished:
            pauses.append(steps.wait())
            assert steps.asked == [first]
    assert pauses[:5] == [1, 2, 4, 8, 8]
    assert steps.outcomes["n0"].outcome == FAILED
    assert "balloon-contended" in steps.told()


def test_the_room_of_a_shrink_of_unknown_fate_is_taken() -> None:
    steps = Steps(world(SMALL, SMALL), LARGE, LARGE)
    (sent,) = steps.run.sent
    steps.run.deliver(sent, answer_lost=True)
    for _time in range(5):
        steps.run.decide(steps.now)  # from facts of before
        assert set(sizes(steps.asked)) <= {"n0"}
        steps.now += 1


def test_a_shrink_of_unknown_fate_is_not_repeated_where_its_room_is_gone() -> None:
    steps = Steps(world(SMALL, HALF), HALF)
    (sent,) = steps.run.sent
    steps.run.sent.clear()
    steps.run.scheduler.note_refusal("n0", "no answer", again=True)
    steps.world.kubelets["n1"].loses_balloon()
    steps.look()
    steps.look(1)
    assert steps.asked == []
    assert steps.outcomes["n0"].outcome == BLOCKED


def test_a_kubelet_that_cannot_resize_is_not_asked() -> None:
    found = world(LARGE)
    found.kubelets["n0"].version = (1, 32)
    steps = Steps(found, SMALL)
    assert steps.asked == []
    assert steps.outcomes["n0"].outcome == REJECTED
    assert "version 1.32" in steps.told()


def test_a_balloon_that_does_not_start_is_waited_for_and_then_told() -> None:
    steps = Steps(world(None), SMALL)
    assert steps.wait() == 120
    assert replace(steps.outcomes["n0"], why=None) == Outcome("n0", FAILED, NONE, NONE)
    assert "no balloon pod" in steps.told()


def test_a_balloon_that_starts_late_is_sized() -> None:
    steps = Steps(world(None), SMALL)
    steps.look(100)
    steps.world.make_balloon("n0")
    steps.go()
    assert steps.outcomes["n0"] == Outcome("n0", DONE, NONE, of(SMALL))


def test_a_balloon_that_is_lost_on_the_way_is_sized_when_it_is_back() -> None:
    steps = Steps(world(LARGE), SMALL)
    steps.deliver()
    steps.world.kubelets["n0"].loses_balloon()
    steps.look()
    steps.world.make_balloon("n0")
    steps.go()
    assert steps.outcomes["n0"] == Outcome("n0", DONE, of(LARGE), of(SMALL))


def test_a_node_that_is_not_ready_is_not_asked_and_told_in_the_end() -> None:
    found = world(LARGE)
    found.kubelets["n0"].ready = False
    steps = Steps(found, SMALL)
    assert steps.asked == []
    assert steps.wait() == 60
    assert steps.outcomes["n0"].outcome == FAILED
    assert "balloon-node-unready" in steps.told()


def test_a_node_that_is_gone_is_told_and_counts_as_it_was() -> None:
    steps = Steps(world(LARGE, SMALL), SMALL, LARGE)
    steps.run.sent.clear()
    steps.world.kubelets["n0"].registered = False
    steps.look()
    assert steps.asked == []
    assert steps.wait() == 60
    assert "balloon-node-gone" in steps.told()
    assert steps.outcomes["n1"].outcome == BLOCKED


def test_what_is_reserved_for_a_node_that_is_away_is_not_given_out() -> None:
    overhead = CAPACITY - ALLOCATABLE
    steps = Steps(world(LARGE, SMALL), SMALL, SMALL + overhead)
    steps.world.kubelets["n0"].registered = False
    steps.world.reserve["h"] -= overhead
    steps.look()
    assert [action.node for action in steps.asked] == ["n0"]  # from before


def test_a_node_that_the_cluster_never_had_is_told() -> None:
    steps = Steps(world(), SMALL)
    steps.wait()
    assert "balloon-node-gone" in steps.told()


def test_a_node_that_is_first_seen_later_is_moved_then() -> None:
    steps = Steps(world(LARGE), LARGE, SMALL)
    late = world(SMALL, HALF)
    steps.world.kubelets["n1"] = late.kubelets["n1"]
    steps.look(30)
    assert [action.node for action in steps.asked] == ["n1"]
    assert steps.run.scheduler.wake == 30 + 60


def test_growth_that_no_kubelet_answers_is_put_back() -> None:
    steps = Steps(world(LARGE), SMALL)
    steps.world.kubelets["n0"].dies()
    steps.go()
    assert steps.wait() == 60
    assert sizes(steps.asked) == {"n0": of(LARGE)}
    steps.go()
    steps.wait()
    assert steps.outcomes["n0"].outcome == FAILED
    assert "balloon-unanswered" in steps.told()


def test_a_shrink_that_no_kubelet_answers_stays_asked_and_counts() -> None:
    steps = Steps(world(SMALL, SMALL), LARGE, LARGE)
    steps.world.kubelets["n0"].dies()
    steps.go()
    steps.wait()
    assert steps.outcomes["n0"].outcome == FAILED
    assert steps.outcomes["n1"].outcome == BLOCKED
    assert steps.asked == []


def test_what_the_runtime_does_not_do_is_told() -> None:
    found = world(LARGE)
    found.kubelets["n0"].runtime = False
    steps = Steps(found, SMALL)
    steps.go()
    assert steps.wait() == 60
    assert steps.outcomes["n0"].outcome == FAILED
    assert "balloon-not-actuated" in steps.told()


def test_what_is_neither_refused_nor_seen_is_told() -> None:
    steps = Steps(world(LARGE), SMALL)
    assert steps.wait() == 60
    assert "balloon-api-silent" in steps.told()


def test_a_limit_that_cannot_be_lowered_keeps_the_receiver_waiting_for_nothing() -> None:
    steps = Steps(world(LARGE, SMALL, limits=True), SMALL, LARGE)
    steps.world.limits_fail = True
    steps.go()
    assert steps.outcomes["n0"].outcome == FAILED
    assert "balloon-limit-refused" in steps.told()
    assert steps.outcomes["n1"].outcome == BLOCKED
    assert steps.world.kubelets["n1"].allocated == of(SMALL)


def test_a_machine_that_starts_anew_does_not_give_its_nodes_a_second_room() -> None:
    """Its boot id changes, and each node tells the new one when its kubelet is back."""
    steps = Steps(world(LARGE, SMALL), SMALL, LARGE)
    steps.world.kubelets["n1"].host = "anew"
    steps.world.capacities["anew"], steps.world.reserve["anew"] = CAPACITY, CAPACITY - ROOM
    steps.look()
    assert sizes(steps.asked) == {"n0": of(SMALL)}
    steps.go()
    assert {one.outcome for one in steps.outcomes.values()} == {DONE}


def test_a_balloon_that_another_resizes_all_the_time_is_given_up() -> None:
    steps = Steps(world(LARGE), SMALL)
    for turn in range(200):
        if steps.run.scheduler.finished:
            break
        written = steps.world.kubelets["n0"].written
        assert written is not None
        written.spec = of(LARGE) - size(turn, 0)
        written.version += 1
        steps.run.sent.clear()
        steps.look(61)
    assert "balloon-contended" in steps.told()


def test_the_largest_of_many_pods_are_named() -> None:
    found = world(LARGE)
    for number in range(8):
        found.kubelets["n0"].takes(size(500 + number, 10))
    steps = Steps(found, size(3000, 9000))
    steps.go()
    steps.wait()
    steps.go()
    assert "largest: default/w7 507m cpu" in steps.told()
    assert "and 3 more" in steps.told()


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
