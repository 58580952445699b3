# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whose events a task shows. With a whole run of Ansible: tests/unit/callback/test_progress.py."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import FileSink, Progress
from ansible_collections.ballast.kube.plugins.plugin_utils import relay, shown
from ansible_collections.ballast.kube.plugins.plugin_utils.on_controller import progress_log_path
from ansible_collections.ballast.kube.plugins.plugin_utils.relay import read_here, size_here
from ansible_collections.ballast.kube.plugins.plugin_utils.shown import run_shown


@pytest.fixture(autouse=True)
def without_the_callback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shown, "RUN_EVENTS", str(tmp_path / "run.jsonl"))


def tell(path: Path, subject: str, *, fails: bool = False) -> dict[str, Any]:
    progress = Progress(FileSink(str(path)), feature="test")
    progress.started(subject, "make veth")
    if not fails:
        progress.done(subject, "made")
    return {"failed": True} if fails else {"changed": True}


def test_lines_of_a_task_are_printed_once_its_subjects_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "events.jsonl"
    tell(path, "of an earlier run")
    assert run_shown(str(path), lambda: tell(path, "node n1")) == {"changed": True}
    assert run_shown(str(path), lambda: tell(path, "node n2", fails=True)) == {"failed": True}
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("     ✓ node n1 ")
    assert first.endswith("made")
    assert second.startswith("     ✗ node n2 ")
    assert second.endswith("not finished: make veth")


def test_with_the_callback_events_go_where_it_reads_and_nothing_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(shown.RUN_EVENTS).touch()
    run_shown(str(tmp_path / "events.jsonl"), lambda: tell(tmp_path / "events.jsonl", "node n1"))
    assert capsys.readouterr().err == ""
    assert Path(shown.RUN_EVENTS).read_text().count('"node n1"') == 2


def test_a_task_without_a_file_is_run_and_an_error_of_it_is_its_own(tmp_path: Path) -> None:
    assert run_shown("", lambda: {"changed": False}) == {"changed": False}

    def broken() -> dict[str, Any]:
        raise ValueError("of the module")

    with pytest.raises(ValueError, match="of the module"):
        run_shown(str(tmp_path / "events.jsonl"), broken)


def test_files_of_other_users_links_and_pipes_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"line\n")
    assert read_here(str(path))(0) == b"line\n"
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(path)
    os.mkfifo(pipe)
    assert (read_here(str(link))(0), size_here(str(link))) == (b"", 0)
    assert (read_here(str(pipe))(0), size_here(str(pipe))) == (b"", 0)
    status = os.stat(path)
    monkeypatch.setattr(relay.os, "fstat", lambda descriptor: os.stat_result((status.st_mode, *[4242] * 9)))
    assert read_here(str(path))(0) == b""


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"progress_log": "/lab/events.jsonl", "state_dir": "/lab/nodes"}, "/lab/events.jsonl"),
        ({"events": "/lab/events.jsonl", "state_dir": "/lab/nodes"}, "/lab/events.jsonl"),
        ({"events": "/former", "progress_log": "/lab/events.jsonl"}, "/former"),
        ({"state_dir": "/lab/nodes"}, "/lab/nodes/events.jsonl"),
        ({"path": "/x"}, ""),
    ],
)
def test_the_file_is_the_one_that_the_module_writes(arguments: dict[str, Any], wanted: str) -> None:
    assert progress_log_path(arguments) == wanted
