# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plot of the benchmark of the service proxy, as SVG: how soon packets meet a change, and memory over a soak."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.bench.drawing import line, picture, rule, text, ticks, title
from tests.bench.rules_report import percentile
from tests.bench.service_proxy_programs import OURS, PEER

WIDTH, HEIGHT = 960, 370
NAMES = {OURS: "ours", PEER: "kube-proxy, nftables"}
LOADS = {"calm": "1 change/s", "busy": "100 changes/s"}
SERIES = {(OURS, "calm"): 0, (OURS, "busy"): 3, (PEER, "calm"): 1, (PEER, "busy"): 2}
TOP, BOTTOM = 50, 300
LEFT, RIGHT = 60, 560
SOAK_LEFT, SOAK_RIGHT = 680, 945
MIB = 2**20

Found = Mapping[str, Any]


def plot(found: Found) -> str:
    soak = [*_soak(found["soak"]["samples"])] if "soak" in found else []
    lines = [*_latencies(found["main"], RIGHT if soak else SOAK_RIGHT), *soak, *_legend()]
    return picture(WIDTH, HEIGHT, lines, description="How soon packets meet a change")


def _latencies(main: Found, right: float) -> Iterator[str]:
    """For each load, the share of changes that packets had met after so many seconds, from LEFT to `right`.

    The scale is logarithmic: delays span powers of ten, and a share has no bar whose length could mislead.
    """
    series = {(who, load): sorted(main[who][load]["packet"]) for who, load in SERIES if who in main}
    series = {key: values for key, values in series.items() if values}
    every = [value for values in series.values() for value in values]
    low, high = math.floor(math.log10(min(every, default=1e-3))), math.ceil(math.log10(max(every, default=1.0)))
    high = max(high, low + 1)

    def across(value: float) -> float:
        return LEFT + (right - LEFT) * (math.log10(value) - low) / (high - low)

    yield from title(
        20,
        _soonest(series),
        "changes that packets have met, by seconds since the request, logarithmic; in the title, at 1 change/s",
    )
    for power in range(low, high + 1):
        yield rule(across(10.0**power), TOP, across(10.0**power), BOTTOM)
        yield text(across(10.0**power), BOTTOM + 14, f"{10.0**power:g} s", anchor="middle")
    for percent in (0, 25, 50, 75, 100):
        at = BOTTOM - (BOTTOM - TOP) * percent / 100
        yield rule(LEFT, at, right, at)
        yield text(LEFT - 6, at + 4, f"{percent} %", anchor="end")
    for key, values in series.items():
        points = [
            (across(value), BOTTOM - (BOTTOM - TOP) * number / len(values)) for number, value in enumerate(values, 1)
        ]
        yield line(points, SERIES[key])


def _soonest(series: Mapping[tuple[str, str], Sequence[float]]) -> str:
    parts = [
        f"{_shown(percentile(series[who, 'calm'], 50))} with {NAMES[who].partition(',')[0]}"
        for who in NAMES
        if (who, "calm") in series
    ]
    # Short: a title ends where that of the soak begins.
    return "Half of the changes are in force after " + ", ".join(parts) if parts else "No change was met"


def _shown(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _soak(samples: Sequence[Found]) -> Iterator[str]:
    minutes = [sample["at"] / 60 for sample in samples]
    sizes = [sample["resident"] / MIB for sample in samples]
    longest, largest = max(minutes) or 1.0, 1.1 * max(sizes)
    middle, end = sizes[len(sizes) // 2], sizes[-1]
    yield from title(
        SOAK_LEFT - 30, f"{end - middle:+.0f} MiB in the second half of the soak", "resident MiB, by minutes"
    )
    for size in ticks(largest):
        at = BOTTOM - (BOTTOM - TOP) * size / largest
        yield rule(SOAK_LEFT, at, SOAK_RIGHT, at)
        yield text(SOAK_LEFT - 6, at + 4, f"{size:g}", anchor="end")
    for minute in ticks(longest):
        yield text(SOAK_LEFT + (SOAK_RIGHT - SOAK_LEFT) * minute / longest, BOTTOM + 14, f"{minute:g}", anchor="middle")
    points = [
        (SOAK_LEFT + (SOAK_RIGHT - SOAK_LEFT) * minute / longest, BOTTOM - (BOTTOM - TOP) * size / largest)
        for minute, size in zip(minutes, sizes)
    ]
    yield line(points, 0)


def _legend() -> Iterator[str]:
    at = 60.0
    for (who, load), series in SERIES.items():
        yield line([(at, HEIGHT - 26), (at + 40, HEIGHT - 26)], series)
        words = f"{NAMES[who]}, {LOADS[load]}"
        yield text(at + 46, HEIGHT - 22, words)
        at += 84 + 5.6 * len(words)
