# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One difference that an audit found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .messages import CLASSES

_NAMED = 5  # a finding about many names that many, and says how many more there are


@dataclass(frozen=True)
class AuditFinding:
    """One difference. `severity` is "error" where packets fare otherwise than they should, else "warning"."""

    id: str
    severity: str
    family: int  # 4, 6, or 0 where it is of no one family
    service: str  # "default/web:http", or "" where it is of none
    expected: str
    found: str
    remedy: str


def finding(id: str, *, family: int = 0, service: str = "", **fields: object) -> AuditFinding:
    row = CLASSES[id]
    return AuditFinding(
        id=id,
        severity=row.severity,
        family=family,
        service=service,
        expected=row.expected.format(**fields),
        found=row.found.format(**fields),
        remedy=row.remedy.format(**fields),
    )


def in_order(findings: Iterable[AuditFinding]) -> list[AuditFinding]:
    """By severity, family, service and id; "error" is before "warning"."""
    return sorted(findings, key=lambda one: (one.severity, one.family, one.service, one.id, one.expected, one.found))


def some(names: Iterable[str]) -> str:
    """The first few, and how many there are besides."""
    listed = list(names)
    more = len(listed) - _NAMED
    return ", ".join(listed[:_NAMED]) + (f" and {more} more" if more > 0 else "")
