# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parses the Prometheus text format: samples, histograms and their quantiles. Pure.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/. Exporters are untrusted: a malformed line or number is
skipped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?[ \t]+(\S+)(?:[ \t]+-?\d+)?[ \t]*", re.ASCII)
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"\s*(?:,|$)', re.ASCII)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True)
class Bucket:
    """One histogram bucket: how many observations were at most `le`, which is infinity for the last bucket."""

    le: float
    count: int


@dataclass(frozen=True)
class Sample:
    name: str
    labels: Mapping[str, str]
    value: float  # never NaN


def parse_exposition(text: str, names: Collection[str]) -> tuple[Sample, ...]:
    """The samples with these names. A histogram NAME consists of the samples NAME_bucket, NAME_sum and NAME_count."""
    selected = frozenset(names)
    samples = []
    for line in text.splitlines():
        # Fast path: an API server exposes far more metrics than are asked for. The name ends at "{" or a blank.
        if line.partition("{")[0].partition(" ")[0] not in selected:
            continue
        match = _SAMPLE.fullmatch(line)
        labels = None if match is None else _labels(match[2] or "")
        value = math.nan if match is None else _number(match[3])
        if match is not None and labels is not None and not math.isnan(value):
            samples.append(Sample(match[1], labels, value))
    return tuple(samples)


def total(samples: Sequence[Sample], name: str, **labels: str) -> Optional[float]:
    """The sum of the samples with this name and these labels; None if there are none or a value is infinite."""
    values = [sample.value for sample in samples if sample.name == name and _has(sample, labels)]
    return sum(values) if values and all(map(math.isfinite, values)) else None


def histogram(samples: Sequence[Sample], name: str, **labels: str) -> tuple[Bucket, ...]:
    """The sum of the histograms that have these labels, with bounds ascending and infinity last. Empty where there are none,
    or where the counts are not cumulative."""
    counts: dict[float, float] = {}
    for sample in samples:
        if sample.name == f"{name}_bucket" and _has(sample, labels):
            bound = _number(sample.labels.get("le", ""))
            if not math.isnan(bound) and math.isfinite(sample.value):
                counts[bound] = counts.get(bound, 0) + sample.value
    rising = sorted(counts.items())
    bounds, values = [bound for bound, _count in rising], [count for _bound, count in rising]
    whole = bounds[-1:] == [math.inf] and math.isfinite(min(bounds[:-1], default=0.0))
    return tuple(Bucket(bound, int(count)) for bound, count in rising) if whole and values == sorted(values) else ()


def quantile(buckets: Sequence[Bucket], part: float) -> Optional[float]:
    """Same as Prometheus' histogram_quantile: observations are assumed to be evenly spread within a bucket. None without
    observations; the highest finite bound where the quantile lies in the last bucket."""
    if not buckets or buckets[-1].count <= 0:
        return None
    rank = part * buckets[-1].count
    below, bound = 0, 0.0
    for bucket in buckets:
        if bucket.count >= rank and bucket.count > below:
            if math.isinf(bucket.le):
                break
            return bound + (bucket.le - bound) * max(0.0, rank - below) / (bucket.count - below)
        below, bound = bucket.count, bucket.le if math.isfinite(bucket.le) else bound
    return bound


def _has(sample: Sample, labels: Mapping[str, str]) -> bool:
    return all(sample.labels.get(name) == value for name, value in labels.items())


def _labels(text: str) -> Optional[dict[str, str]]:
    labels, at = {}, 0
    while at < len(text):
        match = _LABEL.match(text, at)
        if match is None:
            return None
        labels[match[1]] = _ESCAPED.sub(lambda escape: "\n" if escape[1] == "n" else escape[1], match[2])
        at = match.end()
    return labels


def _number(text: str) -> float:
    """NaN for text that is not a number."""
    try:
        return float(text)
    except ValueError:
        return math.nan
