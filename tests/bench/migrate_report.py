# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the benchmark of migrations found, as the table of docs/benchmarks/kube-proxy-backends.md."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from tests.bench.page import write_between_marks, write_results
from tests.bench.rules_report import markdown, told

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/benchmarks/kube-proxy-backends.md"
_ORIGINS = {"legacy": "iptables (legacy)", "nft": "iptables (nft)", "ipvs": "ipvs"}
_ORDER = ("ipvs", "iptables", "nftables")
_WAYS = {"stock": "edited, restarted", "ballast": "`kube_proxy`", "rollback": "`kube_proxy`, rolled back"}

Found = Mapping[str, Any]


def write_report(origin: str, found: Found, results: Optional[Path]) -> None:
    """Prints the table of that origin; with `results`, writes it and the raw figures beside those of the others."""
    print(table(origin, found))
    if results is None:
        return
    every = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
    every = {**every, origin: found}
    write_results(results, every)
    write_between_marks(PAGE, "migrate", page_text(every), results)


def page_text(every: Found) -> str:
    """The tables of all origins that were measured."""
    return "\n\n".join(table(name, every[name]) for name in _ORIGINS if name in every)


def table(origin: str, found: Found) -> str:
    heads = ["switch", "by", "new connections failed", "longest outage", "long-lived broken", "longest silence", "took"]
    by_row: dict[tuple[int, str, bool, int], list[Found]] = {}
    for one in found["switches"]:
        left, entered = _modes(origin, one)
        key = (_ORDER.index(left), entered, one["fresh"], list(_WAYS).index(one["by"]))
        by_row.setdefault(key, []).append(one)
    rows = [_row(origin, ones) for _key, ones in sorted(by_row.items())]
    return "\n".join([*markdown(heads, rows), "", _notes(found)])


def _row(origin: str, ones: Sequence[Found]) -> list[str]:
    """Of the same switch in several rounds."""
    left, entered = (_names(origin).get(mode, mode) for mode in _modes(origin, ones[0]))
    title = f"{left} to {entered}"
    return [
        title + (", never before" if ones[0]["fresh"] else ""),
        _WAYS[ones[0]["by"]],
        _counted([(one["total"]["failures"], one["total"]["attempts"]) for one in ones]),
        _outage([one["total"]["outage_seconds"] for one in ones]),
        _counted([(one["held"]["broken"], one["held"]["open"]) for one in ones]),
        told([one["held"]["silence_seconds"] for one in ones]),
        told([one["seconds"] for one in ones]),
    ]


def _modes(origin: str, one: Found) -> tuple[str, str]:
    """Left and entered. Earlier figures lack the mode that was left: the origin's, or nftables."""
    home = "ipvs" if origin == "ipvs" else "iptables"
    return one.get("from", home if one["to"] == "nftables" else "nftables"), one["to"]


def _names(origin: str) -> Mapping[str, str]:
    return {"iptables": _ORIGINS["legacy" if origin == "ipvs" else origin]}


def _counted(pairs: Sequence[tuple[int, int]]) -> str:
    """The median, the range where there are several, of the median of all."""
    counts = [count for count, _all in pairs]
    everything = f"of {round(statistics.median(total for _count, total in pairs)):,}"
    if min(counts) == max(counts):
        return f"{counts[0]:,} {everything}"
    return f"{round(statistics.median(counts)):,} ({min(counts):,} to {max(counts):,}) {everything}"


def _outage(seconds: Sequence[float]) -> str:
    return told(seconds) if any(seconds) else "none"


def _notes(found: Found) -> str:
    machine, tools, sizes, calm = found["machine"], found["tools"], found["sizes"], found["calm"]["total"]
    late = max(one["lag_seconds"] for one in found["switches"])
    rounds = f"median and range of {sizes['rounds']} rounds" if sizes["rounds"] > 1 else "one round"
    return (
        f"Measured on {machine['cpus']} cores ({machine['cpu']}), {machine['memory_mib'] // 1024} GiB, Linux {machine['kernel']}, {tools['nft']}, "
        f"{tools['iptables'].partition(' (')[0]}, Kubernetes {found['kubernetes']}, {sizes['services']:,} Services x 4 endpoints, load of {sizes['rate']}; "
        f"{rounds}, in which the ways take turns. In {sizes['calm']} s before them, none of {calm['attempts']:,} new connections failed "
        f"(p99 {calm['p99_seconds'] * 1000:.1f} ms). The load itself was late by at most {late:.2f} s, of the second that an attempt has."
    )
