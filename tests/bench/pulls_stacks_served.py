# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Servers of the benchmark of HTTP/2 stacks, by the system's Python as the proxy.

python -m tests.bench.pulls_stacks_served runtime SOCKET          answers every call at once
python -m tests.bench.pulls_stacks_served grpc SOCKET RUNTIME     passes every call on over grpc.aio
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio

from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy import http2
from tests.integration.cri import message

_UNARY = ("ImageStatus", "PullImage")  # what is known so is cheaper to pass on
_OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
_CHANNEL = (*_OPTIONS, ("grpc.default_authority", "localhost"))


class QuickRuntime(asyncio.Protocol):
    """Answers every request as soon as it has ended, with frames that were made before."""

    def __init__(self) -> None:
        self._unread = b""
        headers, trailers = http2.answer_headers(), http2.status_block(http2.Answer())
        body = http2.data_payload(message({1: "sha256:" + "0" * 64}))
        self._answer = (
            (http2.HEADERS, http2.END_HEADERS, headers),
            (http2.DATA, 0, body),
            (http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, trailers),
        )

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.write(http2.settings({}) + http2.window_update(0, 2**30))

    def data_received(self, data: bytes) -> None:
        data, at, out = self._unread + data, 0, []
        if data.startswith(http2.PREFACE):
            at = len(http2.PREFACE)
        while len(data) - at >= http2.FRAME_HEADER:
            size, kind, flags, stream = http2.read_head(data, at)
            end = at + http2.FRAME_HEADER + size
            if len(data) < end:
                break
            if kind in (http2.DATA, http2.HEADERS) and flags & http2.END_STREAM:
                out += [http2.frame(answer, flag, stream, part) for answer, flag, part in self._answer]
            elif kind in (http2.SETTINGS, http2.PING) and not flags & http2.ACK:
                body = data[end - size : end] if kind == http2.PING else b""
                out.append(http2.frame(kind, http2.ACK, 0, body))
            at = end
        self._unread = data[at:]
        self._transport.write(b"".join(out))


async def serve_quick(socket: str) -> None:
    server = await asyncio.get_running_loop().create_unix_server(QuickRuntime, socket)
    await server.serve_forever()


class _PassedOn(grpc.GenericRpcHandler):
    """Every call, as a stream both ways: what is in it is unknown."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    def service(self, details: Any) -> Any:
        if details.method.endswith(_UNARY):
            invoke: Any = self._channel.unary_unary(details.method)

            async def pass_one(request: bytes, context: Any) -> bytes:
                call = invoke(request, metadata=_own(context.invocation_metadata()), timeout=context.time_remaining())
                answer: bytes = await call
                context.set_trailing_metadata(await call.trailing_metadata())
                return answer

            return grpc.unary_unary_rpc_method_handler(pass_one)
        stream: Any = self._channel.stream_stream(details.method)

        async def pass_all(sent: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            call = stream(sent, metadata=_own(context.invocation_metadata()), timeout=context.time_remaining())
            async for answer in call:
                yield answer
            context.set_trailing_metadata(await call.trailing_metadata())

        return grpc.stream_stream_rpc_method_handler(pass_all)


def _own(metadata: Any) -> tuple[Any, ...]:
    return tuple((key, value) for key, value in metadata if key != "user-agent")


async def serve_grpc(socket: str, runtime: str) -> None:
    server = grpc.aio.server(options=_OPTIONS)
    server.add_generic_rpc_handlers((_PassedOn(grpc.aio.insecure_channel(f"unix:{runtime}", options=_CHANNEL)),))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    role, *sockets = sys.argv[1:]
    asyncio.run({"runtime": serve_quick, "grpc": serve_grpc}[role](*sockets))
