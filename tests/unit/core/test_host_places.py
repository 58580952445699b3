# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Paths that other users could point elsewhere, and somebody else's files: each test runs on LocalHost and on FakeHost."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Host
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from tests.unit.fakes import FakeHost, Killed

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")

NOBODY = 65534
ROOT = "/srv/test"


class Machine:
    """A host, a directory on it, and what lies in that beforehand, of any owner and mode."""

    def __init__(self, host: Host, root: str) -> None:
        self.host, self.root = host, root

    def at(self, *parts: str) -> str:
        return os.path.join(self.root, *parts)

    def directory(self, name: str, *, mode: int = 0o755, uid: int = 0, gid: int = 0) -> str:
        path = self.at(name)
        if isinstance(self.host, FakeHost):
            self.host.given_directory(path)
            self.host.given_owner(path, uid, gid, mode=mode)
        else:
            os.makedirs(path, exist_ok=True)
            os.chown(path, uid, gid)
            os.chmod(path, mode)
        return path

    def file(self, name: str, content: bytes = b"theirs", *, mode: int = 0o644, uid: int = 0, gid: int = 0) -> str:
        path = self.at(name)
        if isinstance(self.host, FakeHost):
            self.host.given(path, content)
            self.host.given_owner(path, uid, gid, mode=mode)
        else:
            Path(path).write_bytes(content)
            os.chown(path, uid, gid)
            os.chmod(path, mode)
        return path

    def link(self, name: str, to: str, *, uid: int = 0) -> str:
        path = self.at(name)
        if isinstance(self.host, FakeHost):
            self.host.given_link(path, to, uid=uid)
        else:
            os.symlink(to, path)
            os.lchown(path, uid, uid)
        return path

    def other_name(self, path: str, name: str) -> None:
        """A hard link."""
        if isinstance(self.host, FakeHost):
            self.host._nodes[path].names = 2
        else:
            os.link(path, self.at(name))

    def attribute(self, path: str, name: str, value: bytes) -> None:
        if isinstance(self.host, FakeHost):
            self.host._nodes[path].attributes[name] = value
            return
        try:
            os.setxattr(path, name, value)
        except OSError:
            pytest.skip("the filesystem of temporary files has no extended attributes")

    def attributes(self, path: str) -> dict[str, bytes]:
        if isinstance(self.host, FakeHost):
            return self.host._nodes[path].attributes
        return {name: os.getxattr(path, name) for name in os.listxattr(path)}


@pytest.fixture(params=["fake", "local"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    if request.param == "local":
        return Machine(LocalHost(), str(tmp_path))
    host = FakeHost()
    host.given_directory(ROOT)
    host.on("sleep", answer="")
    return Machine(host, ROOT)


def refused(act: Callable[[], object]) -> str:
    with pytest.raises(BallastError) as caught:
        act()
    assert caught.value.remedy
    return caught.value.id


def mode_of(host: Host, path: str) -> int:
    found = host.stat(path)
    assert found is not None
    return found.mode


# What changes something below a path.
ACTS: dict[str, Callable[[Host, str], object]] = {
    "write": lambda host, path: host.write(path, b"ours"),
    "replace": lambda host, path: host.replace(path, b"ours"),
    "append": lambda host, path: host.append(path, b"ours", mode=0o600, sync=False),
    "spawn": lambda host, path: host.spawn(["sleep", "0"], log=path),
    "lock": lambda host, path: host.lock(path).__enter__(),
    "symlink": lambda host, path: host.symlink(path, "elsewhere"),
    "make_directory": lambda host, path: host.make_directory(path),
    "work_directory": lambda host, path: host.work_directory(path, "work").__enter__(),
    "remove": lambda host, path: host.remove(path),
    "remove_directory": lambda host, path: host.remove_directory(path),
    "remove_tree": lambda host, path: host.remove_tree(path),
    "read_trusted": lambda host, path: host.read_trusted(path),
}
act = pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)


@act
@pytest.mark.parametrize(
    ("mode", "uid", "gid", "id"),
    [
        (0o777, 0, 0, "core-place-open"),
        (0o775, 0, NOBODY, "core-place-open"),
        (0o755, NOBODY, 0, "core-place-owner"),
        (0o1777, NOBODY, 0, "core-place-owner"),
    ],
    ids=["others", "group", "owner", "owner, sticky"],
)
@pytest.mark.parametrize("below", ["", "deeper"])
def test_where_others_may_write_nothing_is_touched(
    machine: Machine, act: Callable[[Host, str], object], mode: int, uid: int, gid: int, id: str, below: str
) -> None:
    place = machine.directory("theirs", mode=mode, uid=uid, gid=gid)
    machine.directory("theirs/deeper")
    assert refused(lambda: act(machine.host, os.path.join(place, below, "name"))) == id
    assert machine.host.listdir(place) == ["deeper"]
    assert machine.host.listdir(f"{place}/deeper") == []


@act
@pytest.mark.parametrize("what", ["link", "directory", "file"])
def test_in_a_sticky_directory_only_ours_is_used(
    machine: Machine, act: Callable[[Host, str], object], what: str
) -> None:
    precious = machine.directory("precious")
    machine.file("precious/name", b"secret")
    machine.directory("shared", mode=0o1777)
    if what == "link":
        machine.link("shared/name", precious, uid=NOBODY)
    elif what == "directory":
        machine.directory("shared/name", uid=NOBODY)
    else:
        machine.file("shared/name", uid=NOBODY)
    assert refused(lambda: act(machine.host, machine.at("shared", "name"))) == "core-place-owner"
    assert refused(lambda: act(machine.host, machine.at("shared", "name", "name"))) == "core-place-owner"
    assert machine.host.listdir(precious) == ["name"]
    assert machine.host.read(f"{precious}/name") == b"secret"


def test_in_a_sticky_directory_what_is_ours_is_used(machine: Machine) -> None:
    host = machine.host
    machine.directory("shared", mode=0o1777)
    host.make_directory(machine.at("shared", "ours"), mode=0o700)
    host.write(machine.at("shared", "ours", "file"), b"x")
    host.write(machine.at("shared", "file"), b"x")
    with host.lock(machine.at("shared", "lock")):
        assert host.listdir(machine.at("shared")) == ["file", "lock", "ours"]


def test_the_way_leads_through_links_of_our_own(machine: Machine) -> None:
    host = machine.host
    machine.directory("real/deeper")
    machine.link("way", "real")
    machine.link("real/back", "../real/deeper")
    host.write(machine.at("way", "back", "file"), b"x")
    host.make_directory(machine.at("way", "back", "made", "below"))
    assert host.listdir(machine.at("real", "deeper")) == ["file", "made"]


def test_a_link_to_where_others_may_write_is_refused(machine: Machine) -> None:
    machine.directory("open", mode=0o777)
    machine.link("way", "open")
    assert refused(lambda: machine.host.write(machine.at("way", "file"), b"")) == "core-place-open"


# Somebody else's file.


@pytest.mark.parametrize("way", ["", "link", "link to a link"])
def test_a_replaced_file_keeps_what_it_had_but_the_right_of_others_to_write(machine: Machine, way: str) -> None:
    host = machine.host
    real = machine.directory("real")
    path = machine.file("real/config.toml", b"password", mode=0o662, uid=NOBODY, gid=12)
    machine.attribute(path, "user.label", b"kept")
    machine.link("link", "real/config.toml")
    machine.link("second", machine.at("link"))
    host.replace({"": path, "link": machine.at("link"), "link to a link": machine.at("second")}[way], b"changed")
    found = host.stat(path)
    assert found is not None
    assert (found.kind, found.mode, found.uid, found.gid) == ("file", 0o640, NOBODY, 12)
    assert host.read(path) == b"changed"
    assert machine.attributes(path) == {"user.label": b"kept"}
    assert host.listdir(real) == ["config.toml"]
    assert host.readlink(machine.at("link")) == "real/config.toml"


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640, 0o4755])
def test_a_replaced_file_keeps_its_mode(machine: Machine, mode: int) -> None:
    path = machine.file("file", mode=mode)
    machine.host.replace(path, b"changed")
    assert mode_of(machine.host, path) == mode


def test_what_is_no_file_is_not_replaced(machine: Machine) -> None:
    host = machine.host
    machine.directory("directory")
    machine.link("dangling", "absent")
    assert refused(lambda: host.replace(machine.at("absent"), b"")) == "core-enoent"
    assert refused(lambda: host.replace(machine.at("dangling"), b"")) == "core-enoent"
    assert refused(lambda: host.replace(machine.at("directory"), b"")) == "core-not-a-file"
    assert host.listdir(machine.root) == ["dangling", "directory"]


# Files that we write into.

INTO = {name: ACTS[name] for name in ("append", "spawn", "lock")}
into = pytest.mark.parametrize("act", INTO.values(), ids=INTO)


@into
def test_nothing_is_written_through_a_link(machine: Machine, act: Callable[[Host, str], object]) -> None:
    path = machine.file("target", b"7")
    machine.link("link", "target")
    machine.link("dangling", "absent")
    assert refused(lambda: act(machine.host, machine.at("link"))) == "core-not-a-file"
    assert refused(lambda: act(machine.host, machine.at("dangling"))) == "core-not-a-file"
    assert machine.host.read(path) == b"7"
    assert machine.host.stat(machine.at("absent")) is None


@into
def test_nothing_is_written_into_a_file_of_other_names_or_owners(
    machine: Machine, act: Callable[[Host, str], object]
) -> None:
    twice = machine.file("twice", b"7")
    machine.other_name(twice, "other")
    theirs = machine.file("theirs", b"7", uid=NOBODY)
    assert refused(lambda: act(machine.host, twice)) == "core-hard-link"
    assert refused(lambda: act(machine.host, theirs)) == "core-place-owner"
    assert (machine.host.read(twice), machine.host.read(theirs)) == (b"7", b"7")


@pytest.mark.parametrize(
    ("mode", "uid", "gid", "id"),
    [(0o602, 0, 0, "core-place-open"), (0o660, 0, NOBODY, "core-place-open"), (0o600, NOBODY, 0, "core-place-owner")],
)
def test_what_another_user_could_have_written_is_not_trusted(
    machine: Machine, mode: int, uid: int, gid: int, id: str
) -> None:
    path = machine.file("theirs", mode=mode, uid=uid, gid=gid)
    assert refused(lambda: machine.host.read_trusted(path)) == id
    machine.link("link", path)
    assert refused(lambda: machine.host.read_trusted(machine.at("link"))) == id
    ours = machine.file("ours", b"ours", mode=0o664)
    machine.link("to-ours", ours)
    assert machine.host.read_trusted(machine.at("to-ours")) == b"ours"
    assert machine.host.read_trusted(machine.at("absent")) is None


def test_a_value_is_not_poked_through_a_link(machine: Machine) -> None:
    path = machine.file("target", b"7")
    machine.link("link", "target")
    assert refused(lambda: machine.host.write_kernel_file(machine.at("link"), "1")) == "core-eloop"
    assert machine.host.read(path) == b"7"


@pytest.mark.parametrize("content", [b"what a user keeps under this name\n", b"9" * 40])
def test_a_file_that_is_no_lock_is_not_emptied(machine: Machine, content: bytes) -> None:
    path = machine.file("images.lock", content)
    assert refused(lambda: machine.host.lock(path).__enter__()) == "core-not-a-lock"
    assert machine.host.read(path) == content


# Directories.


def test_a_directory_that_exists_keeps_its_mode(machine: Machine) -> None:
    host = machine.host
    for mode in (0o700, 0o1777):
        path = machine.directory(f"mode-{mode:o}", mode=mode)
        host.make_directory(path)
        assert mode_of(host, path) == mode
    assert refused(lambda: host.make_directory(machine.at("mode-1777"), mode=0o750)) == "core-place-open"
    assert mode_of(host, machine.at("mode-1777")) == 0o1777
    host.make_directory(machine.at("mode-700"), mode=0o750)
    assert mode_of(host, machine.at("mode-700")) == 0o750


def test_a_directory_of_somebody_else_is_not_taken_for_ours(machine: Machine) -> None:
    path = machine.directory("theirs", uid=NOBODY)
    open_to_all = machine.directory("open", mode=0o777)
    assert refused(lambda: machine.host.make_directory(path)) == "core-place-owner"
    assert refused(lambda: machine.host.make_directory(open_to_all)) == "core-place-open"
    assert mode_of(machine.host, open_to_all) == 0o777


def test_a_work_directory_is_ours_alone_and_goes(machine: Machine) -> None:
    host = machine.host
    machine.directory("shared", mode=0o1777)
    with host.work_directory(machine.at("shared"), "backup.tar") as first:
        with host.work_directory(machine.at("shared"), "backup.tar") as second:
            assert first != second
            host.write(os.path.join(second, "key"), b"secret", mode=0o600)
        assert mode_of(host, first) == 0o700
        assert host.stat(second) is None
    assert host.listdir(machine.at("shared")) == []

    def fail() -> None:
        with host.work_directory(machine.at("shared"), "backup.tar") as path:
            host.write(os.path.join(path, "key"), b"secret", mode=0o600)
            raise ZeroDivisionError

    pytest.raises(ZeroDivisionError, fail)
    assert host.listdir(machine.at("shared")) == []
    assert refused(lambda: host.work_directory(machine.at("absent"), "x").__enter__()) == "core-enoent"


def test_what_a_killed_run_left_goes_and_nothing_else(machine: Machine) -> None:
    host, path = machine.host, machine.directory("shared", mode=0o1777)
    killed = left_by_a_killed_run(machine, path)
    kept = [".ballast-b.", ".ballast-backup", ".ballast-backup.tar", ".ballast-other.0123456789abcdef"]
    for name in kept:
        host.make_directory(os.path.join(path, name))
        host.write(os.path.join(path, name, ".ballast-work"), b"")
    unmarked = os.path.join(path, ".ballast-b.0123456789abcdef")
    machine.directory("shared/.ballast-b.0123456789abcdef", mode=0o700)
    host.write(os.path.join(unmarked, "precious"), b"x")
    with host.work_directory(path, "b") as now:
        assert host.stat(killed) is None
        assert set(host.listdir(path)) == {*kept, os.path.basename(now), os.path.basename(unmarked)}
    assert host.read(os.path.join(unmarked, "precious")) == b"x"


def left_by_a_killed_run(machine: Machine, parent: str) -> str:
    if isinstance(machine.host, FakeHost):
        work = machine.host.work_directory(parent, "b")
        path = work.__enter__()
        work.__exit__(Killed, Killed(), None)
        machine.host.calm()
        return path
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with ExitStack() as held:
            path = held.enter_context(machine.host.work_directory(parent, "b"))
            os.write(writing, path.encode())
            os._exit(0)
    os.waitpid(child, 0)
    path = os.read(reading, 4096).decode()
    os.close(reading)
    os.close(writing)
    assert stat.S_ISDIR(os.stat(path).st_mode)
    return path
