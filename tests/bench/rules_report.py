# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the benchmark of service rules found, as the table and the plot of docs/benchmarks/service-rules.md."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from tests.bench.page import write_between_marks, write_results
from tests.bench.rules_nodes import LEGACY, NFT, NFTABLES
from tests.bench.rules_plot import plot

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/benchmarks/service-rules.md"
PLOT = ROOT / "docs/rules-bench.svg"
MIB = 2**20
PEERS = (NFTABLES, LEGACY, NFT)
CHANGES = {"service": "one Service added", "endpoint": "one endpoint moved", "rollout": "100 endpoints replaced"}

Found = Mapping[str, Any]


def write_report(found: Found, results: Optional[Path]) -> None:
    """Prints the table; with `results`, also writes it, the plot and the raw figures."""
    text = table(found)
    print(text)
    drawn = plot(found)
    if results is None:
        return
    write_results(results, found)
    PLOT.write_text(drawn, encoding="utf-8")
    write_between_marks(PAGE, "rules", text, results)


def table(found: Found) -> str:
    return "\n".join([*_costs(found), "", *_packets(found), "", _notes(found)])


def _costs(found: Found) -> list[str]:
    cold, sizes = found["cold"], found["sizes"]
    modules, peers = cold["module"], [peer for peer in PEERS if peer in cold]
    heads = ["work", "ours", *(f"kube-proxy, {peer}" for peer in peers)]
    blank = [""] * (len(peers) - 1)
    module = told([row["process"] for row in modules])
    kernel = told([row["seconds"] for row in cold["nft"]])
    rows = [
        [
            f"{sizes['main']:,} Services x 4 endpoints, from none",
            f"{module} the module, {kernel} `nft -f` alone",
            *(told([row["sync"] for row in cold[peer]]) for peer in peers),
        ]
    ]
    for kind, title in CHANGES.items():
        in_force = told([row[kind]["in_force"] for row in found["changes"]])
        ours = f"`nft -f` alone: {in_force} in force, {told([row[kind]['ours'] for row in found['changes']])} with its wait"
        rows.append([f"{title}, of these", ours, told([row[kind]["kube_proxy"] for row in found["changes"]]), *blank])
    again = told([row["again_process"] for row in modules])
    rows.append(["the module again, no change", f"{again}, {modules[-1]['again_operations']} operations", "", *blank])
    large = found["large"]
    # What an earlier run has freed is taken again: the largest difference is what the rules need.
    memory = f"nft {_mib(large, 'peak_rss_bytes')} MiB, kernel {_mib(large, 'slab_bytes')} MiB"
    seconds = told([row["seconds"] for row in large])
    rows.append([f"{sizes['large']:,} Services x 4 into the kernel", f"{seconds} `nft -f`, {memory}", "", *blank])
    audits = found["audit"]
    spent = told([row["process"] for row in audits])
    count = max(len(row["findings"]) for row in audits)
    rows.append([f"audit of kube-proxy's {sizes['main']:,}", f"{spent}, {count} findings", "", *blank])
    return markdown(heads, rows)


def _packets(found: Found) -> list[str]:
    heads = ["TCP connect, p50 / p99 in µs", "Services", "first", "middle", "last"]
    rows = []
    for road in sorted(found["packets"], key=lambda road: (road["rules"], road["services"])):
        cells = [
            f"{percentile(road['nanoseconds'][at], 50) / 1000:.0f} / {percentile(road['nanoseconds'][at], 99) / 1000:.0f}"
            for at in ("first", "middle", "last")
        ]
        title = road["rules"] if road["rules"] in ("ballast", "no rules") else f"kube-proxy, {road['rules']}"
        rows.append([title, f"{road['services']:,}", *cells])
    return markdown(heads, rows)


def _notes(found: Found) -> str:
    machine, tools, sizes = found["machine"], found["tools"], found["sizes"]
    started = told([row["from_start"] for row in found["cold"][NFTABLES]])
    wall = told([row["wall"] for row in found["cold"]["module"]])
    return (
        f"Measured on {machine['cpus']} cores ({machine['cpu']}), {machine['memory_mib'] // 1024} GiB, Linux {machine['kernel']}, {tools['nft']}, "
        f"{tools['iptables']}, Kubernetes {found['kubernetes']}. Median and range of {sizes['cold_repeats']} runs ({sizes['changes']} of changes), ours and "
        "kube-proxy's in turn, on the same objects. "
        "The module is its process, from the start of Python to its end, as `ansible` runs it. The command as a whole took "
        f"{wall}. kube-proxy's figure is what its log says of its first synchronisation of IPv4. From its start, that had ended "
        f"after {started} (nftables). A change is the time of our one `nft -f -`, and of kube-proxy's synchronisation, both without the time to "
        "learn of it. Ours is measured until the kernel reports the commit, and until nft ends. They are not like for like: kube-proxy's "
        "includes what it computes, ours does not. A run of the module that adds one Service reads the table back first and takes about 3 s "
        "(one run, whose raw result was not kept). [The service proxy](../service-proxy.md) keeps the table in memory. If it deletes elements, nft waits, as "
        "it closes its socket, until the kernel has freed them. Connections are those of a pod, through the node, to a server in another namespace."
    )


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def told(seconds: Sequence[float]) -> str:
    """The median, and the range where there are several."""
    middle = statistics.median(seconds)
    show = _milliseconds if middle < 0.1 else _seconds
    if len(seconds) == 1:
        return show(middle, unit=True)
    return f"{show(middle, unit=True)} ({show(min(seconds), unit=False)} to {show(max(seconds), unit=False)})"


def _seconds(value: float, *, unit: bool) -> str:
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f}" + (" s" if unit else "")


def _milliseconds(value: float, *, unit: bool) -> str:
    return f"{value * 1000:.1f}" + (" ms" if unit else "")


def _mib(rows: Sequence[Found], key: str) -> str:
    return f"{max(row[key] for row in rows) / MIB:.0f}"


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest of `values` that so many percent of them do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-len(ordered) * int(percent) // 100) - 1))]
