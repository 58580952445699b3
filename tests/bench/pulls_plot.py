# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plot of the benchmark of pulls, as SVG: pulls in flight at the runtimes over time, and when pods of one image run."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.bench.drawing import line, picture, rule, text, ticks, title

WIDTH, HEIGHT = 960, 400
SERIES = {"unlimited": 1, "per kubelet": 2, "host": 3, "host, join": 0}
TOP, BOTTOM = 50, 310
PANELS = ((45, 455), (535, 945))  # left and right of each

Found = Mapping[str, Any]
Point = tuple[float, float]


def plot(found: Found) -> str:
    """Of the first round."""
    sizes = found["sizes"]
    flights = {row["arm"]: _in_flight(row["in_flight"]) for row in found["distinct"] if row["round"] == 0}
    pods = {row["arm"]: _running(row["running"]) for row in found["same"] if row["round"] == 0}
    pulls = {row["arm"]: row["pulls"] for row in found["same"] if row["round"] == 0}
    most = {arm: _highest(points) for arm, points in flights.items()}
    lines = [
        *_panel(
            PANELS[0],
            f"{most['host']:.0f} pulls at once with a limit for the host, {most['unlimited']:.0f} without",
            f"pulls in flight at the runtimes, {sizes['images']} images, limit {sizes['limit']}, one round",
            flights,
        ),
        *_panel(
            PANELS[1],
            f"Joined, {sizes['pods']} pods of one image need {_counted(pulls['host, join'])}; unlimited, {pulls['unlimited']}",
            "pods that run, one round",
            pods,
        ),
        *_legend(flights),
    ]
    return picture(WIDTH, HEIGHT, lines, description="Pulls in flight, and pods of one image that run, over time")


def _counted(pulls: int) -> str:
    return "1 pull" if pulls == 1 else f"{pulls} pulls"


def _highest(points: Sequence[Point]) -> float:
    return max(value for _at, value in points)


def _in_flight(spans: Sequence[Sequence[float]]) -> list[Point]:
    """Steps of how many of these (begin, end) hold at once."""
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


def _panel(place: tuple[int, int], finding: str, detail: str, series: Mapping[str, Sequence[Point]]) -> Iterator[str]:
    left, right = place
    longest = max(points[-1][0] for points in series.values())
    highest = 1.08 * max(map(_highest, series.values()))
    yield from title(left - 25, finding, detail)

    def across(at: float) -> float:
        return left + (right - left) * at / longest

    def up(value: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * value / highest

    for value in ticks(highest):
        yield rule(left, up(value), right, up(value))
        yield text(left - 6, up(value) + 4, f"{value:g}", anchor="end")
    for at in ticks(longest):
        yield text(across(at), BOTTOM + 15, f"{at:g}", anchor="middle")
    yield text((left + right) / 2, BOTTOM + 32, "seconds after the pods were created", anchor="middle")
    for arm, points in series.items():
        yield line([(across(at), up(value)) for at, value in points], SERIES[arm])


def _legend(series: Mapping[str, object]) -> Iterator[str]:
    at = 45.0
    for arm in (arm for arm in SERIES if arm in series):
        yield line([(at, HEIGHT - 26), (at + 44, HEIGHT - 26)], SERIES[arm])
        yield text(at + 50, HEIGHT - 22, arm)
        at += 90 + 6.2 * len(arm)
