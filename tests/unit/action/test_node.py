# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.action.node import DIGEST, ActionModule
from ansible_collections.ballast.kube.plugins.module_utils._ansible.engine_cache.start import MISSING, PARAMETER
from ansible_collections.ballast.kube.plugins.module_utils._core.host.names import ENGINES_DIRECTORY

PRESENT: dict[str, Any] = {"image_pulls": {"max_parallel_image_pulls": 4}}
ABSENT: dict[str, Any] = {"image_pulls": {"state": "absent"}, "image_pull_proxy": {"state": "absent"}}


class Machine:
    """The other machine: files, and the module, which says whether its engines are there."""

    has_native_async = False

    def __init__(self) -> None:
        self.tmpdir: Optional[str] = None
        self.engines_there = False
        self.files: dict[str, bytes] = {}
        self.readable: list[str] = []
        self.asked: list[dict[str, Any]] = []
        self._shell = self

    def join_path(self, *parts: str) -> str:
        return "/".join(parts)

    def make_tmp_path(self) -> None:
        self.tmpdir = "/tmp/ansible-1"

    def run(self, module_args: dict[str, Any], task_vars: object, wrap_async: bool) -> dict[str, Any]:
        self.asked.append({**module_args, "wrap_async": wrap_async})
        if not self.engines_there and not module_args[PARAMETER]["sources"]:
            return {"changed": False, MISSING: True}
        return {"changed": True}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine()
    monkeypatch.setattr("ansible.plugins.action.ActionBase.run", lambda self, tmp=None, task_vars=None: {})
    monkeypatch.setattr(ActionModule, "_execute_module", lambda self, **given: found.run(**given))
    monkeypatch.setattr(ActionModule, "_make_tmp_path", lambda self: found.make_tmp_path())
    monkeypatch.setattr(ActionModule, "_transfer_data", lambda self, path, data: found.files.update({path: data}))
    monkeypatch.setattr(ActionModule, "_fixup_perms2", lambda self, paths: found.readable.extend(paths))
    return found


def run(machine: Machine, arguments: dict[str, Any], *, check_mode: bool = False, seconds: int = 0) -> dict[str, Any]:
    action = ActionModule.__new__(ActionModule)
    action._task = SimpleNamespace(args=arguments, check_mode=check_mode, async_val=seconds)
    action._connection = machine
    found: dict[str, Any] = action.run(task_vars={})
    return found


def test_a_host_that_has_them_is_sent_nothing(machine: Machine) -> None:
    machine.engines_there = True
    assert run(machine, PRESENT) == {"changed": True}
    assert (len(machine.asked), machine.files) == (1, {})
    assert machine.asked[0][PARAMETER] == {
        "digest": DIGEST,
        "directory": ENGINES_DIRECTORY,
        "sources": "",
        "keep": True,
    }


def test_a_host_that_has_them_not_is_sent_what_runs_by_itself(machine: Machine, tmp_path: Path) -> None:
    assert run(machine, PRESENT) == {"changed": True}
    ((path, data),) = machine.files.items()
    assert [one[PARAMETER]["sources"] for one in machine.asked] == ["", path]
    assert machine.readable == ["/tmp/ansible-1", path]
    with zipfile.ZipFile(io.BytesIO(data)) as found:
        assert "ballast/_node/main.py" in found.namelist()
    # The sources are all that there is but Python and what Ansible sends with a module.
    (tmp_path / "engines.zip").write_bytes(data)
    tried = "import sys; sys.path.insert(0, sys.argv[1]); import ballast._node.main; print(sorted(ballast._node.main.FEATURES))"
    argv = [sys.executable, "-c", tried, str(tmp_path / "engines.zip")]
    done = subprocess.run(argv, cwd="/", env={}, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("['image_pull_proxy', 'image_pulls', 'kube_proxy']\n", "")


@pytest.mark.parametrize(
    ("arguments", "check_mode", "keep"),
    [
        (PRESENT, True, False),
        (ABSENT, False, False),
        ({**ABSENT, **PRESENT}, False, True),
        ({"image_pulls": "not a dictionary"}, False, True),
    ],
    ids=["check mode", "all is taken away", "a part of it", "which the module refuses"],
)
def test_what_is_kept(machine: Machine, arguments: dict[str, Any], check_mode: bool, keep: bool) -> None:
    run(machine, arguments, check_mode=check_mode)
    assert [one[PARAMETER]["keep"] for one in machine.asked] == [keep, keep]


def test_an_asynchronous_task_is_sent_them_before(machine: Machine) -> None:
    run(machine, PRESENT, seconds=60)
    assert [(bool(one[PARAMETER]["sources"]), one["wrap_async"]) for one in machine.asked] == [(True, True)]
