# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A container runtime as a gRPC server that does what it is told and records what it sees.

    async with FakeRuntime(path) as runtime:
        runtime.images["slow"] = Image(gate=asyncio.Event())       # PullImage waits for gate.set()
        runtime.images["gone"] = Image(code=grpc.StatusCode.NOT_FOUND, details="no such image")
        runtime.streams["/x/Watch"] = events                       # async (requests, context) -> messages
        ... runtime.in_flight, runtime.most_in_flight, runtime.pulled, runtime.calls

What nothing is said of echoes: each message of the request is a message of the answer, with any cardinality.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Optional

import grpc
import grpc.aio

PULL_IMAGE = "/runtime.v1.ImageService/PullImage"
IMAGE_STATUS = "/runtime.v1.ImageService/ImageStatus"
_OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))

Stream = Callable[[AsyncIterator[bytes], Any], AsyncIterator[bytes]]


@dataclass
class Image:
    seconds: float = 0.0
    gate: Optional[asyncio.Event] = None
    code: grpc.StatusCode = grpc.StatusCode.OK
    details: str = ""
    initial: tuple[tuple[str, str | bytes], ...] = ()
    trailing: tuple[tuple[str, str | bytes], ...] = ()


@dataclass(frozen=True)
class Call:
    method: str
    metadata: tuple[tuple[str, str | bytes], ...]
    seconds: Optional[float]  # until its deadline


@dataclass
class FakeRuntime:
    path: str
    images: dict[str, Image] = field(default_factory=dict)
    streams: dict[str, Stream] = field(default_factory=dict)
    present: dict[str, tuple[str, int]] = field(default_factory=dict)  # id and size, by name
    calls: list[Call] = field(default_factory=list)
    pulled: list[str] = field(default_factory=list)  # in the order in which they began
    requests: list[bytes] = field(default_factory=list)  # of PullImage
    cancelled: Counter[str] = field(default_factory=Counter)  # calls that their caller ended, by method
    in_flight: int = 0
    most_in_flight: int = 0
    _starts: int = 0

    async def __aenter__(self) -> FakeRuntime:
        await self.start()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """`path` is a link to a socket with a name of its own: gRPC removes a stopped server's socket late, by its name."""
        self._starts += 1
        socket = f"{self.path}.{self._starts}"
        self._server = grpc.aio.server(options=_OPTIONS)
        self._server.add_generic_rpc_handlers((_Handlers(self),))
        self._server.add_insecure_port(f"unix:{socket}")
        await self._server.start()
        os.symlink(socket, self.path)

    async def stop(self) -> None:
        await self._server.stop(None)
        with suppress(FileNotFoundError):
            os.unlink(self.path)

    def calls_of(self, method: str) -> list[Call]:
        return [call for call in self.calls if call.method == method]

    async def pull(self, request: bytes, context: Any) -> bytes:
        name = image_name(request)
        self.pulled.append(name)
        self.requests.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self._pull(self.images.get(name, Image()), name, context)
        finally:
            self.in_flight -= 1

    async def _pull(self, image: Image, name: str, context: Any) -> bytes:
        if image.gate is not None:
            await image.gate.wait()
        await asyncio.sleep(image.seconds)
        if image.initial:
            await context.send_initial_metadata(image.initial)
        if image.code is not grpc.StatusCode.OK:
            await context.abort(image.code, image.details, image.trailing)
        context.set_trailing_metadata(image.trailing)
        return text_field(1, f"sha256:{name}")

    async def image_status(self, request: bytes, _context: Any) -> bytes:
        found = self.present.get(image_name(request))
        return b"" if found is None else field_bytes(1, text_field(1, found[0]) + b"\x20" + varint(found[1]))


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, runtime: FakeRuntime) -> None:
        self._runtime = runtime

    def service(self, call: Any) -> Any:
        if call.method == PULL_IMAGE:
            return grpc.unary_unary_rpc_method_handler(self._unary(call.method, self._runtime.pull))
        if call.method == IMAGE_STATUS:
            return grpc.unary_unary_rpc_method_handler(self._unary(call.method, self._runtime.image_status))
        return grpc.stream_stream_rpc_method_handler(self._stream(call.method))

    def _unary(self, method: str, answer: Any) -> Any:
        async def handle(request: bytes, context: Any) -> bytes:
            self._record(method, context)
            try:
                return bytes(await answer(request, context))
            except asyncio.CancelledError:
                self._runtime.cancelled[method] += 1
                raise

        return handle

    def _stream(self, method: str) -> Any:
        async def handle(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            self._record(method, context)
            try:
                async for message in self._runtime.streams.get(method, _echo)(requests, context):
                    yield message
            except asyncio.CancelledError:
                self._runtime.cancelled[method] += 1
                raise

        return handle

    def _record(self, method: str, context: Any) -> None:
        metadata = tuple((key, value) for key, value in context.invocation_metadata())
        self._runtime.calls.append(Call(method, metadata, context.time_remaining()))


async def _echo(requests: AsyncIterator[bytes], _context: Any) -> AsyncIterator[bytes]:
    async for message in requests:
        yield message


def pull_request(
    image: str, *, pod: str = "", namespace: str = "", password: str = "", annotations: Optional[dict[str, str]] = None
) -> bytes:
    """A PullImageRequest."""
    sandbox = field_bytes(1, text_field(1, pod) + text_field(3, namespace)) if pod else b""
    for key, value in (annotations or {}).items():
        sandbox += field_bytes(7, text_field(1, key) + text_field(2, value))
    auth = field_bytes(2, text_field(1, "user") + text_field(2, password)) if password else b""
    return field_bytes(1, text_field(1, image)) + auth + (field_bytes(3, sandbox) if sandbox else b"")


def image_name(request: bytes) -> str:
    """Of a request that begins with an ImageSpec that begins with the image's name, as all here do."""
    _size, at = _read_varint(request, 1)
    size, at = _read_varint(request, at + 1)
    return request[at : at + size].decode()


def image_ref(response: bytes) -> str:
    size, at = _read_varint(response, 1)
    return response[at : at + size].decode()


def text_field(number: int, text: str) -> bytes:
    return field_bytes(number, text.encode()) if text else b""


def field_bytes(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at
