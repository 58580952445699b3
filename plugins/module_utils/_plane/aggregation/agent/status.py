# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`status`: what the running agent sees and does, as data and as a table. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Optional

from ...._core.agent.status import aligned, duration_told, plain
from .counts import RESULTS, Counts
from .keeper import Seen
from .settings import Settings

Data = dict[str, Any]


def status_of(
    settings: Settings,
    config: str,
    *,
    seconds: float,
    since_success: Optional[float],
    counts: Counts,
    seen: Sequence[Seen],
    problems: Sequence[str],
) -> Data:
    """JSON data. `seconds` is how long it runs, `since_success` how long ago all was well with the API server."""
    address = {f"{each.host}:{each.port}": each.address for each in settings.services}
    return {
        "config": config,
        "seconds": seconds,
        "settings": asdict(settings),  # all that is in effect, by which a deployment knows that it came true
        "seconds_since_success": since_success,
        "connects": {result: counts.requests[result] for result in RESULTS},
        "connections": sum(counts.open.values()),
        "api_calls": counts.api_calls,
        "problems": list(problems),
        "api_services": [
            {
                "name": one.name,
                "service": one.service,
                "address": address.get(one.service),
                "connections": counts.open[one.service],
                **asdict(one.condition),
            }
            for one in seen
        ],
    }


def table(status: Data) -> str:
    """Text of several lines, of `status_of`."""
    rows, since = status["api_services"], status["seconds_since_success"]
    available = sum(1 for row in rows if row["status"] == "True")
    success = "nothing seen yet" if since is None else f"looked {duration_told(since)} ago"
    connects = ", ".join(f"{number} {result}" for result, number in status["connects"].items())
    head = (
        f"{available} of {len(rows)} APIServices available, {status['connections']} connections open ({connects}), {success}, "
        f"{status['api_calls']} API calls, up {duration_told(status['seconds'])}   {status['config']}"
    )
    lines = [plain(head), *(f"problem: {plain(text)}" for text in status["problems"])]
    if rows:
        heads = ("APISERVICE", "SERVICE", "ADDRESS", "OPEN", "AVAILABLE", "REASON", "MESSAGE")
        lines += ["", *aligned([heads, *map(_row, rows)], numbers=(3,))]
    return "\n".join(lines) + "\n"


def _row(row: Data) -> tuple[str, ...]:
    cells = (row["name"], row["service"], row["address"] or "-", str(row["connections"]))
    return (*cells, row["status"], row["reason"], row["message"])
