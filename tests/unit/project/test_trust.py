# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What files, APIs and other machines say is data: it is no template, no task and no host's identity."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
PLAYS = [path for place in ("playbooks", "roles", "molecule") for path in sorted((ROOT / place).rglob("*.yml"))]
SHIPPED = [
    path
    for place in ("playbooks", "plugins", "roles", "molecule", "lab", "mk")
    for path in sorted((ROOT / place).rglob("*"))
    if path.is_file() and path.suffix in (".yml", ".py", ".cfg", ".j2", ".mk", ".sh")
] + [ROOT / "ansible.cfg"]


def where(pattern: str, paths: list[Path]) -> list[str]:
    found = re.compile(pattern)
    return [str(path.relative_to(ROOT)) for path in paths if found.search(path.read_text(encoding="utf-8"))]


def test_one_place_marks_texts_as_templates_and_that_one_looks_at_them_before() -> None:
    assert where(r"trust_as_template|TrustedAsTemplate|(?<!is_)trusted_as_template", SHIPPED) == [
        "plugins/inventory/lab.py"
    ]
    source = (ROOT / "plugins/inventory/lab.py").read_text(encoding="utf-8")
    assert source.count("trust_as_template(") == 1
    assert "trust_as_template(value) if isinstance(value, str) and _INERT.fullmatch(value) else value" in source


def test_nothing_connects_to_a_machine_that_it_does_not_know() -> None:
    assert (
        where(r"StrictHostKeyChecking=(no|off|accept-new)|(?i:host_key_checking\s*[=:]\s*(false|no|0))", SHIPPED) == []
    )
    assert where(r"UserKnownHostsFile=/dev/null", SHIPPED) == []


# Variables that choose tasks. `fleet_batch` has names of files, from the play itself; the machine of `balloons_leader` is from the inventory.
CHOOSERS = {
    "balloons_leader",
    "control_plane_state",
    "fleet_batch",
    "readiness_feature",
    "readiness_kind",
    "__readiness_feature",
}


def tasks(found: Any) -> Any:
    if isinstance(found, list):
        for part in found:
            yield from tasks(part)
    elif isinstance(found, dict):
        yield found
        for part in found.values():
            yield from tasks(part)


@pytest.mark.parametrize("path", PLAYS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_task_is_chosen_or_run_by_what_another_machine_said(path: Path) -> None:
    """Registered results name neither files of tasks nor hosts, and no shell is given them."""
    found = yaml.safe_load(path.read_text(encoding="utf-8")) if path.name != "molecule.yml" else []
    for task in tasks(found):
        for name in ("ansible.builtin.shell", "ansible.builtin.raw", "shell", "raw"):
            assert name not in task, f"{name} in {path}"
        delegated = str(task.get("delegate_to", "localhost"))
        assert delegated == "localhost" or "_result" not in delegated, delegated
        for name in ("ansible.builtin.include_tasks", "ansible.builtin.include_role", "ansible.builtin.import_tasks"):
            chosen = str(task.get(name, ""))
            names = set(re.findall(r"\{\{ *([A-Za-z_]+)", chosen))
            assert names <= CHOOSERS, chosen


def test_credentials_that_are_brought_to_a_machine_are_taken_away_however_the_task_ends() -> None:
    [block] = yaml.safe_load((ROOT / "playbooks/tasks/balloons.yml").read_text(encoding="utf-8"))
    [removal] = block["always"]
    place = removal["ansible.builtin.file"]
    assert (place["path"], place["state"]) == ("{{ lab_balloons_private }}", "absent")
    made = next(
        task["ansible.builtin.file"] for task in block["block"] if task.get("ansible.builtin.file", {}).get("mode")
    )
    assert (made["path"], made["mode"], made["owner"]) == (place["path"], "0700", "root")
    [copied] = [task for task in block["block"] if "ansible.builtin.copy" in task]
    assert copied["ansible.builtin.copy"]["mode"] == "0600"
    assert copied["ansible.builtin.copy"]["dest"].startswith(place["path"])
    assert copied["no_log"] is True


def test_what_is_fetched_of_a_machine_s_logs_is_printed_by_no_task() -> None:
    found = yaml.safe_load((ROOT / "playbooks/tasks/machine_logs.yml").read_text(encoding="utf-8"))
    assert [task["no_log"] for task in found] == [True, True]
    assert found[1]["ansible.builtin.copy"]["mode"] == "0600"
