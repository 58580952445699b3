# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a change of kube-proxy's mode would do to a fleet: lines for people, batches for the run, a plan for programs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Optional

from .node_list import count_nodes, group_lines, grouped
from .report import Report, Result, Results, confirmation, no_answer
from .request import Request, batch_sizes
from .run import batch_lines, silence_refusal

_FOUND = 3  # different `found` texts that the lines of a finding show
PLAN_VERSION = 1


def preview(request: Request, looks: Results, *, configured: Collection[str] = ()) -> Report:
    """`looks` are results of `kube_proxy_info`; `configured` are hosts whose configuration changes besides the mode. The facts are
    `changing`, `serial`, `from_modes`, `to_modes` and `plan`."""
    answers = {host: look for host, look in looks.items() if look is not None and not no_answer(look)}
    silent = {host: no_answer(look) for host, look in looks.items() if look is not None and no_answer(look)}
    changing = [
        host for host in request.in_order if host in answers and not _is_done(request, host, answers, configured)
    ]
    sizes = batch_sizes(request.serial, selected=len(request.hosts), changing=len(changing))
    findings = _findings(answers, changing)
    in_pods = [host for host in changing if answers[host].get("deployment") == "daemonset"]
    refusal = _refusal(request, findings, silent) or _missing_kubeconfig(request, in_pods)
    will_act = request.acts and not refusal
    lines = [
        *_change_lines(request, answers, changing),
        *(f"no response:  {line}" for line in grouped(silent.items())),
        *_left_out(request, looks),
        *(line for finding in findings for line in _finding_lines(finding)),
        *batch_lines(request, sizes),
    ]
    if changing and not refusal and not request.acts:
        lines += confirmation("kube_proxy")
    return Report(
        tuple(lines),
        failure=refusal,
        facts={
            "changing": changing if will_act else [],
            "serial": sizes if will_act else [],
            "silent": silent,
            "from_modes": sorted({str(answers[host]["mode"]) for host in changing if answers[host]["mode"]}),
            "to_modes": sorted({target_mode(request, answers[host]) for host in changing}),
            "plan": _plan(request, answers, changing, sizes, findings, silent),
        },
    )


_OF_A_FORMER_MODE = "preflight-ipvs-deprecated"


def target_mode(request: Request, look: Result) -> str:
    """The mode that the node should have: the requested one, or the previous one in its record."""
    return request.mode or str(look.get("previous_mode") or look["mode"] or "")


def way_back(
    changing: Sequence[str], looks: Results, *, daemonsets: Sequence[Result], from_modes: Sequence[str]
) -> Report:
    """How nodes are rolled back. `daemonsets` are results of `kube_proxy_daemonset`, one for each mode to return to, its `item`; those
    with a `canary` have their own DaemonSet for that mode. The facts are `nodes`, options of `kube_proxy_change` by host, and
    `daemonsets`, options of `kube_proxy_daemonset` for when all nodes are rolled back."""
    own = [str(row["item"]) for row in daemonsets if row.get("canary") or (row.get("changed") and "canary" not in row)]

    def options(host: str) -> dict[str, Any]:
        mode = str((looks[host] or {})["previous_mode"])
        if mode not in own:
            return {"state": "previous"}
        # The record is from a time when the original DaemonSet had that mode. The node returns to its former mode explicitly.
        return {"state": "present", "mode": mode, "acknowledge": [_OF_A_FORMER_MODE]}

    last = [{"mode": mode, "state": "final"} for mode in own]
    last += [{"mode": mode, "state": "absent"} for mode in from_modes if not own]
    return Report((), facts={"nodes": {host: options(host) for host in changing}, "daemonsets": last})


def _is_done(request: Request, host: str, answers: Mapping[str, Result], configured: Collection[str]) -> bool:
    look = answers[host]
    if look["mode"] != target_mode(request, look):
        return False
    # A rollback changes nothing if no change is recorded.
    return not request.mode or (
        bool(look["in_order"]) and not look["armed"] and not look["bridged"] and host not in configured
    )


def _change_lines(request: Request, answers: Mapping[str, Result], changing: Sequence[str]) -> list[str]:
    def line(host: str) -> str:
        look = answers[host]
        mode, target = look["mode"] or "not running", target_mode(request, look)
        if host not in changing:
            return (
                f"stays {mode}"
                if request.mode or look.get("previous_mode")
                else f"stays {mode}, its journal has no change"
            )
        return f"{mode} -> {target}" if mode != target else f"stays {target}, checked again"

    return grouped((host, line(host)) for host in answers)


def _left_out(request: Request, looks: Results) -> list[str]:
    left_out = [host for host in request.hosts if looks.get(host) is None]
    return [f"excluded by --limit: {count_nodes(left_out)}"] if left_out else []


def _findings(answers: Mapping[str, Result], changing: Sequence[str]) -> list[dict[str, Any]]:
    """One row for each check and text, with the nodes that have it; blockers first."""
    groups: dict[tuple[str, str, bool], dict[str, Any]] = {}
    for host in changing:
        for row in answers[host].get("preflight") or []:
            key = (str(row["id"]), str(row["text"]), bool(row["acknowledged"]))
            finding = groups.setdefault(
                key,
                {
                    **{name: row[name] for name in ("id", "severity", "acknowledged", "text", "remedy")},
                    "nodes": [],
                    "found": [],
                },
            )
            finding["nodes"].append(host)
            finding["found"].append((host, "; ".join(map(str, row["found"]))))
    return sorted(
        groups.values(), key=lambda row: (row["acknowledged"], row["severity"] != "hard", -len(row["nodes"]), row["id"])
    )


def _finding_lines(finding: Mapping[str, Any]) -> list[str]:
    severity = f"{finding['severity']}, acknowledged" if finding["acknowledged"] else finding["severity"]
    alike = sorted(group_lines(finding["found"]).items(), key=lambda group: -len(group[1]))
    lines = [f"{severity} {finding['id']}: {count_nodes(finding['nodes'])}", f"  {finding['text']}"]
    lines += [f"  found: {text} ({count_nodes(hosts)})" for text, hosts in alike[:_FOUND] if text]
    if len(alike) > _FOUND:
        lines.append(f"  found: {len(alike) - _FOUND} other answers on other nodes")
    return [*lines, f"  do:    {finding['remedy']}"]


def _refusal(request: Request, findings: Sequence[Mapping[str, Any]], silent: Mapping[str, str]) -> str:
    blocking = sorted({str(row["id"]) for row in findings if not row["acknowledged"]})
    if blocking:
        hosts = {host for row in findings if not row["acknowledged"] for host in row["nodes"]}
        return (
            f"no node was changed: preflight checks block the change on {len(hosts)} of {len(request.hosts)} nodes:"
            f" {', '.join(blocking)}\n"
            "  do:    fix what is listed above; accept a warning by its id:"
            """ -e '{"kube_proxy_acknowledge": ["ID"]}'"""
        )
    return silence_refusal(request, silent)


def _missing_kubeconfig(request: Request, in_pods: Sequence[str]) -> str:
    """The error for a missing kubeconfig; "" if none is missing. The check of the request comes too early: only nodes show who
    runs kube-proxy."""
    if request.admin_kubeconfig or not in_pods:
        return ""
    return (
        f"no node was changed: a DaemonSet runs kube-proxy on {count_nodes(in_pods)}, and kube_proxy_admin_kubeconfig is not set\n"
        "  do:    set it, so that a second DaemonSet can be created: -e kube_proxy_admin_kubeconfig=/etc/kubernetes/admin.conf"
    )


def _plan(
    request: Request,
    answers: Mapping[str, Result],
    changing: Sequence[str],
    sizes: Sequence[int],
    findings: Sequence[Mapping[str, Any]],
    silent: Mapping[str, str],
) -> dict[str, Any]:
    batches, start = [], 0
    for size in sizes:
        batches.append(list(changing[start : start + size]))
        start += size
    numbers = {host: number for number, batch in enumerate(batches, start=1) for host in batch}
    return {
        "version": PLAN_VERSION,
        "playbook": request.playbook,
        "nodes": [_planned_node(request, host, look, numbers.get(host)) for host, look in answers.items()],
        "batches": batches,
        "max_fail": request.max_fail,
        "findings": [
            {**{name: value for name, value in row.items() if name != "found"}, "found": dict(row["found"])}
            for row in findings
        ],
        "no_answer": dict(silent),
    }


def _planned_node(request: Request, host: str, look: Result, batch: Optional[int]) -> dict[str, Any]:
    return {
        "host": host,
        "node_name": look["node_name"],
        "version": look["version"],
        "from": look["mode"],
        "to": target_mode(request, look),
        "batch": batch,
    }
