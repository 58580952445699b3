# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.processes import Thread, age_seconds, threads
from tests.unit.fakes import FakeHost

TICKS = os.sysconf("SC_CLK_TCK")


def stat(name: str, state: str = "S", *, session: int = 7, start_seconds: int = 0) -> str:
    return f"41 ({name}) {state} 1 41 {session} {' '.join(['0'] * 15)} {start_seconds * TICKS} 0 0\n"


@pytest.fixture
def host() -> FakeHost:
    found = FakeHost()
    found.given("/proc/uptime", "100.5 1.0\n")
    return found


@pytest.mark.parametrize("name", ["kubelet", "a b", ") R 1 (", "", "\udcff"])
def test_a_name_may_hold_anything(host: FakeHost, name: str) -> None:
    host.given("/proc/41/stat", stat(name, start_seconds=60).encode("utf-8", "surrogateescape"))
    host.given("/proc/41/task/41/stat", stat(name, "R").encode("utf-8", "surrogateescape"))
    assert age_seconds(host, 41) == pytest.approx(40.5)
    assert threads(host, 41) == [Thread("R", 7)]


@pytest.mark.parametrize("text", [b"", b"41 (kubelet) S 1"], ids=["gone", "cut off"])
def test_one_that_is_gone_has_no_age_and_no_threads(host: FakeHost, text: bytes) -> None:
    if text:
        host.given("/proc/41/stat", text)
        host.given("/proc/41/task/41/stat", text)
    assert age_seconds(host, 41) is None
    assert threads(host, 41) == []


def test_a_real_process_is_as_old_as_the_time_since_it_was_started() -> None:
    before = time.monotonic()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True) as child:
        try:
            time.sleep(0.2)
            age = age_seconds(LocalHost(), child.pid)
            spent = time.monotonic() - before
            found = threads(LocalHost(), child.pid)
        finally:
            child.kill()
    assert age is not None
    assert 0.2 - 2 / TICKS <= age <= spent + 2 / TICKS
    assert [thread.session for thread in found] == [child.pid]
