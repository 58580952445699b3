# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plot of the benchmark of the service proxy, as SVG: how soon packets meet a change, and memory over a soak."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

from tests.bench.service_proxy_programs import OURS, PEER

WIDTH, HEIGHT = 900, 360
COLOURS = {OURS: "#0b6e99", PEER: "#c1502e"}
TITLES = {OURS: "ours", PEER: "kube-proxy, nftables"}
DASHES = {"calm": "", "busy": ' stroke-dasharray="4 3"'}
LOADS = {"calm": "1 change/s", "busy": "100 changes/s"}
TOP, BOTTOM = 48, 300
LEFT, RIGHT = 60, 560
SOAK_LEFT, SOAK_RIGHT = 640, 880
MIB = 2**20

Found = Mapping[str, Any]
Point = tuple[float, float]


def plot(found: Found) -> str:
    background = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11" fill="#222222">'
    soak = _soak(found["soak"]["samples"]) if "soak" in found else ()
    return "\n".join([head, background, *_latencies(found["main"]), *soak, *_legend(), "</svg>", ""])


def _latencies(main: Found) -> Iterator[str]:
    """For each load, the share of changes that packets had met after so many seconds, on a logarithmic scale."""
    series = {(who, load): sorted(main[who][load]["packet"]) for who in (OURS, PEER) for load in LOADS if who in main}
    series = {key: values for key, values in series.items() if values}
    every = [value for values in series.values() for value in values]
    low, high = math.floor(math.log10(min(every, default=1e-3))), math.ceil(math.log10(max(every, default=1.0)))
    high = max(high, low + 1)

    def across(value: float) -> float:
        return LEFT + (RIGHT - LEFT) * (math.log10(value) - low) / (high - low)

    yield _text(
        (LEFT + RIGHT) / 2, 24, "Changes that packets have met, by seconds since the request", size=13, anchor="middle"
    )
    for power in range(low, high + 1):
        yield _rule(across(10.0**power), TOP, across(10.0**power), BOTTOM)
        yield _text(across(10.0**power), BOTTOM + 14, f"{10.0**power:g} s", anchor="middle")
    for percent in (0, 25, 50, 75, 100):
        at = BOTTOM - (BOTTOM - TOP) * percent / 100
        yield _rule(LEFT, at, RIGHT, at)
        yield _text(LEFT - 6, at + 4, f"{percent} %", anchor="end")
    for (who, load), values in series.items():
        points = [
            (across(value), BOTTOM - (BOTTOM - TOP) * number / len(values)) for number, value in enumerate(values, 1)
        ]
        yield _line(points, COLOURS[who], DASHES[load])


def _soak(samples: Sequence[Found]) -> Iterator[str]:
    minutes = [sample["at"] / 60 for sample in samples]
    sizes = [sample["resident"] / MIB for sample in samples]
    longest, largest = max(minutes) or 1.0, 50 * math.ceil(1.1 * max(sizes) / 50)
    yield _text((SOAK_LEFT + SOAK_RIGHT) / 2, 24, "Memory in the soak, MiB", size=13, anchor="middle")
    for size in range(0, largest + 1, 50):
        at = BOTTOM - (BOTTOM - TOP) * size / largest
        yield _rule(SOAK_LEFT, at, SOAK_RIGHT, at)
        yield _text(SOAK_LEFT - 6, at + 4, str(size), anchor="end")
    yield _text(SOAK_RIGHT, BOTTOM + 14, f"{longest:.0f} minutes", anchor="end")
    points = [
        (SOAK_LEFT + (SOAK_RIGHT - SOAK_LEFT) * minute / longest, BOTTOM - (BOTTOM - TOP) * size / largest)
        for minute, size in zip(minutes, sizes)
    ]
    yield _line(points, COLOURS[OURS], "")


def _legend() -> Iterator[str]:
    at = 20.0
    for who, title in TITLES.items():
        for load, name in LOADS.items():
            yield _line([(at, HEIGHT - 16), (at + 18, HEIGHT - 16)], COLOURS[who], DASHES[load])
            text = f"{title}, {name}"
            yield _text(at + 24, HEIGHT - 12, text)
            at += 50 + 5.6 * len(text)


def _line(points: Sequence[Point], colour: str, dashes: str) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"{dashes}/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 11) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#dddddd"/>'
