# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The directory of a program's sockets after a start of the machine, when its supervisor made it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._agent import place
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.ownership import remove_marked_directory
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.messages import AGENT

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has directories in /run")


def test_a_removal_finds_it_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "_RUN", str(tmp_path))
    directory = tmp_path / AGENT.name
    directory.mkdir(mode=0o700)
    (directory / "lock").write_text("1\n", encoding="utf-8")
    with pytest.raises(HostError, match="was not created by this collection"):
        remove_marked_directory(LocalHost(), str(directory))
    place.make_directories(AGENT, str(directory))
    remove_marked_directory(LocalHost(), str(directory))
    assert not directory.exists()


def test_one_that_somebody_named_is_not_marked(tmp_path: Path) -> None:
    place.make_directories(AGENT, str(tmp_path / "mine"))
    assert os.listdir(tmp_path / "mine") == []
