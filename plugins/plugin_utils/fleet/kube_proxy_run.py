# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verdict on a batch of a kube-proxy change, and the outcome of each node. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Optional

from .node_list import count_nodes
from .report import Report, Result, Results, no_answer
from .request import Request
from .run import CHECKED, NO_ANSWER, NOT_BEGUN, UNCHANGED, judge, report_nodes, times


def judge_batch(
    request: Request,
    batch: Sequence[str],
    changed: Results,
    after: Results,
    *,
    failed_before: Sequence[str] = (),
    command: Optional[Result] = None,
    answer: Optional[Result] = None,
    elsewhere: Sequence[str] = (),
) -> Report:
    """`changed` are results of `kube_proxy_change`, `after` those of `kube_proxy_info` after the pause; other parameters, and the facts, as
    in `judge`."""
    moved = [host for host in batch if _is_moved(changed.get(host))]
    return judge(
        request,
        batch,
        {host: _reason(changed.get(host), after.get(host)) for host in batch},
        # A failed rollback is no reason to go forward again.
        goes_back=moved if request.mode else [],
        failed_before=failed_before,
        command=command,
        answer=answer,
        elsewhere=elsewhere,
    )


def _is_moved(changed: Optional[Result]) -> bool:
    return changed is not None and bool(changed.get("changed")) and not no_answer(changed)


def _reason(changed: Optional[Result], after: Optional[Result]) -> str:
    """Why a node of the batch counts as failed; "" if it does not."""
    if changed is None:
        return "the change was not started"
    reason = no_answer(changed)
    if reason:
        return reason
    if after is None or after.get("skipped"):
        return ""
    reason = no_answer(after)
    if reason:
        return f"after the change: {reason}"
    if not after["in_order"]:
        return f"after the change: {after['reason']}"
    return "" if after["mode"] == changed["mode"] else f"after the change: mode {after['mode'] or 'unknown'}"


@dataclass(frozen=True)
class Run:
    """What tasks returned, by host: `looks` before the first change, `changed` and `back` in the batches."""

    looks: Results
    silent: Mapping[str, str]  # hosts that gave no answer before the first change, and why
    changing: Sequence[str]  # hosts that were to be changed
    changed: Results
    back: Results
    failed: Sequence[str]  # hosts that failed in their batch
    cleaned: Results = field(default_factory=dict)  # results of removing stale rules of the former mode
    now: str = ""  # UTC, in the form that modules print


def outcome(request: Request, run: Run) -> Report:
    """A line for each node, failed ones last. The fact `draining` says which connections through ipvs a restart of kube-proxy would cut;
    empty if there are none, and after a rollback."""
    rows = {host: _row(host, run) for host in request.hosts if run.looks.get(host) is not None}
    report = report_nodes(rows, ("confirmed", UNCHANGED, CHECKED))
    return replace(report, facts={**report.facts, "draining": _draining_lines(request, run, list(rows))})


def _draining_lines(request: Request, run: Run, hosts: Sequence[str]) -> list[str]:
    open_on = {host: _open_connections(host, run) for host in hosts} if request.mode else {}
    draining = [host for host, count in open_on.items() if count]
    if not draining:
        return []
    return [
        f"{sum(open_on.values())} connections through ipvs continue on {count_nodes(draining)}; the DaemonSet kube-proxy-{request.mode} is "
        "kept, as kube-proxy of the original DaemonSet would cut them when it starts",
        "  do:    run the same command again when they have ended; -e kube_proxy_cut_connections=true cuts them now",
    ]


def _open_connections(host: str, run: Run) -> int:
    """Connections through ipvs that this run's clean-up has kept, else those of the first look whose deadline is not over."""
    cleaned = run.cleaned.get(host)
    if cleaned is not None and not cleaned.get("skipped"):
        return int((cleaned.get("connections") or {}).get("kept") or 0)
    row = (run.looks.get(host) or {}).get("draining") or {}
    return 0 if row.get("until") and row["until"] <= run.now else int(row.get("connections") or 0)


def _row(host: str, run: Run) -> tuple[str, str]:
    """An outcome in a word or two, and the rest of the line."""
    if host in run.silent:
        return NO_ANSWER, f": {run.silent[host]}"
    result, returned, look = run.changed.get(host), run.back.get(host), run.looks[host] or {}
    if result is None:
        return (NOT_BEGUN, "") if host in run.changing else (UNCHANGED, f"  {look.get('mode')}")
    if returned is not None and not returned.get("skipped"):
        reason = no_answer(returned)
        return ("not taken back", f": {reason}") if reason else ("taken back", times(returned))
    reason = no_answer(result)
    if reason:
        word = "unreachable" if result.get("unreachable") else str(result.get("outcome") or "failed").replace("_", " ")
        return word, f"{times(result)}: {reason}"
    if host in run.failed:
        return "failed after the change", times(result)
    leftover = no_answer(run.cleaned.get(host) or {})
    if leftover:
        return "not cleaned up", f": {leftover}"
    if not result.get("changed"):
        return UNCHANGED, f"  {look.get('mode')}"
    if result.get("outcome") == UNCHANGED:  # as in check mode
        return CHECKED, ""
    return str(result["outcome"]), f"  {look.get('mode') or 'not running'} -> {result['mode']}{times(result)}"
