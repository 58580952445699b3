# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Peers that are slow, careless or hostile: each gets what HTTP/2 says, and the others do not notice."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy import http2, limits
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.answers import Answers, Pull
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.hpack import Header, encode
from tests.fake_runtime.runtime import PULL_IMAGE, Image, image_ref, pull_request
from tests.unit.pulls.service.given import Proxied, eventually, proxied, run

SETTINGS = http2.settings({})
BEGUN = http2.PREFACE + SETTINGS
PULL_HEADERS = encode([Header(b":path", PULL_IMAGE.encode()), Header(b"content-type", b"application/grpc")])
# Index 62, the first of the dynamic table: a large entry, and then one byte for each time that it is said again.
BOMB = b"\x40\x01x\x7f\xa1\x1e" + b"y" * 4000 + b"\xbe" * 12000


async def still_works(given: Proxied) -> None:
    assert image_ref(await given.pull("after")) == "sha256:after"
    assert await given.channel.unary_unary("/x/Echo")(b"after") == b"after"


@pytest.mark.parametrize(
    ("sent", "code", "text"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", None, "not HTTP/2"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", None, "not HTTP/2"),
        (BEGUN + b"\xff\xff\xff" + b"\x00\x00\x00\x00\x00\x01", http2.FRAME_SIZE_ERROR, "a frame of 16777215 bytes"),
        (
            BEGUN + http2.frame(http2.HEADERS, http2.END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff"),
            http2.COMPRESSION_ERROR,
            "",
        ),
        (BEGUN + http2.frame(http2.HEADERS, http2.END_HEADERS, 1, b"\xc0"), http2.COMPRESSION_ERROR, "index 64"),
        (BEGUN + http2.header_frames(1, BOMB, end_stream=True), http2.COMPRESSION_ERROR, "bytes"),
        (BEGUN + http2.frame(http2.HEADERS, http2.END_HEADERS, 2, PULL_HEADERS), http2.PROTOCOL_ERROR, "even"),
        (BEGUN + http2.frame(http2.HEADERS, 0, 1, b"") + SETTINGS, http2.PROTOCOL_ERROR, "interrupted"),
        (BEGUN + http2.frame(http2.CONTINUATION, 0, 1, b""), http2.PROTOCOL_ERROR, "CONTINUATION frame without"),
        (BEGUN + http2.frame(http2.PUSH_PROMISE, 0, 1, b""), http2.PROTOCOL_ERROR, "PUSH_PROMISE"),
        (BEGUN + http2.window_update(0, 2**31 - 1), http2.FLOW_CONTROL_ERROR, "credit"),
        (BEGUN + http2.frame(http2.SETTINGS, 0, 0, b"12345"), http2.FRAME_SIZE_ERROR, "SETTINGS"),
        (BEGUN + http2.frame(http2.PING, 0, 0, b"1"), http2.FRAME_SIZE_ERROR, "PING"),
        (BEGUN + http2.settings({http2.INITIAL_WINDOW_SIZE: 2**31}), http2.FLOW_CONTROL_ERROR, "window"),
        (
            BEGUN + http2.frame(http2.HEADERS, http2.END_HEADERS | http2.PADDED, 1, b"\xff"),
            http2.PROTOCOL_ERROR,
            "padding",
        ),
        (
            BEGUN + http2.frame(http2.HEADERS, 0, 1) + http2.frame(http2.CONTINUATION, 0, 1, bytes(16384)) * 2,
            http2.ENHANCE_YOUR_CALM,
            "header block",
        ),
    ],
)
def test_what_breaks_the_rules_ends_that_connection_alone(sent: bytes, code: int | None, text: str) -> None:
    async def scenario() -> None:
        async with proxied() as given:
            peer = await given.peer(silent=True)
            peer.send(sent)
            await peer.until_closed()
            if code is not None:
                assert peer.goaway == code
            assert text in given.log.getvalue()
            assert given.log.getvalue().count("connection-closed") == 1
            await still_works(given)

    run(scenario)


def test_noise_ends_no_other_connection() -> None:
    chance = random.Random(9)

    def noise() -> Iterator[bytes]:
        for _turn in range(60):
            kind = chance.choice(range(10))
            flags = chance.randrange(256)
            payload = chance.randbytes(chance.choice((0, 4, 5, 6, 8, 40)))
            yield http2.frame(kind, flags, chance.choice((0, 1, 3, 5)), payload)

    async def scenario() -> None:
        async with proxied() as given:
            for _turn in range(150):
                peer = await given.peer(silent=True)
                peer.send(BEGUN + b"".join(noise()))
                await peer.drain()
                await peer.close()
            await still_works(given)
            assert "bug" not in given.log.getvalue()
            assert "fault" not in given.log.getvalue()

    run(scenario)


@pytest.mark.parametrize("path", [PULL_IMAGE, "/x/Echo"])
def test_a_request_that_comes_byte_by_byte_is_answered(path: str) -> None:
    async def scenario() -> None:
        async with proxied() as given:
            peer = await given.peer(silent=True)
            for byte in BEGUN + peer.request(1, path, pull_request("i")):
                peer.send(bytes([byte]))
                await peer.drain()
                await asyncio.sleep(0)
            await peer.until_ended(1)
            assert peer.streams[1].status == 0

    run(scenario)


def test_an_answer_waits_for_the_windows_of_its_stream() -> None:
    async def scenario() -> None:
        async with proxied() as given:
            peer = await given.peer(settings={http2.INITIAL_WINDOW_SIZE: 0})
            peer.ask(1, PULL_IMAGE, pull_request("i"))
            await eventually(lambda: given.runtime.pulled == ["i"])
            expected = http2.data_payload(b"\x0a\x08sha256:i")
            for size in range(len(expected)):
                assert len(peer.streams[1].data) == size
                assert not peer.streams[1].ended
                peer.credit(1, 1)
                while len(peer.streams[1].data) == size:
                    assert await peer.frame()
            await peer.until_ended(1)
            assert bytes(peer.streams[1].data) == expected

    run(scenario)


def test_answers_and_streams_share_the_connection_window() -> None:
    """The peer asserts that it never gets more than it allowed, and it all comes."""
    chance = random.Random(4)

    async def flood(_requests: AsyncIterator[bytes], _context: Any) -> AsyncIterator[bytes]:
        for _turn in range(20):
            yield bytes(15000)

    async def scenario() -> None:
        async with proxied(max_in_flight=0) as given:
            given.runtime.streams["/x/Flood"] = flood
            peer = await given.peer(settings={http2.INITIAL_WINDOW_SIZE: 2**30})
            pulls = list(range(3, 203, 2))
            for number in pulls[:50]:  # before there is a connection to the runtime
                peer.ask(number - 2, PULL_IMAGE, pull_request(f"i{number}"))
            await peer.until_ended(*[number - 2 for number in pulls[:50]])
            first = 201
            peer.ask(first, "/x/Flood", b"")
            for number in range(first + 2, first + 102, 2):
                peer.ask(number, PULL_IMAGE, pull_request(f"j{number}"))
            expected = [number for number in peer.streams if number >= first]
            while not all(peer.streams[number].ended for number in expected):
                if peer.window < 40000:
                    peer.credit(0, chance.randrange(1, 30000))
                assert await peer.frame()
            assert len(peer.streams[first].data) == 20 * (15000 + 5)
            assert all(peer.streams[number].status == 0 for number in expected)

    run(scenario)


def test_the_window_of_requests_is_given_back() -> None:
    async def scenario() -> None:
        async with proxied(max_in_flight=0) as given:
            peer = await given.peer()
            for number in range(1, 41, 2):
                request = pull_request(f"i{number}", password="x" * 9000)
                peer.ask(number, PULL_IMAGE, request)
                peer.sendable -= len(request) + 5
                await peer.until_ended(number)
            assert peer.sendable == http2.INITIAL_WINDOW

    run(scenario)


def test_a_runtime_that_is_lost_ends_its_streams_and_not_the_pulls() -> None:
    async def wait(_requests: AsyncIterator[bytes], _context: Any) -> AsyncIterator[bytes]:
        await asyncio.sleep(60)
        yield b""

    async def scenario() -> None:
        async with proxied(listeners=2) as given:
            holding, other = given.runtimes
            holding.images["slow"] = Image(gate=asyncio.Event())
            other.streams["/x/Wait"] = wait
            slow = given.pull("slow")
            await eventually(lambda: holding.in_flight == 1)
            peer = await given.peer(1)
            peer.ask(1, "/x/Wait", b"")
            peer.ask(3, PULL_IMAGE, pull_request("queued"))
            await eventually(lambda: bool(other.calls and given.server.status()["queued"]))
            await other.stop()
            await peer.until_ended(1)
            assert peer.streams[1].status in (http2.UNAVAILABLE, http2.CANCELLED, http2.UNKNOWN)
            await other.start()
            slow.cancel()
            await peer.until_ended(3)
            assert peer.goaway == 0
            await peer.until_closed()

    run(scenario)


class RawRuntime:
    """Does not speak HTTP/2 so much as write what it is told: `sent` at once, and nothing is acknowledged."""

    def __init__(self, sent: bytes) -> None:
        self.sent = sent
        self.got = bytearray()
        self.writers: list[asyncio.StreamWriter] = []

    @asynccontextmanager
    async def serve(self, path: str) -> AsyncIterator[None]:
        async with await asyncio.start_unix_server(self._connected, path):
            try:
                yield
            finally:
                for writer in self.writers:
                    writer.transport.abort()
                await asyncio.sleep(0.01)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        writer.write(self.sent)
        while data := await reader.read(65536):
            self.got += data


def test_a_runtime_that_sends_more_than_it_may_is_held_back() -> None:
    frames = [http2.frame(http2.DATA, 0, 1, bytes(16000)) for _turn in range(20)]
    head = http2.header_frames(1, encode([Header(b":status", b"200")]), end_stream=False)
    end = http2.header_frames(1, encode([Header(b"grpc-status", b"0")]), end_stream=True)

    async def scenario() -> None:
        async with proxied(runtimes_run=False) as given:
            runtime = RawRuntime(SETTINGS + head + b"".join(frames) + end)
            async with runtime.serve(given.runtime.path):
                peer = await given.peer()
                peer.ask(1, "/x/Flood", b"")
                while not peer.streams[1].ended:
                    while peer.window < 16000:
                        peer.credit(0, 9000)
                    assert await peer.frame()
                assert len(peer.streams[1].data) == 20 * 16000

    run(scenario)


def test_no_answer_comes_between_two_frames_of_one_header_block() -> None:
    """The peer asserts so much."""
    block = encode([Header(b":status", b"200"), Header(b"x", b"y" * 100)])
    begun = http2.frame(http2.HEADERS, 0, 1, block[:50])

    async def scenario() -> None:
        async with proxied(runtimes_run=False) as given:
            runtime = RawRuntime(SETTINGS + begun)
            async with runtime.serve(given.runtime.path):
                peer = await given.peer()
                peer.ask(1, "/x/Slow", b"")
                await eventually(lambda: len(runtime.got) > len(BEGUN) + 100)
                peer.ask(3, PULL_IMAGE, b"\xff")  # answered at once: it cannot be read
                await asyncio.sleep(0.1)
                runtime.writers[0].write(http2.frame(http2.CONTINUATION, http2.END_HEADERS, 1, block[50:]))
                await peer.until_ended(3)
                assert peer.streams[3].status == http2.INTERNAL
                while (b"x", b"y" * 100) not in peer.streams[1].headers:
                    assert await peer.frame()
                peer.ask(5, "/x/Echo", b"")  # and what is no part of that block ends it
                runtime.writers[0].write(http2.frame(http2.HEADERS, 0, 5, block[:50]) + SETTINGS)
                await peer.until_ended(5)
                assert peer.streams[5].status == http2.UNAVAILABLE

    run(scenario)


def test_a_runtime_that_goes_in_order_does_not_take_the_pulls_along() -> None:
    async def scenario() -> None:
        async with proxied(listeners=2) as given:
            holding, other = given.runtimes
            holding.images["slow"] = Image(gate=asyncio.Event())
            slow = given.pull("slow")
            await eventually(lambda: holding.in_flight == 1)
            await other.stop()
            runtime = RawRuntime(SETTINGS + http2.goaway(1, http2.NO_ERROR))
            async with runtime.serve(other.path):
                peer = await given.peer(1)
                peer.ask(1, PULL_IMAGE, pull_request("queued"))
                peer.ask(3, PULL_IMAGE, pull_request("queued too"))
                peer.ask(5, "/x/Echo", b"")
                while peer.goaway is None:
                    assert await peer.frame()
                assert peer.goaway_last == 3
            slow.cancel()
            await peer.until_ended(1, 3)

    run(scenario)


@pytest.mark.parametrize("sent", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", http2.frame(http2.SETTINGS, 0, 0, b"123")])
def test_a_runtime_that_speaks_something_else_is_no_runtime(sent: bytes) -> None:
    async def scenario() -> None:
        async with proxied(runtimes_run=False) as given:
            runtime = RawRuntime(sent)
            async with runtime.serve(given.runtime.path):
                peer = await given.peer()
                peer.ask(1, "/x/Echo", b"")
                if not sent:
                    await eventually(lambda: bool(runtime.writers))
                    runtime.writers[0].close()
                await peer.until_ended(1)
                assert peer.streams[1].status == http2.UNAVAILABLE
                assert "runtime-gone" in given.log.getvalue()

    run(scenario)


def test_settings_that_a_lost_runtime_did_not_acknowledge_are_acknowledged() -> None:
    async def scenario() -> None:
        async with proxied(runtimes_run=False) as given:
            runtime = RawRuntime(SETTINGS)
            async with runtime.serve(given.runtime.path):
                peer = await given.peer()
                peer.ask(1, "/x/Echo", b"")
                await eventually(lambda: len(runtime.got) > len(BEGUN) + 100)
                peer.send(http2.settings({http2.INITIAL_WINDOW_SIZE: 70000}))
                await eventually(lambda: (70000).to_bytes(4, "big") in runtime.got)
                assert peer.acknowledged == 0
                runtime.writers[0].close()
                await peer.until_closed()
                assert peer.acknowledged == 2

    run(scenario)


def test_who_does_not_read_is_not_read_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_TRIFLES", 1e9)

    async def scenario() -> None:
        async with proxied() as given:
            peer = await given.peer()

            async def flood() -> None:
                while True:
                    peer.send(http2.frame(http2.PING, 0, 0, bytes(8)) * 10000)
                    await peer.drain()

            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(flood(), 2)
            assert peer.sent_bytes < 5_000_000
            await still_works(given)

    run(scenario)


def test_a_connection_that_breaks_takes_its_pulls_along() -> None:
    async def scenario() -> None:
        async with proxied() as given:
            given.runtime.images["slow"] = Image(gate=asyncio.Event())
            peer = await given.peer()
            peer.ask(1, PULL_IMAGE, pull_request("slow"))
            await eventually(lambda: given.runtime.in_flight == 1)
            peer.ask(3, PULL_IMAGE, pull_request("waits"))
            await eventually(lambda: len(given.server.status()["queued"]) == 1)
            await peer.close()
            await still_works(given)
            assert given.runtime.cancelled[PULL_IMAGE] == 1
            assert "waits" not in given.runtime.pulled

    run(scenario)


def test_what_was_sent_from_here_is_kept_back_from_the_runtime_s_credit() -> None:
    out: list[bytes] = []
    answers = Answers(out)
    answers.window = 100
    answers.add(1, Pull([]), http2.Answer(message=bytes(195)))
    assert answers.deliver() == []
    assert (answers.window, answers.debt) == (0, 100)
    assert answers.credit(150) == 50
    assert [number for number, _pull in answers.deliver()] == [1]
    assert (answers.window, answers.debt) == (50, 100)
    assert answers.surplus() == 0
    assert answers.debt == http2.INITIAL_WINDOW - 50
    assert answers.credit(2 * http2.INITIAL_WINDOW) == http2.INITIAL_WINDOW + 50
    assert answers.surplus() == http2.INITIAL_WINDOW + 50
    assert answers.debt == 0


def test_what_is_no_grpc_message_is_refused_with_a_status() -> None:
    async def scenario() -> None:
        async with proxied() as given:
            peer = await given.peer()
            body = http2.data_payload(pull_request("i"))
            sent = {
                1: (b"", http2.INTERNAL),
                3: (body + body, http2.INTERNAL),
                5: (body[:-1], http2.INTERNAL),
                7: (b"\x01" + body[1:], http2.UNIMPLEMENTED),  # compressed, by what it does not say
            }
            for number, (data, _code) in sent.items():
                peer.request(number, PULL_IMAGE, b"")
                peer.send(http2.header_frames(number, PULL_HEADERS, end_stream=False))
                peer.send(http2.frame(http2.DATA, http2.END_STREAM, number, data))
            await peer.until_ended(*sent)
            assert {number: peer.streams[number].status for number in sent} == {
                number: code for number, (_data, code) in sent.items()
            }
            assert given.runtime.pulled == []

    run(scenario)


def test_many_idle_connections_cost_the_runtime_none() -> None:
    async def scenario() -> None:
        async with proxied() as given:
            for number in range(800):
                await given.peer(silent=number % 2 == 0)
            await eventually(lambda: given.server.status()["connections"] >= 800)
            await still_works(given)

    run(scenario)
