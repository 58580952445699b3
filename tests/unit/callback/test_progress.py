# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The callback: following files, texts of results, and a playbook from its outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.callback.progress import (
    CallbackModule,
    EventFile,
    TaskRun,
    at_work,
    failure_text,
    outcome,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import Event, FileSink, parse_event

EVENT = Event(kind="done", feature="instance", subject="node n1", text="", seconds=1.0, at=2.0)


def text_of(event: Event) -> bytes:
    return json.dumps(asdict(event)).encode()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def test_what_was_there_before_is_left_out(path: Path) -> None:
    FileSink(str(path)).emit(EVENT)
    file = EventFile(str(path))
    assert file.poll() == []
    FileSink(str(path)).emit(EVENT)
    assert file.poll() == [EVENT]
    assert file.poll() == []


def test_a_file_that_comes_later_is_read_from_its_beginning(path: Path) -> None:
    file = EventFile(str(path))
    assert file.poll() == []
    FileSink(str(path)).emit(EVENT)
    assert file.poll() == [EVENT]


def test_a_file_that_was_replaced_is_read_from_its_beginning(path: Path) -> None:
    FileSink(str(path)).emit(EVENT)
    file = EventFile(str(path))
    new = path.with_suffix(".new")
    FileSink(str(new)).emit(EVENT)
    new.rename(path)
    assert file.poll() == [EVENT]


def test_a_file_that_was_emptied_is_read_from_its_beginning(path: Path) -> None:
    path.write_bytes(text_of(EVENT) + b"\n" + b"x" * 500)
    file = EventFile(str(path))
    path.write_bytes(text_of(EVENT) + b"\n")
    assert file.poll() == [EVENT]


def test_a_file_that_went_away_is_no_failure(path: Path) -> None:
    FileSink(str(path)).emit(EVENT)
    file = EventFile(str(path))
    path.unlink()
    assert file.poll() == []


def test_half_a_line_waits_for_its_other_half(path: Path) -> None:
    file = EventFile(str(path))
    data = text_of(EVENT) + b"\n"
    path.write_bytes(data[:20])
    assert file.poll() == []
    path.write_bytes(data)
    assert file.poll() == [EVENT]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b"{}",
        json.dumps({**asdict(EVENT), "at": "now"}).encode(),
        json.dumps({**asdict(EVENT), "subject": None}).encode(),
        json.dumps({**asdict(EVENT), "more": 1}).encode(),
    ],
)
def test_what_is_no_event_is_passed_over(text: bytes) -> None:
    assert parse_event(text) is None


def task(**changes: Any) -> TaskRun:
    return TaskRun(**{"name": "Make it", "action": "x", "start": 1.0, "told": 1.0, "closed_before": 0, **changes})


@pytest.mark.parametrize(
    ("run", "check", "wanted"),
    [
        (task(hosts=1), False, "unchanged"),
        (task(hosts=1, changed=1), False, ""),
        (task(hosts=3, changed=2), False, "3 hosts, 2 changed"),
        (task(hosts=3), False, "3 hosts, unchanged"),
        (task(hosts=1, changed=1, steps=["make a"]), True, "would change: 1 step"),
        (task(hosts=1, changed=1, steps=["make a", "make b"]), True, "would change: 2 steps"),
        (task(hosts=1, changed=1), True, "would change"),
    ],
)
def test_the_outcome_of_a_task(run: TaskRun, check: bool, wanted: str) -> None:
    assert outcome(run, check=check) == wanted


def test_a_task_that_tells_nothing_is_shown_at_work() -> None:
    assert at_work(task(), now=3.5) == " • Make it                          2.5 s"
    assert at_work(task(action="set_fact"), now=3.5) == ""
    assert at_work(None, now=3.5) == ""


@pytest.mark.parametrize(
    ("result", "wanted"),
    [
        ({"msg": "path: x\n  do:    y"}, "path: x\n  do:    y"),
        (
            {"msg": "non-zero return code", "rc": 2, "stderr": "no", "stdout": "so"},
            "non-zero return code\nstatus 2\nno",
        ),
        ({"msg": "broken", "rc": 1, "module_stderr": "Traceback", "stderr": "z"}, "broken\nstatus 1\nTraceback"),
        ({}, "failed without a message"),
    ],
)
def test_the_text_of_a_failure(result: dict[str, Any], wanted: str) -> None:
    assert failure_text(result) == wanted


PLAY: list[dict[str, Any]] = [
    {
        "name": "Try it",
        "hosts": "localhost",
        "gather_facts": False,
        "vars": {"ballast_events": "{{ events }}"},
        "tasks": [
            {
                "name": "Tell",
                "ansible.builtin.lineinfile": {"path": "{{ events }}", "line": "{{ event | to_json }}", "create": True},
                "vars": {"event": {**asdict(EVENT), "kind": "waiting", "text": "not ready", "at": 4e9}},
            },
            {"name": "Say", "ansible.builtin.debug": {"msg": "a table\nof two lines"}},
            {"name": "Sum up", "ansible.builtin.debug": {"msg": ["what there is", "and where"]}},
            {"name": "Look", "ansible.builtin.stat": {"path": "/"}},
            {"name": "Leave out", "ansible.builtin.stat": {"path": "/"}, "when": False},
            {"name": "Refuse", "ansible.builtin.stat": {"path": ["\n"], "nonsense": 1}},
        ],
    }
]


def test_what_an_interrupt_ended_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    callback = CallbackModule()
    callback._run = task()
    callback._renderer.take(Event(**{**asdict(EVENT), "kind": "started", "text": "make veth"}))
    callback._stop()
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(" ✗ node n1 ")
    assert first.endswith("not finished: make veth")
    assert second.startswith(" ✗ Make it ")
    assert second.endswith("interrupted")
    callback._stop()
    assert capsys.readouterr().err == ""


def run_playbook(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Without a terminal, as a pipeline of a build server has it."""
    (directory / "play.json").write_text(json.dumps(PLAY))
    remote = directory / "remote"  # of one that is not there, as at home on a new machine, Ansible warns
    remote.mkdir(exist_ok=True)
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": os.path.abspath(".build/collections"),
        "ANSIBLE_STDOUT_CALLBACK": "ballast.kube.progress",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_REMOTE_TMP": str(remote),
        "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
    }
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    argv = [program, "-i", "localhost,", "-c", "local", "-e", f"events={directory}/events.jsonl", *arguments]
    return subprocess.run(
        [*argv, str(directory / "play.json")], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_playbook_tells_results_on_one_stream_and_talks_on_the_other(tmp_path: Path) -> None:
    done = run_playbook(tmp_path)
    assert done.returncode == 2
    assert done.stdout == "a table\nof two lines\nwhat there is\nand where\n"
    talk = done.stderr.splitlines()
    assert talk[0] == "Try it"
    assert talk[1].startswith(" ✓ node n1 ")
    assert talk[2].startswith(" ✓ Look ")
    assert talk[2].endswith("unchanged")
    assert talk[3].startswith(" ✗ Refuse ")
    assert talk[3].endswith("failed on localhost")
    assert "Unsupported parameters" in talk[4]
    assert len(talk) == 5
    assert "\x1b" not in done.stderr


def test_more_detail_is_that_of_ansible_itself(tmp_path: Path) -> None:
    done = run_playbook(tmp_path, "-v")
    assert "TASK [Look]" in done.stdout
    assert "PLAY RECAP" in done.stdout
    assert " ✓ node n1 " in done.stderr


def test_what_another_machine_printed_is_shown_without_secrets_and_without_what_a_terminal_obeys() -> None:
    said = {
        "msg": "non-zero return code",
        "rc": 5,
        "stderr": "curl http://u:c4n4ry-Xy7@proxy/\x1b[2J\nAuthorization: Bearer c4n4ry-Xy7\n",
    }
    text = failure_text(said)
    assert "c4n4ry" not in text
    assert "\x1b" not in text
    assert text.splitlines()[:2] == ["non-zero return code", "status 5"]
    assert "curl http://(redacted)@proxy/" in text
