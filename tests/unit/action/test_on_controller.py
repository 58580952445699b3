# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.action.kubelet_instance import ActionModule as KubeletInstance
from ansible_collections.ballast.kube.plugins.action.lab_record import ActionModule
from ansible_collections.ballast.kube.plugins.plugin_utils import on_controller
from ansible_collections.ballast.kube.plugins.plugin_utils.module_server import Ended
from scripts.architecture import Code

ROOT = Path(__file__).resolve().parents[3]
HERE = {"ansible_python_interpreter": sys.executable}
PACKED = {"way": "packed"}
# Engines whose modules run on the controller for a lab, and those of them that an ordinary run does not need.
OF_A_LAB = ("_binaries", "_control_plane", "_images", "_instance", "_lab", "_registry", "_vm")
AT_TIMES = {"lab_logs", "control_plane_info", "kubelet_instance_info", "kubernetes_binaries_info"}


class Machine:
    """A connection, with what was run through it."""

    has_native_async = False

    def __init__(self, transport: str = "local", *, become: Optional[str] = None, pipelining: bool = False) -> None:
        self.transport, self.become, self.pipelining = transport, become, pipelining
        self.lines: list[str] = []
        self._shell = SimpleNamespace(tmpdir=None)

    def is_pipelining_enabled(self, wrap_async: bool = False) -> bool:
        return self.pipelining


@pytest.fixture(autouse=True)
def base(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run(self: Any, line: str, in_data: bytes) -> dict[str, Any]:
        self._connection.lines.append(line)
        done = subprocess.run(["sh", "-c", line], input=in_data, capture_output=True, cwd=tmp_path, check=False)
        return {"rc": done.returncode, "stdout": done.stdout.decode(), "stderr": done.stderr.decode()}

    of_ansible = "ansible.plugins.action.ActionBase."
    monkeypatch.setattr(of_ansible + "run", lambda self, tmp=None, task_vars=None: {})
    monkeypatch.setattr(of_ansible + "_execute_module", lambda self, **given: dict(PACKED))
    monkeypatch.setattr(of_ansible + "_low_level_execute_command", run)
    monkeypatch.setattr(of_ansible + "_update_module_args", lambda self, name, arguments, variables: None)
    monkeypatch.setattr(of_ansible + "_compute_environment_string", lambda self: "WORD='of the task'")
    monkeypatch.setattr(of_ansible + "_remove_tmp_path", lambda self, path: None)


def outcome_of(
    machine: Machine, variables: dict[str, Any], *, kind: Any = ActionModule, seconds: int = 0, **arguments: Any
) -> dict[str, Any]:
    action = kind.__new__(kind)
    action._task = SimpleNamespace(
        action="ballast.kube.lab_info", args=arguments, async_val=seconds, check_mode=False, no_log=False
    )
    action._connection, action._used_interpreter = machine, None
    action._templar = SimpleNamespace(template=lambda value: value)
    found: dict[str, Any] = action.run(task_vars=variables)
    return found


@pytest.mark.parametrize("kind", [ActionModule, KubeletInstance])
def test_on_the_controller_a_module_is_started_from_its_files(kind: Any, tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('of the directory of the playbook')\n", encoding="utf-8")
    machine, directory = Machine(), str(tmp_path / "none")
    outcome = outcome_of(machine, HERE, kind=kind, lab_dir=directory)
    assert (outcome["failed"], outcome["id"]) == (True, "lab-none")
    assert f"{directory} contains no lab" in outcome["msg"]
    (line,) = machine.lines
    assert line.startswith("WORD='of the task' ")
    assert directory not in line, "arguments are no words of a command: others could read them"


def test_the_interpreter_of_a_node_instance_is_the_one_of_its_host_too(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(become="ballast.kube.instance", pipelining=True)
    ways: list[str] = []

    def run(self: Any, line: str, in_data: bytes) -> dict[str, Any]:
        ways.append(line)
        return {"rc": 0, "stdout": "{}", "stderr": ""}

    monkeypatch.setattr("ansible.plugins.action.ActionBase._low_level_execute_command", run)
    outcome_of(machine, {"ansible_python_interpreter": f"/.ballast-lab-n1{sys.executable}"}, lab_dir="/none")
    assert f" /.ballast-lab-n1{sys.executable} -P -B -c " in ways[0], "by the path that only the instance has"


def test_where_nothing_is_in_between_the_server_of_the_run_starts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directories: list[str] = []

    def run_module(module: str, given: bytes, directory: str, *, owner: int) -> Ended:
        directories.append(directory)
        arguments = json.loads(given)["ANSIBLE_MODULE_ARGS"]
        return Ended(0, json.dumps({"module": module, "given": arguments}).encode(), b"")

    monkeypatch.setattr("ansible.plugins.action.ActionBase._compute_environment_string", lambda self: "")
    monkeypatch.setattr(on_controller.module_server, "run_module", run_module)
    monkeypatch.setattr(on_controller.constants, "DEFAULT_LOCAL_TMP", str(tmp_path))
    machine = Machine()
    outcome = outcome_of(machine, HERE, lab_dir="/none")
    assert (outcome["module"].rpartition(".")[2], outcome["given"]) == ("lab_info", {"lab_dir": "/none"})
    assert (machine.lines, directories) == ([], [str(tmp_path)])
    outcome_of(Machine(become="sudo", pipelining=True), HERE, lab_dir="/none")
    assert directories == [str(tmp_path)], "as another user it is started by sudo"


@pytest.mark.parametrize(
    ("machine", "variables", "seconds"),
    [
        (Machine("ssh"), HERE, 0),
        (Machine("ballast.kube.netns"), HERE, 0),
        (Machine(), {}, 0),
        (Machine(), {"ansible_python_interpreter": "/usr/bin/python3"}, 0),
        (Machine(become="sudo"), HERE, 0),
        (Machine(), HERE, 60),
    ],
    ids=[
        "ssh",
        "in a node",
        "Python that Ansible looks for",
        "another Python",
        "sudo with a terminal",
        "in the background",
    ],
)
def test_elsewhere_it_is_packed(machine: Machine, variables: dict[str, Any], seconds: int) -> None:
    assert outcome_of(machine, variables, seconds=seconds, lab_dir="/none") == PACKED
    assert machine.lines == []


@pytest.mark.parametrize(
    ("machine", "variables", "seconds", "wanted"),
    [
        (Machine(), HERE, 0, "/lab/events.jsonl"),
        (Machine(become="sudo"), HERE, 0, "/lab/events.jsonl"),
        (Machine("ssh"), HERE, 0, ""),
        (Machine(), HERE, 60, ""),
    ],
    ids=["here", "packed, here", "a path of another machine", "in the background"],
)
def test_progress_is_shown_of_what_runs_on_this_machine(
    machine: Machine, variables: dict[str, Any], seconds: int, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths: list[str] = []
    monkeypatch.setattr(on_controller, "run_shown", lambda path, run: paths.append(path) or dict(PACKED))
    outcome_of(machine, variables, seconds=seconds, state_dir="/lab/nodes", progress_log="/lab/events.jsonl")
    assert paths == [wanted]


@pytest.mark.parametrize(("become", "options"), [(None, " -P -c "), ("sudo", " -P -B -c ")])
def test_as_another_user_it_leaves_no_file_beside_its_own(become: Optional[str], options: str) -> None:
    machine = Machine(become=become, pipelining=True)
    assert outcome_of(machine, HERE, lab_dir="/none")["id"] == "lab-none"
    assert options in machine.lines[0]


def test_what_is_no_result_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "ansible.plugins.action.ActionBase._low_level_execute_command",
        lambda self, line, in_data: {"rc": 1, "stdout": "", "stderr": "Traceback: of the module"},
    )
    outcome = outcome_of(Machine(), HERE, lab_dir="/none")
    assert (outcome["failed"], outcome["module_stderr"]) == (True, "Traceback: of the module")


def test_each_module_that_a_lab_runs_on_the_controller_each_time_has_this_action() -> None:
    played = [ROOT / "playbooks" / name for name in ("lab_up.yml", "lab_status.yml", "lab_down.yml")]
    names = {name for name in Code(ROOT).used(played) if Code(ROOT).modules[name] in OF_A_LAB} - AT_TIMES
    without = {name for name in names if not (ROOT / f"plugins/action/{name}.py").is_file()}
    assert without == set()
