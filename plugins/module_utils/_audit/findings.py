# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A difference found by an audit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

from .messages import CLASSES

_LISTED = 5  # names listed in a finding; the rest is counted


@dataclass(frozen=True)
class AuditFinding:
    """One difference. `severity` is "error" if packets get another verdict than expected, else "warning"."""

    id: str
    severity: str
    family: int  # 4, 6, or 0 for both or none
    service: str  # "default/web:http", or ""
    expected: str
    found: str
    remedy: str


def finding(id: str, *, family: int = 0, service: str = "", **fields: object) -> AuditFinding:
    """The finding of the class `id`, with `fields` in its texts."""
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


def sort_findings(findings: Iterable[AuditFinding]) -> list[AuditFinding]:
    """Sorted by severity ("error" first), family, service and id."""
    return sorted(findings, key=attrgetter("severity", "family", "service", "id", "expected", "found"))


def list_some(names: Iterable[str]) -> str:
    """The first few names, and the number of the others."""
    listed = list(names)
    more = len(listed) - _LISTED
    return ", ".join(listed[:_LISTED]) + (f" and {more} more" if more > 0 else "")
