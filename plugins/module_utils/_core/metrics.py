# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The text format in which programs tell Prometheus their metrics, and what a distribution in it says. Pure.

Source: prometheus/docs, "Exposition formats" and "Histograms and summaries". What a program tells is untrusted: a line
that is no sample is passed over, and a distribution that contradicts itself is none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Optional

from .readiness import Bucket, Figure

_LABELS = r'\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\}'
_SAMPLE = re.compile(rf"([a-zA-Z_:][a-zA-Z0-9_:]*)({_LABELS})?\s+(\S+)", re.ASCII)
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"', re.ASCII)

Samples = Mapping[str, Mapping[str, float]]  # by name, then by labels as written: {"{ip_family=\"IPv4\"}": 1.0}


def parse_samples(text: str, *, prefix: str = "") -> Samples:
    """Those whose names begin with `prefix`."""
    found: dict[str, dict[str, float]] = {}
    for line in text.splitlines():
        match = _SAMPLE.match(line) if line.startswith(prefix) else None
        if match:
            try:
                found.setdefault(match[1], {})[match[2] or ""] = float(match[3])
            except ValueError:
                continue
    return found


def labels_of(text: str) -> dict[str, str]:
    """Of the labels of a sample as written."""
    return dict(_LABEL.findall(text))


def total(samples: Samples, name: str, **labels: str) -> Optional[float]:
    """The sum over all samples of that name that have these labels; None where there is none, or one is no number."""
    values = [value for written, value in samples.get(name, {}).items() if labels.items() <= labels_of(written).items()]
    return sum(values) if values and all(map(math.isfinite, values)) else None


def distribution(samples: Samples, name: str, **labels: str) -> tuple[Bucket, ...]:
    """Of the histogram `name`, over all its samples that have these labels. Empty where there is none, or its counts are
    not those of a histogram: they grow with the bound, and the last bound is infinity."""
    counts: dict[float, float] = {}
    for written, count in samples.get(f"{name}_bucket", {}).items():
        found = labels_of(written)
        if labels.items() <= found.items():
            bound = _bound(found)
            counts[bound] = counts.get(bound, 0.0) + count
    bounds = sorted(bound for bound in counts if not math.isnan(bound))
    ordered = [counts[bound] for bound in bounds]
    if len(bounds) != len(counts) or not bounds or not math.isinf(bounds[-1]) or not _grows(ordered):
        return ()
    return tuple(Bucket(bound, int(count)) for bound, count in zip(bounds, ordered))


def quantile(buckets: tuple[Bucket, ...], share: float) -> Optional[float]:
    """As PromQL's histogram_quantile: within a bucket, values count as spread evenly; above the last bound, as that bound.
    None where nothing was observed."""
    count = buckets[-1].count if buckets else 0
    if not count:
        return None
    low, below = 0.0, 0
    for bucket in buckets:
        if bucket.count >= share * count:
            if math.isinf(bucket.le) or bucket.count == below:
                return low
            return low + (bucket.le - low) * (share * count - below) / (bucket.count - below)
        low, below = bucket.le, bucket.count
    return None


def spread(samples: Samples, name: str, *, unit: str, how: str, share: float = 0.99, **labels: str) -> Figure:
    """The histogram as a figure, whose value is that quantile."""
    buckets = distribution(samples, name, **labels)
    return Figure(f"{name}, {share:.0%} quantile", quantile(buckets, share), unit, how, buckets=buckets)


def _bound(labels: Mapping[str, str]) -> float:
    try:
        return float(labels.get("le", "nan"))
    except ValueError:
        return math.nan


def _grows(counts: list[float]) -> bool:
    pairs: Iterator[tuple[float, float]] = zip([0.0, *counts], counts)
    return all(math.isfinite(count) and before <= count for before, count in pairs)
