# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the benchmark of migrations found, as the table of docs/kube-proxy-backends.md."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from tests.bench.page import write_between_marks, write_results
from tests.bench.rules_report import markdown, told

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/kube-proxy-backends.md"
_WAYS = {"stock": "edited, restarted", "ballast": "`kube_proxy`", "rollback": "`kube_proxy`, rolled back"}

Found = Mapping[str, Any]


def write_report(found: Found, results: Optional[Path]) -> None:
    """Prints the table; with `results`, also writes it and the raw figures."""
    text = table(found)
    print(text)
    if results is None:
        return
    write_results(results, found)
    write_between_marks(PAGE, "migrate", text)


def table(found: Found) -> str:
    heads = ["switch", "by", "new connections failed", "longest outage", "long-lived broken", "longest silence", "took"]
    by_row: dict[tuple[str, bool, bool, int], list[Found]] = {}
    for one in found["switches"]:
        key = (one["variant"], one["to"] == "iptables", one["fresh"], list(_WAYS).index(one["by"]))
        by_row.setdefault(key, []).append(one)
    rows = [_row(ones) for _key, ones in sorted(by_row.items())]
    return "\n".join([*markdown(heads, rows), "", _notes(found)])


def _row(ones: Sequence[Found]) -> list[str]:
    """Of the same switch in several rounds."""
    iptables = f"iptables ({ones[0]['variant']})"
    title = f"{iptables} to nftables" if ones[0]["to"] == "nftables" else f"nftables to {iptables}"
    return [
        title + (", never before" if ones[0]["fresh"] else ""),
        _WAYS[ones[0]["by"]],
        _counted([(one["total"]["failures"], one["total"]["attempts"]) for one in ones]),
        _outage([one["total"]["outage_seconds"] for one in ones]),
        _counted([(one["held"]["broken"], one["held"]["open"]) for one in ones]),
        told([one["held"]["silence_seconds"] for one in ones]),
        told([one["seconds"] for one in ones]),
    ]


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
    machine, tools, sizes = found["machine"], found["tools"], found["sizes"]
    rounds = f"median and range of {sizes['rounds']} rounds" if sizes["rounds"] > 1 else "one round"
    quiet = sum(one["total"]["attempts"] for one in found["calm"].values())
    took = max(one["total"]["p99_seconds"] for one in found["calm"].values()) * 1000
    return (
        f"Measured on {machine['cpus']} cores ({machine['cpu']}), {machine['memory_mib'] // 1024} GiB, Linux {machine['kernel']}, {tools['nft']}, "
        f"{tools['iptables'].partition(' (')[0]}, Kubernetes {found['kubernetes']}, {sizes['services']:,} Services x 4 endpoints; "
        f"{rounds}, in which the ways take turns. Under load: 500 new TCP connections and 500 UDP requests per second from a pod, as many "
        "from the node, 100 of each from outside to node ports, one attempt each with a second's time, and 200 long-lived TCP connections that ask ten times "
        f"a second. Before, in {sizes['calm']} s for each variant of iptables, none of {quiet:,} failed (p99 {took:.1f} ms). An outage is the time from a "
        "first failed connection to the next that succeeds, of one client to one Service; a silence that of a long-lived connection without an answer. "
        '"Never before" is a node on which no kube-proxy had been in iptables mode: there, nothing else keeps connection tracking alive. '
        "A restart takes until kube-proxy's first synchronisation has ended, the module until all its gates hold."
    )
