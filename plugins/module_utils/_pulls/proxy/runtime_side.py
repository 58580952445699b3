# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The runtime's end of a relayed connection."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Optional, Protocol, cast

from . import http2, limits
from .http2 import Http2Error


class KubeletSide(Protocol):
    """What the runtime's end needs from the kubelet's end."""

    @property
    def window(self) -> int:
        """Bytes of data that the kubelet accepts now."""

    def take_runtime_frame(self, runtime: RuntimeSide, kind: int, flags: int, number: int, raw: bytes) -> None:
        """Handle a frame of the runtime. `raw` has its header too; CONTINUATION frames are a part of their HEADERS."""

    def runtime_lost(self, runtime: RuntimeSide, error: Exception) -> None:
        """Called when the runtime's connection broke, or sent something other than HTTP/2."""

    def regulate(self) -> None:
        """Pause reading while nothing can be forwarded, else resume it."""

    def resume(self) -> None:
        """Continue to read what was left unread while the runtime's connection was full."""

    def flush(self) -> None:
        """Write what was taken to the kubelet."""


class RuntimeSide(asyncio.Protocol):
    """The connection to the runtime. Passes its frames to the relay."""

    def __init__(self, relay: KubeletSide) -> None:
        self._relay = relay
        self._unread = b""
        self._greeted = False
        self.out: list[bytes] = []
        # For each SETTINGS frame sent to the runtime: whether it was the kubelet's.
        self.unacknowledged: deque[bool] = deque([False])
        # The frames of an incomplete header block: no other frame may come between them.
        self._block: Optional[limits.Block] = None
        self.held = False  # a frame waits for the kubelet's window
        self.full = False  # the runtime reads more slowly than we write
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
        self._relay.resume()

    def flush(self) -> None:
        if self.out:
            self.transport.write(b"".join(self.out))
            self.out.clear()

    def data_received(self, data: bytes) -> None:
        self._unread += data
        self.read()
        self._relay.flush()

    def read(self) -> None:
        """Handle all complete frames, up to a DATA frame that exceeds the kubelet's window."""
        data, at = self._unread, 0
        self.held, was_held = False, self.held
        try:
            while len(data) - at >= http2.FRAME_HEADER:
                length, kind, flags, number = http2.read_head(data, at)
                if not self._greeted and kind != http2.SETTINGS:
                    raise Http2Error(http2.PROTOCOL_ERROR, "its bytes are not HTTP/2, which gRPC uses")
                if length > http2.LEAST_FRAME_BYTES:
                    raise Http2Error(http2.FRAME_SIZE_ERROR, f"it sends a frame of {length} bytes")
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
        block = self._block
        if block is None and kind == http2.HEADERS and not flags & http2.END_HEADERS:
            block = self._block = limits.runtime_block(number)
        elif block is not None and kind != http2.CONTINUATION:
            raise Http2Error(http2.PROTOCOL_ERROR, "its headers are interrupted")
        if block is None:
            self._relay.take_runtime_frame(self, kind, flags, number, raw)
            return
        block.add(raw)
        if flags & http2.END_HEADERS:
            self._block = None
            whole = b"".join(block.parts)
            _length, kind, flags, number = http2.read_head(whole, 0)  # of HEADERS, with which the block began
            self._relay.take_runtime_frame(self, kind, flags, number, whole)
