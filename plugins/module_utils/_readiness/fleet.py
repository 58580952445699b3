# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What came from each host of a run: a reading of each feature that was asked of it, or why there is none. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from .._core.errors import BallastError, Problems
from .._core.readiness import Feature, Reading
from .fields import Fields, clean
from .messages import MESSAGES
from .reading import parse_reading

_FAILED = "failed"  # the one key of what stands in the place of a reading where the info module failed
_HOST = ("name", "reached", "reason", "features")


@dataclass(frozen=True)
class NoReading:
    """The info module was run, and failed or returned something else; or it was not run, the host being away."""

    text: str


@dataclass(frozen=True)
class HostTold:
    """`reason` says why a host was not reached. `unknown` are features that this version does not have."""

    name: str
    reached: bool
    reason: str
    features: Mapping[str, Union[Reading, NoReading]] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()


def parse_hosts(
    rows: Sequence[Mapping[str, Any]], required: Sequence[str], features: Sequence[Feature]
) -> tuple[HostTold, ...]:
    """By name. A required host that nothing came from counts as not reached. Problems where `rows` itself is wrong;
    what a host returned is never raised, but is what is said of that host."""
    problems: list[BallastError] = []
    found = [_host(row, f"hosts[{number}]", features, problems) for number, row in enumerate(rows)]
    names = [host.name for host in found]
    problems += [
        MESSAGES.error("readiness-host-twice", path=f"hosts[{number}]", name=name)
        for number, name in enumerate(names)
        if name in names[:number]
    ]
    Problems.raise_if(problems)
    absent = [HostTold(clean(name), reached=False, reason="nothing came from it") for name in dict.fromkeys(required)]
    told = {host.name: host for host in (*absent, *found)}
    return tuple(told[name] for name in sorted(told))


def _host(value: object, path: str, features: Sequence[Feature], problems: list[BallastError]) -> HostTold:
    row = Fields(value, path, _HOST, problems)
    known = {feature.name: feature for feature in features}
    asked = {name: answer for _path, name, answer in row.entries("features")}
    return HostTold(
        name=row.named("name"),
        reached=row.flag("reached"),
        reason=row.text("reason"),
        features={name: _told(asked[name], known[name]) for name in known if name in asked},
        unknown=tuple(name for name in asked if name not in known),
    )


def _told(value: object, feature: Feature) -> Union[Reading, NoReading]:
    if isinstance(value, Mapping) and set(value) == {_FAILED}:
        return NoReading(clean(str(value[_FAILED])) or f"{feature.module} failed and said nothing")
    try:
        return parse_reading(value, feature)
    except BallastError as error:
        return NoReading(f"{feature.module} returned something else than a reading:\n{error}")
