# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tables of variables against the specs that they are made of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from scripts import option_tables
from scripts.option_tables import as_markdown, table

ROOT = Path(__file__).resolve().parents[3]
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir())


def names(text: str) -> list[str]:
    return re.findall(r"^\| `([\w.\[\]]+)`", text, re.MULTILINE)


def test_the_pages_have_the_tables_of_the_specs() -> None:
    assert option_tables.main(["--check"]) == 0


@pytest.mark.parametrize("role", ROLES)
def test_the_page_of_a_role_has_every_variable_of_its_entry_points(role: str) -> None:
    page = (ROOT / f"roles/{role}/README.md").read_text(encoding="utf-8")
    entries = yaml.safe_load((ROOT / f"roles/{role}/meta/argument_specs.yml").read_text("utf-8"))["argument_specs"]
    variables = {name for entry in entries.values() for name in entry["options"]}
    assert variables - set(names(page)) == set()


def test_a_row_has_type_default_and_description() -> None:
    rows = table("balloons").splitlines()
    assert rows[2] == "| `balloons_state` | str | `present` | Whether nodes have targets. One of `present`, `absent`. |"
    assert "| `balloons_nodes` | list of dict | `[]` |" in table("balloons")
    assert "| `balloons_nodes[].name` | str | required | Name of the Node. |" in rows
    assert "| Entry point `kubelet`. The directory of" in table("balloons")


def test_variables_can_be_chosen_and_have_the_names_of_make() -> None:
    chosen = names(table("lab,lab_dir,lab_topology,lab_archive,lab_node"))
    assert chosen == ["lab_dir", "lab_topology", "lab_archive", "lab_node"]
    made = re.findall(r"\(`(\w+)`\)", table("lab,lab_dir,lab_topology,lab_archive,lab_node"))
    assert made == ["LAB_DIR", "LAB_TOPOLOGY", "ARCHIVE", "NODE"]


def test_what_playbooks_with_batches_share_is_one_table() -> None:
    shared = names(table("PREFIX"))
    assert {"PREFIX_hosts", "PREFIX_canaries", "PREFIX_serial"} <= set(shared)
    assert "PREFIX_plan_file" not in shared


def test_variables_of_modules_are_those_that_a_playbook_takes() -> None:
    shown = names(table("kube_proxy"))
    assert {"kube_proxy_hosts", "kube_proxy_mode", "kube_proxy_config_path"} <= set(shown)
    assert "kube_proxy_state" not in shown


def test_marks_of_ansible_become_markdown() -> None:
    text = "O(a) of M(b.c.d), V(x) and C(f(y\\)); O(b.c.d#module:opt), L(text,https://e.org), B(bold)."
    assert as_markdown(text) == "`a` of `b.c.d`, `x` and `f(y)`; `opt` of `b.c.d`, [text](https://e.org), *bold*."
