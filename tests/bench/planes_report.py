# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the benchmark of control planes found, as the table of docs/benchmarks/control-plane.md."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from tests.bench.page import write_between_marks, write_results
from tests.bench.planes_plot import KCP_MB, plot
from tests.bench.rules_report import markdown, told

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/benchmarks/control-plane.md"
PLOT = ROOT / "docs/planes-bench.svg"
MIB = 2**20
MB = 10**6
TITLES = {"hyper-mini": "hyper-mini, one process", "generic": "generic, separate", "full": "full"}
# What the project set out to reach: seconds until ready, and megabytes (10^6) of resident memory.
GOALS = {"hyper-mini": (2, 180), "generic": (3, 330), "full": (4, 480)}
LOADS = {"configmaps": "ConfigMaps", "widgets": "custom resources"}

Found = Mapping[str, Any]


def write_report(found: Found, results: Optional[Path]) -> None:
    """Prints the table; with `results`, also writes it, the plot and the raw figures."""
    text = page_text(found)
    print(text)
    drawn = plot(found)
    if results is None:
        return
    write_results(results, found)
    PLOT.write_text(drawn, encoding="utf-8")
    write_between_marks(PAGE, "planes", text, results)


def page_text(found: Found) -> str:
    """What goes between the marks of the page."""
    return "\n".join([*_table(found), "", _notes(found)])


def _table(found: Found) -> list[str]:
    turns = found["turns"]
    heads = ["", *(TITLES[profile] for profile in turns)]
    rows = [
        ["ready, from the start of the first process", *(told([t["ready_fresh"] for t in turns[p]]) for p in turns)],
        ["goal", *(f"at most {GOALS[p][0]} s" for p in turns)],
        ["the same with its data there", *(told([t["ready_again"] for t in turns[p]]) for p in turns)],
        ["resident memory, idle", *(_memory([sum(t["idle_rss_bytes"].values()) for t in turns[p]]) for p in turns)],
        [f"goal; kcp asks for {KCP_MB} MB", *(f"at most {GOALS[p][1]} MB" for p in turns)],
        ["of it", *(_parts([t["idle_rss_bytes"] for t in turns[p]]) for p in turns)],
        ["after the load", *(_memory([sum(t["loaded_rss_bytes"].values()) for t in turns[p]]) for p in turns)],
    ]
    for name, title in LOADS.items():
        for what in ("create", "get"):
            rows.append([f"{what} {title}, requests per second", *(_rate(turns[p], name, what) for p in turns)])
            rows.append(["p50 / p99", *(_latency(turns[p], name, what) for p in turns)])
    return markdown(heads, rows)


def per_second(turn: Found, name: str, what: str) -> float:
    return float(turn[name][what]["requests"] / turn[name][what]["seconds"])


def _rate(turns: Sequence[Found], name: str, what: str) -> str:
    values = [per_second(turn, name, what) for turn in turns]
    shown = f"{statistics.median(values):,.0f}"
    return shown if len(values) == 1 else f"{shown} ({min(values):,.0f} to {max(values):,.0f})"


def _latency(turns: Sequence[Found], name: str, what: str) -> str:
    middle = [statistics.median(turn[name][what][key] for turn in turns) / 1000 for key in ("p50_us", "p99_us")]
    return " / ".join(f"{value:.1f} ms" for value in middle)


def _memory(values: Sequence[float]) -> str:
    shown = f"{statistics.median(values) / MB:.0f} MB"
    return shown if len(values) == 1 else f"{shown} ({min(values) / MB:.0f} to {max(values) / MB:.0f})"


def _parts(turns: Sequence[Mapping[str, int]]) -> str:
    if len(turns[0]) == 1:
        return "one process"
    return ", ".join(f"{name} {statistics.median(turn[name] for turn in turns) / MB:.0f}" for name in turns[0])


def _notes(found: Found) -> str:
    machine, sizes = found["machine"], found["sizes"]
    phases = [
        turn[name][what] for row in found["turns"].values() for turn in row for name in LOADS for what in turn[name]
    ]
    busiest = max(phase["client_cpu_seconds"] / phase["seconds"] for phase in phases)
    return (
        f"Measured on {machine['cpus']} cores ({machine['cpu']}), {machine['memory_mib'] // 1024} GiB, Linux {machine['kernel']}, "
        f"Kubernetes {found['kubernetes']}; median and range of {sizes['turns']} turns, the control planes in turn, each turn on a new one. "
        "Ready is the first success of `/readyz`, which waits for the bootstrap of RBAC. Memory is the sum of VmRSS, "
        f"{sizes['idle_seconds']} s after the start; MB are 10^6 bytes. {found['clients']} clients on the same machine, a connection each (HTTP/1.1 over TLS, "
        f"kept), created {sizes['creates']:,} objects of 100 bytes and got {sizes['gets']:,}; etcd waits for the disk. The clients are one "
        f"program in Go, which took at most {busiest:.2f} of a core: the servers had the rest."
    )
