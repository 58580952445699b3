# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The scheduler of balloons: over thousands of orders of steps with everything failing, and case by case."""

from __future__ import annotations

import pytest

from tests.unit.balloon.hosts import world_and_targets
from tests.unit.balloon.schedules import Schedule

STEPS = 120


def schedule(seed: int, **how: object) -> Schedule:
    world, targets = world_and_targets(seed)
    return Schedule(world, targets, seed, **how)  # type: ignore[arg-type]


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_no_order_of_steps_oversells_a_host(first: int) -> None:
    """And all nodes come to their targets as soon as nothing fails any more."""
    for seed in range(first, first + 50):
        run = schedule(seed, losses=seed % 3 > 0)
        for _step in range(STEPS):
            run.step()
        run.repair()
        run.come_to_rest()


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_every_run_ends_though_nothing_ever_becomes_well(first: int) -> None:
    for seed in range(first, first + 20):
        run = schedule(seed, kills=False)
        for _step in range(20_000):
            if run.all_finished():
                break
            run.step()
        assert run.all_finished(), f"seed {seed}"


def test_every_run_ends_where_only_the_clock_moves() -> None:
    for seed in range(300):
        run = schedule(seed)
        for _step in range(seed % 40):
            run.step()
        only = run.truth.runs[0]
        for _round in range(200):
            only.decide(run.now)
            if only.scheduler.finished:
                break
            assert only.scheduler.wake is not None
            run.now = max(run.now, only.scheduler.wake)
        assert only.scheduler.finished, f"seed {seed}"


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_two_runs_without_a_lease_end_and_leave_nothing_that_one_could_not_mend(first: int) -> None:
    """And no node goes beyond both what it had and its target. The sums of a host are what the Lease is for."""
    for seed in range(first, first + 20):
        both = schedule(seed, runs=2, losses=False, kills=False)
        for _step in range(20_000):
            if both.all_finished():
                break
            both.step()
        assert both.all_finished(), f"seed {seed}"
        both.repair()
        both.come_to_rest()
