# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which nodes are moved, and when one that did not come to its target is tried again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._balloon.agent.choice import (
    Attempt,
    Attempts,
    Known,
    at_target,
    due_targets,
    keep_current,
    kept_targets,
    known_targets,
    next_due,
    note_outcome,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.agent.settings import Retry
from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import (
    ACTUATING,
    BLOCKED,
    DONE,
    REJECTED,
    REVERTED,
    SETTLED,
    STARTING,
    WORKLOAD,
    Balloon,
    Fleet,
    Node,
    Outcome,
    Pod,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import MIB, Resources

FOUR, ONE, TWO = (Resources(cpu * 1000, cpu * 1024 * MIB) for cpu in (4, 1, 2))
RETRY = Retry(first=10.0, most=60.0)


def node(name: str = "n1", balloon: Resources = ONE, target: Resources | None = TWO, **changes: object) -> Node:
    found = Balloon("kube-system", f"b-{name}", f"u-{name}", "1", balloon, balloon, balloon, SETTLED)
    made = Node(name, "h", FOUR, FOUR, (1, 36), ready=True, balloon=found, target=target, uid=f"uid-{name}")
    return replace(made, **changes)  # type: ignore[arg-type]


def fleet(*nodes: Node) -> Fleet:
    return Fleet({one.name: one for one in nodes}, {"h": FOUR}, {"h": Resources(0, 0)})


def due(found: Fleet, attempts: Attempts, now: float) -> set[str]:
    return set(due_targets(found, kept_targets(found, (), {}), attempts, now, RETRY))


def attempt(
    outcome: str, *, at: float = 100.0, times: int = 1, target: Resources = TWO, balloon: str = "u-n1"
) -> Attempt:
    return Attempt(Outcome("n1", outcome, ONE, ONE, "why"), target, balloon, at, times)


def test_what_is_apart_from_its_target_is_moved() -> None:
    found = fleet(node(), node("n2", balloon=TWO))
    assert at_target(found, kept_targets(found, (), {})) == {"n2"}
    assert due(found, {}, 0.0) == {"n1"}


def starting() -> Node:
    one = node()
    assert one.balloon is not None
    return replace(one, balloon=replace(one.balloon, state=STARTING))


@pytest.mark.parametrize("one", [node(target=None), node(ready=False), replace(node(), balloon=None), starting()])
def test_what_cannot_be_moved_is_left(one: Node) -> None:
    assert due(fleet(one), {}, 0.0) == set()


def test_what_is_under_way_is_taken_up() -> None:
    one = node(balloon=TWO)
    assert one.balloon is not None
    assert due(fleet(replace(one, balloon=replace(one.balloon, state=ACTUATING))), {}, 0.0) == {"n1"}


@pytest.mark.parametrize(("times", "seconds"), [(1, 10), (2, 20), (3, 40), (4, 60), (400, 60)])
def test_each_attempt_waits_twice_as_long_up_to_the_most(times: int, seconds: float) -> None:
    found, attempts = fleet(node()), {"n1": attempt(REJECTED, times=times)}
    assert next_due(found, {"n1": TWO}, attempts, RETRY) == {"n1": 100.0 + seconds}
    assert due(found, attempts, 99.9 + seconds) == set()
    assert due(found, attempts, 100.0 + seconds) == {"n1"}


def test_another_target_or_balloon_is_another_matter() -> None:
    found = fleet(node())
    for before in (attempt(REJECTED, times=9, target=ONE), attempt(REJECTED, times=9, balloon="u-old")):
        assert due(found, {"n1": before}, 100.0) == {"n1"}
        assert keep_current(found, {"n1": TWO}, {"n1": before}) == {}


def test_what_was_reverted_is_tried_soon_when_there_is_room() -> None:
    full = node(pods=(Pod("d", "p", Resources(2001, 0), WORKLOAD),))
    attempts = {"n1": attempt(REVERTED, times=4)}
    assert next_due(fleet(full), {"n1": TWO}, attempts, RETRY) == {"n1": 160.0}
    assert next_due(fleet(node()), {"n1": TWO}, attempts, RETRY) == {"n1": 110.0}


def test_what_was_blocked_is_tried_soon_when_somebody_has_given() -> None:
    """n1 is to shrink its balloon from 3 to 2: it takes 1, which n2 holds until its balloon has grown."""
    three = Resources(3000, 3 * 1024 * MIB)
    attempts = {"n1": attempt(BLOCKED, times=4)}
    for other, at in ((ONE, 160.0), (TWO, 110.0)):
        found = fleet(node(balloon=three), node("n2", balloon=other, target=None))
        assert next_due(found, {"n1": TWO}, attempts, RETRY) == {"n1": at}


def test_attempts_are_counted_until_one_is_done() -> None:
    attempts: Attempts = {}
    for times in (1, 2, 3):
        attempts = note_outcome(attempts, Outcome("n1", REVERTED, ONE, ONE), node(), TWO, 5.0)
        assert attempts["n1"].times == times
    assert note_outcome(attempts, Outcome("n1", REVERTED, ONE, ONE), node(), ONE, 5.0)["n1"].times == 1
    assert note_outcome(attempts, Outcome("n1", DONE, ONE, TWO), node(), TWO, 5.0) == {}


def test_an_attempt_is_forgotten_when_the_node_came_there_by_itself() -> None:
    attempts = {"n1": attempt(REVERTED)}
    assert keep_current(fleet(node()), {"n1": TWO}, attempts) == attempts
    assert keep_current(fleet(node(balloon=TWO)), {"n1": TWO}, attempts) == {}
    assert keep_current(fleet(node("n2")), {"n2": TWO}, attempts) == {}
    assert keep_current(fleet(node(ready=False)), {"n1": TWO}, attempts) == attempts


def test_only_named_nodes_are_kept_where_some_are_named() -> None:
    found = fleet(node(), node("n2"))
    assert kept_targets(found, (), {}).keys() == {"n1", "n2"}
    assert kept_targets(found, ("n2", "n9"), {}).keys() == {"n2"}


def test_a_target_outlives_the_node_object_and_not_its_own_removal() -> None:
    known = known_targets(fleet(node()), {})
    assert known == {"n1": Known("uid-n1", TWO)}
    assert known_targets(fleet(), known) == known, "the node is away"
    anew = fleet(node(target=None, uid="uid-new"))
    assert known_targets(anew, known) == known
    assert kept_targets(anew, (), known) == {"n1": TWO}
    annotated = known_targets(fleet(node(uid="uid-new", target=ONE)), known)
    assert annotated == {"n1": Known("uid-new", ONE)}, "what is written counts"
    removed = fleet(node(target=None))
    assert kept_targets(removed, (), known) == {}
    assert known_targets(removed, known) == {}
