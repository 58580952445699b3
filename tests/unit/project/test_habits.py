"""What holds for every file of plugins/, whatever it does."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PLUGINS = sorted((ROOT / "plugins").rglob("*.py"))
UTILS = ROOT / "plugins/module_utils"
ENGINES = [path for path in PLUGINS if UTILS in path.parents and UTILS / "_ansible" not in path.parents]
RUN_LOOP = UTILS / "_ansible/run.py"
LAZY = {
    "ansible_runner",
    "cryptography",
    "kubernetes",
    "urllib3",
    "yaml",
}  # imported inside the functions that need it, which say so when it is missing
# Programs of ours run from a package's or a role's installation, beside them.
OF_PROGRAMS = {
    "_pulls/proxy": {"grpc", "hpack", "prometheus_client"},
    "_balloon/agent": {"prometheus_client"},
    "_control_plane/aggregation/agent": {"prometheus_client"},
    "_service_proxy/faces": {"prometheus_client"},
}
OF_JSON = (
    "_core/text/json_text.py",
    "_vm/confined_program.py",  # run as a text by itself, on an order of ours
    "_rules/parse.py",
    "_kube_proxy/probes.py",  # in the text of a program that runs elsewhere
)
OF_READING = (
    "_core/host/detached_program.py",  # a program that starts another, and reads what the kernel says of it
    "_agent/program.py",  # our own sources
    "_pulls/proxy/relay.py",  # a method of its own of that name, as of its neighbour
    "_pulls/proxy/runtime_side.py",
    "_images/layout.py",  # writes
)

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
    # All but the first are programs of their own, which the host starts.
    starters = ("local_host.py", "confined_program.py", "detached_program.py", "module_server.py")
    others = [path for path in PLUGINS if path.name not in starters]
    assert where(r"^\s*(import subprocess|from subprocess)|os\.(system|popen|fork|exec\w+|spawn\w+)\(", others) == []


def test_json_from_elsewhere_is_read_in_one_place():
    """Else deep nesting and numbers of thousands of digits are a traceback. A snapshot of Services says its lines itself."""
    others = [path for path in ENGINES if name(path).rpartition("module_utils/")[2] not in OF_JSON]
    assert where(r"json\.loads?\((?!json\.dumps\()", others) == []


def test_files_and_sockets_are_read_in_one_place():
    """What reads to an end that another decides has a cap, and opens nothing but files."""
    others = [path for path in PLUGINS if name(path).rpartition("module_utils/")[2] not in OF_READING]
    assert (
        where(r"\.read\(\)|\.readlines\(|\.communicate\(|read_bytes\(|read_text\(|tarfile\.open\([^w]*$", others) == []
    )


def imports(tree: ast.AST) -> set[str]:
    """First names of everything imported from outside this collection."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add((node.module or "").split(".")[0])
    return found


@pytest.fixture(scope="module")
def trees():
    """By plugin that is not empty, as Python 3.9 reads it: a SyntaxError names the file."""
    return {path: ast.parse(text(path), filename=name(path), feature_version=(3, 9)) for path in PLUGINS if text(path)}


def test_an_engine_imports_the_standard_library_only(trees):
    refused = {}
    for path in trees.keys() & set(ENGINES):
        allowed = LAZY.union(*(names for place, names in OF_PROGRAMS.items() if place in str(path)))
        refused[name(path)] = imports(trees[path]) - set(sys.stdlib_module_names) - allowed
    assert {path: names for path, names in refused.items() if names} == {}


def test_a_plugin_has_the_syntax_of_python_3_9(trees):
    assert [
        name(path)
        for path, tree in trees.items()
        if not any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
    ] == []


# What makes files and directories where another user may have been first.
PLACES = {
    f"plugins/module_utils/_core/host/{name}.py"
    for name in ("directories", "file_replacement", "local_tree", "safe_path")
}
OWN_ROOT = "plugins/module_utils/_vm/confined_program.py"  # works in a file system that it has just made for itself
MAKES = (
    r"tempfile\.(mkstemp|mkdtemp|mktemp|TemporaryDirectory)|os\.(makedirs|mkdir|mknod|symlink|link|rename|replace|chown|chmod)\("
    r"|O_CREAT|open\([^()]*, *[\"'][wax]|\.(write_text|write_bytes|touch|mkdir|symlink_to)\("
)


def test_files_and_directories_are_made_in_one_place_of_the_core():
    others = [path for path in PLUGINS if name(path) not in {*PLACES, OWN_ROOT}]
    assert where(MAKES, others) == []
    assert all(where(r"dir_fd", [ROOT / path]) for path in PLACES)


def test_nothing_teaches_root_a_path_that_every_user_may_take_first():
    """Below /tmp anybody can make a file or a link of the name beforehand."""
    taught = [ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "Makefile", ROOT / "CHANGELOG.md"]
    for place in ("docs", "changelogs", "playbooks", "roles", "lab", "mk", "plugins"):
        taught += [
            path for path in (ROOT / place).rglob("*") if path.suffix in (".md", ".yml", ".yaml", ".mk", ".j2", ".json")
        ]
    taught += [
        path for path in PLUGINS if path.parent.name in ("modules", "doc_fragments", "inventory", "become", "callback")
    ]
    assert len(taught) > 100
    assert where(r"(?<![\w.])/(var/)?tmp/\w", [path for path in taught if path.is_file()]) == []
