# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One connection of a kubelet: its PullImage calls are answered here, all its other streams go to the runtime as they are.

    kubelet <-- HTTP/2 --> Relay <-- HTTP/2 --> runtime        one connection there for each here, made for the first stream

Frames are passed on, not calls: streams keep their numbers, so that whatever gRPC says in them arrives as it was said, and
costs little. That is sound because of what the proxy does to the state that the frames of one connection share:

- Header blocks of the kubelet are decoded, and written anew without HPACK's table: those of a pull can then be left out.
  The runtime's are passed on unread; the proxy's own are written without the table, and do not disturb it.
- Windows of streams, and settings, are the two ends' own. Of a connection's window, what a pull's request took is given
  back at once. What the answer to a pull took the runtime does not know of: that much (`Answers.debt`) is kept back from the next
  credit, and a frame that is too large until then is held.
- A PING is answered by the one who reads it.

A runtime that goes away ends the streams that it had with UNAVAILABLE, and the kubelet is asked to connect anew (GOAWAY).
Its pulls are not part of that connection, and are answered first.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional, Protocol, cast

from . import http2
from .answers import Answers, Pull
from .hpack import Decoder, Header, HpackError, encode
from .http2 import Answer, Http2Error
from .runtime_side import RuntimeSide

_LEAVE_SECONDS = 2.0  # for a kubelet that was told to connect anew to close its end


class Backend(Protocol):
    """What the connections of one listener have in common."""

    runtime: str  # the path of its socket

    def is_pull(self, path: bytes) -> bool: ...

    async def answer(self, headers: Sequence[Header], body: bytes) -> Answer:
        """Of a pull; does not raise. Cancelled when the caller has gone."""

    def runtime_answers(self) -> None:
        """A connection to it could be made."""

    def runtime_fails(self, error: Exception) -> Answer:
        """None could be made, or one broke; what its callers are told."""

    def misbehaved(self, text: str) -> None:
        """A connection was closed because of what came in on it."""


@dataclass(eq=False)
class _Stream:
    """Of an RPC that is passed on."""

    asked: bool = False  # the kubelet has sent all it will
    begun: bool = False  # the runtime has sent headers


class Relay(asyncio.Protocol):
    """The kubelet's end. It is in `live` as long as it is connected."""

    def __init__(self, backend: Backend, live: set[Relay]) -> None:
        self._backend = backend
        self._live = live
        self._decoder = Decoder()
        self._unread = b""
        self._out: list[bytes] = []
        self._greeted = False
        self._streams: dict[int, _Stream | Pull] = {}
        self._answers = Answers(self._out)
        self._last = 0  # the newest stream
        self._block: Optional[tuple[int, bool, bytearray]] = None  # of headers that go on in the next frame
        self._settings: dict[int, int] = {}  # the kubelet's
        self._relayed: deque[bool] = deque()  # of the SETTINGS sent to the kubelet: were they the runtime's?
        self._frame_most = http2.LEAST_FRAME_BYTES
        self._runtime: Optional[RuntimeSide] = None
        self._connecting: Optional[asyncio.Task[None]] = None
        self._leaving = False
        self._closing: Optional[asyncio.TimerHandle] = None
        self._told_last = http2.ALL_STREAMS
        self._full = False  # the kubelet does not read as fast as it is written to

    # The kubelet's connection.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._live.add(self)

    def connection_lost(self, exc: Optional[Exception]) -> None:
        self._live.discard(self)
        self._leaving = True
        for stream in self._streams.values():
            if isinstance(stream, Pull) and stream.task is not None:
                stream.task.cancel()
        self._streams.clear()
        if self._connecting is not None:
            self._connecting.cancel()
        if self._closing is not None:
            self._closing.cancel()
        if self._runtime is not None:
            self._runtime.transport.close()
            self._runtime = None

    def pause_writing(self) -> None:
        self._full = True
        self.regulate()

    def resume_writing(self) -> None:
        self._full = False
        self.regulate()

    def regulate(self) -> None:
        """Read no more than can be passed on."""
        stop = self._full or self._connecting is not None or (self._runtime is not None and self._runtime.full)
        _let_read(self._transport, not stop)
        if self._runtime is not None:
            _let_read(self._runtime.transport, not self._full and not self._runtime.held)

    def data_received(self, data: bytes) -> None:
        self._unread += data
        self._read()

    @property
    def is_busy(self) -> bool:
        """A pull is not answered yet, or not wholly."""
        waits = any(isinstance(stream, Pull) and stream.answer is None for stream in self._streams.values())
        return waits or bool(self._answers)

    def end(self) -> None:
        """Close, after what is on its way."""
        if not self._transport.is_closing():
            if self._greeted:
                self._tell_goaway(http2.NO_ERROR, "the pull proxy ends")
            self._flush()
            self._transport.close()

    def _read(self) -> None:
        data, at = self._unread, 0
        try:
            if not self._greeted:
                at = self._greet(data)
            while self._greeted and self._connecting is None and len(data) - at >= http2.FRAME_HEADER:
                length, kind, flags, number = http2.read_head(data, at)
                if length > self._frame_most:
                    raise Http2Error(http2.FRAME_SIZE_ERROR, f"a frame of {length} bytes")
                end = at + http2.FRAME_HEADER + length
                if len(data) < end:
                    break
                raw = data[at:end]
                at = end
                self._frame(kind, flags, number, raw)
        except (Http2Error, HpackError) as error:
            self._break_off(error)
            at = len(data)
        self._unread = data[at:]
        self._flush()

    def _greet(self, data: bytes) -> int:
        if not http2.PREFACE.startswith(data[: len(http2.PREFACE)]):
            raise Http2Error(http2.PROTOCOL_ERROR, "what came first is not HTTP/2, which gRPC speaks")
        if len(data) < len(http2.PREFACE):
            return 0
        self._greeted = True
        self._out.append(http2.settings({}))
        self._relayed.append(False)
        return len(http2.PREFACE)

    def _break_off(self, error: Http2Error | HpackError) -> None:
        self._backend.misbehaved(str(error))
        if self._greeted:
            code = error.code if isinstance(error, Http2Error) else http2.COMPRESSION_ERROR
            self._tell_goaway(code, str(error))
        self._flush()
        self._transport.close()

    def _tell_goaway(self, code: int, text: str) -> None:
        self._leaving = True
        self._told_last = min(self._told_last, self._last)
        self._out.append(http2.goaway(self._told_last, code, text))

    def _flush(self) -> None:
        if self._runtime is not None:
            self._runtime.flush()
        if self._out:
            self._transport.write(b"".join(self._out))
            self._out.clear()

    # Frames of the kubelet.

    def _frame(self, kind: int, flags: int, number: int, raw: bytes) -> None:
        if self._block is not None and (kind != http2.CONTINUATION or number != self._block[0]):
            raise Http2Error(http2.PROTOCOL_ERROR, "a header block is interrupted")
        if kind == http2.HEADERS:
            self._block = (number, bool(flags & http2.END_STREAM), bytearray())
            self._continue_block(flags, http2.fragment(flags, raw[9:]))
        elif kind == http2.CONTINUATION:
            self._continue_block(flags, raw[9:])
        elif kind == http2.DATA:
            self._data(flags, number, raw)
        elif kind == http2.WINDOW_UPDATE:
            self._credit(number, raw)
        elif kind == http2.RST_STREAM:
            self._reset(number, raw)
        elif kind == http2.SETTINGS:
            self._take_settings(flags, raw)
        elif kind == http2.PING:
            _pong(flags, raw, self._out)
        elif kind == http2.PUSH_PROMISE:
            raise Http2Error(http2.PROTOCOL_ERROR, "a client sends PUSH_PROMISE")
        # GOAWAY: it will close its end when its streams are done. What is unknown is to be ignored: RFC 9113, 5.5.

    def _continue_block(self, flags: int, part: bytes) -> None:
        if self._block is None:
            raise Http2Error(http2.PROTOCOL_ERROR, "a header block goes on that has not begun")
        number, is_last, block = self._block
        block += part
        if len(block) > http2.BLOCK_BYTES:
            raise Http2Error(http2.ENHANCE_YOUR_CALM, f"a header block of more than {http2.BLOCK_BYTES} bytes")
        if flags & http2.END_HEADERS:
            self._block = None
            self._take_headers(number, self._decoder.decode(bytes(block)), is_last)

    def _take_headers(self, number: int, headers: list[Header], is_last: bool) -> None:
        stream = self._streams.get(number)
        if isinstance(stream, Pull):
            if is_last:
                self._ask(number, stream)
        elif stream is not None:
            self._pass_headers(number, stream, headers, is_last)
        elif number <= self._last or self._leaving:
            return  # of a stream that is closed, or that comes after our GOAWAY
        elif not number % 2:
            raise Http2Error(http2.PROTOCOL_ERROR, "a client opens a stream of an even number")
        else:
            self._open(number, headers, is_last)

    def _open(self, number: int, headers: list[Header], is_last: bool) -> None:
        self._last = number
        if self._backend.is_pull(http2.value_of(headers, b":path") or b""):
            pull = self._streams[number] = Pull(headers)
            if is_last:
                self._ask(number, pull)
            return
        stream = self._streams[number] = _Stream()
        if self._runtime is not None:
            self._pass_headers(number, stream, headers, is_last)
            return
        self._connecting = asyncio.get_running_loop().create_task(self._connect(number, stream, headers, is_last))
        self.regulate()

    def _pass_headers(self, number: int, stream: _Stream, headers: list[Header], is_last: bool) -> None:
        if self._runtime is not None:
            self._runtime.out.append(http2.header_frames(number, encode(headers), end_stream=is_last))
        if is_last:
            stream.asked = True

    def _data(self, flags: int, number: int, raw: bytes) -> None:
        stream = self._streams.get(number)
        is_last = bool(flags & http2.END_STREAM)
        if isinstance(stream, _Stream):
            stream.asked = stream.asked or is_last
            if self._runtime is not None:
                self._runtime.out.append(raw)
            return
        size = len(raw) - http2.FRAME_HEADER
        if size:
            self._out.append(http2.window_update(0, size))
        if stream is None or stream.asked:
            return
        if size and not is_last:
            self._out.append(http2.window_update(number, size))
        if stream.answer is None:
            stream.body += http2.without_padding(flags, raw[9:])
        if len(stream.body) > http2.MESSAGE_BYTES + 5:
            text = f"the message of this request has more than {http2.MESSAGE_BYTES} bytes"
            stream.body.clear()
            stream.asked = is_last
            self._give(number, stream, Answer(code=http2.RESOURCE_EXHAUSTED, text=text))
        elif is_last:
            self._ask(number, stream)

    def _credit(self, number: int, raw: bytes) -> None:
        amount = http2.parse_number(raw[9:]) & http2.ALL_STREAMS
        stream = self._streams.get(number)
        if number == 0:
            told = self._answers.credit(amount)
            if self._runtime is not None:
                if told:
                    self._runtime.out.append(http2.window_update(0, told))
                if self._runtime.held:
                    self._runtime.read()
        elif isinstance(stream, Pull):
            stream.credit += amount
        elif stream is not None and self._runtime is not None:
            self._runtime.out.append(raw)
        self._deliver()

    def _reset(self, number: int, raw: bytes) -> None:
        http2.parse_number(raw[9:])
        stream = self._streams.pop(number, None)
        self._answers.drop(number)
        if isinstance(stream, Pull):
            if stream.task is not None:
                stream.task.cancel()
            self._close_if_done()
        elif stream is not None and self._runtime is not None:
            self._runtime.out.append(raw)

    def _take_settings(self, flags: int, raw: bytes) -> None:
        if flags & http2.ACK:
            if self._relayed and self._relayed.popleft() and self._runtime is not None:
                self._runtime.out.append(raw)
            return
        self._settings.update(http2.parse_settings_frame(raw[9:]))
        self._answers.initial_window = self._settings.get(http2.INITIAL_WINDOW_SIZE, http2.INITIAL_WINDOW)
        if self._runtime is None:
            self._out.append(http2.frame(http2.SETTINGS, http2.ACK, 0))
        else:
            self._runtime.out.append(raw)
            self._runtime.unacknowledged.append(True)
        self._deliver()  # the initial window may have grown

    # Pulls.

    def _ask(self, number: int, pull: Pull) -> None:
        pull.asked = True
        if pull.answer is not None:  # before it was complete
            self._streams.pop(number)
        else:
            pull.task = asyncio.get_running_loop().create_task(self._serve(number, pull))

    async def _serve(self, number: int, pull: Pull) -> None:
        headers, body = pull.headers, bytes(pull.body)
        pull.headers, pull.body = [], bytearray()  # a thousand may wait
        answer = await self._backend.answer(headers, body)
        self._give(number, pull, answer)
        self._flush()

    def _give(self, number: int, pull: Pull, answer: Answer) -> None:
        self._answers.add(number, pull, answer)
        self._deliver()

    def _deliver(self) -> None:
        """Answers to pulls."""
        if not self._answers:
            return
        for number, pull in self._answers.deliver():
            if pull.asked:
                self._streams.pop(number)
            else:  # the kubelet is to stop; what is on its way is to be known as this stream's
                self._out.append(http2.rst_stream(number, http2.NO_ERROR))
        self._close_if_done()

    def _close_if_done(self) -> None:
        """The kubelet, which was told to go, closes its end when it has read all answers; an end that is closed before could
        take some of them from it."""
        if self._leaving and self._runtime is None and not self.is_busy and self._closing is None:
            self._closing = asyncio.get_running_loop().call_later(_LEAVE_SECONDS, self._transport.close)

    # The runtime's connection.

    async def _connect(self, number: int, stream: _Stream, headers: list[Header], is_last: bool) -> None:
        """To the runtime, for the stream that needs it first."""
        loop = asyncio.get_running_loop()
        try:
            _transport, runtime = await loop.create_unix_connection(lambda: RuntimeSide(self), self._backend.runtime)
            if runtime.lost is not None:
                raise runtime.lost
        except (OSError, Http2Error) as error:
            stream.asked = stream.asked or is_last
            self._refuse(number, stream, self._backend.runtime_fails(error))
        else:
            self._backend.runtime_answers()
            self._runtime = runtime
            runtime.out += [http2.PREFACE, http2.settings(self._settings)]
            surplus = self._answers.surplus()
            if surplus:
                runtime.out.append(http2.window_update(0, surplus))
            self._pass_headers(number, stream, headers, is_last)
        self._connecting = None
        self.regulate()
        self._read()

    def _refuse(self, number: int, stream: _Stream, answer: Answer) -> None:
        """End a stream that the runtime cannot answer, or not to the end."""
        block = http2.status_block(answer)
        block = block if stream.begun else http2.answer_headers() + block
        self._out.append(http2.header_frames(number, block, end_stream=True))
        if not stream.asked:
            self._out.append(http2.rst_stream(number, http2.NO_ERROR))
        self._streams.pop(number)

    def runtime_lost(self, runtime: RuntimeSide, error: Exception) -> None:
        """Its connection broke, or says what is not HTTP/2."""
        if self._runtime is not runtime:  # this end was closed first
            return
        self._runtime = None
        answer = self._backend.runtime_fails(error)
        self._out += [http2.frame(http2.SETTINGS, http2.ACK, 0) for relayed in runtime.unacknowledged if relayed]
        for number, stream in list(self._streams.items()):
            if isinstance(stream, _Stream):
                self._refuse(number, stream, answer)
        self._tell_goaway(http2.NO_ERROR, "the runtime closed its connection")
        self._deliver()
        self._flush()
        self._close_if_done()

    # Frames of the runtime.

    def runtime_frame(self, runtime: RuntimeSide, kind: int, flags: int, number: int, raw: bytes) -> None:
        if kind == http2.DATA:
            self._answers.window -= len(raw) - http2.FRAME_HEADER
        elif kind == http2.SETTINGS:
            self._take_runtime_settings(runtime, flags, raw)
            return
        elif kind == http2.PING:
            _pong(flags, raw, runtime.out)
            return
        elif kind == http2.GOAWAY:
            self._pass_goaway(raw)
            return
        elif kind == http2.RST_STREAM:
            self._streams.pop(number, None)
        self._out.append(raw)
        if kind in (http2.DATA, http2.HEADERS):
            self._note_answer(kind, number, bool(flags & http2.END_STREAM))

    def _note_answer(self, kind: int, number: int, is_last: bool) -> None:
        stream = self._streams.get(number)
        if not isinstance(stream, _Stream):
            return
        if kind == http2.HEADERS:
            stream.begun = True
        # gRPC: when the status is there, nothing that the caller still sends is read.
        if is_last:
            self._streams.pop(number)

    def _take_runtime_settings(self, runtime: RuntimeSide, flags: int, raw: bytes) -> None:
        if flags & http2.ACK:
            if runtime.unacknowledged and runtime.unacknowledged.popleft():
                self._out.append(raw)
            return
        values = http2.parse_settings_frame(raw[9:])
        values.pop(http2.HEADER_TABLE_SIZE, None)  # the kubelet's header blocks are read here
        self._frame_most = max(self._frame_most, values.get(http2.MAX_FRAME_SIZE, 0))
        self._out.append(http2.settings(values))
        self._relayed.append(True)

    def _pass_goaway(self, raw: bytes) -> None:
        """The runtime knows nothing of the pulls, which are to be answered all the same."""
        if len(raw) < http2.FRAME_HEADER + 8:
            raise Http2Error(http2.FRAME_SIZE_ERROR, "a GOAWAY frame of a wrong length")
        last = int.from_bytes(raw[9:13], "big") & http2.ALL_STREAMS
        pulls = [number for number, stream in self._streams.items() if isinstance(stream, Pull)]
        self._told_last = min(self._told_last, max([last, *pulls]))
        self._out.append(http2.frame(http2.GOAWAY, 0, 0, self._told_last.to_bytes(4, "big") + raw[13:]))

    @property
    def window(self) -> int:
        return self._answers.window

    def flush(self) -> None:
        self._flush()


def _pong(flags: int, raw: bytes, out: list[bytes]) -> None:
    if len(raw) != http2.FRAME_HEADER + 8:
        raise Http2Error(http2.FRAME_SIZE_ERROR, "a PING frame of a wrong length")
    if not flags & http2.ACK:
        out.append(http2.frame(http2.PING, http2.ACK, 0, raw[9:]))


def _let_read(transport: asyncio.Transport, wanted: bool) -> None:
    if transport.is_closing():
        return
    if wanted:
        transport.resume_reading()
    else:
        transport.pause_reading()
