# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run of Kubernetes' tests found: its JUnit file, and the table of docs/conformance.md."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.page import write_between_marks, write_results

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "tests/bench/results/conformance.json"
PAGE = ROOT / "docs/conformance.md"


_CHOSEN = re.compile(r"^Will run (\d+) of ", re.MULTILINE)
_ENDED, _FAILED = "•", "• [FAILED]"


@dataclass(frozen=True)
class Outcome:
    """Of one test that was run. `failure` is the first line of why it failed, empty where it passed."""

    name: str
    seconds: float
    failure: str = ""


def read_junit(path: Path) -> list[Outcome]:
    """Tests that were run, by name. Raises where the file is missing or cut off: then the run had no end."""
    outcomes = []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = case.attrib["name"]
        if case.find("skipped") is not None or not name.startswith("[It] "):
            continue  # also ginkgo's own steps before and after all tests
        fault = next((part for part in case if part.tag in ("failure", "error")), None)
        text = "" if fault is None else (fault.attrib.get("message") or fault.text or "failed").strip().splitlines()[0]
        outcomes.append(Outcome(name.removeprefix("[It] "), float(case.attrib["time"]), text))
    return sorted(outcomes, key=lambda outcome: outcome.name)


def read_progress(log: str) -> str:
    """How far ginkgo is, by what it has printed until now: a dot for each test that has ended."""
    chosen = _CHOSEN.search(log)
    if chosen is None:
        return "the tests begin"
    return f"{log.count(_ENDED)} of {chosen[1]} tests have ended, {log.count(_FAILED)} failed"


def print_report(outcomes: Sequence[Outcome], not_run: Mapping[str, str]) -> None:
    """`not_run` has the reasons."""
    for name, reason in not_run.items():
        print(f"not run: {name}\n        {reason}")
    failed = [outcome for outcome in outcomes if outcome.failure]
    for outcome in failed:
        print(f"failed: {outcome.name}\n        {outcome.failure}")
    print(f"{len(outcomes)} tests: {len(outcomes) - len(failed)} passed, {len(failed)} failed")


def write_report(lab: dict[str, Any], focus: str, outcomes: Sequence[Outcome], not_run: Mapping[str, str]) -> None:
    """Puts the run in the place of an earlier one of the same version, backends and focus."""
    backends = "+".join(sorted({node["proxy_backend"] for node in lab["nodes"]}))
    run = {
        "version": lab["kubernetes_version"],
        "backend": backends,
        "nodes": len(lab["nodes"]),
        "focus": focus,
        "passed": sum(not outcome.failure for outcome in outcomes),
        "failed": {outcome.name: outcome.failure for outcome in outcomes if outcome.failure},
        "not_run": dict(not_run),
        "seconds_of_tests": round(sum(outcome.seconds for outcome in outcomes)),
    }
    earlier = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {"runs": []}
    key = ("version", "backend", "focus")
    others = [other for other in earlier["runs"] if [other[name] for name in key] != [run[name] for name in key]]
    runs = sorted([*others, run], key=lambda row: [row[name] for name in key])
    write_results(RESULTS, {"runs": runs})
    write_between_marks(PAGE, "conformance", format_table(runs), RESULTS)


def format_table(runs: Sequence[dict[str, Any]]) -> str:
    """Names of tests that failed are in the results file alone."""
    lines = ["| Kubernetes | backend | nodes | tests | passed | failed | not run |", "|---|---|---|---|---|---|---|"]
    for run in runs:
        total = run["passed"] + len(run["failed"])
        focus = run["focus"].replace("|", "\\|")  # else it would end the cell, in code too
        row = (run["version"], run["backend"], run["nodes"], f"`{focus}`: {total}", run["passed"])
        lines.append(f"| {' | '.join(map(str, row))} | {len(run['failed'])} | {len(run['not_run'])} |")
    return "\n".join(lines)
