# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which directories go with what is removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.ownership import set_mark
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.prune_directories import remove_emptied
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError


@pytest.mark.parametrize(
    ("given", "directory", "stay"),
    [
        (["lib/ballast/lab"], "lib/ballast/lab", ["lib"]),
        (["lib/ballast/planes/p1"], "lib/ballast/planes/p1", ["lib"]),
        (["lib/ballast"], "lib/ballast/lab", ["lib"]),  # the directory itself is gone already
        (["lib/ballast/lab", "lib/ballast/vms"], "lib/ballast/lab", ["lib", "lib/ballast", "lib/ballast/vms"]),
        (
            ["lib/ballast/lab/kept"],
            "lib/ballast/lab",
            ["lib", "lib/ballast", "lib/ballast/lab", "lib/ballast/lab/kept"],
        ),
        (["srv/labs/mine"], "srv/labs/mine", ["srv", "srv/labs"]),
        (
            ["home/ballast/src/labs/mine"],
            "home/ballast/src/labs/mine",
            ["home", "home/ballast", "home/ballast/src", "home/ballast/src/labs"],
        ),
    ],
)
def test_what_is_empty_and_ours_goes(given: list[str], directory: str, stay: list[str], tmp_path: Path) -> None:
    for one in given:
        (tmp_path / one).mkdir(parents=True)
    if directory in given:
        set_mark(LocalHost(), str(tmp_path / directory), owner="test")
    remove_emptied(LocalHost(), str(tmp_path / directory))
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == stay


def test_what_cannot_go_stays(tmp_path: Path) -> None:
    """As a place where a disk is mounted."""

    class Busy(LocalHost):
        def remove_directory(self, path: str) -> None:
            raise HostError(f"remove directory {path}: Device or resource busy", id="core-host")

    (tmp_path / "ballast").mkdir()
    remove_emptied(Busy(), str(tmp_path / "ballast/lab"))
    assert (tmp_path / "ballast").is_dir()


def test_an_empty_directory_without_our_mark_stays(tmp_path: Path) -> None:
    (tmp_path / "lib/ballast/lab").mkdir(parents=True)
    remove_emptied(LocalHost(), str(tmp_path / "lib/ballast/lab"))
    assert (tmp_path / "lib/ballast/lab").is_dir()


def test_a_directory_above_that_others_may_write_stays(tmp_path: Path) -> None:
    (tmp_path / "ballast").mkdir()
    (tmp_path / "ballast").chmod(0o777)
    remove_emptied(LocalHost(), str(tmp_path / "ballast/lab"))
    assert (tmp_path / "ballast").is_dir()
