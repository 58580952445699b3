# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The proxy of the aggregation agent: what it is asked, strictly; what it carries, whole; and no connection that hangs."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.aggregation.agent import proxy
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.aggregation.agent.connect import (
    Refusal,
    answer,
    parse_connect,
)
from tests.unit.control_plane.aggregated import HOST, TARGET, echo, eventually, running, within

BAD_REQUESTS = [
    (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"405 use CONNECT"),
    (b"connect a:1 HTTP/1.1\r\n\r\n", b"400 this is not HTTP"),
    (b"CONNECT a:1\r\n\r\n", b"400 this is not HTTP"),
    (b"CONNECT a:1 HTTP/2.0\r\n\r\n", b"400 this is not HTTP"),
    (b"CONNECT  a:1 HTTP/1.1\r\n\r\n", b"400 this is not HTTP"),
    (b"CONNECT a:1 HTTP/1.1\r\nno field\r\n\r\n", b"400 this is not HTTP"),
    (b"CONNECT a:1 HTTP/1.1\r\nHost : a\r\n\r\n", b"400 this is not HTTP"),
    (b"CONNECT a:1 HTTP/1.1\nHost: a\r\n\r\n", b"400 this is not HTTP"),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400 this is not HTTP"),
    (b"\r\n\r\n", b"400 this is not HTTP"),
    (b"CONNECT a HTTP/1.1\r\n\r\n", b"400 CONNECT takes HOST:PORT"),
    (b"CONNECT a:0 HTTP/1.1\r\n\r\n", b"400 CONNECT takes HOST:PORT"),
    (b"CONNECT a:65536 HTTP/1.1\r\n\r\n", b"400 CONNECT takes HOST:PORT"),
    (b"CONNECT http://a:1/ HTTP/1.1\r\n\r\n", b"400 CONNECT takes HOST:PORT"),
    (b"CONNECT a:1:2 HTTP/1.1\r\n\r\n", b"400 CONNECT takes HOST:PORT"),
    (b"CONNECT a:1 HTTP/1.1\r\n\r\n", b"403 a:1 is not in the list of APIServices"),
    (b"CONNECT [::1]:443 HTTP/1.1\r\n\r\n", b"403 ::1:443 is not in the list of APIServices"),
    (f"CONNECT {HOST}:8443 HTTP/1.1\r\n\r\n".encode(), b"403 wardle.default.svc:8443 is not in the list"),
    (f"CONNECT {HOST}.:443 HTTP/1.1\r\n\r\n".encode(), b"403 wardle.default.svc.:443 is not in the list"),
    (f"CONNECT x{HOST}:443 HTTP/1.1\r\n\r\n".encode(), b"403 xwardle.default.svc:443 is not in the list"),
]


def test_requests_that_are_none_are_refused_each_with_the_reason(tmp_path: Path) -> None:
    async def asked() -> None:
        async with running(tmp_path) as here:
            for request, told in BAD_REQUESTS:
                assert (await here.said(request)).startswith(b"HTTP/1.1 " + told), request
            assert here.counts.requests == {"malformed": 15, "refused": 5}
            assert here.counts.open == {}
            assert here.failures == []
            reader, _writer = await here.connect(TARGET.upper())
            assert not reader.at_eof()

    asyncio.run(asked())


def test_the_socket_is_for_its_owner_alone(tmp_path: Path) -> None:
    async def asked() -> None:
        async with running(tmp_path) as here:
            assert stat.S_IMODE(os.stat(here.path).st_mode) == 0o600

    asyncio.run(asked())


def test_a_head_that_is_too_long_or_does_not_come_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked() -> None:
        async with running(tmp_path) as here:
            reader, writer = await here.dial()
            for _part in range(20):
                writer.write(b"X-Padding: " + b"a" * 1000 + b"\r\n")
            try:
                assert (await within(reader.read())).startswith(b"HTTP/1.1 431 ")
            except ConnectionError:
                pass  # what it had not read yet came back first
            await eventually(lambda: here.counts.requests["malformed"] == 1)
            monkeypatch.setattr(proxy, "_HEAD_SECONDS", 0.1)
            assert (await here.said(b"CONNECT ")).startswith(b"HTTP/1.1 408 ")
            assert (await here.said()).startswith(b"HTTP/1.1 408 ")
            monkeypatch.setattr(proxy, "_HEAD_SECONDS", 60)
            _reader, writer = await here.dial()
            writer.close()  # in the middle of nothing
            reader, writer = await here.dial()
            writer.write(b"CONNECT a:1 HTTP/1.1\r\n")
            writer.write_eof()
            assert await within(reader.read()) == b""
            await eventually(lambda: not here.proxy._connections)

    asyncio.run(asked())


def test_what_comes_with_the_head_and_after_it_goes_through_whole(tmp_path: Path) -> None:
    async def asked() -> None:
        async with running(tmp_path) as here:
            reader, writer = await here.dial()
            writer.write(f"CONNECT {TARGET} HTTP/1.1\r\n\r\nearly".encode())
            await within(reader.readuntil(b"\r\n\r\n"))
            assert await within(reader.readexactly(5)) == b"early"
            data = os.urandom(3_000_000)

            async def send() -> None:
                writer.write(data)
                await writer.drain()
                writer.write_eof()

            sending = asyncio.ensure_future(send())
            assert await within(reader.read(-1)) == data
            await within(sending)
            await eventually(lambda: not here.proxy._connections)
            assert here.counts.bytes == {"sent": len(data) + 5, "received": len(data) + 5}
            assert here.counts.open[TARGET] == 0

    asyncio.run(asked())


def test_one_end_that_is_half_closed_still_gets_its_answer(tmp_path: Path) -> None:
    async def answer_at_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.read(-1)
        writer.write(b"answer to " + data)

    async def asked() -> None:
        async with running(tmp_path, answer_at_the_end) as here:
            reader, writer = await here.connect()
            writer.write(b"question")
            writer.write_eof()
            assert await within(reader.read(-1)) == b"answer to question"

    asyncio.run(asked())


def test_an_end_that_falls_silent_after_the_other_has_ended_is_broken_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy, "_LINGER_SECONDS", 0.2)

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(3600)

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _part in range(10):
            writer.write(b".")
            await asyncio.sleep(0.1)

    async def asked() -> None:
        async with running(tmp_path, say_nothing) as here:
            reader, writer = await here.connect()
            writer.write_eof()
            assert await _end_of(reader) == b""
            reader, writer = await here.connect()
            writer.close()
            await eventually(lambda: not here.proxy._connections)
        async with running(tmp_path, drip) as here:
            reader, writer = await here.connect()
            writer.write_eof()
            assert await _end_of(reader) == b"." * 10  # slow is not silent

    asyncio.run(asked())


def test_a_connection_that_is_cut_ends_on_the_other_side_too(tmp_path: Path) -> None:
    def reset(writer: asyncio.StreamWriter) -> None:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    heard: list[bytes] = []

    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        reset(writer)

    async def read_socket(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await _end_of(reader))

    async def asked() -> None:
        async with running(tmp_path, cut) as here:
            reader, writer = await here.connect()
            writer.write(b"x")
            assert await _end_of(reader) == b""
        async with running(tmp_path, read_socket) as here:
            _reader, writer = await here.connect()
            writer.transport.abort()
            await eventually(lambda: heard)
            await eventually(lambda: not here.proxy._connections)

    asyncio.run(asked())


def test_one_that_does_not_read_holds_up_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "_LINGER_SECONDS", 0.2)
    monkeypatch.setattr(proxy, "_ANSWER_SECONDS", 0.2)

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.read(1) == b"e":
            await echo(reader, writer)
            return
        while True:
            writer.write(b"x" * 100_000)
            await writer.drain()

    async def asked() -> None:
        async with running(tmp_path, flood) as here:
            _deaf, stuck = await here.connect()
            stuck.write(b"f")
            reader, writer = await here.connect()
            writer.write(b"ehello")
            assert await within(reader.readexactly(5)) == b"hello"
            assert here.counts.open[TARGET] == 2
            stuck.write_eof()
            await eventually(lambda: here.counts.open[TARGET] == 1)

    asyncio.run(asked())


def test_a_server_that_cannot_be_reached_is_told_and_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "_DIAL_SECONDS", 0.2)
    head = f"CONNECT {TARGET} HTTP/1.1\r\n\r\n".encode()
    with socket.socket() as closed, socket.socket() as full:
        closed.bind(("127.0.0.1", 0))
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _number in range(3)]
        for one in waiting:  # the backlog is full: the next handshake is not answered
            one.setblocking(False)
            one.connect_ex(full.getsockname())

        async def asked() -> None:
            refused, slow = (f"127.0.0.1:{one.getsockname()[1]}" for one in (closed, full))
            async with running(tmp_path, address=refused) as here:
                for _again in range(2):
                    assert f"502 {TARGET} at {refused}: Connection refused".encode() in await here.said(head)
                assert here.counts.requests == {"failed": 2}
                assert len(here.failures) == 2
                assert here.log.getvalue().count(" failed ") == 1  # the log is told once
                here.proxy.addresses = {(HOST, 443): slow}
                assert b"502 wardle.default.svc:443 at " + slow.encode() + b": not within" in await here.said(head)

        asyncio.run(asked())
        for one in waiting:
            one.close()


def test_its_end_breaks_off_what_is_open(tmp_path: Path) -> None:
    async def asked() -> None:
        async with running(tmp_path) as here:
            reader, _writer = await here.connect()
            await within(here.proxy.end())
            assert await _end_of(reader) == b""

    asyncio.run(asked())


async def _end_of(reader: asyncio.StreamReader) -> bytes:
    """What comes until it ends, or is broken off."""
    found = b""
    try:
        while data := await within(reader.read(1000)):
            found += data
    except ConnectionError:
        pass
    return found


@given(st.binary(max_size=200))
def test_whatever_is_asked_has_an_answer(data: bytes) -> None:
    _answered(data)


@given(st.text(max_size=80), st.integers(-1, 70_000))
def test_whatever_target_is_asked_for_has_an_answer(host: str, port: int) -> None:
    _answered(f"CONNECT {host}:{port} HTTP/1.1".encode(errors="replace"))


def _answered(head: bytes) -> None:
    try:
        host, port = parse_connect(head + b"\r\n\r\n")
    except Refusal as refusal:
        line, *rest = answer(refusal).split(b"\r\n")
        assert line.isascii()
        assert rest == [b"Connection: close", b"Content-Length: 0", b"", b""]
    else:
        assert host == host.lower()
        assert 1 <= port <= 65535
