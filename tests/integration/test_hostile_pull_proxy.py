# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an unprivileged user of a node tries at the pull proxy's metrics port, which everybody may connect to, and at its sockets."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest

from tests.fake_runtime.runtime import FakeRuntime
from tests.integration.cri import OPTIONS
from tests.integration.hostile import Attacker
from tests.integration.pull_proxy import PYTHON, PullProxy, pull_proxy

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


_FLOOD = """
import resource, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
held = []
while True:
    one = socket.socket()
    one.setblocking(False)
    one.connect_ex(("127.0.0.1", int(sys.argv[1])))
    held.append(one)
    if len(held) > 1500:
        held.pop(0).close()
    time.sleep(0.0005)
"""
_FILES = 250  # that the proxy may open here


def test_a_flood_of_the_metrics_port_starves_no_kubelet(mallory: Attacker, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with FakeRuntime(str(tmp_path / "runtime.sock")) as runtime:
            settings = {"max_in_flight": 1, "metrics": f"127.0.0.1:{port}"}
            made = pull_proxy(tmp_path / "proxy", {"a": runtime.path}, **settings)
            await used(await asyncio.to_thread(stack.enter_context, made))

    async def used(proxy: PullProxy) -> None:
        assert proxy.process is not None
        resource.prlimit(proxy.process.pid, resource.RLIMIT_NOFILE, (_FILES, _FILES))
        mallory.start([PYTHON, "-c", _FLOOD, str(port)])
        slowest, until = 0.0, time.monotonic() + 12
        while time.monotonic() < until:
            # A connection of its own for each call, as a kubelet that starts has: it needs a descriptor.
            async with grpc.aio.insecure_channel(f"unix:{proxy.socket('a')}", options=OPTIONS) as channel:
                begun = time.monotonic()
                assert await channel.unary_unary("/x/Echo")(b"x", timeout=10) == b"x"
                slowest = max(slowest, time.monotonic() - begun)
        assert slowest < 3
        assert "out-of-files" not in proxy.log.read_text(encoding="utf-8")
        assert len(os.listdir(f"/proc/{proxy.process.pid}/fd")) < _FILES / 2
        mallory.end()
        # A scrape is answered again at once.
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert b"ballast_pull_max_in_flight 1" in answer.read()

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with ExitStack() as stack:
        asyncio.run(scenario())


def test_the_sockets_of_the_pull_proxy_are_closed_to_others(mallory: Attacker, tmp_path: Path) -> None:
    """Those for kubelets and the one for its status, in a directory that somebody has opened since, too."""
    connect = (
        "import socket, sys\none = socket.socket(socket.AF_UNIX)\none.settimeout(5)\none.connect(sys.argv[1])\n"
        "one.sendall(b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n\\0\\0\\0\\4\\0\\0\\0\\0\\0')\nprint(one.recv(100))\n"
    )
    with pull_proxy(tmp_path / "proxy", {"a": str(tmp_path / "none.sock")}, max_in_flight=1) as proxy:
        sockets = [proxy.socket("a"), str(proxy.place / "run" / "control")]
        for path in sockets:
            assert "PermissionError" in mallory.run([PYTHON, "-c", connect, path]).stderr
        for place in (*tmp_path.parents, tmp_path, proxy.place, *(Path(path).parent for path in sockets)):
            if place.is_relative_to(Path(tempfile.gettempdir())) and place != Path(tempfile.gettempdir()):
                place.chmod(0o755)
        for path in sockets:
            os.chmod(path, 0o666)
            done = mallory.run([PYTHON, "-c", connect, path])
            assert done.stdout in ("b''\n", ""), done.stdout
            assert done.stdout or "ConnectionResetError" in done.stderr or "BrokenPipe" in done.stderr
