# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import (
    ABSENT,
    Plan,
    Policy,
    Recorded,
    Resource,
    State,
    Value,
    plan_resources,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import Bug

TARGETS = st.sampled_from("abcdefgh")
VALUES = st.integers(1, 3)


@st.composite
def wanted_and_state(draw: st.DrawFn) -> tuple[list[Resource], State]:
    wanted = draw(st.dictionaries(TARGETS, VALUES))
    originals = draw(st.dictionaries(TARGETS, st.none() | VALUES))
    values = {("k", target): draw(st.none() | VALUES) for target in {*wanted, *originals}}
    recorded = tuple(Recorded(kind="k", target=t, title=t, original=value) for t, value in originals.items())
    rows = [Resource(kind="k", target=target, value=value, title=target) for target, value in wanted.items()]
    return rows, State(recorded=recorded, values=values, wanted=())


def done(plan: Plan, state: State) -> State:
    """The machine after the plan, as the steps say; and the journal, as the module's own rules say."""
    values: dict[tuple[str, str], Value] = dict(state.values)
    recorded = {record.key: record for record in state.recorded}
    for step in plan.steps:
        assert values[step.key] == step.before
        values[step.key] = step.after
        record = recorded.setdefault(
            step.key, Recorded(kind=step.kind, target=step.target, title=step.title, original=step.before)
        )
        if step.after == record.original:
            del recorded[step.key]
    return State(recorded=tuple(recorded.values()), values=values, wanted=())


@given(wanted_and_state())
def test_after_the_plan_everything_wanted_holds_and_a_second_plan_is_empty(
    given_state: tuple[list[Resource], State],
) -> None:
    wanted, state = given_state
    after = done(plan_resources(wanted, state, policy=Policy.KEEP), state)
    assert all(after.values[resource.key] == resource.value for resource in wanted)
    assert plan_resources(wanted, after, policy=Policy.KEEP).steps == ()


@given(wanted_and_state())
def test_what_is_no_longer_wanted_goes_first_newest_first_and_its_original_is_put_back(
    given_state: tuple[list[Resource], State],
) -> None:
    wanted, state = given_state
    plan = plan_resources(wanted, state, policy=Policy.UNDO)
    keys = {resource.key for resource in wanted}
    unwanted = [record for record in state.recorded if record.key not in keys]
    removals = plan.steps[: len(unwanted)]
    assert [step.key for step in removals] == [record.key for record in reversed(unwanted)]
    assert [step.after for step in removals] == [record.original for record in reversed(unwanted)]
    assert [step.key for step in plan.steps[len(unwanted) :]] == [
        resource.key for resource in wanted if state.values[resource.key] != resource.value
    ]


@given(wanted_and_state())
def test_removal_of_all_leaves_what_was_there(given_state: tuple[list[Resource], State]) -> None:
    wanted, state = given_state
    state = State(recorded=(), values=state.values, wanted=())
    after = done(plan_resources(wanted, state, policy=Policy.KEEP), state)
    removed = done(plan_resources([], after, policy=Policy.KEEP), after)
    assert removed == state


def test_a_value_is_kept_as_json_gives_it_back() -> None:
    resource = Resource(kind="k", target="t", value={"list": ("a", ("b",))}, title="t")
    assert resource.value == {"list": ["a", ["b"]]}
    state = State(recorded=(), values={("k", "t"): {"list": ["a", ["b"]]}}, wanted=())
    assert plan_resources([resource], state, policy=Policy.KEEP).steps == ()


def test_steps_are_named_as_the_operator_reads_them() -> None:
    rows = [Resource(kind="k", target=t, value=1, title=t) for t in "ab"]
    recorded = (Recorded(kind="k", target="c", title="c", original=ABSENT, group="node n1"),)
    state = State(recorded=recorded, values={("k", "a"): ABSENT, ("k", "b"): 2, ("k", "c"): 1}, wanted=())
    plan = plan_resources(rows, state, policy=Policy.KEEP)
    assert [f"{step.verb} {step.title}" for step in plan.steps] == ["remove c", "make a", "change b"]
    assert plan.steps[0].group == "node n1"
    assert plan.based_on == recorded


@pytest.mark.parametrize("policy", Policy)
def test_a_plan_has_the_groups_of_its_resources_and_the_policy_of_its_engine(policy: Policy) -> None:
    rows = [Resource(kind="k", target=target, value=1, title=target, group=f"node {target}") for target in "ab"]
    plan = plan_resources(rows, State((), {row.key: ABSENT for row in rows}, ()), policy=policy)
    assert [step.group for step in plan.steps] == ["node a", "node b"]
    assert plan.policy is policy


def test_resources_with_one_kind_and_target_are_refused_and_all_such_are_named() -> None:
    rows = [Resource(kind="link", target=target, value=1, title=target) for target in "bacba"]
    with pytest.raises(Bug) as caught:
        plan_resources(rows, State((), {row.key: ABSENT for row in rows}, ()), policy=Policy.KEEP)
    assert caught.value.id == "core-resource-twice"
    assert caught.value.text == "two resources have one kind and target"
    assert caught.value.found == "link a, link b"


def test_what_is_to_run_no_more_ends_against_the_order_in_which_it_was_made_and_before_anything_is_changed() -> None:
    """A server whose store has ended before it waits for that in vain."""

    def rows(*, running: bool, text: int) -> list[Resource]:
        programs = [Resource(kind="p", target=name, value={"running": running}, title=name) for name in "abc"]
        return [Resource(kind="k", target="file", value=text, title="file"), *programs]

    def after(before: list[Resource], *wanted: Resource) -> list[str]:
        values = {each.key: ABSENT for each in wanted} | {each.key: each.value for each in before}
        return [
            step.title
            for step in plan_resources(wanted, State((), values, ()), policy=Policy.KEEP, processes={"p"}).steps
        ]

    up, down = rows(running=True, text=1), rows(running=False, text=2)
    assert after(up, *down) == ["c", "b", "a", "file"]
    assert after(down, *up) == ["file", "a", "b", "c"]
    assert after([], *down) == ["file", "a", "b", "c"]
    renewed = [Resource("p", name, {"running": True, "port": 1}, title=name) for name in "abc"]
    assert after(up, *renewed) == ["a", "b", "c"]  # none of these ends
