# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From what an `_info` module returned under `readiness` to a `Reading`. Pure and strict.

The modules run on other machines, maybe of another version: what is not exactly a reading of this feature is refused with
every fault, and counts as unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from .._core.errors import Problems
from .._core.readiness import ENABLED, MEASURED, VERDICTS, Answer, Bucket, Feature, Figure, Reading
from . import fields
from .fields import Fields

_READING = ("feature", "answers", "present", "versions")
_ANSWER = ("verdict", "text", "how", "remedy", "figures", "lines")
_FIGURE = ("name", "value", "unit", "how", "limit", "buckets")
_BUCKET = ("le", "count")


def parse_reading(value: object, feature: Feature) -> Reading:
    """Problems where `value` is not what `Reading.as_json` of this feature gives."""
    problems: fields.Problems = []
    read = Fields(value, "readiness", _READING, problems)
    name = read.choice("feature", (feature.name,))
    answers = _answers(read)
    present = read.texts("present")
    known = [mode.id for mode in feature.failures]
    for number, id in enumerate(present):
        if id not in known:
            read.wrong(f"{read.at('present')}[{number}]", id, f"a failure mode of {feature.name}: {', '.join(known)}")
    versions = {key: read.text_at(path, version) for path, key, version in read.entries("versions")}
    Problems.raise_if(problems)
    return Reading(name, answers, tuple(dict.fromkeys(present)), versions)


def _answers(read: Fields) -> Mapping[str, Answer]:
    found = {}
    for path, name, row in read.entries("answers"):
        if name in MEASURED:
            found[name] = _answer(Fields(row, path, _ANSWER, read.problems))
        else:
            read.wrong(path, name, f"one of {', '.join(MEASURED)}")
    if ENABLED not in found:
        read.missing(read.at("answers"), ENABLED)
    return {name: found[name] for name in MEASURED if name in found}


def _answer(row: Fields) -> Answer:
    return Answer(
        verdict=row.choice("verdict", VERDICTS),
        text=row.named("text"),
        how=row.named("how"),
        remedy=row.text("remedy"),
        figures=tuple(_figure(Fields(figure, path, _FIGURE, row.problems)) for path, figure in row.rows("figures")),
        lines=row.texts("lines"),
    )


def _figure(row: Fields) -> Figure:
    return Figure(
        name=row.named("name"),
        value=row.number("value"),
        unit=row.text("unit"),
        how=row.named("how"),
        limit=row.number("limit"),
        buckets=_buckets(row),
    )


def _buckets(row: Fields) -> tuple[Bucket, ...]:
    """As Prometheus has them: bounds rise, counts do not fall, and the last bound, here null, is infinity."""
    rows = [Fields(bucket, path, _BUCKET, row.problems) for path, bucket in row.rows("buckets")]
    bounds = [bucket.number("le") for bucket in rows]
    counts = [bucket.count("count") for bucket in rows]
    if not rows:
        return ()
    finite = [bound for bound in bounds if bound is not None]
    rising = all(one < other for one, other in zip(finite, finite[1:]))
    if bounds[-1] is not None or len(finite) != len(bounds) - 1 or not rising or counts != sorted(counts):
        row.wrong(row.at("buckets"), bounds, "a histogram: rising bounds, null the last, and counts that do not fall")
    return tuple(Bucket(math.inf if le is None else le, count) for le, count in zip(bounds, counts))
