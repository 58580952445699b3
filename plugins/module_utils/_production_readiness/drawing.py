# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The layout of a plot, in the units of its SVG. Pure.

Each row uses the whole width, below a line with its label and value, so that it can be read on a phone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .amounts import show_amount
from .plots import LIMITS

WIDTH = 320
_LINE = 36  # height of a row
_TEXT_Y, _BAR_Y, _THICK = 13, 18, 10
_SIGNS = 46  # characters of a label and its value that fit side by side


def draw(plot: Mapping[str, Any]) -> dict[str, Any]:
    """The plot with its size and the position of each bar. In a plot of limits, the length of a bar is the share of its own limit, so
    that one `limit_x`, the position of the limit, is valid for all."""
    most = max([1.0, *(_length(plot, row) for row in plot["bars"])])
    bars = [_bar(plot, row, number * _LINE, most) for number, row in enumerate(plot["bars"])]
    limit = {"limit_x": round(WIDTH / most, 1)} if plot["kind"] == LIMITS else {}
    return {**plot, **limit, "bars": bars, "width": WIDTH, "height": len(bars) * _LINE}


def _length(plot: Mapping[str, Any], row: Mapping[str, Any]) -> float:
    return float(row["value"] / row["limit"] if plot["kind"] == LIMITS else row["value"])


def _bar(plot: Mapping[str, Any], row: Mapping[str, Any], top: int, most: float) -> dict[str, Any]:
    label, value = row["label"], show_amount(row["value"], row["unit"])
    above = plot["kind"] == LIMITS and row["value"] > row["limit"]
    if plot["kind"] == LIMITS:
        value = f"{value} of {show_amount(row['limit'], row['unit'])}{', above' if above else ''}"
    room = _SIGNS - len(value)
    return {
        "label": label,
        "label_shown": label if len(label) <= room else f"{label[: max(room - 1, 1)]}…",
        "value_shown": value,
        "above": above,
        "text_y": top + _TEXT_Y,
        "y": top + _BAR_Y,
        "width": round(WIDTH * _length(plot, row) / most, 1),
        "height": _THICK,
    }
