# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the agent counts since it was started. Changed and read in its one loop."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Optional

# Results of a CONNECT request.
CONNECTED, REFUSED, FAILED, MALFORMED = "connected", "refused", "failed", "malformed"
RESULTS = (CONNECTED, REFUSED, FAILED, MALFORMED)
SENT, RECEIVED = "sent", "received"  # to extension API servers, and from them


@dataclass
class Counts:
    requests: Counter[str] = field(default_factory=Counter)  # by result
    open: Counter[str] = field(default_factory=Counter)  # connections now, by service
    bytes: Counter[str] = field(default_factory=Counter)  # by direction
    probes: Counter[bool] = field(default_factory=Counter)  # by whether the probe passed
    errors: Counter[str] = field(default_factory=Counter)  # failures of the agent's own work, by their id
    api_calls: int = 0
    last_success: Optional[float] = None  # Unix time
