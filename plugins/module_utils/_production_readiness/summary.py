# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report in a few lines: hosts x features, with one word each. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .judge import AMBER, GREEN, RED

PASS, WARN, FAIL, OFF, NOT_ASKED = "PASS", "WARN", "FAIL", "OFF", "-"
_SHOWN_HOSTS = 3  # of those that are alike
_DRILLS = "drills"

Json = Mapping[str, Any]


def status(light: str, *, fails: bool) -> str:
    """What a light means for the run: an amber light fails it when a required answer is unknown."""
    if fails or light == RED:
        return FAIL
    return {GREEN: PASS, AMBER: WARN}.get(light, OFF)


def summary_lines(report: Json) -> list[str]:
    """The verdict, the grid, and an explanation of its words. Hosts with the same words share a row."""
    features = [feature for feature in report["features"] if feature["hosts"]]
    reached = report["summary"]["hosts"]
    lines = [f"production readiness: {report['status']}", f"{reached['reached']} of {reached['all']} hosts answered"]
    if not features:
        return lines
    rows = [("HOST", *(feature["name"] for feature in features))]
    rows += [(_names(hosts), *cells) for cells, hosts in _alike(report["hosts"], [row["name"] for row in features])]
    rows += [(_DRILLS, *(feature["exercised"] for feature in features))]
    legend = "PASS: checked. WARN: not checked, or never drilled. FAIL: fails the run. OFF: not enabled."
    return [*lines, "", *(f"  {line}" for line in _columns(rows)), "", legend]


def _alike(hosts: Sequence[Json], features: Sequence[str]) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    groups: dict[tuple[str, ...], list[str]] = {}
    for host in hosts:
        cells = tuple(host["features"].get(name, {"status": NOT_ASKED})["status"] for name in features)
        groups.setdefault(cells, []).append(host["name"])
    yield from groups.items()


def _names(hosts: Sequence[str]) -> str:
    if len(hosts) <= _SHOWN_HOSTS:
        return ", ".join(hosts)
    return f"{hosts[0]} ... {hosts[-1]} ({len(hosts)} hosts)"


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows)]
    for row in rows:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths)).rstrip()
