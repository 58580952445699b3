# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Timestamps of the Kubernetes API."""

from __future__ import annotations

import calendar
import time


def unix_seconds(text: object) -> float:
    """The Unix time of a timestamp such as 2026-11-21T12:04:15Z; 0 if it is not one."""
    try:
        return float(calendar.timegm(time.strptime(str(text), "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return 0.0
