# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import ABSENT, Recorded
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.readiness import ENABLED, NO, UNKNOWN, YES
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.readiness_common import (
    OpenFiles,
    pluralize,
    read_open_files,
    removal_lines,
    unknown_reading,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError
from tests.unit.fakes import FakeHost


def test_a_removal_goes_newest_first_and_puts_back_what_was_there() -> None:
    made = Recorded("file", "/a", "file /a", ABSENT, "")
    changed = Recorded("number", "/b", "number of /b", {"number": 3}, "")
    assert removal_lines((made, changed)) == ("change number of /b", "remove file /a")


def test_the_open_files_of_this_process() -> None:
    found = read_open_files(LocalHost(), "the tests", os.getpid())
    assert found.count is not None
    assert found.limit is not None
    assert 0 < found.count <= found.limit
    assert (found.verdict, found.figure.limit) == (YES, found.limit)


@pytest.mark.parametrize(("count", "verdict"), [(90, YES), (91, NO), (None, UNKNOWN)])
def test_nearly_all_files_are_too_many(count: int | None, verdict: str) -> None:
    assert OpenFiles("x", 1, count, 100).verdict == verdict


def test_what_may_not_be_looked_at_is_not_known() -> None:
    class Forbidden(FakeHost):
        def listdir(self, path: str) -> list[str]:
            raise HostError("no", id="core-file")

    assert read_open_files(Forbidden(), "x", 7).verdict == UNKNOWN
    assert read_open_files(FakeHost(), "x", 7).verdict == UNKNOWN
    assert read_open_files(FakeHost(), "x", None).verdict == UNKNOWN


def test_what_does_not_say_whether_it_is_on_is_neither() -> None:
    reading = unknown_reading("x", HostError("it is torn", id="core-ledger", remedy="mend it"), "/l")
    assert [(name, answer.verdict, answer.remedy) for name, answer in reading.answers.items()] == [
        (ENABLED, UNKNOWN, "mend it")
    ]


def test_things_are_counted_in_words() -> None:
    assert (pluralize(1, "host"), pluralize(0, "host"), pluralize(2, "host")) == ("1 host", "0 hosts", "2 hosts")
