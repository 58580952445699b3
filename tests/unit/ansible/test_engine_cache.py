# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Engines that a host keeps: each run is a process of its own, as on a host."""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import marshal
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._agent.program import build_archive
from ansible_collections.ballast.kube.plugins.module_utils._ansible.engine_cache.start import MISSING, PARAMETER
from ansible_collections.ballast.kube.plugins.module_utils._ansible.engine_cache.store import seal

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
from ansible_collections.ballast.kube.plugins.module_utils._ansible.engine_cache import start as kept
basic._load_params = lambda: json.loads(sys.argv[1])
{fault}
kept.run_kept(sys.argv[2])
"""
# The call of this number, of those that change the directory, does {what}.
FAULT = """
left = [{number}]
def faulty(function):
    def call(*arguments, **named):
        if function.__name__ == "open" and not arguments[1] & os.O_CREAT:
            return function(*arguments, **named)
        left[0] -= 1
        if left[0] == 0:
            {what}
        return function(*arguments, **named)
    return call
for name in ("mkdir", "open", "fchmod", "fsync", "replace", "unlink", "listdir"):
    setattr(os, name, faulty(getattr(os, name)))
"""
KILLED, FULL = "os._exit(137)", "raise OSError(28, 'No space left on device')"
STEPS = 7  # of such calls


class Host:
    def __init__(self, top: Path) -> None:
        self.directory = top / "cache" / "engines"
        self.top = top
        self.digests: dict[str, str] = {}

    def sources(self, source: str = SAYS, *, version: str = "one") -> str:
        path = self.top / f"{version}.zip"
        path.write_bytes(build_archive("_ansible.engine_cache.store.keep", ["_ansible", "_core"]))
        with zipfile.ZipFile(path, "a") as made:
            made.writestr("ballast/toy/__init__.py", "")
            made.writestr("ballast/toy/main.py", source)
            made.writestr("ballast/toy/version.py", f"VERSION = {version!r}")
        self.digests[version] = hashlib.sha256(path.read_bytes()).hexdigest()
        return str(path)

    def run(self, *, version: str = "one", sources: str = "", keep: bool = True, fault: str = "") -> Optional[Any]:
        """What it printed; None where it was killed."""
        digest = self.digests.get(version, "none")
        engines = {"digest": digest, "directory": str(self.directory), "sources": sources, "keep": keep}
        argv = [sys.executable, "-c", RUN.format(fault=fault), json.dumps({PARAMETER: engines}), MAIN]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.stderr == ""
        return json.loads(done.stdout) if done.returncode != 137 else None

    def kept(self) -> list[str]:
        versions = {digest: version for version, digest in self.digests.items()}
        return sorted(versions[path.name.partition(".")[0]] for path in self.directory.glob("*.zip"))

    def path(self, version: str = "one") -> Path:
        return self.directory / f"{self.digests[version]}.{sys.implementation.cache_tag}.zip"


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
    assert found["from"].startswith(str(host.path()))
    assert [path.stat().st_mode & 0o777 for path in (host.directory, *host.directory.iterdir())] == [0o700, 0o600]


def test_what_is_kept_is_compiled(host: Host) -> None:
    host.run(sources=host.sources())
    path = host.path()
    with zipfile.ZipFile(path) as found:
        files = {name: found.read(name) for name in found.namelist()}
    # Its source is another one: Python takes what is compiled, and does not look at that.
    files["ballast/toy/main.py"] = b"raise ValueError"
    path.write_bytes(seal(repacked(files, b" " * 64), host.digests["one"]))
    assert host.run() not in (None, {"changed": False, MISSING: True})


def repacked(files: Mapping[str, bytes], comment: bytes) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as made:
        for name, content in files.items():
            made.writestr(name, content)
        made.comment = comment
    return data.getvalue()


@pytest.mark.parametrize("what", ["sources", "compiled", "added"])
@pytest.mark.parametrize("comment", ["blank", "as it was"])
def test_what_has_other_content_than_its_name_says_is_not_run(host: Host, what: str, comment: str) -> None:
    sources = host.sources()
    host.run(sources=sources)
    path, ran = host.path(), host.top / "ran"
    evil = f"open({str(ran)!r}, 'w').close()\n{SAYS}"
    with zipfile.ZipFile(path) as found:
        files, said = {name: found.read(name) for name in found.namelist()}, found.comment
    if what == "sources":
        files = {name: content for name, content in files.items() if not name.endswith(".pyc")}
        files["ballast/toy/main.py"] = evil.encode()
    elif what == "compiled":
        code = compile(evil, "main.py", "exec")
        files["ballast/toy/main.pyc"] = files["ballast/toy/main.pyc"][:16] + marshal.dumps(code)
    else:
        files["json.py"] = evil.encode()
    path.write_bytes(repacked(files, said if comment == "as it was" else b""))
    assert host.run() == {"changed": False, MISSING: True}
    assert not path.exists()
    host.run(sources=sources)
    assert not ran.exists()


def test_the_file_of_another_version_is_not_run_under_this_name(host: Host) -> None:
    host.run(sources=host.sources(FAILS), keep=False)
    host.run(version="two", sources=host.sources(version="two"))
    host.path("two").rename(host.path("one"))
    assert host.run() == {"changed": False, MISSING: True}
    assert host.kept() == []


def test_what_was_sent_and_is_not_what_was_asked_for_is_not_run(host: Host) -> None:
    sources, ran = host.sources(), host.top / "ran"
    with zipfile.ZipFile(sources, "a") as made:
        made.writestr("ballast/toy/main.pyc", b"")
        made.writestr("json.py", f"open({str(ran)!r}, 'w').close()")
    found = host.run(sources=sources)
    assert found is not None
    assert (found["failed"], found["id"]) == (True, "core-engines")
    assert "core-engines" in found["msg"]
    assert not ran.exists()
    assert not host.directory.exists()


def test_a_pipe_in_its_place_is_not_waited_for(host: Host) -> None:
    host.run(sources=host.sources())
    host.path().unlink()
    os.mkfifo(host.path(), 0o600)
    assert host.run() == {"changed": False, MISSING: True}


@pytest.mark.parametrize("case", ["check mode", "failure"])
def test_what_only_looked_or_failed_keeps_nothing(host: Host, case: str) -> None:
    host.run(sources=host.sources(FAILS if case == "failure" else SAYS), keep=case != "check mode")
    assert not host.directory.exists()
    assert host.run() == {"changed": False, MISSING: True}


def test_what_did_not_arrive_whole_is_neither_run_nor_kept(host: Host) -> None:
    """Where it is not seen at once, as in what this run does not import."""
    path = Path(host.sources())
    path.write_bytes(path.read_bytes().replace(b"VERSION", b"VERSI-N"))
    found = host.run(sources=str(path))
    assert found is not None
    assert found["id"] == "core-engines"
    assert not host.directory.exists()


def test_another_version_takes_the_place_of_the_last_one(host: Host) -> None:
    host.run(version="one", sources=host.sources(version="one"))
    host.run(version="two", sources=host.sources(version="two"))
    assert host.kept() == ["two"]


def test_one_that_another_run_still_imports_from_stays(host: Host) -> None:
    host.run(version="one", sources=host.sources(version="one"))
    with host.path().open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        host.run(version="two", sources=host.sources(version="two"))
        assert host.kept() == ["one", "two"]
    host.run(version="three", sources=host.sources(version="three"))
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
    old, new, following = (host.sources(version=version) for version in ("old", "new", "next"))
    failed = []
    for number in range(1, STEPS + 2):
        host.run(version="old", sources=old)
        found = host.run(version="new", sources=new, fault=FAULT.format(number=number, what=what))
        failed.append(found is None)
        for name in host.kept():
            assert host.run(version=name) not in (None, {"changed": False, MISSING: True})
        host.run(version="next", sources=following)  # what was left behind goes with the next version
        assert host.kept() == ["next"]
        assert len(os.listdir(host.directory)) == 1
    assert failed == [what == KILLED] * STEPS + [False]
