# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`make help` and `make help-dev` together list every target that has a text, and every playbook, once."""

from __future__ import annotations

import re
import subprocess
from collections import Counter

import pytest
import yaml

from scripts.make_help import GROUPS, ROOT, entries, listing

MAKEFILES = [*sorted((ROOT / "mk").glob("*.mk")), ROOT / "Makefile"]


def shown(target: str) -> list[str]:
    done = subprocess.run(
        ["make", "--no-print-directory", target], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def typed(lines: list[str]) -> list[str]:
    """What is to be typed, of each entry."""
    found = (re.match(r"  (?:make )?([\w.-]+)", line) for line in lines)
    return [match[1] for match in found if match]


@pytest.mark.parametrize("target", ["help", "help-dev"])
def test_each_entry_is_one_short_line(target: str) -> None:
    assert [line for line in shown(target) if len(line) > 120] == []


def test_each_target_with_a_text_is_in_one_list_of_the_two() -> None:
    targets = [name for file in MAKEFILES for name in re.findall(r"^([\w-]+):.*##", file.read_text(), flags=re.M)]
    listed = Counter(typed(shown("help")) + typed(shown("help-dev")))
    assert Counter(targets) == {name: count for name, count in listed.items() if "." not in name}
    assert set(listed.values()) == {1}


def test_users_find_every_playbook_by_itself_or_by_its_target() -> None:
    files = list((ROOT / "playbooks").glob("*.yml"))
    plays = {file.stem: yaml.safe_load(file.read_text()) for file in files}
    imported = {
        str(play["ansible.builtin.import_playbook"]).removesuffix(".yml")
        for rows in plays.values()
        for play in rows
        if "ansible.builtin.import_playbook" in play
    }
    makefiles = "\n".join(file.read_text() for file in MAKEFILES)
    named = set(re.findall(r"ballast\.kube\.(\w+)", makefiles))
    named |= set(re.findall(r"\$\(call (?:lab|plane)-playbook,(\w+)\)", makefiles))
    assert set(plays) - imported - named == set()


def test_what_users_want_comes_in_the_order_of_the_groups_and_none_is_empty() -> None:
    lines = shown("help")
    assert tuple(line for line in lines if line in GROUPS["users"]) == GROUPS["users"]
    assert all(lines[lines.index(name) + 1].startswith("  ") for name in GROUPS["users"])
    assert not set(typed(lines)) & set(typed(shown("help-dev")))


def test_an_entry_below_no_group_and_an_unknown_group_are_refused() -> None:
    assert entries("##@ Lab\nlab: env  ## bring it up\n") == {"Lab": [("make lab", "bring it up")]}
    with pytest.raises(KeyError):
        entries("lab: env  ## bring it up\n")
    with pytest.raises(KeyError):
        listing(["##@ Elsewhere\nlab: env  ## bring it up\n"], "users")
