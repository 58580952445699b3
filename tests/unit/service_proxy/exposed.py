# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What dashboards and alerts go by in an exposition of Prometheus: names, types, labels, and bounds of buckets."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_TYPE = re.compile(r"# TYPE (\S+) (\S+)")
_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass
class Exposed:
    type: str
    labels: set[frozenset[str]] = field(default_factory=set)  # names, of each sample
    bounds: list[str] = field(default_factory=list)  # of the first histogram's buckets


def parse(text: str) -> dict[str, Exposed]:
    """By name, of families that have a sample."""
    families: dict[str, Exposed] = {}
    for line in text.splitlines():
        if match := _TYPE.fullmatch(line):
            families[match[1]] = Exposed(match[2])
        elif match := _SAMPLE.fullmatch(line):
            family = families[re.sub(r"_(bucket|sum|count)$", "", match[1]) if match[1] not in families else match[1]]
            labels = dict(_LABEL.findall(match[2] or ""))
            bound = labels.pop("le", None)
            family.labels.add(frozenset(labels))
            if bound is not None and bound not in family.bounds:
                family.bounds.append(bound)
    return {name: family for name, family in families.items() if family.labels}
