# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the tests follow a page: a command that fails, or prints something else than the page says, fails the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.console import commands, files, readers_environment, run_commands

PATH = {"PATH": "/usr/bin:/bin"}


def follow(console: str, place: Path) -> None:
    run_commands(commands(f"```console\n{console}```\n"), cwd=place, environment=PATH, seconds=20)


def test_commands_share_a_shell_and_print_what_the_page_says(tmp_path: Path) -> None:
    follow("# export WHAT=seen\n# echo one; echo $WHAT\none\n...\n# true\n", tmp_path)


@pytest.mark.parametrize(
    ("console", "line"),
    [
        ("# true\n# ls absent\n# echo never\n", "ls absent"),
        ("# echo one\ntwo\n", "echo one"),
        ("# echo $ABSENT\n", "echo $ABSENT"),
    ],
    ids=["fails", "prints something else", "reads a variable that is not set"],
)
def test_a_wrong_console_is_found(console: str, line: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="(?m)^" + line.replace("$", r"\$")):
        follow(console, tmp_path)


def test_files_are_blocks_that_begin_with_their_path() -> None:
    page = "```yaml\n# /root/app/a.yml\na: 1\n```\n```python\n# no file\n```\n```console\n# ls\n```\n"
    assert files(page) == {"/root/app/a.yml": "a: 1\n"}


def test_a_reader_has_nothing_of_the_make_that_runs_the_tests() -> None:
    outer = {
        "MAKEFLAGS": "n",
        "MAKELEVEL": "1",
        "ANSIBLE_CONFIG": "/x",
        "ANSIBLE_COLLECTIONS_PATH": "/x",
        "HOME": "/root",
    }
    assert readers_environment(outer, LAB_NAME="a") == {"HOME": "/root", "ANSIBLE_NOCOLOR": "1", "LAB_NAME": "a"}
