# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the benchmark of a fleet found, as the tables of docs/fleet.md."""

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
# The plays in fleet/, with the heads of their columns.
HEADS = {
    "ours": "ours, one task",
    "apart": "ours, three tasks",
    "stock": "stock modules",
    "one_empty": "one empty task",
    "three_empty": "three empty tasks",
}
WHO = tuple(HEADS)
# What the project set out to reach: seconds for one host, seconds for each further one, and how many times faster than stock.
GOAL_ONE, GOAL_FURTHER, GOAL_TIMES = 1.5, 0.35, 3

Found = Mapping[str, Any]


def write_report(found: Found, results: Optional[Path]) -> None:
    """Prints the tables; with `results`, also writes them and the raw figures."""
    text = page_text(found)
    print(text)
    if results is not None:
        write_results(results, found)
        write_between_marks(PAGE, "fleet", text, results)


def page_text(found: Found) -> str:
    """What goes between the marks of the page."""
    busy = "Seconds that the cores worked meanwhile, of control node and hosts together:"
    return "\n".join([*_table(found), "", busy, "", *_busy_table(found), "", _notes(found)])


def _table(found: Found) -> list[str]:
    counts = _counts(found)
    rows = []
    for mode in _modes(found):
        for hosts in counts:
            seconds = [_values(found, who, mode, hosts, "seconds") for who in WHO]
            rows.append([TITLES[mode], str(hosts), *map(_cell, seconds), _times(*map(_middle, seconds))])
        if len(counts) > 1:
            each = [further(found, who, mode) for who in WHO]
            told_each = [f"{one:.2f} s" for one in each]
            rows.append([TITLES[mode], "each further, of the most measured", *told_each, _times(*each)])
    blank = [""] * (len(WHO) - 1)
    rows.append(["goal", "1", f"at most {GOAL_ONE} s", *blank, f"at least {GOAL_TIMES}"])
    rows.append(["goal", "each further", f"at most {GOAL_FURTHER} s", *blank, ""])
    return markdown(["", "hosts", *HEADS.values(), "stock / one task"], rows)


def _busy_table(found: Found) -> list[str]:
    rows = [
        [TITLES[mode], str(hosts), *(_cell(_values(found, who, mode, hosts, "busy")) for who in WHO)]
        for mode in _modes(found)
        for hosts in _counts(found)
    ]
    return markdown(["", "hosts", *HEADS.values()], rows)


def _cell(values: Sequence[float]) -> str:
    """Blank where a contender was not measured: stock, on many hosts."""
    return told(values) if values else ""


def _middle(values: Sequence[float]) -> float:
    return statistics.median(values) if values else 0.0


def _times(ours: float, _apart: float, stock: float, *_empty: float) -> str:
    return f"{stock / ours:.1f}" if stock else ""


def _modes(found: Found) -> list[str]:
    return list(dict.fromkeys(row["mode"] for row in found["runs"]))


def _counts(found: Found) -> list[int]:
    return sorted({row["hosts"] for row in found["runs"]})


def further(found: Found, who: str, mode: str) -> float:
    """Seconds for each host after the first, from the medians of one and of the most that it was measured with."""
    counts = [hosts for hosts in _counts(found) if _values(found, who, mode, hosts, "seconds")]
    first, most = (statistics.median(_values(found, who, mode, hosts, "seconds")) for hosts in (counts[0], counts[-1]))
    return (most - first) / (counts[-1] - counts[0])


def _values(found: Found, who: str, mode: str, hosts: int, key: str) -> Sequence[float]:
    return [row[key] for row in found["runs"] if (row["who"], row["mode"], row["hosts"]) == (who, mode, hosts)]


def _notes(found: Found) -> str:
    machine = found["machine"]
    repeats = ", ".join(f"{count} with {hosts}" for hosts, count in found["sizes"])
    return (
        f"Measured on {machine['cpus']} cores ({machine['cpu']}), {machine['memory_mib'] // 1024} GiB, Linux {machine['kernel']}, "
        f"ansible-core {found['ansible']}, Kubernetes {found['kubernetes']}; "
        f"control node and hosts share the cores, of which the hosts took {found['idle']:.2f} "
        f"while nobody asked. Median and range of runs ({repeats} hosts), all of them in turn, of the whole `ansible-playbook`, which "
        "makes its own ssh connections."
    )
