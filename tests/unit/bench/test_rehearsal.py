# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rehearsal of a large fleet, with a few hosts, by the real playbook; and what is written of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import rehearsal_report
from tests.bench.rehearsal import NO_CHANGE, PREVIEW, ROWS, measure_one, measure_slices


@pytest.mark.parametrize("what", [NO_CHANGE, PREVIEW])
def test_every_host_is_looked_at_and_none_is_changed(what: str) -> None:
    """It ends the program where the playbook says anything else."""
    run = measure_one(what, 3, 3)
    assert (run.hosts, run.forks) == (3, 3)
    assert run.memory_mib > 10
    assert run.plan_bytes > 100


def test_slices_at_once_are_one_row() -> None:
    """Each host is in one of them."""
    run = measure_slices(NO_CHANGE, 5, 2, 2)
    assert (run.hosts, run.forks, run.slices) == (5, 2, 2)
    assert run.cpu_seconds > 0


def test_rows_that_were_measured_before_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"forks": 10, "seconds": 50.0, "cpu_seconds": 40.0, "memory_mib": 200.0, "plan_bytes": 2048, "slices": 1}
    machine = {"cpus": 2, "cpu": "x", "memory_mib": 4096, "kernel": "6", "load_before": 0.0}
    found = {"machine": machine, "ansible": "2.19.14", "read_seconds": 0.3}
    monkeypatch.setattr(rehearsal_report, "RESULTS", tmp_path / "rehearsal.json")
    page = tmp_path / "page.md"
    page.write_text("<!-- bench:rehearsal begin -->\n<!-- bench:rehearsal end -->\n", encoding="utf-8")
    monkeypatch.setattr(rehearsal_report, "PAGE", page)
    for hosts, slices in ((625, 1), (1250, 1), (5000, 8)):
        now = rehearsal_report.beside({**found, "runs": [{**row, "what": NO_CHANGE, "hosts": hosts, "slices": slices}]})
        rehearsal_report.write_report(now, rehearsal_report.RESULTS)
    text = page.read_text(encoding="utf-8")
    assert "| no change | 625 | 10 | 50 s | 0.080 s | 40 s | 200 MiB | 2 KiB |" in text
    assert "| no change | 1250 |" in text
    assert "| no change, 8 slices at once | 5000 | 10 | 50 s |" in text
    assert "in 8 slices takes 50 s" in text


def test_the_rows_have_those_that_were_asked_for() -> None:
    assert {row.split("x")[0] for row in ROWS} >= {"500", "5000"}
