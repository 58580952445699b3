# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is no pull arrives at the runtime, and comes back, as it was."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest

from tests.fake_runtime.runtime import FakeRuntime
from tests.unit.pulls.service.given import CHANNEL_OPTIONS, eventually, failure, proxied, run

MIB = 1024 * 1024
DETAILS = b"\x08\x05\x12\x03gone\x00\xff"


@pytest.mark.parametrize("size", [0, 1, 16383, 16384, 70000, 16 * MIB - 5])
def test_messages_of_any_size_pass(size: int) -> None:
    async def scenario() -> None:
        async with proxied() as given:
            sent = os.urandom(size)
            assert await given.channel.unary_unary("/runtime.v1.RuntimeService/Whatever")(sent) == sent

    run(scenario)


def test_unknown_calls_of_every_cardinality_pass() -> None:
    async def scenario() -> None:
        async with proxied() as given:
            channel, messages = given.channel, [b"a", b"", b"c" * 30000]

            async def requests() -> AsyncIterator[bytes]:
                for message in messages:
                    yield message

            assert await channel.unary_unary("/new.v9.Service/One")(b"x") == b"x"
            assert [m async for m in channel.unary_stream("/new.v9.Service/Many")(b"x")] == [b"x"]
            assert [m async for m in channel.stream_stream("/new.v9.Service/Both")(requests())] == messages

    run(scenario)


def test_a_stream_answers_while_it_is_asked() -> None:
    async def scenario() -> None:
        async with proxied() as given:
            call = given.channel.stream_stream("/new.v9.Service/Both")()
            for message in (b"1", b"2", b"3"):
                await call.write(message)
                assert await call.read() == message
            await call.done_writing()
            assert await call.code() == grpc.StatusCode.OK

    run(scenario)


def test_many_large_streams_at_once_keep_to_their_windows() -> None:
    async def scenario() -> None:
        async with proxied(max_in_flight=0) as given:
            sent = [os.urandom(3 * MIB + number) for number in range(8)]
            echo = given.channel.unary_unary("/x/Echo")
            pulls = [given.pull(f"image{number}") for number in range(50)]
            answers = await asyncio.gather(*[echo(message) for message in sent])
            assert answers == sent
            assert len(await asyncio.gather(*pulls)) == 50

    run(scenario)


def test_metadata_passes_both_ways() -> None:
    async def answer(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        await context.send_initial_metadata([("first", "1"), ("first-bin", b"\x00\xff\x00")])
        async for message in requests:
            yield message
        context.set_trailing_metadata([("last", "2"), ("last", "3"), ("last-bin", b"\xfe")])

    async def scenario() -> None:
        async with proxied() as given:
            given.runtime.streams["/x/Told"] = answer
            sent = (("traceparent", "00-af-b7-01"), ("twice", "a"), ("twice", "b"), ("data-bin", b"\x00\x01\xff"))
            call = given.channel.unary_unary("/x/Told")(b"", metadata=sent)
            assert await call == b""
            assert [pair for pair in given.runtime.calls[0].metadata if pair[0] != "user-agent"] == list(sent)
            assert dict(await call.initial_metadata()) == {"first": "1", "first-bin": b"\x00\xff\x00"}
            trailing = tuple(await call.trailing_metadata())
            assert trailing == (("last", "2"), ("last", "3"), ("last-bin", b"\xfe"))

    run(scenario)


def test_a_failure_keeps_its_code_text_and_details() -> None:
    async def fail(_requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        trailing = (("grpc-status-details-bin", DETAILS), ("why", "so"))
        await context.abort(grpc.StatusCode.NOT_FOUND, "nicht da: 50 % überall\n", trailing)
        yield b""

    async def scenario() -> None:
        async with proxied() as given:
            given.runtime.streams["/x/Fail"] = fail
            error = await failure(given.channel.unary_unary("/x/Fail")(b"x"))
            assert (error.code(), error.details()) == (grpc.StatusCode.NOT_FOUND, "nicht da: 50 % überall\n")
            assert dict(error.trailing_metadata()) == {"grpc-status-details-bin": DETAILS, "why": "so"}

    run(scenario)


def test_deadlines_pass_and_none_stays_none() -> None:
    async def scenario() -> None:
        async with proxied() as given:
            await given.channel.unary_unary("/x/Echo")(b"")
            await given.channel.unary_unary("/x/Echo")(b"", timeout=300)
            none, some = [call.seconds for call in given.runtime.calls]
            assert none is None
            assert some is not None
            assert 200 < some < 302  # gRPC rounds it up

    run(scenario)


@pytest.mark.parametrize("timeout", [None, 0.2])
def test_who_leaves_ends_the_call_at_the_runtime(timeout: float | None) -> None:
    async def wait(_requests: AsyncIterator[bytes], _context: Any) -> AsyncIterator[bytes]:
        await asyncio.sleep(60)
        yield b""

    async def scenario() -> None:
        async with proxied() as given:
            given.runtime.streams["/x/Wait"] = wait
            call = given.channel.unary_unary("/x/Wait")(b"", timeout=timeout)
            await eventually(lambda: bool(given.runtime.calls))
            if timeout is None:
                call.cancel()
            await eventually(lambda: given.runtime.cancelled["/x/Wait"] == 1)

    run(scenario)


def test_a_runtime_that_comes_later_is_no_error() -> None:
    async def scenario() -> None:
        async with proxied(runtimes_run=False) as given:
            echo = given.channel.unary_unary("/x/Echo")
            for call in (lambda: echo(b"x"), lambda: given.pull("i")):
                error = await asyncio.wait_for(failure(call()), 3)
                assert error.code() == grpc.StatusCode.UNAVAILABLE
            assert given.runtime.path in str((await failure(echo(b"x"))).details())
            async with given.runtime:
                assert await echo(b"x") == b"x"
                await given.pull("i")
            assert given.log.getvalue().count("runtime-gone") >= 1

    run(scenario)


def test_a_runtime_that_restarts_ends_its_calls_and_is_used_again() -> None:
    async def watch(_requests: AsyncIterator[bytes], _context: Any) -> AsyncIterator[bytes]:
        yield b"event"
        await asyncio.sleep(60)

    async def scenario() -> None:
        async with proxied(runtimes_run=False) as given:
            given.runtime.streams["/x/Watch"] = watch
            async with given.runtime:
                call = given.channel.unary_stream("/x/Watch")(b"")
                assert await call.read() == b"event"
            assert await asyncio.wait_for(call.code(), 3) in (
                grpc.StatusCode.UNAVAILABLE,
                grpc.StatusCode.CANCELLED,  # the fake says so of what it was at
            )
            # The call can end before its connection does. Until then, a new call would share that end.
            await eventually(lambda: given.channel.get_state() is not grpc.ChannelConnectivity.READY)
            error = await asyncio.wait_for(failure(given.channel.unary_unary("/x/Echo")(b"")), 3)
            assert error.code() == grpc.StatusCode.UNAVAILABLE
            async with given.runtime:
                echo = given.channel.unary_unary("/x/Echo")
                assert await asyncio.wait_for(echo(b"x", wait_for_ready=True), 10) == b"x"
                await given.pull("i")

    run(scenario)


def test_each_listener_leads_to_its_own_runtime() -> None:
    async def scenario() -> None:
        async with proxied(listeners=3) as given:
            for number, channel in enumerate(given.channels):
                await channel.unary_unary(f"/x/From{number}")(b"")
            called = [[call.method for call in runtime.calls] for runtime in given.runtimes]
            assert called == [["/x/From0"], ["/x/From1"], ["/x/From2"]]

    run(scenario)


def test_what_comes_through_is_what_comes_without() -> None:
    """The same calls, beside the proxy and through it: the runtime sees the same headers."""

    async def scenario() -> None:
        async with proxied() as given:
            runtime: FakeRuntime = given.runtime
            direct = grpc.aio.insecure_channel(f"unix:{runtime.path}", options=CHANNEL_OPTIONS)
            async with direct:
                for channel in (direct, given.channel):
                    await channel.unary_unary("/x/Echo", request_serializer=None)(
                        b"x" * 1000, metadata=(("a", "b"),), compression=grpc.Compression.Gzip
                    )
            assert runtime.calls[0] == runtime.calls[1]

    run(scenario)
