# Copyright (c) 2026 the ballast.kube authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks as they are typed: one prefix of variables each."""

import ast
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
PLAYBOOKS = sorted((ROOT / "playbooks").glob("*.yml"))
# The playbooks of one feature share its variables.
PREFIXES = (
    "balloons",
    "fleet",
    "control_plane",
    "plane",
    "image_pull_proxy",
    "kube_proxy",
    "kubernetes_binaries",
    "lab",
    "readiness",
)


@pytest.mark.parametrize("playbook", PLAYBOOKS, ids=lambda path: path.stem)
def test_variables_in_the_head_of_a_playbook_have_one_prefix(playbook: Path) -> None:
    head = [line for line in playbook.read_text().splitlines() if line.startswith("#")]
    names = re.findall(r"-e ([a-z_]+)=", "\n".join(head))
    prefixes = {prefix for name in names for prefix in PREFIXES if name.startswith(f"{prefix}_")}
    assert len(prefixes) <= 1
    assert all(name.startswith(PREFIXES) for name in names)


LOCAL = [path for path in PLAYBOOKS if path.stem.startswith(("lab_", "control_plane", "kubernetes_binaries"))]


@pytest.mark.parametrize("playbook", LOCAL, ids=lambda path: path.stem)
def test_a_play_of_this_host_takes_neither_strategy_nor_connection_nor_python_from_elsewhere(playbook: Path) -> None:
    """ANSIBLE_STRATEGY, an inventory of the user's with localhost, or with ansible_connection for all."""
    plays = [play for play in yaml.safe_load(playbook.read_text()) if "hosts" in play]
    assert {play["strategy"] for play in plays} == {"ansible.builtin.linear"}
    here = [play["vars"] for play in plays if play["hosts"] == "localhost"]
    pinned = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    assert [{name: row[name] for name in pinned} for row in here] == [pinned] * len(here)
    # `become` of a play is below ansible_become of an inventory.
    as_root = [play for play in plays if play["hosts"] == "localhost" and play.get("become") == "{{ lab_become }}"]
    assert [play["vars"].get("ansible_become") for play in as_root] == ["{{ lab_become }}"] * len(as_root)


def test_the_playbook_of_the_pull_proxy_is_named_after_its_role() -> None:
    assert (ROOT / "playbooks/image_pull_proxy.yml").exists()
    assert (ROOT / "roles/image_pull_proxy").is_dir()
    shipped = [path for place in ("playbooks", "roles", "plugins", "docs") for path in (ROOT / place).rglob("*.*")]
    texts = {path: path.read_text() for path in shipped if path.suffix in {".yml", ".py", ".md"}}
    former = r"\bimage_pulls_(?!info\b|containerd\b)[a-z_]+|ansible-playbook ballast\.kube\.image_pulls\b"
    assert [(str(path), match) for path, text in texts.items() for match in re.findall(former, text)] == []


SHIPPED = [
    path
    for place in ("plugins", "roles", "playbooks")
    for path in sorted((ROOT / place).rglob("*"))
    if path.suffix in {".py", ".yml", ".j2"} and "toolchain" not in path.parts
]
# A target of the checkout, or a variable of one. LAB_DIR in the environment chooses the directory for the inventory.
OF_CHECKOUT = re.compile(
    r"\bmake (?:lab|plane|packages|binaries|readiness|env|test|bench)\b(?:-[a-z]+)?|(?<![A-Z_])(?:LAB|PLANE)_[A-Z]+"
)


def texts(path: Path) -> list[str]:
    """What is shown to people: strings of Python without docstrings, and all of YAML."""
    source = path.read_text()
    if path.suffix != ".py":
        return [line for line in source.splitlines() if not line.lstrip().startswith("#")]
    tree = ast.parse(source)
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and node.body
        if isinstance(node.body[0], ast.Expr)
    }
    strings = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return [node.value for node in strings if id(node) not in documentation]


def test_no_message_of_the_installed_collection_names_the_targets_of_the_checkout() -> None:
    named = {
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in SHIPPED
        for text in texts(path)
        for match in OF_CHECKOUT.finditer(text)
    }
    assert named - {"plugins/inventory/lab.py: LAB_DIR"} == set()


@pytest.mark.parametrize("defaults", sorted(ROOT.glob("roles/*/defaults/main.yml")), ids=lambda path: path.parts[-3])
def test_no_default_of_a_role_is_in_the_directory_of_a_lab(defaults: Path) -> None:
    values = yaml.safe_load(defaults.read_text())
    assert {name: value for name, value in values.items() if str(value).startswith("/var/lib/ballast/lab")} == {}


# Parts of a lab, which needs Debian, and what the next change of its own page replaces.
OF_LABS = ("_lab/", "_vm/", "_images/", "_control_plane/")
OTHERS = {"_core/text/packages.py", "_core/text/document.py", "_core/kube/library.py"}


def test_remedies_on_nodes_name_the_package_manager_of_the_node() -> None:
    utils = ROOT / "plugins/module_utils"
    files = [path for path in sorted(utils.rglob("*.py")) if any("apt-get " in text for text in texts(path))]
    names = [str(path.relative_to(utils)) for path in files]
    assert [name for name in names if not name.startswith(OF_LABS) and name not in OTHERS] == []


def test_playbooks_print_their_summary_where_any_callback_shows_it() -> None:
    assert [path.name for path in SHIPPED if path.suffix == ".yml" and "set_stats" in path.read_text()] == []


@pytest.mark.parametrize(
    ("target", "variable", "option"),
    [
        ("lab", "LAB_NAME", "lab_name"),
        ("lab-resize", "NODE", "lab_node"),
        ("lab-snapshot", "SNAPSHOT", "lab_snapshot"),
        ("lab-restore", "SNAPSHOT", "lab_snapshot"),
        ("binaries", "LAB_KUBERNETES", "kubernetes_binaries_version"),
    ],
)
def test_a_variable_of_make_is_one_value_of_its_playbook(target: str, variable: str, option: str) -> None:
    """Else Ansible takes what follows a blank for another variable."""
    argv = ["make", "--dry-run", "--no-print-directory", target, f"{variable}=x lab_dir=/srv"]
    shown = subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert f'{option}="x lab_dir=/srv"' in shlex.split(shown.splitlines()[-2 if target == "lab" else -1])


def test_an_image_archive_is_checked_before_it_replaces_one_of_the_lab() -> None:
    tasks = yaml.safe_load((ROOT / "playbooks/tasks/archive.yml").read_text())
    checks = [
        number for number, task in enumerate(tasks) if task.get("check_mode") and "ballast.kube.lab_record" in task
    ]
    copies = [number for number, task in enumerate(tasks) if "ansible.builtin.copy" in task]
    assert checks
    assert checks[0] < copies[0]


def test_what_a_shell_has_set_for_other_work_does_not_reach_a_recipe() -> None:
    """Ansible refuses a locale without UTF-8; with PIP_USER pip installs beside the environment."""
    argv = ["make", "--no-print-directory", "--eval=shown:;@env", "shown"]
    env = {**os.environ, "LC_ALL": "C", "PIP_USER": "1", "PIP_TARGET": "/srv/elsewhere"}
    shown = subprocess.run(argv, cwd=ROOT, env=env, check=True, capture_output=True, text=True).stdout.splitlines()
    assert "LC_ALL=C.UTF-8" in shown
    assert [line for line in shown if line.startswith(("PIP_USER=", "PIP_TARGET="))] == []
