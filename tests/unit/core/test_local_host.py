# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What only the real machine can show."""

from __future__ import annotations

import errno
import http.server
import json
import os
import signal
import socket
import socketserver
import ssl
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host import local_files as local
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import (
    Bug,
    CommandFailed,
    HostError,
    PeerError,
)

HOST = LocalHost()


def test_the_environment_is_built_from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD_LIKE", "secret")
    done = HOST.run(["env"], timeout=5, env={"MINE": "1"})
    assert sorted(line.split("=")[0] for line in done.stdout.splitlines()) == [
        *("LC_ALL", "MINE", "PATH", "SYSTEMD_IGNORE_CHROOT")
    ]


def test_output_that_is_not_text_is_kept_readable() -> None:
    assert HOST.run(["printf", r"a\377b"], timeout=5).stdout == "a\ufffdb"


def test_a_command_that_leaves_a_daemon_with_its_output_ends_in_time(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"sleep 60 & echo $! > {pid_file}; setsid sleep 61 & echo $! >> {pid_file}; wait"
    with pytest.raises(CommandFailed):
        HOST.run(["sh", "-c", script], timeout=3)
    group, escaped = (int(line) for line in pid_file.read_text().split())
    try:
        deadline = HOST.monotonic() + 10
        while HOST.read(f"/proc/{group}/cmdline"):
            assert HOST.monotonic() < deadline, "it outlived the command that started it"
            HOST.sleep(0.01)
    finally:
        os.kill(escaped, 9)


def test_a_directory_to_run_in_that_is_absent_is_not_a_missing_tool(tmp_path: Path) -> None:
    with pytest.raises(HostError) as caught:
        HOST.run(["true"], timeout=5, cwd=str(tmp_path / "absent"))
    assert caught.value.id == "core-enoent"


def test_a_spawned_daemon_has_its_own_session_and_no_descriptor_of_ours(tmp_path: Path) -> None:
    keep = os.open(tmp_path / "ours", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(keep, True)
    process = HOST.spawn(["sleep", "98"], log=str(tmp_path / "log"), env={"MINE": "1"})
    pid = process.pid
    try:
        deadline = HOST.monotonic() + 10
        while HOST.read(f"/proc/{pid}/cmdline") != b"sleep\x0098\x00":
            assert HOST.monotonic() < deadline
            HOST.sleep(0.01)
        assert os.getsid(pid) == pid
        open_files = {os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")}
        assert open_files == {"/dev/null", str(tmp_path / "log")}
        assert b"MINE=1" in (HOST.read(f"/proc/{pid}/environ") or b"")
    finally:
        HOST.signal(process, 9)
        os.close(keep)


def test_what_a_command_makes_is_readable_whatever_the_umask_of_the_caller(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        HOST.run(["mkdir", str(tmp_path / "made")], timeout=10)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o755


_CALLER = """
import ctypes, os, resource, signal, sys
os.umask(0o077)
ctypes.CDLL(None).personality(0x0040000)  # as setarch --addr-no-randomize
resource.setrlimit(resource.RLIMIT_MSGQUEUE, (1000, 1000))
resource.setrlimit(resource.RLIMIT_SIGPENDING, (100, 100))
os.nice(5)
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
resource.setrlimit(resource.RLIMIT_NOFILE, (300, 2000))
resource.setrlimit(resource.RLIMIT_FSIZE, (2**30, 2**30))
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
with open("/proc/self/oom_score_adj", "w") as file:
    file.write("300")
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
print(LocalHost().spawn(["sleep", "95"], log=sys.argv[1]).pid)
"""


_CAP_SYS_NICE, _CAP_SYS_RESOURCE = 23, 24
_LIMITS = ("Max open files", "Max file size", "Max pending signals", "Max msgqueue size")


def has_capability(number: int) -> bool:
    rows = (HOST.read("/proc/self/status") or b"").decode().splitlines()
    effective = next(row.split()[1] for row in rows if row.startswith("CapEff:"))
    return bool(int(effective, 16) & 1 << number)


def attributes(pid: int) -> dict[str, object]:
    rows = [line.split(":", 1) for line in (HOST.read(f"/proc/{pid}/status") or b"").decode().splitlines()]
    status = {name: text.strip() for name, text in rows}
    limits = (HOST.read(f"/proc/{pid}/limits") or b"").decode().splitlines()
    return {
        **{name: status[name] for name in ("Umask", "Cpus_allowed", "SigIgn", "SigBlk")},
        "nice": os.getpriority(os.PRIO_PROCESS, pid),
        "oom": (HOST.read(f"/proc/{pid}/oom_score_adj") or b"").decode().strip(),
        **{line[:14]: line[26:].split()[:2] for line in limits if line.startswith(_LIMITS)},
        "personality": (HOST.read(f"/proc/{pid}/personality") or b"").decode().strip(),
    }


def test_a_spawned_daemon_inherits_nothing_of_the_shell_that_a_run_was_typed_in(tmp_path: Path) -> None:
    argv, env = [sys.executable, "-c", _CALLER, str(tmp_path / "log")], {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(argv, env=env, capture_output=True, check=True, text=True)
    pid = int(done.stdout)
    shown = attributes(pid)
    os.kill(pid, 9)
    assert (shown["Umask"], int(str(shown["SigBlk"]), 16)) == ("0022", 0)
    assert not int(str(shown["SigIgn"]), 16) & 1 << signal.SIGHUP - 1
    raises = has_capability(_CAP_SYS_RESOURCE)  # without it the kernel keeps the lower hard limits
    assert shown["Max open files"] == ["1024", str(2**20 if raises else 2000)]
    assert shown["Max file size "] == ["unlimited" if raises else str(2**30)] * 2
    assert shown["Max pending si"] == ["unlimited" if raises else "100"] * 2
    assert shown["Max msgqueue s"] == ["819200" if raises else "1000"] * 2
    assert int(str(shown["personality"]), 16) == 0
    assert shown["nice"] == (0 if has_capability(_CAP_SYS_NICE) else 5)
    assert shown["oom"] == "0"
    assert bin(int(str(shown["Cpus_allowed"]).replace(",", ""), 16)).count("1") == len(os.sched_getaffinity(0))


def test_descriptors_are_closed_also_after_failures(tmp_path: Path) -> None:
    def open_descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    lock = str(tmp_path / "lock")
    before = open_descriptors()
    for _round in range(5):
        with pytest.raises(CommandFailed):
            HOST.run(["sleep", "60"], timeout=0.05)
        HOST.run(["true"], timeout=5)
        with pytest.raises(HostError):
            HOST.write(str(tmp_path / "absent" / "x"), b"")
        with HOST.lock(lock), pytest.raises(HostError), HOST.lock(lock):
            pass
        with pytest.raises(PeerError):
            HOST.request(f"unix://{tmp_path}/absent.sock:/", timeout=1)
    assert open_descriptors() == before


def test_what_a_power_cut_may_take_is_what_the_fake_loses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`cut_power` of FakeHost is right: all but what is appended without `sync` waits until it is on the disk."""
    path, synced = str(tmp_path / "ledger"), list[str]()
    real_fsync = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        real_fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    HOST.append(path, b"may be lost\n", mode=0o600, sync=False)
    assert synced == []
    HOST.append(path, b"whole\n", mode=0o600, sync=True)
    assert synced == ["ledger"]
    for change in (lambda: HOST.write(path, b"x"), lambda: HOST.replace(path, b"y")):
        synced.clear()
        change()
        beside, directory = synced  # the new file before it has the name, then the name
        assert beside != "ledger"
        assert directory == tmp_path.name


def test_a_full_disk_is_told_and_leaves_no_part_of_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = str(tmp_path / "ledger")
    HOST.append(path, b"whole\n", mode=0o600, sync=False)
    real_write = os.write
    room = [3]

    def write(descriptor: int, data: bytes) -> int:
        if room[0] == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = real_write(descriptor, bytes(data[: room[0]]))
        room[0] -= written
        return written

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(HostError) as caught:
        HOST.append(path, b"a second line\n", mode=0o600, sync=False)
    monkeypatch.undo()
    assert caught.value.id == "core-enospc"
    assert "free space" in caught.value.remedy
    assert HOST.read(path) == b"whole\n"


def test_a_real_full_device_is_told_as_such() -> None:
    with pytest.raises(HostError) as caught:
        HOST.write_kernel_file("/dev/full", "x")
    assert caught.value.id == "core-enospc"


def test_an_interrupted_write_leaves_the_old_file_and_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    HOST.write(path, b"old")

    def interrupt(source: str, target: str, **where: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        HOST.write(path, b"new")
    with pytest.raises(KeyboardInterrupt):
        HOST.symlink(path, "elsewhere")
    monkeypatch.undo()
    assert HOST.read(path) == b"old"
    assert HOST.listdir(str(tmp_path)) == ["file"]


def test_a_tree_with_a_mount_inside_is_not_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    inside = tmp_path / "tree" / "with space"
    inside.mkdir(parents=True)
    (inside / "precious").write_text("x")
    mountinfo = tmp_path / "mountinfo"
    escaped = str(inside).replace(" ", r"\040")
    mountinfo.write_text(f"20 1 0:5 / / rw - ext4 /dev/x rw\n36 20 0:5 / {escaped} rw - ext4 /dev/x rw\n")
    real_open = open
    monkeypatch.setitem(
        local.__dict__,
        "open",
        lambda path, *rest: real_open(mountinfo if path == "/proc/self/mountinfo" else path, *rest),
    )
    for tree in (tmp_path / "tree", inside):
        with pytest.raises(HostError) as caught:
            HOST.remove_tree(str(tree))
        assert caught.value.id == "core-mounted"
        assert str(inside) in caught.value.found
    assert (inside / "precious").read_text() == "x"


def test_who_waits_at_a_lock_file_that_is_removed_begins_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the check, the second holds a file without a name and a third locks the new one at the same time."""
    path = str(tmp_path / "lock")
    stale = os.open(path, os.O_RDWR | os.O_CREAT)
    real_open = os.open
    opened: list[str] = []

    def open_stale_first(name: str, flags: int, mode: int = 0o777, **where: int) -> int:
        if not opened and name == "lock":
            opened.append(name)
            os.unlink(path)
            return stale
        return real_open(name, flags, mode, **where)

    monkeypatch.setattr(os, "open", open_stale_first)
    with HOST.lock(path):
        monkeypatch.undo()
        with pytest.raises(HostError) as caught, HOST.lock(path):
            pass
        assert caught.value.id == "core-locked"
        assert str(os.getpid()) in caught.value.found


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"path": self.path, "header": self.headers.get("X-Test")}).encode()
        self.send_response(503 if self.path == "/sad" else 200)
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(201)
        self.end_headers()
        self.wfile.write(body.upper())

    def log_request(self, code: object = "-", size: object = "-") -> None:
        pass


class _UnixServer(socketserver.ThreadingUnixStreamServer):
    def get_request(self) -> tuple[socket.socket, str]:
        connection, _address = super().get_request()
        return connection, "unix"


class _UnixHandler(_Handler):
    def address_string(self) -> str:
        return "unix"


@pytest.fixture
def served() -> Iterator[http.server.ThreadingHTTPServer]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_any_status_is_an_answer(served: http.server.ThreadingHTTPServer) -> None:
    base = f"http://127.0.0.1:{served.server_address[1]}"
    answer = HOST.request(f"{base}/a?b=c", headers={"X-Test": "yes"}, timeout=5)
    assert answer.status == 200
    assert json.loads(answer.body) == {"path": "/a?b=c", "header": "yes"}
    assert HOST.request(f"{base}/sad", timeout=5).status == 503
    posted = HOST.request(f"{base}/", method="POST", body=b"hello", timeout=5)
    assert (posted.status, posted.body) == (201, b"HELLO")


def test_a_proxy_of_the_environment_is_not_asked(
    served: http.server.ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert HOST.request(f"http://127.0.0.1:{served.server_address[1]}/", timeout=5).status == 200


def test_a_unix_socket_is_spoken_to(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with _UnixServer(path, _UnixHandler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        answer = HOST.request(f"unix://{path}:/v1/x?y=z", timeout=5)
        assert json.loads(answer.body)["path"] == "/v1/x?y=z"
        assert HOST.request(f"unix://{path}", timeout=5).status == 200
        found = HOST.stat(path)
        assert found is not None
        assert found.kind == "socket"
        server.shutdown()
        thread.join()


def _certificate(directory: Path, name: str) -> tuple[str, str]:
    key, cert = str(directory / f"{name}.key"), str(directory / f"{name}.crt")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        + ["-keyout", key, "-out", cert, "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True,
        capture_output=True,
    )
    return cert, key


@contextmanager
def _https(cert: str, key: str) -> Iterator[str]:
    """A server with that certificate, by its address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_https_is_verified_by_the_given_authority_and_by_name(tmp_path: Path) -> None:
    cert, key = _certificate(tmp_path, "right")
    other, _key = _certificate(tmp_path, "wrong")
    with _https(cert, key) as address:
        assert HOST.request(address, ca=cert, timeout=5).status == 200
        for url, ca in (
            (address, other),
            (address, None),
            (address.replace("127.0.0.1", "localhost"), cert),
            (address, str(tmp_path / "absent.crt")),
        ):
            with pytest.raises(PeerError) as caught:
                HOST.request(url, ca=ca, timeout=5)
            assert caught.value.id == "core-no-answer"


@pytest.mark.parametrize("way", ["written", "replaced", "by a link"])
def test_an_authority_is_read_once_until_its_file_is_another(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = _certificate(tmp_path, "first")
    renewed, renewed_key = _certificate(tmp_path, "second")
    ca, made = tmp_path / "ca.crt", []
    make = ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", lambda **given: made.append(given) or make(**given))
    if way == "by a link":
        ca.symlink_to(cert)
    else:
        ca.write_bytes(Path(cert).read_bytes())
    with _https(cert, key) as before, _https(renewed, renewed_key) as after:
        for _again in range(3):
            assert HOST.request(before, ca=str(ca), timeout=5).status == 200
        assert len(made) == 1
        if way == "written":
            ca.write_bytes(Path(renewed).read_bytes())
        else:
            new = tmp_path / "new"
            if way == "by a link":
                new.symlink_to(renewed)
            else:
                Path(renewed).rename(new)
            new.rename(ca)
        assert HOST.request(after, ca=str(ca), timeout=5).status == 200
        with pytest.raises(PeerError):
            HOST.request(before, ca=str(ca), timeout=5)


def test_a_server_that_does_not_answer_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with pytest.raises(PeerError) as caught:
            HOST.request(f"http://127.0.0.1:{silent.getsockname()[1]}/", timeout=0.2)
        assert "timed out" in caught.value.found


def test_an_address_of_another_scheme_is_a_fault_of_ours() -> None:
    with pytest.raises(Bug):
        HOST.request("ftp://127.0.0.1/", timeout=1)


def test_a_value_of_the_kernel_is_written_blocking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From Linux 6.16 on, memory.high takes a write that does not block, and gives no memory back for it."""
    path, plain, blocking = tmp_path / "memory.high", os.write, []
    path.write_text("max\n")

    def written(descriptor: int, data: bytes) -> int:
        blocking.append(os.get_blocking(descriptor))
        return plain(descriptor, data)

    monkeypatch.setattr(os, "write", written)
    HOST.write_kernel_file(str(path), "1\n")
    assert (blocking, path.read_text()) == ([True], "1\n")
