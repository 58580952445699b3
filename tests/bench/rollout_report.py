# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the rehearsal of a rollout found, as the table of docs/fleet.md."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional

from tests.bench.page import write_between_marks, write_results
from tests.bench.rules_report import markdown

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/fleet.md"
TITLES = {"few": "few failures: to the end", "many": "every fifth fails: it stops"}
HEADS = (
    "",
    "forks",
    "nodes with a fault",
    "failed",
    "confirmed in the end",
    "in the former mode",
    "whole run",
    "for each node begun",
    "control node, cores",
    "control node, memory",
    "longest wait for a confirmation",
)


def write_report(found: Mapping[str, Any], results: Optional[Path]) -> None:
    """Prints the table; with `results`, also writes it and the raw figures."""
    text = page_text(found)
    print(text)
    if results is not None:
        write_results(results, found)
        write_between_marks(PAGE, "rollout", text, results)


def page_text(found: Mapping[str, Any]) -> str:
    """What goes between the marks of the page."""
    rows = [_row(run) for run in found["runs"]]
    return "\n".join([*markdown(HEADS, rows), "", _notes(found)])


def _row(run: Mapping[str, Any]) -> list[str]:
    begun = run["confirmed"] + run["failed"]
    return [
        TITLES[run["rehearsal"]],
        str(run["forks"]),
        f"{run['planted']} of {run['nodes']}",
        str(run["failed"]),
        str(run["confirmed"]),
        str(run["back"]),
        f"{run['seconds']:.0f} s",
        f"{run['seconds'] / begun:.1f} s" if begun else "",
        f"{run['cpu_seconds']:.0f} s",
        f"{run['memory_mib']:.0f} MiB",
        f"{run['longest_wait']:.1f} s",
    ]


def _notes(found: Mapping[str, Any]) -> str:
    machine = found["machine"]
    least, most = found["change_seconds"]
    return (
        f"Measured on {machine['cpus']} cores ({machine['cpu']}), {machine['memory_mib'] // 1024} GiB, Linux {machine['kernel']}, ansible-core "
        f"{found['ansible']}, with a load of {machine['load_before']:.0f} before the run. "
        f"A change takes a simulated node {least:.0f} to {most:.0f} seconds and a look {found['read_seconds']} seconds; "
        f"`kube_proxy_confirm_within` is {found['confirm_within']}, `kube_proxy_max_fail` is {found['max_fail']}, batches are 1, 5 and 10 % of the nodes. "
        "A wait for a confirmation is from the end of a node's change, by the node's clock, of nodes whose connection was not cut for longer."
    )
