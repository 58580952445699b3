# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parses what an `_info` module returned under `readiness` into a `Reading`. Pure and strict.

The modules run on other machines, maybe in another version: what is not exactly a reading of this feature is refused with every
fault, and counts as unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from .._core.engine.readiness import ENABLED, FAILURES, MEASURED, VERDICTS, Answer, Figure, Reading
from .._core.text.decode import choice
from .._core.text.exposition import Bucket
from .features import FailureMode, Feature
from .fields import Row, count, new_faults, number, parse_filled, text

_READING = ("feature", "answers", "present", "versions")
_ANSWER = ("verdict", "text", "how", "remedy", "figures", "lines", "failure_modes")
_FIGURE = ("name", "value", "unit", "how", "limit", "buckets")
_BUCKET = ("le", "count")


def parse_reading(value: object, feature: Feature) -> Reading:
    """Problems when `value` is not the form of `Reading.as_json` for this feature. Texts and remedies that a host leaves to its failure
    modes are filled in from the feature."""
    faults = new_faults()
    read = Row(value, faults, "readiness", _READING)
    name = read.read("feature", choice((feature.name,)), "")
    present = _failure_modes(read, "present", feature)
    answers = _answers(read, feature, present)
    versions = {key: faults.take(path, version, text, "") for path, key, version in read.entries("versions")}
    faults.raise_all()
    return Reading(name, answers, present, versions)


def _failure_modes(row: Row, key: str, feature: Feature) -> tuple[str, ...]:
    ids, known = row.texts(key), [mode.id for mode in feature.failures]
    for index, id in enumerate(ids):
        if id not in known:
            row.faults.wrong(f"{row.at(key)}[{index}]", id, f"a failure mode of {feature.name}: {', '.join(known)}")
    return tuple(dict.fromkeys(ids))


def _answers(read: Row, feature: Feature, present: tuple[str, ...]) -> Mapping[str, Answer]:
    answers = {}
    for path, name, row in read.entries("answers"):
        if name in MEASURED:
            answer = Row(row, read.faults, path, _ANSWER)
            ids = _failure_modes(answer, "failure_modes", feature)
            answers[name] = _answer(answer, feature.modes(present if name == FAILURES else ids))
        else:
            read.faults.wrong(path, name, f"one of {', '.join(MEASURED)}")
    if ENABLED not in answers:
        read.faults.add("readiness-key-missing", read.at("answers"), key=ENABLED)
    return {name: answers[name] for name in MEASURED if name in answers}


def _answer(row: Row, modes: Sequence[FailureMode]) -> Answer:
    """`modes` provide the text and the remedy that the host left empty."""
    return Answer(
        verdict=row.read("verdict", choice(VERDICTS), ""),
        text=row.read("text", text if modes else parse_filled, "") or " ".join(mode.text for mode in modes),
        how=row.read("how", parse_filled, ""),
        remedy=row.read("remedy", text, "") or " ".join(mode.mitigation for mode in modes),
        figures=tuple(_figure(Row(figure, row.faults, path, _FIGURE)) for path, figure in row.items("figures")),
        lines=row.texts("lines"),
    )


def _figure(row: Row) -> Figure:
    return Figure(
        name=row.read("name", parse_filled, ""),
        value=row.read("value", number, None),
        unit=row.read("unit", text, ""),
        how=row.read("how", parse_filled, ""),
        limit=row.read("limit", number, None),
        buckets=_buckets(row),
    )


def _buckets(row: Row) -> tuple[Bucket, ...]:
    """Buckets like Prometheus': bounds rise, counts do not fall, and the last bound, here null, is infinity."""
    rows = [Row(bucket, row.faults, path, _BUCKET) for path, bucket in row.items("buckets")]
    bounds = [bucket.read("le", number, None) for bucket in rows]
    counts = [bucket.read("count", count, 0) for bucket in rows]
    if not rows:
        return ()
    finite = [bound for bound in bounds if bound is not None]
    rising = all(bound < other for bound, other in zip(finite, finite[1:]))
    if bounds[-1] is not None or len(finite) != len(bounds) - 1 or not rising or counts != sorted(counts):
        row.wrong("buckets", bounds, "a histogram: rising bounds, null the last, and counts that do not fall")
    return tuple(Bucket(math.inf if le is None else le, bucket) for le, bucket in zip(bounds, counts))
