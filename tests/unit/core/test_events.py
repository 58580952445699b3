# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import json
import os
import threading
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import Event, FileSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError
from tests.unit.fakes import ListSink


def test_each_event_is_one_line_and_several_sinks_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "events.jsonl"
    sinks = [FileSink(str(path)) for _count in range(4)]

    def tell(sink: FileSink) -> None:
        for _number in range(50):
            Progress(sink, feature="t").started("s", "x" * 500)

    threads = [threading.Thread(target=tell, args=(sink,)) for sink in sinks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == 200
    assert set(rows[0]) == {"kind", "feature", "subject", "text", "seconds", "at"}


def test_a_text_with_line_ends_stays_one_line(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    Progress(FileSink(str(path)), feature="t").failed("s", "one\ntwo")
    assert len(path.read_text().splitlines()) == 1


def test_a_full_disk_does_not_stop_the_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    progress = Progress(FileSink(str(tmp_path / "events.jsonl")), feature="t")

    def full(_descriptor: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    progress.started("s")


def test_events_are_not_written_through_a_link_that_somebody_left(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("theirs")
    os.symlink("precious", tmp_path / "events.jsonl")
    with pytest.raises(HostError):
        FileSink(str(tmp_path / "events.jsonl"))
    assert (tmp_path / "precious").read_text() == "theirs"


def test_a_path_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError):
        FileSink(str(tmp_path / "file" / "events.jsonl"))


def test_progress_names_the_feature_and_the_seconds() -> None:
    sink = ListSink()
    progress = Progress(sink, feature="instance")
    progress.started("node n1")
    progress.waiting("node n1", "no network")
    progress.done("node n1")
    progress.failed("node n1", "in step 1")
    progress.undone("node n1", "link")
    assert [event.kind for event in sink.events] == ["started", "waiting", "done", "failed", "undone"]
    assert {event.feature for event in sink.events} == {"instance"}
    assert all(isinstance(event, Event) and event.seconds >= 0 for event in sink.events)
