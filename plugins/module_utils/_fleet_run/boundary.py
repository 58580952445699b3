# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The boundary between two batches of a slice: failures are recorded, and the next batch begins only if the whole run allows it.

A slice writes its own failures and then reads all failures, in one request: the API server answers a patch with the whole object. So of
two slices that fail at once, the later one sees both failures. When the ConfigMap has more failures than `max_fail`, no batch begins.

At a boundary no change waits for its confirmation, so a worker may wait there until the API server answers again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from .._core.host.host import Host
from .._core.kube.client import Api, is_temporary
from .._core.kube.objects import MANAGER
from .._core.text.errors import BallastError, PeerError
from .messages import MESSAGES
from .record import Record, SliceRecord, read_record

AWAY_SECONDS = 1800.0
_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 10.0
_FORBIDDEN, _FORBIDDEN_SECONDS, _FORBIDDEN_PAUSE_SECONDS = "core-api-forbidden", 60.0, 2.0
_GONE = ("core-api-absent", _FORBIDDEN)  # the run's namespace is being removed, and the rights with it

T = TypeVar("T")


def wait_for_rights(host: Host, ask: Callable[[], T]) -> T:
    """The answer to `ask`. An API server that has just started refuses everybody until it has read the RBAC objects
    (https://github.com/kubernetes/kubernetes/issues/121635), so PeerError `core-api-forbidden` is only raised after a minute."""
    deadline = host.monotonic() + _FORBIDDEN_SECONDS
    while True:
        try:
            return ask()
        except PeerError as error:
            if error.id != _FORBIDDEN or host.monotonic() >= deadline:
                raise
        host.sleep(_FORBIDDEN_PAUSE_SECONDS)


class _Removed(Exception):
    """The run was removed, with its namespace."""


@dataclass(frozen=True)
class Place:
    """`name` is the name of the slice, `holder` the UID of the pod. The file `stop_file` appears when the pod must end."""

    namespace: str
    record: str  # name of the ConfigMap
    name: str
    holder: str
    stop_file: str = ""

    @property
    def path(self) -> str:
        """The path of the ConfigMap in the API."""
        return f"/api/v1/namespaces/{self.namespace}/configmaps/{self.record}"


@dataclass(frozen=True)
class Answer:
    """`stop`: no further batch may begin. `elsewhere`: hosts that failed in other slices, or under earlier pods of this slice."""

    stop: bool
    why: str = ""
    elsewhere: tuple[str, ...] = ()
    own: SliceRecord = SliceRecord()
    is_holder: bool = True


class Boundary:
    """Every method raises PeerError when the API server is away for too long, or its answer is not valid."""

    def __init__(self, host: Host, api: Api, place: Place, *, away_seconds: float = AWAY_SECONDS) -> None:
        self._host = host
        self._api = api
        self._place = place
        self._away_seconds = away_seconds

    def claim(self) -> Answer:
        """Take the slice for this pod, unless it has already lost the slice to another pod; the previous pod begins no further batch. The
        record has the order of the pods, as clocks of machines differ."""
        return self._write(lambda own: own.claim(self._place.holder), is_claim=True)

    def may_begin(self, batch: Collection[str]) -> Answer:
        """Whether a batch of these hosts may begin; if so, it is recorded."""
        if self._place.stop_file and self._host.stat(self._place.stop_file) is not None:
            return Answer(stop=True, why="the pod is being terminated")
        return self._write(lambda own: own.begin(batch), unless_over=True)

    def count(
        self, failed: Collection[str] = (), done: Collection[str] = (), *, batches: int = 0, ended: str = ""
    ) -> Answer:
        """Record results of a batch. `batches` is added to the number of batches; `ended` is why this slice ends the
        whole run, "" if it does not."""
        return self._write(lambda own: own.add(failed, done, batches=batches, ended=ended), failed=failed)

    def write_report(self, path: str, text: str) -> None:
        """Write the report into the slice's ConfigMap, unless the run was removed."""
        with suppress(_Removed):
            self._patiently(lambda: self._api.patch(path, {"data": {"report": text}}, params=MANAGER))

    def _write(
        self,
        change: Callable[[SliceRecord], SliceRecord],
        *,
        failed: Collection[str] = (),
        is_claim: bool = False,
        unless_over: bool = False,
    ) -> Answer:
        try:
            return self._patiently(lambda: self._write_once(change, failed, is_claim=is_claim, unless_over=unless_over))
        except _Removed:
            return Answer(stop=True, why="the run was removed")

    def _patiently(self, ask: Callable[[], T]) -> T:
        """Repeat the request while the API server is away, and after a conflict."""
        deadline, pause = self._host.monotonic() + self._away_seconds, _PAUSE_SECONDS
        while True:
            try:
                return wait_for_rights(self._host, ask)
            except PeerError as error:
                if error.id in _GONE:
                    raise _Removed from error
                if error.id != "core-api-conflict" and not is_temporary(error):
                    raise
                if self._host.monotonic() + pause > deadline:
                    raise self._give_up(error) from error
            self._host.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    def _write_once(
        self,
        change: Callable[[SliceRecord], SliceRecord],
        failed: Collection[str],
        *,
        is_claim: bool,
        unless_over: bool,
    ) -> Answer:
        current = self._api.get(self._place.path)
        record = read_record(current)
        own = record.of(self._place.name)
        if own.holder != self._place.holder and not (is_claim and self._place.holder not in own.former):
            return Answer(stop=True, why="another pod has this slice", own=own, is_holder=False)
        changed = change(own)
        if changed != own and not (unless_over and record.is_over):
            record = read_record(self._api.patch(self._place.path, self._patch(current, changed), params=MANAGER))
        return self._judge(record, failed)

    def _patch(self, current: dict[str, Any], own: SliceRecord) -> dict[str, Any]:
        version = current["metadata"]["resourceVersion"]
        return {"metadata": {"resourceVersion": version}, "data": {self._place.name: own.as_text()}}

    def _judge(self, record: Record, failed: Collection[str]) -> Answer:
        elsewhere = tuple(sorted(record.failed - set(failed)))
        own = record.of(self._place.name)
        return Answer(record.is_over, record.why, elsewhere, own)

    def _give_up(self, error: BallastError) -> BallastError:
        seconds = f"{self._away_seconds:.0f}"
        if error.id == "core-api-conflict":
            return MESSAGES.error("fleet-run-conflict", path=self._place.path, seconds=seconds)
        return MESSAGES.error("fleet-run-away", seconds=seconds, found=error.in_one_line)
