# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a peer may use of the proxy: memory, time, descriptors. Pure, except for the limit of open files.

The limits are what the CRI needs, with a margin. A request's headers have less than 1 KiB: large data (an image's annotations, a
pod's sandbox, credentials) is in the message. A kubelet has a few hundred pods, and at most one pull in flight for each. A client
that follows HTTP/2 and gRPC reaches none of these limits.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from . import http2
from .hpack import LIST_BYTES
from .http2 import Http2Error

STREAMS = 2048  # open at once on one connection: SETTINGS_MAX_CONCURRENT_STREAMS
CONNECTIONS = 1024  # open at once on one listener, if the limit of open files allows it
READ_BYTES = 64 * 1024  # read in one turn, before other connections have theirs
FRAMES_BETWEEN_FLUSHES = 16  # so that reading pauses before the pending output grows large
SETTINGS_IN_FRAME = 32
SETTINGS_KEPT = 64
SETTINGS_UNACKNOWLEDGED = 32

PREFACE_SECONDS = 10.0  # for the preface of a connection
PARTIAL_SECONDS = 30.0  # for the rest of a frame or a header block
MESSAGE_SECONDS = 60.0  # for the message of a pull
IDLE_SECONDS = 1800.0  # without a stream; the idle timeout of gRPC clients
LOOK_SECONDS = 10.0  # between two checks of these limits

HELD_BYTES = 32 * 1024 * 1024  # for all unanswered pulls of one listener
PULL_COST_BYTES = 4096  # for a pull besides its headers and message: tasks, and its place in the queue
FIELD_COST_BYTES = 256  # for each field of its message, as a Python object
NO_ALLOWANCE = f"the queued pulls of this kubelet hold {HELD_BYTES} bytes, which is their limit"

_BLOCK_BYTES = 16 * 1024  # a kubelet's encoded header block
_RUNTIME_BLOCK_BYTES = 256 * 1024  # the runtime's, which has errors in headers
_CONTINUATIONS = 8
# The rates of nghttp2 (lib/nghttp2_session.h, NGHTTP2_DEFAULT_STREAM_RESET_BURST and _RATE; NGHTTP2_DEFAULT_GLITCH_BURST and _RATE).
_RESETS, _RESETS_EACH_SECOND = 1000.0, 33.0
_TRIFLES, _TRIFLES_EACH_SECOND = 10000.0, 330.0
# For each frame of data or headers sent to the client, which may answer with WINDOW_UPDATEs and a PING.
_TRIFLES_FOR_FRAME = 4.0

# Open files besides those of connections: listening sockets, channels to the runtimes, and those of the metrics.
_RESERVED_FILES = 128
_FILES_OF_CONNECTION = 2  # one to the kubelet, one to the runtime
CONNECTIONS_LEAST = 16


def advertised_settings() -> dict[int, int]:
    """The limits that the first SETTINGS frame announces."""
    return {http2.MAX_CONCURRENT_STREAMS: STREAMS, http2.MAX_HEADER_LIST_SIZE: LIST_BYTES}


def limit_settings(values: dict[int, int]) -> dict[int, int]:
    """A runtime's settings, limited to what the proxy accepts from the kubelet. The frame size stays HTTP/2's minimum, and the
    kubelet's header blocks are decoded here, not by the runtime."""
    dropped = (http2.HEADER_TABLE_SIZE, http2.MAX_FRAME_SIZE)
    ours = advertised_settings()
    return {key: min(value, ours.get(key, value)) for key, value in values.items() if key not in dropped}


class Bucket:
    """A token bucket: `most` at once, refilled by `each_second`."""

    def __init__(self, most: float, each_second: float) -> None:
        self._most = self._left = most
        self._each_second = each_second
        self._seen = 0.0

    def take(self, now: float) -> bool:
        """Take a token; whether there was one."""
        self._left = min(self._most, self._left + (now - self._seen) * self._each_second) - 1
        self._seen = now
        return self._left >= 0

    def give(self, amount: float) -> None:
        """Put tokens back; the bucket holds at most `most`."""
        self._left = min(self._most, self._left + amount)


class Manners:
    """Limits the rate of a client's frames that cost its peer more than the client, or carry nothing."""

    def __init__(self) -> None:
        self._resets = Bucket(_RESETS, _RESETS_EACH_SECOND)
        self._trifles = Bucket(_TRIFLES, _TRIFLES_EACH_SECOND)

    def count_reset(self, now: float) -> None:
        """A stream was opened and reset."""
        if not self._resets.take(now):
            raise Http2Error(http2.ENHANCE_YOUR_CALM, "streams are opened and reset too fast")

    def count_trifle(self, now: float) -> None:
        """Count a PING, SETTINGS, WINDOW_UPDATE, empty DATA, or a frame of a closed stream or unknown type."""
        if not self._trifles.take(now):
            raise Http2Error(http2.ENHANCE_YOUR_CALM, "too many empty frames")

    def allow_more(self) -> None:
        """A frame was sent to the client, which may answer with some such frames."""
        self._trifles.give(_TRIFLES_FOR_FRAME)


@dataclass
class Block:
    """An incomplete header block: HEADERS, and CONTINUATION frames so far."""

    number: int
    is_last: bool
    most: int = _BLOCK_BYTES
    parts: list[bytes] = field(default_factory=list)
    size: int = 0

    def add(self, part: bytes) -> None:
        """Append a part. Http2Error when the block becomes too large, or has too many parts."""
        self.parts.append(part)
        self.size += len(part)
        if self.size > self.most:
            raise Http2Error(http2.ENHANCE_YOUR_CALM, f"a header block of more than {self.most} bytes")
        if len(self.parts) > 1 + max(_CONTINUATIONS, self.most // http2.LEAST_FRAME_BYTES):
            raise Http2Error(http2.ENHANCE_YOUR_CALM, f"a header block of more than {len(self.parts) - 1} frames")


def runtime_block(number: int) -> Block:
    """A block of the runtime's, on stream `number`."""
    return Block(number, is_last=False, most=_RUNTIME_BLOCK_BYTES)


class Allowance:
    """The bytes that the pulls of one listener may hold."""

    def __init__(self) -> None:
        self.left = HELD_BYTES

    def take(self, amount: int) -> bool:
        """Whether so many bytes were left. If not, none are taken."""
        if amount > self.left:
            return False
        self.left -= amount
        return True

    def give_back(self, amount: int) -> None:
        self.left += amount


def files_needed(listeners: int, connections: int = CONNECTIONS_LEAST) -> int:
    """Open files that the proxy needs for so many connections of each listener."""
    return _RESERVED_FILES + listeners * connections * _FILES_OF_CONNECTION


def connections_of(files: int, listeners: int) -> int:
    """Connections that each listener may have open without using descriptors that are reserved or belong to other listeners."""
    return min(CONNECTIONS, (files - _RESERVED_FILES) // (_FILES_OF_CONNECTION * listeners))
