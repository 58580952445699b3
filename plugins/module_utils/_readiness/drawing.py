# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The measures of a plot, in the units of its SVG: bars lie across, one a line, so that they are read on a phone. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .plots import LIMITS, shown

WIDTH = 320
_LABEL, _RIGHT = 104, 64  # room left of the bars for their labels, and right of them for their values
_LINE, _THICK = 22, 12
_LABEL_SIGNS = 15  # that fit into the room for a label
_BARS = WIDTH - _LABEL - _RIGHT


def draw(plot: Mapping[str, Any]) -> dict[str, Any]:
    """The plot with `width`, `height`, and for each bar its place; of a plot of limits, a bar's `limit_x` is where the
    limit is, at the same place for all of them, for a bar is as long as its share of its own limit."""
    most = _longest(plot)
    bars = []
    for number, bar in enumerate(plot["bars"]):
        share = bar["value"] / (bar["limit"] or 1) if plot["kind"] == LIMITS else bar["value"]
        value = shown(bar["value"], plot["unit"])
        label = str(bar["label"])
        bars.append(
            {
                "label": label,
                "label_short": label if len(label) <= _LABEL_SIGNS else f"{label[: _LABEL_SIGNS - 1]}…",
                "x": _LABEL,
                "y": number * _LINE + (_LINE - _THICK) // 2,
                "width": round(_BARS * min(share / most, 1), 1),
                "height": _THICK,
                "text_y": number * _LINE + _LINE // 2,
                "text": value if bar["limit"] is None else f"{value} of {shown(bar['limit'], plot['unit'])}",
                "above": bar["limit"] is not None and bar["value"] > bar["limit"],
            }
        )
    limit = {"limit_x": round(_LABEL + _BARS / most, 1)} if plot["kind"] == LIMITS else {}
    return {**plot, **limit, "bars": bars, "width": WIDTH, "height": len(bars) * _LINE, "right": WIDTH}


def _longest(plot: Mapping[str, Any]) -> float:
    """What the longest bar stands for; of limits, at least the limit itself."""
    if plot["kind"] == LIMITS:
        return max([1.0, *(bar["value"] / (bar["limit"] or 1) for bar in plot["bars"])])
    return float(max([1, *(bar["value"] for bar in plot["bars"])]))
