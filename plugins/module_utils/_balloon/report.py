# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `balloon` and `balloon_info` return of nodes and hosts. Pure.

{"nodes": [{"name": "n1", "host": "...", "target": {"cpu": "1750m", "memory": "7168Mi"}, "desired": {...},
            "allocated": {...}, "actual": {...}, "free": {...}, "state": "settled", "outcome": "done", "text": "",
            "before": {...}, "after": {...}}],
 "hosts": [{"name": "...", "capacity": {...}, "reserve": {...}, "targets": {...}, "open": {...}, "holds": True}]}
"""

from __future__ import annotations

from collections.abc import Mapping

from .amount import Amount
from .facts import Fleet, Outcome


def report(fleet: Fleet, targets: Mapping[str, Amount], outcomes: Mapping[str, Outcome]) -> dict[str, object]:
    """`targets` of nodes that have one; `outcomes` of those that were to be moved. `fleet` has its reserves."""
    raise NotImplementedError
