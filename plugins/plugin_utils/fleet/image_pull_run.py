# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run of the playbook image_pull_proxy: the preview, the hosts of the next stage, and the outcome of each node. Pure.

Its plays are stages: the proxies of the machines, then the kubelets of the nodes; for a removal, the proxies at the end. An ordinary node
is its own machine. Each stage has `changing`, its hosts in order; `serial`, the sizes of its batches; and `failed_before`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from .node_list import grouped
from .placement import ABSENT, PRESENT
from .report import Report, Result, Results, confirmation, no_answer
from .request import Request, batch_sizes
from .run import CHECKED, NO_ANSWER, NOT_BEGUN, UNCHANGED, batch_lines, report_nodes, silence_refusal, times

PROXIES, KUBELETS, REMOVAL = "image_pull_proxy_preview", "image_pull_proxy_kubelets", "image_pull_proxy_removal"
_NO_PROXY = "no pull proxy"
_CHANGED, _FAILED, _ILL = "changed", "failed", "failed after the change"


@dataclass(frozen=True)
class Looks:
    """What tasks returned before the first change: by machine, `image_pull_proxy_info` and `image_pull_proxy` in check mode; by node,
    `image_pulls` in check mode."""

    found: Results
    proxies: Results
    kubelets: Results


def preview(request: Request, looks: Looks) -> Report:
    """The facts are those of the first stage, `machines` and `nodes` to change, and `silent`, the reason why a host gave no answer."""
    details = request.details
    silent = dict(_silent(looks))
    nodes = [node for node in request.in_order if node in details["nodes"]]
    left_out = {node for node in nodes if {node, details["machine_of"][node]} & silent.keys()}
    machines = [
        machine
        for machine in dict.fromkeys(details["machine_of"][node] for node in nodes if node not in left_out)
        if _would_change(looks.proxies.get(machine))
    ]
    nodes = [node for node in nodes if node not in left_out and _would_change(looks.kubelets.get(node))]
    refusal = silence_refusal(request, silent)
    acts = request.acts and not refusal
    requested = _limit(details["limit"]) if details["state"] == PRESENT else _NO_PROXY
    lines = [
        *(f"machines: {line}" for line in grouped(_proxy_lines(looks, requested))),
        *(f"machines: {line}" for line in grouped(_package_lines(looks)) if details["state"] == PRESENT),
        *(f"kubelets: {line}" for line in grouped(_kubelet_lines(looks.kubelets))),
        *(f"no response:  {line}" for line in grouped(silent.items())),
        *batch_lines(request, _sizes(request, "machines", machines), "batches of machines"),
        *batch_lines(request, _sizes(request, "nodes", nodes), "batches of kubelets"),
    ]
    if not request.acts and not refusal:
        lines += confirmation(request.prefix)
    first = machines if acts and details["state"] == PRESENT else []
    facts = {
        **_stage(request, "machines", first, failed_before=list(silent)),
        "machines": machines if acts else [],
        "nodes": nodes if acts else [],
        "silent": silent,
    }
    return Report(tuple(lines), failure=refusal, facts=facts)


def _silent(looks: Looks) -> Iterator[tuple[str, str]]:
    for rows in (looks.found, looks.proxies, looks.kubelets):
        yield from ((host, no_answer(row)) for host, row in rows.items() if row and no_answer(row))


def _would_change(row: Optional[Result]) -> bool:
    return row is not None and bool(row.get("changed"))


def _limit(most: int) -> str:
    return f"limit {most or 'none'}"


def _proxy_lines(looks: Looks, requested: str) -> Iterator[tuple[str, str]]:
    for host, row in looks.found.items():
        if row is not None and not no_answer(row):
            status = row.get("status")
            found = _limit(status["max_in_flight"]) if status else _NO_PROXY
            stays = "stays, other settings change" if _would_change(looks.proxies.get(host)) else "stays"
            yield host, f"{found} {stays}" if found == requested else f"{found} -> {requested}"


def _package_lines(looks: Looks) -> Iterator[tuple[str, str]]:
    for host, row in looks.found.items():
        if row is not None and not no_answer(row) and row.get("missing_packages"):
            yield host, f"needs {', '.join(row['missing_packages'])}"


def _kubelet_lines(kubelets: Results) -> Iterator[tuple[str, str]]:
    for host, row in kubelets.items():
        if row is not None and not no_answer(row):
            steps = [f"{step['verb']} {step['title']}" for step in row.get("steps") or []]
            yield host, f"{', '.join(steps)}, restart the kubelet" if steps else "no change"


def _sizes(request: Request, kind: str, changing: Sequence[str]) -> list[int]:
    return batch_sizes(request.serial, selected=len(request.details[kind]), changing=len(changing))


def _stage(
    request: Request, kind: str, changing: Sequence[str], *, failed_before: Sequence[str], **more: Any
) -> dict[str, Any]:
    sizes = _sizes(request, kind, changing)
    return {"changing": list(changing), "serial": sizes, "failed_before": list(failed_before), **more}


@dataclass(frozen=True)
class Judged:
    """A summary of a stage's verdicts."""

    begun: frozenset[str]
    failed: frozenset[str]
    stopped: bool


def judged(stage: str, verdicts: Results) -> Judged:
    """`verdicts` may be of several stages; only those of `stage` count."""
    rows = [row for row in verdicts.values() if row and row.get("stage") == stage]
    return Judged(
        begun=frozenset(host for row in rows for host in row["batch"]),
        failed=frozenset(host for row in rows for host in row["failed_hosts"]),
        stopped=any(row["stop"] for row in rows),
    )


def kubelets_stage(request: Request, before: Result, verdicts: Results) -> Report:
    """`before` has the facts of the preview. The facts are those of this stage, and `machines_done`, `machines_failed`, `stopped` of the
    first stage."""
    first_stage = judged(PROXIES, verdicts)
    waiting = set(before["changing"]) - (first_stage.begun - first_stage.failed)
    nodes = [node for node in before["nodes"] if request.details["machine_of"][node] not in waiting]
    facts = _stage(
        request,
        "nodes",
        [] if first_stage.stopped else nodes,
        failed_before=[*before["failed_before"], *sorted(first_stage.failed)],
        machines_done=sorted(first_stage.begun - first_stage.failed),
        machines_failed=sorted(first_stage.failed),
        stopped=first_stage.stopped,
    )
    return Report((), facts=facts)


def removal_stage(request: Request, before: Result, kubelets: Result, verdicts: Results) -> Report:
    """`kubelets` has the facts of the previous stage: proxies are removed where no kubelet uses them any more. The facts are those of this
    stage, `nodes_done` and `nodes_failed` of the previous stage, and `stopped`: whether a stage before this one was stopped."""
    previous_stage = judged(KUBELETS, verdicts)
    done, details = previous_stage.begun - previous_stage.failed, request.details
    in_use = {details["machine_of"][node] for node in before["nodes"] if node not in done}
    removes = details["state"] == ABSENT and not previous_stage.stopped
    machines = [machine for machine in before["machines"] if removes and machine not in in_use]
    facts = _stage(
        request,
        "machines",
        machines,
        failed_before=[*kubelets["failed_before"], *sorted(previous_stage.failed)],
        nodes_done=sorted(done),
        nodes_failed=sorted(previous_stage.failed),
        stopped=kubelets["stopped"] or previous_stage.stopped,
    )
    return Report((), facts=facts)


def judge_proxy(request: Request, changed: Optional[Result], after: Optional[Result]) -> str:
    """Why a machine of a batch counts as failed; "" if it does not."""
    reason = no_answer(changed) if changed else "the change was not started"
    if reason or after is None or after.get("skipped") or request.details["state"] == ABSENT:
        return reason
    reason = no_answer(after) or ("" if after.get("status") else "the pull proxy does not respond")
    return reason and f"after the change: {reason}"


def judge_kubelet(changed: Optional[Result], after: Optional[Result]) -> str:
    """Why a node of a batch counts as failed; "" if it does not."""
    reason = no_answer(changed) if changed else "the change was not started"
    if reason or after is None or after.get("skipped"):
        return reason
    # Unreadable values do not count as a fault: the change itself has seen a healthy kubelet.
    stopped = after.get("kubelet", {}).get("running") is False
    reason = no_answer(after) or ("the kubelet is not running" if stopped else "")
    return reason and f"after the change: {reason}"


@dataclass(frozen=True)
class Run:
    """Facts of the stages, and what tasks returned; `gone` is the summary of the last stage."""

    before: Result
    kubelets: Result
    removal: Result
    gone: Judged
    looks: Results  # results for nodes, before the first change
    proxy_results: Results
    kubelet_results: Results
    is_check: bool = False


def outcome(request: Request, run: Run) -> Report:
    """A line for each node, failed ones last."""
    rows = {
        node: _row(node, request.details["machine_of"][node], run)
        for node in request.details["nodes"]
        if run.looks.get(node) is not None
    }
    return report_nodes(rows, (_CHANGED, UNCHANGED, CHECKED))


def _row(node: str, machine: str, run: Run) -> tuple[str, str]:
    """An outcome in a word or two, and the rest of the line: what failed first, what was not begun, or what was changed."""
    silent: Mapping[str, str] = run.before["silent"]
    for host in (node, machine):
        if host in silent:
            return NO_ANSWER, f": {silent[host]}"
    proxy, kubelet = run.proxy_results.get(machine) or {}, run.kubelet_results.get(node) or {}
    failed_machines = {*run.kubelets["machines_failed"], *run.gone.failed}
    if machine in failed_machines:
        return _failure(proxy, f"the pull proxy of {machine}")
    if node in run.removal["nodes_failed"]:
        return _failure(kubelet, "the kubelet")
    done: Collection[str] = {*run.kubelets["machines_done"], *run.gone.begun}
    changes_proxy, changes_kubelet = machine in run.before["machines"], node in run.before["nodes"]
    is_begun = (machine in done or not changes_proxy) and (node in run.removal["nodes_done"] or not changes_kubelet)
    if not is_begun:
        return NOT_BEGUN, ""
    if not (changes_proxy or changes_kubelet):
        return UNCHANGED, ""
    return (CHECKED, "") if run.is_check else (_CHANGED, times(kubelet if changes_kubelet else proxy))


def _failure(result: Result, what: str) -> tuple[str, str]:
    reason = no_answer(result)
    return (_FAILED, f"  {what}: {reason}") if reason else (_ILL, f"  {what}")
