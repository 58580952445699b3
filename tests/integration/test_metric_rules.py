# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules that are shipped for Prometheus, read and tried by its own tool."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.integration.debian import unpacked

CASES = Path(__file__).with_name("balloon_rules.yml")


def test_prometheus_reads_the_rules_as_they_are_meant() -> None:
    promtool = unpacked("prometheus") / "usr/bin/promtool"
    done = subprocess.run(
        [str(promtool), "test", "rules", str(CASES)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
