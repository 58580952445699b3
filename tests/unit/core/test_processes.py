# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.host.processes import (
    Thread,
    age_seconds,
    is_of_root,
    list_processes,
    program,
    read_threads,
)
from ansible_collections.ballast.kube.plugins.module_utils._registry.names import list_leftovers
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
    assert read_threads(host, 41) == [Thread("R", 7)]


@pytest.mark.parametrize("text", [b"", b"41 (kubelet) S 1"], ids=["gone", "cut off"])
def test_one_that_is_gone_has_no_age_and_no_threads(host: FakeHost, text: bytes) -> None:
    if text:
        host.given("/proc/41/stat", text)
        host.given("/proc/41/task/41/stat", text)
    assert age_seconds(host, 41) is None
    assert read_threads(host, 41) == []


@pytest.mark.parametrize(
    ("known", "is_told"),
    [({}, True), ({"uid": 0x70000001}, True), ({"uid": 65534}, False), ({"own_users": False}, False)],
    ids=str,
)
def test_only_a_process_of_root_or_of_our_own_users_is_left_of_a_lab(known: dict[str, Any], is_told: bool) -> None:
    host = FakeHost()
    host.given_cgroups(2)
    host.on("ip", answer="[]", reads=True)
    host.given_process(("sleep", "--dir=/var/lib/lab/nodes/n1"), **known)
    told = list(list_leftovers(host, name="lab", directory="/var/lib/lab"))
    assert (len(told), any("process" in one for one in told)) == (int(is_told), is_told)


@pytest.mark.parametrize("is_below_the_run", [True, False])
def test_a_script_that_runs_the_removal_is_nothing_that_is_left(host: FakeHost, *, is_below_the_run: bool) -> None:
    """It names paths of what it removes. The one beside it is not waiting for this run. Where another process starts the modules of
    a run, it says for which."""
    script = ("bash", "-c", "export CA=/var/lib/lab/plane/pki/ca.crt\nmake lab-down")
    host.given_cgroups(2)
    host.on("ip", answer="[]", reads=True)
    shell = host.given_process(script)
    run = host.given_process(("ansible-playbook", "lab_down"), parent=shell)
    other = host.given_process(script)
    parent = run if is_below_the_run else host.given_process(("python3", "-c", "main()"), parent=1)
    host.given_link("/proc/self", str(host.given_process(("python3",), parent=parent)))
    if not is_below_the_run:
        host.given("/proc/self/environ", f"PATH=/bin\0BALLAST_STARTED_FOR={run}\0LC_ALL=C\0")
    told = list(list_leftovers(host, name="lab", directory="/var/lib/lab"))
    assert told == [f"process {other} (bash)"]


@pytest.mark.parametrize(("uids", "is_it"), [((0, 0, 0, 0), True), ((1000, 0, 0, 0), False), ((0, 0, 0, 5), False)])
def test_a_process_is_root_s_with_all_of_its_user_ids(uids: tuple[int, ...], is_it: bool) -> None:
    found = FakeHost()
    process = found.process(found.given_process(("su",)))
    assert process is not None
    assert is_of_root(dataclasses.replace(process, uids=uids)) is is_it


def test_a_program_that_was_replaced_is_the_same_program() -> None:
    host = FakeHost()
    process = host.process(host.given_process(("x",), exe="/usr/bin/kubelet (deleted)"))
    assert process is not None
    assert program(process) == "kubelet"


def test_a_real_process_is_as_old_as_the_time_since_it_was_started() -> None:
    before = time.monotonic()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True) as child:
        try:
            time.sleep(0.2)
            age = age_seconds(LocalHost(), child.pid)
            spent = time.monotonic() - before
            found = read_threads(LocalHost(), child.pid)
        finally:
            child.kill()
    assert age is not None
    assert 0.2 - 2 / TICKS <= age <= spent + 2 / TICKS
    assert [thread.session for thread in found] == [child.pid]


def test_a_process_of_our_own_is_in_our_namespaces_and_below_our_root() -> None:
    process = LocalHost().process(os.getpid())
    assert process is not None
    assert (process.own_pids, process.own_root) == (True, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes its root directory")
def test_a_process_below_another_root_is_known(tmp_path: Path) -> None:
    code = f"import os, time; os.chroot({str(tmp_path)!r}); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            process = LocalHost().process(child.pid)
            assert process is not None
            assert (process.own_pids, process.own_root) == (True, False)
        finally:
            child.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a pid namespace")
def test_a_process_in_another_pid_namespace_is_known() -> None:
    argv = ["unshare", "--pid", "--fork", "--kill-child", "sh", "-c", "echo; exec sleep 60"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as parent:
        try:
            assert parent.stdout is not None
            parent.stdout.readline()
            children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text(encoding="ascii").split()
            process = LocalHost().process(int(children[0]))
            assert process is not None
            assert (process.own_pids, process.own_root) == (False, True)
        finally:
            parent.kill()


def test_processes_of_a_program_are_listed_without_a_look_at_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost()
    kubelet = host.given_process(["kubelet"])
    replaced = host.given_process(["kubelet"], exe="/usr/bin/kubelet (deleted)")
    host.given_process(["kubelet"], exe="/usr/bin/other")
    looked: list[int] = []
    look = host.process
    monkeypatch.setattr(host, "process", lambda pid: (looked.append(pid), look(pid))[1])
    assert [process.pid for process in list_processes(host, ("kubelet",))] == [kubelet, replaced]
    assert looked == [kubelet, replaced]
