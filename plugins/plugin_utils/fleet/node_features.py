# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the playbooks of the pull proxy and of balloons say before and after they act. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from .node_list import count_nodes, grouped
from .placement import PRESENT
from .report import Report, Result, Results, confirmation, no_answer
from .request import Request

_NO_PROXY = "no pull proxy"


def image_pull_proxy(request: Request, proxies: Results, kubelets: Results) -> Report:
    """`proxies` are results of `image_pull_proxy_info` by machine, `kubelets` of `image_pulls` in check mode by node."""
    wanted = _limit(request.details["limit"]) if request.details["state"] == PRESENT else _NO_PROXY
    silent = [
        (host, no_answer(row)) for rows in (proxies, kubelets) for host, row in rows.items() if row and no_answer(row)
    ]
    lines = [
        *(f"machines: {line}" for line in grouped(_proxy_lines(proxies, wanted))),
        *(f"kubelets: {line}" for line in grouped(_kubelet_lines(kubelets))),
        *(f"no answer: {line}" for line in grouped(silent)),
    ]
    failure = (
        f"no node was changed: no answer from {count_nodes([host for host, _why in silent])}\n"
        "  do:    fix what is listed above, or leave these nodes out"
        if silent
        else ""
    )
    if not request.acts and not failure:
        lines += confirmation("image_pull_proxy")
    return Report(tuple(lines), failure=failure)


def _limit(most: int) -> str:
    return f"limit {most or 'none'}"


def _proxy_lines(proxies: Results, wanted: str) -> Iterator[tuple[str, str]]:
    for host, row in proxies.items():
        if row is not None and not no_answer(row):
            status = row.get("status")
            found = _limit(status["max_in_flight"]) if status else _NO_PROXY
            yield host, f"{found} stays" if found == wanted else f"{found} -> {wanted}"


def _kubelet_lines(kubelets: Results) -> Iterator[tuple[str, str]]:
    for host, row in kubelets.items():
        if row is not None and not no_answer(row):
            steps = _steps(row)
            yield host, f"{', '.join(steps)}, restart the kubelet" if steps else "no change"


def _steps(row: Result) -> list[str]:
    return [f"{step['verb']} {step['title']}" for step in row.get("steps") or []]


def balloons(request: Request, plans: Results) -> Report:
    """`plans` are results of `balloon` in check mode, by machine."""
    lines = [step for row in plans.values() if row for step in _steps(row)]
    if not lines:
        return Report(("nothing is to be changed",))
    return Report((*lines, *([] if request.acts else confirmation("balloons"))))


def balloon_sizes(request: Request, done: Results) -> Report:
    """`done` are results of `balloon`, by machine."""
    rows = [row for row in done.values() if row]
    lines = [line for row in rows for line in str(row.get("table") or "").splitlines() if line]
    failures = [str(row.get("msg") or "no answer") for row in rows if no_answer(row)]
    return Report(tuple(lines), failure="\n".join(failures))
