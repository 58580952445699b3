# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.action.kubelet_instance import ActionModule
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import DONE, STARTED, Event
from ansible_collections.ballast.kube.plugins.plugin_utils import relay

THERE = "/var/lib/ballast/lab/nodes/events.jsonl"


class Machine:
    """The other machine: a file of events, as a terminal shows it, and the module that writes it."""

    transport = "ssh"
    become = None

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.asked: list[str] = []
        self.module_args: dict[str, Any] = {}

    def add(self, kind: str, text: str) -> None:
        self.lines.append(json.dumps(asdict(Event(kind, "instance", "node n1", text, seconds=1.0, at=1.0))))

    def tail(self, command: str) -> dict[str, Any]:
        self.asked.append(command)
        first = int(command.split()[2].lstrip("+")) - 1
        text = "".join(f"{line}\n" for line in self.lines)[first:]
        return {"rc": 0, "stdout": text.replace("\n", "\r\n")}

    def run(self, module_args: dict[str, Any], task_vars: object, wrap_async: bool) -> dict[str, Any]:
        self.module_args = module_args
        for number in range(3):
            self.add(STARTED, f"step {number}")
        self.add(DONE, "Ready")
        return {"changed": True}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine()
    found.add(DONE, "of an earlier run")
    monkeypatch.setattr(relay, "POLL_SECONDS", 0.01)
    monkeypatch.setattr("ansible.plugins.action.ActionBase.run", lambda self, tmp=None, task_vars=None: {})
    monkeypatch.setattr(ActionModule, "_execute_module", lambda self, **given: found.run(**given))
    monkeypatch.setattr(ActionModule, "_low_level_execute_command", lambda self, command: found.tail(command))
    return found


def run(machine: Machine, events: Path, *, name: str = "progress_log", check_mode: bool = False) -> dict[str, Any]:
    action = ActionModule.__new__(ActionModule)
    arguments = {"state_dir": "/var/lib/ballast/lab/nodes", name: str(events)}
    action._task = SimpleNamespace(args=arguments, check_mode=check_mode)
    action._connection = machine
    action._templar = SimpleNamespace(template=lambda value: value)
    return action.run(task_vars={})


@pytest.mark.parametrize("name", ["progress_log", "events"])
def test_what_the_module_tells_there_is_told_here(machine: Machine, name: str, tmp_path: Path) -> None:
    assert run(machine, tmp_path / "events.jsonl", name=name) == {"changed": True}
    assert machine.module_args[name] is None, "a path of this machine"
    assert machine.asked[0] == f"tail -c +1 -- {THERE}"
    told = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [event["text"] for event in told][-1] == "Ready"
    assert "of an earlier run" not in [event["text"] for event in told]


def test_on_this_machine_the_module_writes_the_file_itself(machine: Machine, tmp_path: Path) -> None:
    machine.transport = "local"
    run(machine, tmp_path / "events.jsonl")
    assert machine.module_args["progress_log"] == str(tmp_path / "events.jsonl")
    assert machine.asked == []


def test_check_mode_makes_no_file(machine: Machine, tmp_path: Path) -> None:
    run(machine, tmp_path / "events.jsonl", check_mode=True)
    assert list(tmp_path.iterdir()) == []
    assert machine.asked == []


def test_where_the_file_cannot_be_written_the_module_runs_all_the_same(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert run(machine, tmp_path / "file" / "events.jsonl") == {"changed": True}
