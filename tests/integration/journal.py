# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What tests and benchmarks make on this machine: written down before it is made, removed when the block ends.

A run that was killed removes nothing, so the next one does it by what was written. A journal whose writer still runs is
locked, and left alone.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
JOURNALS = Path("/run/ballast-tests")  # ends with the boot, as namespaces, links and processes do
_LEAVE_SECONDS = 20
COLLECTION = {
    "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
    "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".build/collections"),
}


@contextmanager
def link(name: str, *kind: str) -> Iterator[None]:
    """A link of this namespace: `link("ballast-x", "type", "bridge")`."""
    with _written("link", name):
        _run("ip", "link", "add", name, *kind)
        yield


@contextmanager
def tap(name: str) -> Iterator[None]:
    """One that stays without a program, and has no owner."""
    with _written("link", name):
        _run("ip", "tuntap", "add", name, "mode", "tap")
        yield


@contextmanager
def network_namespace(name: str) -> Iterator[None]:
    with _written("namespace", name):
        _run("ip", "netns", "add", name)
        yield


@contextmanager
def mount(place: str, *argv: str) -> Iterator[None]:
    """What the command mounts there."""
    with _written("mount", place):
        _run(*argv)
        yield


@contextmanager
def directory(path: str) -> Iterator[None]:
    with _written("directory", path):
        os.makedirs(path, exist_ok=True)
        yield


@contextmanager
def cgroup(name: str) -> Iterator[list[str]]:
    """One of this name in every hierarchy; its directories. What runs in it has ended before the block does."""
    with _written("cgroup", name):
        places = [os.path.join(root, name) for root in _hierarchies()]
        for path in places:
            os.makedirs(path, exist_ok=True)
            for file in ("cpuset.cpus", "cpuset.mems"):  # of v1, empty in a new one, which then takes no process
                if os.path.basename(os.path.dirname(path)) == "cpuset":
                    Path(path, file).write_text(Path(os.path.dirname(path), file).read_text("ascii"), encoding="ascii")
                    Path(path, "cgroup.clone_children").write_text("1", encoding="ascii")
        yield places


@contextmanager
def at_least(name: str, value: int) -> Iterator[None]:
    """A limit of the kernel, `at_least("fs.inotify.max_user_instances", 8192)`, raised where it is lower."""
    before = _setting(name).read_text(encoding="ascii").strip()
    if int(before) >= value:
        yield
        return
    with _written("setting", name, before, str(value)):
        _setting(name).write_text(str(value), encoding="ascii")
        yield


@contextmanager
def undone_by(*argv: str) -> Iterator[None]:
    """What the block makes is removed by this command of Ansible, which finds nothing to do where nothing is left."""
    with _written("command", *argv):
        yield


def module(name: str, arguments: dict[str, object], python: str = sys.executable) -> tuple[str, ...]:
    """The command that runs a module of the collection on this machine, by that interpreter. None is what was not given."""
    asked = {option: value for option, value in arguments.items() if value is not None}
    given = ("-a", json.dumps(asked), "-e", f"ansible_python_interpreter={python}")
    return ("ansible", "localhost", "-m", f"ballast.kube.{name}", *given)


def remove_leftovers() -> None:
    """What killed runs left, newest first. Fails with what could not be removed; its journal stays then."""
    _journal()


@contextmanager
def _written(*entry: str) -> Iterator[None]:
    journal = _journal()
    _append(journal, {"made": entry})
    try:
        yield
    finally:
        interrupted = _remove(entry)
        _append(journal, {"removed": entry})
        if interrupted:
            raise KeyboardInterrupt


def _remove(entry: tuple[str, ...]) -> bool:
    """Whether somebody wanted the run to end meanwhile. It is begun anew then: half removed, it would be in the way of what is removed after it."""
    try:
        _REMOVE[entry[0]](*entry[1:])
    except KeyboardInterrupt:
        _REMOVE[entry[0]](*entry[1:])
        return True
    return False


@functools.cache
def _journal() -> IO[str]:
    """This process's, locked, once what killed runs left is gone."""
    JOURNALS.mkdir(mode=0o700, exist_ok=True)
    with _locked_directory():
        for path in sorted(JOURNALS.glob("*.jsonl")):
            _remove_what_is_left(path)
        path = JOURNALS / f"{os.getpid()}.jsonl"
        journal = path.open("a+", encoding="utf-8")
        fcntl.flock(journal, fcntl.LOCK_EX)
    atexit.register(_close, journal)
    return journal


@contextmanager
def _locked_directory() -> Iterator[None]:
    """A journal that is made now is not taken for one of a run that was killed."""
    place = os.open(JOURNALS, os.O_RDONLY)
    try:
        fcntl.flock(place, fcntl.LOCK_EX)
        yield
    finally:
        os.close(place)


def _remove_what_is_left(path: Path) -> None:
    with path.open("r+", encoding="utf-8") as journal:
        try:
            fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        for entry in reversed(_entries(journal)):
            _REMOVE[entry[0]](*entry[1:])
        path.unlink()


def _close(journal: IO[str]) -> None:
    journal.seek(0)
    if not _entries(journal):
        os.unlink(journal.name)
    journal.close()
    with contextlib.suppress(OSError):  # another run has its journal there
        JOURNALS.rmdir()


def _append(journal: IO[str], line: dict[str, tuple[str, ...]]) -> None:
    journal.write(json.dumps(line) + "\n")
    journal.flush()


def _entries(journal: IO[str]) -> list[list[str]]:
    """What was made and not removed. A last line that was cut short names what was not made yet."""
    found: list[list[str]] = []
    for text in journal:
        if not text.endswith("\n"):
            break
        line = json.loads(text)
        if "made" in line:
            found.append(line["made"])
        else:
            found.remove(line["removed"])
    return found


def _remove_link(name: str) -> None:
    if Path("/sys/class/net", name).exists():
        _run("ip", "link", "delete", name)


def _remove_namespace(name: str) -> None:
    """With the processes inside, which a killed run has left there."""
    if not Path("/run/netns", name).exists():
        return
    for pid in _run("ip", "netns", "pids", name).split():
        with contextlib.suppress(ProcessLookupError):  # ended with another one, whose namespace of processes it was in
            os.kill(int(pid), signal.SIGKILL)
    _run("ip", "netns", "delete", name)


def _remove_mount(place: str) -> None:
    if _is_mount(place):
        _run("umount", place)


def _remove_cgroup(name: str) -> None:
    """Processes that were killed leave it a moment later."""
    deadline = time.monotonic() + _LEAVE_SECONDS
    for root in _hierarchies():
        for path, _directories, _files in os.walk(os.path.join(root, name), topdown=False):
            while True:
                try:
                    os.rmdir(path)
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        raise
                time.sleep(0.05)


def _restore_setting(name: str, before: str, ours: str) -> None:
    """Unless somebody has set another one since."""
    if _setting(name).read_text(encoding="ascii").strip() == ours:
        _setting(name).write_text(before, encoding="ascii")


def _setting(name: str) -> Path:
    return Path("/proc/sys", *name.split("."))


def _hierarchies() -> list[str]:
    rows = (line.split() for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines())
    return [row[1] for row in rows if row[2] in ("cgroup", "cgroup2") and row[1].startswith("/sys/fs/cgroup")]


def _is_mount(place: str) -> bool:
    """`os.path.ismount` takes a directory that is bound over itself for none: the device above it is the same."""
    wanted = os.path.realpath(place)
    return any(
        line.split()[4] == wanted for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    )


def _remove_by(program: str, *arguments: str) -> None:
    _run(str(Path(sys.executable).with_name(program)), *arguments)


def _run(*argv: str) -> str:
    done = subprocess.run(
        argv, env={**os.environ, **COLLECTION}, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stdout}{done.stderr}"
    return done.stdout


_REMOVE: dict[str, Callable[..., None]] = {
    "link": _remove_link,
    "namespace": _remove_namespace,
    "mount": _remove_mount,
    "directory": functools.partial(shutil.rmtree, ignore_errors=True),
    "cgroup": _remove_cgroup,
    "setting": _restore_setting,
    "command": _remove_by,
}
