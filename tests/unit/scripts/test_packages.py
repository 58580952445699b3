# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `make packages` prints before anything is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import packages


@pytest.mark.parametrize("only_list", [False, True])
def test_what_will_be_installed_is_listed_before_it_is(
    only_list: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = tmp_path / "packages.txt"
    wanted.write_text("bc    # builds the kernel\nflex  # builds the kernel, too\nmake\n")
    printed: list[str] = []
    monkeypatch.setattr(packages, "installed", lambda: {"make"})
    monkeypatch.setattr(packages, "install", lambda names: printed.append(capsys.readouterr().out))
    monkeypatch.setattr(packages.shutil, "which", lambda name: f"/usr/bin/{name}")
    packages.main([*(["--list"] if only_list else []), str(wanted)])
    listed = printed[0] if printed else capsys.readouterr().out
    assert listed.splitlines()[:2] == [f"{'bc':24} builds the kernel", f"{'flex':24} builds the kernel, too"]
    assert bool(printed) is not only_list
    assert ("apt-get installs these 2 packages" in listed) is not only_list
