# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What FakeHost promises about LocalHost: each test runs on both."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.errors import (
    BallastError,
    CommandFailed,
    HostError,
    PeerError,
    Unavailable,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.host import Host, LocalHost
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
    host.on("sleep", answer=CommandFailed(["sleep", "60"], status=-signal.SIGKILL, output="no end after 0.2 seconds"))
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
    assert refused(lambda: host.poke(at("absent"), "1")) == "core-enoent"
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
    host.poke(path, "1\n")
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
    with pytest.raises(CommandFailed, match="no end after") as caught:
        machine.host.run(["sleep", "60"], timeout=0.2)
    assert caught.value.status == -signal.SIGKILL


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
    pid = host.spawn(["sleep", "97"], log=log)
    assert host.read(f"/proc/{pid}/cmdline") == b"sleep\x0097\x00"
    assert str(pid) in host.listdir("/proc")
    assert host.stat(log) is not None
    assert host.kill(pid, signal.SIGKILL)
    deadline = host.monotonic() + 10
    while host.read(f"/proc/{pid}/cmdline"):
        assert host.monotonic() < deadline
        host.sleep(0.01)


def test_a_process_that_never_was_cannot_be_signalled(machine: Machine) -> None:
    assert machine.host.kill(2**22 + 1, signal.SIGTERM) is False


def test_who_listens_is_heard_to_the_end_and_where_none_does_there_is_nothing(machine: Machine) -> None:
    path, words = machine.path("control"), "well " * 100_000
    assert machine.host.hear(path, timeout=5) is None
    if isinstance(machine.host, FakeHost):
        machine.host.given_listener(path, lambda: words)
        assert machine.host.hear(path, timeout=5) == words.encode()
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(path)
        listening.listen()

        def say() -> None:
            with listening.accept()[0] as connection:
                connection.sendall(words.encode())

        speaker = threading.Thread(target=say)
        speaker.start()
        assert machine.host.hear(path, timeout=5) == words.encode()
        speaker.join()
    assert machine.host.hear(path, timeout=5) is None
