# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Growth of a balloon that is deferred or cannot be: it is put back when its time is over, unless it was granted before."""

from __future__ import annotations

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import (
    DONE,
    FAILED,
    INFEASIBLE_OUTCOME,
    REVERTED,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.scheduler import REVERT, Resize
from tests.unit.balloon.scheduler_steps import LARGE, SMALL, Steps, of, size, sizes, world
from tests.unit.balloon.schedules import Run


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


def test_what_is_infeasible_is_put_back_at_once() -> None:
    found = world(LARGE)
    found.kubelets["n0"].most = of(LARGE)
    steps = Steps(found, SMALL)
    steps.go()
    assert (steps.outcomes["n0"].outcome, steps.outcomes["n0"].after) == (INFEASIBLE_OUTCOME, of(LARGE))
    assert "balloon-infeasible" in steps.told()


def test_what_cannot_be_put_back_is_told() -> None:
    steps = deferred()
    steps.wait()
    steps.world.rejects = True
    steps.deliver()
    assert steps.outcomes["n0"].outcome == FAILED
    assert "balloon-not-put-back" in steps.told()


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
