# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks that what a run writes fits into ConfigMaps: the record names all hosts, a report those of its slice. Pure.

An API server refuses what does not fit, in the middle of the run: after a batch, whose failures would then count for no slice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .._core.text.errors import BallastError, shorten
from .messages import MESSAGES
from .record import SliceRecord
from .slices import CANARY

TEXT_BYTES = 900_000  # a ConfigMap holds 1 MiB; the record also has pods, and why a run ended
_WORD, _FAILURE = 30, 1000  # characters of an outcome, and of the reason why a slice was refused


def find_size_problems(slices: Mapping[str, Sequence[str]]) -> list[BallastError]:
    """`slices` are hosts by slice. Only their names count, as a report that is too long omits its texts."""
    sizes = {f"the report of {name}": (_report_bytes(hosts), _report_hint(name)) for name, hosts in slices.items()}
    hint = "run parts of the fleet one after the other: -e kube_proxy_hosts=GROUP"
    sizes["the record of all names"] = (sum(map(_record_bytes, slices.values())), hint)
    return [
        MESSAGES.error("fleet-run-names", what=what, size=size, most=TEXT_BYTES, hint=hint)
        for what, (size, hint) in sizes.items()
        if size > TEXT_BYTES
    ]


def report_text(report: Mapping[str, Any]) -> str:
    """The report as JSON that fits into a ConfigMap. One that is too long loses its texts."""
    text = json.dumps(report, sort_keys=True)
    return text if len(text) <= TEXT_BYTES else _short_text(report)


def _short_text(report: Mapping[str, Any]) -> str:
    rows = {name: (row[0][:_WORD], "") for name, row in report["rows"].items()}
    lines = [f"{len(report['lines'])} lines do not fit into the report: read the log of this slice"]
    short = {"rows": rows, "lines": lines, "failure": shorten(report["failure"], limit=_FAILURE)}
    return json.dumps({**report, **short}, sort_keys=True)


def _report_bytes(hosts: Sequence[str]) -> int:
    """The maximum size, without texts."""
    rows = dict.fromkeys(hosts, ("x" * _WORD, ""))
    return len(_short_text({"rows": rows, "not_done": list(hosts), "lines": [], "failure": "x" * _FAILURE}))


def _report_hint(name: str) -> str:
    is_canary = name.startswith(CANARY)
    return "name fewer canaries: -e kube_proxy_canaries=NODE" if is_canary else "use more slices: -e fleet_slices=16"


def _record_bytes(hosts: Sequence[str]) -> int:
    """From its batch on, each host is in one list of its slice."""
    return len(SliceRecord(begun=tuple(hosts)).as_text())
