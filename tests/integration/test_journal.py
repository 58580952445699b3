# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a killed run of tests left on this machine is removed by the next one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration import journal
from tests.integration.kube_proxy import eventually

NAME = "ballast-jtest"
# Nothing else here changes it.
LIMIT = "fs.inotify.max_queued_events"
MAKE = """
import contextlib, subprocess, sys, time
from tests.integration import journal
with contextlib.ExitStack() as made:
    name, place, limit, value = sys.argv[1:]
    made.enter_context(journal.at_least(limit, int(value)))
    made.enter_context(journal.link(name, "type", "bridge"))
    made.enter_context(journal.network_namespace(name))
    made.enter_context(journal.directory(place))
    made.enter_context(journal.mount(place, "mount", "-t", "tmpfs", name, place))
    inside = subprocess.Popen(["ip", "netns", "exec", name, "sleep", "1000"], stdout=subprocess.DEVNULL, start_new_session=True)
    print(inside.pid, flush=True)
    time.sleep(1000)
"""
NEXT = "from tests.integration import journal; journal.remove_leftovers()"


def there(place: Path) -> list[str]:
    paths = (Path("/sys/class/net", NAME), Path("/run/netns", NAME), place)
    return [str(path) for path in paths if path.exists()]


def limit() -> int:
    return int(Path("/proc/sys", *LIMIT.split(".")).read_text(encoding="ascii"))


def set_limit(value: int) -> None:
    Path("/proc/sys", *LIMIT.split(".")).write_text(str(value), encoding="ascii")


@contextmanager
def another_run(place: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    argv = [sys.executable, "-c", MAKE, NAME, str(place), LIMIT, str(limit() + 1)]
    run = subprocess.Popen(argv, cwd=journal.ROOT, stdout=subprocess.PIPE, text=True)
    assert run.stdout
    try:
        yield run, int(run.stdout.readline())
    finally:
        run.kill()
        run.wait()
        run.stdout.close()


def the_next_run() -> None:
    subprocess.run([sys.executable, "-c", NEXT], cwd=journal.ROOT, check=True, timeout=60)


def test_what_a_killed_run_left_is_removed_and_what_a_living_one_uses_is_not(tmp_path: Path) -> None:
    place, before = tmp_path / "mounted", limit()
    with another_run(place) as (run, inside):
        the_next_run()
        assert len(there(place)) == 3
        assert limit() == before + 1
        assert os.path.ismount(place)
        assert run.poll() is None
    assert len(there(place)) == 3
    the_next_run()
    assert there(place) == []
    assert limit() == before
    assert eventually(lambda: not Path(f"/proc/{inside}/ns/net").exists(), seconds=60)
    assert not list(journal.JOURNALS.glob(f"{run.pid}.*"))


def test_an_entry_that_was_cut_short_names_what_was_not_made_yet(tmp_path: Path) -> None:
    place = tmp_path / "mounted"
    with another_run(place) as (run, _inside):
        pass
    with (journal.JOURNALS / f"{run.pid}.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"made": ["link", "lo')
    the_next_run()
    assert there(place) == []


def test_a_directory_that_is_bound_over_itself_is_not_left_so(tmp_path: Path) -> None:
    place = str(tmp_path.resolve())
    mounts = Path("/proc/self/mountinfo")
    with journal.mount(place, "mount", "--bind", place, place):
        assert f" {place} " in mounts.read_text(encoding="utf-8")
    assert f" {place} " not in mounts.read_text(encoding="utf-8")


def test_a_limit_is_raised_and_never_lowered_and_what_another_set_since_stays() -> None:
    before = limit()
    with journal.at_least(LIMIT, before - 1):
        assert limit() == before
    with journal.at_least(LIMIT, before + 1):
        assert limit() == before + 1
    assert limit() == before
    try:
        with journal.at_least(LIMIT, before + 1):
            set_limit(before + 2)
        assert limit() == before + 2
    finally:
        set_limit(before)


def test_a_removal_that_is_interrupted_is_done_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, remove = tmp_path / "made", journal._REMOVE["directory"]
    calls = []

    def interrupted_once(*entry: str) -> None:
        calls.append(entry)
        if len(calls) == 1:
            raise KeyboardInterrupt
        remove(*entry)

    monkeypatch.setitem(journal._REMOVE, "directory", interrupted_once)
    with pytest.raises(KeyboardInterrupt), journal.directory(str(place)):
        pass
    assert not place.exists()
    assert "removed" in (journal.JOURNALS / f"{os.getpid()}.jsonl").read_text(encoding="utf-8").splitlines()[-1]


def test_an_interrupt_that_an_engine_makes_its_own_ends_the_tests(tmp_path: Path) -> None:
    tests = tmp_path / "test_two.py"
    tests.write_text(
        "from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError\n"
        "def test_first(): raise HostError('interrupted in step 1', id='core-interrupted')\n"
        "def test_second(): pass\n",
        encoding="utf-8",
    )
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.integration.conftest",
        "-c",
        str(journal.ROOT / "pyproject.toml"),
    ]
    done = subprocess.run(
        [*argv, str(tests)], cwd=journal.ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert "1 failed" in done.stdout
    assert "passed" not in done.stdout
