# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The examples of every page against the code: targets, playbooks, variables, modules and options are there, and plays pass Ansible's syntax check.

Pages whose commands are run besides, on a lab: tests/integration/test_pages.py, molecule/kubeadm.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from tests.unit.page_examples import (
    ROOT,
    Example,
    find_command_problems,
    find_yaml_problems,
    is_play,
    read_commands,
    read_examples,
)

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "roles").glob("*/README.md"))]
# `make lab LAB_NODES=5` in the text
INLINE = re.compile(r"(?<!`)`((?:make|ansible-playbook ballast\.kube\.\w+|ansible) [^`\n]+)`(?!`)")
# Capitals stand for what the reader chooses: LAB_DIR/..., NAME, ...
FOR_THE_READER = re.compile(r"\.\.\.|\bOPTION\b|\bNAME\b(?!=)")
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


def test_plays_pass_the_syntax_check(tmp_path: Path) -> None:
    written = []
    for path in PAGES:
        for number, one in enumerate(examples(path)):
            if one.language == "yaml" and is_playbook(one.text):
                file = tmp_path / f"{name_of(path).replace('/', '-')}-{number}.yml"
                file.write_text(one.text, encoding="utf-8")
                written.append(file)
    assert len(written) > 10
    assert syntax_errors(written) == ""


def is_playbook(text: str) -> bool:
    return any(is_play(row) for document in yaml.safe_load_all(text) if isinstance(document, list) for row in document)


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
        ("- hosts: n1\n  tasks: [{block: [{ballast.kube.image_pulls: {state: gone}}]}]", "state: gone is none of"),
        ("- hosts: n1\n  roles: [{role: ballast.kube.readyness}]", "no role readyness"),
        ("- hosts: n1\n  roles: [{role: ballast.kube.readiness, readiness_path: x}]", "has no readiness_path"),
        ("- ansible.builtin.import_playbook: ballast.kube.lab", "no playbook ballast.kube.lab"),
        ("plugin: ballast.kube.lab\nlab_directory: /x", "no option lab_directory"),
        ("plugin: ballast.kube.labs", "no inventory ballast.kube.labs"),
        ("apiVersion: v1", "a manifest has a kind"),
        ("lab_nods: 3", "has lab_nods"),
        ("jobs: {a: {steps: [{run: make lab LAB_NODE=3}]}}", "no makefile reads LAB_NODE"),
        ("jobs: {a: {steps: [{name: x}]}}", "a step has one of"),
    ],
)
def test_wrong_yaml_is_found(text: str, problem: str) -> None:
    assert problem in "\n".join(find_yaml_problems(text))


def test_a_play_that_ansible_refuses_is_found(tmp_path: Path) -> None:
    play = tmp_path / "play.yml"
    play.write_text("- hosts: n1\n  task: []\n", encoding="utf-8")
    assert "task" in syntax_errors([play])


def test_examples_of_a_list_are_read_without_their_indentation() -> None:
    page = "1. x\n\n    ```yaml\n    # a.yml\n    - hosts: n1\n    ```\n"
    assert read_examples(page) == [Example("yaml", "# a.yml\n- hosts: n1\n")]
    assert files(read_examples(page)) == ["a.yml"]


def test_commands_go_on_after_a_backslash() -> None:
    assert read_commands("# make lab \\\n    LAB_NODES=2\nprinted\nvm1$ true\n") == ["make lab  LAB_NODES=2", "true"]
