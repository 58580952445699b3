# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Formats amounts for people. Pure."""

from __future__ import annotations

import math
from typing import Optional


def show_amount(value: Optional[float], unit: str) -> str:
    """A value for people: bytes by powers of 1024, short times in ms, others with three significant digits."""
    if value is None:
        return "not read"
    if unit == "B":
        power = min(int(math.log(abs(value), 1024)), 4) if abs(value) >= 1024 else 0
        return f"{_digits(value / 1024**power)} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"
    if unit == "s" and 0 < abs(value) < 1:
        return f"{_digits(value * 1000)} ms"
    return f"{_digits(value)} {unit}".rstrip()


def _digits(value: float) -> str:
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
