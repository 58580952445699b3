# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What each host of a run returned: a reading of each requested feature, or the reason why there is none. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from .._core.engine.readiness import Reading
from .._core.text.decode import Faults, boolean
from .._core.text.errors import BallastError
from .features import Feature
from .fields import Row, clean, new_faults, parse_filled, text
from .reading import parse_reading

_FAILED = "failed"  # the only key of the value that replaces a reading when the info module failed
_HOST = ("name", "reached", "reason", "features")


@dataclass(frozen=True)
class NoReading:
    """The info module failed or returned something else, or did not run as the host was unreachable."""

    text: str


@dataclass(frozen=True)
class HostReport:
    """`reason` says why the host was not reached. `unknown` are features that this version lacks."""

    name: str
    reached: bool
    reason: str
    features: Mapping[str, Union[Reading, NoReading]] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()


def parse_hosts(
    rows: Sequence[Mapping[str, Any]], required: Sequence[str], features: Sequence[Feature]
) -> tuple[HostReport, ...]:
    """Reports by name. A required host that returned nothing counts as not reached. Problems when `rows` itself is wrong; what a host
    returned never raises, but becomes part of that host's report."""
    faults = new_faults()
    parsed = [_host(row, f"hosts[{number}]", features, faults) for number, row in enumerate(rows)]
    names = [host.name for host in parsed]
    for number, name in enumerate(names):
        if name in names[:number]:
            faults.add("readiness-host-twice", f"hosts[{number}]", name=name)
    faults.raise_all()
    absent = [HostReport(clean(name), reached=False, reason="it returned nothing") for name in dict.fromkeys(required)]
    by_name = {host.name: host for host in (*absent, *parsed)}
    return tuple(by_name[name] for name in sorted(by_name))


def _host(value: object, path: str, features: Sequence[Feature], faults: Faults) -> HostReport:
    row = Row(value, faults, path, _HOST)
    known = {feature.name: feature for feature in features}
    answers = {name: answer for _path, name, answer in row.entries("features")}
    return HostReport(
        name=row.read("name", parse_filled, ""),
        reached=row.read("reached", boolean, False),
        reason=row.read("reason", text, ""),
        features={name: _answer_of(answers[name], known[name]) for name in known if name in answers},
        unknown=tuple(name for name in answers if name not in known),
    )


def _answer_of(value: object, feature: Feature) -> Union[Reading, NoReading]:
    if isinstance(value, Mapping) and set(value) == {_FAILED}:
        return NoReading(clean(str(value[_FAILED])) or f"{feature.module} failed without a message")
    try:
        return parse_reading(value, feature)
    except BallastError as error:
        return NoReading(f"{feature.module} returned something other than a report:\n{error}")
