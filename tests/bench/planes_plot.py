# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plot of the benchmark of control planes, as SVG: time until ready, memory by process, requests per second."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.bench.drawing import INK, bar, picture, rule, text, ticks, title

WIDTH, HEIGHT = 960, 340
TOP, BOTTOM = 58, 262
SERIES = {"hyper-mini": 0, "generic": 1, "full": 2}
PROCESSES = {
    "hyper-mini": 0,
    "generic-apiserver": 1,
    "kube-apiserver": 2,
    "kube-controller-manager": 3,
    "kube-scheduler": 4,
    "etcd": 5,
}
KCP_MB = 512  # what kcp asks for its server (its documentation, "Installation")

Found = Mapping[str, Any]


def plot(found: Found) -> str:
    turns = found["turns"]
    lines = [*_ready(turns), *_memory(turns), *_rates(turns, found["clients"])]
    return picture(WIDTH, HEIGHT, lines, description="Start, memory and requests per second of control planes")


def _ready(turns: Found) -> Iterator[str]:
    values = {plane: statistics.median(turn["ready_fresh"] for turn in rows) for plane, rows in turns.items()}
    first = min(values, key=lambda plane: values[plane])
    yield from title(20, f"{first} is ready in {values[first]:.1f} s", "seconds until ready, of a new one")
    scale = _Scale(max(values.values()), left=45, right=225)
    yield from scale.lines()
    for number, (plane, value) in enumerate(values.items()):
        left = 57 + number * 57
        yield bar(left, scale.up(value), 38, BOTTOM - scale.up(value), SERIES[plane])
        yield text(left + 19, scale.up(value) - 4, f"{value:.1f}", anchor="middle")
        yield text(left + 19, BOTTOM + 14, plane, anchor="middle")


def _memory(turns: Found) -> Iterator[str]:
    parts = {plane: _middle([turn["idle_rss_bytes"] for turn in rows]) for plane, rows in turns.items()}
    totals = {plane: sum(row.values()) for plane, row in parts.items()}
    least, most = (pick(totals, key=lambda plane: totals[plane]) for pick in (min, max))
    yield from title(265, f"{least} takes {totals[least] / totals[most]:.0%} of {most}'s memory", "resident MB, idle")
    scale = _Scale(max([KCP_MB, *totals.values()]), left=305, right=485)
    yield from scale.lines()
    for number, (plane, row) in enumerate(parts.items()):
        left, under = 317 + number * 57, 0.0
        for process, value in sorted(row.items(), key=lambda part: PROCESSES[part[0]]):
            yield bar(left, scale.up(under + value), 38, scale.up(under) - scale.up(under + value), PROCESSES[process])
            under += value
        yield text(left + 19, scale.up(under) - 4, f"{under:.0f}", anchor="middle")
        yield text(left + 19, BOTTOM + 14, plane, anchor="middle")
    at = scale.up(KCP_MB)
    yield rule(305, at, 485, at, colour=INK, dashed=True)
    yield text(307, at - 4, f"kcp's documentation asks for {KCP_MB}")
    shown = [process for process in PROCESSES if any(process in row for row in parts.values())]
    for number, process in enumerate(shown):
        left, top = 285 + number % 2 * 130, HEIGHT - 52 + number // 2 * 17
        yield bar(left, top, 14, 12, PROCESSES[process])
        yield text(left + 19, top + 10, process)


def _rates(turns: Found, clients: int) -> Iterator[str]:
    groups = [(name, what) for name in ("configmaps", "widgets") for what in ("create", "get")]
    values = {
        (plane, *group): statistics.median(_per_second(turn[group[0]][group[1]]) for turn in rows)
        for plane, rows in turns.items()
        for group in groups
    }
    yield from title(
        560, _fastest(values, list(turns), groups), f"requests per second, {clients} clients; higher is better"
    )
    scale = _Scale(max(values.values()), left=600, right=945)
    yield from scale.lines()
    for number, group in enumerate(groups):
        for place, plane in enumerate(turns):
            left, value = 610 + number * 85 + place * 25, values[(plane, *group)]
            yield bar(left, scale.up(value), 21, BOTTOM - scale.up(value), SERIES[plane])
            yield text(left + 10.5, scale.up(value) - 4, f"{value:.0f}", anchor="middle", size=9)
        kind = {"configmaps": "ConfigMaps", "widgets": "custom resources"}[group[0]]
        yield text(610 + number * 85 + 36, BOTTOM + 14, group[1], anchor="middle")
        yield text(610 + number * 85 + 36, BOTTOM + 26, kind, anchor="middle", size=9)
    for place, plane in enumerate(turns):
        yield bar(610 + place * 105, HEIGHT - 35, 14, 12, SERIES[plane])
        yield text(629 + place * 105, HEIGHT - 25, plane)


def _fastest(
    values: Mapping[tuple[str, str, str], float], planes: Sequence[str], groups: Sequence[tuple[str, str]]
) -> str:
    best = {max(planes, key=lambda plane: values[(plane, *group)]) for group in groups}
    return f"{best.pop()} serves the most requests" if len(best) == 1 else "No profile serves the most of all requests"


class _Scale:
    """From 0 at the bottom, with lines at round numbers."""

    def __init__(self, top_value: float, *, left: float, right: float) -> None:
        self._top, self._left, self._right = 1.1 * top_value, left, right

    def up(self, value: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * value / self._top

    def lines(self) -> Iterator[str]:
        for value in ticks(self._top):
            yield rule(self._left, self.up(value), self._right, self.up(value))
            yield text(self._left - 6, self.up(value) + 4, f"{value:g}", anchor="end")


def _middle(rows: Sequence[Mapping[str, int]]) -> dict[str, float]:
    """Of each process in megabytes (10^6)."""
    return {name: statistics.median(row[name] for row in rows) / 1e6 for name in rows[0]}


def _per_second(phase: Found) -> float:
    return float(phase["requests"] / phase["seconds"])
