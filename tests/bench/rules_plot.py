# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plot of the benchmark of service rules, as SVG: how long rules take to make, and what they cost a connection."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tests.bench.drawing import bar, line, picture, rule, text, ticks, title
from tests.bench.rules_nodes import LEGACY, NFT, NFTABLES

OURS, NOTHING = "ballast", "no rules"
WIDTH, HEIGHT = 960, 440
SERIES = {OURS: 0, NFTABLES: 1, LEGACY: 2, NFT: 3, NOTHING: 5}
NAMES = {OURS: "ours", **{kind: f"kube-proxy, {kind}" for kind in (NFTABLES, LEGACY, NFT)}, NOTHING: NOTHING}
PEERS = (NFTABLES, LEGACY, NFT)
CHANGES = {"service": "one Service added", "endpoint": "one endpoint moved", "rollout": "100 endpoints replaced"}
LEFT, RIGHT = 215, 425  # of the bars
COLD_TOP, CHANGES_TOP, STEP = 50, 228, 23
PLOT_LEFT, PLOT_RIGHT, TOP, BOTTOM = 560, 940, 50, 385  # of the lines
_LONGEST = 4  # a bar of more than so many times the next one is cut, and says so

Found = Mapping[str, Any]


class Bar(NamedTuple):
    name: str
    series: int
    seconds: float


def plot(found: Found) -> str:
    lines = [*_cold(found), *_changes(found), *_packets(found)]
    return picture(WIDTH, HEIGHT, lines, description="How long rules take to make, and what they cost a connection")


def _cold(found: Found) -> Iterator[str]:
    cold, count = found["cold"], f"{found['sizes']['main']:,}"
    module = statistics.median(row["process"] for row in cold["module"])
    peers = {peer: statistics.median(row["sync"] for row in cold[peer]) for peer in PEERS if peer in cold}
    bars = [
        Bar("ours, the module", SERIES[OURS], module),
        Bar("ours, nft -f alone", SERIES[OURS], statistics.median(row["seconds"] for row in cold["nft"])),
        *(Bar(NAMES[peer], SERIES[peer], seconds) for peer, seconds in peers.items()),
    ]
    span = " to ".join(dict.fromkeys((_shown(min(peers.values())), _shown(max(peers.values())))))
    yield from _bars(
        0,
        bars,
        f"{count} Services from none: ours {_shown(module)}, kube-proxy {span}",
        "seconds until the kernel has the rules",
    )


def _changes(found: Found) -> Iterator[str]:
    bars = [
        Bar(f"{name}: {who}", SERIES[series], statistics.median(row[change][key] for row in found["changes"]))
        for change, name in CHANGES.items()
        for key, series, who in (("ours", OURS, "ours"), ("kube_proxy", NFTABLES, "kube-proxy"))
    ]
    ours, theirs = [one.seconds for one in bars[::2]], [one.seconds for one in bars[1::2]]
    yield from _bars(
        CHANGES_TOP - COLD_TOP,
        bars,
        f"A change: nft alone {_shown(min(ours))} to {_shown(max(ours))}, kube-proxy at least {_shown(min(theirs))}",
        "seconds; not like for like: kube-proxy's include what it computes, ours do not",
    )


def _bars(down: float, bars: Sequence[Bar], finding: str, detail: str) -> Iterator[str]:
    yield f'<g transform="translate(0 {down:.0f})">'
    yield from title(20, finding, detail)
    ordered = sorted(one.seconds for one in bars)
    longest = ordered[-2] if len(ordered) > 1 and ordered[-1] > _LONGEST * ordered[-2] else ordered[-1]
    most, bottom = 1.15 * longest, COLD_TOP + STEP * len(bars)
    for value in ticks(most):
        at = LEFT + (RIGHT - LEFT) * value / most
        yield rule(at, COLD_TOP - 4, at, bottom)
        yield text(at, bottom + 12, f"{value:g}", anchor="middle", size=10)
    for number, one in enumerate(bars):
        top = COLD_TOP + number * STEP
        width = max(1.0, (RIGHT - LEFT) * min(one.seconds, most) / most)
        yield bar(LEFT, top, width, STEP * 0.7, one.series)
        if one.seconds > most:
            yield f'<path d="M{RIGHT - 30},{top - 3:.1f} l6,8 l-6,6 l6,9" fill="none" stroke="#ffffff" stroke-width="4"/>'
        yield text(LEFT - 6, top + STEP * 0.5, one.name, anchor="end")
        yield text(
            LEFT + width + 5, top + STEP * 0.5, _shown(one.seconds) + (", bar cut" if one.seconds > most else "")
        )
    yield "</g>"


def _packets(found: Found) -> Iterator[str]:
    """Of a connection to the last Service: medians as a line, and up to p99 as a thin line above each of them."""
    series = _series(found["packets"])
    most = max(services for points in series.values() for services, _p50, _p99 in points)
    highest = 1.1 * max(p99 for points in series.values() for _services, _p50, p99 in points)

    def across(services: float) -> float:
        return PLOT_LEFT + (PLOT_RIGHT - PLOT_LEFT) * services / most

    def up(value: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * value / highest

    yield from title(
        PLOT_LEFT - 30, _cost(series), "µs of a TCP connect to the last Service: median, thin line up to p99"
    )
    for value in ticks(highest):
        yield rule(PLOT_LEFT, up(value), PLOT_RIGHT, up(value))
        yield text(PLOT_LEFT - 6, up(value) + 4, f"{value:g}", anchor="end")
    for services in ticks(most):
        yield text(across(services), BOTTOM + 14, f"{services:,.0f}", anchor="middle")
    yield text((PLOT_LEFT + PLOT_RIGHT) / 2, BOTTOM + 30, "Services", anchor="middle")
    for number, (rules, points) in enumerate(series.items()):
        if rules == NOTHING:  # has no Services: the same everywhere
            points = [(0, points[0][1], points[0][2]), (most, points[0][1], points[0][2])]
        yield line([(across(services), up(p50)) for services, p50, _p99 in points], SERIES[rules])
        for services, p50, p99 in points:
            yield rule(across(services), up(p50), across(services), up(p99), colour="#222222")
        top = TOP + 14 + number * 18
        yield line([(PLOT_RIGHT - 290, top - 4), (PLOT_RIGHT - 250, top - 4)], SERIES[rules])
        at = "" if rules == NOTHING else f" at {points[-1][0]:,}"
        yield text(PLOT_RIGHT - 243, top, f"{NAMES[rules]}: {points[-1][1]:.0f} µs{at}")


def _cost(series: Mapping[str, Sequence[tuple[int, float, float]]]) -> str:
    """At the most Services at which all rules were measured."""
    by_size = {
        rules: {services: p50 for services, p50, _p99 in points} for rules, points in series.items() if rules != NOTHING
    }
    at = max(set.intersection(*(set(medians) for medians in by_size.values())))
    slowest = max(by_size, key=lambda rules: by_size[rules][at])
    return f"At {at:,} Services: {NAMES[OURS]} {by_size[OURS][at]:.0f} µs, {slowest} {by_size[slowest][at]:.0f} µs"


def _series(roads: Sequence[Found]) -> dict[str, list[tuple[int, float, float]]]:
    """By rules: number of Services, p50 and p99 in microseconds."""
    found: dict[str, list[tuple[int, float, float]]] = {}
    for road in sorted(roads, key=lambda road: (road["rules"], road["services"])):
        cuts = statistics.quantiles(road["nanoseconds"]["last"], n=100)
        found.setdefault(road["rules"], []).append((road["services"], cuts[49] / 1000, cuts[98] / 1000))
    return found


def _shown(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s" if seconds < 100 else f"{seconds:.0f} s"
