# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What runtimes see of the registry: a server before it that records what is asked, and is slow, closed or down for some images.

It listens in the network namespace of each runtime, at the same port of loopback, where runtimes speak plain HTTP
unasked. So an image has one name for all of them, and each request has the runtime that it came from.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import socket
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import TimeoutError as Late
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.integration.wire import entered

PORT = 5000
_CHUNK = 64 * 1024
_HEAD_MAX = 64 * 1024
_CALL_SECONDS = 30
_SLICE_SECONDS = 0.05  # of a slow body
_TLS = b"\x16"  # containerd 2 tries TLS on loopback too, and HTTP when it is answered in plain text
_NO_TLS = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
_CODES = {404: "MANIFEST_UNKNOWN", 429: "TOOMANYREQUESTS"}

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Manner:
    """How an image is served. `status`: this, instead of it. `open`: no content of its layers before it is set."""

    status: int = 0
    bytes_per_second: float = 0.0  # of one connection; 0: as fast as it goes
    open: threading.Event | None = None


@dataclass
class Request:
    """Times are of the monotonic clock. `ended` is 0 while it is under way."""

    runtime: str
    image: str
    kind: str  # manifests, blobs; "" for others
    method: str
    begun: float
    ended: float = 0.0
    status: int = 0
    sent: int = 0  # bytes of the body


@dataclass
class Front:
    """`manners` by image may be changed at any time; each request looks once."""

    registry_port: int
    manners: dict[str, Manner] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _servers: list[asyncio.Server] = field(default_factory=list)

    def listen(self, namespace: str, runtime: str, port: int = PORT) -> None:
        """Until it is closed. `runtime` is what requests from there are recorded under."""
        with entered(namespace):
            listening = socket.create_server(("127.0.0.1", port), backlog=512)

        async def serve() -> None:
            talk = functools.partial(self._talk, runtime)
            self._servers.append(await asyncio.start_server(talk, sock=listening, limit=_HEAD_MAX))

        self._call(serve())

    def hold(self, images: Sequence[str]) -> threading.Event:
        """No content of these is served before the event is set."""
        opened = threading.Event()
        self.manners.update({image: Manner(open=opened) for image in images})
        return opened

    def asked(self, image: str = "", *, kind: str = "", method: str = "GET") -> list[Request]:
        """Requests of one method for an image, or for all."""
        return [
            one
            for one in list(self.requests)
            if one.method == method and image in ("", one.image) and kind in ("", one.kind)
        ]

    def in_flight_most(self) -> int:
        """How many pulls (runtime, image) had a request for content under way at once."""
        changes: list[tuple[float, int, tuple[str, str]]] = []
        now = time.monotonic()
        for one in self.asked(kind="blobs"):
            changes += [(one.begun, 1, (one.runtime, one.image)), (one.ended or now, -1, (one.runtime, one.image))]
        counts: dict[tuple[str, str], int] = {}
        most = 0
        for _at, change, pull in sorted(changes):
            counts[pull] = counts.get(pull, 0) + change
            if not counts[pull]:
                del counts[pull]
            most = max(most, len(counts))
        return most

    def run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def close(self, thread: threading.Thread) -> None:
        async def end() -> None:
            for server in self._servers:
                server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        with contextlib.suppress(Late):
            self._call(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        thread.join(_CALL_SECONDS)
        self._loop.close()

    def _call(self, coroutine: Coroutine[Any, Any, Answer]) -> Answer:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_CALL_SECONDS)

    async def _talk(self, runtime: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The requests of one connection, in turn."""
        try:
            with closing(writer):
                while head := await _head(reader):
                    if head == _TLS:
                        writer.write(_NO_TLS)
                        return
                    await self._answer(runtime, head, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the runtime has gone, which is its right
        except asyncio.CancelledError:
            pass  # the front closes

    async def _answer(self, runtime: str, head: bytes, writer: asyncio.StreamWriter) -> None:
        method, path = head.split(b" ", 2)[:2]
        image, kind = _meant(path.decode())
        one = Request(runtime, image, kind, method.decode(), time.monotonic())
        self.requests.append(one)
        manner = self.manners.get(image, Manner())
        try:
            if manner.status:
                await _refuse(one, manner.status, writer)
            else:
                await self._forward(one, manner, head, writer)
        finally:
            one.ended = time.monotonic()

    async def _forward(self, one: Request, manner: Manner, head: bytes, writer: asyncio.StreamWriter) -> None:
        reader, upstream = await asyncio.open_connection("127.0.0.1", self.registry_port, limit=_HEAD_MAX)
        with closing(upstream):
            upstream.write(head)
            answered = await _head(reader)
            one.status = int(answered.split(b" ", 2)[1])
            writer.write(answered)
            rest = 0 if one.method == "HEAD" else _length(answered)
            if one.kind == "blobs" and manner.open is not None:
                while not manner.open.is_set():
                    await asyncio.sleep(_SLICE_SECONDS)
                    if writer.is_closing():
                        return
            while rest:
                data = await reader.read(min(rest, _piece(one, manner)))
                if not data:
                    raise ConnectionResetError("the registry has closed")
                writer.write(data)
                await writer.drain()
                rest -= len(data)
                one.sent += len(data)
                if one.kind == "blobs" and manner.bytes_per_second:
                    await asyncio.sleep(len(data) / manner.bytes_per_second)
            await writer.drain()


@contextmanager
def front(registry_port: int, runtimes: Mapping[str, str]) -> Iterator[Front]:
    """`runtimes`: name by network namespace."""
    made = Front(registry_port)
    thread = threading.Thread(target=made.run, name="registry front", daemon=True)
    with ExitStack() as undo:
        thread.start()
        undo.callback(made.close, thread)
        for namespace, runtime in runtimes.items():
            made.listen(namespace, runtime)
        yield made


async def _head(reader: asyncio.StreamReader) -> bytes:
    """Start line and headers; empty at the end of the connection."""
    try:
        first = await reader.readexactly(1)
        if first == _TLS:
            return first
        return first + await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return b""


async def _refuse(one: Request, status: int, writer: asyncio.StreamWriter) -> None:
    one.status = status
    body = json.dumps({"errors": [{"code": _CODES[status], "message": f"{one.image} is not for you now"}]}).encode()
    head = f"HTTP/1.1 {status} refused\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + (b"" if one.method == "HEAD" else body))
    await writer.drain()


def _meant(path: str) -> tuple[str, str]:
    """Image and kind of `/v2/IMAGE/blobs/sha256:...`."""
    parts = path.partition("?")[0].split("/")
    if len(parts) >= 5 and parts[-2] in ("manifests", "blobs"):
        return "/".join(parts[2:-2]), parts[-2]
    return "", ""


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        name, _colon, value = line.partition(b":")
        if name == b"content-length":
            return int(value)
    return 0


def _piece(one: Request, manner: Manner) -> int:
    if one.kind != "blobs" or not manner.bytes_per_second:
        return _CHUNK
    return max(1, min(_CHUNK, int(manner.bytes_per_second * _SLICE_SECONDS)))
