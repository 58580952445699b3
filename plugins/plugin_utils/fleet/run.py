# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""For every playbook that changes nodes in batches: whether its run continues after a batch, and the outcome of each node. Pure."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Optional

from .node_list import count_nodes, grouped
from .report import Report, Result, first_line
from .request import Request

_REMEDY = "  do:    fix what is listed above, then run the same command again: completed nodes are skipped"
CHECKED = "would change"  # the outcome in check mode
NO_ANSWER, NOT_BEGUN, UNCHANGED = "no answer", "not begun", "unchanged"


def silence_refusal(request: Request, silent: Mapping[str, str]) -> str:
    """Why a run must not begin when hosts gave no answer; "" if it may."""
    if len(silent) <= request.max_fail:
        return ""
    prefix = request.prefix
    return (
        f"no node was changed: no response from {count_nodes(list(silent))}, and {prefix}_max_fail allows {request.max_fail}\n"
        f"  do:    fix what is listed above, exclude them ('{prefix}_hosts=workers:!NODE'), or allow it with {prefix}_max_fail"
    )


def batch_lines(request: Request, sizes: Sequence[int], what: str = "batches") -> list[str]:
    """One line about the sizes of the batches; none without batches."""
    if not sizes:
        return []
    return [f"{what}: {_sizes_text(sizes)}; the run ends when more than {request.max_fail} nodes fail"]


def _sizes_text(sizes: Sequence[int]) -> str:
    """The sizes as text: `1, 5, 50 (9 times), 44`."""
    runs: list[list[int]] = []
    for size in sizes:
        if runs and runs[-1][0] == size:
            runs[-1][1] += 1
        else:
            runs.append([size, 1])
    return ", ".join(f"{size} ({times} times)" if times > 1 else str(size) for size, times in runs)


def judge(
    request: Request,
    batch: Sequence[str],
    reasons: Mapping[str, str],
    *,
    goes_back: Sequence[str] = (),
    failed_before: Collection[str] = (),
    command: Optional[Result] = None,
    answer: Optional[Result] = None,
    elsewhere: Collection[str] = (),
) -> Report:
    """`reasons` say why nodes of the batch count as failed, "" for the others; `goes_back` are nodes to roll back if the run ends here;
    `command` and `answer` are results of the operator's gate; `elsewhere` are nodes that failed in other slices of a fleet run. The facts
    are `batch`, `stop`, `take_back`, `kept` (neither failed nor rolled back), `failed_hosts`, `failed_so_far` (with earlier batches), and
    `gate_problems`."""
    failed = [host for host in batch if reasons[host]]
    gate = [*_command_problem(request, command), *_query_problem(request, answer)]
    so_far = {*failed_before, *failed}
    total = len({*so_far, *elsewhere})
    stop = total > request.max_fail or bool(gate)
    take_back = [host for host in goes_back if stop]
    lines = [
        f"batch of {count_nodes(batch)}: {len(batch) - len(failed)} done, {len(failed)} failed",
        *(f"  {line}" for line in grouped((host, reasons[host]) for host in failed)),
        *(f"  the gate is closed: {line}" for line in gate),
    ]
    if stop:
        limit = f"{total} nodes failed, and {request.prefix}_max_fail allows {request.max_fail}"
        why = "the gate is closed" if gate else limit
        lines.append(f"the run ends: {why}" + (f"; rolling back: {count_nodes(take_back)}" if take_back else ""))
    facts = {
        "batch": list(batch),
        "stop": stop,
        "take_back": take_back,
        "kept": [host for host in batch if host not in failed and host not in take_back],
        "failed_hosts": failed,
        "failed_so_far": sorted(so_far),
        "gate_problems": gate,
    }
    return Report(tuple(lines), facts=facts)


def _command_problem(request: Request, command: Optional[Result]) -> list[str]:
    name = f"{request.prefix}_gate_command"
    if command is None or command.get("skipped") or command.get("rc") == 0:
        return []
    if command.get("rc") is None:
        return [f"{name}: {first_line(command.get('msg', 'did not run'))}"]
    printed = first_line(command.get("stderr") or command.get("stdout") or "it printed nothing")
    return [f"{name} ended with status {command['rc']}: {printed}"]


def _query_problem(request: Request, answer: Optional[Result]) -> list[str]:
    name = f"{request.prefix}_gate_query"
    if answer is None or answer.get("skipped"):
        return []
    threshold = request.gate["threshold"]
    body = answer.get("json")
    if not isinstance(body, Mapping) or body.get("status") != "success":
        error = body.get("error") if isinstance(body, Mapping) else None
        return [
            f"Prometheus did not respond to {name}: {first_line(error or answer.get('msg') or 'no reason was given')}"
        ]
    values = query_values(body)
    if not values:
        return [f"{name} returned no value"]
    # NaN is neither above nor below a threshold, and must count as a problem.
    above = [value for value in values if not value <= threshold]
    return [f"{name} gave {max(above):g}, above {threshold:g}"] if above else []


def query_values(body: Mapping[str, Any]) -> list[float]:
    """The values in Prometheus' answer to an instant query: a scalar, or the samples of a vector. Empty for any other answer."""
    data = body.get("data")
    if not isinstance(data, Mapping):
        return []
    result = data.get("result")
    pairs: list[Any] = [result] if data.get("resultType") == "scalar" else [row.get("value") for row in result or []]
    try:
        return [float(pair[1]) for pair in pairs]
    except (IndexError, TypeError, ValueError):
        return []


def report_nodes(rows: Mapping[str, tuple[str, str]], good: Collection[str]) -> Report:
    """A line for each node, failed ones last. `rows` have, by node, its outcome in a word or two and the rest of its line; `good` are the
    outcomes of finished nodes. The facts are `rows` and `not_done`."""
    done = {host: row for host, row in rows.items() if row[0] in good}
    others = {host: row for host, row in rows.items() if row[0] not in good}
    width = max(map(len, rows), default=0)
    lines = [f"{host:{width}}  {word}{text}" for part in (done, others) for host, (word, text) in part.items()]
    counts = Counter(word for word, _text in rows.values())
    summary = ", ".join(f"{count} {word}" for word, count in counts.items())
    failure = f"{len(others)} of {len(rows)} nodes are not done: {summary}\n{_REMEDY}" if others else ""
    facts = {"rows": {host: list(row) for host, row in rows.items()}, "not_done": list(others)}
    return Report((*lines, f"{len(rows)} nodes: {summary}"), failure=failure, facts=facts)


def times(result: Result) -> str:
    """When the node was begun, and how long it took. Modules that work in stages have `seconds` by stage, and no beginning."""
    spent = result.get("seconds")
    if spent is None:
        return ""
    if isinstance(spent, Mapping):
        return f"  {sum(map(float, spent.values())):.0f} s"
    if result.get("began") is None:
        return ""
    began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(float(result["began"])))
    return f"  {began}, {float(spent):.0f} s"
