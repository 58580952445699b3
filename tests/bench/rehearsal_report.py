# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the rehearsal of a large fleet found, as the table of docs/fleet.md."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional

from tests.bench.page import write_between_marks, write_results
from tests.bench.rules_report import markdown

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "tests/bench/results/rehearsal.json"
PAGE = ROOT / "docs/fleet.md"
HEADS = ("", "hosts", "forks", "whole run", "for each host", "control node, cores", "control node, memory", "plan file")
_AT_ONCE = " Slices at once share these cores: forks, memory and plan file are those of one slice, seconds of the cores those of all."
GOALS = {5000: 1024, 625: 300}  # MiB, by hosts


def beside(found: Mapping[str, Any]) -> dict[str, Any]:
    """`found`, with the earlier runs that it has not measured itself: a large fleet takes an hour."""
    earlier = json.loads(RESULTS.read_text(encoding="utf-8"))["runs"] if RESULTS.exists() else []
    runs = {(run["what"], run["slices"], run["hosts"], run["forks"]): run for run in [*earlier, *found["runs"]]}
    return {**found, "runs": [runs[key] for key in sorted(runs)]}


def write_report(found: Mapping[str, Any], results: Optional[Path]) -> None:
    """Prints the table; with `results`, also writes it and the raw figures."""
    text = page_text(found)
    print(text)
    if results is not None:
        write_results(results, found)
        write_between_marks(PAGE, "rehearsal", text, results)


def page_text(found: Mapping[str, Any]) -> str:
    """What goes between the marks of the page."""
    rows = [*map(_row, found["runs"])]
    rows += [["goal", str(hosts), *[""] * 4, f"at most {most} MiB", ""] for hosts, most in GOALS.items()]
    return "\n".join([*markdown(HEADS, rows), "", _notes(found)])


def _row(run: Mapping[str, Any]) -> list[str]:
    return [
        run["what"] if run["slices"] == 1 else f"{run['what']}, {run['slices']} slices at once",
        str(run["hosts"]),
        str(run["forks"]),
        f"{run['seconds']:.0f} s",
        f"{run['seconds'] / run['hosts']:.3f} s",
        f"{run['cpu_seconds']:.0f} s",
        f"{run['memory_mib']:.0f} MiB",
        f"{run['plan_bytes'] / 1024:.0f} KiB",
    ]


def _notes(found: Mapping[str, Any]) -> str:
    machine = found["machine"]
    seconds = {
        hosts: run["seconds"]
        for run in found["runs"]
        for hosts in (625, 1250)
        if (run["what"], run["slices"], run["hosts"]) == ("no change", 1, hosts)
    }
    whole = "".join(
        f" A fleet of 5,000 in {5000 // hosts} slices takes {took:.0f} s where each worker has cores as a whole machine here, by arithmetic."
        for hosts, took in sorted(seconds.items())
    )
    is_at_once = any(run["slices"] > 1 for run in found["runs"])
    return (
        f"Measured on {machine['cpus']} cores ({machine['cpu']}), {machine['memory_mib'] // 1024} GiB, Linux {machine['kernel']}, ansible-core "
        f"{found['ansible']}, with a load of {machine['load_before']:.0f} before the run. A look takes a simulated node {found['read_seconds']} seconds. "
        f"625 hosts are one of eight slices, 1,250 one of four.{whole}{_AT_ONCE if is_at_once else ''}"
    )
