# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write tables and plots of benchmarks again from their committed raw results. Nothing is measured.

python -m scripts.bench_pages            # write
python -m scripts.bench_pages --check    # status 1 if a page differs from its raw results
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional

from scripts.written import ROOT, run
from tests.bench import (
    balloons_overload,
    balloons_plan,
    balloons_report,
    fleet_report,
    migrate_report,
    planes_plot,
    planes_report,
    pulls_plot,
    pulls_report,
    pulls_stacks,
    rehearsal_report,
    rollout_report,
    rules_plot,
    rules_report,
    service_proxy_plot,
    service_proxy_report,
)
from tests.bench.page import with_block
from tests.conformance import report as conformance

RESULTS = ROOT / "tests/bench/results"
Found = Mapping[str, Any]


class Block(NamedTuple):
    name: str  # of the marks, `bench:NAME`
    results: str
    page: Path
    text: Callable[[Any], str]
    plot: Optional[tuple[Path, Callable[[Any], str]]] = None


def _stacks(found: Found) -> str:
    return pulls_stacks.table(found["seconds"])


def _conformance(found: Found) -> str:
    return conformance.format_table(found["runs"])


BLOCKS = (
    Block("balloons", "balloons.json", balloons_report.PAGE, balloons_report.page_text),
    Block("overload", "balloons_overload.json", balloons_overload.PAGE, balloons_overload.table),
    Block("balloons-plan", "balloons_plan.json", balloons_plan.PAGE, balloons_plan.text),
    Block("conformance", "conformance.json", conformance.PAGE, _conformance),
    Block("fleet", "fleet.json", fleet_report.PAGE, fleet_report.page_text),
    Block("migrate", "migrate.json", migrate_report.PAGE, migrate_report.page_text),
    Block(
        "planes",
        "planes.json",
        planes_report.PAGE,
        planes_report.page_text,
        (planes_report.PLOT, planes_plot.plot),
    ),
    Block("pulls", "pulls.json", pulls_report.PAGE, pulls_report.page_text, (pulls_report.PLOT, pulls_plot.plot)),
    Block("pulls-stacks", "pulls_stacks.json", pulls_stacks.PAGE, _stacks),
    Block("rehearsal", "rehearsal.json", rehearsal_report.PAGE, rehearsal_report.page_text),
    Block("rollout", "rollout.json", rollout_report.PAGE, rollout_report.page_text),
    Block(
        "service-proxy",
        "service_proxy.json",
        service_proxy_report.PAGE,
        service_proxy_report.page_text,
        (service_proxy_report.PLOT, service_proxy_plot.plot),
    ),
    Block("rules", "rules.json", rules_report.PAGE, rules_report.table, (rules_report.PLOT, rules_plot.plot)),
)


def files() -> Iterator[tuple[Path, str]]:
    pages: dict[Path, str] = {}
    for block in BLOCKS:
        found = json.loads((RESULTS / block.results).read_text(encoding="utf-8"))
        old = pages.get(block.page) or block.page.read_text(encoding="utf-8")
        pages[block.page] = with_block(old, block.page, block.name, block.text(found), RESULTS / block.results)
        if block.plot:
            path, draw = block.plot
            yield path, draw(found)
    yield from pages.items()


def main(arguments: list[str]) -> int:
    return run("bench_pages", __doc__, arguments, files())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
