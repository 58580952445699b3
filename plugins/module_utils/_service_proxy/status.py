# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""What `ballast-service-proxy status` shows, collected from the loop's reports, as data and as a table."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any, Optional

from .._agent.log import Log
from .._agent.status import align_rows, format_duration, printable
from .ports import (
    Accepted,
    Connection,
    Failed,
    NodeState,
    Programmed,
    Queued,
    Refused,
    Repaired,
    Report,
    ServiceName,
)


class Record:
    """Receives the loop's reports and logs one line for each, except for those of every change."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._queued = False
        self._connection: Optional[Connection] = None
        self._node: Optional[NodeState] = None
        self._full: Optional[Programmed] = None
        self._last: Optional[Programmed] = None
        self._programmed: dict[int, float] = {}  # by family, when its rules were last brought up to date
        self._behind: tuple[int, ...] = ()
        self._repaired: Optional[Repaired] = None
        self._failed: Optional[Failed] = None
        self._refused: dict[ServiceName, str] = {}

    def take(self, report: Report) -> None:
        with self._lock:
            self._keep(report)
        self._tell(report)

    def as_data(self) -> dict[str, Any]:
        """Everything known now. Times are seconds ago, null if it has not happened."""
        now = time.time()
        with self._lock:
            last, repaired = self._last, self._repaired
            return {
                "node_known": None if self._node is None else self._node.known,
                "api": None if self._connection is None else "followed" if self._connection.followed else "lost",
                "api_lost": "" if self._connection is None else self._connection.text,
                "pending": self._queued,
                "families": [
                    {"family": f"IPv{family}", "last_change": self._ago(family, now), "behind": family in self._behind}
                    for family in sorted({*self._programmed, *self._behind})
                ],
                "services": 0 if last is None else last.served,
                "changes": self._counts["changes"],
                "last_change": None if last is None else now - last.at,
                "last_comparison": None if self._full is None else now - self._full.at,
                "repairs": self._counts["repairs"],
                "last_repair": None
                if repaired is None
                else {"ago": now - repaired.at, "pid": repaired.pid, "program": repaired.program},
                "failed": "" if self._failed is None else self._failed.text,
                "refused": [
                    {"service": "/".join(name), "reason": text} for name, text in sorted(self._refused.items())
                ],
            }

    def _keep(self, report: Report) -> None:
        if isinstance(report, Queued):
            self._queued = self._queued or bool(report.families)
        elif isinstance(report, Programmed):
            self._queued, self._last, self._behind = bool(report.behind), report, report.behind
            self._programmed.update(dict.fromkeys(report.families, report.at))
            self._failed = self._failed if report.behind else None
            self._counts["changes"] += report.operations > 0
            if report.full:
                self._full = report
        elif isinstance(report, Repaired):
            self._repaired = report
            self._counts["repairs"] += 1
        elif isinstance(report, Failed):
            self._failed = report
        elif isinstance(report, Refused):
            self._refused[report.service] = report.text
        elif isinstance(report, Accepted):
            self._refused.pop(report.service, None)
        elif isinstance(report, Connection):
            self._connection = report
        elif isinstance(report, NodeState):
            self._node = report

    def _ago(self, family: int, now: float) -> Optional[float]:
        return now - self._programmed[family] if family in self._programmed else None

    def _tell(self, report: Report) -> None:
        event = self._log.event
        if isinstance(report, Programmed) and report.full:
            duration = f"{report.duration:.3f}s"
            event("compared", operations=report.operations, services=report.services, duration=duration)
        elif isinstance(report, Repaired):
            by = f"{report.program}[{report.pid}]" if report.pid else "unknown"
            event("repaired", family=report.family, operations=report.operations, changed_by=by)
        elif isinstance(report, Refused):
            event("refused", service="/".join(report.service), error=report.text)
        elif isinstance(report, Accepted):
            event("accepted", service="/".join(report.service))
        elif isinstance(report, Failed):
            event("failed", error=report.text)
        elif isinstance(report, Connection):
            event("following" if report.followed else "api-lost", error=report.text)


def table(status: dict[str, Any]) -> str:
    """The status of the running program as a table."""
    api = {"followed": "follows the API server", "lost": "API server lost", None: "waits for the API server"}
    head = (
        f"node {status['node']}, {api[status['api']]}, {status['services']} Services, {status['changes']} changes, {status['repairs']} repairs, "
        f"up {format_duration(status['seconds'])}   {status['config']}"
    )
    rows = [
        *((f"last change of {row['family']}", _family(row)) for row in status["families"]),
        ("last comparison with the kernel", _ago(status["last_comparison"])),
        ("last repair", _repair(status["last_repair"])),
        ("API server", status["api_lost"] or "-"),
        ("failed", status["failed"] or "-"),
        *((f"refused {row['service']}", row["reason"]) for row in status["refused"]),
    ]
    return "\n".join([printable(head), *align_rows(rows, numbers=())]) + "\n"


def _ago(seconds: Optional[float]) -> str:
    return "-" if seconds is None else f"{format_duration(seconds)} ago"


def _family(row: dict[str, Any]) -> str:
    return f"{_ago(row['last_change'])}{', BEHIND: retrying' if row['behind'] else ''}"


def _repair(repair: Optional[dict[str, Any]]) -> str:
    if repair is None:
        return "-"
    by = f", changed by {repair['program']} (process {repair['pid']})" if repair["pid"] else ""
    return _ago(repair["ago"]) + by
