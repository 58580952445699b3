# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run of the playbook balloons: the preview, the batches, and the outcome of each node. Pure.

One execution of the module `balloon` sizes the nodes in a batch that are handled from one machine. Its task runs for a *leader*, the
first of these nodes. Nodes that share a host are never in two batches: their weights depend on each other, and what some nodes give
up is what others get.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from .node_list import grouped
from .report import Report, Result, Results, confirmation, first_line, no_answer
from .request import Request, batch_sizes
from .run import CHECKED, NO_ANSWER, NOT_BEGUN, UNCHANGED, batch_lines, report_nodes, silence_refusal, times

_OF_NODES = ("balloon", "limit", "Node")  # kinds of steps
_SIZED, _FAILED, _ILL = "sized", "failed", "failed after the change"


@dataclass(frozen=True)
class Group:
    """Nodes of one host that are sized together: `rows` are module options, `hosts` the inventory names of those that change."""

    machine: str
    hosts: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]


def preview(request: Request, plans: Results) -> Report:
    """`plans` are results of `balloon` in check mode, by machine. The facts are `changing`, hosts of nodes in order; `serial`; `leaders`,
    by host the `machine`, and the module's option `nodes`; and `silent`, the reason why a machine gave no answer."""
    silent_machines = {machine: no_answer(row) for machine, row in plans.items() if row and no_answer(row)}
    machine_of: Mapping[str, str] = request.details["machine_of"]
    silent = {host: silent_machines[machine] for host, machine in machine_of.items() if machine in silent_machines}
    groups = _groups(request, {machine: row for machine, row in plans.items() if machine not in silent_machines})
    batches = _batches(request, groups)
    sizes = [sum(len(group.hosts) for group in batch) for batch in batches]
    steps = _steps(plans)
    refusal = silence_refusal(request, silent)
    lines = [
        *steps,
        *(f"no response:  {line}" for line in grouped(silent.items())),
        *batch_lines(request, sizes),
        *([] if steps or silent else ["nothing to change"]),
    ]
    if steps and not request.acts and not refusal:
        lines += confirmation(request.prefix)
    acts = request.acts and not refusal
    facts = {
        "changing": [host for batch in batches for group in batch for host in group.hosts] if acts else [],
        "serial": sizes if acts else [],
        "leaders": {leader: row for batch in batches for leader, row in _leaders(batch)} if acts else {},
        "silent": silent,
    }
    return Report(tuple(lines), failure=refusal, facts=facts)


def _steps(plans: Results) -> list[str]:
    """Steps of the cluster unchanged; steps of nodes grouped, each with the nodes that have it."""
    steps = [step for row in plans.values() if row for step in row.get("steps") or []]
    of_nodes = [step for step in steps if step.get("kind") in _OF_NODES]
    return [
        *(f"{step['verb']} {step['title']}" for step in steps if step not in of_nodes),
        *grouped(
            (step["target"], f"{step['verb']} {step['title'].replace(' of ' + step['target'], '', 1)}")
            for step in of_nodes
        ),
    ]


def _groups(request: Request, plans: Results) -> list[Group]:
    """Groups with something to do, in the order of the hosts."""
    groups = [group for machine, row in plans.items() if row for group in _groups_of(request, machine, row)]
    places = {host: place for place, host in enumerate(request.in_order)}
    return sorted(groups, key=lambda group: min(places[host] for host in group.hosts))


def _groups_of(request: Request, machine: str, plan: Result) -> Iterator[Group]:
    details = request.details
    host_of = {details["name_of"][host]: host for host in details["nodes"] if details["machine_of"][host] == machine}
    behind = [row for row in plan.get("shared") or [] if row["behind"]]
    # If only objects of the cluster are to be changed, any nodes will do.
    for row in behind or (plan.get("shared") or [])[: bool(plan.get("changed"))]:
        rows = tuple(each for each in details["rows"][machine] if each["name"] in row["nodes"])
        yield Group(machine, tuple(host_of[name] for name in row["behind"] or row["nodes"]), rows)


def _batches(request: Request, groups: Sequence[Group]) -> list[list[Group]]:
    """Batches of whole groups, each with at least the number of nodes in `serial`. Groups in the first batch are of one machine, whose
    execution makes what all of them need in the cluster."""
    selected, left = len(request.details["nodes"]), sum(len(group.hosts) for group in groups)
    sizes = batch_sizes(request.serial, selected=selected, changing=left)
    batches: list[list[Group]] = []
    for group in groups:
        last = batches[-1] if batches else []
        is_full = sum(len(each.hosts) for each in last) >= sizes[len(batches) - 1] if batches else True
        if is_full or (len(batches) == 1 and last[0].machine != group.machine):
            batches.append([group])
        else:
            last.append(group)
    return batches


def _leaders(batch: Sequence[Group]) -> Iterator[tuple[str, dict[str, Any]]]:
    machines: dict[str, list[Group]] = {}
    for group in batch:
        machines.setdefault(group.machine, []).append(group)
    for machine, groups in machines.items():
        yield groups[0].hosts[0], {"machine": machine, "nodes": [dict(row) for group in groups for row in group.rows]}


@dataclass(frozen=True)
class Sized:
    """What tasks returned for the leaders: `balloon`, and `balloon_info` after the pause."""

    request: Request
    leaders: Mapping[str, Result]
    done: Results
    after: Results

    def result(self, host: str, of: Results) -> Optional[Result]:
        """The result of the leader with which the node was sized; None if that leader was not begun."""
        name, machine = self.request.details["name_of"][host], self.request.details["machine_of"][host]
        for leader, row in self.leaders.items():
            if row["machine"] == machine and any(each["name"] == name for each in row["nodes"]):
                return of.get(leader)
        return None

    def row(self, host: str) -> Result:
        """The node's row in its leader's result; empty when there is none."""
        result = self.result(host, self.done) or {}
        name = self.request.details["name_of"][host]
        return next((row for row in result.get("nodes") or [] if row["name"] == name), {})

    def reason(self, host: str) -> str:
        """Why a node of a batch counts as failed; "" if it does not."""
        result = self.result(host, self.done)
        if result is None:
            return "the change was not started"
        row = self.row(host)
        if row.get("outcome", "done") != "done":
            return first_line(row.get("text") or row["outcome"])
        # Another node of the execution failed, while this one has a row.
        reason = no_answer(result)
        if reason and "outcome" not in row:
            return reason
        after = self.result(host, self.after)
        if after is None or after.get("skipped"):
            return ""
        reason = no_answer(after) or self._finding(host, after)
        return reason and f"after the change: {reason}"

    def _finding(self, host: str, after: Result) -> str:
        subjects = (self.request.details["name_of"][host], self.row(host).get("host"))
        return next((str(row["text"]) for row in after.get("findings") or [] if row["subject"] in subjects), "")


def outcome(
    request: Request, before: Result, sized: Sized, *, begun: frozenset[str], failed: frozenset[str], is_check: bool
) -> Report:
    """A line for each node, failed ones last. `before` has the facts of the preview; `begun` and `failed` are from the judged batches."""

    def row(host: str) -> tuple[str, str]:
        if host in before["silent"]:
            return NO_ANSWER, f": {before['silent'][host]}"
        if host not in before["changing"]:
            return UNCHANGED, ""
        if host not in begun:
            return NOT_BEGUN, ""
        balloon, spent = sized.row(host), times(sized.result(host, sized.done) or {})
        if host in failed:
            reason = sized.reason(host)
            word = str(balloon.get("outcome") or _FAILED)
            return (_ILL if word == "done" else word), f"{spent}: {reason}"
        if is_check:
            return CHECKED, ""
        return _SIZED, f"{_sizes_text(balloon)}{spent}"

    return report_nodes({host: row(host) for host in request.details["nodes"]}, (_SIZED, UNCHANGED, CHECKED))


def _sizes_text(row: Result) -> str:
    """Sizes of a balloon, before and after."""
    before, after = (row.get(name) for name in ("before", "after"))
    if not (before and after):
        return ""
    texts = [" ".join(str(size[key]) for key in ("cpu", "memory") if key in size) for size in (before, after)]
    return f"  balloon {texts[0]} -> {texts[1]}"
