# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plot of the benchmark of control planes, as SVG: time until ready, memory by process, requests per second."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 900, 330
TOP, BOTTOM = 48, 250
PLANES = {"hyper-mini": "#0b6e99", "generic": "#c1502e", "full": "#7a6a2f"}
PROCESSES = {
    "hyper-mini": "#0b6e99",
    "generic-apiserver": "#c1502e",
    "kube-apiserver": "#7a6a2f",
    "kube-controller-manager": "#a08bb0",
    "kube-scheduler": "#6f9c76",
    "etcd": "#888888",
}
KCP_MB = 512  # what kcp asks for its server (its documentation, "Installation")

Found = Mapping[str, Any]


def plot(found: Found) -> str:
    background = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11" fill="#222222">'
    turns = found["turns"]
    return "\n".join(
        [head, background, *_ready(turns), *_memory(turns), *_rates(turns, found["clients"]), "</svg>", ""]
    )


def _ready(turns: Found) -> Iterator[str]:
    yield _text(125, 22, "Seconds until ready", size=13, anchor="middle")
    values = {plane: statistics.median(turn["ready_fresh"] for turn in rows) for plane, rows in turns.items()}
    scale = _Scale(max(values.values()), left=40, right=210)
    yield from scale.lines()
    for number, (plane, value) in enumerate(values.items()):
        left = 52 + number * 54
        yield _bar(left, scale.up(value), 36, BOTTOM, PLANES[plane])
        yield _text(left + 18, scale.up(value) - 4, f"{value:.1f}", anchor="middle")
        yield _text(left + 18, BOTTOM + 14, plane, anchor="middle")


def _memory(turns: Found) -> Iterator[str]:
    yield _text(365, 22, "Resident memory idle, MB", size=13, anchor="middle")
    parts = {plane: _middle([turn["idle_rss_bytes"] for turn in rows]) for plane, rows in turns.items()}
    scale = _Scale(max([KCP_MB, *(sum(row.values()) for row in parts.values())]), left=285, right=455)
    yield from scale.lines()
    for number, (plane, row) in enumerate(parts.items()):
        left, under = 297 + number * 54, 0.0
        for process, value in sorted(row.items(), key=lambda part: list(PROCESSES).index(part[0])):
            yield _bar(left, scale.up(under + value), 36, scale.up(under), PROCESSES[process])
            under += value
        yield _text(left + 18, scale.up(under) - 4, f"{under:.0f}", anchor="middle")
        yield _text(left + 18, BOTTOM + 14, plane, anchor="middle")
    at = scale.up(KCP_MB)
    yield f'<line x1="285" y1="{at:.1f}" x2="455" y2="{at:.1f}" stroke="#222222" stroke-dasharray="4 3"/>'
    yield _text(287, at - 4, f"kcp asks for {KCP_MB}")
    there = [process for process in PROCESSES if any(process in row for row in parts.values())]
    for number, process in enumerate(there):
        left, top = 285 + number % 2 * 120, HEIGHT - 44 + number // 2 * 16
        yield _bar(left, top, 10, top + 10, PROCESSES[process])
        yield _text(left + 14, top + 9, process)


def _rates(turns: Found, clients: int) -> Iterator[str]:
    yield _text(700, 22, f"Requests per second, {clients} clients", size=13, anchor="middle")
    groups = [(name, what) for name in ("configmaps", "widgets") for what in ("create", "get")]
    values = {
        (plane, *group): statistics.median(_per_second(turn[group[0]][group[1]]) for turn in rows)
        for plane, rows in turns.items()
        for group in groups
    }
    scale = _Scale(max(values.values()), left=535, right=880)
    yield from scale.lines()
    for number, group in enumerate(groups):
        for place, plane in enumerate(turns):
            left, value = 547 + number * 85 + place * 24, values[(plane, *group)]
            yield _bar(left, scale.up(value), 20, BOTTOM, PLANES[plane])
            yield _text(left + 10, scale.up(value) - 4, f"{value:.0f}", anchor="middle", size=9)
        title = {"configmaps": "ConfigMaps", "widgets": "CRs"}[group[0]]
        yield _text(547 + number * 85 + 34, BOTTOM + 14, group[1], anchor="middle")
        yield _text(547 + number * 85 + 34, BOTTOM + 27, title, anchor="middle")
    for place, plane in enumerate(turns):
        yield _bar(547 + place * 100, HEIGHT - 44, 10, HEIGHT - 34, PLANES[plane])
        yield _text(561 + place * 100, HEIGHT - 35, plane)


class _Scale:
    """From 0 at the bottom, with lines at round numbers."""

    def __init__(self, top_value: float, *, left: float, right: float) -> None:
        self._top, self._left, self._right = 1.1 * top_value, left, right

    def up(self, value: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * value / self._top

    def lines(self) -> Iterator[str]:
        step = 10 ** math.floor(math.log10(self._top / 3))
        step *= min(factor for factor in (1, 2, 5, 10) if self._top / (step * factor) <= 6)
        for number in range(int(self._top // step) + 1):
            at = self.up(number * step)
            yield f'<line x1="{self._left}" y1="{at:.1f}" x2="{self._right}" y2="{at:.1f}" stroke="#dddddd"/>'
            yield _text(self._left - 6, at + 4, f"{number * step:g}", anchor="end")


def _middle(rows: Sequence[Mapping[str, int]]) -> dict[str, float]:
    """Of each process in megabytes (10^6)."""
    return {name: statistics.median(row[name] for row in rows) / 1e6 for name in rows[0]}


def _per_second(phase: Found) -> float:
    return float(phase["requests"] / phase["seconds"])


def _bar(left: float, top: float, width: float, bottom: float, colour: str) -> str:
    return f'<rect x="{left:.1f}" y="{top:.1f}" width="{width}" height="{bottom - top:.1f}" fill="{colour}"/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 11) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'
