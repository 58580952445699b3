# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Times as the API of Kubernetes writes them."""

from __future__ import annotations

import calendar
import time


def unix_seconds(text: object) -> float:
    """The Unix time of 2026-11-21T12:04:15Z; 0 where it is none."""
    try:
        return float(calendar.timegm(time.strptime(str(text), "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return 0.0
