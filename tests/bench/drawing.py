# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the plots of benchmarks are drawn with, as lines of SVG. Axes are linear and begin at 0.

A series is recognized by its pattern, and its name is beside it: a reader without colours, or on paper, loses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from xml.sax.saxutils import escape

INK, RULE = "#222222", "#dddddd"
COLOURS = ("#0b6e99", "#c1502e", "#7a6a2f", "#a08bb0", "#6f9c76", "#888888")
# Of bars, in the order of COLOURS: what is drawn in white over the colour, in a square of 8.
_HATCHES = (
    "",
    "M-2,2 L2,-2 M0,8 L8,0 M6,10 L10,6",
    "M0,2 H8 M0,6 H8",
    "M2,0 V8 M6,0 V8",
    "M-2,6 L2,10 M0,0 L8,8 M6,-2 L10,2",
    "M0,4 H8 M4,0 V8",
)
_DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4", "1 2")

Point = tuple[float, float]


def picture(width: int, height: int, lines: Iterable[str], *, description: str) -> str:
    """`description` is read aloud in place of the picture."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" font-family="sans-serif" font-size="11" fill="{INK}">'
    about = f"<title>{escape(description)}</title>"
    background = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    return "\n".join([head, about, *_patterns(), background, *lines, "</svg>", ""])


def _patterns() -> Iterator[str]:
    yield "<defs>"
    for number, (colour, hatch) in enumerate(zip(COLOURS, _HATCHES)):
        yield (
            f'<pattern id="p{number}" width="8" height="8" patternUnits="userSpaceOnUse">'
            f'<rect width="8" height="8" fill="{colour}"/><path d="{hatch}" stroke="#ffffff" stroke-width="1.6"/></pattern>'
        )
    yield "</defs>"


def bar(left: float, top: float, width: float, height: float, series: int) -> str:
    return (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" fill="url(#p{series})" '
        f'stroke="{COLOURS[series]}" stroke-width="0.8"/>'
    )


def line(points: Sequence[Point], series: int) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashes = f' stroke-dasharray="{_DASHES[series]}"' if _DASHES[series] else ""
    return f'<polyline points="{path}" fill="none" stroke="{COLOURS[series]}" stroke-width="1.8"{dashes}/>'


def rule(x1: float, y1: float, x2: float, y2: float, *, colour: str = RULE, dashed: bool = False) -> str:
    dashes = ' stroke-dasharray="4 3"' if dashed else ""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{dashes}/>'


def text(x: float, y: float, words: str, *, anchor: str = "start", size: int = 11) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(words)}</text>'


def title(left: float, finding: str, detail: str) -> Iterator[str]:
    """The finding, and below it in small what was measured and its unit."""
    yield f'<text x="{left:.1f}" y="20" font-size="13" font-weight="bold">{escape(finding)}</text>'
    yield text(left, 35, detail, size=10)


def ticks(most: float) -> list[float]:
    """Round numbers from 0 up to `most`, at most seven."""
    if most <= 0:
        return [0.0]
    step = 10 ** math.floor(math.log10(most / 3))
    step *= min(factor for factor in (1, 2, 5, 10) if most / (step * factor) <= 6)
    return [number * step for number in range(int(most // step) + 1)]
