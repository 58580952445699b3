# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long it takes to plan a fleet: targets and moves of 1,000 nodes, part of `make bench-balloons`. Nothing is read or asked.

Two nodes of each host give what the other two take. Writes tests/bench/results/balloons_plan.json, and a line in
docs/benchmarks/balloons.md between its marks.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.resize_steps import plan_steps
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.sizing import targets
from tests.bench.lab import machine
from tests.bench.page import write_between_marks, write_results
from tests.unit.balloon.sized import amount, balloon, fleet, node, request

RESULTS = Path(__file__).resolve().parent / "results/balloons_plan.json"
PAGE = Path(__file__).resolve().parents[2] / "docs/benchmarks/balloons.md"
HOSTS, OF_EACH, ROUNDS = 250, 4, 9
HELD = balloon(amount(12000, 48 * 1024))


def run() -> dict[str, Any]:
    names = [(f"h{host:03}", f"h{host:03}-n{number}", number) for host in range(HOSTS) for number in range(OF_EACH)]
    found = fleet(*(node(name, host=host, balloon=HELD) for host, name, _number in names), reserve=None)
    rows = [{"name": name, "weight": 1 if number < OF_EACH // 2 else 2} for _host, name, number in names]
    asked = request(*rows)
    seconds, moves = [], 0
    for _round in range(ROUNDS):
        begun = time.perf_counter()
        moves = len(plan_steps(found, targets(asked, found)))
        seconds.append(round(time.perf_counter() - begun, 4))
    return {"machine": machine(), "hosts": HOSTS, "nodes": len(names), "moves": moves, "seconds": seconds}


def text(found: dict[str, Any]) -> str:
    median, seconds = statistics.median(found["seconds"]), found["seconds"]
    box = found["machine"]
    return (
        f"To plan {found['nodes']:,} nodes of {found['hosts']} hosts, {found['moves']:,} moves, takes {median:.2f} s "
        f"({min(seconds):.2f} to {max(seconds):.2f} in {len(seconds)} rounds; {box['cpu']}, Python {box['python']})."
    )


def main() -> None:
    found = run()
    print(text(found))
    write_results(RESULTS, found)
    write_between_marks(PAGE, "balloons-plan", text(found), RESULTS)


if __name__ == "__main__":
    main()
