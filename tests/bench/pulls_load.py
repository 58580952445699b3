# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Clients of the benchmark of pulls, each a process of its own. Prints JSON.

python -m tests.bench.pulls_load latency COUNT IN_FLIGHT IMAGE SOCKET     seconds of each ImageStatus
python -m tests.bench.pulls_load slots COUNT SEED SOCKET ...              outcomes of pulls, by code
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import repeat

import grpc.aio

from tests.integration.cri import IMAGE_SERVICE, OPTIONS, message, pull_request
from tests.integration.cri_meter import PULL

_WARM_CALLS = 200
_AT_ONCE = 200  # callers in the measure of slots
_IMAGES = 500


def latency(count: int, in_flight: int, image: str, path: str) -> list[float]:
    """Over one connection, a new call as soon as one has been answered."""
    with Calls(path, repeat(_BLOCK), repeat(message({1: message({1: image})}))) as calls:
        calls.make(_WARM_CALLS, in_flight)
        return [round(one, 7) for one in calls.make(count, in_flight)]


class Calls:
    """Unary ones over one connection, each with the next header block and the next message. What is answered is not decoded:
    that there is a message tells that it succeeded.

    The frames of HTTP/2 are made and read by hand: a client of grpcio takes longer for a call than what is measured.
    """

    def __init__(self, path: str, blocks: Iterator[bytes], requests: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._requests = requests
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connection.connect(path)
        self._connection.sendall(_BEGIN)
        self._next_stream = 1
        self._begun: dict[int, float] = {}
        self._answered: set[int] = set()  # streams on which a message has come
        self._unread = b""

    def __enter__(self) -> Calls:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._connection.close()

    def make(self, count: int, in_flight: int) -> list[float]:
        taken: list[float] = []
        for _number in range(in_flight):
            self._send()
        while len(taken) < count:
            for kind, flags, stream in self._frames():
                if kind == _DATA:
                    self._answered.add(stream)
                if kind in (_DATA, _HEADERS) and flags & _END_STREAM:
                    if stream not in self._answered:
                        raise RuntimeError("a call has failed")
                    self._answered.remove(stream)
                    taken.append(time.perf_counter() - self._begun.pop(stream))
                    if len(taken) + len(self._begun) < count:
                        self._send()
        return taken

    def _send(self) -> None:
        stream = self._next_stream
        self._next_stream += 2
        request = next(self._requests)
        head = _frame(_HEADERS, _END_HEADERS, stream, next(self._blocks))
        data = _frame(_DATA, _END_STREAM, stream, struct.pack(">BI", 0, len(request)) + request)
        self._begun[stream] = time.perf_counter()
        self._connection.sendall(head + data)

    def _frames(self) -> Iterator[tuple[int, int, int]]:
        """Kind, flags and stream of those that have come. Settings and pings are acknowledged."""
        data = self._unread + self._connection.recv(1 << 16)
        at = 0
        while len(data) - at >= 9 and len(data) - at - 9 >= (size := int.from_bytes(data[at : at + 3], "big")):
            kind, flags = data[at + 3], data[at + 4]
            # grpc-go may answer before it has noted that the request has ended, and then resets the stream without an error.
            if kind == _GOAWAY or (kind == _RST_STREAM and any(data[at + 9 : at + 13])):
                raise RuntimeError("the server has broken off")
            if kind in (_SETTINGS, _PING) and not flags & _ACK:
                body = data[at + 9 : at + 9 + size] if kind == _PING else b""
                self._connection.sendall(_frame(kind, _ACK, 0, body))
            yield kind, flags, int.from_bytes(data[at + 5 : at + 9], "big")
            at += 9 + size
        self._unread = data[at:]


def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + body


def _literal(name: bytes, value: bytes) -> bytes:
    """RFC 7541, 6.2.2. `name` as bytes of its own, or as an index."""
    return name + bytes([len(value)]) + value


# RFC 9113, and numbers of RFC 7541's table: POST, http, path, authority, content-type.
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_END_STREAM = _ACK = 1
_END_HEADERS = 4
_BEGIN = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    + _frame(_SETTINGS, 0, 0, b"")
    + _frame(_WINDOW_UPDATE, 0, 0, b"\x3f\xff\xff\xff")
)
_BLOCK = (
    b"\x83\x86"
    + _literal(b"\x04", (IMAGE_SERVICE + "ImageStatus").encode())
    + _literal(b"\x01", b"localhost")
    + _literal(b"\x0f\x10", b"application/grpc")
    + _literal(b"\x00\x02te", b"trailers")
)


async def slots(count: int, seed: int, sockets: Sequence[str]) -> dict[str, int]:
    """Seven of ten succeed, one fails, two are cancelled at any time; some meet at one image, and join."""
    dice = random.Random(seed)
    outcomes: Counter[str] = Counter()
    channels = [grpc.aio.insecure_channel(f"unix:{path}", options=OPTIONS) for path in sockets]
    left = iter(range(count))

    async def caller() -> None:
        for _number in left:
            channel = dice.choice(channels)
            what = dice.choices(("ok", "fail", "cancel"), (7, 1, 2))[0]
            kind = "fail" if what == "fail" else "ok"
            pull: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(PULL)
            call = pull(pull_request(f"{kind}-{dice.randrange(4)}-{dice.randrange(_IMAGES)}"))
            if what == "cancel":
                await asyncio.sleep(dice.uniform(0, 0.02))
                call.cancel()
            try:
                await call
            except (grpc.aio.AioRpcError, asyncio.CancelledError):
                pass
            outcomes[(await call.code()).name] += 1

    await asyncio.gather(*(caller() for _number in range(_AT_ONCE)))
    await asyncio.gather(*(channel.close() for channel in channels))
    return dict(outcomes)


def main(command: str, *words: str) -> None:
    if command == "latency":
        print(json.dumps(latency(int(words[0]), int(words[1]), words[2], words[3])))
    else:
        print(json.dumps(asyncio.run(slots(int(words[0]), int(words[1]), words[2:]))))


if __name__ == "__main__":
    main(*sys.argv[1:])
