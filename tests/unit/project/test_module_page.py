# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of modules by person against the modules."""

from __future__ import annotations

import re

import pytest

from scripts import module_page
from scripts.module_page import INTERNAL, PAGE, as_page, descriptions, misplaced

LINES = descriptions()


def test_the_page_is_what_the_modules_say() -> None:
    assert module_page.main(["--check"]) == 0


def test_each_module_has_one_line_under_one_person() -> None:
    assert misplaced(LINES) == set()
    rows = re.findall(r"^\| \[`(\w+)`\]\((\S+)\) \| ", as_page(LINES), re.MULTILINE)
    assert sorted(name for name, _source in rows) == sorted(LINES)
    assert [source for _name, source in rows if not (PAGE.parent / source).is_file()] == []


def test_internal_modules_stand_apart() -> None:
    users, internal = as_page(LINES).split("\n## Internal\n")
    for name, line in LINES.items():
        assert f"| [`{name}`](" in (internal if line.startswith(INTERNAL) else users)
    assert INTERNAL not in users + internal


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        ({**LINES, "new": "Do something new"}, {"new"}),
        ({name: line for name, line in LINES.items() if name != "node"}, {"node"}),
        ({**LINES, "node": f"{INTERNAL}do something"}, {"node"}),
    ],
    ids=["in no group", "no module", "internal, in a person's group"],
)
def test_a_module_without_its_place_is_found(lines: dict[str, str], wrong: set[str]) -> None:
    assert misplaced(lines) == wrong
