# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What exists of a run in the management cluster, as values. Answers of the API are untrusted."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from .._core.kube.client import Api
from .._core.kube.objects import Object, find_objects
from .._core.text.json_text import mapping_in, parse_object, rows_in
from .objects import (
    CONTAINER,
    DIGEST,
    NAME,
    build_objects,
    job_path,
    namespace_path,
    record_path,
    report_name,
)
from .record import Record, read_record
from .request import PRESENT, FleetRunRequest
from .slices import CANARY, SLICE

_INDEX = "batch.kubernetes.io/job-completion-index"
ENDS = ("Complete", "Failed")  # types of conditions
_NAME = re.compile(r"[a-z0-9][-.a-z0-9]{0,252}", re.ASCII)
_RANGE = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", re.ASCII)


@dataclass(frozen=True)
class JobState:
    """`ended` is "", "Complete" or "Failed". `failed` are indexes that are not retried."""

    ended: str = ""
    completed: frozenset[int] = frozenset()
    failed: frozenset[int] = frozenset()


@dataclass(frozen=True)
class PodState:
    name: str
    slice_name: str
    phase: str
    why: str = ""  # of a pod that does not run yet
    is_ending: bool = False  # it was deleted, and finishes what it is at


@dataclass(frozen=True)
class RunState:
    """`objects` are those of build_objects by path, None for an absent one. `jobs` by the names in slices.py."""

    namespace: Optional[Object]
    objects: Mapping[str, Optional[Object]] = field(default_factory=dict)
    jobs: Mapping[str, JobState] = field(default_factory=dict)
    record: Optional[Record] = None
    reports: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by slice
    pods: tuple[PodState, ...] = ()

    @property
    def is_terminating(self) -> bool:
        """Whether the Namespace is being removed."""
        return bool(mapping_in(self.namespace, "metadata").get("deletionTimestamp"))

    @property
    def uid(self) -> str:
        """UID of the Namespace; "" without one."""
        return str(mapping_in(self.namespace, "metadata").get("uid", ""))

    @property
    def digest(self) -> str:
        """Digest of the existing run."""
        return str(mapping_in(self.namespace, "metadata", "annotations").get(DIGEST, ""))


def read_run(request: FleetRunRequest, api: Api) -> RunState:
    """PeerError when the API server does not answer, or the record does not have the form of the slices."""
    space = request.namespace
    namespace = api.find(namespace_path(space))
    if namespace is None or request.state != PRESENT or mapping_in(namespace, "metadata").get("deletionTimestamp"):
        return RunState(namespace)
    objects = find_objects(api, build_objects(request))
    record = objects[record_path(space)]
    return RunState(
        namespace,
        objects,
        {job: _job(row) for job in (CANARY, SLICE) if (row := api.find(job_path(space, job))) is not None},
        None if record is None else read_record(record),
        _reports(request, objects),
        _pods(request, api.list(f"{namespace_path(space)}/pods").items),
    )


def _reports(request: FleetRunRequest, objects: Mapping[str, Optional[Object]]) -> dict[str, Mapping[str, Any]]:
    by_name = {path.rpartition("/")[2]: row for path, row in objects.items() if row is not None}
    texts = {name: mapping_in(by_name.get(report_name(name)), "data").get("report") for name in request.slices.by_name}
    reports = {name: parse_object(text) for name, text in texts.items() if isinstance(text, str)}
    return {name: report for name, report in reports.items() if report is not None}


def _job(job: Object) -> JobState:
    status = mapping_in(job, "status")
    ends = [
        row["type"] for row in rows_in(status, "conditions") if row.get("type") in ENDS and row.get("status") == "True"
    ]
    ended = ends[0] if ends else ""
    return JobState(ended, _indexes(status.get("completedIndexes")), _indexes(status.get("failedIndexes")))


def _indexes(text: Any) -> frozenset[int]:
    """The indexes in a text such as `0,2-4`."""
    indexes: set[int] = set()
    for part in str(text or "").split(","):
        match = _RANGE.fullmatch(part)
        if match is not None:
            indexes.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(indexes)


def _pods(request: FleetRunRequest, items: Iterable[Object]) -> tuple[PodState, ...]:
    """Pods with valid names only: names of pods and slices become parts of paths, also of log files."""
    pods = [_pod(item, request.slices.by_name) for item in items]
    return tuple(pod for pod in pods if _NAME.fullmatch(pod.name))


def _pod(pod: Object, slices: Collection[str]) -> PodState:
    metadata, status = mapping_in(pod, "metadata"), mapping_in(pod, "status")
    labels = mapping_in(metadata, "labels")
    job = str(labels.get("batch.kubernetes.io/job-name", "")).replace(f"{NAME}-", "", 1)
    index = str(labels.get(_INDEX, ""))
    name = f"{job}-{index}"
    return PodState(
        str(metadata.get("name", "")),
        name if name in slices else "",
        str(status.get("phase", "")),
        _why(status),
        is_ending=bool(metadata.get("deletionTimestamp")),
    )


def _why(status: Mapping[str, Any]) -> str:
    if status.get("phase") != "Pending":
        return ""
    for row in rows_in(status, "containerStatuses"):
        waiting = mapping_in(row, "state", "waiting")
        if row.get("name") == CONTAINER and waiting.get("reason"):
            return f"{waiting['reason']}: {waiting.get('message', '')}".rstrip(": ")
    for row in rows_in(status, "conditions"):
        if row.get("type") == "PodScheduled" and row.get("status") == "False":
            return str(row.get("message", ""))
    return ""
