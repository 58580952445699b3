# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the node's Services work, and whether a load balancer may send it new connections, as kube-proxy 1.37 reports it.
Pure.

| path | 503 if |
|---|---|
| /livez | a change has been waiting for longer than two syncPeriods |
| /healthz | as /livez, or the API has no such Node, or it is being deleted or has the taint ToBeDeletedByClusterAutoscaler |
| /readyz | as /livez, or the rules have not been in force since the start. kube-proxy has no such path |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Optional

from ..._agent.http_listener import JSON, Answer
from ..ports import NodeState, Programmed, Queued, Report

_FAMILY = {4: "IPv4", 6: "IPv6"}
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_NEVER = "0001-01-01T00:00:00Z"  # how Go formats a zero time
_PERIODS = 2


class Health:
    """`sync_seconds` is nftables.syncPeriod. Times are seconds since 1970. The node is unhealthy if the rules of either
    family have been waiting for too long."""

    def __init__(self, sync_seconds: float) -> None:
        self.sync_seconds = sync_seconds
        self._waiting_since: dict[int, float] = {}  # by family, if a change is waiting
        self._updated_at: dict[int, float] = {}  # by family, for those that are served
        self._eligible = True

    def take(self, report: Report) -> None:
        if isinstance(report, Queued):
            for family in report.families:
                self._waiting_since.setdefault(family, report.at)
        elif isinstance(report, Programmed):
            for family in report.families:
                self._waiting_since.pop(family, None)
            for family in report.behind:
                self._waiting_since.setdefault(family, report.at)
            self._updated_at.update(dict.fromkeys(report.families, report.at))
        elif isinstance(report, NodeState):
            self._eligible = report.known and not (report.deleting or report.to_be_deleted)

    def is_healthy(self, now: float) -> bool:
        return all(self._is_current(family, now) for family in self._waiting_since)

    def _is_current(self, family: int, now: float) -> bool:
        return now - self._waiting_since.get(family, now) <= _PERIODS * self.sync_seconds

    @property
    def is_ready(self) -> bool:
        return bool(self._updated_at)

    def livez(self, now: float) -> Answer:
        return self._answer(now, {}, good=self.is_healthy(now))

    def healthz(self, now: float) -> Answer:
        good = self._eligible and self.is_healthy(now)
        return self._answer(now, {"nodeEligible": self._eligible}, good=good)

    def readyz(self, now: float) -> Answer:
        return self._answer(now, {"ready": self.is_ready}, good=self.is_ready and self.is_healthy(now))

    def _answer(self, now: float, more: Mapping[str, bool], *, good: bool) -> Answer:
        body = {
            "lastUpdated": format_time(now if good else max(self._updated_at.values(), default=None)),
            "currentTime": format_time(now),
            **more,
            "healthy": self.is_healthy(now),
            "status": {
                _FAMILY[family]: {"lastUpdated": format_time(at), "healthy": self._is_current(family, now)}
                for family, at in sorted(self._updated_at.items())
            },
        }
        return Answer(200 if good else 503, json.dumps(body, separators=(",", ":")).encode(), JSON)


def format_time(at: Optional[float]) -> str:
    """RFC 3339 in UTC with microseconds, from seconds since 1970; None means never."""
    if at is None:
        return _NEVER
    return (_EPOCH + timedelta(seconds=at)).isoformat(timespec="microseconds").replace("+00:00", "Z")
