# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stands before runtimes and writes down when each pull at them begins and ends: what a limit is judged by.

A process of its own, which knows nothing of the proxy that it judges. It passes on the calls of the image service.

    python -m tests.integration.cri_meter RECORD SOCKET=RUNTIME ...

Record: a JSON line for each begin and end. Times are of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Optional

import grpc
import grpc.aio

from tests.integration.cri import IMAGE_SERVICE, OPTIONS, text
from tests.integration.processes import IMPORTS, running

PULL = IMAGE_SERVICE + "PullImage"
_START_SECONDS = 30


@dataclass(frozen=True)
class Pull:
    """One PullImage at a runtime. `ended` and `code` are none while it is under way."""

    runtime: str  # its socket
    image: str
    pod: str
    begun: float
    ended: Optional[float] = None
    code: Optional[str] = None


@dataclass(frozen=True)
class Meter:
    path: Path

    def pulls(self) -> list[Pull]:
        """In the order in which they began."""
        found: dict[int, dict[str, Any]] = {}
        for line in self.path.read_text(encoding="utf-8").splitlines(keepends=True):
            if line.endswith("\n"):
                one = json.loads(line)
                found.setdefault(one.pop("number"), {}).update(one)
        return [Pull(**one) for one in found.values()]

    def forget(self) -> None:
        """What was recorded. Nothing may be under way."""
        assert self.in_flight() == []
        os.truncate(self.path, 0)

    def in_flight(self) -> list[Pull]:
        return [pull for pull in self.pulls() if pull.ended is None]

    def most(self, *, by_runtime: bool = False) -> int:
        """Most pulls that were in flight at one instant, at all runtimes together or at one of them."""
        runtimes = {pull.runtime for pull in self.pulls()} if by_runtime else {""}
        return max((self._most(runtime) for runtime in runtimes), default=0)

    def _most(self, runtime: str) -> int:
        changes = []
        for pull in self.pulls():
            if runtime in ("", pull.runtime):
                changes.append((pull.begun, 1))
                changes += [] if pull.ended is None else [(pull.ended, -1)]
        return max(itertools.accumulate(change for _at, change in sorted(changes)), default=0)


@contextmanager
def meter(place: Path, sockets: Mapping[str, str]) -> Iterator[Meter]:
    """`sockets`: a runtime's socket by the one that stands before it."""
    record, log = place / "pulls.jsonl", place / "meter.log"
    record.write_text("", encoding="utf-8")
    argv = [sys.executable, "-m", __name__, str(record), *(f"{one}={runtime}" for one, runtime in sockets.items())]
    with running(argv, log, env=IMPORTS) as process:
        deadline = time.monotonic() + _START_SECONDS
        while not all(os.path.exists(socket) for socket in sockets):
            assert process.poll() is None, log.read_text(encoding="utf-8")
            assert time.monotonic() < deadline, "the meter does not start"
            time.sleep(0.05)
        yield Meter(record)
        assert process.poll() is None, log.read_text(encoding="utf-8")


class _Relay(grpc.GenericRpcHandler):
    def __init__(self, runtime: str, channel: grpc.aio.Channel, record: IO[str], numbers: Iterator[int]) -> None:
        self._runtime = runtime
        self._channel = channel
        self._record = record
        self._numbers = numbers

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        method = details.method

        async def handle(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
            relayed: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(method)
            call = relayed(request, timeout=context.time_remaining())
            if method == PULL:
                return await self._measured(request, context, call)
            return await _passed(context, call)

        return grpc.unary_unary_rpc_method_handler(handle)

    async def _measured(self, request: bytes, context: grpc.aio.ServicerContext[bytes, bytes], call: Any) -> bytes:
        number = next(self._numbers)
        begun = {"runtime": self._runtime, "image": text(request, 1, 1), "pod": text(request, 3, 1, 1)}
        self._write(number=number, **begun, begun=time.monotonic())
        try:
            return await _passed(context, call)
        finally:
            code = "CANCELLED" if not call.done() else (await call.code()).name
            self._write(number=number, ended=time.monotonic(), code=code)

    def _write(self, **row: object) -> None:
        self._record.write(json.dumps(row) + "\n")
        self._record.flush()


async def _passed(context: grpc.aio.ServicerContext[bytes, bytes], call: Awaitable[bytes]) -> bytes:
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        await context.abort(error.code(), error.details() or "", error.trailing_metadata() or ())
        raise


async def _serve(record: str, pairs: Mapping[str, str]) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    numbers = itertools.count()
    servers, channels = [], []
    with open(record, "a", encoding="utf-8") as file:
        for socket, runtime in pairs.items():
            channel = grpc.aio.insecure_channel(f"unix:{runtime}", options=OPTIONS)
            server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
            server.add_generic_rpc_handlers((_Relay(runtime, channel, file, numbers),))
            server.add_insecure_port(f"unix:{socket}")
            await server.start()
            servers.append(server)
            channels.append(channel)
        await ended.wait()
        ends: list[Callable[[Optional[float]], Awaitable[None]]] = [one.stop for one in servers]
        await asyncio.gather(*(end(0) for end in ends))
        await asyncio.gather(*(channel.close() for channel in channels))


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], dict(pair.split("=", 1) for pair in sys.argv[2:])))
