# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What readings of several features have in common: the plan of a removal, known failures, distributions, open files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

from ..host.host import Host
from ..text.errors import BallastError
from ..text.exposition import Bucket, quantile
from .plan import Policy, Recorded, State, plan_resources
from .readiness import ENABLED, NO, UNKNOWN, YES, Answer, Figure, Reading

_SOFT_LIMIT = re.compile(r"^Max open files +(\d+) ", re.ASCII | re.MULTILINE)
_NEARLY = 0.9  # of a limit, from where on nothing should be left to chance


def removal_lines(recorded: Sequence[Recorded]) -> tuple[str, ...]:
    """The steps of `state: absent` for what is in the record, without a look at the machine: the plan for nothing wanted."""
    as_made = State(tuple(recorded), {record.key: record.original for record in recorded}, ())
    return tuple(f"{step.verb} {step.title}" for step in plan_resources((), as_made, policy=Policy.UNDO).steps)


def failures_answer(present: Mapping[str, str]) -> Answer:
    """FAILURES, by what was found of each present failure mode, by its id."""
    how = "each known failure mode, compared with the state of the host"
    if present:
        lines = tuple(f"{id}: {text}" for id, text in present.items())
        return Answer(NO, f"present: {', '.join(present)}", how, lines=lines)
    return Answer(YES, "none of the known failure modes is present", how)


def distribution(name: str, buckets: tuple[Bucket, ...], how: str) -> Figure:
    """A distribution of seconds, for which its 99th percentile stands."""
    return Figure(name, quantile(buckets, 0.99), "s", how, buckets=buckets)


def pluralize(number: int, noun: str) -> str:
    """`1 host`, `2 hosts`."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def unknown_reading(feature: str, error: BallastError, how: str) -> Reading:
    """Of a machine that does not even say whether the feature is on."""
    return Reading(feature, {ENABLED: Answer(UNKNOWN, error.in_one_line, how, error.remedy)})


@dataclass(frozen=True)
class OpenFiles:
    """Of one process: sockets count too. None where it cannot be read."""

    process: str  # as the operator knows it: "containerd"
    pid: Optional[int]
    count: Optional[int]
    limit: Optional[int]

    @property
    def figure(self) -> Figure:
        how = f"entries of /proc/{self.pid}/fd, and Max open files (soft) of /proc/{self.pid}/limits"
        limit = None if self.limit is None else float(self.limit)
        return Figure(
            f"open files of {self.process}", None if self.count is None else float(self.count), "", how, limit
        )

    @property
    def verdict(self) -> str:
        if self.count is None or self.limit is None:
            return UNKNOWN
        return NO if self.count > self.limit * _NEARLY else YES

    @property
    def text(self) -> str:
        if self.verdict == UNKNOWN:
            return f"the open files of {self.process} cannot be counted"
        return f"{self.process} has {self.count} of at most {self.limit} files open"


def read_open_files(host: Host, process: str, pid: Optional[int]) -> OpenFiles:
    """Who may not look at the process finds nothing."""
    if pid is None:
        return OpenFiles(process, None, None, None)
    try:
        names = host.listdir(f"/proc/{pid}/fd")
        limits = (host.read(f"/proc/{pid}/limits") or b"").decode(errors="replace")
    except BallastError:
        return OpenFiles(process, pid, None, None)
    match = _SOFT_LIMIT.search(limits)
    return OpenFiles(process, pid, len(names) or None, int(match[1]) if match else None)
