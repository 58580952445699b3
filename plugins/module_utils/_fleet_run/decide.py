# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The next step of a run, decided from what exists of it. Pure: an interrupted run continues wherever it was."""

from __future__ import annotations

from dataclasses import dataclass

from .._core.kube.objects import is_ours
from .._core.text.errors import BallastError
from .._core.text.json_text import mapping_in
from .messages import MESSAGES
from .objects import RUN_LABEL, build_objects
from .request import PRESENT, FleetRunRequest
from .slices import CANARY, SLICE
from .state import RunState

MAKE, START, FOLLOW, GATHER, REMOVE, WAIT_GONE, END = "make", "start", "follow", "gather", "remove", "wait-gone", "end"


@dataclass(frozen=True)
class Next:
    """`job` is CANARY or SLICE, set for START and FOLLOW."""

    kind: str
    job: str = ""


def next_step(request: FleetRunRequest, state: RunState, *, is_gathered: bool) -> Next:
    """`is_gathered`: this command has the report. Raises an error for what must not be touched."""
    refuse(request, state)
    if state.is_terminating:
        return Next(WAIT_GONE)
    if state.namespace is None:
        return Next(END) if is_gathered or request.state != PRESENT else Next(MAKE)
    if is_gathered or request.state != PRESENT:
        return Next(REMOVE)
    if any(state.objects.get(path) is None for path in build_objects(request)):
        return Next(MAKE)
    return _of_jobs(request, state)


def _of_jobs(request: FleetRunRequest, state: RunState) -> Next:
    canary, slices = state.jobs.get(CANARY), state.jobs.get(SLICE)
    if request.slices.canary and slices is None:
        if canary is None:
            return Next(START, CANARY)
        if not canary.ended:
            return Next(FOLLOW, CANARY)
        if canary.ended == "Failed" or state.record is None or state.record.is_over:
            return Next(GATHER)
    if request.slices.slices and slices is None:
        return Next(START, SLICE)
    if slices is not None and not slices.ended:
        return Next(FOLLOW, SLICE)
    return Next(GATHER)


def refuse(request: FleetRunRequest, state: RunState) -> None:
    """Refuse a Namespace of somebody else or of another feature, and one with a run of another request."""
    if state.namespace is None:
        return
    labels = mapping_in(state.namespace, "metadata", "labels")
    if not is_ours(state.namespace) or not RUN_LABEL.items() <= labels.items():
        raise foreign_error("Namespace", request.namespace)
    if request.state == PRESENT and not state.is_terminating and state.digest != request.digest:
        raise MESSAGES.error("fleet-run-other", namespace=request.namespace)


def foreign_error(kind: str, name: str) -> BallastError:
    """The error for an object of somebody else where the run needs one of its own."""
    return MESSAGES.error("fleet-run-foreign", kind=kind, name=name)
