# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The examples of every page against the code: targets, playbooks, variables, modules and options are there, and plays pass Ansible's syntax check.

Pages whose commands are run besides, on a lab: tests/integration/test_pages.py, molecule/kubeadm.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from tests.unit.page_examples import (
    ROOT,
    Example,
    count_fences,
    find_command_problems,
    find_yaml_problems,
    is_play,
    read_commands,
    read_examples,
)

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "roles").glob("*/README.md"))]
PLUGINS = sorted(path for path in (ROOT / "plugins").glob("*/[a-z]*.py") if "\nEXAMPLES = " in path.read_text("utf-8"))
# `make lab LAB_NODES=5` in the text
INLINE = re.compile(r"(?<!`)`((?:make|ansible-playbook ballast\.kube\.\w+|ansible) [^`\n]+)`(?!`)")
# Capitals stand for what the reader chooses: LAB_DIR/..., NAME, ...
FOR_THE_READER = re.compile(r"\.\.\.|\bOPTION\b|\bNAME\b(?!=)")
# By the language of a block. Those without one are figures and what programs print: test_samples.py, and below.
CHECKED = {"console", "yaml", ""}
ELSEWHERE = {
    "docs/CONTRIBUTING.md": {"python": "tests/unit/project/test_example.py"},
    "docs/awx.md": {"json": "scripts/survey_page.py", "text": "a figure"},
    "docs/how-to-application.md": {"python": "tests/integration/test_pages.py"},
    "docs/image-pulls.md": {"json": "tests/unit/pulls/node/test_change.py"},
    "docs/metrics.md": {"promql": "scripts/alert_page.py"},
}
# A target that is named without the variable that it asks for.
MENTIONED = "*** name the"


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def examples(path: Path) -> list[Example]:
    return read_examples(path.read_text(encoding="utf-8"))


def files(found: Sequence[Example]) -> list[str]:
    return [one.file for one in found if one.file]


def inline_commands(page: str) -> list[str]:
    text = re.sub(r"^ *```.*?^ *```", "", page, flags=re.MULTILINE | re.DOTALL)
    return [line for line in INLINE.findall(text) if not FOR_THE_READER.search(line)]


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_consoles_name_what_there_is(path: Path) -> None:
    found = examples(path)
    lines = [line for one in found if one.language == "console" for line in read_commands(one.text)]
    assert [problem for line in lines for problem in find_command_problems(line, files(found))] == []


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_block_is_one_that_a_test_checks(path: Path) -> None:
    found = examples(path)
    assert count_fences(path.read_text(encoding="utf-8")) == 2 * len(found)
    assert {one.language for one in found} - CHECKED - ELSEWHERE.get(name_of(path), {}).keys() == set()
    assert [one.text for one in found if one.language == "json" and not json.loads(one.text)] == []


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_commands_are_in_consoles(path: Path) -> None:
    others = [one.text for one in examples(path) if one.language != "console"]
    typed = re.compile(r"^[$#] (?:make|ansible\S*|kubectl) ")
    assert [line for text in others for line in text.splitlines() if typed.match(line)] == []


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_commands_in_the_text_name_what_there_is(path: Path) -> None:
    lines = inline_commands(path.read_text(encoding="utf-8"))
    shown = files(examples(path))
    found = [problem for line in lines for problem in find_command_problems(line, shown)]
    assert [problem for problem in found if MENTIONED not in problem] == []


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_yaml_names_what_there_is(path: Path) -> None:
    found = examples(path)
    blocks = [one.text for one in found if one.language == "yaml"]
    assert [problem for text in blocks for problem in find_yaml_problems(text, files(found))] == []


@pytest.mark.parametrize("path", PLUGINS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_examples_of_plugins_name_what_there_is(path: Path) -> None:
    assert [problem for text in documented_examples(path) for problem in find_yaml_problems(text)] == []


def documented_examples(path: Path) -> list[str]:
    found = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.Assign)]
    return [ast.literal_eval(node.value) for node in found if ast.unparse(node.targets[0]) == "EXAMPLES"]


def test_plays_pass_the_syntax_check(tmp_path: Path) -> None:
    written = []
    for path in PAGES:
        for number, one in enumerate(examples(path)):
            plays = as_playbook(one.text) if one.language == "yaml" else ""
            if plays:
                file = tmp_path / f"{name_of(path).replace('/', '-')}-{number}.yml"
                file.write_text(plays, encoding="utf-8")
                written.append(file)
    for path in PLUGINS:
        for text in map(as_playbook, documented_examples(path)):
            if text:
                file = tmp_path / f"{path.parent.name}-{path.stem}.yml"
                file.write_text(text, encoding="utf-8")
                written.append(file)
    assert len(written) > 90
    assert syntax_errors(written) == ""


def as_playbook(text: str) -> str:
    """A list of tasks in a play of its own; "" for what is neither plays nor tasks."""
    lists = [document for document in yaml.safe_load_all(text) if isinstance(document, list)]
    if not lists or any(is_play(row) for document in lists for row in document):
        return text if lists else ""
    return f"- hosts: localhost\n  tasks:\n{textwrap.indent(text, '    ')}"


def syntax_errors(playbooks: Sequence[Path]) -> str:
    argv = [sys.executable, "-m", "ansible", "playbook", "--syntax-check", *map(str, playbooks)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


# A made-up wrong example of each kind.


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("make lab-upp", "lab-upp"),
        ("make lab LAB_NODE=3", "no makefile reads LAB_NODE"),
        ("make lab-restore", "name the snapshot"),
        ("make plane ARGS='-e plane_adress=192.0.2.1'", "has the variable plane_adress"),
        ("echo x | sudo -E make lab LAB_NODE=3", "no makefile reads LAB_NODE"),
        ("ansible-playbook ballast.kube.lab_start", "no playbook ballast.kube.lab_start"),
        ("ansible-playbook ballast.kube.lab_up -e lab_nods=3", "no variable lab_nods"),
        ("ansible-playbook ballast.kube.balloons -e '{\"balloons_targets\": {}}'", "no variable balloons_targets"),
        ("ansible-playbook app.yml", "does not show app.yml"),
        ("ansible-playbook -i hosts.yml", "no playbook is named"),
        ("ansible n1 -m ballast.kube.image_pull -a state=absent", "no module ballast.kube.image_pull"),
        ("ansible n1 -m ballast.kube.image_pulls -a states=absent", "no option states"),
        ("ansible n1 -m ballast.kube.image_pulls -a state=gone", "state: gone is none of"),
        ("scripts/toolchains.py 1.37.3", "there is no scripts/toolchains.py"),
        ("kubectl get pods -o jsonpath='{", "No closing quotation"),
    ],
)
def test_a_wrong_command_is_found(line: str, problem: str) -> None:
    assert problem in "\n".join(find_command_problems(line))


TASK = "- ballast.kube.image_archive: {path: /srv/a.tar, definitions: [{name: a/b:1, file: []}]}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [1", "no YAML"),
        ("- hosts: n1\n  tasks: [{command: ls}]", "names one module in full: command"),
        ("- hosts: n1\n  tasks: [{ballast.kube.nodes: {}}]", "no module ballast.kube.nodes"),
        (TASK, "no option definitions.file"),
        ("- ballast.kube.kube_proxy_cleanup: {migration_dir: /x}", "no option migration_dir"),
        ("- hosts: n1\n  tasks: [{block: [{ballast.kube.image_pulls: {state: gone}}]}]", "state: gone is none of"),
        ("- hosts: n1\n  roles: [{role: ballast.kube.readyness}]", "no role readyness"),
        ("- hosts: n1\n  roles: [{role: ballast.kube.readiness, readiness_path: x}]", "has no readiness_path"),
        ("- ansible.builtin.import_playbook: ballast.kube.lab", "no playbook ballast.kube.lab"),
        ("plugin: ballast.kube.lab\nlab_directory: /x", "no option lab_directory"),
        ("plugin: ballast.kube.labs", "no inventory ballast.kube.labs"),
        ("apiVersion: v1", "a manifest has a kind"),
        ("lab_nods: 3", "has lab_nods"),
        ("unheard_of: 3", "has unheard_of"),
        ("- ansible.builtin.import_playbook: ballast.kube.lab_up\n  vars: {lab_nods: 3}", "has lab_nods"),
        ("all: {children: {workers: {vars: {kube_proxy_modes: x}}}}", "has kube_proxy_modes"),
        ("workers: {host: {n1: {}}, vars: {}}", "a group has no host"),
        ("workers: {hosts: {n1: {balloons_targets: {}}}}", "has balloons_targets"),
        ("kubelet_service: x\nruntime_servce: y", "has runtime_servce"),
        ("max_in_flight: 2\nlistener: []", "has listener"),
        ("nodes: [{name: n1, proxy_backend: nftable}]", "'nftable' is not one of"),
        ("jobs: {a: {steps: [{run: make lab LAB_NODE=3}]}}", "no makefile reads LAB_NODE"),
        ("jobs: {a: {steps: [{name: x}]}}", "a step has one of"),
    ],
)
def test_wrong_yaml_is_found(text: str, problem: str) -> None:
    assert problem in "\n".join(find_yaml_problems(text))


@pytest.mark.parametrize(
    ("text", "problem"), [("- hosts: n1\n  task: []\n", "task"), ("- ansible.builtin.ping:\n  wen: true\n", "wen")]
)
def test_plays_and_tasks_that_ansible_refuses_are_found(text: str, problem: str, tmp_path: Path) -> None:
    play = tmp_path / "play.yml"
    play.write_text(as_playbook(text), encoding="utf-8")
    assert problem in syntax_errors([play])


def test_a_fence_that_is_not_read_is_counted() -> None:
    page = "```yaml title=a\n- a\n```\n> ~~~\n> x\n> ~~~\n"
    assert (read_examples(page), count_fences(page)) == ([], 4)


def test_examples_of_a_list_are_read_without_their_indentation() -> None:
    page = "1. x\n\n    ```yaml\n    # a.yml\n    - hosts: n1\n    ```\n"
    assert read_examples(page) == [Example("yaml", "# a.yml\n- hosts: n1\n")]
    assert files(read_examples(page)) == ["a.yml"]


def test_commands_go_on_after_a_backslash() -> None:
    assert read_commands("# make lab \\\n    LAB_NODES=2\nprinted\nvm1$ true\n") == ["make lab  LAB_NODES=2", "true"]


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_playbooks_and_roles_that_the_text_names_exist(path: Path) -> None:
    """`the playbook NAME` in the text; modules share names with playbooks, and are checked in examples."""
    named = re.findall(r"\b(playbook|role)s? `(?:ballast\.kube\.)?(\w+)`", path.read_text(encoding="utf-8"))
    places = {"playbook": "playbooks/{}.yml", "role": "roles/{}"}
    assert [pair for pair in named if not (ROOT / places[pair[0]].format(pair[1])).exists()] == []
