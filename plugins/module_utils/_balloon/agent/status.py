# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`ballast-balloons status`: what the running reconciler sees and does, as data and as a table. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Optional

from ..._agent.status import align_rows, format_duration, printable
from ..report import report
from .metrics import View
from .settings import Settings

Data = dict[str, Any]


@dataclass(frozen=True)
class NodeNote:
    """What the reconciler knows about a node, besides the facts of the cluster."""

    outcome: str = ""  # of the last attempt; "" before the first
    text: str = ""
    seconds_left: Optional[float] = None  # until the next attempt; None where no wait is needed


@dataclass(frozen=True)
class Notes:
    """What the reconciler does now. `moving`: it resizes nodes."""

    nodes: Mapping[str, NodeNote] = field(default_factory=dict)
    problems: tuple[str, ...] = ()  # of its own work, or of the cluster's objects
    moving: bool = False
    seconds_since_success: Optional[float] = None
    api_calls: int = 0


def status_of(settings: Settings, config: str, seconds: float, view: View, notes: Notes) -> Data:
    """JSON data. `seconds` is the uptime."""
    fleet_report = (
        report(view.fleet, dict(view.targets), {}, sorted(view.targets)) if view.targets else {"nodes": [], "hosts": []}
    )
    return {
        "config": config,
        "seconds": seconds,
        "settings": asdict(settings),  # the settings in effect, with which a deployment compares its own
        "moving": notes.moving,
        "seconds_since_success": notes.seconds_since_success,
        "api_calls": notes.api_calls,
        "problems": list(notes.problems),
        "hosts": fleet_report["hosts"],
        "nodes": [
            {**row, "at_target": row["name"] in view.reached, **asdict(notes.nodes.get(str(row["name"]), NodeNote()))}
            for row in fleet_report["nodes"]
        ],
    }


def table(status: Data) -> str:
    """The result of `status_of`, as text of several lines."""
    nodes, hosts = status["nodes"], status["hosts"]
    reached = sum(1 for row in nodes if row["at_target"])
    since = status["seconds_since_success"]
    success = "not yet all at target" if since is None else f"all nodes at target {format_duration(since)} ago"
    head = (
        f"{reached} of {len(nodes)} nodes at target, {'moving' if status['moving'] else 'waiting'}, {success}, "
        f"{status['api_calls']} API calls, up {format_duration(status['seconds'])}   {status['config']}"
    )
    lines = [printable(head), *(f"problem: {printable(text)}" for text in status["problems"])]
    if nodes:
        heads = ("NODE", "HOST", "TARGET", "BALLOON", "FREE", "STATE", "NOTE")
        lines += ["", *align_rows([heads, *map(_node, nodes)], numbers=())]
    if hosts:
        of_hosts = ("HOST", "UNRESERVED", "SCHEDULABLE", "OVERCOMMITTED")
        lines += ["", *align_rows([of_hosts, *map(_host, hosts)], numbers=())]
    return "\n".join(lines) + "\n"


def _node(row: Data) -> tuple[str, ...]:
    note = row["outcome"] and row["outcome"] != "done" and f"{row['outcome']}: {row['text']}"
    if row["seconds_left"] is not None:
        note = f"retry in {format_duration(row['seconds_left'])}; {note or ''}"
    state = "at target" if row["at_target"] else row["state"] or "no balloon"
    return (
        row["name"],
        row["host"],
        _amount(row["target"]),
        _amount(row["allocated"]),
        _amount(row["free"]),
        state,
        note or row["message"] or "",
    )


def _host(row: Data) -> tuple[str, ...]:
    return row["name"], _amount(row["room"]), _amount(row["open"]), "no" if row["holds"] else "YES"


def _amount(quantities: Optional[Mapping[str, str]]) -> str:
    return "-" if quantities is None else f"{quantities['cpu']} {quantities['memory']}"
