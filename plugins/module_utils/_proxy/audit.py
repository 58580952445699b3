# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the rules of a node differ from what its Services mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._core.host import Host
from .backends import Backend
from .config import ParsedConfig
from .packet import Surroundings
from .parse import Snapshot


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


@dataclass(frozen=True)
class Audited:
    snapshot: Snapshot
    configs: Mapping[int, ParsedConfig]  # by family
    backend: Backend
    rules: Mapping[int, Any]  # by family, as the backend reads them
    surroundings: Surroundings
    owner: str  # "ballast" or "kube-proxy"


@dataclass(frozen=True)
class Facts:
    """What an audit looks at besides the rules. Empty where only a dump is there."""


def read_facts(host: Host, backend: str) -> Facts:
    return Facts()


def audit(audited: Audited, facts: Facts) -> list[AuditFinding]:
    """Sorted by severity, family, service, id; empty on a healthy node."""
    return []
