# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The proxy: relays the API server's connections to the addresses of listed services, without reading them.

It refuses names that are not in the list. The head, the dial and the end of a connection have deadlines. An open connection may
be silent for any time, as a watch is; TCP keepalive detects a dead peer.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Optional

from ...._agent.log import Log
from ..api_services import split_address
from .connect import ESTABLISHED, HEAD_BYTES, HEAD_END, Refusal, answer, fault_of, parse_connect, refuse_malformed
from .counts import CONNECTED, FAILED, RECEIVED, REFUSED, SENT, Counts
from .settings import Service

_HEAD_SECONDS = 10.0
_DIAL_SECONDS = 5.0
_ANSWER_SECONDS = 5.0
_LINGER_SECONDS = 30.0  # for which one direction may be silent after the other has ended
_CHUNK = 64 * 1024
# Seconds of silence before the first keepalive probe, seconds between two probes, and the number of probes.
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))
_GONE = (OSError, EOFError, asyncio.TimeoutError)

Addresses = Mapping[tuple[str, int], str]
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def addresses_of(services: tuple[Service, ...]) -> Addresses:
    """ADDRESS:PORT of each service, by the host and port that the API server asks for."""
    return {(each.host, each.port): each.address for each in services}


class Proxy:
    """`failed` is called when a service of the list cannot be reached."""

    def __init__(self, addresses: Addresses, counts: Counts, log: Log, *, failed: Callable[[], None]) -> None:
        self.addresses = addresses
        self._counts = counts
        self._log = log
        self._failed = failed
        self._logged: set[str] = set()  # refusals in the log; those of a target are forgotten when it is reached
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, listening: socket.socket) -> asyncio.AbstractServer:
        return await asyncio.start_unix_server(self._accept, sock=listening, limit=HEAD_BYTES)

    async def end(self) -> None:
        """Close all connections."""
        connections = list(self._connections)
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve((reader, writer)))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, client: Stream) -> None:
        reader, writer = client
        try:
            try:
                target, server = await self._connect(reader)
            except Refusal as refusal:
                self._counts.requests[refusal.result] += 1
                self._log_refusal(refusal)
                await _write(writer, answer(refusal))
                return
            except _GONE:
                return
            try:
                self._counts.requests[CONNECTED] += 1
                self._counts.open[target] += 1
                with suppress(*_GONE):
                    await _write(writer, ESTABLISHED)
                    await self._relay(client, server)
            finally:
                self._counts.open[target] -= 1
                await _close(server[1])
        except _GONE:
            pass
        finally:
            await _close(writer)

    async def _connect(self, reader: asyncio.StreamReader) -> tuple[str, Stream]:
        """The requested target, and a connection to it. Refusal, or one of _GONE."""
        try:
            head = await asyncio.wait_for(reader.readuntil(HEAD_END), _HEAD_SECONDS)
        except asyncio.LimitOverrunError:
            raise refuse_malformed(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head is too long") from None
        except asyncio.TimeoutError:
            raise refuse_malformed(HTTPStatus.REQUEST_TIMEOUT, "the head did not come") from None
        host, port = parse_connect(head)
        target = f"{host}:{port}"
        address = self.addresses.get((host, port))
        if address is None:
            raise Refusal(HTTPStatus.FORBIDDEN, f"{target} is not in the list of APIServices", REFUSED)
        try:
            server = await _dial(address)
        except (OSError, asyncio.TimeoutError) as error:
            self._failed()
            slow = isinstance(error, asyncio.TimeoutError)
            fault = f"not within {_DIAL_SECONDS:.0f} seconds" if slow else fault_of(error)
            raise Refusal(HTTPStatus.BAD_GATEWAY, f"{target} at {address}: {fault}", FAILED) from None
        self._logged = {text for text in self._logged if not text.startswith(f"{target} ")}
        return target, server

    async def _relay(self, client: Stream, server: Stream) -> None:
        """Relay both directions until both have ended, one fails, or one has ended and the other falls silent."""
        moved = 0

        async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: str) -> None:
            nonlocal moved
            while True:
                data = await reader.read(_CHUNK)
                if not data:
                    break
                writer.write(data)
                moved += 1
                self._counts.bytes[direction] += len(data)
                await writer.drain()
            writer.write_eof()

        pumps = {
            asyncio.ensure_future(pump(client[0], server[1], SENT)),
            asyncio.ensure_future(pump(server[0], client[1], RECEIVED)),
        }
        try:
            left, patience = set(pumps), None
            while left:
                before = moved
                done, left = await asyncio.wait(left, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                if any(task.exception() for task in done) or (not done and moved == before):
                    break
                patience = _LINGER_SECONDS
        finally:
            for task in pumps:
                task.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    def _log_refusal(self, refusal: Refusal) -> None:
        """Log each reason once, as the API server retries again and again."""
        if refusal.reason not in self._logged and len(self._logged) < 1000:
            self._logged.add(refusal.reason)
            self._log.event(refusal.result, status=refusal.status.value, text=refusal.reason)


async def _dial(address: str) -> Stream:
    host, port = split_address(address)
    stream = await asyncio.wait_for(asyncio.open_connection(host, port, limit=_CHUNK), _DIAL_SECONDS)
    connection = stream[1].get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
    return stream


async def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await asyncio.wait_for(writer.drain(), _ANSWER_SECONDS)


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close after sending buffered data; abort when the peer does not accept it in time."""
    writer.close()
    waited: Optional[BaseException] = None
    try:
        await asyncio.wait_for(writer.wait_closed(), _ANSWER_SECONDS)
    except (OSError, asyncio.TimeoutError, asyncio.CancelledError) as error:
        waited = error
        writer.transport.abort()
    if isinstance(waited, asyncio.CancelledError):
        raise waited
