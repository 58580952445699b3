# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the clients of the load recorded (client.py), read while they write, and summed up for a span of time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional


@dataclass(frozen=True)
class Attempt:
    """A new connection, or a datagram that asks for an answer. Times are those of time.monotonic()."""

    begun: float
    seconds: float
    target: str
    error: str = ""  # the class of its failure; "" when it succeeded
    port: int = 0  # its source's, of a failure


@dataclass(frozen=True)
class Broken:
    """A long-lived connection that has ended by itself."""

    at: float
    target: str
    error: str
    quiet: float  # seconds since it was last answered


@dataclass
class Records:
    """Of one client. `read` goes on where it ended."""

    path: Path
    attempts: dict[str, list[Attempt]] = field(default_factory=dict)  # by flow
    broken: list[Broken] = field(default_factory=list)
    held: list[tuple[float, int, float]] = field(default_factory=list)  # time, open, seconds of the slowest answer
    lags: list[tuple[float, float]] = field(default_factory=list)
    answered_by: dict[str, int] = field(default_factory=dict)  # by server, once the client has ended
    _offset: int = 0

    def read(self) -> None:
        with self.path.open("rb") as file:
            file.seek(self._offset)
            whole, newline, _unfinished = file.read().rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        for line in whole.splitlines():
            self._take(json.loads(line))

    def _take(self, row: Mapping[str, Any]) -> None:
        if "took" in row:
            self.attempts.setdefault(row["flow"], []).extend(
                Attempt(row["at"] + begun / 1e6, took / 1e6, row["target"])
                for begun, took in zip(row["begun"], row["took"])
            )
        elif "failed" in row:
            seconds = row["ended"] - row["begun"]
            failure = Attempt(row["begun"], seconds, row["target"], row["failed"], row["port"])
            self.attempts.setdefault(row["flow"], []).append(failure)
        elif "broken" in row:
            self.broken.append(Broken(row["at"], row["target"], row["broken"], row["quiet"]))
        elif "held" in row:
            self.held.append((row["at"], row["held"], row["slowest"]))
        elif "lag" in row:
            self.lags.append((row["at"], row["lag"]))
        else:
            self.answered_by = dict(row["answered_by"])


@dataclass(frozen=True)
class Figures:
    """Of the attempts that began in a span of time."""

    attempts: int
    failures: int
    errors: Mapping[str, int]  # failures by class
    targets: Mapping[str, int]  # failures by target
    outage_seconds: float  # the longest of any target: from a first failed attempt to the next that succeeded
    first_failure: Optional[float]
    last_failure: Optional[float]
    p50_seconds: float  # of successes
    p99_seconds: float


def figures(attempts: Iterable[Attempt], since: float, until: float) -> Figures:
    chosen = sorted((one for one in attempts if since <= one.begun < until), key=lambda one: one.begun)
    failed = [one for one in chosen if one.error]
    took = sorted(one.seconds for one in chosen if not one.error)
    targets = {one.target for one in failed}
    outages = [outage([one for one in chosen if one.target == target], until) for target in targets]
    return Figures(
        attempts=len(chosen),
        failures=len(failed),
        errors=dict(sorted(Counter(one.error for one in failed).items())),
        targets=dict(sorted(Counter(one.target for one in failed).items())),
        outage_seconds=max(outages, default=0.0),
        first_failure=failed[0].begun if failed else None,
        last_failure=failed[-1].begun if failed else None,
        p50_seconds=_percentile(took, 50),
        p99_seconds=_percentile(took, 99),
    )


def outage(attempts: Sequence[Attempt], until: float) -> float:
    """The longest, of attempts on one target in the order in which they began; one that does not end, up to `until`."""
    longest, first = 0.0, None
    for one in attempts:
        if one.error:
            first = one.begun if first is None else first
        elif first is not None:
            longest, first = max(longest, one.begun - first), None
    return max(longest, until - first) if first is not None else longest


def _percentile(ordered: Sequence[float], percent: int) -> float:
    """The smallest that so many percent do not exceed; 0 of nothing."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)] if ordered else 0.0


@dataclass(frozen=True)
class HeldFigures:
    """Of long-lived connections in a span of time."""

    open: int  # at its beginning
    broken: int
    errors: Mapping[str, int]
    silence_seconds: float  # the longest wait for an answer
    waiting: bool  # at the end of it one had not been answered for a second


@dataclass(frozen=True)
class Summary:
    flows: Mapping[str, Figures]
    total: Figures
    held: HeldFigures
    lag_seconds: float  # the most by which a client was late itself


def summary(records: Sequence[Records], since: float, until: float) -> Summary:
    """Attempts under way at `until` are not known yet: it lies more than their timeout in the past."""
    flows = {flow: attempts for one in records for flow, attempts in one.attempts.items()}
    lags = [lag for one in records for at, lag in one.lags if since <= at < until]
    return Summary(
        flows={flow: figures(attempts, since, until) for flow, attempts in sorted(flows.items())},
        total=figures((_of_flow(flow, one) for flow, found in flows.items() for one in found), since, until),
        held=_held(records, since, until),
        lag_seconds=max(lags, default=0.0),
    )


def _of_flow(flow: str, attempt: Attempt) -> Attempt:
    """An outage is one of a flow to a target: what others reach meanwhile does not end it."""
    return Attempt(attempt.begun, attempt.seconds, f"{flow} {attempt.target}", attempt.error, attempt.port)


def _held(records: Sequence[Records], since: float, until: float) -> HeldFigures:
    broken = [row for one in records for row in one.broken if since <= row.at < until]
    rows = [[row for row in one.held if since <= row[0] < until] for one in records]
    rows = [found for found in rows if found]
    return HeldFigures(
        open=sum(found[0][1] for found in rows),
        broken=len(broken),
        errors=dict(sorted(Counter(one.error for one in broken).items())),
        silence_seconds=max((row[2] for found in rows for row in found), default=0.0),
        waiting=any(found[-1][2] > 1.0 for found in rows),
    )
