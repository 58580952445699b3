# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Cases as files: what is there, what is wanted, the plan, what is there afterwards. One loader runs each of them.

    why: a sentence
    given: {...}            the machine, as `Subject.machine` understands it
    want: {...}             parameters, as `Subject.desired` understands them
    plan: [make file /x]    "verb title" of each step, in order
    after: {...}            what `Subject.look` answers then
    error: some-id          instead of plan and after: the id of the error

`check` says of a case: the plan is as written; observing and planning have no effect; applying gives `after`; a second
plan is empty; killed at any effect and run again gives `after`; removing, also after a kill at any effect of either,
leaves the machine exactly as it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Optional, TypeVar

import pytest
import yaml

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.engine import (
    BaseEngine,
    Desired,
    ResourceEngine,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import Plan, Policy, Resource
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Host
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from tests.unit.fakes import FakeHost, Killed

D = TypeVar("D", bound=Desired)

_KEYS = {"why", "given", "want", "plan", "after", "error"}


@dataclass(frozen=True)
class Case:
    name: str
    why: str
    given: Mapping[str, Any]
    want: Mapping[str, Any]
    plan: tuple[str, ...] = ()
    after: Any = None
    error: Optional[str] = None


@dataclass(frozen=True)
class Subject(Generic[D]):
    """How the cases of one engine are to be read."""

    engine: ResourceEngine[D]
    desired: Callable[[Mapping[str, Any]], D]
    nothing: Callable[[Mapping[str, Any]], D]  # the same request with `state: absent`
    machine: Callable[[Mapping[str, Any]], FakeHost]  # a fresh one at each call
    look: Callable[[FakeHost], Any]  # the part of the machine that `after` speaks of


def load_cases(directory: Path) -> list[Case]:
    """The cases of a directory, by name. An empty directory is an error: its tests would pass without a case."""
    files = sorted(directory.glob("*.yml"))
    if not files:
        raise AssertionError(f"no case in {directory}")
    return [parse_case(file.stem, file.read_text(encoding="utf-8")) for file in files]


def parse_case(name: str, text: str) -> Case:
    row = yaml.safe_load(text)
    unknown = set(row) - _KEYS
    if unknown:
        raise AssertionError(f"{name}: unknown keys {sorted(unknown)}")
    if ("error" in row) == ("plan" in row):
        raise AssertionError(f"{name}: a case has either a plan or an error")
    return Case(name=name, **{**row, "plan": tuple(row.get("plan", ()))})


def check(case: Case, subject: Subject[D]) -> None:
    if case.error is not None:
        _check_error(case, subject)
        return
    host, want, nothing = subject.machine(case.given), subject.desired(case.want), subject.nothing(case.want)
    given = host.snapshot()
    engine = subject.engine

    plan = plan_of(engine, want, host)
    assert tuple(f"{step.verb} {step.title}" for step in plan.steps) == case.plan
    assert host.effects == [], "observing and planning change nothing"

    apply(engine, want, host)
    assert subject.look(host) == case.after
    for desired in (want, nothing):
        apply(engine, desired, host)
        before = len(host.effects)
        apply(engine, desired, host)
        assert host.effects[before:] == [], "a second run has no effect"
    assert host.snapshot() == given, "removal leaves the machine as it was"

    check_kills(
        engine, lambda: subject.machine(case.given), want, nothing, lambda host: subject.look(host) == case.after
    )


def check_kills(
    engine: ResourceEngine[D],
    machine: Callable[[], FakeHost],
    want: D,
    nothing: D,
    holds: Callable[[FakeHost], bool],
) -> int:
    """Kill the program at every effect of making and of removing; answers how many kills there were. An engine that undoes
    has to survive a power cut at that place, too."""
    engine = _computed_once(engine, want, nothing)
    kills = 0
    for first, again in ((want, want), (want, nothing), (nothing, want), (nothing, nothing)):
        number = 1
        while True:
            host = machine()
            given = host.snapshot()
            if first is nothing:
                apply(engine, want, host)
            host.fail_at(number, torn=True)
            try:
                apply(engine, first, host)
            except Killed:
                pass
            else:
                break
            at = f"killed at effect {number} ({'make' if first is want else 'remove'})"
            host.calm()
            if engine.policy is Policy.UNDO:
                host.cut_power()
            apply(engine, again, host)
            assert plan_of(engine, again, host).steps == (), at
            if again is want:
                assert holds(host), at
                apply(engine, nothing, host)
            assert host.snapshot() == given, at
            kills += 1
            number += 1
    return kills


def _computed_once(engine: ResourceEngine[D], *asked: D) -> ResourceEngine[D]:
    """The engine, but what it wants is kept where it does not look at the machine: kills ask for the same two things thousands
    of times."""
    known = {id(desired): engine.wanted(Context(desired, _Unseen())) for desired in asked if _is_pure(engine, desired)}

    def wanted(ctx: Context[D]) -> list[Resource]:
        return known[id(ctx.desired)] if id(ctx.desired) in known else engine.wanted(ctx)

    once = copy(engine)
    vars(once)["wanted"] = wanted
    return once


class _Unseen(FakeHost):
    """A machine that nothing may look at."""

    def __getattribute__(self, name: str) -> Any:
        raise LookupError(name)


def _is_pure(engine: ResourceEngine[D], desired: D) -> bool:
    try:
        engine.wanted(Context(desired, _Unseen()))
    except LookupError:
        return False
    return True


def plan_of(engine: ResourceEngine[D], desired: D, host: FakeHost) -> Plan:
    return engine.plan(desired, engine.observe(Context(desired, host)))


def apply(engine: ResourceEngine[D], desired: D, host: FakeHost) -> Plan:
    plan = plan_of(engine, desired, host)
    engine.apply(plan, Context(desired, host))
    return plan


def require(engine: BaseEngine[D, Any, Any], desired: D, host: Host) -> None:
    """As the run loop asks a feature before its first step."""
    ctx = Context(desired, host)
    engine.require(ctx, engine.observe(ctx))


def _check_error(case: Case, subject: Subject[D]) -> None:
    host = subject.machine(case.given)
    with pytest.raises(BallastError) as caught:
        apply(subject.engine, subject.desired(case.want), host)
    error = caught.value
    assert case.error in ([problem.id for problem in error.problems] if isinstance(error, Problems) else [error.id])
    assert host.effects == [], "refused before anything was changed"
