# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How Prometheus gets what a program counts: GET /metrics on loopback.

Every user of the machine may connect there. What they do costs the program so many connections and so many accepts in a second,
and no more: its own sockets have the other descriptors, and its loop the other time.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any

from .identity import Agent

_HEAD_BYTES = 8 * 1024
_SECONDS = 5.0  # for the whole of a request
CONNECTIONS = 16  # open at once; the oldest makes room for a new one
_ACCEPT_SECONDS = 0.05  # between two accepts: those who wait meanwhile do so in the kernel
_BACKLOG = 64
_NO_FILE_SECONDS = 1.0


class MetricsListener:
    """It accepts from when it is made until it is closed."""

    def __init__(self, library: Any, registry: Any, sockets: list[socket.socket]) -> None:
        self._library = library
        self._registry = registry
        self._answers: dict[asyncio.Task[None], None] = {}  # the oldest first
        self._accepting = [asyncio.ensure_future(self._accept(listener)) for listener in sockets]

    def close(self) -> None:
        for task in (*self._accepting, *self._answers):
            task.cancel()

    async def _accept(self, listening: socket.socket) -> None:
        with listening:
            while True:
                try:
                    connection, _address = await asyncio.get_running_loop().sock_accept(listening)
                except OSError:  # of one that has gone already, or there is no descriptor
                    await asyncio.sleep(_NO_FILE_SECONDS)
                    continue
                if len(self._answers) >= CONNECTIONS:
                    next(iter(self._answers)).cancel()
                task = asyncio.ensure_future(self._serve(connection))
                self._answers[task] = None
                task.add_done_callback(lambda done: self._answers.pop(done, None))
                await asyncio.sleep(_ACCEPT_SECONDS)

    async def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError, EOFError, asyncio.TimeoutError):
            await asyncio.wait_for(self._answer(connection), _SECONDS)

    async def _answer(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        head = b""
        while b"\r\n\r\n" not in head:
            part = await loop.sock_recv(connection, _HEAD_BYTES)
            head += part
            if not part or len(head) > _HEAD_BYTES:
                return
        await loop.sock_sendall(connection, _response(self._library, self._registry, head))


async def serve_metrics(agent: Agent, library: Any, registry: Any, address: tuple[str, int]) -> MetricsListener:
    """`library` is prometheus_client, `registry` one of its. HostError where the port is taken."""
    host, port = address
    try:
        return MetricsListener(library, registry, await _listening(host, port))
    except OSError as error:
        raise agent.error("metrics-taken", address=f"{host}:{port}", found=str(error)) from None


async def _listening(host: str, port: int) -> list[socket.socket]:
    """On every address of the host's name."""
    addresses = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _name, place in dict.fromkeys(addresses):
            listener = socket.socket(family, kind, protocol)
            sockets.append(listener)
            listener.setblocking(False)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(place)
            listener.listen(_BACKLOG)
    except OSError:
        for listener in sockets:
            listener.close()
        raise
    return sockets


def _response(library: Any, registry: Any, head: bytes) -> bytes:
    words = head.split(b"\r\n", 1)[0].split(b" ")
    method, path = (words[0], words[1].split(b"?", 1)[0]) if len(words) == 3 else (b"", b"")
    kind, body = "text/plain; charset=utf-8", b""
    if not method:
        status, body = "400 Bad Request", b"this is not HTTP\n"
    elif path != b"/metrics":
        status, body = "404 Not Found", b"there is /metrics\n"
    elif method not in (b"GET", b"HEAD"):
        status, body = "405 Method Not Allowed", b"use GET\n"
    else:
        status, kind = "200 OK", library.CONTENT_TYPE_LATEST
        body = library.generate_latest(registry)
    header = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return header.encode() + (b"" if method == b"HEAD" else body)
