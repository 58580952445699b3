# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A log that a supervisor appends to does not grow without end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3] / ".build/collections"
WRITES = """
import os, sys
sys.path.insert(0, sys.argv[1])
from ansible_collections.ballast.kube.plugins.module_utils._agent import log, log_file
log_file.BYTES = 5000
told = log.Log()
for number in range(int(sys.argv[2])):
    told.event("tick", number=number, filler="x" * 80)
os.write(1, b"output\\n")
"""


def written(path: Path, lines: int) -> None:
    with open(path, "ab") as output:
        argv = [sys.executable, "-c", WRITES, str(ROOT), str(lines)]
        subprocess.run(argv, stdout=output, stderr=output, check=True, timeout=60, umask=0o077)


def test_the_log_and_the_one_before_are_so_large_and_hold_the_newest(tmp_path: Path) -> None:
    log = tmp_path / "agent.log"
    written(log, 1000)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["agent.log", "agent.log.1"]
    assert all(entry.stat().st_size < 5300 for entry in tmp_path.iterdir())
    lines = (log.read_text() + (tmp_path / "agent.log.1").read_text()).splitlines()
    assert "output" in lines, "both outputs go to the new file"
    assert any("number=999 " in line for line in lines)
    assert log.stat().st_mode & 0o777 == 0o640


def test_a_few_lines_move_nothing(tmp_path: Path) -> None:
    written(tmp_path / "agent.log", 10)
    assert [entry.name for entry in tmp_path.iterdir()] == ["agent.log"]


def test_where_no_file_can_be_made_the_log_is_bounded_all_the_same(tmp_path: Path) -> None:
    log = tmp_path / "agent.log"
    (tmp_path / "agent.log.new").mkdir()
    written(log, 1000)
    assert log.stat().st_size < 5300
    assert "number=999 " in log.read_text()


def test_a_link_in_the_place_of_the_log_is_not_followed(tmp_path: Path) -> None:
    """Somebody has moved the file, and put another one there."""
    log, other = tmp_path / "agent.log", tmp_path / "other"
    other.write_text("kept")
    with open(log, "ab") as output:
        os.rename(log, tmp_path / "moved")
        log.symlink_to(other)
        argv = [sys.executable, "-c", WRITES, str(ROOT), "1000"]
        log_before = other.read_text()
        subprocess.run(argv, stdout=output, stderr=output, check=True, timeout=60)
    assert other.read_text() == log_before
    assert (tmp_path / "moved").stat().st_size < 5300
