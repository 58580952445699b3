# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`ballast-pull-proxy status`: the state of the running proxy, as a table. Pure."""

from __future__ import annotations

from typing import Any

from ..._agent.status import align_rows, format_duration, printable


def table(status: dict[str, Any]) -> str:
    """`Server.status` as text of several lines."""
    limit = status["max_in_flight"] or "no limit"
    head = (
        f"{len(status['in_flight'])} in flight (limit {limit}), {len(status['queued'])} queued, "
        f"{status['connections']} connections, up {format_duration(status['seconds'])}   {status['config']}"
    )
    rows = [
        *(_row("in flight", pull) for pull in status["in_flight"]),
        *(_row(str(pull["place"] or "retry"), pull) for pull in status["queued"]),
    ]
    titles = ("STATE", "SECONDS", "CALLERS", "LISTENER", "POD", "IMAGE")
    lines = align_rows([titles, *rows], numbers=(1, 2)) if rows else []
    return "\n".join([printable(head), *lines]) + "\n"


def _row(state: str, pull: dict[str, Any]) -> tuple[str, ...]:
    pods = pull["pods"]
    shown = pods[0] + (f" and {len(pods) - 1} more" if len(pods) > 1 else "") if pods else "-"
    return state, f"{pull['seconds']:.1f}", str(pull["callers"]), pull["listener"], shown, pull["image"]
