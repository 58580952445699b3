# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Engines that a host keeps: each run is a process of its own, as on a host."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._ansible.kept import MISSING, PARAMETER
from ansible_collections.ballast.kube.plugins.module_utils._core.program import archive

MAIN = "toy.main.main"
# Says where it was loaded from.
SAYS = """
import json, sys
def main(*hidden):
    print(json.dumps({"from": __file__, "hidden": hidden}))
    sys.exit()
"""
FAILS = SAYS.replace("exit()", "exit(1)")
# Says whether the archive that it was loaded from may be removed.
LOCKS = """
import fcntl, json, sys
def main(*hidden):
    with open(__loader__.archive) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            print(json.dumps("free"))
        except OSError:
            print(json.dumps("held"))
    sys.exit()
"""
RUN = """
import json, os, sys
from ansible.module_utils import basic
from ansible_collections.ballast.kube.plugins.module_utils._ansible import kept
basic._load_params = lambda: json.loads(sys.argv[1])
{fault}
kept.run_kept(sys.argv[2])
"""
# The call of this number, of those that change the directory, does {what}.
FAULT = """
left = [{number}]
def faulty(function):
    def call(*arguments, **named):
        left[0] -= 1
        if left[0] == 0:
            {what}
        return function(*arguments, **named)
    return call
for name in ("makedirs", "chmod", "open", "fchmod", "fsync", "replace", "unlink", "listdir"):
    setattr(os, name, faulty(getattr(os, name)))
"""
KILLED, FULL = "os._exit(137)", "raise OSError(28, 'No space left on device')"
STEPS = 8  # of such calls


class Host:
    def __init__(self, top: Path) -> None:
        self.directory = top / "cache" / "engines"
        self.top = top

    def sources(self, source: str = SAYS) -> str:
        path = self.top / "sources.zip"
        path.write_bytes(archive("_core.engines.keep", ["_core"]))
        with zipfile.ZipFile(path, "a") as made:
            made.writestr("ballast/toy/__init__.py", "")
            made.writestr("ballast/toy/main.py", source)
        return str(path)

    def run(self, *, digest: str = "one", sources: str = "", keep: bool = True, fault: str = "") -> Optional[Any]:
        """What it printed; None where it was killed."""
        engines = {"digest": digest, "directory": str(self.directory), "sources": sources, "keep": keep}
        argv = [sys.executable, "-c", RUN.format(fault=fault), json.dumps({PARAMETER: engines}), MAIN]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.stderr == ""
        return json.loads(done.stdout) if done.returncode != 137 else None

    def kept(self) -> list[str]:
        return sorted(path.name.partition(".")[0] for path in self.directory.glob("*.zip"))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_what_is_not_there_is_asked_for_once(host: Host) -> None:
    assert host.run() == {"changed": False, MISSING: True}
    sources = host.sources()
    sent = host.run(sources=sources)
    assert sent is not None
    assert sent["from"].startswith(sources)
    assert sent["hidden"] == [PARAMETER]
    os.unlink(sources)
    found = host.run()
    assert found is not None
    assert found["from"].startswith(f"{host.directory}/one.")
    assert [path.stat().st_mode & 0o777 for path in (host.directory, *host.directory.iterdir())] == [0o700, 0o600]


def test_what_is_kept_is_compiled(host: Host) -> None:
    host.run(sources=host.sources())
    (path,) = host.directory.iterdir()
    with zipfile.ZipFile(path) as found:
        code = found.read("ballast/toy/main.pyc")
    # Its source is another one: Python takes what is compiled, and does not look at that.
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("ballast/__init__.py", "")
        made.writestr("ballast/toy/__init__.py", "")
        made.writestr("ballast/toy/main.py", "raise ValueError")
        made.writestr("ballast/toy/main.pyc", code)
    assert host.run() is not None


@pytest.mark.parametrize("case", ["check mode", "failure"])
def test_what_only_looked_or_failed_keeps_nothing(host: Host, case: str) -> None:
    host.run(sources=host.sources(FAILS if case == "failure" else SAYS), keep=case != "check mode")
    assert not host.directory.exists()
    assert host.run() == {"changed": False, MISSING: True}


def test_what_did_not_arrive_whole_is_not_kept(host: Host) -> None:
    """Where it is not seen at once, as in what this run has not imported."""
    path = Path(host.sources())
    with zipfile.ZipFile(path, "a") as made:
        made.writestr("ballast/toy/other.py", "A = 'whole'\n")
    path.write_bytes(path.read_bytes().replace(b"'whole'", b"'wh-le'"))
    assert host.run(sources=str(path)) is not None
    assert host.kept() == []


def test_another_version_takes_the_place_of_the_last_one(host: Host) -> None:
    host.run(digest="one", sources=host.sources())
    host.run(digest="two", sources=host.sources())
    assert host.kept() == ["two"]


def test_one_that_another_run_still_imports_from_stays(host: Host) -> None:
    host.run(digest="one", sources=host.sources())
    (path,) = host.directory.iterdir()
    with path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        host.run(digest="two", sources=host.sources())
        assert host.kept() == ["one", "two"]
    host.run(digest="three", sources=host.sources())
    assert host.kept() == ["three"]


def test_a_run_holds_what_it_imports_from(host: Host) -> None:
    sources = host.sources(LOCKS)
    assert [host.run(sources=sources), host.run()] == ["free", "held"]


DAMAGED = {
    "empty": lambda data: b"",
    "cut off": lambda data: data[: len(data) // 2],
    "no archive": lambda data: b"what somebody else has written",
    "overwritten": lambda data: data.replace(b"json", b"\0\0\0\0"),
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_what_is_damaged_is_asked_for_again(host: Host, damage: Callable[[bytes], bytes]) -> None:
    sources = host.sources()
    host.run(sources=sources)
    (path,) = host.directory.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert host.run() == {"changed": False, MISSING: True}
    for sent in (sources, ""):
        assert host.run(sources=sent) not in (None, {"changed": False, MISSING: True})


def test_a_task_that_was_sent_them_does_without_what_is_damaged(host: Host) -> None:
    sources = host.sources()
    host.run(sources=sources)
    (path,) = host.directory.iterdir()
    path.write_bytes(path.read_bytes().replace(b"json", b"\0\0\0\0"))
    found = host.run(sources=sources)
    assert found is not None
    assert found["from"].startswith(sources)


@pytest.mark.parametrize("what", ["file", "directory"])
def test_what_others_could_have_written_is_not_run(host: Host, what: str) -> None:
    host.run(sources=host.sources())
    (path,) = host.directory.iterdir()
    (path if what == "file" else host.directory).chmod(0o777)
    assert host.run() == {"changed": False, MISSING: True}


def test_a_link_is_not_followed(host: Host) -> None:
    host.run(sources=host.sources())
    (path,) = host.directory.iterdir()
    path.rename(host.top / "elsewhere.zip")
    path.symlink_to(host.top / "elsewhere.zip")
    assert host.run() == {"changed": False, MISSING: True}


@pytest.mark.parametrize("what", [KILLED, FULL], ids=["killed", "disk full"])
def test_whatever_step_fails_what_is_kept_is_whole_and_the_next_run_mends_it(host: Host, what: str) -> None:
    sources, failed = host.sources(), []
    for number in range(1, STEPS + 2):
        host.run(digest="old", sources=sources)
        found = host.run(digest="new", sources=sources, fault=FAULT.format(number=number, what=what))
        failed.append(found is None)
        for name in host.kept():
            assert host.run(digest=name) not in (None, {"changed": False, MISSING: True})
        host.run(digest="next", sources=sources)  # what was left behind goes with the next version
        assert os.listdir(host.directory) == [f"next.{sys.implementation.cache_tag}.zip"]
    assert failed == [what == KILLED] * STEPS + [False]
