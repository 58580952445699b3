# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.host.names import MARKER


def test_a_removal_that_is_killed_leaves_the_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "place"
    LocalHost().make_owned_directory(str(place), b"mark", mode=0o755)
    for name in ("a", "z"):
        (place / name).mkdir()
        (place / name / "file").touch()
        (place / f"{name}.txt").touch()

    def killed(path: str) -> None:
        if path.endswith("/place"):
            raise KeyboardInterrupt
        removed(path)

    removed = shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        LocalHost().remove_tree(str(place))
    assert [path.name for path in place.iterdir()] == [MARKER]


def test_a_directory_that_cannot_be_made_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_given: object, **_named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.rename", killed)
    with pytest.raises(KeyboardInterrupt):
        LocalHost().make_owned_directory(str(tmp_path / "place"), b"mark", mode=0o755)
    assert list(tmp_path.iterdir()) == []
