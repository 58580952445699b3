# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long a lab takes, and how much memory: `make bench-lab`.

    usable    from the command to its end, programs cached: every node Ready, its pod running, every connection checked
    again     the same command once more, which changes nothing
    down      `make lab-down`, which checks that nothing is left
    hollow    a node of kubemark, built from the same modules, on the same control plane, in the same run, with --kubemark

Each of a bare lab and of one with the add-ons that a new lab has (`Series.addons`).

Writes tests/bench/results/lab.json (raw figures and the machine) and the table in README.md between its marks.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from scripts.test_times import read_ticks
from tests.bench.page import write_between_marks, write_results

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "tests/bench/results/lab.json"
HOLLOW_ROOT = Path("/tmp")
HOLD_SECONDS = 600
ASK_SECONDS = 15
# One node each, as their projects publish them: seconds until the command returns, and until a pod of it answers.
PUBLISHED = {
    "kind 0.29": (14.2, 33.0),
    "k3d 5.8": (12.6, 19.9),
    "minikube 1.36": (21.1, 50.8),
}


@dataclass
class Series:
    nodes: int
    addons: str  # "none" or "default"
    usable: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)
    down: list[float] = field(default_factory=list)
    pss_bytes: list[int] = field(default_factory=list)  # of each node, at the end of the first run
    plane_rss_bytes: int = 0
    kubernetes_version: str = ""
    held_seconds: int = 0  # all stayed Ready for so long
    unused_share: float = 0.0  # of the processors, in that time: what the lab and its control plane left


def make(*arguments: str) -> float:
    """Seconds that `make ARGUMENTS` took. It must succeed."""
    begun = time.monotonic()
    done = subprocess.run(["make", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"make {' '.join(arguments)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return round(time.monotonic() - begun, 2)


def measure(nodes: int, addons: str, *, repeats: int, lab: Sequence[str], directory: str, hold: bool) -> Series:
    series = Series(nodes=nodes, addons=addons)
    lab = [*lab, *(["LAB_ADDONS=none"] if addons == "none" else [])]
    for number in range(repeats):
        series.usable.append(make("lab", f"LAB_NODES={nodes}", *lab))
        series.again.append(make("lab", *lab))
        if number == 0:
            summary = json.loads(Path(directory, "summary.json").read_text(encoding="utf-8"))
            series.pss_bytes = [node["pss_bytes"] for node in summary["nodes"]]
            series.kubernetes_version = summary["kubernetes_version"]
            series.plane_rss_bytes = summary["control_plane"]["rss_bytes"]
            if hold:
                series.held_seconds, series.unused_share = hold_ready(directory, nodes)
        series.down.append(make("lab-down", *lab))
        print(
            f"{nodes} nodes, add-ons {addons}: usable {series.usable[-1]} s, again {series.again[-1]} s, down {series.down[-1]} s"
        )
    return series


def hold_ready(directory: str, nodes: int) -> tuple[int, float]:
    """Watch for HOLD_SECONDS that every node stays Ready: how long they did, and the share of the processors that was left.

    What runs with a lower priority is none of a lab's, and would have given way to it.
    """
    begun, before = time.monotonic(), read_ticks()
    while time.monotonic() - begun < HOLD_SECONDS and len(ready_nodes(directory)) == nodes:
        time.sleep(ASK_SECONDS)
    after = read_ticks()
    used = (after.in_use - after.nice) - (before.in_use - before.nice)
    return round(time.monotonic() - begun), round(1 - used / (sum(after) - sum(before)), 3)


def ready_nodes(directory: str) -> list[str]:
    items = json.loads(kubectl(directory, "get", "nodes", "-o", "json"))["items"]
    return [
        item["metadata"]["name"]
        for item in items
        if any(row["type"] == "Ready" and row["status"] == "True" for row in item["status"]["conditions"])
    ]


def kubectl(directory: str, *words: str) -> str:
    options = ["--kubeconfig", f"{directory}/admin.kubeconfig", "--cache-dir", f"{directory}/check/kubectl"]
    argv = [f"{directory}/bin/kubectl", *options, *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout


def hollow_node(program: str, directory: str) -> int:
    """PSS of a hollow node, its kubelet and its proxy, 30 seconds after it is Ready."""
    common = ["--name=hollow", f"--kubeconfig={directory}/admin.kubeconfig", "--use-host-image-service=false"]
    before = set(HOLLOW_ROOT.glob("hollow-kubelet.*"))  # it makes one for itself, and leaves it
    tables = nft_tables()
    started = [
        subprocess.Popen([program, f"--morph={morph}", *common], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for morph in ("kubelet", "proxy")
    ]
    try:
        deadline = time.monotonic() + 120
        while "hollow" not in ready_nodes(directory):
            if time.monotonic() > deadline:
                sys.exit("the hollow node does not become Ready")
            time.sleep(1)
        time.sleep(30)
        return sum(pss_bytes(process.pid) for process in started)
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(timeout=30)
        kubectl(directory, "delete", "node", "hollow", "--ignore-not-found")
        for path in set(HOLLOW_ROOT.glob("hollow-kubelet.*")) - before:
            shutil.rmtree(path)
        # Its kubelet writes chains of iptables into this host, as it has no namespace of its own.
        for table in nft_tables() - tables:
            subprocess.run(["nft", "delete", *table.split()], check=True, timeout=60)


def nft_tables() -> set[str]:
    """`table ip mangle`, ..."""
    done = subprocess.run(["nft", "list", "tables"], check=True, capture_output=True, text=True, timeout=60)
    return set(done.stdout.splitlines())


def pss_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def machine() -> dict[str, Any]:
    memory = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()[0].split()[1]
    models = [line for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines() if line.startswith("model name")]
    return {
        "cpus": os.cpu_count(),
        "cpu": models[0].partition(": ")[2] if models else "unknown",
        "memory_mib": int(memory) // 1024,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_before": os.getloadavg()[0],
    }


def table(found: dict[str, Any]) -> str:
    def format_spread(values: list[float]) -> str:
        if len(values) == 1:
            return f"{values[0]:.1f} s"
        return f"{statistics.median(values):.1f} s ({min(values):.1f} to {max(values):.1f})"

    rows = [
        "| nodes | add-ons | usable | again, no change | removed | memory of a node (PSS) |",
        "|---|---|---|---|---|---|",
    ]
    for row in found["series"]:
        pss = f"{statistics.median(row['pss_bytes']) / 2**20:.0f} MiB"
        seconds = " | ".join(format_spread(row[name]) for name in ("usable", "again", "down"))
        rows.append(f"| {row['nodes']} | {row['addons']} | {seconds} | {pss} |")
    notes = [
        f"Measured on {found['machine']['cpus']} cores, {found['machine']['memory_mib'] // 1024} GiB, "
        f"Linux {found['machine']['kernel']}, Kubernetes {found['kubernetes_version']}, programs cached; median and range; "
        f"load of the machine before: {found['machine']['load_before']:.1f}."
    ]
    held = [row for row in found["series"] if row["held_seconds"]]
    notes += [
        f"{row['nodes']} nodes stayed Ready for {row['held_seconds']} s, with {row['unused_share']:.0%} of the processors unused."
        for row in held
    ]
    if "hollow_pss_bytes" in found:
        notes.append(
            f"A hollow node of kubemark, built from the same modules and measured in the same run, took "
            f"{found['hollow_pss_bytes'] / 2**20:.0f} MiB; it has no runtime and runs no pod."
        )
    peers = [
        "",
        "| one node, as published | command returns | usable |",
        "|---|---|---|",
        *(f"| {name} | {returns} s | {usable} s |" for name, (returns, usable) in PUBLISHED.items()),
    ]
    return "\n".join([*rows, "", " ".join(notes), *peers])


def read_sizes(text: str, addons: str) -> list[tuple[int, int, str]]:
    """Nodes, repeats and add-ons, from `3x3,8x2`; "" is none."""
    rows = [size.partition("x") for size in text.split(",") if size]
    return [(int(nodes), int(repeats), addons) for nodes, _x, repeats in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--sizes", default="3x3,8x2,20x1,40x1", help="NODESxREPEATS of bare labs, the last held for ten minutes"
    )
    parser.add_argument("--default-sizes", default="3x3,8x3", help="the same of labs with the default add-ons")
    parser.add_argument("--kubemark", help="the program kubemark; without it no hollow node is measured")
    arguments = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="ballast-bench-")
    lab_dir = f"{directory}/lab"
    lab = [f"LAB_DIR={lab_dir}", "LAB_NAME=bench"]
    sizes = [*read_sizes(arguments.default_sizes, "default"), *read_sizes(arguments.sizes, "none")]
    found: dict[str, Any] = {"machine": machine(), "series": []}
    try:
        if arguments.kubemark:
            make("lab", "LAB_NODES=1", "LAB_ADDONS=none", *lab)
            found["hollow_pss_bytes"] = hollow_node(arguments.kubemark, lab_dir)
            make("lab-down", *lab)
        for number, (nodes, repeats, addons) in enumerate(sizes):
            last = number == len(sizes) - 1
            series = measure(nodes, addons, repeats=repeats, lab=lab, directory=lab_dir, hold=last)
            found["kubernetes_version"] = series.kubernetes_version
            found["series"].append(asdict(series))
            write_report(found)  # a run that is cut off keeps what it had measured
    finally:
        make("lab-down", *lab)
        shutil.rmtree(directory)
    print(table(found))


def write_report(found: dict[str, Any]) -> None:
    write_results(RESULTS, found)
    write_between_marks(ROOT / "README.md", "lab", table(found), RESULTS)


if __name__ == "__main__":
    main()
