# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is written of a measured fleet, and that every contender has a play."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.ballast.kube.plugins.module_utils._node.features import FEATURES
from tests.bench import fleet_report
from tests.bench.fleet_report import HEADS, WHO, write_report
from tests.bench.page import wrapped

PLAYS = Path(fleet_report.__file__).with_name("fleet")
SECONDS = {"ours": 2.0, "apart": 5.0, "stock": 20.0, "one_empty": 1.0, "three_empty": 3.0}


def found() -> dict[str, Any]:
    rows = [
        {"hosts": hosts, "who": who, "mode": mode, "seconds": seconds * hosts, "busy": seconds * hosts * 1.5}
        for hosts in (1, 3)
        for who, seconds in SECONDS.items()
        for mode in ("converge", "check")
    ]
    machine = {"cpus": 2, "cpu": "one", "memory_mib": 2048, "kernel": "6.1"}
    return {
        "machine": machine,
        "ansible": "2.19",
        "kubernetes": "1.37.1",
        "sizes": [(1, 1), (3, 1)],
        "idle": 0.1,
        "runs": rows,
    }


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_tables_have_a_column_for_each_contender(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- bench:fleet begin -->\nold\n<!-- bench:fleet end -->\n", encoding="utf-8")
    monkeypatch.setattr(fleet_report, "PAGE", page)
    write_report(found(), tmp_path / "results/fleet.json")
    text = page.read_text(encoding="utf-8")
    assert wrapped(capsys.readouterr().out.strip()) in text
    rows = [cells(line) for line in text.splitlines() if line.startswith("|")]
    heads = ["", "hosts", *HEADS.values()]
    assert rows[0] == [*heads, "stock / one task"]
    assert rows[2] == ["no change", "1", "2.00 s", "5.00 s", "20.0 s", "1.00 s", "3.00 s", "10.0"]
    assert rows[4] == [
        "no change",
        "each further, of the most measured",
        "2.00 s",
        "5.00 s",
        "20.00 s",
        "1.00 s",
        "3.00 s",
        "10.0",
    ]
    assert [row[:3] for row in rows[8:10]] == [
        ["goal", "1", "at most 1.5 s"],
        ["goal", "each further", "at most 0.35 s"],
    ]
    assert rows[10] == heads
    assert rows[12] == ["no change", "1", "3.00 s", "7.50 s", "30.0 s", "1.50 s", "4.50 s"]
    assert {len(row) for row in rows[:10]} == {len(heads) + 1}
    assert {len(row) for row in rows[10:]} == {len(heads)}


def test_a_contender_that_many_hosts_were_not_measured_with_has_a_blank_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = found()
    more = [{**row, "hosts": 9} for row in told["runs"] if row["hosts"] == 3 and row["who"] != "stock"]
    write_report({**told, "runs": told["runs"] + more}, None)
    rows = [cells(line) for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert rows[4] == ["no change", "9", "6.00 s", "15.0 s", "", "3.00 s", "9.00 s", ""]
    assert rows[5][2:5] == ["0.50 s", "1.25 s", "20.00 s"]


def test_each_contender_is_a_play_and_each_play_a_contender() -> None:
    assert sorted(WHO) == sorted(path.stem for path in PLAYS.glob("*.yml"))


def test_one_task_asks_for_what_three_ask_for() -> None:
    ((ours,), apart) = (yaml.safe_load((PLAYS / f"{who}.yml").read_text())[0]["tasks"] for who in ("ours", "apart"))
    asked = {
        name: task[f"ballast.kube.{name}"] for task in apart for name in FEATURES if f"ballast.kube.{name}" in task
    }
    assert ours["ballast.kube.node"] == asked
    assert set(asked) == set(FEATURES)
