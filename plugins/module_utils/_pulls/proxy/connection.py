# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A client's HTTP/2 connection: reads its frames in turns, and closes it if the client exceeds a limit."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from typing import Optional, cast

from ..._agent.place import peer_user
from . import http2, limits
from .backend import Backend
from .hpack import Decoder, Header, HpackError
from .http2 import Http2Error

_OF_STREAMS = frozenset((http2.DATA, http2.HEADERS, http2.RST_STREAM, http2.CONTINUATION))
_OF_CONNECTION = frozenset((http2.SETTINGS, http2.PING, http2.GOAWAY))
# Buffer of all connections: each takes its bytes out before the next one reads.
_READ = bytearray(limits.READ_BYTES)


class Connection(asyncio.BufferedProtocol):
    """`live` is the set of the listener's open connections; this one is in it while it is open."""

    def __init__(self, backend: Backend, live: set[Connection]) -> None:
        self._backend = backend
        self._live = live
        self._loop = asyncio.get_running_loop()
        self._manners = limits.Manners()
        self._decoder = Decoder()
        self._unread = b""
        self._out: list[bytes] = []
        self._greeted = False
        self._began = False  # the client's SETTINGS have arrived too
        self._block: Optional[limits.Block] = None  # headers that continue in the next frame
        self._relayed: deque[bool] = deque()  # for each SETTINGS frame sent to the client: whether it was the runtime's
        self._last = 0  # the newest stream
        self._goaway_last = http2.ALL_STREAMS
        self._leaving = False
        self._full = False  # the client reads more slowly than we write
        self._active = self._loop.time()  # when the last frame arrived
        self._partial: Optional[float] = None  # since when a frame or a header block is incomplete
        self._look: Optional[asyncio.TimerHandle] = None

    # What a subclass implements.

    @property
    @abstractmethod
    def is_busy(self) -> bool:
        """Whether a pull is not completely answered."""

    @property
    @abstractmethod
    def _is_idle(self) -> bool:
        """Whether no stream is open."""

    @property
    @abstractmethod
    def _stops(self) -> bool:
        """Whether frames of the client must wait."""

    @abstractmethod
    def regulate(self) -> None:
        """Pause reading while nothing can be passed on, else resume it."""

    @abstractmethod
    def _take(self, kind: int, flags: int, number: int, raw: bytes) -> None:
        """Handle a frame other than HEADERS and CONTINUATION."""

    @abstractmethod
    def _take_headers(self, number: int, headers: list[Header], is_last: bool) -> None: ...

    @abstractmethod
    def _settle(self) -> None:
        """Do what the frames of this turn have made possible."""

    @abstractmethod
    def _give_up_late(self, now: float) -> None:
        """Give up streams whose client has been too slow."""

    @abstractmethod
    def _lost(self) -> None: ...

    @abstractmethod
    def _flush(self) -> None: ...

    # Callbacks of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self._backend.admits(peer_user(transport.get_extra_info("socket")), len(self._live)):
            self._leaving = True
            self._transport.abort()
            return
        self._live.add(self)
        self._look = self._loop.call_later(limits.PREFACE_SECONDS, self._look_at_time)

    def connection_lost(self, exc: Optional[Exception]) -> None:
        self._live.discard(self)
        self._leaving = True
        if self._look is not None:
            self._look.cancel()
        self._lost()

    def pause_writing(self) -> None:
        self._full = True
        self.regulate()

    def resume_writing(self) -> None:
        self._full = False
        self.resume()

    def resume(self) -> None:
        """Continue to read, and handle what is unread."""
        self.regulate()
        self._read()

    def get_buffer(self, sizehint: int) -> bytearray:
        return _READ

    def buffer_updated(self, nbytes: int) -> None:
        self._unread += _READ[:nbytes]
        self._read()

    def end(self, why: str = "the pull proxy is stopping") -> None:
        """Close after the pending output is written."""
        if not self._transport.is_closing():
            if self._greeted:
                self._send_goaway(http2.NO_ERROR, why)
            self._flush()
            self._transport.close()

    def _read(self) -> None:
        data, at, frames = self._unread, 0, 0
        try:
            if not self._greeted:
                at = self._greet(data)
            while self._greeted and not self._stops and len(data) - at >= http2.FRAME_HEADER:
                length, kind, flags, number = http2.read_head(data, at)
                if length > http2.LEAST_FRAME_BYTES:
                    raise Http2Error(http2.FRAME_SIZE_ERROR, f"a frame of {length} bytes")
                end = at + http2.FRAME_HEADER + length
                if len(data) < end:
                    break
                raw = data[at:end]
                at = end
                frames += 1
                self._frame(kind, flags, number, raw)
                if frames % limits.FRAMES_BETWEEN_FLUSHES == 0:
                    self._flush()
        except (Http2Error, HpackError) as error:
            self._break_off(error)
            at = len(data)
        self._unread = data[at:]
        self._note_time(frames)
        self._settle()
        self._flush()

    def _note_time(self, frames: int) -> None:
        now = self._loop.time()
        if frames:
            self._active = now
            if self._block is None:
                self._partial = None
        if self._partial is None and not self._stops and (self._unread or self._block is not None):
            self._partial = now

    def _look_at_time(self) -> None:
        """Close the connection if the client has exceeded a time limit."""
        if self._transport.is_closing():  # the client does not read our last output
            self._transport.abort()
            return
        now, partial = self._loop.time(), self._partial
        self._look = self._loop.call_later(limits.LOOK_SECONDS, self._look_at_time)
        self._give_up_late(now)
        if not self._began:
            self._break_off(Http2Error(http2.PROTOCOL_ERROR, "it does not start HTTP/2"))
        elif partial is not None and not self._stops and now - partial > limits.PARTIAL_SECONDS:
            self._break_off(Http2Error(http2.ENHANCE_YOUR_CALM, "a frame or its headers do not end"))
        elif self._is_idle and now - self._active > limits.IDLE_SECONDS:
            self.end("this connection was idle")
        else:
            self._flush()

    def _greet(self, data: bytes) -> int:
        if not http2.PREFACE.startswith(data[: len(http2.PREFACE)]):
            raise Http2Error(http2.PROTOCOL_ERROR, "the first bytes are not HTTP/2, which gRPC uses")
        if len(data) < len(http2.PREFACE):
            return 0
        self._greeted = True
        self._out.append(http2.settings(limits.advertised_settings()))
        self._relayed.append(False)
        return len(http2.PREFACE)

    def _break_off(self, error: Http2Error | HpackError) -> None:
        self._backend.note_misbehaviour(str(error))
        if self._greeted:
            code = error.code if isinstance(error, Http2Error) else http2.COMPRESSION_ERROR
            self._send_goaway(code, str(error))
        self._flush()
        self._transport.close()

    def _send_goaway(self, code: int, text: str) -> None:
        self._leaving = True
        self._goaway_last = min(self._goaway_last, self._last)
        self._out.append(http2.goaway(self._goaway_last, code, text))

    def _frame(self, kind: int, flags: int, number: int, raw: bytes) -> None:
        if self._block is not None and (kind != http2.CONTINUATION or number != self._block.number):
            raise Http2Error(http2.PROTOCOL_ERROR, "a header block is interrupted")
        if (number == 0) == (kind in _OF_STREAMS) and kind in _OF_STREAMS | _OF_CONNECTION:
            raise Http2Error(http2.PROTOCOL_ERROR, f"a frame of type {kind} on stream {number}")
        if kind == http2.HEADERS:
            self._block = limits.Block(number, bool(flags & http2.END_STREAM))
            self._continue_block(flags, http2.fragment(flags, raw[9:]))
            return
        if kind == http2.CONTINUATION:
            self._continue_block(flags, raw[9:])
            return
        self._take(kind, flags, number, raw)

    def _continue_block(self, flags: int, part: bytes) -> None:
        block = self._block
        if block is None:
            raise Http2Error(http2.PROTOCOL_ERROR, "a CONTINUATION frame without a HEADERS frame")
        block.add(part)
        if flags & http2.END_HEADERS:
            self._block = None
            self._take_headers(block.number, self._decoder.decode(b"".join(block.parts)), block.is_last)
