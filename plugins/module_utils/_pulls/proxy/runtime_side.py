# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The runtime's end of a Relay."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Optional, Protocol, cast

from . import http2
from .http2 import Http2Error


class KubeletSide(Protocol):
    """Of the relay, what its runtime's end needs."""

    @property
    def window(self) -> int:
        """Bytes of data that the kubelet takes now."""

    def runtime_frame(self, runtime: RuntimeSide, kind: int, flags: int, number: int, raw: bytes) -> None: ...

    def runtime_lost(self, runtime: RuntimeSide, error: Exception) -> None:
        """Its connection broke, or says what is not HTTP/2."""

    def regulate(self) -> None:
        """Read no more than can be passed on."""

    def flush(self) -> None: ...


class RuntimeSide(asyncio.Protocol):
    """The connection to the runtime. What it says goes to the relay, frame by frame."""

    def __init__(self, relay: KubeletSide) -> None:
        self._relay = relay
        self._unread = b""
        self._greeted = False
        self.out: list[bytes] = []
        self.unacknowledged: deque[bool] = deque([False])  # SETTINGS sent there: were they passed on from the kubelet?
        self._block = b""  # frames of a header block that is not complete: nothing may come between them
        self.held = False  # a frame waits for the kubelet's window
        self.full = False  # the runtime does not read as fast as it is written to
        self.lost: Optional[Exception] = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Optional[Exception]) -> None:
        self.lost = self.lost or exc or ConnectionResetError("it closed the connection")
        self._relay.runtime_lost(self, self.lost)

    def pause_writing(self) -> None:
        self.full = True
        self._relay.regulate()

    def resume_writing(self) -> None:
        self.full = False
        self._relay.regulate()

    def flush(self) -> None:
        if self.out:
            self.transport.write(b"".join(self.out))
            self.out.clear()

    def data_received(self, data: bytes) -> None:
        self._unread += data
        self.read()
        self._relay.flush()

    def read(self) -> None:
        """All whole frames, up to one of data that the kubelet has no room for."""
        data, at = self._unread, 0
        self.held, was_held = False, self.held
        try:
            while len(data) - at >= http2.FRAME_HEADER:
                length, kind, flags, number = http2.read_head(data, at)
                if not self._greeted and kind != http2.SETTINGS:
                    raise Http2Error(http2.PROTOCOL_ERROR, "what it says is not HTTP/2, which gRPC speaks")
                self._greeted = True
                end = at + http2.FRAME_HEADER + length
                if len(data) < end:
                    break
                if kind == http2.DATA and length > self._relay.window:
                    self.held = True
                    break
                raw = data[at:end]
                at = end
                self._take(kind, flags, number, raw)
        except Http2Error as error:
            self.lost = error
            self.transport.close()
            self._relay.runtime_lost(self, error)
        self._unread = data[at:]
        if self.held or was_held:
            self._relay.regulate()

    def _take(self, kind: int, flags: int, number: int, raw: bytes) -> None:
        if self._block:
            if kind != http2.CONTINUATION or len(self._block) > http2.BLOCK_BYTES:
                raise Http2Error(http2.PROTOCOL_ERROR, "its headers are interrupted, or do not end")
            is_complete = flags & http2.END_HEADERS
            raw, self._block = self._block + raw, b""
            _length, kind, flags, number = http2.read_head(raw, 0)  # of HEADERS, with which it began
        else:
            is_complete = kind != http2.HEADERS or flags & http2.END_HEADERS
        if is_complete:
            self._relay.runtime_frame(self, kind, flags, number, raw)
        else:
            self._block = raw
