# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the server, a kubelet or its runtime refuses or does not answer: what is asked again, and what is told."""

from __future__ import annotations

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import BLOCKED, FAILED, REJECTED
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.scheduler import Resize
from tests.unit.balloon.scheduler_steps import HALF, LARGE, SMALL, Steps, of, size, sizes, world


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
