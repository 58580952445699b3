# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fleet runs by generated schedules: workers killed, evicted and doubled, the API away, the cluster restarted, the command cut off."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Optional

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from tests.bench.rollout_node import BREAKS, FINE, LOST_AFTER, LOST_DURING, REFUSES, Faults
from tests.unit.fleet_run.world import NAMESPACE, NEW, OLD, CutOff, World, make_world, report_of

EVENTS = ("kill", "evict", "drain", "node lost", "API away", "restart", "cut off")
GOOD, REFUSING, BAD = Faults(), Faults(fates=(REFUSES,), from_change=True), Faults(bad_audits=9)
FAULTS = st.sampled_from(
    [GOOD, GOOD, GOOD, GOOD, REFUSING, BAD]
    + [Faults(fates=(fate,), from_change=True) for fate in (LOST_DURING, LOST_AFTER, BREAKS, FINE)]
)
SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=3)


def world_of(faults: Sequence[Faults], **options: object) -> World:
    given_options = {"slices": 3, "max_fail": 1, "sizes": [2], "seed": 1, "events": (), **options}
    return make_world({f"n{number}": row for number, row in enumerate(faults)}, **given_options)  # type: ignore[arg-type]


def check(world: World) -> None:
    """What holds whatever happened."""
    report = report_of(world)
    assert world.begun_when_over == [], "a batch began after max_fail was passed"
    assert world.failed_again == [], "a node was tried again after it had failed"
    assert [path for path in world.server.objects if NAMESPACE in path] == [], "something was left in the cluster"
    assert set(report["nodes"]) == set(world.nodes)
    for name, node in world.nodes.items():
        node.end()
        word = report["nodes"][name]
        assert (node.mode in (OLD, NEW), node.is_armed) == (True, False)
        text = " ".join(node.log)
        assert "confirmed moved" not in text, f"{name} was changed twice: {text}"
        assert "moved moved" not in text
        if word in ("confirmed", "unchanged"):
            assert node.mode == NEW, (name, word, text, world.happened)
        if word == "not begun":
            assert node.mode == OLD, (name, word, text, world.happened)
    is_done = all(word in ("confirmed", "unchanged") for word in report["nodes"].values())
    assert is_done == (not report["failure"])


@settings(max_examples=40, deadline=None)
@given(
    faults=st.lists(FAULTS, min_size=1, max_size=14),
    slices=st.integers(1, 4),
    max_fail=st.integers(0, 4),
    sizes=SIZES,
    seed=st.integers(0, 10**6),
    events=st.lists(st.sampled_from(EVENTS), max_size=7),
)
def test_every_node_ends_confirmed_or_back_and_the_report_says_so(
    faults: list[Faults], slices: int, max_fail: int, sizes: list[int], seed: int, events: list[str]
) -> None:
    world = world_of(faults, slices=slices, max_fail=max_fail, sizes=sizes, seed=seed, events=events)
    world.follow()
    check(world)


@pytest.mark.parametrize("event", EVENTS)
def test_a_run_gets_over_each_event(event: str) -> None:
    """Up to what a Job tries again, all nodes are done in the end."""
    for seed in range(5):
        world = world_of([GOOD] * 9, max_fail=0, seed=seed, events=[event])
        world.may_happen = 3
        world.follow()
        check(world)
        assert set(report_of(world)["nodes"].values()) == {"confirmed"}, (seed, world.happened)
        assert world.happened == [event] * 3


def test_max_fail_is_that_of_all_slices_together() -> None:
    """One node fails in each of four slices. One controller would have ended in the third batch in which one fails."""
    faults = [GOOD, *[REFUSING] * 4, *[GOOD] * 36]
    world = world_of(faults, slices=4, max_fail=2, sizes=[1])
    world.follow()
    check(world)
    words = list(report_of(world)["nodes"].values())
    assert 3 <= words.count("failed") <= 4
    assert words.count("not begun") >= 30
    assert world.started == 5, "a slice that may not go on is not tried again"


def test_a_canary_that_fails_ends_the_run_before_the_slices() -> None:
    world = world_of([REFUSING, *[GOOD] * 8], max_fail=0)
    world.follow()
    check(world)
    words = report_of(world)["nodes"]
    assert words.pop("n0") == "failed"
    assert set(words.values()) == {"not begun"}
    assert world.started == 1


def test_a_disrupted_worker_does_not_use_up_the_tries_of_its_slice() -> None:
    world = world_of([GOOD] * 12, slices=1, max_fail=0, sizes=[1], events=["evict"])
    world.may_happen = 9
    world.follow()
    check(world)
    assert set(report_of(world)["nodes"].values()) == {"confirmed"}
    assert world.crashes.total() == 0


@pytest.mark.parametrize("is_answered", [True, False])
@pytest.mark.parametrize("step", range(1, 16))
def test_a_command_that_is_cut_off_at_any_step_is_repeated(step: int, is_answered: bool) -> None:
    """Before or after the step: what it makes and removes, in order."""
    world = world_of([GOOD] * 5, slices=2, max_fail=0)
    answer, count = world.server._answer, itertools.count(1)

    def cut_off(method: str, url: str, body: Optional[bytes]) -> Response:
        is_step = method in ("POST", "DELETE") and next(count) == step
        if is_step and not is_answered:
            raise CutOff
        answered = answer(method, url, body)
        if is_step:
            raise CutOff
        return answered

    world.server._answer = cut_off  # type: ignore[method-assign]
    world.follow()
    check(world)
    assert set(report_of(world)["nodes"].values()) <= {"confirmed", "unchanged"}
