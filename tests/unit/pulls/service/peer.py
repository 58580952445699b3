# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A client that speaks HTTP/2 frame by frame, and keeps strict account of the windows that it gave."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy import http2
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.hpack import Decoder, Header, encode


@dataclass
class Answered:
    data: bytearray = field(default_factory=bytearray)
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    ended: bool = False
    reset: int | None = None

    @property
    def status(self) -> int:
        return int(dict(self.headers)[b"grpc-status"])


class Peer:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = Decoder()
        self.window = http2.INITIAL_WINDOW
        self.sendable = http2.INITIAL_WINDOW
        self.streams: dict[int, Answered] = {}
        self.settings: dict[int, int] = {}
        self.goaway: int | None = None
        self.goaway_last = -1
        self.acknowledged = 0
        self.pongs = 0
        self.sent_bytes = 0
        self._answers_settings = True
        self._block: tuple[int, bytearray] | None = None

    def send(self, data: bytes) -> None:
        self.sent_bytes += len(data)
        self._writer.write(data)

    async def drain(self) -> None:
        await self._writer.drain()

    async def close(self) -> None:
        self._writer.transport.abort()  # there may be what nobody will read
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    def ask(self, stream: int, path: str, message: bytes, *headers: Header) -> None:
        self.send(self.request(stream, path, message, *headers))

    def request(self, stream: int, path: str, message: bytes, *headers: Header) -> bytes:
        self.streams[stream] = Answered()
        sent = [
            Header(b":method", b"POST"),
            Header(b":scheme", b"http"),
            Header(b":path", path.encode()),
            Header(b":authority", b"localhost"),
            Header(b"content-type", b"application/grpc"),
            Header(b"te", b"trailers"),
            *headers,
        ]
        body = http2.data_payload(message)
        return http2.header_frames(stream, encode(sent), end_stream=False) + http2.frame(
            http2.DATA, http2.END_STREAM, stream, body
        )

    def credit(self, stream: int, amount: int) -> None:
        if stream == 0:
            self.window += amount
        self.send(http2.window_update(stream, amount))

    async def frame(self) -> bool:
        """One frame; False at the end of the connection."""
        try:
            head = await asyncio.wait_for(self._reader.readexactly(http2.FRAME_HEADER), 20)
            payload = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
        except (asyncio.IncompleteReadError, ConnectionError):
            return False
        self._take(head[3], head[4], int.from_bytes(head[5:], "big"), payload)
        return True

    async def until_ended(self, *streams: int) -> None:
        while not all(self.streams[stream].ended for stream in streams):
            assert await self.frame(), "the connection was closed"

    async def until_closed(self) -> None:
        self._answers_settings = False  # to a closed socket: asyncio then forgets what it has read
        while await self.frame():
            pass

    def _take(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        assert self._block is None or (kind, number) == (http2.CONTINUATION, self._block[0])
        if kind == http2.DATA:
            self.window -= len(payload)
            assert self.window >= 0, "more data than the connection's window allows"
            self.streams[number].data += payload
        elif kind in (http2.HEADERS, http2.CONTINUATION):
            block = self._block[1] if self._block else bytearray()
            block += http2.fragment(flags, payload) if kind == http2.HEADERS else payload
            self._block = (number, block)
            if flags & http2.END_HEADERS:
                self._block = None
                self.streams[number].headers += [header[:2] for header in self._decoder.decode(bytes(block))]
        elif kind == http2.RST_STREAM:
            self.streams[number].reset = http2.parse_number(payload)
        elif kind == http2.WINDOW_UPDATE and number == 0:
            self.sendable += http2.parse_number(payload)
        elif kind == http2.GOAWAY:
            self.goaway = int.from_bytes(payload[4:8], "big")
            self.goaway_last = int.from_bytes(payload[:4], "big")
        elif kind == http2.SETTINGS and flags & http2.ACK:
            self.acknowledged += 1
        elif kind == http2.PING and flags & http2.ACK:
            self.pongs += 1
        elif kind == http2.SETTINGS:
            self.settings.update(http2.parse_settings_frame(payload))
            if self._answers_settings:
                self.send(http2.frame(http2.SETTINGS, http2.ACK, 0))
        if kind in (http2.DATA, http2.HEADERS) and flags & http2.END_STREAM:
            self.streams[number].ended = True
