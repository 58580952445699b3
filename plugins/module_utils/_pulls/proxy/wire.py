# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fields of CRI messages that the proxy reads, parsed from protobuf (protobuf.dev/programming-guides/encoding). Pure.

Field numbers are those of k8s.io/cri-api pkg/apis/runtime/v1/api.proto. Unknown fields are ignored, so
messages of later releases can be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Union

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}
_AUTH_FIELDS = {
    1: "username",
    2: "password",
    3: "auth",
    4: "server_address",
    5: "identity_token",
    6: "registry_token",
}


# Fields of a request and all its parts. A field has at least two bytes, but needs much more memory.
_FIELDS_MOST = 20000


class WireError(Exception):
    """The bytes are not a protobuf message, or a field has an unexpected type."""


@dataclass(frozen=True)
class PullImageRequest:
    """Omitted texts are "". Texts that are not UTF-8 contain `surrogateescape` bytes."""

    image: str
    handler: str
    annotations: Mapping[str, str]
    credentials: Mapping[str, str]  # the non-empty fields of AuthConfig, by name
    namespace: str
    pod: str
    pod_annotations: Mapping[str, str]
    spec: bytes  # the whole ImageSpec
    fields: int = field(default=0, compare=False)  # the number of fields in the message


def parse_pull_image_request(data: bytes) -> PullImageRequest:
    """Parse a `runtime.v1.PullImageRequest`. WireError if it cannot be read."""
    count = _Count()
    request = _Message(data, count)
    spec, auth, sandbox = request.below(1), request.below(2), request.below(3)
    metadata = sandbox.below(1)
    credentials = {name: auth.text(number) for number, name in _AUTH_FIELDS.items()}
    return PullImageRequest(
        image=spec.text(1),
        handler=spec.text(19),
        annotations=spec.texts_by_key(2),
        credentials={name: value for name, value in credentials.items() if value},
        namespace=metadata.text(3),
        pod=metadata.text(1),
        pod_annotations=sandbox.texts_by_key(7),
        spec=spec.data,
        fields=count.fields,
    )


def image_status_request(spec: bytes) -> bytes:
    """`runtime.v1.ImageStatusRequest` for an ImageSpec."""
    return _bytes_field(1, spec)


@dataclass(frozen=True)
class Image:
    """What the proxy reads of `runtime.v1.Image`."""

    id: str  # "" if the runtime lacks the image
    size: int  # bytes; 0 if unknown


def parse_image_status_response(data: bytes) -> Image:
    """The image in a `runtime.v1.ImageStatusResponse`. WireError when it cannot be read."""
    image = _Message(data, _Count()).below(1)
    return Image(id=image.text(1), size=image.number(4))


def pull_image_response(image_ref: str) -> bytes:
    """`runtime.v1.PullImageResponse`."""
    return _bytes_field(1, image_ref.encode(errors="surrogateescape"))


class _Count:
    """Counts the fields of a request."""

    def __init__(self) -> None:
        self.fields = 0

    def add(self) -> None:
        self.fields += 1
        if self.fields > _FIELDS_MOST:
            raise WireError(f"it has more than {_FIELDS_MOST} fields")


class _Message:
    """A message's fields by number. Of a repeated scalar the last value counts; repeated messages are concatenated."""

    def __init__(self, data: bytes, count: _Count) -> None:
        self.data = data
        self._count = count
        self._fields: dict[int, list[Union[int, bytes]]] = {}
        for number, value in _fields(data):
            count.add()
            self._fields.setdefault(number, []).append(value)

    def text(self, number: int) -> str:
        return (self._values(number) or [b""])[-1].decode(errors="surrogateescape")

    def number(self, number: int) -> int:
        value = self._fields.get(number, [0])[-1]
        if not isinstance(value, int):
            raise WireError(f"field {number} is no number")
        return value

    def below(self, number: int) -> _Message:
        return _Message(b"".join(self._values(number)), self._count)

    def texts_by_key(self, number: int) -> dict[str, str]:
        """A map field: messages of key and value."""
        entries = [_Message(entry, self._count) for entry in self._values(number)]
        return {entry.text(1): entry.text(2) for entry in entries}

    def _values(self, number: int) -> list[bytes]:
        values = [value for value in self._fields.get(number, []) if isinstance(value, bytes)]
        if len(values) != len(self._fields.get(number, [])):
            raise WireError(f"field {number} has another type")
        return values


def _fields(data: bytes) -> Iterator[tuple[int, Union[int, bytes]]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if not number:
            raise WireError("a field has the number 0")
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in _FIXED_BYTES:
            size = _FIXED_BYTES[kind]
        else:  # groups, which proto3 lacks
            raise WireError(f"field {number} has the unknown type {kind}")
        if at + size > len(data):
            raise WireError(f"field {number} is cut short")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise WireError("it is cut short")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise WireError("a number is too long")


def _bytes_field(number: int, data: bytes) -> bytes:
    written = bytearray([number << 3 | _BYTES])
    size = len(data)
    while size >= 0x80:
        written.append(size & 0x7F | 0x80)
        size >>= 7
    written.append(size)
    return bytes(written) + data
