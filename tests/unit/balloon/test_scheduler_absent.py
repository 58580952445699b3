# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes and balloons that are not there: which are waited for, whose room is kept, and what is told in the end."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import BLOCKED, DONE, FAILED, Outcome
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import NONE
from tests.unit.balloon.scheduler_steps import ALLOCATABLE, CAPACITY, HALF, LARGE, SMALL, Steps, of, world


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
