# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What FakeHost promises about LocalHost: each test runs on both. Paths that others could point elsewhere: test_host_places.py."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host import rooted as rooted_module
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Host, ProcessId
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.host.names import MARKER
from ansible_collections.ballast.kube.plugins.module_utils._core.host.processes import program, read_command
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import (
    BallastError,
    CommandFailed,
    HostError,
    PeerError,
    Unavailable,
)
from tests.unit.fakes import Call, FakeHost


class Machine:
    """A host, and a directory on it that the test may use."""

    def __init__(self, host: Host, root: str) -> None:
        self.host = host
        self.root = root

    def path(self, *parts: str) -> str:
        return os.path.join(self.root, *parts)


def fake_sh(call: Call) -> str | int:
    script = call.argv[2]
    if script == "cat":
        return call.stdin.decode()
    if script.startswith("exit "):
        return int(script[5:])
    return "".join(f"{name}={value}\n" for name, value in sorted({"LC_ALL": "C", **call.env}.items()))


@pytest.fixture(params=["fake", "local"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    if request.param == "local":
        return Machine(LocalHost(), str(tmp_path))
    host = FakeHost()
    host.given_directory("/tmp/test")
    host.on("sh", answer=fake_sh)
    host.on(
        "sleep", answer=CommandFailed(["sleep", "60"], status=-signal.SIGKILL, output="still running after 0.2 seconds")
    )
    return Machine(host, "/tmp/test")


def refused(act: Callable[[], object]) -> str:
    with pytest.raises(BallastError) as caught:
        act()
    return caught.value.id


def test_a_file_is_written_read_and_removed(machine: Machine) -> None:
    host, path = machine.host, machine.path("file")
    assert host.read(path) is None
    assert host.stat(path) is None
    host.write(path, b"one\n", mode=0o640)
    host.write(path, b"two\n", mode=0o600)
    found = host.stat(path)
    assert host.read(path) == b"two\n"
    assert found is not None
    assert (found.kind, found.mode, found.size) == ("file", 0o600, 4)
    assert host.listdir(machine.root) == ["file"]
    host.remove(path)
    host.remove(path)
    assert host.read(path) is None


def test_a_write_replaces_a_link_and_leaves_what_it_points_to(machine: Machine) -> None:
    host = machine.host
    host.write(machine.path("target"), b"theirs")
    host.symlink(machine.path("link"), "target")
    assert host.read(machine.path("link")) == b"theirs"
    host.write(machine.path("link"), b"ours")
    assert host.read(machine.path("target")) == b"theirs"
    assert host.readlink(machine.path("link")) is None


def test_refusals_have_the_ids_of_the_kernels_errors(machine: Machine) -> None:
    host, at = machine.host, machine.path
    host.make_directory(at("directory", "below"))
    host.write(at("file"), b"")
    assert refused(lambda: host.write(at("absent", "file"), b"")) == "core-enoent"
    assert refused(lambda: host.write(at("file", "file"), b"")) == "core-enotdir"
    assert refused(lambda: host.write(at("directory"), b"")) == "core-eisdir"
    assert refused(lambda: host.append(at("absent", "file"), b"", mode=0o600, sync=False)) == "core-enoent"
    assert refused(lambda: host.write_kernel_file(at("absent"), "1")) == "core-enoent"
    assert refused(lambda: host.read(at("directory"))) == "core-eisdir"
    assert refused(lambda: host.remove(at("directory"))) == "core-eisdir"
    assert refused(lambda: host.remove_directory(at("directory"))) == "core-enotempty"
    assert refused(lambda: host.remove_directory(at("file"))) == "core-enotdir"
    assert refused(lambda: host.remove_tree(at("file"))) == "core-enotdir"
    assert refused(lambda: host.make_directory(at("file"))) == "core-eexist"
    assert refused(lambda: host.make_directory(at("file", "below"))) == "core-enotdir"
    assert refused(lambda: host.symlink(at("absent", "link"), "x")) == "core-enoent"
    assert refused(lambda: host.symlink(at("directory"), "x")) == "core-eisdir"
    assert host.listdir(machine.root) == ["directory", "file"], "a refused act leaves nothing behind"


def test_what_is_absent_reads_as_none_or_empty_and_its_removal_is_well(machine: Machine) -> None:
    host, at = machine.host, machine.path
    host.write(at("file"), b"")
    for path in (at("absent"), at("absent", "x"), at("file", "x")):
        assert host.read(path) is None
        assert host.stat(path) is None
        assert host.readlink(path) is None
        assert host.listdir(path) == []
        assert host.list_directories(path) == []
        host.remove(path)
        host.remove_tree(path)
        host.remove_directory(path)
    assert host.listdir(at("file")) == []


def test_directories(machine: Machine) -> None:
    host, at = machine.host, machine.path
    host.make_directory(at("a", "b"), mode=0o700)
    host.make_directory(at("a", "b"), mode=0o750)
    found = host.stat(at("a", "b"))
    assert found is not None
    assert (found.kind, found.mode) == ("directory", 0o750)
    host.write(at("a", "b", "file"), b"x")
    host.symlink(at("a", "link"), "/etc")
    assert host.listdir(at("a")) == ["b", "link"]
    host.remove_tree(at("a"))
    assert host.listdir(machine.root) == []
    assert host.stat("/etc") is not None


def test_a_directory_is_made_with_our_mark_where_nothing_is(machine: Machine) -> None:
    host, at = machine.host, machine.path
    host.make_owned_directory(at("a", "b"), b"mark", mode=0o750)
    found = host.stat(at("a", "b"))
    assert found is not None
    assert (found.kind, found.mode) == ("directory", 0o750)
    assert host.read(at("a", "b", MARKER)) == b"mark"
    mark = host.stat(at("a", "b", MARKER))
    assert mark is not None
    assert mark.mode == 0o600
    host.write(at("file"), b"x")
    host.symlink(at("link"), "nowhere")
    host.symlink(at("to"), at("a"))
    for name in ("a", "file", "link", "to"):
        assert refused(lambda name=name: host.make_owned_directory(at(name), b"", mode=0o755)) == "core-eexist"  # type: ignore[misc]
    assert host.listdir(machine.root) == ["a", "file", "link", "to"]
    assert host.list_directories(machine.root) == ["a"], "no link to one"
    assert host.listdir(at("a")) == ["b"]
    host.remove_tree(at("a", "b"))
    assert host.listdir(at("a")) == []


def test_what_a_link_leads_to_is_looked_at_by_a_dot(machine: Machine) -> None:
    host, at = machine.host, machine.path
    host.make_directory(at("a"), mode=0o700)
    host.symlink(at("link"), "a")
    found, behind = host.stat(at("link")), host.stat(at("link", "."))
    assert found is not None
    assert behind is not None
    assert (found.kind, behind.kind, behind.mode) == ("symlink", "directory", 0o700)


def test_links(machine: Machine) -> None:
    host, at = machine.host, machine.path
    host.make_directory(at("real"))
    host.symlink(at("link"), "elsewhere")
    host.symlink(at("link"), "real")
    found = host.stat(at("link"))
    assert found is not None
    assert found.kind == "symlink"
    assert host.readlink(at("link")) == "real"
    host.write(at("link", "file"), b"x")
    assert host.read(at("real", "file")) == b"x"
    assert refused(lambda: host.remove_tree(at("link"))) == "core-enotdir"
    host.remove(at("link"))
    assert host.listdir(at("real")) == ["file"]


def test_lines_are_appended(machine: Machine) -> None:
    host, path = machine.host, machine.path("log")
    host.append(path, b"one\n", mode=0o600, sync=True)
    host.append(path, b"two\n", mode=0o600, sync=False)
    found = host.stat(path)
    assert host.read(path) == b"one\ntwo\n"
    assert found is not None
    assert found.mode == 0o600


def test_a_value_is_poked_into_what_is_there(machine: Machine) -> None:
    host, path = machine.host, machine.path("setting")
    host.write(path, b"a long value\n")
    host.write_kernel_file(path, "1\n")
    assert host.read(path) == b"1\n"


def test_a_command_and_its_output(machine: Machine) -> None:
    done = machine.host.run(["sh", "-c", "cat"], timeout=5, stdin=b"hello")
    assert (done.argv, done.status, done.stdout, done.stderr) == (("sh", "-c", "cat"), 0, "hello", "")
    assert machine.host.run(["sh", "-c", "exit 3"], timeout=5, check=False).status == 3
    with pytest.raises(CommandFailed) as caught:
        machine.host.run(["sh", "-c", "exit 3"], timeout=5)
    assert caught.value.status == 3
    assert "sh -c 'exit 3'" in str(caught.value)


def test_a_command_that_does_not_end_is_ended(machine: Machine) -> None:
    with pytest.raises(CommandFailed, match="still running after") as caught:
        machine.host.run(["sleep", "60"], timeout=0.2)
    assert caught.value.status == -signal.SIGKILL


def test_a_command_that_prints_more_than_its_cap_is_refused(machine: Machine) -> None:
    host = machine.host
    assert host.run(["sh", "-c", "cat"], timeout=5, stdin=b"12345", limit=5).stdout == "12345"
    assert refused(lambda: host.run(["sh", "-c", "cat"], timeout=5, stdin=b"123456", limit=5)) == "core-too-large"


def test_a_file_is_read_to_a_cap_or_in_pieces(machine: Machine) -> None:
    host, path = machine.host, machine.path("file")
    with host.reading(path) as absent:
        assert absent is None
    host.write(path, (piece for piece in (b"12", b"345")))
    assert host.read(path, limit=5) == b"12345"
    assert refused(lambda: host.read(path, limit=4)) == "core-too-large"
    with host.reading(path) as file:
        assert file is not None
        assert (file.read(2), file.read(9), file.read(9)) == (b"12", b"345", b"")


def test_pieces_that_end_with_an_error_leave_the_file_as_it_was(machine: Machine) -> None:
    host, path = machine.host, machine.path("file")

    def fails() -> Iterator[bytes]:
        yield b"half"
        raise KeyError

    host.write(path, b"old")
    with pytest.raises(KeyError):
        host.write(path, fails())
    assert host.read(path) == b"old"
    assert host.listdir(machine.root) == ["file"]


def test_a_missing_tool_is_unavailable_and_not_an_empty_answer(machine: Machine) -> None:
    assert machine.host.which("ballast-no-such-tool") is None
    assert machine.host.which("sh") is not None
    with pytest.raises(Unavailable) as caught:
        machine.host.run(["ballast-no-such-tool"], timeout=5, check=False)
    assert caught.value.tool == "ballast-no-such-tool"
    with pytest.raises(Unavailable):
        machine.host.spawn(["ballast-no-such-tool"], log=machine.path("log"))
    assert refused(lambda: machine.host.spawn(["sh"], log=machine.path("absent", "log"))) == "core-enoent"


def test_a_lock_is_held_by_one_and_may_be_removed_by_its_holder(machine: Machine) -> None:
    host, path = machine.host, machine.path("lock")
    with host.lock(path):
        with pytest.raises(HostError) as caught, host.lock(path):
            pass
        assert caught.value.id == "core-locked"
    with host.lock(path):
        host.remove(path)
    assert host.stat(path) is None
    with host.lock(path):
        assert host.stat(path) is not None
    assert refused(lambda: host.lock(machine.path("absent", "lock")).__enter__()) == "core-enoent"


def test_no_answer_is_an_error_of_the_peer(machine: Machine) -> None:
    with pytest.raises(PeerError) as caught:
        machine.host.request(f"unix://{machine.path('absent.sock')}:/healthz", timeout=1)
    assert caught.value.id == "core-no-answer"


def test_free_space_is_that_of_the_nearest_parent(machine: Machine) -> None:
    assert machine.host.free_bytes(machine.path("absent", "deeper")) > 0


def test_the_clock_goes_on(machine: Machine) -> None:
    before = machine.host.monotonic()
    machine.host.sleep(0.01)
    assert machine.host.monotonic() > before
    assert machine.host.now() > 1_600_000_000


def test_a_daemon_is_spawned_and_ended(machine: Machine) -> None:
    host = machine.host
    if isinstance(host, FakeHost):
        host.on("sleep", answer="")
    log = machine.path("log")
    process = host.spawn(["sleep", "97"], log=log)
    assert host.read(f"/proc/{process.pid}/cmdline") == b"sleep\x0097\x00"
    assert str(process.pid) in host.listdir("/proc")
    assert host.stat(log) is not None
    assert host.signal(process, signal.SIGKILL)
    deadline = host.monotonic() + 10
    while host.read_process(process, "cmdline"):
        assert host.monotonic() < deadline
        host.sleep(0.01)


def test_a_process_that_never_was_cannot_be_signalled(machine: Machine) -> None:
    nobody = ProcessId(2**22 + 1, 0)
    assert machine.host.process(nobody.pid) is None
    assert machine.host.signal(nobody, signal.SIGTERM) is False
    assert machine.host.read_process(nobody, "cmdline") is None
    assert machine.host.read_below(nobody, "/etc/hostname", limit=100) is None
    assert machine.host.resolve_below(nobody, "/etc/hostname") is None


def test_a_process_that_has_the_pid_of_one_that_has_ended_is_left_alone(machine: Machine) -> None:
    host = machine.host
    if isinstance(host, FakeHost):
        host.on("sleep", answer="")
        host.on_spawn.append(
            lambda pid, _process: host.on(f"/proc/{pid}/exe", answer=lambda call: int(call.argv[1] == "x"))
        )
    process = host.spawn(["sleep", "96"], log=machine.path("log"))
    before = process._replace(started=process.started - 1)
    try:
        assert host.signal(before, signal.SIGKILL) is False
        assert host.read_process(before, "cmdline") is None
        assert host.read_below(before, "/", limit=100) is None
        assert host.resolve_below(before, "/") is None
        with pytest.raises(Unavailable):
            host.run_program(before, ["0"], timeout=5)
        assert host.run_program(process, ["0"], timeout=5).status == 0
        assert host.run_program(process, ["x"], timeout=5, check=False).status != 0
        assert host.read_process(process, "cmdline") == b"sleep\x0096\x00"
        found = host.process(process.pid)
        assert found is not None
        assert found.id == process
    finally:
        assert host.signal(process, signal.SIGKILL)


@contextmanager
def liar(host: Host) -> Iterator[int]:
    """A process of ours that calls itself kube-proxy and is another program."""
    if isinstance(host, FakeHost):
        yield host.given_process(("kube-proxy", "60"), exe=os.path.realpath("/bin/sleep"), uid=os.getuid())
        return
    with subprocess.Popen(["kube-proxy", "60"], executable="/bin/sleep") as child:
        try:
            while not host.read(f"/proc/{child.pid}/cmdline"):  # for a moment after its start it has none
                host.sleep(0.01)
            yield child.pid
        finally:
            child.kill()


def test_the_kernel_says_whose_a_process_is_whatever_it_calls_itself(machine: Machine) -> None:
    host = machine.host
    with liar(host) as pid:
        found = host.process(pid)
        assert found is not None
        assert read_command(host, found.id) == ["kube-proxy", "60"]
        assert (found.exe, found.uids) == (os.path.realpath("/bin/sleep"), (os.getuid(),) * 4)
        assert (program(found), found.own_users, found.own_network) == ("sleep", True, True)
        assert found.cgroups
        assert host.signal(found.id, signal.SIGKILL)


@contextmanager
def rooted(machine: Machine) -> Iterator[tuple[ProcessId, str]]:
    """A process, and the directory that it has for its root."""
    host = machine.host
    if isinstance(host, FakeHost):
        pid = host.given_process(("sleep",))
        host.given_directory(f"/proc/{pid}/root")
        yield ProcessId(pid, 0), f"/proc/{pid}/root"
        return
    if os.geteuid() != 0:
        pytest.skip("only root gives a process another root")
    root = machine.path("root")
    os.mkdir(root)
    ready, say = os.pipe()
    child = os.fork()
    if child == 0:
        os.chroot(root)
        os.write(say, b".")
        signal.pause()
        os._exit(0)
    try:
        os.read(ready, 1)
        found = host.process(child)
        assert found is not None
        yield found.id, root
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(say)


@pytest.fixture(params=["openat2", "component by component"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "openat2":
        monkeypatch.setattr(rooted_module, "_by_openat2", lambda _root, _path: None)


def test_below_a_root_every_link_stays_inside(machine: Machine, way: None) -> None:
    host = machine.host
    host.write(machine.path("outside"), b"of the host")
    with rooted(machine) as (process, root):
        host.make_directory(f"{root}/etc/real")
        host.write(f"{root}/etc/real/file", b"inside")
        host.symlink(f"{root}/absolute", machine.path("outside"))
        host.symlink(f"{root}/upwards", "../" * 20 + machine.path("outside")[1:])
        host.symlink(f"{root}/etc/short", "real")
        host.symlink(f"{root}/round", "/etc/../etc/short/file")
        host.symlink(f"{root}/loop", "/loop")

        def read(path: str) -> Optional[bytes]:
            return host.read_below(process, path, limit=6)

        for path in ("/absolute", "/upwards", machine.path("outside"), "/../.." + machine.path("outside"), "/absent"):
            assert read(path) is None
            assert host.resolve_below(process, path) is None
        assert read("/etc/real/file/below") is None
        for path in ("/etc/real/file", "etc/short/file", "/round", "/../../etc/./short/../real/file"):
            assert read(path) == b"inside"
            assert host.resolve_below(process, path) == "/etc/real/file"
        assert host.resolve_below(process, "/loop") is None


def test_below_a_root_only_plain_files_of_a_bounded_size_are_read(machine: Machine, way: None) -> None:
    host = machine.host
    with rooted(machine) as (process, root):
        host.write(f"{root}/long", b"0123456789")
        host.make_directory(f"{root}/directory")
        assert host.read_below(process, "/long", limit=10) == b"0123456789"
        assert refused(lambda: host.read_below(process, "/long", limit=9)) == "core-below-root"
        assert refused(lambda: host.read_below(process, "/directory", limit=9)) == "core-below-root"
        if not isinstance(host, FakeHost):
            os.mkfifo(f"{root}/fifo")
            os.mknod(f"{root}/zero", 0o600 | stat.S_IFCHR, os.makedev(1, 5))
            assert refused(lambda: host.read_below(process, "/fifo", limit=9)) == "core-below-root"
            assert refused(lambda: host.read_below(process, "/zero", limit=9)) == "core-below-root"


def test_who_listens_is_heard_to_the_end_and_where_none_does_there_is_nothing(machine: Machine) -> None:
    path, words = machine.path("control"), "well " * 100_000
    assert machine.host.read_socket(path, timeout=5) is None
    if isinstance(machine.host, FakeHost):
        machine.host.given_listener(path, lambda: words)
        assert machine.host.read_socket(path, timeout=5) == words.encode()
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(path)
        listening.listen()

        def say() -> None:
            with listening.accept()[0] as connection:
                connection.sendall(words.encode())

        speaker = threading.Thread(target=say)
        speaker.start()
        assert machine.host.read_socket(path, timeout=5) == words.encode()
        speaker.join()
    assert machine.host.read_socket(path, timeout=5) is None


def test_the_end_of_a_file_is_that_of_a_plain_one(machine: Machine) -> None:
    host, path = machine.host, machine.path("file")
    assert host.read_end(path, 4) is None
    host.write(path, b"one two")
    assert host.read_end(path, 3) == b"two"
    assert host.read_end(path, 100) == b"one two"
    host.symlink(machine.path("link"), path)
    assert host.read_end(machine.path("link"), 3) is None
    host.make_directory(machine.path("directory"))
    assert host.read_end(machine.path("directory"), 3) is None
    assert host.read_end(machine.path("file", "below"), 3) is None


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert LocalHost().read_end(str(tmp_path / "pipe"), 3) is None
