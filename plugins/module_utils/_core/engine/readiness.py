# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every feature answers about its production readiness, and the form of the answers.

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

ENABLED = "enabled"  # is the feature on here?
IN_USE = "in_use"  # do workloads use it?
HEALTHY = "healthy"  # does it work, by its indicators as read now?
DEPENDENCIES = "dependencies"  # is what it needs there?
DISABLING = "disabling"  # can it be switched off, and what would be done? `lines` is the plan
ROLLBACK = "rollback"  # is there a way back to what was before?
SCALE = "scale"  # does this machine stand within the limits? `figures` have a `limit`
FAILURES = "failures"  # is it free of its known failure modes? `present` of the report names those that were found
MEASURED = (ENABLED, IN_USE, HEALTHY, DEPENDENCIES, DISABLING, ROLLBACK, SCALE, FAILURES)
# A feature may be off, or on and not used; of a feature that is on, every other answer has to be yes.
REQUIRED = (HEALTHY, DEPENDENCIES, DISABLING, ROLLBACK, SCALE, FAILURES)

ENABLE_DISABLE_ENABLE = "enable"  # an exercise: enable, disable, enable
UP_DOWN_UP = "setting"  # an exercise: change the setting, change it back, change it again


@dataclass(frozen=True)
class Figure:
    """One thing that was read now. A distribution has `buckets`; its `value` is what stands for it (a quantile)."""

    name: str  # as the operator knows it: a metric, a field
    value: Optional[float]  # None where it could not be read
    unit: str  # "s", "B", "" of a count
    how: str  # how it was got, so that it can be got again: an URL and a metric, a command, a file and a key
    limit: Optional[float] = None  # must not be exceeded
    buckets: tuple[Bucket, ...] = ()

    @property
    def is_above(self) -> bool:
        """Its limit, where it has one and could be read."""
        return self.value is not None and self.limit is not None and self.value > self.limit


@dataclass(frozen=True)
class Answer:
    """`text` says in a sentence what was observed, `remedy` what to do about a verdict that is not yes.

    Where failure modes explain the verdict, the report takes an empty `text` or `remedy` from their prose: from that of
    `failure_modes`, or for FAILURES from that of the reading's `present`.
    """

    verdict: str
    text: str
    how: str
    remedy: str = ""
    figures: tuple[Figure, ...] = ()
    lines: tuple[str, ...] = ()  # the steps of a plan, or findings, one a line
    failure_modes: tuple[str, ...] = ()  # ids


@dataclass(frozen=True)
class Reading:
    """What one `_info` module measured on one machine."""

    feature: str  # its name
    answers: Mapping[str, Answer]  # by `MEASURED`; of a feature that is off, at least ENABLED
    present: tuple[str, ...] = ()  # ids of the failure modes that were found
    versions: Mapping[str, str] = field(default_factory=dict)  # of what takes part: {"kube-proxy": "v1.37.1"}

    def as_json(self) -> dict[str, Any]:
        """As the module returns it: JSON has no infinity, so that the last bucket's bound is null."""
        row = asdict(self)
        for answer in row["answers"].values():
            for figure in answer["figures"]:
                for bucket in figure["buckets"]:
                    bucket["le"] = None if math.isinf(bucket["le"]) else bucket["le"]
        return row


def off_reading(feature: str, text: str, how: str) -> Reading:
    """The reading of a machine on which the feature is not on."""
    return Reading(feature, {ENABLED: Answer(NO, text, how)})
