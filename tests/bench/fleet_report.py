# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the benchmark of a fleet found, as the table of docs/fleet.md."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from tests.bench.page import write_between_marks, write_results
from tests.bench.rules_report import markdown, told

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/fleet.md"
TITLES = {"converge": "no change", "check": "`--check --diff`"}
WHO = ("ours", "stock", "bare")  # the plays in fleet/
# What the project set out to reach: seconds for one host, seconds for each further one, and how many times faster than stock.
GOAL_ONE, GOAL_FURTHER, GOAL_TIMES = 1.5, 0.35, 3

Found = Mapping[str, Any]


def write_report(found: Found, results: Optional[Path]) -> None:
    """Prints the table; with `results`, also writes it and the raw figures."""
    text = "\n".join([*_table(found), "", _notes(found)])
    print(text)
    if results is not None:
        write_results(results, found)
        write_between_marks(PAGE, "fleet", text)


def _table(found: Found) -> list[str]:
    heads = [
        "",
        "hosts",
        "ours",
        "stock modules",
        "stock / ours",
        "three empty tasks",
        "the cores' time",
        "stock",
        "empty",
    ]
    rows = []
    modes = dict.fromkeys(row["mode"] for row in found["runs"])
    counts = sorted({row["hosts"] for row in found["runs"]})
    for mode in modes:
        for hosts in counts:
            ours, stock, bare = (_values(found, who, mode, hosts, "seconds") for who in WHO)
            busy = (told(_values(found, who, mode, hosts, "busy")) for who in WHO)
            times = f"{statistics.median(stock) / statistics.median(ours):.1f}"
            rows.append([TITLES[mode], str(hosts), told(ours), told(stock), times, told(bare), *busy])
        if len(counts) > 1:
            one, other, empty = (further(found, who, mode) for who in WHO)
            each = [f"{one:.2f} s", f"{other:.2f} s", f"{other / one:.1f}", f"{empty:.2f} s"]
            rows.append([TITLES[mode], f"each further, of {counts[-1]}", *each, "", "", ""])
    blank = [""] * 4
    rows.append(["goal", "1", f"at most {GOAL_ONE} s", "", f"at least {GOAL_TIMES}", *blank])
    rows.append(["goal", "each further", f"at most {GOAL_FURTHER} s", "", "", *blank])
    return markdown(heads, rows)


def further(found: Found, who: str, mode: str) -> float:
    """Seconds for each host after the first, from the medians of one and of the most."""
    counts = sorted({row["hosts"] for row in found["runs"]})
    first, most = (statistics.median(_values(found, who, mode, hosts, "seconds")) for hosts in (counts[0], counts[-1]))
    return (most - first) / (counts[-1] - counts[0])


def _values(found: Found, who: str, mode: str, hosts: int, key: str) -> Sequence[float]:
    return [row[key] for row in found["runs"] if (row["who"], row["mode"], row["hosts"]) == (who, mode, hosts)]


def _notes(found: Found) -> str:
    machine = found["machine"]
    repeats = ", ".join(f"{count} with {hosts}" for hosts, count in found["sizes"])
    return (
        f"Measured on {machine['cpus']} cores ({machine['cpu']}), {machine['memory_mib'] // 1024} GiB, Linux {machine['kernel']}, "
        f"ansible-core {found['ansible']}, Kubernetes {found['kubernetes']}; controller and hosts share the cores, of which the hosts took {found['idle']:.2f} "
        f"while nobody asked. Median and range of runs ({repeats} hosts), the three in turn, of the whole `ansible-playbook`, which "
        "makes its own ssh connections."
    )
