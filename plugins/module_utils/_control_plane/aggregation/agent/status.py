# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The output of the command `status`, as data and as a table. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Optional

from ...._agent.status import align_rows, format_duration, printable
from .availability import ServiceStatus
from .counts import RESULTS, Counts
from .settings import Settings

Data = dict[str, Any]


def describe_status(
    settings: Settings,
    config: str,
    *,
    seconds: float,
    since_success: Optional[float],
    counts: Counts,
    seen: Sequence[ServiceStatus],
    problems: Sequence[str],
) -> Data:
    """JSON data. `seconds` is the uptime, `since_success` the time since the last pass without errors."""
    address = {f"{each.host}:{each.port}": each.address for each in settings.services}
    return {
        "config": config,
        "seconds": seconds,
        "settings": asdict(settings),  # the settings in effect, which a deployment compares
        "seconds_since_success": since_success,
        "connects": {result: counts.requests[result] for result in RESULTS},
        "connections": sum(counts.open.values()),
        "api_calls": counts.api_calls,
        "problems": list(problems),
        "api_services": [
            {
                "name": service.name,
                "service": service.service,
                "address": address.get(service.service),
                "connections": counts.open[service.service],
                **asdict(service.condition),
            }
            for service in seen
        ],
    }


def table(status: Data) -> str:
    """The result of `describe_status`, as text of several lines."""
    rows, since = status["api_services"], status["seconds_since_success"]
    available = sum(1 for row in rows if row["status"] == "True")
    success = "nothing seen yet" if since is None else f"looked {format_duration(since)} ago"
    connects = ", ".join(f"{number} {result}" for result, number in status["connects"].items())
    head = (
        f"{available} of {len(rows)} APIServices available, {status['connections']} connections open ({connects}), {success}, "
        f"{status['api_calls']} API calls, up {format_duration(status['seconds'])}   {status['config']}"
    )
    lines = [printable(head), *(f"problem: {printable(text)}" for text in status["problems"])]
    if rows:
        heads = ("APISERVICE", "SERVICE", "ADDRESS", "OPEN", "AVAILABLE", "REASON", "MESSAGE")
        lines += ["", *align_rows([heads, *map(_row, rows)], numbers=(3,))]
    return "\n".join(lines) + "\n"


def _row(row: Data) -> tuple[str, ...]:
    cells = (row["name"], row["service"], row["address"] or "-", str(row["connections"]))
    return (*cells, row["status"], row["reason"], row["message"])
