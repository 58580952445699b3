# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The proxy in this process, between real sockets: `proxied` gives a fake runtime, and a channel to it through the proxy."""

from __future__ import annotations

import asyncio
import io
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from ansible_collections.ballast.kube.plugins.module_utils._agent.log import Log
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy import http2
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.server import Server
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.settings import Listener, Settings
from tests.fake_runtime.runtime import PULL_IMAGE, FakeRuntime, pull_request
from tests.unit.pulls.service.peer import Peer

CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.default_authority", "localhost"),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
)
_EVENTUALLY_SECONDS = 60  # on a machine that has much other work


@dataclass
class Proxied:
    directory: Path
    server: Server
    log: io.StringIO
    runtimes: list[FakeRuntime]
    stack: AsyncExitStack
    channels: list[Any] = field(default_factory=list)

    @property
    def runtime(self) -> FakeRuntime:
        return self.runtimes[0]

    @property
    def channel(self) -> Any:
        return self.channels[0]

    def socket(self, number: int = 0) -> str:
        return str(self.directory / "s" / f"{number}.sock")

    async def peer(self, number: int = 0, *, settings: dict[int, int] | None = None, silent: bool = False) -> Peer:
        """Connected; it has begun to speak HTTP/2 unless it is silent."""
        peer = Peer(*await asyncio.open_unix_connection(self.socket(number)))
        self.stack.push_async_callback(peer.close)
        if not silent:
            peer.send(http2.PREFACE + http2.settings(settings or {}))
        return peer

    def pull(self, image: str, *, channel: int = 0, timeout: float | None = None, **request: Any) -> Any:
        """A call of grpc.aio; awaiting it gives the response's bytes."""
        method = self.channels[channel].unary_unary(PULL_IMAGE)
        return method(pull_request(image, **request), timeout=timeout)


@asynccontextmanager
async def proxied(
    *, listeners: int = 1, runtimes_run: bool = True, max_in_flight: int = 1, **settings: Any
) -> AsyncIterator[Proxied]:
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (directory / "s").mkdir(mode=0o700)
        runtimes = [FakeRuntime(str(directory / f"runtime{number}.sock")) for number in range(listeners)]
        if runtimes_run:
            for runtime in runtimes:
                await stack.enter_async_context(runtime)
        log = io.StringIO()
        rows = tuple(
            Listener(socket=str(directory / "s" / f"{number}.sock"), runtime=runtime.path, name=f"n{number}")
            for number, runtime in enumerate(runtimes)
        )
        proxy_settings = Settings(listeners=rows, max_in_flight=max_in_flight, **settings)
        server = Server(proxy_settings, config="config.yml", control=str(directory / "control"), log=Log(log))
        await stack.enter_async_context(server)
        made = Proxied(directory, server, log, runtimes, stack)
        for number in range(listeners):
            channel = grpc.aio.insecure_channel(f"unix:{made.socket(number)}", options=CHANNEL_OPTIONS)
            made.channels.append(await stack.enter_async_context(channel))
        yield made


async def eventually(holds: Callable[[], bool]) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _EVENTUALLY_SECONDS
    while not holds():
        assert loop.time() < deadline, "it did not come to that"
        await asyncio.sleep(0.01)


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 240))


async def failure(call: Any) -> grpc.aio.AioRpcError:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error
    raise AssertionError("the call succeeded")
