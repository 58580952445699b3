# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Limits that move in step with balloons, on real kernels: slices_of_processes.py with the cgroups of this machine, and with
cgroup v2 in a virtual machine. test_vm.py tries slices of systemd.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration import uml
from tests.integration.slices_of_processes import FILE, UNREAD

TESTS = "tests/integration/slices_of_processes.py"
SECONDS = 600


@pytest.fixture
def unread(tmp_path: Path) -> Path:
    path = tmp_path / "unread"
    with path.open("wb") as file:
        for _number in range(UNREAD):
            file.write(os.urandom(2**20))
        file.flush()
        os.fsync(file.fileno())
    return path


@pytest.mark.skipif(
    os.geteuid() != 0 or Path("/run/systemd/system").exists(),
    reason="only root can make cgroups, and systemd makes its own",
)
def test_with_the_cgroups_of_this_machine(unread: Path) -> None:
    argv = [sys.executable, "-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider", TESTS]
    env = {**os.environ, FILE: str(unread)}
    done = subprocess.run(argv, cwd=uml.ROOT, env=env, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout, done.stdout


@pytest.mark.vm
def test_with_cgroup_v2(unread: Path, tmp_path: Path) -> None:
    prepare = f"mount -t cgroup2 cgroup2 /sys/fs/cgroup\nexport {FILE}={shlex.quote(str(unread))}"
    uml.run_tests(TESTS, prepare=prepare, place=tmp_path, seconds=SECONDS)
