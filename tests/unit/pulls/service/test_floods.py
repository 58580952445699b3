# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Floods of one client: what costs its sender nothing ends its connection, and no turn of the loop is long."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy import http2
from tests.fake_runtime.runtime import PULL_IMAGE, pull_request
from tests.unit.pulls.service.given import eventually, proxied, run
from tests.unit.pulls.service.peer import Answered
from tests.unit.pulls.service.sent_frames import CALM, OPEN, headers, path
from tests.unit.pulls.service.test_peers import still_works

HUFFMAN_A = b"\x18\xc6\x31\x8c\x63"  # "aaaaaaaa"
EMPTY = http2.frame(http2.DATA, 0, 1)
FLOODS: dict[str, Callable[[int], bytes]] = {
    "continuation": lambda turn: b"" if turn else http2.frame(http2.HEADERS, 0, 3, b"") + CONTINUATIONS,
    "ping": lambda _turn: http2.frame(http2.PING, 0, 0, bytes(8)) * 1000,
    "ping acknowledged": lambda _turn: http2.frame(http2.PING, http2.ACK, 0, bytes(8)) * 1000,
    "settings": lambda _turn: http2.settings({}) * 1000,
    "settings acknowledged": lambda _turn: http2.frame(http2.SETTINGS, http2.ACK, 0) * 1000,
    "many settings": lambda turn: http2.settings({1000 + 30 * turn + key: 1 for key in range(30)}),
    "settings in one": lambda _turn: http2.settings(dict.fromkeys(range(7, 2000), 1)),
    "empty data": lambda _turn: EMPTY * 1000,
    "padded data": lambda _turn: http2.frame(http2.DATA, http2.PADDED, 1, b"\x02\0\0") * 1000,
    "data of no stream": lambda _turn: http2.frame(http2.DATA, 0, 99) * 1000,
    "credit": lambda _turn: http2.window_update(0, 1) * 1000,
    "credit of no stream": lambda _turn: http2.window_update(99, 1) * 1000,
    "priority": lambda _turn: http2.frame(2, 0, 1, bytes(5)) * 1000,
    "unknown": lambda _turn: http2.frame(0x63, 0, 1, bytes(5)) * 1000,
    "goaway": lambda _turn: http2.goaway(0, 0) * 1000,
    "resets of no stream": lambda _turn: http2.rst_stream(1 if _turn == 0 else 1, 8) * 1000,
    "closed streams": lambda _turn: headers(1, b"\x82", flags=5) * 1000 if _turn else http2.rst_stream(1, 8),
    "rapid reset": lambda turn: rapid(turn, "/x/Wait"),
    "rapid reset of pulls": lambda turn: rapid(turn, PULL_IMAGE),
    "requests without a path": lambda turn: b"".join(
        headers(3 + 2 * number, b"\x82") for number in range(1000 * turn, 1000 * turn + 1000)
    ),
}
CONTINUATIONS = http2.frame(http2.CONTINUATION, 0, 3) * 20000


def rapid(turn: int, of: str) -> bytes:
    numbers = range(3 + 400 * turn, 3 + 400 * turn + 400, 2)
    return b"".join(headers(number, path(of)) + http2.rst_stream(number, 8) for number in numbers)


@pytest.mark.parametrize("name", sorted(FLOODS))
def test_a_flood_of_what_costs_its_sender_nothing_ends(name: str) -> None:
    async def wait(_requests: AsyncIterator[bytes], _context: Any) -> AsyncIterator[bytes]:
        await asyncio.sleep(3600)
        yield b""

    async def scenario() -> None:
        async with proxied() as given:
            given.runtime.streams["/x/Wait"] = wait
            peer = await given.peer()
            peer.streams = defaultdict(Answered)
            peer.send(OPEN)

            async def flood() -> None:
                turn = 0
                while True:
                    peer.send(FLOODS[name](turn))
                    await peer.drain()
                    await asyncio.sleep(0.001)
                    turn += 1

            async def read() -> None:
                while await peer.frame():
                    pass

            flooding = asyncio.ensure_future(flood())
            try:
                await asyncio.wait_for(read(), 8)
            finally:
                flooding.cancel()
            assert "connection-closed" in given.log.getvalue()
            assert peer.goaway in (CALM, None)  # None: it was closed while the flood was not read
            await still_works(given)

    run(scenario)


def test_no_turn_is_long_whatever_is_in_it() -> None:
    """1 MiB of Huffman's code held all others up for a second, and so did credits while answers waited. A number of a whole
    block takes time that grows with its square, and the table's size may change as often as the block has bytes."""

    def value(size: int) -> bytes:
        length = size - 127
        written = bytearray(b"\xff")
        while length >= 0x80:
            written.append(length & 0x7F | 0x80)
            length >>= 7
        return bytes(written) + bytes([length])

    coded = HUFFMAN_A * (15000 // 5)
    blocks = [headers(1 + 2 * number, b"\x10\x01x" + value(len(coded)) + coded) for number in range(70)]
    whole = HUFFMAN_A * (1040000 // 5)
    block = b"\x10\x01x" + value(len(whole)) + whole
    number = headers(1, b"\xff" * 16383 + b"\x7f")
    sizes = [headers(1 + 2 * number, b"\x20" * 16000 + path("/x/Echo")) for number in range(40)]

    async def scenario() -> None:
        async with proxied() as given:
            longest = 0.0

            async def tick() -> None:
                nonlocal longest
                while True:
                    before = time.monotonic()
                    await asyncio.sleep(0.001)
                    longest = max(longest, time.monotonic() - before)

            ticking = asyncio.ensure_future(tick())
            for attack in (b"".join(blocks), http2.header_frames(1, block, end_stream=True), number, b"".join(sizes)):
                peer = await given.peer()
                peer.streams = defaultdict(Answered)
                for at in range(0, len(attack), 65536):
                    peer.send(attack[at : at + 65536])
                    await asyncio.sleep(0)
                with suppress(ConnectionError, asyncio.TimeoutError):
                    await asyncio.wait_for(peer.until_closed(), 2)
            ticking.cancel()
            assert longest < 0.4
            await still_works(given)

    run(scenario)


def test_credits_are_counted_once_for_all_answers_that_wait() -> None:
    async def scenario() -> None:
        async with proxied(max_in_flight=0) as given:
            peer = await given.peer(settings={http2.INITIAL_WINDOW_SIZE: 0})
            for number in range(1, 2 * 1500, 2):
                peer.ask(number, PULL_IMAGE, pull_request("i"))
                peer.streams[number].ended = False
            await eventually(lambda: given.server.status()["in_flight"] == [] and given.runtime.pulled != [])
            await asyncio.sleep(0.5)
            before = time.process_time()
            peer.send(http2.window_update(0, 1) * 7000)
            await peer.drain()
            await asyncio.sleep(0.2)
            assert time.process_time() - before < 2

    run(scenario)
