# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The metrics port, where every user of a machine may connect."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._agent import http_listener, scrape
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.messages import AGENT

GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


class Library:
    """What of prometheus_client is used."""

    CONTENT_TYPE_LATEST = "text/plain"

    @staticmethod
    def generate_latest(_registry: object) -> bytes:
        return b"counted 1\n"


@asynccontextmanager
async def served() -> AsyncIterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    listener = await scrape.serve_metrics(AGENT, Library, None, ("127.0.0.1", port))
    try:
        yield port
    finally:
        listener.close()
        await asyncio.sleep(0)
        await asyncio.sleep(0)


async def asked(port: int, sent: bytes = GET) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)
        return await asyncio.wait_for(reader.read(), 20)
    finally:
        writer.close()


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 60))


def files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_metrics_are_answered_and_nothing_else_is() -> None:
    async def scenario() -> None:
        async with served() as port:
            assert b"\r\n\r\ncounted 1\n" in await asked(port)
            assert b"counted" not in await asked(port, GET.replace(b"GET", b"HEAD"))
            assert (await asked(port, GET.replace(b"/metrics", b"/x"))).startswith(b"HTTP/1.1 404 ")
            assert (await asked(port, GET.replace(b"GET", b"PUT"))).startswith(b"HTTP/1.1 405 ")
            assert (await asked(port, b"\x16\x03\r\n\r\n")).startswith(b"HTTP/1.1 400 ")

    run(scenario)


def test_connections_that_say_nothing_take_few_descriptors_and_keep_nobody_out() -> None:
    async def scenario() -> None:
        async with served() as port:
            before = files()
            held = []
            for _turn in range(60):
                one = socket.socket()
                one.setblocking(False)
                one.connect_ex(("127.0.0.1", port))
                held.append(one)
            begun = time.monotonic()
            assert b"counted 1" in await asked(port)
            assert time.monotonic() - begun < 8
            assert files() - before - len(held) <= http_listener.CONNECTIONS + 2
            for one in held:
                one.close()

    run(scenario)


def test_accepts_are_so_many_in_a_second() -> None:
    """Each costs the loop time that the program's own sockets want."""

    async def scenario() -> None:
        async with served() as port:
            begun, answers = time.monotonic(), 0
            while time.monotonic() - begun < 1:
                answers += len(await asyncio.gather(*[asked(port) for _turn in range(8)]))
            assert answers <= 40

    run(scenario)


@pytest.mark.parametrize("sent", [b"G" * 100_000, b"GET /metrics HTTP/1.1\r\n" + b"a: b\r\n" * 10_000])
def test_a_request_is_so_long_and_no_longer(sent: bytes) -> None:
    async def scenario() -> None:
        async with served() as port:
            with suppress(ConnectionError):
                assert await asked(port, sent) == b""
            assert b"counted 1" in await asked(port)

    run(scenario)


def test_a_request_that_drips_has_its_time_for_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_listener, "_SECONDS", 0.5)

    async def scenario() -> None:
        async with served() as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)

            async def drip() -> None:
                while True:
                    writer.write(b"a")
                    await writer.drain()
                    await asyncio.sleep(0.05)

            dripping = asyncio.ensure_future(drip())
            with suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), 5)
            dripping.cancel()
            with suppress(asyncio.CancelledError, ConnectionError):
                await dripping
            writer.close()

    run(scenario)


def test_a_port_that_is_taken_is_an_error_and_leaves_nothing_open() -> None:
    async def scenario() -> None:
        async with served() as port:
            before = files()
            with pytest.raises(HostError) as refused:
                await scrape.serve_metrics(AGENT, Library, None, ("127.0.0.1", port))
            assert refused.value.id == "pulls-metrics-taken"
            assert files() == before

    run(scenario)


def test_it_stops_to_listen() -> None:
    async def scenario() -> None:
        async with served() as port:
            assert b"counted 1" in await asked(port)
        with pytest.raises(ConnectionError):
            await asked(port)

    run(scenario)


def test_the_address_of_a_closed_listener_is_free_at_once() -> None:
    async def scenario() -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        for text in (b"first", b"second"):  # reports that arrive together close it and open it again
            listener = http_listener.HttpListener(
                lambda request, text=text: http_listener.Answer(200, text),  # type: ignore[misc]
                http_listener.open_place("127.0.0.1", port),
            )
            if text == b"first":
                await asyncio.sleep(0.01)  # it waits for a connection
                listener.close()
        assert (await asked(port)).endswith(b"second")
        listener.close()
        with pytest.raises(ConnectionRefusedError):
            await asked(port)

    run(scenario)
