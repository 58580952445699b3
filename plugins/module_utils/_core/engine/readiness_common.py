# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the readings of several features share: removal plans, known failure modes, distributions, open files."""

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
_NEARLY = 0.9  # the share of a limit from which on it counts as nearly reached


def removal_lines(recorded: Sequence[Recorded]) -> tuple[str, ...]:
    """The steps that `state: absent` would take for what the journal records, without reading the machine."""
    as_made = State(tuple(recorded), {record.key: record.original for record in recorded}, ())
    return tuple(f"{step.verb} {step.title}" for step in plan_resources((), as_made, policy=Policy.UNDO).steps)


def failures_answer(present: Mapping[str, str]) -> Answer:
    """The answer to FAILURES. `present` maps the id of each failure mode that was found to what was found."""
    how = "each known failure mode, compared with the state of the host"
    if present:
        lines = tuple(f"{id}: {text}" for id, text in present.items())
        return Answer(NO, f"present: {', '.join(present)}", how, lines=lines)
    return Answer(YES, "none of the known failure modes is present", how)


def distribution(name: str, buckets: tuple[Bucket, ...], how: str) -> Figure:
    """A distribution of seconds, represented by its 99th percentile."""
    return Figure(name, quantile(buckets, 0.99), "s", how, buckets=buckets)


def pluralize(number: int, noun: str) -> str:
    """`1 host`, `2 hosts`."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def unknown_reading(feature: str, error: BallastError, how: str) -> Reading:
    """The reading of a machine on which not even ENABLED can be determined."""
    return Reading(feature, {ENABLED: Answer(UNKNOWN, error.in_one_line, how, error.remedy)})


@dataclass(frozen=True)
class OpenFiles:
    """The open files, including sockets, of one process. None for a number that cannot be read."""

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
    """The numbers are None where this user may not inspect the process."""
    if pid is None:
        return OpenFiles(process, None, None, None)
    try:
        names = host.listdir(f"/proc/{pid}/fd")
        limits = (host.read(f"/proc/{pid}/limits") or b"").decode(errors="replace")
    except BallastError:
        return OpenFiles(process, pid, None, None)
    match = _SOFT_LIMIT.search(limits)
    return OpenFiles(process, pid, len(names) or None, int(match[1]) if match else None)
