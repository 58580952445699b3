# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the benchmark of pulls found, as the tables and the plot of docs/pull-proxy.md."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from tests.bench.page import write_between_marks, write_results
from tests.bench.pulls_plot import plot
from tests.bench.rules_report import markdown, percentile, told

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/pull-proxy.md"
PLOT = ROOT / "docs/pulls-bench.svg"
MIB = 2**20
ARMS = ("unlimited", "per kubelet", "host", "host, join")

Found = Mapping[str, Any]


def write_report(found: Found, results: Optional[Path]) -> None:
    """Prints the tables; with `results`, also writes them, the plot and the raw figures."""
    text = page_text(found)
    print(text)
    drawn = plot(found)
    if results is None:
        return
    write_results(results, found)
    PLOT.write_text(drawn, encoding="utf-8")
    write_between_marks(PAGE, "pulls", text, results)


def page_text(found: Found) -> str:
    """What goes between the marks of the page."""
    return "\n".join([*_arms(found), "", *_goals(found), "", _notes(found)])


def _arms(found: Found) -> list[str]:
    sizes = found["sizes"]
    distinct, same = f"{sizes['images']} images", f"{sizes['pods']} pods, one image"
    heads = ["", *ARMS]
    rows = [
        [f"{distinct}: most in flight at the runtimes", *(_most(found["distinct"], arm, "most") for arm in ARMS)],
        ["... at one runtime", *(_most(found["distinct"], arm, "most_of_one") for arm in ARMS)],
        ["... at the registry", *(_most(found["distinct"], arm, "most_at_registry") for arm in ARMS)],
        ["... first pod runs after", *(told(_pods(found["distinct"], arm, min)) for arm in ARMS)],
        ["... on average", *(told(_pods(found["distinct"], arm, statistics.mean)) for arm in ARMS)],
        ["... last pod", *(told(_pods(found["distinct"], arm, max)) for arm in ARMS)],
        [f"{same}: pulls at the runtime", *(_most(found["same"], arm, "pulls") for arm in ARMS)],
        ["... requests for its manifest", *(_most(found["same"], arm, "requests") for arm in ARMS)],
        ["... MiB from the registry", *(_mib(found["same"], arm) for arm in ARMS)],
        ["... last pod runs after", *(told(_pods(found["same"], arm, max)) for arm in ARMS)],
    ]
    return markdown(heads, rows)


def _goals(found: Found) -> list[str]:
    sizes, slots, memory = found["sizes"], found["slots"], found["memory"]
    limit, nodes = sizes["limit"], sizes["nodes"]
    part = [
        max(ours["running"]) / max(theirs["running"])
        for ours, theirs in zip(_of(found["same"], "host, join"), _of(found["same"], "unlimited"))
    ]
    rows = [
        [
            f"in flight at the runtimes, host limit {limit}, {nodes} kubelets",
            f"at most {limit} always",
            f"{_most([*_of(found['distinct'], 'host'), *_of(found['distinct'], 'host, join')], '', 'most')}; per kubelet: "
            f"{_most(found['distinct'], 'per kubelet', 'most')}",
        ],
        [
            f"{sizes['pods']} pods, one image, with join",
            "1 pull; last pod in at most 60 % of unlimited",
            f"{_most(found['same'], 'host, join', 'pulls')}; {statistics.median(part):.0%} ({min(part):.0%} to {max(part):.0%})",
        ],
        [
            f"a critical pod behind {sizes['before']} large images, one pull at once",
            "starts next",
            "; ".join(f"{order}: {_critical(found, order)}" for order in ("priority", "fifo")),
        ],
        *(
            [f"added latency, {in_flight} in flight, p50 / p99", "0.7 ms / 4 ms", _added(rounds)]
            for in_flight, rounds in found["latency"].items()
        ),
        [
            "memory (PSS), idle / 1,000 pulls queued",
            "50 MB / 80 MB",
            f"{memory['idle'] / 1e6:.0f} MB / {memory['queued'] / 1e6:.0f} MB",
        ],
        [f"slots lost after {slots['pulls']:,} pulls", "0", f"{slots['lost']}"],
    ]
    return markdown(["what", "goal", "found"], rows)


def _notes(found: Found) -> str:
    machine, sizes, slots = found["machine"], found["sizes"], found["slots"]
    outcomes = ", ".join(f"{count:,} {code}" for code, count in sorted(slots["outcomes"].items()))
    direct = "; ".join(
        f"{in_flight} in flight {' / '.join(_quantiles([one for row in rounds for one in row['direct']]))}"
        for in_flight, rounds in found["latency"].items()
    )
    return (
        f"Measured on {machine['cpus']} cores ({machine['cpu']}), {machine['memory_mib'] // 1024} GiB, Linux {machine['kernel']}, Kubernetes "
        f"{found['kubernetes']}, {describe_nodes(sizes)}. Median and range of {sizes['rounds']} rounds, all ways in each, in turn. "
        f"{sizes['images']} images of {sizes['size']} MiB of their own and {sizes['shared']} MiB that they share. One comes at "
        f"{sizes['slow_bytes'] // MIB} MiB/s and {sizes['missing']} do not exist. The one image of all pods has {sizes['same']} MiB, the large ones "
        f"{sizes['large']} MiB. Limit {sizes['limit']} per kubelet, and for the host. What is in flight is counted by a process between proxy and "
        "runtime, at each beginning and end. At the registry, an image is in flight at a runtime while content of it is being served. "
        f"Latency is that of ImageStatus, over one connection: past the proxy {direct}. The {slots['pulls']:,} pulls "
        f"({outcomes}; {slots['at_runtime']:,} at the runtime, the rest joined or left before) took {slots['seconds']} s, "
        f"at a runtime that pulls nothing."
    )


def describe_nodes(sizes: Mapping[str, Any]) -> str:
    return f"{sizes['nodes']} kubelets, each with its own containerd, and a registry on loopback"


def _of(rows: Sequence[Found], arm: str) -> list[Found]:
    return [row for row in rows if arm in ("", row["arm"])]


def _most(rows: Sequence[Found], arm: str, key: str) -> str:
    values = [row[key] for row in _of(rows, arm)]
    return f"{min(values)}" if min(values) == max(values) else f"{min(values)} to {max(values)}"


def _mib(rows: Sequence[Found], arm: str) -> str:
    return f"{statistics.median(row['bytes'] for row in _of(rows, arm)) / MIB:.0f}"


def _pods(rows: Sequence[Found], arm: str, of: Any) -> list[float]:
    return [float(of(row["running"])) for row in _of(rows, arm)]


def _critical(found: Found, order: str) -> str:
    rows = [row for row in found["critical"] if row["order"] == order]
    between = [row["after"] for row in rows]
    return f"{max(between)} before it, runs after {told([row['seconds'] for row in rows])}"


def _added(rounds: Sequence[Found]) -> str:
    """The median over the rounds of the difference in each, and the range."""
    texts = []
    for percent in (50, 99):
        values = [percentile(row["proxy"], percent) - percentile(row["direct"], percent) for row in rounds]
        texts.append(f"{statistics.median(values) * 1e3:.2f} ms ({min(values) * 1e3:.2f} to {max(values) * 1e3:.2f})")
    return " / ".join(texts)


def _quantiles(values: Sequence[float]) -> tuple[str, str]:
    p50, p99 = (percentile(values, percent) * 1e3 for percent in (50, 99))
    return f"{p50:.2f}", f"{p99:.2f} ms"
