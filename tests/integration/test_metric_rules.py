# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules that are shipped, read and tried by Prometheus's own tool."""

from __future__ import annotations

from pathlib import Path

from tests.integration.prometheus import RULES, promtool

CASES = Path(__file__).with_name("rule_cases.yml")


def test_every_rule_says_what_it_is_to_and_no_more() -> None:
    for words in (("check", "rules", "--lint=all", "--lint-fatal", str(RULES)), ("test", "rules", str(CASES))):
        done = promtool(*words)
        assert done.returncode == 0, done.stdout + done.stderr
