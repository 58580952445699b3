# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a run over batches of nodes goes on, and what became of each node."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from .node_list import count_nodes, grouped
from .report import Report, Result, Results, first_line, no_answer
from .request import Request

_REMEDY = "  do:    fix what is listed above, then run the same command again: nodes that are done are left alone"
CHECKED = "would change"  # the outcome in check mode


def judge_batch(
    request: Request,
    batch: Sequence[str],
    changed: Results,
    after: Results,
    *,
    failed_before: Sequence[str] = (),
    command: Optional[Result] = None,
    answer: Optional[Result] = None,
) -> Report:
    """`changed` are results of `kube_proxy_change`, `after` those of `kube_proxy_info` when the pause was over, `command` and `answer` those of
    the operator's gate. The facts are `stop`, and of the batch `take_back`, the hosts that go back, `kept`, those that have the mode for good, and
    `failed_hosts`."""
    reasons = {host: _reason(changed.get(host), after.get(host)) for host in batch}
    failed = [host for host in batch if reasons[host]]
    gate = [*_command_problem(command), *_query_problem(request, answer)]
    total = len({*failed_before, *failed})
    stop = total > request.max_fail or bool(gate)
    moved = [host for host in batch if _is_moved(changed.get(host))]
    # A rollback that fails is no reason to go forward again.
    take_back = moved if stop and request.mode else []
    lines = [
        f"batch of {count_nodes(batch)}: {len(batch) - len(failed)} done, {len(failed)} failed",
        *(f"  {line}" for line in grouped((host, reasons[host]) for host in failed)),
        *(f"  the gate is closed: {line}" for line in gate),
    ]
    if stop:
        why = (
            "the gate is closed" if gate else f"{total} nodes failed, and kube_proxy_max_fail allows {request.max_fail}"
        )
        lines.append(f"the run ends: {why}" + (f"; going back: {count_nodes(take_back)}" if take_back else ""))
    return Report(
        tuple(lines),
        facts={
            "stop": stop,
            "take_back": take_back,
            "kept": [host for host in batch if host not in failed and host not in take_back],
            "failed_hosts": failed,
        },
    )


def _is_moved(changed: Optional[Result]) -> bool:
    return changed is not None and bool(changed.get("changed")) and not no_answer(changed)


def _reason(changed: Optional[Result], after: Optional[Result]) -> str:
    """Why a node of the batch counts as failed; "" where it does not."""
    if changed is None:
        return "the change was not begun"
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


def _command_problem(command: Optional[Result]) -> list[str]:
    if command is None or command.get("skipped") or command.get("rc") == 0:
        return []
    if command.get("rc") is None:
        return [f"kube_proxy_gate_command: {first_line(command.get('msg', 'did not run'))}"]
    printed = first_line(command.get("stderr") or command.get("stdout") or "it printed nothing")
    return [f"kube_proxy_gate_command ended with status {command['rc']}: {printed}"]


def _query_problem(request: Request, answer: Optional[Result]) -> list[str]:
    if answer is None or answer.get("skipped"):
        return []
    threshold = request.gate["threshold"]
    body = answer.get("json")
    if not isinstance(body, Mapping) or body.get("status") != "success":
        error = body.get("error") if isinstance(body, Mapping) else None
        return [
            f"Prometheus did not answer kube_proxy_gate_query: {first_line(error or answer.get('msg') or 'no reason was given')}"
        ]
    values = query_values(body)
    if not values:
        return ["kube_proxy_gate_query gave no value"]
    # A value that is no number is above no threshold and below none.
    above = [value for value in values if not value <= threshold]
    return [f"kube_proxy_gate_query gave {max(above):g}, above {threshold:g}"] if above else []


def query_values(body: Mapping[str, Any]) -> list[float]:
    """Of Prometheus' answer to an instant query: a scalar, or the samples of a vector. Empty for any other answer."""
    data = body.get("data")
    if not isinstance(data, Mapping):
        return []
    result = data.get("result")
    pairs: list[Any] = [result] if data.get("resultType") == "scalar" else [row.get("value") for row in result or []]
    try:
        return [float(pair[1]) for pair in pairs]
    except (IndexError, TypeError, ValueError):
        return []


@dataclass(frozen=True)
class Run:
    """What tasks returned, by host: `looks` before the first change, `changed` and `back` of the batches."""

    looks: Results
    silent: Mapping[str, str]  # hosts that gave no answer before the first change, and why
    changing: Sequence[str]  # hosts that were to be changed
    changed: Results
    back: Results
    failed: Sequence[str]  # hosts that failed in their batch
    cleaned: Results = field(default_factory=dict)  # of removing what the former mode left


def outcome(request: Request, run: Run) -> Report:
    """A line for each node, the failed last."""
    rows = {host: _row(host, run) for host in request.hosts if run.looks.get(host) is not None}
    good = {host: row for host, row in rows.items() if row[0] in _GOOD}
    bad = {host: row for host, row in rows.items() if row[0] not in _GOOD}
    width = max(map(len, rows), default=0)
    lines = [f"{host:{width}}  {word}{text}" for part in (good, bad) for host, (word, text) in part.items()]
    counts = Counter(word for word, _text in rows.values())
    summary = ", ".join(f"{count} {word}" for word, count in counts.items())
    failure = f"{len(bad)} of {len(rows)} nodes are not done: {summary}\n{_REMEDY}" if bad else ""
    return Report((*lines, f"{len(rows)} nodes: {summary}"), failure=failure)


_GOOD = ("confirmed", "unchanged", CHECKED)


def _row(host: str, run: Run) -> tuple[str, str]:
    """An outcome in a word or two, and the rest of the line."""
    if host in run.silent:
        return "no answer", f": {run.silent[host]}"
    result, returned, look = run.changed.get(host), run.back.get(host), run.looks[host] or {}
    if result is None:
        return ("not begun", "") if host in run.changing else ("unchanged", f"  {look.get('mode')}")
    if returned is not None and not returned.get("skipped"):
        reason = no_answer(returned)
        return ("not taken back", f": {reason}") if reason else ("taken back", _times(returned))
    reason = no_answer(result)
    if reason:
        word = "unreachable" if result.get("unreachable") else str(result.get("outcome") or "failed").replace("_", " ")
        return word, f"{_times(result)}: {reason}"
    if host in run.failed:
        return "failed after the change", _times(result)
    leftover = no_answer(run.cleaned.get(host) or {})
    if leftover:
        return "not cleaned up", f": {leftover}"
    if not result.get("changed"):
        return "unchanged", f"  {look.get('mode')}"
    if result.get("outcome") == "unchanged":  # as check mode has it
        return CHECKED, ""
    return str(result["outcome"]), f"  {look.get('mode') or 'not running'} -> {result['mode']}{_times(result)}"


def _times(result: Result) -> str:
    if result.get("began") is None or result.get("seconds") is None:
        return ""
    began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(float(result["began"])))
    return f"  {began}, {float(result['seconds']):.0f} s"
