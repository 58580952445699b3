# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fleet of 5,000 simulated hosts on one controller, and the slices of such a fleet: `make bench-fleet` runs it.

The playbook is ballast.kube.kube_proxy_migrate, as a preview and on nodes that have the mode already. Nodes are files
(rollout_node.py), which a connection plugin of the tests runs modules on (rollout/simulated.py). A slice is one process with its
share of the hosts. Writes tests/bench/results/rehearsal.json, and the table in docs/fleet.md between its marks. `--rows 625x10` measures
a part, 625 hosts with 10 forks, and leaves the other rows as they are; nothing is written of rows that are not in the table. `5000x10x8` are
5,000 hosts in eight slices that run at once, each with 10 forks.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from tests.bench.lab import machine
from tests.bench.rehearsal_report import RESULTS, beside, write_report
from tests.bench.rollout import NEW, OLD, Bench, name_of
from tests.bench.rollout_node import SimulatedNode

# Hosts and forks, and slices at once; 625 and 1250 are slices of 5000.
ROWS = ("500x20", "625x10", "1250x10", "5000x20", "5000x50", "5000x10x4", "5000x10x8")
READ_SECONDS = 0.3
PREVIEW, NO_CHANGE = "preview", "no change"


@dataclass(frozen=True)
class Run:
    what: str
    hosts: int
    forks: int
    seconds: float
    cpu_seconds: float
    memory_mib: float  # of a controller and its forks, the most that was seen
    plan_bytes: int
    slices: int = 1  # controllers at once, each with its share of the hosts


def measure_one(what: str, hosts: int, forks: int) -> Run:
    with tempfile.TemporaryDirectory(prefix="ballast-rehearsal-") as place:
        bench, plan = Bench(Path(place), hosts), Path(place) / "plan.json"
        for number in range(1, hosts + 1):
            mode = OLD if what == PREVIEW else NEW
            bench.write_node(SimulatedNode(name_of(number), mode, read_seconds=READ_SECONDS))
        begun = time.monotonic()
        options = {"kube_proxy_confirm": what == NO_CHANGE, "kube_proxy_plan_file": str(plan)}
        text, cpu, memory = bench.play(forks, options)
        seconds = time.monotonic() - begun
        expected = f"{OLD} -> {NEW}: {hosts} nodes" if what == PREVIEW else f"{hosts} nodes: {hosts} unchanged"
        if expected not in text:
            sys.exit(f"{what}, {hosts} hosts, forks {forks}: not {expected}\n{text[-8000:]}")
        return Run(what, hosts, forks, round(seconds, 1), round(cpu, 1), round(memory, 1), plan.stat().st_size)


def measure_slices(what: str, hosts: int, forks: int, slices: int) -> Run:
    """All of them at once on this machine. `forks` are those of each, as is the memory; seconds of the cores are those of all together."""
    if slices == 1:
        return measure_one(what, hosts, forks)
    begun, before = time.monotonic(), os.times()
    with ThreadPoolExecutor(slices) as pool:
        shares = [len(range(index, hosts, slices)) for index in range(slices)]
        runs = list(pool.map(lambda share: measure_one(what, share, forks), shares))
    seconds, after = time.monotonic() - begun, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    memory, plan = max(run.memory_mib for run in runs), max(run.plan_bytes for run in runs)
    return Run(what, hosts, forks, round(seconds, 1), round(cpu, 1), memory, plan, slices)


def measure(whats: Sequence[str], rows: Sequence[str]) -> list[Run]:
    runs = []
    for what in whats:
        for row in rows:
            hosts, forks, slices = map(int, f"{row}x1".split("x")[:3])
            runs.append(measure_slices(what, hosts, forks, slices))
            print(runs[-1], flush=True)
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", default=list(ROWS))
    parser.add_argument("--what", nargs="+", choices=[PREVIEW, NO_CHANGE], default=[NO_CHANGE, PREVIEW])
    arguments = parser.parse_args()
    found: dict[str, Any] = {
        "machine": machine(),
        "ansible": metadata.version("ansible-core"),
        "read_seconds": READ_SECONDS,
        "runs": [asdict(run) for run in measure(arguments.what, arguments.rows)],
    }
    in_table = set(arguments.rows) <= set(ROWS)
    write_report(beside(found) if in_table else found, RESULTS if in_table else None)


if __name__ == "__main__":
    main()
