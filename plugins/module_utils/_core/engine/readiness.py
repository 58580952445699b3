# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The form in which every feature answers the production readiness questions.

Two halves. What is always true of a feature is prose, which stays on the Ansible control node: a YAML document for each feature
(`_production_readiness/features.py`). What only a look at the machine can tell is measured by the feature's `_info` module,
which returns a `Reading` under `readiness` on request. A reading names failure modes by id and leaves their prose to the report.
The questions themselves, in the order of the KEP template, are in `_production_readiness/` too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Optional

from ..text.exposition import Bucket

YES, NO, UNKNOWN = "yes", "no", "unknown"
VERDICTS = (YES, NO, UNKNOWN)

ENABLED = "enabled"  # is the feature enabled here?
IN_USE = "in_use"  # do workloads use it?
HEALTHY = "healthy"  # does it work, by its indicators as read now?
DEPENDENCIES = "dependencies"  # are its dependencies there?
DISABLING = "disabling"  # can it be disabled, and what would that do? `lines` is the plan
ROLLBACK = "rollback"  # can the previous state be restored?
SCALE = "scale"  # is this machine within the limits? `figures` have a `limit`
FAILURES = "failures"  # is it free of its known failure modes? `Reading.present` lists those that were found
MEASURED = (ENABLED, IN_USE, HEALTHY, DEPENDENCIES, DISABLING, ROLLBACK, SCALE, FAILURES)
# A feature may be disabled, or enabled and unused. If it is enabled, all other answers must be yes.
REQUIRED = (HEALTHY, DEPENDENCIES, DISABLING, ROLLBACK, SCALE, FAILURES)

ENABLE_DISABLE_ENABLE = "enable"  # a drill: enable, disable, enable
UP_DOWN_UP = "setting"  # a drill: change the setting, change it back, change it again


@dataclass(frozen=True)
class Figure:
    """One measured value. A distribution has `buckets`, and its `value` is the quantile that represents it."""

    name: str  # as the operator knows it: a metric, a field
    value: Optional[float]  # None where it could not be read
    unit: str  # "s", "B", "" of a count
    how: str  # how it was read, so that it can be read again: a URL and a metric, a command, a file and a key
    limit: Optional[float] = None  # the highest acceptable value
    buckets: tuple[Bucket, ...] = ()

    @property
    def is_above(self) -> bool:
        """Whether it exceeds its limit; false if it has none or could not be read."""
        return self.value is not None and self.limit is not None and self.value > self.limit


@dataclass(frozen=True)
class Answer:
    """`text` says in one sentence what was observed, `remedy` how to fix a verdict that is not yes.

    Where failure modes explain the verdict, the report fills an empty `text` or `remedy` from their prose: that of
    `failure_modes`, or for FAILURES that of the reading's `present`.
    """

    verdict: str
    text: str
    how: str
    remedy: str = ""
    figures: tuple[Figure, ...] = ()
    lines: tuple[str, ...] = ()  # the steps of a plan, or findings, one per line
    failure_modes: tuple[str, ...] = ()  # ids


@dataclass(frozen=True)
class Reading:
    """What one `_info` module measured on one machine."""

    feature: str  # its name
    answers: Mapping[str, Answer]  # keys are those of `MEASURED`; a feature that is disabled answers at least ENABLED
    present: tuple[str, ...] = ()  # ids of the failure modes that were found
    versions: Mapping[str, str] = field(default_factory=dict)  # of the components involved: {"kube-proxy": "v1.37.1"}

    def as_json(self) -> dict[str, Any]:
        """As the module returns it. JSON has no infinity, so the bound of the last bucket is null."""
        row = asdict(self)
        for answer in row["answers"].values():
            for figure in answer["figures"]:
                for bucket in figure["buckets"]:
                    bucket["le"] = None if math.isinf(bucket["le"]) else bucket["le"]
        return row


def off_reading(feature: str, text: str, how: str) -> Reading:
    """The reading of a machine on which the feature is disabled."""
    return Reading(feature, {ENABLED: Answer(NO, text, how)})
