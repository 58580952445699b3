# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the benchmark of balloons found, as the table of docs/benchmarks/balloons.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from tests.bench.page import write_between_marks, write_results
from tests.bench.rules_report import markdown, percentile

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/benchmarks/balloons.md"
# What was seen, in order: its title, and its name by the balloon and by a restart of the kubelet.
_ROWS = (
    ("the API server has answered", "answered", ""),
    ("the kubelet has allocated it", "allocated", ""),
    ("it is actual; the Node says so", "actual", "told"),
    ("a pending pod that needs the capacity is bound", "bound", "bound"),
)

Found = Mapping[str, Any]


def write_report(found: Found, results: Optional[Path]) -> None:
    """Prints the table; with `results`, also writes it and the raw figures."""
    text = page_text(found)
    print(text)
    if results is not None:
        write_results(results, found)
        write_between_marks(PAGE, "balloons", text, results)


def page_text(found: Found) -> str:
    """What goes between the marks of the page."""
    return "\n".join([*_table(found), "", _notes(found)])


def _table(found: Found) -> list[str]:
    heads = [
        "p50 / p95 after the request",
        "balloon shrinks",
        "kubelet restarted",
        "balloon grows",
        "kubelet restarted",
    ]
    rows = []
    for title, of_balloon, of_kubelet in _ROWS:
        cells = [
            _shown([one[way][name] for one in found[arm] if name in one[way]])
            for way in ("shrink", "grow")
            for arm, name in (("balloon", of_balloon), ("kubelet", of_kubelet))
        ]
        rows.append([title, *cells])
    return markdown(heads, rows)


def _shown(seconds: Sequence[float]) -> str:
    return " / ".join(_time(percentile(seconds, percent)) for percent in (50, 95)) if seconds else ""


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _notes(found: Found) -> str:
    machine, rounds, step = found["machine"], found["rounds"], found["step"]
    return (
        f"Measured on {machine['cpus']} cores ({machine['cpu']}), {machine['memory_mib'] // 1024} GiB, Linux {machine['kernel']}, "
        f"Kubernetes {found['kubernetes']}, one node of the lab. {rounds['balloon']} resizes of its balloon and {rounds['kubelet']} of "
        f"`systemReserved` with a restart of its kubelet, each by {step['cpu']} of CPU and {step['memory']} of memory. "
        "The columns name what shrinks or grows: the capacity that pods do not get. So a pending pod is bound when that shrinks."
    )
