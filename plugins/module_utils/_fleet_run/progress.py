# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One line for each slice of a run. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from .record import Record
from .report import in_one_line
from .request import FleetRunRequest
from .slices import CANARY, SLICE, slice_name
from .state import PodState, RunState


def progress_lines(request: FleetRunRequest, state: RunState) -> Iterator[tuple[str, str]]:
    """Slice and text, for each slice that has not ended."""
    record = state.record or Record(request.max_fail)
    for job in (CANARY, SLICE):
        row = state.jobs.get(job)
        if row is None:
            continue
        count = len(request.slices.slices) if job == SLICE else 1
        for index in range(count):
            name = slice_name(job, index)
            if index not in row.completed | row.failed and not row.ended:
                yield name, _line(name, len(request.slices.by_name[name]), record, state.pods)


def _line(name: str, hosts: int, record: Record, pods: tuple[PodState, ...]) -> str:
    own = record.of(name)
    at_work = [pod for pod in pods if pod.slice_name == name and pod.phase in ("Pending", "Running")]
    pod = at_work[-1] if at_work else None
    where = "no pod yet" if pod is None else in_one_line(pod.why or pod.phase.lower())
    failed = f", {len(own.failed)} failed" if own.failed else ""
    over = "; no further batch starts" if record.is_over else ""
    return f"{len(own.done)} of {hosts} nodes done{failed}, {own.batches} batches; {where}{over}"
