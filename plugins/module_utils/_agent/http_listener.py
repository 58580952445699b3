# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A small HTTP server for what a program reports about itself: metrics, health, settings.

Anybody who can reach its address may connect. That costs the program a limited number of connections and of accepts per
second: its own sockets keep the remaining descriptors, and its event loop the remaining time.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Optional

_HEAD_BYTES = 8 * 1024
_SECONDS = 5.0  # for the whole of a request
CONNECTIONS = 16  # open at once; the oldest is closed for a new one
_ACCEPT_SECONDS = 0.05  # between two accepts: meanwhile clients wait in the kernel
_BACKLOG = 64
_NO_FILE_SECONDS = 1.0
_UNSPECIFIED = ("0.0.0.0", "::")
TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


@dataclass(frozen=True)
class Request:
    method: str
    path: str  # without the query


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes = b""
    kind: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()


class HttpListener:
    """Accepts connections from its creation until it is closed. `answer` is called in the event loop and must not block."""

    def __init__(
        self,
        answer: Callable[[Request], Answer],
        sockets: Sequence[socket.socket],
        *,
        accept_seconds: float = _ACCEPT_SECONDS,
    ) -> None:
        self._answer = answer
        self._accept_seconds = accept_seconds
        self._loop = asyncio.get_running_loop()
        self._sockets = tuple(sockets)
        self._connections: dict[asyncio.Task[None], None] = {}  # oldest first
        self._accepting = [asyncio.ensure_future(self._accept(listener)) for listener in sockets]

    def close(self) -> None:
        """Call in its event loop. The addresses are free at once, without waiting for the loop."""
        for listener in self._sockets:
            if listener.fileno() >= 0:
                self._loop.remove_reader(listener)
                listener.close()
        for task in (*self._accepting, *self._connections):
            task.cancel()

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            await self._wait_for_one(listening)
            try:
                connection, _address = listening.accept()
            except BlockingIOError:  # the client has gone already
                continue
            except OSError:  # no free descriptor
                await asyncio.sleep(_NO_FILE_SECONDS)
                continue
            connection.setblocking(False)
            if len(self._connections) >= CONNECTIONS:
                next(iter(self._connections)).cancel()
            task = asyncio.ensure_future(self._serve(connection))
            self._connections[task] = None
            task.add_done_callback(partial(self._end, connection))
            await asyncio.sleep(self._accept_seconds)

    async def _wait_for_one(self, listening: socket.socket) -> None:
        """Wait for a connection. Not with `sock_accept`, which loses a connection if it is cancelled as one arrives."""
        arrived = asyncio.Event()
        self._loop.add_reader(listening, arrived.set)
        try:
            await arrived.wait()
        finally:
            if listening.fileno() >= 0:
                self._loop.remove_reader(listening)

    def _end(self, connection: socket.socket, task: asyncio.Task[None]) -> None:
        """Also called for a task that was cancelled before it began."""
        self._connections.pop(task, None)
        connection.close()

    async def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError, EOFError, asyncio.TimeoutError):
            await asyncio.wait_for(self._respond(connection), _SECONDS)

    async def _respond(self, connection: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            part = await self._loop.sock_recv(connection, _HEAD_BYTES)
            head += part
            if not part or len(head) > _HEAD_BYTES:
                return
        request = _parse(head)
        answer = Answer(400, b"this is not HTTP\n") if request is None else self._answer(request)
        with_body = request is None or request.method != "HEAD"
        await self._loop.sock_sendall(connection, _head(answer) + (answer.body if with_body else b""))


def open_sockets(addresses: Sequence[tuple[int, Any]]) -> list[socket.socket]:
    """A listening socket for each family and address (as `socket.bind` takes it), for that family only. OSError if one
    cannot be opened; then all are closed."""
    sockets: list[socket.socket] = []
    try:
        for family, address in addresses:
            listener = socket.socket(family, socket.SOCK_STREAM)
            sockets.append(listener)
            listener.setblocking(False)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
    except OSError:
        for listener in sockets:
            listener.close()
        raise
    return sockets


def open_place(host: str, port: int) -> list[socket.socket]:
    """Listen on an IP address. "0.0.0.0" and "::" both mean all addresses of the machine, as in Go. OSError if that is not
    possible."""
    if host in _UNSPECIFIED:
        return _open_everywhere(port)
    return open_sockets([(socket.AF_INET6 if ":" in host else socket.AF_INET, (host, port))])


def _open_everywhere(port: int) -> list[socket.socket]:
    """Listen on all addresses of the families that the kernel supports."""
    sockets = open_sockets([(socket.AF_INET, ("0.0.0.0", port))])
    try:
        sockets += open_sockets([(socket.AF_INET6, ("::", port))])
    except OSError as error:
        if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
            for listener in sockets:
                listener.close()
            raise
    return sockets


def _parse(head: bytes) -> Optional[Request]:
    words = head.split(b"\r\n", 1)[0].split(b" ")
    if len(words) != 3 or not words[0]:
        return None
    return Request(words[0].decode(errors="replace"), words[1].split(b"?", 1)[0].decode(errors="replace"))


def _head(answer: Answer) -> bytes:
    rows = [
        ("Content-Type", answer.kind),
        ("X-Content-Type-Options", "nosniff"),
        *answer.headers,
        ("Content-Length", str(len(answer.body))),
        ("Connection", "close"),
    ]
    lines = "".join(f"{name}: {value}\r\n" for name, value in rows)
    return f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n{lines}\r\n".encode()
