# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Resources, steps and plans: what should exist, what exists, and the steps in between, all as data."""

from __future__ import annotations

import enum
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Union

from ..text.errors import Bug
from ..text.run_messages import MESSAGES

# JSON data. A value contains everything about a resource that matters, and nothing that changes by itself (counters, ages).
Value = Union[None, bool, int, str, Sequence["Value"], Mapping[str, "Value"]]
# Absence is a value like any other, so that an undo can restore it.
ABSENT: Value = None


def as_json(value: Value) -> Value:
    """The value after a round trip through JSON (tuples become lists), so that it compares equal with what a journal
    kept."""
    json_value: Value = json.loads(json.dumps(value))
    return json_value


class Policy(enum.Enum):
    """What happens to finished steps when a later one fails."""

    KEEP = "keep"  # building a lab: finished steps are kept for diagnosis, and the next run resumes
    UNDO = "undo"  # changing a node: newest first, back to what was


@dataclass(frozen=True)
class Resource:
    """One thing that should exist on the machine. `kind` is a key of the engine's table and is never renamed once
    released."""

    kind: str
    target: str  # identifies it within its kind: a path, a link's name
    value: Value
    title: str  # as the operator reads it: "veth ballast-lab-n1"
    group: str = ""  # progress is reported per group: "node n1"

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", as_json(self.value))

    @property
    def key(self) -> tuple[str, str]:
        return (self.kind, self.target)


@dataclass(frozen=True)
class Step:
    kind: str
    title: str
    target: str
    after: Value  # what doing it makes true
    before: Value  # what undoing it makes true again, as observed
    group: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return (self.kind, self.target)

    @property
    def verb(self) -> str:
        if self.after == ABSENT:
            return "remove"
        return "make" if self.before == ABSENT else "change"


@dataclass(frozen=True)
class Recorded:
    """A resource that an earlier run made, and the value that was there before. Recorded in creation order."""

    kind: str
    target: str
    title: str
    original: Value
    group: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return (self.kind, self.target)


@dataclass(frozen=True)
class Plan:
    steps: tuple[Step, ...]
    policy: Policy
    based_on: tuple[Recorded, ...] = ()  # the journal when it was observed


class AnyPlan(Protocol):
    """What the plan of every engine has in common."""

    @property
    def steps(self) -> Sequence[object]:
        """What will be done; empty if there is nothing to do."""


@dataclass(frozen=True)
class State:
    """The observed state: the journal of earlier runs, the value of every resource recorded or wanted, and the resources
    wanted."""

    recorded: tuple[Recorded, ...]
    values: Mapping[tuple[str, str], Value]
    wanted: tuple[Resource, ...]


def plan_resources(
    resources: Sequence[Resource], state: State, *, policy: Policy, processes: Collection[str] = ()
) -> Plan:
    """First remove what was recorded and is no longer wanted, newest first; then stop the processes that should no longer
    run, in reverse order, since each may depend on earlier ones; then make or change the rest, in order.

    `processes` are the kinds whose values have `running: bool`. The plan is empty if everything is as wanted. What existed
    before the first run is restored, not removed (`Recorded.original`).
    """
    keys = {resource.key for resource in resources}
    if len(keys) != len(resources):
        counts = Counter(" ".join(resource.key) for resource in resources)
        twice = sorted(key for key, count in counts.items() if count > 1)
        raise Bug(**MESSAGES.texts("core-resource-twice", found=", ".join(twice)))
    steps = [
        Step(
            kind=old.kind,
            title=old.title,
            target=old.target,
            after=old.original,
            before=state.values[old.key],
            group=old.group,
        )
        for old in reversed(state.recorded)
        if old.key not in keys
    ]
    changes = [
        Step(
            kind=resource.kind,
            title=resource.title,
            target=resource.target,
            after=resource.value,
            before=state.values[resource.key],
            group=resource.group,
        )
        for resource in resources
        if state.values[resource.key] != resource.value
    ]
    ends = [step for step in changes if step.kind in processes and _runs(step.before) and not _runs(step.after)]
    steps += reversed(ends)
    steps += [step for step in changes if step not in ends]
    return Plan(steps=tuple(steps), policy=policy, based_on=state.recorded)


def _runs(value: Value) -> bool:
    return isinstance(value, Mapping) and value.get("running") is True
