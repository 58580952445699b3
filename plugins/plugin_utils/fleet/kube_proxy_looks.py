# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The results of reading the kube-proxy of many nodes: problems, and stale rules of other modes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from .node_list import count_nodes, grouped
from .report import Report, Result, Results, confirmation, no_answer
from .request import Request

_COUNT = re.compile(r" \([0-9]+\)$")  # number of chains per Service, which differs between nodes


def audit(looks: Results) -> Report:
    """`looks` are results of `kube_proxy_info` with `audit`."""
    answers = {host: look for host, look in looks.items() if look is not None}
    faults = {host: list(_faults(look)) for host, look in answers.items()}
    healthy = [host for host, found in faults.items() if not found]
    lines = [
        *grouped((host, f"{answers[host]['mode']}, healthy") for host in healthy),
        *grouped((host, fault) for host, found in faults.items() for fault in found),
    ]
    ill = [host for host, found in faults.items() if found]
    failure = (
        f"kube-proxy is not healthy on {count_nodes(ill)}\n"
        "  do:    fix what is listed above; ballast.kube.kube_proxy_cleanup removes stale rules"
        if ill
        else ""
    )
    return Report(tuple(lines), failure=failure)


def _faults(look: Result) -> Iterator[str]:
    reason = no_answer(look)
    if reason:
        yield f"no response:  {reason}"
        return
    if not look["in_order"]:
        yield f"{look['mode'] or 'not running'}: {look['reason']}"
    yield from look["differences"]
    if look["bridged"]:
        yield "a takeover table is in place"
    if look["armed"]:
        yield "a change waits for its confirmation"
    yield from (f"stale: {_title(row)}" for row in look["residue"] if row["fate"] == "removed")


def cleanup(request: Request, found: Results) -> Report:
    """`found` are results of `kube_proxy_cleanup` in check mode. The fact `changing` names the hosts to clean."""
    silent = {host: no_answer(result) for host, result in found.items() if result is not None and no_answer(result)}
    answers = {host: result for host, result in found.items() if result is not None and host not in silent}
    dirty = [host for host, result in answers.items() if result.get("changed")]
    rows = [(host, row) for host, result in answers.items() for row in result["artefacts"]]
    lines = [
        *grouped((host, f"mode in use: {result['mode']}") for host, result in answers.items()),
        *grouped((host, f"no response:  {reason}") for host, reason in silent.items()),
        *grouped((host, f"goes:  {_title(row)} ({row['why']})") for host, row in rows if row["fate"] == "removed"),
        *grouped((host, f"stays: {_title(row)} ({row['why']})") for host, row in rows if row["fate"] != "removed"),
    ]
    lines += _connection_lines(answers)
    clean = [host for host in answers if host not in dirty]
    if clean:
        lines.append(f"no stale rules: {count_nodes(clean)}")
    if dirty and not request.acts:
        lines += confirmation("kube_proxy")
    failure = (
        f"no response from {count_nodes(list(silent))}\n  do:    reach them, then run the same command again"
        if silent
        else ""
    )
    return Report(tuple(lines), failure=failure, facts={"changing": dirty if request.acts else []})


def _connection_lines(answers: Mapping[str, Result]) -> Iterator[str]:
    """Open connections through ipvs, summed over all nodes."""
    for fate, word in (("cut", "would be cut"), ("kept", "go on")):
        counts = {host: int((result.get("connections") or {}).get(fate) or 0) for host, result in answers.items()}
        hosts = [host for host, count in counts.items() if count]
        if hosts:
            yield f"open connections through ipvs that {word}: {sum(counts.values())} on {count_nodes(hosts)}"


def _title(row: Mapping[str, str]) -> str:
    return f"{row['kind']} {_COUNT.sub('', row['target'])}"
