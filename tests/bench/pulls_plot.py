# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plot of the benchmark of pulls, as SVG: pulls in flight at the runtimes over time, and when pods of one image run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 900, 380
COLOURS = {"unlimited": "#c1502e", "per kubelet": "#7a6a2f", "host": "#a08bb0", "host, join": "#0b6e99"}
TOP, BOTTOM = 48, 300
PANELS = ((60, 440), (520, 880))  # left and right of each

Found = Mapping[str, Any]
Point = tuple[float, float]


def plot(found: Found) -> str:
    """Of the first round."""
    background = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11" fill="#222222">'
    sizes = found["sizes"]
    flights = {row["arm"]: _in_flight(row["in_flight"]) for row in found["distinct"] if row["round"] == 0}
    pods = {row["arm"]: _running(row["running"]) for row in found["same"] if row["round"] == 0}
    titles = (
        f"Pulls in flight at the runtimes, {sizes['images']} images, limit {sizes['limit']}",
        f"Pods that run, {sizes['pods']} of one image",
    )
    panels = [
        line for place, title, series in zip(PANELS, titles, (flights, pods)) for line in _panel(place, title, series)
    ]
    return "\n".join([head, background, *panels, *_legend(flights), "</svg>", ""])


def _in_flight(spans: Sequence[Sequence[float]]) -> list[Point]:
    """Steps of how many of these (begin, end) hold at a time."""
    changes = sorted([(begun, 1) for begun, _ended in spans] + [(ended, -1) for _begun, ended in spans])
    counts = itertools.accumulate(change for _at, change in changes)
    return _steps([(at, float(count)) for (at, _change), count in zip(changes, counts)])


def _running(times: Sequence[float]) -> list[Point]:
    return _steps([(at, float(number)) for number, at in enumerate(sorted(times), start=1)])


def _steps(points: Sequence[Point]) -> list[Point]:
    found = [(0.0, 0.0)]
    for at, value in points:
        found += [(at, found[-1][1]), (at, value)]
    return found


def _panel(place: tuple[int, int], title: str, series: Mapping[str, Sequence[Point]]) -> Iterator[str]:
    left, right = place
    longest = max(points[-1][0] for points in series.values())
    highest = max(value for points in series.values() for _at, value in points)
    yield _text((left + right) / 2, 24, title, size=13, anchor="middle")

    def across(at: float) -> float:
        return left + (right - left) * at / longest

    def up(value: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * value / (highest * 1.08)

    for value in _ticks(highest):
        yield _rule(left, up(value), right, up(value))
        yield _text(left - 6, up(value) + 4, f"{value:g}", anchor="end")
    for at in _ticks(longest):
        yield _text(across(at), BOTTOM + 15, f"{at:g}", anchor="middle")
    yield _text((left + right) / 2, BOTTOM + 32, "seconds after the pods were asked for", anchor="middle")
    for arm, points in series.items():
        path = " ".join(f"{across(at):.1f},{up(value):.1f}" for at, value in points)
        yield f'<polyline points="{path}" fill="none" stroke="{COLOURS[arm]}" stroke-width="1.6"/>'


def _ticks(most: float) -> list[float]:
    step = 10 ** math.floor(math.log10(most / 3)) if most > 0 else 1.0
    step *= min(factor for factor in (1, 2, 5, 10) if most / (step * factor) <= 6)
    return [number * step for number in range(int(most // step) + 1)]


def _legend(series: Mapping[str, object]) -> Iterator[str]:
    at = 60.0
    for arm in (arm for arm in COLOURS if arm in series):
        yield f'<rect x="{at}" y="{HEIGHT - 20}" width="10" height="10" fill="{COLOURS[arm]}"/>'
        yield _text(at + 14, HEIGHT - 11, arm)
        at += 44 + 6.2 * len(arm)


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 11) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#dddddd"/>'
