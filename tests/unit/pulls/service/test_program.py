# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program as a node runs it: one file, by the system's Python with Debian's packages, and by this one's."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from ansible_collections.ballast.kube.plugins.module_utils._agent.program import ZipappKind, program
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import ABSENT
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy import http2
from tests.fake_runtime.runtime import PULL_IMAGE, FakeRuntime, Image, image_ref, pull_request
from tests.unit.pulls.service.given import CHANNEL_OPTIONS, eventually, failure, run

PYTHONS = [path for path in dict.fromkeys(("/usr/bin/python3", sys.executable)) if os.path.exists(path)]
_SECONDS = 30


def _has_libraries(python: str) -> bool:
    return (
        subprocess.run(
            [python, "-c", "import grpc, hpack, prometheus_client, yaml"], check=False, capture_output=True
        ).returncode
        == 0
    )


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> str:
    target = str(tmp_path_factory.mktemp("program") / "ballast-pull-proxy")
    made = program(target, packages=["_agent", "_core", "_pulls"], main="_pulls.proxy.main.main", group="proxy")
    ZipappKind().write(Context(None, LocalHost()), target, made.value, ABSENT)
    return target


@dataclass
class Node:
    """`directory` is short: the kernel's limit of a socket's path."""

    directory: Path
    archive: str
    python: str
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def config(self) -> Path:
        return self.directory / "config.yml"

    @property
    def sockets(self) -> Path:
        return self.directory / "sockets"

    @property
    def runtime(self) -> str:
        return str(self.directory / "runtime.sock")

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text(encoding="utf-8")

    def write(self, **settings: object) -> None:
        rows = [{"socket": f"{self.sockets}/a.sock", "runtime": f"unix://{self.runtime}", "name": "a"}]
        self.config.write_text(json.dumps({"listeners": rows, "max_in_flight": 1, **settings}), encoding="utf-8")

    def argv(self, *command: str) -> list[str]:
        return [self.python, self.archive, *command, "--config", str(self.config)]

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*command), capture_output=True, text=True, timeout=_SECONDS, check=False, env=self.environment
        )

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "RUNTIME_DIRECTORY": str(self.directory / "run")}

    def start(self) -> subprocess.Popen[str]:
        with open(self.directory / "log", "a", encoding="utf-8") as log:
            process = subprocess.Popen(self.argv(), stderr=log, text=True, env=self.environment)
        self.processes.append(process)
        deadline = time.monotonic() + _SECONDS
        while "listening" not in self.log.rpartition("started")[2]:
            assert process.poll() is None, self.log
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return process

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait(_SECONDS)


@pytest.fixture
def node(tmp_path: Path, archive: str) -> Iterator[Node]:
    made = Node(tmp_path, archive, PYTHONS[0])
    made.write()
    yield made
    made.end()


async def _in_thread(work: Any, *arguments: str) -> Any:
    """Beside the fake runtime, which lives in this loop."""
    return await asyncio.get_running_loop().run_in_executor(None, work, *arguments)


@pytest.mark.parametrize("python", PYTHONS)
def test_it_serves_tells_reloads_and_ends(node: Node, python: str) -> None:
    if not _has_libraries(python):
        pytest.skip(f"{python} has not the packages of the proxy")
    node.python = python
    port = _free_port()
    node.write(metrics=f"127.0.0.1:{port}", drain="20s")

    async def scenario() -> None:
        process = await _in_thread(node.start)
        assert os.stat(node.sockets).st_mode & 0o777 == 0o700
        assert os.stat(node.sockets / "a.sock").st_mode & 0o777 == 0o600
        assert os.stat(node.directory / "run" / "control").st_mode & 0o777 == 0o600
        options = (*CHANNEL_OPTIONS, ("grpc.max_reconnect_backoff_ms", 200), ("grpc.min_reconnect_backoff_ms", 100))
        async with grpc.aio.insecure_channel(f"unix:{node.sockets}/a.sock", options=options) as channel:
            call = channel.unary_unary(PULL_IMAGE)
            early = await asyncio.wait_for(failure(call(pull_request("early"))), 3)
            assert early.code() == grpc.StatusCode.UNAVAILABLE
            async with FakeRuntime(node.runtime) as runtime:
                gate = asyncio.Event()
                runtime.images = {
                    "b": Image(gate=gate),
                    "a": Image(gate=gate),
                    "bad": Image(code=grpc.StatusCode.UNKNOWN),
                }
                runtime.present["b"] = ("sha256:b", 4711)
                await _used(channel)
                first = asyncio.ensure_future(
                    _awaited(call(pull_request("b", pod="p", namespace="n", password="hunter22")))
                )
                await eventually(lambda: runtime.in_flight == 1)
                second = asyncio.ensure_future(_awaited(call(pull_request("a"))))
                joined = asyncio.ensure_future(_awaited(call(pull_request("b", password="hunter22"))))
                while (
                    len((await _status(node))["queued"]) != 1 or (await _status(node))["in_flight"][0]["callers"] != 2
                ):
                    await asyncio.sleep(0.05)
                table = (await _in_thread(node.run, "status")).stdout.splitlines()
                assert table[0].startswith("1 in flight (limit 1), 1 queued, ")
                assert table[2].split() == ["in", "flight", table[2].split()[2], "2", "a", "n/p", "b"]
                values = await _in_thread(_metrics, str(port))
                assert values["in_flight"] == values["queued"] == values["joined_total"] == values["max_in_flight"] == 1

                node.write(max_in_flight=-1)
                process.send_signal(signal.SIGHUP)
                await eventually(lambda: "reload-refused" in node.log)
                assert "max_in_flight: -1" in node.log
                assert (await _status(node))["max_in_flight"] == 1
                node.write(max_in_flight=2)
                process.send_signal(signal.SIGHUP)
                await eventually(lambda: runtime.in_flight == 2)
                assert (await _in_thread(_metrics, str(port)))["max_in_flight"] == 2
                assert "needs_restart=metrics" in node.log

                process.send_signal(signal.SIGTERM)
                await eventually(lambda: "draining" in node.log)
                gate.set()
                assert [image_ref(await caller) for caller in (first, second, joined)] == [
                    "sha256:b",
                    "sha256:a",
                    "sha256:b",
                ]
                assert await _in_thread(process.wait) == 0
        assert not os.listdir(node.sockets)
        assert "hunter22" not in node.log
        assert "Traceback" not in node.log
        assert "fault" not in node.log

    run(scenario)


@pytest.mark.parametrize("python", PYTHONS)
def test_the_hpack_of_the_distribution_is_held_to_the_limits(node: Node, python: str) -> None:
    """Debian's 4.0.0 reads numbers without end, cannot print them, follows any count of changes of the table's size, and keeps
    whole blocks for small entries of the table."""
    if not _has_libraries(python):
        pytest.skip(f"{python} has not the packages of the proxy")
    node.python = python
    begun = http2.PREFACE + http2.settings({})
    entry = b"\x40\x01a\x01b" + b"\x10\x01x\x7f\x81\x7c" + b"y" * 16000
    entries = b"".join(http2.header_frames(1 + 2 * number, entry, end_stream=True) for number in range(120))

    async def scenario() -> None:
        process = await _in_thread(node.start)
        before = _resident_bytes(process.pid)
        numbers = [
            first + b"\xff" * (16383 - len(first)) + last
            for first in (b"\xff", b"\x7f", b"\x00\x7f", b"\x3f")
            for last in (b"\xff", b"\x7f")
        ]
        for block in [*numbers, b"\x20" * 16384]:
            reader, writer = await asyncio.open_unix_connection(f"{node.sockets}/a.sock")
            writer.write(begun + http2.header_frames(1, block, end_stream=True))
            assert await asyncio.wait_for(reader.read(), 5)  # until it is closed
            writer.close()
        assert node.log.count("connection-closed") == 9
        assert max(map(len, node.log.splitlines())) < 300
        connections = [await asyncio.open_unix_connection(f"{node.sockets}/a.sock") for _turn in range(20)]
        for reader, writer in connections:
            writer.write(begun + entries + http2.frame(http2.PING, 0, 0, b"answered"))
            pong = http2.frame(http2.PING, http2.ACK, 0, b"answered")
            await asyncio.wait_for(reader.readuntil(pong), 20)
        assert _resident_bytes(process.pid) - before < 16 * 2**20
        for _reader, writer in connections:
            writer.close()
        assert "fault" not in node.log
        assert "Traceback" not in node.log

    run(scenario)


def _resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


def test_the_metrics_count_callers_and_pulls(node: Node) -> None:
    port = _free_port()
    node.write(metrics=f"127.0.0.1:{port}", on_full="retry", retry={"attempts": 0})

    async def scenario() -> None:
        await _in_thread(node.start)
        channel = grpc.aio.insecure_channel(f"unix:{node.sockets}/a.sock", options=CHANNEL_OPTIONS)
        async with FakeRuntime(node.runtime) as runtime, channel:
            call = channel.unary_unary(PULL_IMAGE)
            runtime.images = {"slow": Image(gate=asyncio.Event()), "bad": Image(code=grpc.StatusCode.UNKNOWN)}
            runtime.present["i"] = ("sha256:i", 4711)
            await call(pull_request("i"))
            for image in ("bad", "slow"):
                holding = call(pull_request(image))
                await eventually(lambda image=image: image in runtime.pulled)  # type: ignore[misc]
                if image == "bad":
                    assert await holding.code() == grpc.StatusCode.UNKNOWN
            assert await call(pull_request("other")).code() == grpc.StatusCode.UNKNOWN
            holding.cancel()
            await eventually(lambda: runtime.in_flight == 0)
            values = await _in_thread(_metrics, str(port))
            while values["cancelled_total"] < 1 or values["bytes_total"] < 1:
                values = await _in_thread(_metrics, str(port))
            expected = {
                "pulls_total": 3,
                "failed_total": 1,
                "refused_total": 1,
                "cancelled_total": 1,
                "joined_total": 0,
            }
            assert {name: values[name] for name in expected} == expected
            assert values["duration_seconds_count"] == 3
            assert values["wait_seconds_count"] == 4
            assert values["bytes_total"] == 4711
        for path, status in (("/", 404), ("/metrics/", 404)):
            assert await _in_thread(_http_status, str(port), path) == status

    run(scenario)


def test_check_says_what_a_start_says_and_makes_nothing(node: Node) -> None:
    fine = node.run("check")
    assert (fine.returncode, fine.stderr) == (0, "")
    assert "max_in_flight 1" in fine.stdout
    assert sorted(os.listdir(node.directory)) == ["config.yml"]

    node.write(max_in_flight=-1, order="lifo")
    runs = [node.run("check"), node.run()]
    assert [(done.returncode, done.stdout) for done in runs] == [(2, ""), (2, "")]
    assert runs[0].stderr == runs[1].stderr
    assert "pulls-limit" in runs[0].stderr
    assert "lifo" in runs[0].stderr
    assert sorted(os.listdir(node.directory)) == ["config.yml"]


@pytest.mark.parametrize("mode", [0o750, 0o701])
def test_a_directory_that_others_may_enter_is_refused(node: Node, mode: int) -> None:
    node.sockets.mkdir()
    node.sockets.chmod(mode)
    runs = [node.run("check"), node.run()]
    assert [done.returncode for done in runs] == [2, 2]
    assert runs[0].stderr == runs[1].stderr
    assert "pulls-directory-open" in runs[0].stderr


def test_a_file_in_the_socket_s_place_is_left_alone(node: Node) -> None:
    node.sockets.mkdir(mode=0o700)
    (node.sockets / "a.sock").write_text("mine", encoding="utf-8")
    for command in (["check"], []):
        done = node.run(*command)
        assert done.returncode == 2
        assert "pulls-not-a-socket" in done.stderr
    assert (node.sockets / "a.sock").read_text(encoding="utf-8") == "mine"


def test_a_host_has_one_proxy_and_a_socket_one_holder(node: Node) -> None:
    process = node.start()
    rows = [{"socket": f"{node.directory}/other/b.sock", "runtime": node.runtime, "name": "b"}]
    node.write(listeners=rows)
    second = node.run()
    assert second.returncode == 3
    assert "pulls-running" in second.stderr
    assert str(process.pid) in second.stderr
    assert node.run("check").returncode == 0  # what a reload is checked with
    process.kill()
    process.wait(_SECONDS)

    node.write()
    node.start().kill()  # over the sockets that were left
    node.processes[-1].wait(_SECONDS)
    with ExitStack() as stack:
        (node.sockets / "a.sock").unlink()
        other = stack.enter_context(socket.socket(socket.AF_UNIX))
        other.bind(str(node.sockets / "a.sock"))
        other.listen()
        held = node.run()
        assert held.returncode == 3
        assert "pulls-socket-held" in held.stderr


def test_without_file_descriptors_it_goes_on_and_recovers(node: Node) -> None:
    async def scenario() -> None:
        process = await _in_thread(node.start)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (60, 60))
        channel = grpc.aio.insecure_channel(f"unix:{node.sockets}/a.sock", options=CHANNEL_OPTIONS)
        async with FakeRuntime(node.runtime), channel:
            echo = channel.unary_unary("/x/Echo")
            await echo(b"1")
            with ExitStack() as stack:
                for _turn in range(100):
                    listening = stack.enter_context(socket.socket(socket.AF_UNIX))
                    listening.connect(f"{node.sockets}/a.sock")
                await eventually(lambda: "out-of-files" in node.log)
                assert await echo(b"2") == b"2"
            await _used(channel)
        assert node.log.count("out-of-files") == 1
        assert "fault" not in node.log

    run(scenario)


def test_status_without_a_proxy_says_so(node: Node) -> None:
    for command in (["status"], ["status", "--json"]):
        done = node.run(*command)
        assert (done.returncode, done.stdout) == (3, "")
        assert "pulls-not-running" in done.stderr


def test_a_metrics_port_that_is_taken_is_an_error(node: Node) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        node.write(metrics=f"127.0.0.1:{taken.getsockname()[1]}")
        done = node.run()
        assert done.returncode == 3
        assert "pulls-metrics-taken" in done.stderr
    assert not os.listdir(node.sockets)


@pytest.mark.parametrize(
    "arguments", [[], ["--config"], ["dance", "--config", "x"], ["check", "--json", "--config", "x"]]
)
def test_a_bad_command_line_is_refused(node: Node, arguments: list[str]) -> None:
    done = subprocess.run([node.python, node.archive, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "usage:" in done.stderr


def test_a_configuration_that_is_not_there_is_a_bad_one(node: Node) -> None:
    node.config.unlink()
    done = node.run()
    assert done.returncode == 2
    assert "pulls-config" in done.stderr


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _status(node: Node) -> dict[str, Any]:
    done = await _in_thread(node.run, "status", "--json")
    assert done.returncode == 0, done.stderr
    status: dict[str, Any] = json.loads(done.stdout)
    return status


def _metrics(port: str) -> dict[str, float]:
    """Values of listener a, and of the host, by the rest of the metric's name."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=_SECONDS) as answer:
        lines = answer.read().decode().splitlines()
    suffix = '{listener="a"}'
    rows = [line.rsplit(" ", 1) for line in lines if f"{suffix} " in line or ("{" not in line and line[0] != "#")]
    return {name.removesuffix(suffix)[len("ballast_pull_") :]: float(value) for name, value in rows}


def _http_status(port: str, path: str) -> int:
    with socket.create_connection(("127.0.0.1", int(port)), _SECONDS) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        return int(connection.recv(4096).split()[1])


async def _awaited(call: Any) -> bytes:
    return bytes(await call)


async def _used(channel: Any) -> None:
    """The runtime is there; the proxy finds it within the time that it may take."""
    deadline = time.monotonic() + 10
    while True:
        try:
            await channel.unary_unary(PULL_IMAGE)(pull_request("probe"))
            return
        except grpc.aio.AioRpcError:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
