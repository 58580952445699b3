# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rehearsal of a rollout, with a few nodes, by the real playbook; and what is written of one."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.bench import rollout_report
from tests.bench.page import wrapped
from tests.bench.rollout import FAILING, MAX_FAIL, Bench, Rehearsal, Run, beside, few, many, name_of, problems_of
from tests.bench.rollout_node import SimulatedNode
from tests.bench.rollout_report import HEADS, write_report

PATIENT = {"kube_proxy_confirm_within": 300}  # of a busy machine that runs the tests
RUN = Run("few", 5, 300, 16, 292, 8, (), 8, 30, 900.0, 400.0, 210.4, 1.2)


def test_nodes_that_fail_go_back_and_the_others_are_confirmed(tmp_path: Path) -> None:
    faults = {"n001": "answer lost", "n003": "fails its audit", "n004": "killed during the change", "n005": "slow"}
    options = {"kube_proxy_serial": [5], "kube_proxy_max_fail": 2, **PATIENT}
    run, text = Bench(tmp_path, 5, (0.1, 0.2)).run(Rehearsal("few", faults), 5, **options)
    assert (run.confirmed, run.back, run.lost, run.failed) == (3, 2, (), 2), text
    assert 0 < run.longest_wait < PATIENT["kube_proxy_confirm_within"]
    assert run.memory_mib > 10


def test_a_run_with_too_many_failures_ends_with_its_batch(tmp_path: Path) -> None:
    faults = dict.fromkeys(["n001", "n002"], "refuses")
    options = {"kube_proxy_serial": [2], "kube_proxy_max_fail": 0, **PATIENT}
    run, text = Bench(tmp_path, 4, (0.1, 0.2)).run(Rehearsal("many", faults), 5, **options)
    assert (run.confirmed, run.back, run.lost, run.failed) == (0, 4, (), 2), text


# What a module returns beside what every node has: what was asked for by an option, and stages of its own time.
UNASKED = {"diff", "readiness", "seconds", "change_seconds"}


@pytest.mark.parametrize(
    ("module", "options"),
    [
        ("kube_proxy_info", {}),
        ("kube_proxy", {"state": "present", "mode": "nftables", "confirm_within": 20}),
        ("kube_proxy", {"state": "confirmed"}),
        ("kube_proxy", {"state": "previous"}),
        ("kube_proxy_cleanup", {"mode": "iptables"}),
    ],
)
def test_a_simulated_node_answers_with_what_the_module_returns(module: str, options: dict[str, Any]) -> None:
    source = (Path(__file__).resolve().parents[3] / f"plugins/modules/{module}.py").read_text(encoding="utf-8")
    documented = set(yaml.safe_load(source.partition('RETURN = r"""')[2].partition('"""')[0]))
    answer = SimulatedNode("n1").run(module, options, begun=0, now=1)
    assert isinstance(answer, dict)
    assert set(answer) - {"changed"} == documented - UNASKED


def test_rehearsals_plant_what_they_say() -> None:
    planted = few(300).faults
    assert (len(planted), sum(fault in FAILING for fault in planted.values())) == (16, 8)
    assert set(planted) <= {name_of(number) for number in range(1, 301)}
    assert len(many(300).faults) == 60 > MAX_FAIL
    assert set(many(300).faults.values()) == set(FAILING)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"lost": ("n007",)}, "neither confirmed nor back: n007"),
        ({"failed": MAX_FAIL + 31}, "41 nodes failed, more than 10 beyond a batch of 30"),
        ({"confirmed": 291}, "291 of 292 nodes were confirmed"),
        ({"longest_wait": 20.5}, "a change waited 20.5 seconds for its confirmation"),
    ],
)
def test_what_a_rollout_must_hold_is_checked(change: dict[str, Any], text: str) -> None:
    assert problems_of(RUN, few(300)) == []
    assert problems_of(replace(RUN, **change), few(300)) == [text]


def test_parts_are_put_together_where_they_were_measured_alike() -> None:
    few_5, few_50, many_5 = asdict(RUN), {**asdict(RUN), "forks": 50}, {**asdict(RUN), "rehearsal": "many"}
    earlier = {"ansible": "2.19", "machine": {"cpus": 2, "load_before": 0.1}, "runs": [many_5, few_5]}
    again, machine = {**few_5, "seconds": 1.0}, {"cpus": 2, "load_before": 0.3}
    assert beside(earlier, {**earlier, "machine": machine, "runs": [few_50, again]})["runs"] == [again, few_50, many_5]
    assert beside(earlier, {"ansible": "2.20", "runs": [few_50]})["runs"] == [few_50]
    assert beside({"runs": []}, {"ansible": "2.20", "runs": [few_50]})["runs"] == [few_50]


def test_the_table_has_a_row_for_each_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- bench:rollout begin -->\nold\n<!-- bench:rollout end -->\n", encoding="utf-8")
    monkeypatch.setattr(rollout_report, "PAGE", page)
    found = {
        "machine": {"cpus": 2, "cpu": "one", "load_before": 0.4, "memory_mib": 2048, "kernel": "6.1"},
        "ansible": "2.19",
        "max_fail": 10,
        "confirm_within": 20,
        "change_seconds": (8.0, 12.0),
        "read_seconds": 0.3,
        "runs": [asdict(RUN)],
    }
    write_report(found, tmp_path / "results/rollout.json")
    text = page.read_text(encoding="utf-8")
    assert wrapped(capsys.readouterr().out.strip()) in text
    (heads, _line, row) = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")
    ]
    assert heads == list(HEADS)
    assert row == [
        "few failures: to the end",
        "5",
        "16 of 300",
        "8",
        "292",
        "8",
        "900 s",
        "3.0 s",
        "400 s",
        "210 MiB",
        "1.2 s",
    ]
