# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A runtime that goes and comes back: calls and pulls are answered as soon as it is there, in every order of events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import grpc

from tests.fake_runtime.runtime import IMAGE_STATUS, Image, pull_request
from tests.unit.pulls.service.given import Proxied, eventually, proxied, run

TURN, CALL, PULL = "turn", "call", "pull"  # the runtime goes or comes, another call, a pull
_EVENTS_IN_A_ROW = 5


def every_order(kinds: tuple[str, ...], length: int) -> Iterator[str]:
    """A sequence in which each order of `length` kinds occurs, once: a De Bruijn sequence, by the greedy way of Martin (1934)."""
    recent, seen = (kinds[0],) * length, set()
    yield from recent
    seen.add(recent)
    while True:
        orders = ((*recent[1:], kind) for kind in reversed(kinds))
        following = next((order for order in orders if order not in seen), None)
        if following is None:
            return
        seen.add(following)
        recent = following
        yield following[-1]


def test_the_sequence_has_every_order() -> None:
    whole = list(every_order((TURN, CALL, PULL), 3))
    windows = [tuple(whole[at : at + 3]) for at in range(len(whole) - 2)]
    assert len(windows) == len(set(windows)) == 27


def test_calls_and_pulls_succeed_exactly_while_the_runtime_is_there() -> None:
    async def scenario() -> None:
        async with proxied() as given:
            is_up, history = True, []
            for event in every_order((TURN, CALL, PULL), _EVENTS_IN_A_ROW):
                history.append(event)
                if event == TURN:
                    is_up = not is_up
                    await (given.runtime.start() if is_up else _stop(given))
                else:
                    code, text = await _answer(given, event)
                    wanted = grpc.StatusCode.OK if is_up else grpc.StatusCode.UNAVAILABLE
                    assert code is wanted, (text, " ".join(history[-9:]))
            assert len(history) > 3**_EVENTS_IN_A_ROW

    run(scenario)


def test_a_pull_follows_many_that_failed() -> None:
    """With each failure in a row gRPC would wait longer before it connects again."""

    async def scenario() -> None:
        async with proxied() as given:
            await _stop(given)
            for _turn in range(20):
                assert await _code(given, PULL) is grpc.StatusCode.UNAVAILABLE
            await given.runtime.start()
            assert await _code(given, PULL) is grpc.StatusCode.OK

    run(scenario)


def test_pulls_at_once_share_the_new_connection_and_end_no_other() -> None:
    async def scenario() -> None:
        async with proxied(max_in_flight=0) as given:
            await _stop(given)
            failed = await asyncio.gather(*(_code(given, PULL, f"i{number}") for number in range(50)))
            assert set(failed) == {grpc.StatusCode.UNAVAILABLE}
            await given.runtime.start()
            gate = asyncio.Event()
            given.runtime.images = {f"i{number}": Image(gate=gate) for number in range(50)}
            pulls = asyncio.gather(*(_code(given, PULL, f"i{number}") for number in range(50)))
            await eventually(lambda: given.runtime.in_flight == 50)
            gate.set()
            assert set(await pulls) == {grpc.StatusCode.OK}
            calls = given.server._endpoints[0]._calls
            assert calls._replaced == []

    run(scenario)


async def _stop(given: Proxied) -> None:
    """Stop the runtime, and wait until the proxy has seen its connections end, and the client the GOAWAY that follows. A runtime
    needs longer to start again."""
    await given.runtime.stop()
    channel: Any = given.server._endpoints[0]._calls._channel.grpc
    relays: Any = given.server._live[0]
    await eventually(
        lambda: (
            channel.get_state() is not grpc.ChannelConnectivity.READY
            and all(relay._runtime is None and not relay._leaving for relay in relays)
        )
    )


async def _code(given: Proxied, event: str, image: str = "i") -> Any:
    return (await _answer(given, event, image))[0]


async def _answer(given: Proxied, event: str, image: str = "i") -> tuple[Any, str]:
    """Code and text."""
    if event == PULL:
        call = given.pull(image)
    else:
        call = given.channel.unary_unary(IMAGE_STATUS)(pull_request(image))
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code(), str(error.details())
    return grpc.StatusCode.OK, ""
