# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the benchmark of the service proxy found, as the table and the plot of docs/service-proxy.md."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Optional

from tests.bench.page import write_between_marks, write_results
from tests.bench.rules_report import MIB, markdown, percentile, told
from tests.bench.service_proxy_plot import plot
from tests.bench.service_proxy_programs import OURS, PEER
from tests.bench.service_proxy_soak import slope

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/service-proxy.md"
PLOT = ROOT / "docs/service-proxy-bench.svg"
GIB = 2**30
_NOTHING = ""

Found = Mapping[str, Any]


def write_report(found: Found, results: Optional[Path]) -> None:
    """Prints the table; with `results`, also writes it, the plot and the raw figures."""
    print(table(found))
    drawn = plot(found)
    if results is None:
        return
    write_results(results, found)
    PLOT.write_text(drawn, encoding="utf-8")
    write_between_marks(PAGE, "service-proxy", page_text(found), results)


def page_text(found: Found) -> str:
    soak = ", and memory over a soak" if "soak" in found else ""
    return f"{table(found)}\n\n![How soon packets meet a change{soak}]({PLOT.name})"


def table(found: Found) -> str:
    main, sizes = found["main"], found["sizes"]
    services = f"{sizes['services']:,} Services x 4 endpoints"

    def row(title: str, cell: Callable[[Found], str], of: Found) -> list[str]:
        return [title, *(cell(of[who]) if who in of else _NOTHING for who in (OURS, PEER))]

    rows = [
        row(f"{services}: start to all rules in force", _starts, main),
        row("endpoint change to packet, p50 / p99, 1 change/s", lambda one: _latency(one["calm"]), main),
        row(f"the same at 100 changes/s for {_length(sizes['busy_seconds'])}", lambda one: _latency(one["busy"]), main),
        row("changes/s that the API server took meanwhile", lambda one: _rate(one["busy"]), main),
        row("processor time of those", lambda one: f"{one['busy']['processor']:.1f} s", main),
        row("memory: after the start / after the changes / most", _memory, main),
        row("`nft flush ruleset` to repaired", lambda one: _flush(one["flush"], sizes["flush_seconds"]), main),
    ]
    if "large" in found:
        large = f"{sizes['large']:,} x 4"
        rows += [
            row(f"{large}: start to all rules in force", _starts, found["large"]),
            row(
                f"{large}: endpoint change to packet, p50 / p99, 1 change/s",
                lambda one: _latency(one["calm"]),
                found["large"],
            ),
            row(f"{large}: memory after the start / after the changes / most", _memory, found["large"]),
        ]
    parts = [markdown(["work", "ours", "kube-proxy, nftables"], rows), [""], [_notes(found)]]
    if "soak" in found:
        parts += [[""], [_soak(found["soak"])]]
    return "\n".join(line for part in parts for line in part)


def _starts(of: Found) -> str:
    return told([start["seconds"] for start in of["starts"]])


def _latency(measured: Found) -> str:
    if not measured["packet"]:
        return f"none of {measured['lost']} in force"
    values = [1000 * percentile(measured["packet"], percent) for percent in (50, 99)]
    lost = f", {measured['lost']} of {measured['lost'] + len(measured['packet'])} not" if measured["lost"] else ""
    return " / ".join(f"{value:,.0f}" for value in values) + f" ms{lost}"


def _rate(measured: Found) -> str:
    return f"{measured['changes'] / measured['seconds']:.0f}"


def _memory(of: Found) -> str:
    last = of.get("busy") or of["calm"]
    sizes = (statistics.median(start["resident"] for start in of["starts"]), last["resident"], last["most_resident"])
    return " / ".join(f"{size / MIB:.0f}" for size in sizes) + " MiB"


def _flush(flush: Found, waited: float) -> str:
    return f"not within {waited:.0f} s" if flush["seconds"] is None else told([flush["seconds"]])


def _length(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"


def _soak(soak: Found) -> str:
    """The slope is of the second half: what a program keeps after its start is no leak."""
    samples = [(sample["at"], sample["resident"] / MIB) for sample in soak["samples"]]
    later = samples[len(samples) // 2 :]
    p50, p99 = (1000 * percentile(soak["packet"], percent) for percent in (50, 99))
    return (
        f"Soak, ours: {soak['seconds'] / 60:.0f} minutes at 100 changes/s ({soak['changes']:,} changes, each with one to six endpoints). "
        f"Memory {samples[0][1]:.0f} MiB at its beginning, {later[0][1]:.0f} MiB in the middle, {samples[-1][1]:.0f} MiB at its end: "
        f"{3600 * slope(later):+.1f} MiB an hour over the second half. Packets met a change after {p50:.0f} / {p99:.0f} ms (p50 / p99), "
        f"{soak['processor']:.0f} s of processor time. At the end the kernel differed from the rules of all that the API says by "
        f"{soak['differences']} operations."
    )


def _notes(found: Found) -> str:
    machine, tools, main = found["machine"], found["tools"], found["main"]
    api = [1000 * percentile(main[OURS][load]["api"], 50) for load in ("calm", "busy")]
    stored = f" Services from {found['sizes']['services']:,} on were written into etcd, as the API server stores them."
    return (
        f"Measured on {machine['cpus']} cores ({machine['cpu']}), {machine['memory_mib'] * MIB // GIB} GiB, Linux {machine['kernel']}, {tools['nft']}, "
        f"Python {machine['python']}, Kubernetes {found['kubernetes']}; load of the machine before: {machine['load_before']:.1f}. API server, etcd, "
        "the client and the server that answers share the cores with what is measured. "
        f"Starts: median and range of {found['sizes']['starts']}, ours and kube-proxy's in turn. A change replaces the four endpoints of a "
        "Service. Its time is from the request to the API server to the first packet at one of the new endpoints. It holds that server's own: "
        f"{api[0]:.0f} ms, and at 100 changes/s {api[1]:.0f} ms (p50). Of 100 changes/s, every tenth was followed by "
        "packets. Both programs have kube-proxy's default settings; it then waits for at least 1 s between two synchronisations. "
        "Processor time is of the program and of each nft that it ran; memory is of the program alone, without an nft that it runs."
        f"{stored if 'large' in found else ''}"
    )
