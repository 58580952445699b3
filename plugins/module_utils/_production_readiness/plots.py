# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Figures of a feature that are clearer as plots, as data: distributions, and how near hosts are to a limit. Pure.

A distribution is the sum of the hosts whose histograms have the same bounds; those with other bounds, from another version, get a
plot of their own. For a limit, each host has a bar; limits of a single host share one plot.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from .._core.engine.readiness import Figure
from .._core.text.exposition import Bucket
from .amounts import show_amount
from .judge import ON, Place

_MOST_BARS = 30  # in one plot of limits: the nearest to their limit
_ALONE = "Limits of one host alone"


@dataclass(frozen=True)
class Bar:
    """`label` is a range of values, a host or a figure; `unit` is empty for counts; `limit` is only set for limits."""

    label: str
    value: float
    unit: str = ""
    limit: Optional[float] = None


@dataclass(frozen=True)
class Plot:
    """`notes` are sentences below the plot; `how` is empty when the bars were obtained in several ways."""

    kind: str  # DISTRIBUTION or LIMITS
    title: str
    bars: tuple[Bar, ...]
    notes: tuple[str, ...]
    how: str


DISTRIBUTION, LIMITS = "distribution", "limits"

_Read = dict[str, Figure]  # by host


def find_plots(places: Sequence[Place]) -> tuple[Plot, ...]:
    """Distributions, then limits, each in the order in which the figures are read. A histogram without observations gives no plot."""
    read = _figures(places)
    plots = [plot for rows in read for plot in _distributions(rows)]
    limited = [{host: figure for host, figure in rows.items() if _has_limit(figure)} for rows in read]
    plots += [_limits(next(iter(rows.values())).name, rows) for rows in limited if len(rows) > 1]
    alone = [pair for rows in limited if len(rows) == 1 for pair in rows.items()]
    return (*plots, *([_limits_alone(alone)] if alone else []))


def _figures(places: Sequence[Place]) -> list[_Read]:
    """Figures grouped by name and unit. If two answers of a host have the same figure, the one with more data counts."""
    read: dict[tuple[str, str], _Read] = {}
    for place in places:
        for judged in place.answers.values() if place.state == ON else ():
            for figure in judged.answer.figures:
                rows = read.setdefault((figure.name, figure.unit), {})
                if place.host not in rows or figure.buckets or figure.limit is not None:
                    rows[place.host] = figure
    return list(read.values())


def _has_limit(figure: Figure) -> bool:
    """Whether the share of a limit can be drawn."""
    return figure.value is not None and figure.value >= 0 and figure.limit is not None and figure.limit > 0


def bucket_bound(buckets: Sequence[Bucket], share: float) -> Optional[float]:
    """The bound that `share` of the observations do not exceed; None without observations, or beyond the last finite bound."""
    rank = share * buckets[-1].count if buckets else 0
    bound = next((bucket.le for bucket in buckets if rank and bucket.count >= rank), math.inf)
    return None if math.isinf(bound) else bound


def _distributions(rows: _Read) -> list[Plot]:
    groups: dict[tuple[float, ...], list[tuple[str, Figure]]] = {}
    for host, figure in rows.items():
        if figure.buckets and figure.buckets[-1].count:
            groups.setdefault(tuple(bucket.le for bucket in figure.buckets), []).append((host, figure))
    return [_distribution(group, alone=len(groups) == 1) for group in groups.values()]


def _distribution(group: Sequence[tuple[str, Figure]], *, alone: bool) -> Plot:
    first = group[0][1]
    bounds = [bucket.le for bucket in first.buckets]
    counts = [sum(figure.buckets[number].count for _host, figure in group) for number in range(len(bounds))]
    summed = [Bucket(le, count) for le, count in zip(bounds, counts)]
    hosts = [host for host, _figure in group]
    whose = f"{len(hosts)} hosts" if len(hosts) > 1 else hosts[0]
    notes = [f"{counts[-1]} observations on {whose}."]
    for share, name in ((0.5, "Half"), (0.99, "99 in 100")):
        bound = bucket_bound(summed, share)
        beyond = f"more than {show_amount(bounds[-2], first.unit)}" if len(bounds) > 1 else "not known"
        notes.append(f"{name} of them: {beyond if bound is None else f'at most {show_amount(bound, first.unit)}'}.")
    title = first.name if alone else f"{first.name}: {', '.join(hosts)}"
    return Plot(DISTRIBUTION, title, _ranges(summed, first.unit), tuple(notes), first.how)


def _ranges(buckets: Sequence[Bucket], unit: str) -> tuple[Bar, ...]:
    """A bar for each range between two bounds, without the empty ones at both ends."""
    counts = [0, *(bucket.count for bucket in buckets)]
    bars = []
    for number, bucket in enumerate(buckets):
        under = f"> {show_amount(buckets[number - 1].le, unit)}" if number else "any"
        label = under if math.isinf(bucket.le) else f"≤ {show_amount(bucket.le, unit)}"
        bars.append(Bar(label, counts[number + 1] - counts[number]))
    filled = [number for number, row in enumerate(bars) if row.value]
    return tuple(bars[filled[0] : filled[-1] + 1])


def _limits(title: str, rows: _Read) -> Plot:
    bars = [_bar(host, figure) for host, figure in rows.items()]
    return _nearest(title, bars, next(iter(rows.values())).how)


def _limits_alone(rows: Sequence[tuple[str, Figure]]) -> Plot:
    several = len({host for host, _figure in rows}) > 1
    bars = [_bar(f"{host}: {figure.name}" if several else figure.name, figure) for host, figure in rows]
    return _nearest(_ALONE if several else f"Limits of {rows[0][0]}", bars, "")


def _bar(label: str, figure: Figure) -> Bar:
    return Bar(label, figure.value or 0, figure.unit, figure.limit)


def _nearest(title: str, bars: Sequence[Bar], how: str) -> Plot:
    nearest = sorted(bars, key=lambda bar: (-bar.value / (bar.limit or 1), bar.label))[:_MOST_BARS]
    left_out = len(bars) - len(nearest)
    notes = (f"{left_out} more are further from their limit.",) if left_out else ()
    return Plot(LIMITS, title, tuple(nearest), notes, how)
