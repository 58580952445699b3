# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plot of the benchmark of service rules, as SVG: how long rules take to make, and what they cost a connection."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

from tests.bench.rules_nodes import LEGACY, NFT, NFTABLES

OURS, NOTHING = "ballast", "no rules"
WIDTH, HEIGHT = 900, 420
COLOURS = {OURS: "#0b6e99", NFTABLES: "#c1502e", LEGACY: "#7a6a2f", NFT: "#a08bb0", NOTHING: "#888888"}
TITLES = {OURS: "ours", **{kind: f"kube-proxy, {kind}" for kind in (NFTABLES, LEGACY, NFT)}, NOTHING: NOTHING}
LEFT, RIGHT, TOP, BOTTOM = 205, 460, 52, 370  # of the bars
PLOT_LEFT, PLOT_RIGHT = 560, 880  # of the lines

Found = Mapping[str, Any]


def plot(found: Found) -> str:
    background = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11" fill="#222222">'
    return "\n".join([head, background, *_bars(found), *_lines(found), *_legend(found), "</svg>", ""])


def _bars(found: Found) -> Iterator[str]:
    """Seconds, on a logarithmic scale: they span five powers of ten."""
    cold, main = found["cold"], f"{found['sizes']['main']:,}"
    bars: list[tuple[str, str, float]] = [
        (f"{main} x 4: module", OURS, statistics.median(row["process"] for row in cold["module"])),
        (f"{main} x 4: nft -f alone", OURS, statistics.median(row["seconds"] for row in cold["nft"])),
    ]
    for kind in (NFTABLES, LEGACY, NFT):
        if kind in cold:
            bars.append((f"{main} x 4: first sync", kind, statistics.median(row["sync"] for row in cold[kind])))
    for change, title in (
        ("service", "a Service more"),
        ("endpoint", "an endpoint moved"),
        ("rollout", "100 endpoints"),
    ):
        for key, kind in (("ours", OURS), ("kube_proxy", NFTABLES)):
            bars.append((title, kind, statistics.median(row[change][key] for row in found["changes"])))
    yield _text((LEFT + RIGHT) / 2, 24, "Seconds until the kernel has it, logarithmic", size=13, anchor="middle")
    low, high = 1e-3, 10 ** math.ceil(math.log10(max(value for _title, _kind, value in bars)))

    def across(value: float) -> float:
        return LEFT + (RIGHT - LEFT) * math.log10(max(value, low) / low) / math.log10(high / low)

    for power in range(-3, round(math.log10(high)) + 1):
        yield _rule(across(10.0**power), TOP - 8, across(10.0**power), BOTTOM)
        yield _text(across(10.0**power), BOTTOM + 14, f"{10.0**power:g}", anchor="middle")
    step = (BOTTOM - TOP) / len(bars)
    for number, (title, kind, value) in enumerate(bars):
        top = TOP + number * step
        width = max(1.0, across(value) - LEFT)
        yield f'<rect x="{LEFT}" y="{top:.1f}" width="{width:.1f}" height="{step * 0.7:.1f}" fill="{COLOURS[kind]}"/>'
        yield _text(LEFT - 6, top + step * 0.5, title, anchor="end")
        yield _text(LEFT + width + 4, top + step * 0.5, _told(value))


def _lines(found: Found) -> Iterator[str]:
    """Microseconds of a connection to the last Service: median as a line, p99 as a broken one."""
    series = _series(found["packets"])
    sizes = sorted({services for points in series.values() for services, _p50, _p99 in points if services})
    top_value = 1.15 * max(p99 for points in series.values() for _services, _p50, p99 in points)
    yield _text((PLOT_LEFT + PLOT_RIGHT) / 2, 24, "TCP connect to the last Service, µs", size=13, anchor="middle")
    spread = math.log10(sizes[-1] / sizes[0])

    def across(services: int) -> float:
        return PLOT_LEFT + (PLOT_RIGHT - PLOT_LEFT) * math.log10(services / sizes[0]) / spread

    def up(value: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * value / top_value

    step = 10 ** math.floor(math.log10(top_value / 3))
    step *= min(factor for factor in (1, 2, 5, 10) if top_value / (step * factor) <= 6)
    for number in range(int(top_value // step) + 1):
        yield _rule(PLOT_LEFT, up(number * step), PLOT_RIGHT, up(number * step))
        yield _text(PLOT_LEFT - 6, up(number * step) + 4, f"{number * step:g}", anchor="end")
    for services in sizes:
        yield _text(across(services), BOTTOM + 14, f"{services:,}", anchor="middle")
    yield _text((PLOT_LEFT + PLOT_RIGHT) / 2, BOTTOM + 30, "Services; line: median, broken: p99", anchor="middle")
    for rules, points in series.items():
        if rules == NOTHING:  # has no Services: the same everywhere
            points = [(services, points[0][1], points[0][2]) for services in (sizes[0], sizes[-1])]
        for column, dashes in ((1, ""), (2, ' stroke-dasharray="4 3"')):
            path = " ".join(f"{across(point[0]):.1f},{up(point[column]):.1f}" for point in points)
            yield f'<polyline points="{path}" fill="none" stroke="{COLOURS[rules]}" stroke-width="1.8"{dashes}/>'
            for point in points:
                yield f'<circle cx="{across(point[0]):.1f}" cy="{up(point[column]):.1f}" r="2.6" fill="{COLOURS[rules]}"/>'


def _series(roads: Sequence[Found]) -> dict[str, list[tuple[int, float, float]]]:
    """By rules: number of Services, p50 and p99 in microseconds."""
    found: dict[str, list[tuple[int, float, float]]] = {}
    for road in sorted(roads, key=lambda road: (road["rules"], road["services"])):
        cuts = statistics.quantiles(road["nanoseconds"]["last"], n=100)
        found.setdefault(road["rules"], []).append((road["services"], cuts[49] / 1000, cuts[98] / 1000))
    return found


def _legend(found: Found) -> Iterator[str]:
    kinds = [
        kind for kind in (OURS, NFTABLES, LEGACY, NFT, NOTHING) if kind in (OURS, NOTHING) or kind in found["cold"]
    ]
    at = 20.0
    for kind in kinds:
        yield f'<rect x="{at}" y="{HEIGHT - 16}" width="10" height="10" fill="{COLOURS[kind]}"/>'
        yield _text(at + 14, HEIGHT - 7, TITLES[kind])
        at += 40 + 6.2 * len(TITLES[kind])


def _told(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 11) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#dddddd"/>'
