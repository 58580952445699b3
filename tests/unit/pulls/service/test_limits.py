# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What one client may take: few bytes do not become many, nothing goes on for ever, and the others have their turn."""

from __future__ import annotations

import asyncio
import struct
import time
import tracemalloc
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import grpc
import pytest
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hypothesis import given as over
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy import connection, http2, limits, wire
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.hpack import Decoder, Header, HpackError, encode
from tests.fake_runtime.runtime import PULL_IMAGE, Image, pull_request
from tests.unit.pulls.service.given import Proxied, eventually, proxied, run
from tests.unit.pulls.service.peer import Answered, Peer
from tests.unit.pulls.service.test_peers import BEGUN, RawRuntime, still_works

MIB = 1024 * 1024
CALM, REFUSED = 11, 7
STREAMS, LIST_BYTES = 2048, 16 * 1024
# What stands for an entry of 4 KiB in the table, and then its path, and its index as often as it is said.
ENTRY = b"\x40\x01x\x7f\xa1\x1e" + b"y" * 4000
HUFFMAN_A = b"\x18\xc6\x31\x8c\x63"  # "aaaaaaaa"


async def closed_by(given: Proxied, sent: bytes) -> Peer:
    """A client that sends so much, and reads until the proxy has closed its connection."""
    peer = await given.peer(silent=True)
    peer.send(sent)
    await asyncio.wait_for(peer.until_closed(), 30)
    return peer


def headers(stream: int, block: bytes, *, flags: int = http2.END_HEADERS | http2.END_STREAM) -> bytes:
    return http2.frame(http2.HEADERS, flags, stream, block)


def path(of: str) -> bytes:
    return encode([Header(b":path", of.encode()), Header(b"content-type", b"application/grpc")])


@pytest.mark.parametrize("of", ["/x/Echo", PULL_IMAGE])
@pytest.mark.parametrize("times", [2, 3, 240])
def test_indexed_headers_do_not_become_memory(of: str, times: int) -> None:
    """275 KiB of them took 2 GB."""
    table = BEGUN + headers(1, ENTRY + path(of), flags=http2.END_HEADERS)
    block = path(of) + b"\xbe" * times
    attack, number = table, 3
    while len(attack) < 275 * 1024:
        attack += headers(number, block)
        number += 2

    async def scenario() -> None:
        async with proxied() as given:
            await still_works(given)
            tracemalloc.start()
            try:
                peer = await given.peer(silent=True)
                peer.send(attack)
                with suppress(ConnectionError):
                    await asyncio.wait_for(peer.drain(), 20)
                await asyncio.sleep(1)
                await peer.close()
                _now, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert peak < 64 * MIB
            await still_works(given)

    run(scenario)


@pytest.mark.parametrize("end", [b"", b"\x00"])
def test_trailers_are_passed_on_once(end: bytes) -> None:
    """Each could be as large as what the table holds."""
    flags = http2.END_HEADERS | (http2.END_STREAM if end else 0)

    async def scenario() -> None:
        async with proxied() as given:
            begin = BEGUN + headers(1, ENTRY + path("/x/Echo"), flags=http2.END_HEADERS)
            await closed_by(given, begin + headers(1, b"\xbe\xbe\xbe", flags=flags) * 20000)
            assert "connection-closed" in given.log.getvalue()
            await still_works(given)

    run(scenario)


def test_a_header_list_has_an_end_before_it_is_made() -> None:
    """RFC 7541, 4.1: 32 octets are counted for each, also for those that are empty."""
    for block in (b"\x82" * 1000, b"\x84" + b"\x10\x01a\x00" * 500, b"\x10\x01a\x7f\x81\x7f" + b"z" * (LIST_BYTES)):
        with pytest.raises(HpackError, match=f"{LIST_BYTES} bytes"):
            Decoder().decode(block)
    assert len(Decoder().decode(b"\x82" * (LIST_BYTES // 42))) == LIST_BYTES // 42


@pytest.mark.parametrize("change", [b"\x20", b"\x3f\xe1\x1f"])
def test_the_size_of_the_table_changes_at_most_twice_in_a_block(change: bytes) -> None:
    decoder = Decoder()
    for _turn in range(2):
        assert len(decoder.decode(change * 2 + b"\x82")) == 1
    with pytest.raises(HpackError, match="size"):
        decoder.decode(change * 3 + b"\x82")


def test_an_entry_of_the_table_does_not_hold_the_block_that_it_came_in() -> None:
    """120 small entries, each in a block of its own of nearly 16 KiB."""
    decoder = Decoder()
    tracemalloc.start()
    try:
        for _turn in range(120):
            decoder.decode(b"\x40\x01a\x01b" + b"\x10\x01x\x7f\x81\x7c" + b"y" * 16000)
        now, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert now < 128 * 1024
    assert len(decoder.decode(b"\xbe" * 120)) == 120


def test_settings_say_the_limits_and_a_runtime_lowers_them() -> None:
    async def scenario() -> None:
        for announced, known in ((None, STREAMS), (100, 100), (2**32 - 1, STREAMS)):
            async with proxied(runtimes_run=False) as given:
                values = {} if announced is None else {3: announced, 6: 2**20, 5: 2**20}
                async with RawRuntime(http2.settings(values)).serve(given.runtime.path):
                    peer = await given.peer()
                    while 3 not in peer.settings:
                        assert await peer.frame()
                    assert peer.settings == {3: STREAMS, 6: LIST_BYTES}
                    peer.ask(1, "/x/Echo", b"")
                    while announced is not None and peer.settings[3] != known:
                        assert await peer.frame()
                    assert peer.settings == {3: known, 6: LIST_BYTES}
                    await peer.close()
                    await eventually(lambda: given.server.status()["connections"] == 0)
                    await asyncio.sleep(0.05)

    run(scenario)


@pytest.mark.parametrize("of", ["/x/Wait", PULL_IMAGE])
def test_streams_are_so_many_and_no_more(of: str) -> None:
    async def wait(_requests: AsyncIterator[bytes], _context: Any) -> AsyncIterator[bytes]:
        await asyncio.sleep(3600)
        yield b""

    async def scenario() -> None:
        async with proxied(max_in_flight=1) as given:
            given.runtime.streams["/x/Wait"] = wait
            given.runtime.images["same"] = Image(gate=asyncio.Event())
            peer = await given.peer()
            numbers = [2 * number + 1 for number in range(STREAMS + 500)]
            for number in numbers:
                peer.ask(number, of, pull_request("same"))
            while not peer.streams[numbers[-1]].reset:
                assert await peer.frame()
            refused = [number for number in numbers if peer.streams[number].reset == REFUSED]
            open_ones = [
                number for number in numbers if peer.streams[number].reset is None and not peer.streams[number].ended
            ]
            assert len(open_ones) <= STREAMS
            assert refused
            peer.send(http2.rst_stream(open_ones[0], http2.CANCEL))  # makes room for one
            peer.ask(numbers[-1] + 2, of, pull_request("same"))
            peer.send(http2.frame(http2.PING, 0, 0, b"answered"))
            while not peer.pongs:
                assert await peer.frame()
            assert peer.streams[numbers[-1] + 2].reset is None
            await peer.close()
            given.runtime.images["same"].gate.set()
            await eventually(lambda: given.server.status()["connections"] == 0)

    run(scenario)


OPEN = headers(1, path("/x/Wait"), flags=http2.END_HEADERS)
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


def test_the_messages_of_a_kubelet_are_so_large_and_no_larger() -> None:
    async def scenario() -> None:
        async with proxied(max_in_flight=1) as given:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await given.pull("i", password="x" * (4 * MIB))
            assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "4194304 bytes" in (refused.value.details() or "")
            given.runtime.images["slow"] = Image(gate=asyncio.Event())
            pulls = [asyncio.ensure_future(_code(given.pull("slow", password=f"{n}" * (3 * MIB)))) for n in range(9)]
            more = [asyncio.ensure_future(_code(given.pull("slow", password=f"{n}" * (3 * MIB)))) for n in range(9)]
            done, _waiting = await asyncio.wait([*pulls, *more], timeout=20, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(1)
            refused_pulls = [task.result() for task in (*pulls, *more) if task.done()]
            assert done
            assert 4 <= len(refused_pulls) <= 10
            assert set(refused_pulls) == {grpc.StatusCode.RESOURCE_EXHAUSTED}
            for task in (*pulls, *more):
                task.cancel()
            given.runtime.images["slow"].gate.set()
            await asyncio.gather(*pulls, *more, return_exceptions=True)
            await still_works(given)
            assert await _code(given.pull("after", password="x" * (3 * MIB))) == grpc.StatusCode.OK

    run(scenario)


def test_unfinished_messages_are_bounded_too_and_given_back() -> None:
    async def scenario() -> None:
        async with proxied() as given:
            peers = [await given.peer() for _turn in range(4)]
            part = http2.frame(http2.DATA, 0, 1, bytes(16000))
            for peer in peers:
                for number in range(1, 9, 2):
                    peer.streams[number] = Answered()
                    peer.send(headers(number, path(PULL_IMAGE), flags=http2.END_HEADERS))
                    for _turn in range(3 * MIB // 16000):
                        peer.send(part[:5] + struct.pack(">I", number) + part[9:])
                        peer.sendable -= 16000
                        while peer.sendable < 16000:
                            assert await peer.frame()
            statuses = [status for peer in peers for status in await _statuses(peer)]
            assert statuses.count(http2.RESOURCE_EXHAUSTED) >= 5
            for peer in peers:
                await peer.close()
            await eventually(lambda: given.server.status()["connections"] == 1)
            for endpoint in given.server._endpoints:
                assert endpoint.allowance.left == 32 * MIB
            await still_works(given)

    run(scenario)


@pytest.mark.parametrize("paths", [["/x/Echo", PULL_IMAGE], [PULL_IMAGE, "/x/Echo"], [PULL_IMAGE, PULL_IMAGE], []])
def test_a_request_has_one_path(paths: list[str]) -> None:
    """Else it could be a pull for the runtime, and none for the limit."""
    block = encode([Header(b":path", of.encode()) for of in paths])

    async def scenario() -> None:
        async with proxied() as given:
            peer = await given.peer()
            peer.streams[1] = Answered()
            peer.send(headers(1, block))
            while peer.streams[1].reset is None:
                assert await peer.frame()
            assert peer.streams[1].reset == http2.PROTOCOL_ERROR
            assert given.runtime.pulled == []

    run(scenario)


def test_more_data_than_the_window_allows_ends_the_connection() -> None:
    async def wait(_requests: AsyncIterator[bytes], _context: Any) -> AsyncIterator[bytes]:
        await asyncio.sleep(3600)
        yield b""

    async def scenario() -> None:
        async with (
            proxied(runtimes_run=False) as given,
            RawRuntime(http2.settings({})).serve(given.runtime.path),
        ):  # gives no credit
            sent = BEGUN + OPEN + http2.frame(http2.DATA, 0, 1, bytes(16384)) * 4
            peer = await closed_by(given, sent)
            assert peer.goaway == http2.FLOW_CONTROL_ERROR

    run(scenario)


@pytest.mark.parametrize(
    ("seconds", "sent", "expected"),
    [
        ("PREFACE", b"", "start"),
        ("PREFACE", http2.PREFACE[:10], "start"),
        ("PREFACE", http2.PREFACE, "start"),
        ("PARTIAL", BEGUN + b"\0\0", "do not end"),
        ("PARTIAL", BEGUN + http2.frame(http2.HEADERS, 0, 1), "do not end"),
        ("PARTIAL", BEGUN + http2.frame(http2.DATA, 0, 1, bytes(100))[:50], "do not end"),
        ("IDLE", BEGUN, None),
    ],
)
def test_nothing_is_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch, seconds: str, sent: bytes, expected: str | None
) -> None:
    monkeypatch.setattr(limits, f"{seconds}_SECONDS", 0.05)
    monkeypatch.setattr(limits, "LOOK_SECONDS", 0.05)
    if seconds != "PREFACE":
        monkeypatch.setattr(limits, "PREFACE_SECONDS", 0.2)

    async def scenario() -> None:
        async with proxied() as given:
            peer = await given.peer(silent=True)
            peer.send(sent)
            await asyncio.wait_for(peer.until_closed(), 5)
            if expected is None:
                assert peer.goaway == http2.NO_ERROR
                assert given.log.getvalue() == ""
            else:
                assert expected in given.log.getvalue()
            await still_works(given)

    run(scenario)


def test_a_pull_whose_message_does_not_come_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MESSAGE", "LOOK", "PREFACE"):
        monkeypatch.setattr(limits, f"{name}_SECONDS", 0.2)

    async def scenario() -> None:
        async with proxied() as given:
            peer = await given.peer()
            peer.streams[1] = Answered()
            peer.send(headers(1, path(PULL_IMAGE), flags=http2.END_HEADERS))
            await peer.until_ended(1)
            assert peer.streams[1].status == http2.DEADLINE_EXCEEDED
            while peer.streams[1].reset is None:
                assert await peer.frame()
            await still_works(given)

    run(scenario)


def test_who_breaks_the_rules_and_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PREFACE_SECONDS", 0.1)
    monkeypatch.setattr(limits, "LOOK_SECONDS", 0.1)

    async def scenario() -> None:
        async with proxied() as given:
            peer = await given.peer()

            async def flood() -> None:
                while True:
                    peer.send(http2.frame(http2.PING, 0, 0, bytes(8)) * 1000)
                    await peer.drain()

            with pytest.raises((ConnectionError, asyncio.TimeoutError)):
                await asyncio.wait_for(flood(), 2)
            peer.send(http2.frame(http2.PUSH_PROMISE, 0, 1))
            await eventually(lambda: given.server.status()["connections"] == 0)

    run(scenario)


def test_connections_are_so_many_for_each_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONNECTIONS", 5)

    async def scenario() -> None:
        async with proxied(listeners=2) as given:
            peers = [await given.peer() for _turn in range(5)]
            await eventually(lambda: given.server.status()["connections"] == 5)
            for _turn in range(20):
                late = await given.peer(silent=True)
                assert not await late.frame()
            assert given.log.getvalue().count("connection-refused") == 1
            assert await given.channels[1].unary_unary("/x/Echo")(b"x") == b"x"
            for peer in peers:
                await peer.close()
            await eventually(lambda: given.server.status()["connections"] == 1)
            assert await given.channels[0].unary_unary("/x/Echo")(b"x", wait_for_ready=True) == b"x"

    run(scenario)


def test_a_socket_is_for_its_owner_and_root_whatever_its_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "peer_user", lambda _socket: 65534)

    async def scenario() -> None:
        async with proxied() as given:
            peer = await given.peer()
            assert not await peer.frame()
            assert "user=65534" in given.log.getvalue()

    run(scenario)


def test_descriptors_are_shared_out_before_anyone_connects() -> None:
    assert limits.connections_of(1048576, 8) == limits.CONNECTIONS
    for files in (200, 1024, 4096, 65536):
        for listeners in (1, 2, 8, 40):
            if files >= limits.files_needed(listeners):
                most = limits.connections_of(files, listeners)
                assert most >= 16
                assert limits.files_needed(listeners, most) <= files


def test_fields_are_counted() -> None:
    """Two bytes on the wire are a value here."""
    for attack in (b"\x08\x00" * (2 * MIB), b"\x0a\x80\x80\x80\x02" + b"\x12\x00" * (2 * MIB)):
        tracemalloc.start()
        try:
            with pytest.raises(wire.WireError):
                wire.parse_pull_image_request(attack)
            _now, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 24 * MIB


CODES = {(length, code): symbol for symbol, (length, code) in enumerate(zip(REQUEST_CODES_LENGTH, REQUEST_CODES))}


def bit_by_bit(data: bytes) -> bytes | None:
    """RFC 7541, 5.2, as it is written."""
    decoded, code, length = bytearray(), 0, 0
    for bit in (byte >> shift & 1 for byte in data for shift in range(7, -1, -1)):
        code, length = code << 1 | bit, length + 1
        symbol = CODES.get((length, code))
        if symbol == 256:
            return None
        if symbol is not None:
            decoded.append(symbol)
            code = length = 0
    return bytes(decoded) if length <= 7 and code == (1 << length) - 1 else None


@over(st.binary(max_size=40))
def test_huffman_is_read_as_bit_by_bit(data: bytes) -> None:
    try:
        read: bytes | None = Decoder().decode(b"\x10\x01x" + bytes([0x80 | len(data)]) + data)[0].value
    except HpackError:
        read = None
    assert read == bit_by_bit(data)


@over(st.lists(st.binary(max_size=300), max_size=60))
def test_what_is_decoded_is_never_more_than_the_limit(blocks: list[bytes]) -> None:
    decoder = Decoder()
    with suppress(HpackError):
        for block in blocks:
            read = decoder.decode(ENTRY + block)
            assert sum(len(header.name) + len(header.value) + 32 for header in read) <= LIST_BYTES


async def _code(call: Any) -> grpc.StatusCode:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code()  # type: ignore[no-any-return]
    return grpc.StatusCode.OK


async def _statuses(peer: Peer) -> list[int]:
    with suppress(asyncio.TimeoutError):
        while await asyncio.wait_for(peer.frame(), 1):
            pass
    return [answered.status for answered in peer.streams.values() if answered.ended]
