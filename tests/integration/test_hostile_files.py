# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an unprivileged user of a node puts where root reads, writes and locks: links, pipes, files and directories."""

from __future__ import annotations

import os
import signal
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError
from tests.integration.hostile import Attacker

HOST = LocalHost()

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


WAITING_SECONDS = 20  # for something that must not wait for anybody


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory as /tmp is: everybody may make entries, and change only their own."""
    with tempfile.TemporaryDirectory(prefix="ballast-shared-") as name:
        os.chmod(name, 0o1777)
        yield Path(name)


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file of root's that nobody else may read."""
    path = tmp_path / "shadow"
    path.write_text("4711")
    path.chmod(0o600)
    return path


def untouched(path: Path) -> bool:
    found = path.stat()
    return (path.read_text(), found.st_mode & 0o777, found.st_uid, found.st_nlink) == ("4711", 0o600, 0, 1)


WRITES: dict[str, Callable[[str], object]] = {
    "write": lambda path: HOST.write(path, b"key", mode=0o600),
    "replace": lambda path: HOST.replace(path, b"key"),
    "append": lambda path: HOST.append(path, b"key", mode=0o600, sync=False),
    "spawn": lambda path: HOST.spawn(["sleep", "0"], log=path),
    "lock": lambda path: HOST.lock(path).__enter__(),
    "make_directory": lambda path: HOST.make_directory(path, mode=0o700),
    "symlink": lambda path: HOST.symlink(path, "elsewhere"),
    "remove": lambda path: HOST.remove(path),
}
writes = pytest.mark.parametrize("act", WRITES.values(), ids=WRITES)


@writes
@pytest.mark.parametrize("way", ["its name", "a directory above"])
def test_a_link_that_was_planted_leads_nowhere(
    mallory: Attacker, shared: Path, precious: Path, act: Callable[[str], object], way: str
) -> None:
    planted, used = shared / "ballast", shared / "ballast"
    to = precious
    if way == "a directory above":
        to, used = precious.parent, planted / precious.name
    assert mallory.run(["ln", "-s", str(to), str(planted)]).returncode == 0
    with pytest.raises(HostError) as caught:
        act(str(used))
    assert caught.value.id == "core-place-owner"
    assert untouched(precious)
    assert sorted(os.listdir(precious.parent)) == [precious.name]


@writes
def test_a_directory_of_the_attackers_is_not_used(
    mallory: Attacker, precious: Path, act: Callable[[str], object]
) -> None:
    mallory.write({"lab/config.toml": "theirs", "lab/deep/config.toml": "theirs"})
    for used in (mallory.home / "lab/config.toml", mallory.home / "lab/deep/new"):
        with pytest.raises(HostError) as caught:
            act(str(used))
        assert caught.value.id == "core-place-owner"
    assert (mallory.home / "lab/config.toml").read_text() == "theirs"
    assert sorted(os.listdir(mallory.home / "lab/deep")) == ["config.toml"]


def test_a_link_of_roots_into_the_attackers_directory_is_not_written_through(mallory: Attacker, tmp_path: Path) -> None:
    """config.toml -> a directory that its reader owns."""
    mallory.write({"config.toml": "theirs"})
    config = tmp_path / "config.toml"
    config.symlink_to(mallory.home / "config.toml")
    with pytest.raises(HostError) as caught:
        HOST.replace(str(config), b"password")
    assert caught.value.id == "core-place-owner"
    assert (mallory.home / "config.toml").read_text() == "theirs"


@pytest.mark.parametrize("act", [WRITES[name] for name in ("append", "spawn", "lock", "replace")])
@pytest.mark.parametrize("kind", ["fifo", "fifo that is read", "hard link", "file"])
def test_what_was_planted_in_place_of_a_file_is_neither_written_nor_waited_for(
    mallory: Attacker, shared: Path, act: Callable[[str], object], kind: str
) -> None:
    planted = shared / "ballast.log"
    make = f"mkfifo {planted}" if kind.startswith("fifo") else f"echo theirs > {planted}"
    assert mallory.run(["sh", "-c", f"umask 0; {make}"]).returncode == 0
    if kind == "hard link":
        assert mallory.run(["ln", str(planted), str(shared / "other")]).returncode == 0
    elif kind == "fifo that is read":
        mallory.start(["sh", "-c", f"exec cat {planted} > {mallory.home}/read"])
    with in_time(), pytest.raises(HostError) as caught:
        act(str(planted))
    assert caught.value.id in ("core-place-owner", "core-not-a-file")


def test_a_value_is_not_poked_into_a_pipe(mallory: Attacker, shared: Path) -> None:
    pipe = shared / "cpu.max"
    assert mallory.run(["mkfifo", "-m", "666", str(pipe)]).returncode == 0
    with in_time(), pytest.raises(HostError):
        HOST.write_kernel_file(str(pipe), "max")


# Is there first with each name that can be guessed, and tries to take or to read what root makes.
RACER = """
import os, sys
shared, guessed = sys.argv[1:]

def tried(act, *arguments):
    try:
        act(*arguments)
        return True
    except OSError:
        return False

while True:
    for name in [guessed, *os.listdir(shared)]:
        path = os.path.join(shared, name)
        tried(os.mkdir, path, 0o777)
        tried(os.rename, path, path + ".taken")
        if tried(os.listdir, path) and os.stat(path).st_uid == 0:
            tried(os.mkdir, os.path.join(shared, "entered"))
        tried(os.rmdir, path)
        tried(os.rmdir, path + ".taken")
"""


def test_a_race_in_a_sticky_directory_gives_the_attacker_no_directory_of_ours(shared: Path, mallory: Attacker) -> None:
    """Fixtures end in reverse order: the attacker before the directory, which it would fill again. Before the fix,
    nobody owned the work directory of a backup in 315 of 3,206 tries."""
    fixed = str(shared / ".ballast-backup.tar")
    mallory.start(["/usr/bin/python3", "-c", RACER, str(shared), ".ballast-backup.tar"])
    deadline, tries, taken, refused = time.monotonic() + 10, 0, 0, 0
    while tries < 3000 and time.monotonic() < deadline:
        tries += 1
        with HOST.work_directory(str(shared), "backup.tar") as work:
            HOST.write(os.path.join(work, "key"), b"secret", mode=0o600)
            found = os.lstat(work)
            taken += found.st_uid != 0 or not stat.S_ISDIR(found.st_mode) or stat.S_IMODE(found.st_mode) != 0o700
        try:
            HOST.make_directory(fixed, mode=0o700)  # a name that can be guessed
            taken += os.lstat(fixed).st_uid != 0
            HOST.remove_directory(fixed)
        except HostError as error:
            refused += error.id == "core-place-owner"
    assert tries > 100
    assert taken == 0
    assert refused > 0, "the attacker was never there first"
    assert not os.path.lexists(shared / "entered")


@contextmanager
def in_time() -> Iterator[None]:
    def give_up(_number: int, _frame: object) -> None:
        raise AssertionError("it waits for the attacker")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(WAITING_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
