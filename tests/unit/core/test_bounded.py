# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is read of commands, files and sockets has an end, whatever they do."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.bounded import file_sha256
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import OUTPUT_LIMIT, READ_LIMIT
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import CommandFailed
from ansible_collections.ballast.kube.plugins.module_utils._core.text.json_text import parse_json
from tests.unit.core.limits import refused, within
from tests.unit.memory import MIB, measured

HOST = LocalHost()
LOCAL = "from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost"


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if not HOST.read(f"/proc/{pid}/cmdline"):
            return True
        time.sleep(0.01)
    return False


class TestCommands:
    def test_what_prints_700_megabytes_takes_no_more_than_its_cap(self) -> None:
        act = 'LocalHost().run(["head", "-c", "700000000", "/dev/zero"], timeout=60)'
        said, size = measured(LOCAL, act)
        assert (said, size < 3 * OUTPUT_LIMIT) == ("core-too-large", True), size

    @pytest.mark.parametrize("stream", ["stdout", "stderr"])
    def test_what_prints_without_an_end_is_ended_with_what_it_started(self, tmp_path: Path, stream: str) -> None:
        pids = tmp_path / "pids"
        to = "" if stream == "stdout" else " >&2"
        script = f"sleep 61 & echo $! $$ > {pids}; exec yes{to}"
        with within(20):
            error = refused(lambda: HOST.run(["sh", "-c", script], timeout=60, check=False))
        assert error.id == "core-too-large"
        assert error.text.startswith(f"{stream} of sh -c ")
        assert all(gone(int(pid)) for pid in pids.read_text().split())

    def test_a_caller_may_know_that_there_is_more_or_less_to_come(self) -> None:
        argv = ["head", "-c", str(OUTPUT_LIMIT + 1), "/dev/zero"]
        assert refused(lambda: HOST.run(argv, timeout=60)).id == "core-too-large"
        assert len(HOST.run(argv, timeout=60, limit=OUTPUT_LIMIT + 1).stdout) == OUTPUT_LIMIT + 1
        assert refused(lambda: HOST.run(["echo", "four"], timeout=60, limit=4)).id == "core-too-large"
        assert HOST.run(["echo", "four"], timeout=60, limit=5).stdout == "four\n"

    def test_what_drips_is_ended_at_the_time_of_the_whole_run(self) -> None:
        with within(10):
            error = refused(lambda: HOST.run(["sh", "-c", "while :; do echo .; sleep 0.1; done"], timeout=1))
        assert isinstance(error, CommandFailed)
        assert error.status == -signal.SIGKILL

    def test_what_takes_no_input_is_ended_in_time(self) -> None:
        with within(10):
            assert isinstance(refused(lambda: HOST.run(["sleep", "60"], timeout=0.5, stdin=bytes(MIB))), CommandFailed)

    def test_what_closes_its_output_and_stays_is_ended_in_time(self) -> None:
        with within(10):
            argv = ["sh", "-c", "exec >&- 2>&-; sleep 60"]
            assert isinstance(refused(lambda: HOST.run(argv, timeout=0.5)), CommandFailed)

    @pytest.mark.parametrize("left", ["sleep 62 &", "yes &", "setsid sleep 62 &"])
    def test_what_it_leaves_behind_with_its_output_holds_nobody_up(self, tmp_path: Path, left: str) -> None:
        pid = tmp_path / "pid"
        with within(10):
            done = HOST.run(["sh", "-c", f"{left} echo $! > {pid}; exit 3"], timeout=60, check=False, limit=2**40)
        assert done.status == 3
        if "setsid" in left:  # a daemon of its own, which may stay
            os.kill(int(pid.read_text()), signal.SIGKILL)
        assert gone(int(pid.read_text()))

    def test_what_it_printed_before_it_ended_is_there_to_the_last_byte(self) -> None:
        done = HOST.run(["sh", "-c", "sleep 62 & head -c 3000000 /dev/zero; echo end"], timeout=60)
        assert len(done.stdout) == 3_000_004
        assert done.stdout.endswith("end\n")

    def test_where_the_kernel_reaps_children_its_end_is_seen_too(self) -> None:
        before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        try:
            with within(10):
                assert HOST.run(["sh", "-c", "sleep 62 & echo end"], timeout=60).stdout == "end\n"
        finally:
            signal.signal(signal.SIGCHLD, before)

    def test_input_and_output_larger_than_a_pipe_go_through(self) -> None:
        data = os.urandom(2 * MIB).hex().encode()
        assert HOST.run(["cat"], timeout=60, stdin=data).stdout.encode() == data
        assert HOST.run(["true"], timeout=60, stdin=data).status == 0, "it need not read what it is given"

    def test_a_file_that_it_writes_has_its_limit(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        argv = ["sh", "-c", f"sleep 0.5; exec head -c 4000000 /dev/zero > {path}"]
        error = refused(lambda: HOST.run(argv, timeout=60, writes=MIB))
        assert isinstance(error, CommandFailed)
        assert error.status == -signal.SIGXFSZ
        assert path.stat().st_size == MIB


class TestFiles:
    @pytest.mark.parametrize("kind", ["pipe", "device", "socket", "link to a pipe", "link to a device"])
    def test_what_is_no_file_is_refused_at_once(self, tmp_path: Path, kind: str) -> None:
        path = str(tmp_path / "it")
        target = f"{path}.target" if kind.startswith("link") else path
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if kind.endswith("pipe"):
            os.mkfifo(target)
        elif kind == "device":
            path = "/dev/zero"
        elif kind == "socket":
            listening.bind(path)
        else:
            target = "/dev/zero"
        if kind.startswith("link"):
            os.symlink(target, path)
        with listening, within(10):
            for read in (lambda: HOST.read(path), lambda: file_sha256(HOST, path)):
                assert refused(read).id == "core-einval"
            assert HOST.read_end(path, 10) is None

    def test_one_that_is_larger_than_it_may_be_is_not_begun(self, tmp_path: Path) -> None:
        with open(tmp_path / "it", "wb") as file:
            file.truncate(2**40)
        said, size = measured(LOCAL, "LocalHost().read(sys.argv[1])", str(tmp_path / "it"))
        assert (said, size < 16 * MIB) == ("core-too-large", True), size

    def test_the_kernels_are_read_though_they_say_that_they_are_empty(self) -> None:
        assert b"MemTotal:" in (HOST.read("/proc/meminfo") or b"")
        assert refused(lambda: HOST.read("/proc/meminfo", limit=20)).id == "core-too-large"

    def test_the_end_of_a_log_is_read_however_long_it_is(self, tmp_path: Path) -> None:
        path = str(tmp_path / "log")
        assert HOST.read_end(path, 10) is None
        with open(path, "wb") as file:
            file.truncate(2**40)
            file.seek(0, os.SEEK_END)
            file.write(b"the end\n")
        assert HOST.read_end(path, 8) == b"the end\n"
        assert len(HOST.read_end(path, MIB) or b"") == MIB

    def test_one_of_any_size_is_read_in_pieces(self, tmp_path: Path) -> None:
        with open(tmp_path / "it", "wb") as file:
            file.truncate(200 * MIB)
        prepare = (
            f"{LOCAL}\nfrom ansible_collections.ballast.kube.plugins.module_utils._core.host.bounded import file_sha256"
        )
        said, size = measured(prepare, "file_sha256(LocalHost(), sys.argv[1])", str(tmp_path / "it"))
        assert (said, size < 16 * MIB) == ("done", True), size

    def test_one_who_holds_a_lease_on_a_file_does_not_make_us_wait(self, tmp_path: Path) -> None:
        path = tmp_path / "it"
        path.write_bytes(b"x")
        script = (
            "import fcntl, os, signal, sys, time\n"
            "signal.signal(signal.SIGIO, signal.SIG_IGN)\n"
            "fcntl.fcntl(os.open(sys.argv[1], os.O_RDWR), fcntl.F_SETLEASE, fcntl.F_WRLCK)\n"
            "print('held', flush=True)\n"
            "time.sleep(60)\n"
        )
        with subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE) as holder:
            try:
                assert holder.stdout is not None
                if not holder.stdout.readline():
                    pytest.skip("this filesystem has no leases")
                with within(10):
                    assert refused(lambda: HOST.read(str(path))).id == "core-eagain"
            finally:
                holder.kill()


class TestSockets:
    @staticmethod
    @contextmanager
    def says(path: str, piece: bytes, *, pause: float, times: int) -> Iterator[None]:
        over = threading.Event()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            listening.bind(path)
            listening.listen()

            def say() -> None:
                with listening.accept()[0] as connection:
                    try:
                        for _time in range(times):
                            connection.sendall(piece)
                            if over.wait(pause):
                                return
                    except OSError:
                        return

            thread = threading.Thread(target=say)
            thread.start()
            yield
            over.set()
            thread.join()

    def test_one_that_drips_is_given_up_in_time(self, tmp_path: Path) -> None:
        path = str(tmp_path / "socket")
        with self.says(path, b".", pause=0.1, times=600), within(10):
            assert HOST.read_socket(path, timeout=1) is None

    def test_one_that_says_too_much_is_an_error_and_not_one_that_is_not_there(self, tmp_path: Path) -> None:
        path = str(tmp_path / "socket")
        with self.says(path, bytes(MIB), pause=0, times=READ_LIMIT // MIB + 1), within(20):
            assert refused(lambda: HOST.read_socket(path, timeout=15)).id == "core-too-large"


class TestJson:
    @pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "1" * 5000, "", "nope", b"\xff", "[1,]"])
    def test_everything_that_is_no_json_is_one_error(self, text: str | bytes) -> None:
        with within(10), pytest.raises(ValueError):
            parse_json(text)

    def test_what_is_json_is_read(self) -> None:
        assert parse_json(b'{"a": [1, -2.5, null, "\\u00e9"]}') == {"a": [1, -2.5, None, "\u00e9"]}
