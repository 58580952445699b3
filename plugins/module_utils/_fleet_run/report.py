# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One report of all slices. Pure. What slices wrote comes from the API, and is untrusted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._core.text.errors import plain_text, shorten
from .record import Record, SliceRecord
from .request import FleetRunRequest

CONFIRMED, FAILED, NOT_KNOWN = "confirmed", "failed", "not known"
NOT_BEGUN, NO_ANSWER, UNCHANGED = "not begun", "no answer", "unchanged"  # the words of plugin_utils/fleet/run.py
_REMEDY = "  do:    fix the problems listed above, then run the same command again: completed nodes are skipped"
_BEFORE = "by an earlier pod of the slice"


@dataclass(frozen=True)
class FleetReport:
    """`nodes` has the outcome by host, in a word or two; `failure` is "" when every node is done."""

    lines: tuple[str, ...]
    nodes: Mapping[str, str]
    failure: str


def merge_reports(request: FleetRunRequest, record: Record, reports: Mapping[str, Mapping[str, Any]]) -> FleetReport:
    """`reports` are by slice. A slice without report counts by its record; a failure that is recorded outweighs a
    report."""
    if not request.acts:
        return _preview(reports, request)
    rows: dict[str, tuple[str, str]] = {}
    not_done: set[str] = set()
    for name, hosts in request.slices.by_name.items():
        report = reports.get(name, {})
        given, left, own = _rows(report.get("rows")), report.get("not_done"), record.of(name)
        for host in hosts:
            row = given.get(host) or _without_report(host, own)
            # A slice records failures before it writes its report.
            rows[host] = _without_report(host, own) if host in own.failed and is_done(row) else row
        listed = left if isinstance(left, list) else []
        not_done |= {host for host in hosts if host in listed or not is_done(rows[host])}
    return _of_nodes(rows, not_done, _failures(reports))


def _of_nodes(rows: Mapping[str, tuple[str, str]], not_done: set[str], failures: list[str]) -> FleetReport:
    width = max(map(len, rows), default=0)
    ordered = [host for host in rows if host not in not_done] + [host for host in rows if host in not_done]
    counts = Counter(word for word, _text in rows.values())
    summary = ", ".join(f"{count} {word}" for word, count in counts.items())
    lines = [f"{host:{width}}  {rows[host][0]}{rows[host][1]}" for host in ordered]
    failure = f"{len(not_done)} of {len(rows)} nodes are not done: {summary}\n{_REMEDY}" if not_done else ""
    nodes = {host: word for host, (word, _text) in rows.items()}
    return FleetReport((*lines, *failures, f"{len(rows)} nodes: {summary}"), nodes, failure)


def _preview(reports: Mapping[str, Mapping[str, Any]], request: FleetRunRequest) -> FleetReport:
    lines: list[str] = []
    for name in request.slices.by_name:
        found_lines = reports.get(name, {}).get("lines")
        texts = found_lines if isinstance(found_lines, list) else ["no report: read its log"]
        lines += [f"{name}:", *(f"  {in_one_line(line, limit=500)}" for line in texts)]
    missing = [name for name in request.slices.by_name if name not in reports]
    failures = [*_failures(reports), *(f"{name}: no report" for name in missing)]
    return FleetReport((*lines, *failures), {}, "\n".join(failures))


def _failures(reports: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Why slices were refused before their first change."""
    return [
        in_one_line(line)
        for name, report in reports.items()
        if report.get("failure")
        for line in f"{name}: {shorten(str(report['failure']), limit=1000)}".splitlines()
    ]


def _rows(rows: Any) -> dict[str, tuple[str, str]]:
    given = rows if isinstance(rows, Mapping) else {}
    return {
        str(host): (in_one_line(row[0]), in_one_line(row[1], limit=500))
        for host, row in given.items()
        if isinstance(row, list) and len(row) == 2
    }


def in_one_line(text: object, *, limit: int = 200) -> str:
    """Untrusted text for a line of output: shortened to `limit` characters, without control characters."""
    return plain_text(shorten(str(text), limit=limit))


def _without_report(host: str, own: SliceRecord) -> tuple[str, str]:
    if host in own.done:
        return CONFIRMED, f"  {_BEFORE}"
    if host in own.failed:
        return FAILED, f"  {_BEFORE}"
    return (NOT_KNOWN, ": its pod ended during the batch") if host in own.begun else (NOT_BEGUN, "")


def rows_by_record(hosts: Sequence[str], own: SliceRecord) -> dict[str, tuple[str, str]]:
    """Rows of a slice whose playbook does not run again: what pods before this one did."""
    return {host: _without_report(host, own) for host in hosts}


def with_earlier(rows: Mapping[str, Any], earlier: SliceRecord) -> dict[str, tuple[str, str]]:
    """Rows of a pod's report, combined with what earlier pods did, as recorded when this one took the slice. A node that an earlier pod had
    begun and that is unchanged now was confirmed by that pod. One that it had begun, and this pod has not, is not known: the cluster may
    have lost contact with the machine of a pod that still works."""
    merged = {host: (str(row[0]), str(row[1])) for host, row in rows.items()}
    for host in (*earlier.done, *earlier.begun):
        if merged.get(host, ("",))[0] == UNCHANGED:
            merged[host] = (CONFIRMED, f"  {_BEFORE}")
    left = [host for host in earlier.begun if merged.get(host, ("",))[0] == NOT_BEGUN]
    merged.update({host: _without_report(host, earlier) for host in left})
    merged.update({host: (FAILED, f"  {_BEFORE}") for host in earlier.failed if host not in rows})
    return merged


def is_done(row: tuple[str, str]) -> bool:
    """Whether the node needs no further run. `row` is an outcome and its text."""
    return row[0] in (CONFIRMED, UNCHANGED)
