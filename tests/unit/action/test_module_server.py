# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.plugin_utils import module_server
from ansible_collections.ballast.kube.plugins.plugin_utils.module_server import Ended

SECONDS = 30
# Modules of this test: each tells what it was given, and by which process it was started.
TELLS = """
import atexit, json, os, sys
def main():
    atexit.register(print, "at the end")
    print("to be seen", file=sys.stderr)
    print(json.dumps({"given": sys.stdin.read(), "argv": sys.argv, "cwd": os.getcwd(), "word": os.environ.get("WORD"),
                      "umask": os.umask(0), "server": os.getppid(), "own": os.getpid() == os.getsid(0)}))
    sys.exit(3)
"""
WAITS = """
import os, pathlib, time
def main():
    pathlib.Path(os.environ["STARTED"]).write_text(str(os.getpid()))
    time.sleep(600)
"""
OWNED = """
def main():
    print(open("/proc/self/environ").read())
"""
BROKEN = "import a_package_that_nobody_has\n"


class Run:
    """A run of Ansible: its directory, and a process that it ends with."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.owner = subprocess.Popen(["sleep", "600"])

    def module(self, name: str, arguments: bytes = b"") -> Ended:
        ended = module_server.run_module(name, arguments, str(self.directory), owner=self.owner.pid)
        assert ended is not None
        return ended

    def server(self) -> int:
        told: int = json.loads(self.module("tells").stdout.splitlines()[0])["server"]
        return told

    def end(self) -> None:
        self.owner.kill()
        self.owner.wait(SECONDS)


def until(what: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        found = what()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come")


def is_gone(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    for name, text in (("tells", TELLS), ("waits", WAITS), ("owned", OWNED), ("broken", BROKEN)):
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    directory = tmp_path / "of this run" / ("long " * 30)  # longer than the address of a socket may be
    directory.mkdir(parents=True)
    made = Run(directory)
    yield made
    made.end()


def test_a_module_has_the_arguments_the_directory_and_the_environment_of_its_task(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.module("tells")  # the server starts with what there is now
    monkeypatch.setenv("WORD", "of the task")
    monkeypatch.chdir(tmp_path)
    before = os.umask(0o037)
    try:
        ended = run.module("tells", b'{"of": "arguments"}')
    finally:
        os.umask(before)
    told, *after = ended.stdout.decode().splitlines()
    assert (ended.status, ended.stderr.decode(), after) == (3, "to be seen\n", ["at the end"])
    wanted = {
        "umask": 0o037,
        "given": '{"of": "arguments"}',
        "argv": ["tells"],
        "cwd": str(tmp_path),
        "word": "of the task",
        "own": True,
    }
    assert {name: value for name, value in json.loads(told).items() if name != "server"} == wanted


def test_one_process_starts_all_modules_of_a_run_and_ends_with_it(run: Run) -> None:
    server = run.server()
    assert [run.server(), run.server()] == [server, server]
    run.end()
    until(lambda: is_gone(server))


def test_a_module_finds_the_run_that_it_is_of(run: Run) -> None:
    assert f"BALLAST_STARTED_FOR={run.owner.pid}".encode() in run.module("owned").stdout.split(b"\0")


def test_one_that_was_killed_is_started_again(run: Run) -> None:
    server = run.server()
    os.kill(server, signal.SIGKILL)
    until(lambda: is_gone(server))
    assert run.server() != server


def test_one_that_is_slow_to_start_is_not_ended_with_what_started_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine with many other processes."""
    slow = "import os, time; begin = os.setsid; os.setsid = lambda: (time.sleep(2), begin()); "
    monkeypatch.setattr(module_server, "_START", slow + module_server._START)
    assert run.module("tells").status == 3


def task_that_waits(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """The pids of a task and of its module, which runs."""
    started = tmp_path / "started"
    monkeypatch.setenv("STARTED", str(started))
    task = os.fork()
    if task == 0:
        run.module("waits")
        os._exit(0)
    return task, int(until(lambda: started.is_file() and started.read_text(encoding="ascii")))


def test_a_module_ends_with_the_task_that_waits_for_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = run.server()
    task, module = task_that_waits(run, tmp_path, monkeypatch)
    os.kill(task, signal.SIGKILL)
    os.waitpid(task, 0)
    until(lambda: is_gone(module))
    assert run.server() == server


def test_a_module_and_its_task_may_end_at_once(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server learns of both in one look."""
    server = run.server()
    task, module = task_that_waits(run, tmp_path, monkeypatch)
    os.kill(server, signal.SIGSTOP)
    for process in (module, task):
        os.kill(process, signal.SIGKILL)
        until(lambda process=process: is_gone(process))
    os.waitpid(task, 0)
    os.kill(server, signal.SIGCONT)
    assert run.server() == server


def test_a_module_that_is_killed_is_no_result(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = tmp_path / "started"
    monkeypatch.setenv("STARTED", str(started))
    task = os.fork()
    if task == 0:
        os._exit(0 if run.module("waits").status == -signal.SIGKILL else 1)
    os.kill(int(until(lambda: started.is_file() and started.read_text(encoding="ascii"))), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(task, 0)[1]) == 0


def test_a_module_that_cannot_be_imported_says_why(run: Run) -> None:
    ended = run.module("broken")
    assert (ended.status, ended.stdout) == (1, b"")
    assert b"No module named 'a_package_that_nobody_has'" in ended.stderr


def test_who_connects_and_says_nothing_stops_nobody(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    server = run.server()
    monkeypatch.chdir(run.directory)
    for words in (b"", b"\0" * 8, b"\0" * 7 + b"\4null"):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect("ballast-modules.sock")
            client.sendall(words)
    assert run.server() == server


@pytest.mark.parametrize("missing", ["memfd_create", "pidfd_open"])
def test_a_system_that_lacks_what_it_needs_has_none_and_starts_nothing(
    missing: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, missing)
    assert module_server.run_module("tells", b"", str(run.directory), owner=run.owner.pid) is None
    assert list(run.directory.iterdir()) == []


def test_a_server_that_cannot_start_is_none(run: Run, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os\ndel os.pidfd_open\n", encoding="ascii")
    assert module_server.run_module("tells", b"", str(run.directory), owner=run.owner.pid) is None


def test_a_server_that_ends_while_a_module_runs_does_not_start_it_again(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, started = run.server(), tmp_path / "started"
    monkeypatch.setenv("STARTED", str(started))
    task = os.fork()
    if task == 0:
        ended = run.module("waits")
        os._exit(0 if ended.status == 1 and b"has ended" in ended.stderr else 1)
    module = int(until(lambda: started.is_file() and started.read_text(encoding="ascii")))
    os.kill(server, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(task, 0)[1]) == 0
    os.kill(module, signal.SIGKILL)
