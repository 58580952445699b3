# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Labels of files that are made, where SELinux is enabled: a library in the place of libselinux, and the attributes of a real filesystem."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host import file_replacement, selinux

LABEL = b"system_u:object_r:etc_t:s0"


class Policy:
    """A label for each path; -1 for one that it does not know, as libselinux answers."""

    def __init__(self, labels: dict[str, bytes]) -> None:
        self.labels = labels
        self.asked: list[tuple[str, int]] = []
        self.freed: list[bytes] = []

    def matchpathcon(self, path: bytes, mode: int, label: Any) -> int:
        self.asked.append((path.decode(), mode))
        if path.decode() not in self.labels:
            return -1
        label._obj.value = self.labels[path.decode()]
        return 0

    def freecon(self, label: Any) -> None:
        self.freed.append(label.value)


@pytest.fixture
def enabled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Policy:
    policy = Policy({str(tmp_path / "drop-in.conf"): LABEL})
    mark = tmp_path / "enforce"
    mark.write_text("1")
    monkeypatch.setattr(selinux, "_ENABLED", str(mark))
    monkeypatch.setattr(selinux, "_library", lambda: policy)
    return policy


@pytest.fixture
def labels(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """By inode what was set: not every user may set this attribute."""
    found: dict[str, bytes] = {}

    def setxattr(opened: int, name: str, value: bytes) -> None:
        found[f"{os.fstat(opened).st_ino} {name}"] = value

    monkeypatch.setattr(os, "setxattr", setxattr)
    return found


def test_a_new_file_gets_the_label_of_its_path(enabled: Policy, labels: dict[str, bytes], tmp_path: Path) -> None:
    path = tmp_path / "drop-in.conf"
    file_replacement.write_file(str(path), b"x", mode=0o640)
    assert labels == {f"{path.stat().st_ino} security.selinux": LABEL + b"\0"}
    assert enabled.asked == [(str(path), stat.S_IFREG | 0o640)]
    assert enabled.freed == [LABEL]


def test_a_path_that_the_policy_does_not_know_is_left_to_the_kernel(
    enabled: Policy, labels: dict[str, bytes], tmp_path: Path
) -> None:
    file_replacement.write_file(str(tmp_path / "other"), b"x", mode=0o600)
    assert labels == {}


@pytest.mark.parametrize("missing", ["enforce", "library"])
def test_without_selinux_nothing_is_labelled(
    enabled: Policy, labels: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    if missing == "enforce":
        (tmp_path / "enforce").unlink()
    else:
        monkeypatch.setattr(selinux, "_library", lambda: None)
    file_replacement.write_file(str(tmp_path / "drop-in.conf"), b"x", mode=0o600)
    assert (labels, enabled.asked) == ({}, [])


def test_a_filesystem_without_labels_is_written_all_the_same(
    enabled: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(number: int) -> Any:
        def setxattr(*_arguments: object) -> None:
            raise OSError(number, os.strerror(number))

        return setxattr

    path = tmp_path / "drop-in.conf"
    monkeypatch.setattr(os, "setxattr", refuse(errno.ENOTSUP))
    file_replacement.write_file(str(path), b"x", mode=0o600)
    assert path.read_bytes() == b"x"
    monkeypatch.setattr(os, "setxattr", refuse(errno.EACCES))
    with pytest.raises(PermissionError):
        file_replacement.write_file(str(path), b"y", mode=0o600)
    assert path.read_bytes() == b"x"
