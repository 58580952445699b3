# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a playbook of the lab registers is there when the next one of the same run checks the variables that it was given: both are
about this host."""

from __future__ import annotations

import re
from pathlib import Path

from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.variables import known_names, unknown_variables

ROOT = Path(__file__).resolve().parents[3]
PREFIXES = ("lab",)
_REGISTERED = re.compile(r"^ +register: (\w+)$", re.MULTILINE)


def registered_names() -> set[str]:
    files = [*(ROOT / "playbooks").rglob("*.yml"), *(ROOT / "roles").glob("*/tasks/**/*.yml")]
    return {name for path in files for name in _REGISTERED.findall(path.read_text(encoding="utf-8"))}


def test_no_name_of_a_result_is_taken_for_a_misspelt_variable() -> None:
    names = registered_names()
    assert {"lab_machines", "lab_programs_to_upgrade"} <= names
    known = known_names(LocalHost(), PREFIXES)
    problems = unknown_variables(known, PREFIXES, extra=(), inventory=names)
    assert [str(problem) for problem in problems] == []
