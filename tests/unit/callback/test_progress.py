# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The callback: texts of results, and a playbook from its outside, with this callback and with that of Ansible."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from ansible.plugins.callback import default

from ansible_collections.ballast.kube.plugins.callback.progress import CallbackModule, TaskRun, failure_text, outcome
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import Event, parse_event
from ansible_collections.ballast.kube.plugins.plugin_utils.render import TaskLines

EVENT = Event(kind="done", feature="instance", subject="node n1", text="", seconds=1.0, at=2.0)


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
    return TaskRun(**{"action": "x", "lines": TaskLines("Make it", started=1.0), **changes})


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


# A task of a playbook as those of this collection: it runs something that writes events into a file, and returns.
TELL = """
import time
from ansible.plugins.action import ActionBase
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import FileSink, Progress
from ansible_collections.ballast.kube.plugins.plugin_utils.shown import run_shown

class ActionModule(ActionBase):
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        path, subjects = self._task.args["events"], self._task.args["subjects"]

        def act():
            progress = Progress(FileSink(path), feature="test")
            for subject in subjects:
                progress.started(subject, "make it")
                progress.done(subject, "made")
            return {"changed": True}

        return {**super().run(tmp, task_vars), **run_shown(path, act)}
"""
PLAY: list[dict[str, Any]] = [
    {
        "name": "Try it",
        "hosts": "localhost",
        "gather_facts": False,
        "tasks": [
            {"name": "Run one", "tell": {"events": "{{ events }}", "subjects": ["node n1"]}},
            {"name": "Run two", "tell": {"events": "{{ events }}", "subjects": ["node n1", "node n2"]}},
            {"name": "Say", "ansible.builtin.debug": {"msg": "a table\nof two lines"}},
            {"name": "Sum up", "ballast.kube.playbook_message": {"msg": ["what there is", "", "  and where"]}},
            {"name": "Look", "ansible.builtin.include_role": {"name": "look"}},
            {"name": "Leave out", "ansible.builtin.stat": {"path": "/"}, "when": False},
            {"name": "Refuse", "ansible.builtin.stat": {"path": ["\n"], "nonsense": 1}},
        ],
    }
]


def test_what_an_interrupt_ended_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    callback = CallbackModule()
    callback._run = task()
    callback.emit(Event(**{**asdict(EVENT), "kind": "started", "text": "make veth"}))
    callback._stop()
    head, first, second = capsys.readouterr().err.splitlines()
    assert head == " • Make it"
    assert first.startswith("     ✗ node n1 ")
    assert first.endswith("not finished: make veth")
    assert second.startswith(" ✗ Make it ")
    assert second.endswith("interrupted")
    callback._stop()
    assert capsys.readouterr().err == ""


def run_playbook(
    directory: Path, *arguments: str, callback: str = "ballast.kube.progress", name: str = "mine"
) -> subprocess.CompletedProcess[str]:
    """Without a terminal, as a pipeline of a build server has it, and without a configuration."""
    remote = directory / "remote"  # of one that is not there, as at home on a new machine, Ansible warns
    for one in (remote, directory / "action_plugins", directory / "roles/look/tasks"):
        one.mkdir(exist_ok=True, parents=True)
    (directory / "empty.cfg").touch()
    (directory / "action_plugins/tell.py").write_text(TELL)
    (directory / "roles/look/tasks/main.yml").write_text("- name: Look at it\n  ansible.builtin.stat: {path: /}\n")
    (directory / "play.json").write_text(json.dumps(PLAY))
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
        "ANSIBLE_CONFIG": str(directory / "empty.cfg"),
        "ANSIBLE_HOME": str(directory / "home"),
        "ANSIBLE_COLLECTIONS_PATH": os.path.abspath(".build/collections"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_REMOTE_TMP": str(remote),
        "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
        **({"ANSIBLE_STDOUT_CALLBACK": callback} if callback else {}),
    }
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    argv = [program, "-i", "localhost,", "-c", "local", "-e", f"events={directory}/{name}.jsonl", *arguments]
    return subprocess.run(
        [*argv, str(directory / "play.json")], env=environment, capture_output=True, text=True, check=False
    )


def starts(text: str) -> list[str]:
    """Lines without the seconds and what follows."""
    return [line[:41].rstrip() for line in text.splitlines()]


def test_a_playbook_tells_results_on_one_stream_and_talks_on_the_other(tmp_path: Path) -> None:
    done = run_playbook(tmp_path)
    assert done.returncode == 2
    assert done.stdout == "a table\nof two lines\nwhat there is\n\n  and where\n"
    assert starts(done.stderr)[:8] == [
        "Try it",
        " ✓ Run one",
        " • Run two",
        "     ✓ node n1",
        "     ✓ node n2",
        " ✓ Run two",
        " ✓ Look at it",  # without the name of its role
        " ✗ Refuse",
    ]
    talk = done.stderr.splitlines()
    assert talk[1].endswith(" s   made")
    assert talk[6].endswith("unchanged")
    assert talk[7].endswith("failed on localhost")
    assert "Unsupported parameters" in talk[8]
    assert len(talk) == 9
    assert "\x1b" not in done.stderr


def test_without_any_configuration_the_same_progress_and_the_same_summary_are_shown(tmp_path: Path) -> None:
    """As of the installed collection: the callback of Ansible prints the names of tasks, and each task its own lines."""
    done = run_playbook(tmp_path, callback="")
    assert starts(done.stderr)[:3] == ["     ✓ node n1", "     ✓ node n1", "     ✓ node n2"]
    assert "\nwhat there is\n\n  and where\n" in done.stdout
    assert done.stdout.index("TASK [Sum up]") < done.stdout.index("what there is") < done.stdout.index("TASK [Look")


def test_a_callback_that_prints_data_gets_nothing_between(tmp_path: Path) -> None:
    done = run_playbook(tmp_path, callback="ansible.builtin.oneline")
    assert "\nwhat there is\n" not in done.stdout


@pytest.mark.parametrize(("chosen", "is_shown"), [("", True), ("minimal", True), ("oneline", False)])
def test_under_ansible_runner_it_is_shown_as_the_callback_does_that_was_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: str, is_shown: bool
) -> None:
    """The callback of ansible-runner, and so of AWX, extends another one, which it is told by this variable."""
    if chosen:
        monkeypatch.setenv("ORIGINAL_STDOUT_CALLBACK", chosen)
    else:
        monkeypatch.delenv("ORIGINAL_STDOUT_CALLBACK", raising=False)
    (tmp_path / "callback_plugins").mkdir()
    like_default = (
        Path(default.__file__).read_text().replace("CALLBACK_NAME = 'default'", "CALLBACK_NAME = 'awx_display'")
    )
    (tmp_path / "callback_plugins/awx_display.py").write_text(like_default)
    done = run_playbook(tmp_path, callback="awx_display")
    assert "TASK [Sum up]" in done.stdout, done.stderr
    assert ("\nwhat there is\n\n  and where\n" in done.stdout) is is_shown


def test_events_of_others_are_not_shown(tmp_path: Path) -> None:
    """Of an earlier run in the same file, of another lab, and of files that the environment names."""
    old = json.dumps({**asdict(EVENT), "subject": "of another run"}) + "\n"
    (tmp_path / "mine.jsonl").write_text(old)
    (tmp_path / "other.jsonl").write_text(old)
    done = run_playbook(tmp_path, "-e", f"ballast_events={tmp_path}/other.jsonl")
    assert "of another run" not in done.stderr
    assert done.stderr.count("node n1") == 1


def test_two_playbooks_of_one_command_both_show_their_progress(tmp_path: Path) -> None:
    (tmp_path / "first.json").write_text(json.dumps([{**PLAY[0], "tasks": PLAY[0]["tasks"][:2]}]))
    done = run_playbook(tmp_path, str(tmp_path / "first.json"))
    assert starts(done.stderr).count(" • Run two") == 2


def test_more_detail_is_that_of_ansible_itself(tmp_path: Path) -> None:
    done = run_playbook(tmp_path, "-v")
    assert "TASK [look : Look at it]" in done.stdout
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
