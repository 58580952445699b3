# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A kubelet's connection: the proxy answers its PullImage calls, and forwards all other streams to the runtime unchanged.

    kubelet <-- HTTP/2 --> Relay <-- HTTP/2 --> runtime    one runtime connection per kubelet connection, made for its first stream

It forwards frames, not calls: streams keep their numbers, so gRPC's content arrives unchanged, at little cost. The frames of a
connection share state, which the proxy handles as follows:

- Header blocks of the kubelet are decoded, and encoded again without HPACK's table, so that those of pulls can be left out. The
  runtime's blocks are forwarded unread; the proxy's own are encoded without the table and leave it unchanged.
- Windows of streams, and settings, are between the two ends. For the connection's window, the proxy at once returns what the
  request of a pull used. The runtime does not know what the answer to a pull used: that amount (`Answers.debt`) is withheld from
  the next WINDOW_UPDATE, and a frame that is too large until then is held back.
- The proxy answers each PING itself.

`limits` has what a client may use: streams, waiting bytes, frames without content, time.

If the runtime goes away, its streams end with UNAVAILABLE, and GOAWAY asks the kubelet to connect again. Pulls use a separate
connection to the runtime, and are answered first.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Optional

from . import http2, limits
from .answers import Answers, Pull
from .backend import Backend
from .connection import Connection
from .hpack import Header, encode
from .http2 import Answer, Http2Error
from .runtime_side import RuntimeSide

_LEAVE_SECONDS = 2.0  # for the kubelet to close its end after GOAWAY


@dataclass(eq=False)
class _Stream:
    """A stream that is forwarded."""

    half_closed: bool = False  # the kubelet has ended its request
    begun: bool = False  # the runtime has sent headers


class Relay(Connection):
    """The kubelet's end of a relayed connection."""

    def __init__(self, backend: Backend, live: set[Connection]) -> None:
        super().__init__(backend, live)
        self._streams: dict[int, _Stream | Pull] = {}
        self._answers = Answers(self._out)
        self._takes = http2.INITIAL_WINDOW  # bytes of data that the kubelet may still send on this connection
        self._settings: dict[int, int] = {}  # the kubelet's
        self._runtime: Optional[RuntimeSide] = None
        self._connecting: Optional[asyncio.Task[None]] = None
        self._closing: Optional[asyncio.TimerHandle] = None

    def _lost(self) -> None:
        for number in list(self._streams):
            self._end_stream(number)
        if self._connecting is not None:
            self._connecting.cancel()
        if self._closing is not None:
            self._closing.cancel()
        if self._runtime is not None:
            self._runtime.transport.close()
            self._runtime = None

    def regulate(self) -> None:
        """Pause reading from either end while nothing can be forwarded, else resume it."""
        _let_read(self._transport, not self._stops)
        if self._runtime is not None:
            _let_read(self._runtime.transport, not self._full and not self._runtime.held)

    @property
    def _stops(self) -> bool:
        return self._full or self._connecting is not None or (self._runtime is not None and self._runtime.full)

    @property
    def is_busy(self) -> bool:
        """Whether a pull is not completely answered."""
        waits = any(isinstance(stream, Pull) and stream.answer is None for stream in self._streams.values())
        return waits or bool(self._answers)

    @property
    def _is_idle(self) -> bool:
        return not self._streams

    def _settle(self) -> None:
        if self._runtime is not None and self._runtime.held:
            self._runtime.read()  # the kubelet's window may have grown
        self._deliver()

    def _give_up_late(self, now: float) -> None:
        waiting = [(number, stream) for number, stream in self._streams.items() if isinstance(stream, Pull)]
        for number, pull in waiting:
            if not pull.half_closed and pull.answer is None and now - pull.opened > limits.MESSAGE_SECONDS:
                text = f"the message of this request did not come within {limits.MESSAGE_SECONDS:.0f} seconds"
                self._give(number, pull, Answer(code=http2.DEADLINE_EXCEEDED, text=text))
        self._deliver()

    def _flush(self) -> None:
        if self._runtime is not None:
            self._runtime.flush()
        if self._out:
            self._transport.write(b"".join(self._out))
            self._out.clear()

    # Frames of the kubelet.

    def _take(self, kind: int, flags: int, number: int, raw: bytes) -> None:
        if kind == http2.DATA:
            self._data(flags, number, raw)
            return
        if kind == http2.RST_STREAM:
            self._reset(number, raw)
            return
        self._manners.count_trifle(self._active)
        if kind == http2.WINDOW_UPDATE:
            self._credit(number, raw)
        elif kind == http2.SETTINGS:
            self._take_settings(flags, raw)
        elif kind == http2.PING:
            _pong(flags, raw, self._out)
        elif kind == http2.PUSH_PROMISE:
            raise Http2Error(http2.PROTOCOL_ERROR, "a client sends PUSH_PROMISE")
        # GOAWAY needs no action: the client closes its end when its streams are done. Unknown frames are ignored: RFC 9113, 5.5.

    def _take_headers(self, number: int, headers: list[Header], is_last: bool) -> None:
        stream = self._streams.get(number)
        if stream is not None:
            # Headers after a request's message are its trailers, which end it: RFC 9113, 8.1.
            if stream.half_closed or not is_last:
                raise Http2Error(http2.STREAM_CLOSED, "a request has headers twice")
            if isinstance(stream, Pull):
                self._begin_pull(number, stream)
            else:
                self._pass_headers(number, stream, headers, is_last)
        elif number <= self._last or self._leaving:
            self._manners.count_trifle(self._active)  # for a closed stream, or after our GOAWAY
        elif not number % 2:
            raise Http2Error(http2.PROTOCOL_ERROR, "a client opens a stream of an even number")
        else:
            self._open(number, headers, is_last)

    def _open(self, number: int, headers: list[Header], is_last: bool) -> None:
        self._last = number
        paths = [header.value for header in headers if header.name == b":path"]
        if len(self._streams) >= limits.STREAMS or len(paths) != 1:
            # With two paths, the runtime could see a pull where the proxy sees none.
            self._manners.count_trifle(self._active)
            code = http2.PROTOCOL_ERROR if len(paths) != 1 else http2.REFUSED_STREAM
            self._out.append(http2.rst_stream(number, code))
            return
        if self._backend.is_pull(paths[0]):
            pull = self._streams[number] = Pull(headers, opened=self._loop.time(), half_closed=is_last)
            cost = limits.PULL_COST_BYTES + sum(len(header.name) + len(header.value) for header in headers)
            if self._hold(number, pull, cost) and is_last:
                self._begin_pull(number, pull)
            return
        stream = self._streams[number] = _Stream()
        if self._runtime is not None:
            self._pass_headers(number, stream, headers, is_last)
            return
        self._connecting = self._loop.create_task(self._connect(number, stream, headers, is_last))
        self.regulate()

    def _pass_headers(self, number: int, stream: _Stream, headers: list[Header], is_last: bool) -> None:
        if self._runtime is not None:
            self._runtime.out.append(http2.header_frames(number, encode(headers), end_stream=is_last))
        if is_last:
            stream.half_closed = True

    def _data(self, flags: int, number: int, raw: bytes) -> None:
        stream = self._streams.get(number)
        is_last = bool(flags & http2.END_STREAM)
        size = len(raw) - http2.FRAME_HEADER
        self._takes -= size
        if self._takes < 0:
            raise Http2Error(http2.FLOW_CONTROL_ERROR, "more data than the window of this connection allows")
        if stream is None or stream.half_closed or (not is_last and not http2.strip_padding(flags, raw[9:])):
            self._manners.count_trifle(self._active)
        if isinstance(stream, _Stream):
            if stream.half_closed:
                raise Http2Error(http2.STREAM_CLOSED, "data for a request that has ended")
            stream.half_closed = is_last
            if self._runtime is not None:
                self._runtime.out.append(raw)
            return
        if size:
            self._let_send(0, size)
        if stream is None or stream.half_closed:
            return
        stream.half_closed = is_last
        if stream.answer is not None:  # it was refused
            return
        if size and not is_last:
            self._let_send(number, size)
        part = http2.strip_padding(flags, raw[9:])
        if not self._hold(number, stream, len(part)):
            return
        stream.body += part
        if len(stream.body) > http2.MESSAGE_BYTES + 5:
            text = f"the message of this request has more than {http2.MESSAGE_BYTES} bytes"
            self._give(number, stream, Answer(code=http2.RESOURCE_EXHAUSTED, text=text))
        elif is_last:
            self._begin_pull(number, stream)

    def _let_send(self, number: int, amount: int) -> None:
        self._out.append(http2.window_update(number, amount))
        if number == 0:
            self._takes += amount

    def _hold(self, number: int, pull: Pull, amount: int) -> bool:
        """Whether the listener's pulls may hold `amount` more bytes; if not, this pull is refused."""
        if self._backend.allowance.take(amount):
            pull.held += amount
            return True
        self._give(number, pull, Answer(code=http2.RESOURCE_EXHAUSTED, text=limits.NO_ALLOWANCE))
        return False

    def _credit(self, number: int, raw: bytes) -> None:
        amount = http2.parse_number(raw[9:]) & http2.ALL_STREAMS
        stream = self._streams.get(number)
        if number == 0:
            credit = self._answers.credit(amount)
            if self._runtime is not None and credit:
                self._runtime.out.append(http2.window_update(0, credit))
        elif isinstance(stream, Pull):
            self._answers.credit_stream(stream, amount)
        elif stream is not None and self._runtime is not None:
            self._runtime.out.append(raw)

    def _reset(self, number: int, raw: bytes) -> None:
        http2.parse_number(raw[9:])
        stream = self._streams.get(number)
        if stream is None:  # the stream has already ended
            self._manners.count_trifle(self._active)
        else:
            self._manners.count_reset(self._active)
        if isinstance(stream, _Stream) and self._runtime is not None:
            self._runtime.out.append(raw)
        self._end_stream(number)
        self._close_if_done()

    def _end_stream(self, number: int) -> None:
        """Forget the stream, and return its bytes to the allowance."""
        stream = self._streams.pop(number, None)
        self._answers.drop(number)
        if isinstance(stream, Pull):
            self._backend.allowance.give_back(stream.held)
            stream.held = 0
            if stream.task is not None and stream.answer is None:
                stream.task.cancel()

    def _take_settings(self, flags: int, raw: bytes) -> None:
        if flags & http2.ACK:
            if self._relayed and self._relayed.popleft() and self._runtime is not None:
                self._runtime.out.append(raw)
            return
        values = http2.parse_settings_frame(raw[9:])
        # The runtime's frames are forwarded unchanged, so they must not exceed the size that the proxy accepts.
        values.pop(http2.MAX_FRAME_SIZE, None)
        self._settings.update(values)
        if len(values) > limits.SETTINGS_IN_FRAME or len(self._settings) > limits.SETTINGS_KEPT:
            raise Http2Error(http2.ENHANCE_YOUR_CALM, "too many settings")
        self._began = True
        self._answers.initial_window = self._settings.get(http2.INITIAL_WINDOW_SIZE, http2.INITIAL_WINDOW)
        if self._runtime is None:
            self._out.append(http2.frame(http2.SETTINGS, http2.ACK, 0))
            return
        self._runtime.out.append(http2.settings(values))
        self._runtime.unacknowledged.append(True)
        if len(self._runtime.unacknowledged) > limits.SETTINGS_UNACKNOWLEDGED:
            raise Http2Error(http2.ENHANCE_YOUR_CALM, "settings arrive faster than they are acknowledged")

    # Pulls.

    def _begin_pull(self, number: int, pull: Pull) -> None:
        pull.half_closed = True
        if pull.answer is None:
            pull.task = self._loop.create_task(self._serve(number, pull))

    async def _serve(self, number: int, pull: Pull) -> None:
        headers, body = pull.headers, bytes(pull.body)
        pull.headers, pull.body = [], bytearray()  # frees memory, as a thousand may wait
        answered = self._backend.answer(headers, body)
        del headers, body
        answer = await answered
        self._give(number, pull, answer)
        self._deliver()
        self._flush()

    def _give(self, number: int, pull: Pull, answer: Answer) -> None:
        pull.headers, pull.body = [], bytearray()
        self._answers.add(number, pull, answer)

    def _deliver(self) -> None:
        """Send answers to pulls as far as the windows allow."""
        if not self._answers:
            return
        for number, pull in self._answers.deliver():
            self._manners.allow_more()
            if not pull.half_closed:  # tells the kubelet to stop sending; frames under way belong to a closed stream
                self._out.append(http2.rst_stream(number, http2.NO_ERROR))
            self._end_stream(number)
        self._close_if_done()

    def _close_if_done(self) -> None:
        """After GOAWAY the kubelet closes its end when it has read all answers. Closing ours earlier could lose some of them."""
        if self._leaving and self._runtime is None and not self.is_busy and self._closing is None:
            self._closing = self._loop.call_later(_LEAVE_SECONDS, self._transport.close)

    # The runtime's connection.

    async def _connect(self, number: int, stream: _Stream, headers: list[Header], is_last: bool) -> None:
        """Connect to the runtime, for the first stream that needs it."""
        try:
            _transport, runtime = await self._loop.create_unix_connection(
                lambda: RuntimeSide(self), self._backend.runtime
            )
            if runtime.lost is not None:
                raise runtime.lost
        except (OSError, Http2Error) as error:
            stream.half_closed = stream.half_closed or is_last
            self._refuse(number, stream, self._backend.note_runtime_failure(error))
        else:
            self._backend.note_runtime_up()
            self._runtime = runtime
            runtime.out += [http2.PREFACE, http2.settings(self._settings)]
            surplus = self._answers.surplus()
            if surplus:
                runtime.out.append(http2.window_update(0, surplus))
            self._pass_headers(number, stream, headers, is_last)
        self._connecting = None
        self.resume()

    def _refuse(self, number: int, stream: _Stream, answer: Answer) -> None:
        """End a stream that the runtime cannot answer, or cannot finish."""
        block = http2.status_block(answer)
        block = block if stream.begun else http2.answer_headers() + block
        self._out.append(http2.header_frames(number, block, end_stream=True))
        if not stream.half_closed:
            self._out.append(http2.rst_stream(number, http2.NO_ERROR))
        self._streams.pop(number)

    def runtime_lost(self, runtime: RuntimeSide, error: Exception) -> None:
        """Called when the runtime's connection broke, or sent something other than HTTP/2."""
        if self._runtime is not runtime:  # our end was closed first
            return
        self._runtime = None
        answer = self._backend.note_runtime_failure(error)
        self._out += [http2.frame(http2.SETTINGS, http2.ACK, 0) for relayed in runtime.unacknowledged if relayed]
        for number, stream in list(self._streams.items()):
            if isinstance(stream, _Stream):
                self._refuse(number, stream, answer)
        self._send_goaway(http2.NO_ERROR, "the runtime closed its connection")
        self._deliver()
        self._flush()
        self._close_if_done()

    # Frames of the runtime.

    def take_runtime_frame(self, runtime: RuntimeSide, kind: int, flags: int, number: int, raw: bytes) -> None:
        if kind == http2.DATA:
            self._answers.window -= len(raw) - http2.FRAME_HEADER
        elif kind == http2.WINDOW_UPDATE and number == 0:
            self._takes += http2.parse_number(raw[9:]) & http2.ALL_STREAMS
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
            self._manners.allow_more()
            self._note_answer(kind, number, bool(flags & http2.END_STREAM))

    def _note_answer(self, kind: int, number: int, is_last: bool) -> None:
        stream = self._streams.get(number)
        if not isinstance(stream, _Stream):
            return
        if kind == http2.HEADERS:
            stream.begun = True
        # In gRPC the status ends the call, so nothing more is read from the caller.
        if is_last:
            self._streams.pop(number)

    def _take_runtime_settings(self, runtime: RuntimeSide, flags: int, raw: bytes) -> None:
        if flags & http2.ACK:
            if runtime.unacknowledged and runtime.unacknowledged.popleft():
                self._out.append(raw)
            return
        self._out.append(http2.settings(limits.limit_settings(http2.parse_settings_frame(raw[9:]))))
        self._relayed.append(True)
        if len(self._relayed) > limits.SETTINGS_UNACKNOWLEDGED:
            raise Http2Error(http2.ENHANCE_YOUR_CALM, "its settings arrive faster than they are acknowledged")

    def _pass_goaway(self, raw: bytes) -> None:
        """Forward the runtime's GOAWAY, with its last stream raised to the last pull, which is still answered."""
        if len(raw) < http2.FRAME_HEADER + 8:
            raise Http2Error(http2.FRAME_SIZE_ERROR, "a GOAWAY frame of a wrong length")
        last = int.from_bytes(raw[9:13], "big") & http2.ALL_STREAMS
        pulls = [number for number, stream in self._streams.items() if isinstance(stream, Pull)]
        self._goaway_last = min(self._goaway_last, max([last, *pulls]))
        self._out.append(http2.frame(http2.GOAWAY, 0, 0, self._goaway_last.to_bytes(4, "big") + raw[13:]))

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


def _let_read(transport: asyncio.Transport, may_read: bool) -> None:
    if transport.is_closing():
        return
    if may_read:
        transport.resume_reading()
    else:
        transport.pause_reading()
