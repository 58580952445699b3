# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads what only the production readiness answers of a control plane need. Changes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Optional

from ..._core.engine.journal import Journal, journal_path
from ..._core.engine.kinds import Kind
from ..._core.engine.readiness import Reading, off_reading
from ..._core.host.host import Host, Response
from ..._core.service.services import is_to_run
from ..._core.text.errors import PeerError
from ..._core.text.exposition import Sample, parse_exposition
from ..._core.text.json_text import parse_json
from ..operations.archive import KEPT, NEEDED
from ..record import Member, Record, record_path
from .readiness_answers import API_METRICS, ETCD_METRICS, NAME, WORK, Observations, answer_questions

_NAMES = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_TOOLS = ("etcdctl", "etcdutl")


def report_absent(state_dir: str) -> Reading:
    """What `read_readiness` returns where there is no control plane: it is off."""
    return off_reading(NAME, f"There is no control plane in {state_dir}.", record_path(state_dir))


def read_readiness(host: Host, record: Record, report: Mapping[str, Any], kinds: Mapping[str, Kind]) -> Reading:
    """`report` is the result of the module. A stopped control plane is off, one whose processes died is not."""
    if not any(is_to_run(host, member.service) for member in record.members):
        return off_reading(
            NAME, f"The control plane {record.name} in {record.state_dir} is stopped.", record_path(record.state_dir)
        )
    return answer_questions(record, report, _read(host, record, kinds))


def _read(host: Host, record: Record, kinds: Mapping[str, Kind]) -> Observations:
    journal = Journal(journal_path(record.state_dir), host=host, kinds=kinds)
    keys = [os.path.join(record.state_dir, KEPT[name]) for name in NEEDED if name in KEPT]
    return Observations(
        health={member.name: _health_fault(host, record, member) for member in record.members},
        objects=_count_objects(host, record),
        api_metrics=_read_metrics(lambda: record.ask(host, "/metrics", accept="text/plain"), API_METRICS),
        etcd_metrics=_read_metrics(lambda: record.etcd.ask(host, "/metrics"), ETCD_METRICS),
        missing=_missing_files(host, [record.program(member) for member in record.members]),
        missing_tools=_missing_files(host, [os.path.join(record.bin_dir, name) for name in _TOOLS]),
        missing_keys=tuple(path for path in keys if host.stat(path) is None),
        supervisor=_supervisor(host),
        recorded=len(journal.recorded),
        unfinished=journal.open,
        free_bytes=host.free_bytes(record.state_dir),
    )


def _health_fault(host: Host, record: Record, member: Member) -> str:
    try:
        answer = record.ask_health(host, member)
    except PeerError as error:
        return error.in_one_line
    return "" if answer.status == 200 else f"it answers {answer.status}: {_failing_checks(answer.body)}"


def _failing_checks(body: bytes) -> str:
    lines = [line for line in body.decode(errors="replace").splitlines() if not line.startswith("[+]")]
    return " ".join(lines)[:300]


def _count_objects(host: Host, record: Record) -> dict[str, int]:
    """Counts by path, of resources that are served and report a count."""
    counts = {}
    for path in WORK:
        try:
            answer = record.ask(host, f"{path}?limit=1", accept=_NAMES)
        except PeerError:
            return {}
        count = _count(answer.body) if answer.status == 200 else None
        if count is not None:
            counts[path] = count
    return counts


def _count(body: bytes) -> Optional[int]:
    """The number of objects in the list whose first page is `body`; None for another answer."""
    try:
        listed = parse_json(body)
        count = len(listed["items"]) + int((listed.get("metadata") or {}).get("remainingItemCount") or 0)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return count if count >= 0 else None


def _read_metrics(ask: Callable[[], Response], names: Collection[str]) -> tuple[Sample, ...]:
    try:
        answer = ask()
    except PeerError:
        return ()
    return parse_exposition(answer.body.decode(errors="replace"), names) if answer.status == 200 else ()


def _missing_files(host: Host, paths: Sequence[str]) -> tuple[str, ...]:
    """The names of those that are missing, each once."""
    return tuple(os.path.basename(path) for path in dict.fromkeys(paths) if host.stat(path) is None)


def _supervisor(host: Host) -> str:
    if host.is_systemd():
        return "systemd"
    return "runit" if host.which("runsvdir") else ""
