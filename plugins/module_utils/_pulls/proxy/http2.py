# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Frames of HTTP/2 (RFC 9113) as bytes, and their gRPC content (github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md). Pure."""

from __future__ import annotations

import base64
import binascii
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Optional, Union
from urllib.parse import quote

from .hpack import Header, encode

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_HEADER = 9  # bytes
ALL_STREAMS = 2**31 - 1  # the largest stream number, and window
INITIAL_WINDOW = 65535  # bytes, for a stream and for the connection
LEAST_FRAME_BYTES = 16384  # the minimum of SETTINGS_MAX_FRAME_SIZE, which all peers accept
# The longest answer that a kubelet accepts: k8s.io/cri-client, maxMsgSize.
ANSWER_BYTES = 16 * 1024 * 1024
# The longest request for a pull: gRPC's default. All annotations of a pod (256 KiB) and a Secret (1 MiB) are far smaller.
MESSAGE_BYTES = 4 * 1024 * 1024

DATA, HEADERS, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 5, 6, 7, 8, 9
ACK = END_STREAM = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITY = 0x20

# Keys of SETTINGS.
HEADER_TABLE_SIZE, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = 1, 3, 4, 5, 6

NO_ERROR, PROTOCOL_ERROR, FLOW_CONTROL_ERROR, STREAM_CLOSED, FRAME_SIZE_ERROR, REFUSED_STREAM = 0, 1, 3, 5, 6, 7
CANCEL, COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 8, 9, 11

# gRPC status codes: doc/statuscodes.md.
OK, CANCELLED, UNKNOWN, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE = (
    0,
    1,
    2,
    4,
    8,
    12,
    13,
    14,
)

_HEAD = struct.Struct(">HBBBI")  # of a frame; the length has three bytes
_TIMEOUT = re.compile(r"([0-9]{1,8})([HMSmun])", re.ASCII)
_UNIT_SECONDS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
# Characters that a status message has unescaped: printable ASCII without the percent sign.
_PLAIN = "".join(chr(sign) for sign in range(0x20, 0x7F) if chr(sign) != "%")
_GRPC = b"application/grpc"
# Headers that only concern one hop, or that gRPC itself writes.
_NOT_METADATA = {b"te", b"content-type", b"user-agent", b"host"}

Metadata = tuple[tuple[str, Union[str, bytes]], ...]  # bytes where the key ends with -bin


class Http2Error(Exception):
    """The peer broke a rule of HTTP/2; the connection is closed with `code`."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class MessageError(Exception):
    """A request's body is not a readable message. `code` is gRPC's."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


@dataclass(frozen=True)
class Answer:
    """The answer to a unary RPC. `message` is empty unless `code` is OK."""

    message: bytes = b""
    code: int = OK
    text: str = ""
    initial: Metadata = ()
    trailing: Metadata = ()


class Failed(Exception):
    """An RPC was answered with an error."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.text)
        self.answer = answer
        self.shown = answer.text  # what may be logged


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A whole frame: its header, then `payload`. `stream` is 0 for the connection."""
    return _HEAD.pack(len(payload) >> 8, len(payload) & 0xFF, kind, flags, stream) + payload


def read_head(data: bytes, at: int) -> tuple[int, int, int, int]:
    """Length, type, flags and stream of the frame at `at`, whose header must be complete."""
    high, low, kind, flags, stream = _HEAD.unpack_from(data, at)
    return high << 8 | low, kind, flags, stream & ALL_STREAMS


def header_frames(stream: int, block: bytes, *, end_stream: bool) -> bytes:
    """HEADERS, and CONTINUATION for a block that exceeds a frame."""
    parts = [block[at : at + LEAST_FRAME_BYTES] for at in range(0, len(block), LEAST_FRAME_BYTES)] or [b""]
    frames = []
    for number, part in enumerate(parts):
        flags = END_HEADERS if number == len(parts) - 1 else 0
        if number == 0 and end_stream:
            flags |= END_STREAM
        frames.append(frame(CONTINUATION if number else HEADERS, flags, stream, part))
    return b"".join(frames)


def window_update(stream: int, amount: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", amount))


def rst_stream(stream: int, code: int) -> bytes:
    return frame(RST_STREAM, 0, stream, struct.pack(">I", code))


def goaway(last: int, code: int, text: str = "") -> bytes:
    """`last` is the last stream that is still answered, `code` an error code of HTTP/2."""
    return frame(GOAWAY, 0, 0, struct.pack(">II", last, code) + text.encode())


def settings(values: Mapping[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", key, value) for key, value in values.items()))


def parse_settings_frame(payload: bytes) -> dict[int, int]:
    """The settings by identifier. Http2Error for a length or a value that HTTP/2 does not allow."""
    if len(payload) % 6:
        raise Http2Error(FRAME_SIZE_ERROR, "a SETTINGS frame of odd length")
    values = dict(struct.iter_unpack(">HI", payload))
    if values.get(INITIAL_WINDOW_SIZE, 0) > 0x7FFFFFFF:
        raise Http2Error(FLOW_CONTROL_ERROR, "a window of more than 2^31-1 bytes")
    if not LEAST_FRAME_BYTES <= values.get(MAX_FRAME_SIZE, LEAST_FRAME_BYTES) < 1 << 24:
        raise Http2Error(PROTOCOL_ERROR, "a frame size that is not allowed")
    return values


def parse_number(payload: bytes) -> int:
    """The payload of WINDOW_UPDATE or RST_STREAM, a 32-bit number."""
    if len(payload) != 4:
        raise Http2Error(FRAME_SIZE_ERROR, "a frame of a wrong length")
    return int.from_bytes(payload, "big")


def strip_padding(flags: int, payload: bytes) -> bytes:
    """The payload of a DATA or HEADERS frame without its padding."""
    start, end = 0, len(payload)
    if flags & PADDED:
        if not payload or payload[0] >= len(payload):
            raise Http2Error(PROTOCOL_ERROR, "a frame that is all padding")
        start, end = 1, end - payload[0]
    return payload[start:end]


def fragment(flags: int, payload: bytes) -> bytes:
    """The part of the header block in a HEADERS frame. Ignores the deprecated priority (RFC 9113, 5.3.2)."""
    payload = strip_padding(flags, payload)
    if not flags & PRIORITY:
        return payload
    if len(payload) < 5:
        raise Http2Error(FRAME_SIZE_ERROR, "a HEADERS frame without the priority that it announces")
    return payload[5:]


def value_of(headers: Iterable[Header], name: bytes) -> Optional[bytes]:
    """The first value of the header; None without one. Names are in lower case in HTTP/2."""
    return next((header.value for header in headers if header.name == name), None)


def parse_timeout(headers: Iterable[Header]) -> Optional[float]:
    """The deadline in seconds; None if the caller set none. MessageError if it cannot be read."""
    value = value_of(headers, b"grpc-timeout")
    if value is None:
        return None
    match = _TIMEOUT.fullmatch(value.decode("latin-1"))
    if match is None:
        raise MessageError(INTERNAL, "the proxy cannot read the deadline of this request (grpc-timeout)")
    return int(match[1]) * _UNIT_SECONDS[match[2]]


def parse_metadata(headers: Iterable[Header]) -> Metadata:
    """The caller's metadata, without the keys that gRPC reserves."""
    return tuple(
        pair
        for name, value, _never in headers
        if not name.startswith((b":", b"grpc-")) and name not in _NOT_METADATA
        for pair in _pairs(name.decode("latin-1"), value)
    )


def _pairs(key: str, value: bytes) -> Iterator[tuple[str, Union[str, bytes]]]:
    if not key.endswith("-bin"):
        yield key, value.decode("latin-1")
    elif value.startswith(b"\0"):  # the form of gRPC's C core, if the peer announced support
        yield key, value[1:]
    else:
        for part in value.split(b","):
            try:
                yield key, base64.b64decode(part.strip() + b"=" * (-len(part.strip()) % 4), validate=True)
            except binascii.Error:
                raise MessageError(INTERNAL, f"the proxy cannot read the metadata {key} of this request") from None


def parse_message(headers: Iterable[Header], body: bytes) -> bytes:
    """The message of a unary request."""
    if not (value_of(headers, b"content-type") or b"").startswith(_GRPC):
        raise MessageError(UNIMPLEMENTED, "this request is not gRPC: its content-type is not application/grpc")
    if len(body) < 5 or len(body) != 5 + int.from_bytes(body[1:5], "big") or body[0] > 1:
        raise MessageError(INTERNAL, "the body of this request is not one gRPC message")
    if not body[0]:
        return body[5:]
    encoding = value_of(headers, b"grpc-encoding") or b"identity"
    if encoding not in (b"gzip", b"deflate"):
        shown = encoding.decode("latin-1")
        raise MessageError(
            UNIMPLEMENTED, f"the proxy cannot read messages compressed by {shown}; it reads gzip and deflate"
        )
    return _decompress(body[5:], zlib.MAX_WBITS | 16 if encoding == b"gzip" else zlib.MAX_WBITS)


def _decompress(data: bytes, window_bits: int) -> bytes:
    reader = zlib.decompressobj(window_bits)
    try:
        message = reader.decompress(data, MESSAGE_BYTES + 1)
    except zlib.error:
        raise MessageError(INTERNAL, "the message of this request cannot be decompressed") from None
    if len(message) > MESSAGE_BYTES:
        raise MessageError(RESOURCE_EXHAUSTED, f"the message of this request has more than {MESSAGE_BYTES} bytes")
    if not reader.eof:
        raise MessageError(INTERNAL, "the message of this request ends too early")
    return message


def answer_headers() -> bytes:
    """The start of each answer, as a part of a header block."""
    return encode([Header(b":status", b"200"), Header(b"content-type", _GRPC)])


def status_block(answer: Answer) -> bytes:
    """The end of an answer, as a part of a header block."""
    text = quote(answer.text.encode(errors="replace"), safe=_PLAIN)
    status = [Header(b"grpc-status", b"%d" % answer.code), Header(b"grpc-message", text.encode())]
    return encode(status if answer.text else status[:1]) + metadata_block(answer.trailing)


def metadata_block(metadata: Metadata) -> bytes:
    """The metadata as a header block. Values that are bytes are written in base64, as gRPC requires."""
    return encode(Header(key.encode("latin-1"), _metadata_value(value)) for key, value in metadata)


def _metadata_value(value: Union[str, bytes]) -> bytes:
    return value.encode("latin-1") if isinstance(value, str) else base64.b64encode(value).rstrip(b"=")


def data_payload(message: bytes) -> bytes:
    """A message as the payload of DATA frames: not compressed, after its length."""
    return b"\0" + len(message).to_bytes(4, "big") + message
