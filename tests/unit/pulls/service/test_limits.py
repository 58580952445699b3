# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What one client may take: streams, messages, connections and time are limited, and the others have their turn."""

from __future__ import annotations

import asyncio
import struct
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import grpc
import pytest

from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy import connection, http2, limits, wire
from tests.fake_runtime.runtime import PULL_IMAGE, Image, pull_request
from tests.unit.pulls.service.given import eventually, proxied, run
from tests.unit.pulls.service.peer import Answered, Peer
from tests.unit.pulls.service.sent_frames import LIST_BYTES, MIB, OPEN, REFUSED, STREAMS, closed_by, headers, path
from tests.unit.pulls.service.test_peers import BEGUN, RawRuntime, still_works


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
