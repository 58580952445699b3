"""What holds for every file of plugins/, whatever it does."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
PLUGINS = sorted((ROOT / "plugins").rglob("*.py"))
UTILS = ROOT / "plugins/module_utils"
ENGINES = [path for path in PLUGINS if UTILS in path.parents and UTILS / "_ansible" not in path.parents]
RUN_LOOP = UTILS / "_ansible/run.py"
LAZY = {"cryptography", "yaml"}  # imported inside the functions that need it, which say so when it is missing
# Programs of ours run from a package's or a role's installation, beside them.
OF_PROGRAMS = {
    "_pulls/proxy": {"grpc", "prometheus_client"},
    "_balloon/agent": {"prometheus_client"},
    "_plane/aggregation/agent": {"prometheus_client"},
}

HEAD = """# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def where(pattern: str, paths: list[Path]) -> list[str]:
    """Each place that the pattern is found in, as file:line."""
    found = re.compile(pattern)
    return [
        f"{name(path)}:{number}"
        for path in paths
        for number, line in enumerate(text(path).splitlines(), start=1)
        if found.search(line)
    ]


def test_there_are_plugins_to_look_at():
    assert len(ENGINES) > 10


def test_every_plugin_names_its_licence():
    assert [name(path) for path in PLUGINS if text(path) and HEAD not in text(path)] == []


def test_no_file_is_longer_than_500_lines():
    long = {name(path): len(text(path).splitlines()) for path in PLUGINS}
    assert {path: lines for path, lines in long.items() if lines > 500} == {}


def test_packages_of_engines_are_empty_files():
    assert [name(path) for path in ENGINES if path.name == "__init__.py" and text(path)] == []
    assert [
        name(path.parent) for path in ENGINES if not (path.parent / "__init__.py").exists() and path.parent != UTILS
    ] == []


def test_only_the_run_loop_knows_of_check_mode_and_failing():
    others = [
        path
        for path in PLUGINS
        if path != RUN_LOOP and path.parent.name in ("modules", "module_utils") or path in ENGINES
    ]
    assert (
        where(r"\.check_mode\b|fail_json|exit_json|AnsibleModule\b", [path for path in others if path != RUN_LOOP])
        == []
    )


def test_only_the_host_starts_processes():
    others = [path for path in PLUGINS if path.name != "host.py"]
    assert where(r"^\s*(import subprocess|from subprocess)|os\.(system|popen|fork|exec\w+|spawn\w+)\(", others) == []


def imports(tree: ast.AST) -> set[str]:
    """First names of everything imported from outside this collection."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add((node.module or "").split(".")[0])
    return found


@pytest.mark.parametrize("path", [path for path in ENGINES if text(path)], ids=name)
def test_an_engine_imports_the_standard_library_only(path):
    allowed = LAZY.union(*(names for place, names in OF_PROGRAMS.items() if place in str(path)))
    assert imports(ast.parse(text(path))) - set(sys.stdlib_module_names) - allowed == set()


@pytest.mark.parametrize("path", [path for path in PLUGINS if text(path)], ids=name)
def test_a_plugin_has_the_syntax_of_python_3_9(path):
    tree = ast.parse(text(path), feature_version=(3, 9))
    assert any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)


def test_groups_of_actions_name_modules_that_exist():
    runtime = yaml.safe_load(text(ROOT / "meta/runtime.yml"))
    modules = {path.stem for path in (ROOT / "plugins/modules").glob("*.py")}
    for group, members in runtime.get("action_groups", {}).items():
        assert set(members) <= modules, group
