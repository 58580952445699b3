# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A client of CRI's image service, as a kubelet is one. Messages are made by hand, by the numbers of api.proto (cri-api v1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Optional, Union

import grpc

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import NOTHING

_NO_FIELDS: Mapping[int, str] = MappingProxyType({})
IMAGE_SERVICE, RUNTIME_SERVICE = "/runtime.v1.ImageService/", "/runtime.v1.RuntimeService/"
OPTIONS = (
    ("grpc.default_authority", "localhost"),
    ("grpc.enable_retries", 0),
    ("grpc.max_receive_message_length", 16 * 2**20),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.use_local_subchannel_pool", 1),
)
_SECONDS = 60
Part = Union[int, str, bytes, Mapping[str, str]]


def message(parts: Mapping[int, Part]) -> bytes:
    """A protobuf message of these fields. A mapping is a map of strings; what is empty is left out, as proto3 does."""
    return b"".join(_field(number, part) for number, part in parts.items())


def fields(data: bytes) -> dict[int, list[Union[int, bytes]]]:
    """Values by the number of their field, in order."""
    found: dict[int, list[Union[int, bytes]]] = {}
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        number, kind = key >> 3, key & 7
        value: Union[int, bytes]
        if kind == 0:
            value, at = _read_varint(data, at)
        else:
            size, at = _read_varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            value, at = data[at : at + size], at + size
        found.setdefault(number, []).append(value)
    return found


def text(data: bytes, *path: int) -> str:
    """The last value of a field, down a path of numbers; empty where it is not there."""
    for number in path:
        found = fields(data).get(number, [b""])[-1]
        assert isinstance(found, bytes)
        data = found
    return data.decode()


def _messages(data: bytes, number: int) -> list[bytes]:
    """Values of a repeated field that holds messages or texts."""
    return [value for value in fields(data).get(number, []) if isinstance(value, bytes)]


def pull_request(
    image: str,
    *,
    auth: Mapping[int, str] = _NO_FIELDS,
    pod: str = "",
    pod_namespace: str = "default",
    pod_annotations: Mapping[str, str] = NOTHING,
    annotations: Mapping[str, str] = NOTHING,
) -> bytes:
    """PullImageRequest. `auth` by AuthConfig's numbers: 1 username, 2 password. Without a pod there is no sandbox config."""
    spec = message({1: image, 2: annotations})
    metadata = message({1: pod, 2: f"uid-of-{pod}", 3: pod_namespace})
    sandbox = message({1: metadata, 7: pod_annotations}) if pod else b""
    return message({1: spec, 2: message(dict(auth)), 3: sandbox})


class Images:
    """At a socket. All but `pull` end within a minute; errors are grpc.RpcError."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel

    def call(self, method: str, request: bytes = b"", *, timeout: Optional[float] = _SECONDS) -> bytes:
        return self._method(method)(request, timeout=timeout)

    def pulling(self, request: bytes, *, timeout: Optional[float] = None) -> grpc.Future[bytes]:
        """A pull under way, which `cancel()` ends. No deadline by default, as the kubelet has none."""
        return self._method(IMAGE_SERVICE + "PullImage").future(request, timeout=timeout)

    def _method(self, name: str) -> grpc.UnaryUnaryMultiCallable[bytes, bytes]:
        return self._channel.unary_unary(name)

    def pull(self, image: str) -> str:
        """The id that it answers."""
        return text(self.pulling(pull_request(image)).result(timeout=600), 1)

    def id_of(self, image: str) -> str:
        """Empty where the image is not there."""
        return text(self.call(IMAGE_SERVICE + "ImageStatus", message({1: message({1: image})})), 1, 1)

    def names(self) -> set[str]:
        found = _messages(self.call(IMAGE_SERVICE + "ListImages"), 1)
        return {tag.decode() for one in found for tag in _messages(one, 2)}

    def remove(self, image: str) -> None:
        self.call(IMAGE_SERVICE + "RemoveImage", message({1: message({1: image})}))

    def runtime(self) -> str:
        """Name and version of what answers Version."""
        answer = self.call(RUNTIME_SERVICE + "Version")
        return f"{text(answer, 2)} {text(answer, 3)}"


@contextmanager
def images(socket: str) -> Iterator[Images]:
    with grpc.insecure_channel(f"unix:{socket}", options=OPTIONS) as channel:
        yield Images(channel)


def answers(check: Callable[[], object]) -> bool:
    """Whether a call succeeds now."""
    try:
        check()
    except grpc.RpcError:
        return False
    return True


def _field(number: int, part: Part) -> bytes:
    if isinstance(part, Mapping):
        return b"".join(_field(number, message({1: key, 2: value})) for key, value in part.items())
    if isinstance(part, int):
        return _varint(number << 3) + _varint(part) if part else b""
    data = part.encode() if isinstance(part, str) else part
    return _varint(number << 3 | 2) + _varint(len(data)) + data if data else b""


def _varint(value: int) -> bytes:
    parts = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
