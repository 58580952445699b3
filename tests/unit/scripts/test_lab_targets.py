# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's make targets hand their variables to the playbooks, in a checkout and with files whose paths have blanks."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    place = tmp_path / "a checkout"
    place.mkdir()
    for name in ("Makefile", "mk"):
        (place / name).symlink_to(ROOT / name)
    return place


def words_of(checkout: Path, target: str, *variables: str) -> list[str]:
    """Of the last command that the target would run; assignments to the environment are the first words."""
    done = subprocess.run(
        ["make", "--dry-run", target, *variables], cwd=checkout, capture_output=True, text=True, check=True, timeout=60
    )
    return shlex.split(done.stdout.replace("\\\n", " ").strip().splitlines()[-1])


def test_files_are_found_where_make_was_started(checkout: Path) -> None:
    words = words_of(
        checkout, "lab-plan", "LAB_TOPOLOGY=my labs/one.yml", "ARCHIVE=/srv/my image.tar", "LAB_DIR=/srv/l"
    )
    options = [shlex.split(value) for flag, value in zip(words, words[1:]) if flag == "-e"]
    assert options == [
        ["lab_dir=/srv/l"],
        [f"lab_topology={checkout}/my labs/one.yml"],
        ["lab_archive=/srv/my image.tar"],
    ]
    assert words_of(checkout, "lab-plan").count("-e") == 1
    words = words_of(checkout, "lab-plan", "LAB_ADDONS=dns, storage", "LAB_NODES=5")
    assert [value for flag, value in zip(words, words[1:]) if flag == "-e"][1:] == [
        'lab_nodes="5"',
        'lab_addons="dns, storage"',
    ]


@pytest.mark.parametrize("target", ["lab-shell", "conformance"])
def test_programs_of_the_checkout_are_started_with_its_path_in_one_word(checkout: Path, target: str) -> None:
    words = words_of(checkout, target, "LAB_DIR=/srv/l", "NODE=n1", "COMMAND=nft list ruleset")
    path = f"PYTHONPATH={checkout}/.build/collections:{checkout}"
    assert words[words.index("-m") - 2 : words.index("-m")] == [path, ".venv/bin/python"]
    if target == "lab-shell":
        assert words[-5:] == ["/srv/l", "n1", "nft", "list", "ruleset"]


def test_a_checkout_names_its_own_commands_after_the_table(checkout: Path) -> None:
    """The table names playbooks, which a shell beside the checkout's environment does not find."""
    said = " ".join(words_of(checkout, "lab"))
    assert "make lab-down; make help" in said
    assert "make lab-start, make lab-down" in " ".join(words_of(checkout, "lab-stop"))
    elsewhere = " ".join(words_of(checkout, "lab", "LAB_DIR=/srv/my lab"))
    assert 'make lab-down with LAB_DIR="/srv/my lab";' in elsewhere
