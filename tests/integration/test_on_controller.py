# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A module that is started from its files on the controller returns what it does where Ansible packs it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration import adhoc

NONE = "/var/lib/ballast/never-made"


@pytest.mark.parametrize(
    ("name", "flags", "fails", "options"),
    [
        ("image_archive_info", [], False, {"path": f"{NONE}.tar"}),
        ("lab_info", [], True, {"lab_dir": NONE}),
        ("lab_info", [], True, {"lab_dir": NONE, "lab_idr": NONE}),
        ("image_archive", ["--check", "--diff"], False, {"images": ["pause"]}),
        ("kubelet_instance", ["--check"], True, {"instances": "none"}),
    ],
    ids=["what there is", "an error of its own", "an unknown option", "check and difference", "a wrong type"],
)
def test_both_ways_have_one_result(
    tmp_path: Path, name: str, flags: list[str], fails: bool, options: dict[str, Any]
) -> None:
    other = tmp_path / "python"  # which Ansible packs modules for, as it is not the one that it runs with itself
    other.symlink_to(sys.executable)
    if name == "image_archive":
        options = {**options, "path": str(tmp_path / "images.tar")}
    from_files = adhoc.module(name, *flags, fails=fails, **options)
    packed = adhoc.module(name, *flags, fails=fails, python=str(other), **options)
    assert without_seconds(from_files) == without_seconds(packed)


def without_seconds(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name not in ("seconds", "printed")}
