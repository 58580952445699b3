# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A program for network namespaces: asks Services until the endpoints answer that should, and says when that was.

A line of JSON on its input is a question: `id`, `address` and `port` of a Service, `expected` (any of these endpoints has to answer;
an empty list: any at all) and `begun`, by the monotonic clock, which all namespaces share. For each it prints one line, with
`id` and `after`, the seconds from `begun` to the answer, or null where there is none for `patience` seconds. It ends with its input.

Each packet that asks is the first of a connection of its own. A question is repeated after a fiftieth of the time that it has
waited, so that waiting costs little, and the answer is at most so much late. Standard library only.
"""

from __future__ import annotations

import heapq
import json
import os
import select
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

SHORTEST, LONGEST = 0.001, 0.05  # seconds between two packets for one question
_PART = 50
_RESET = struct.pack("ii", 1, 0)  # a connection ends by a reset: no TIME_WAIT keeps its source port
_ANSWER_SECONDS = 0.1
_BYTES = 64  # an address


class Question(NamedTuple):
    due: float
    id: int
    address: str
    port: int
    expected: Sequence[str]
    begun: float
    patience: float


def pause(waited: float) -> float:
    return min(LONGEST, max(SHORTEST, waited / _PART))


def ask(address: str, port: int) -> str:
    """The endpoint that answers a new connection, "" where none does."""
    with suppress(OSError), socket.socket() as asking:
        asking.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        asking.settimeout(_ANSWER_SECONDS)
        asking.connect((address, port))
        return asking.recv(_BYTES).decode()
    return ""


def answered(question: Question, endpoint: str) -> bool:
    return bool(endpoint) and (not question.expected or endpoint in question.expected)


def main() -> None:
    waiting: list[Question] = []
    rest = b""
    while True:
        sleep = max(0.0, waiting[0].due - time.monotonic()) if waiting else None
        if select.select([0], [], [], sleep)[0]:
            data = os.read(0, 1 << 16)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                given: dict[str, Any] = json.loads(line)
                heapq.heappush(waiting, Question(due=time.monotonic(), **given))
        if waiting and waiting[0].due <= time.monotonic():
            _take(waiting)


def _take(waiting: list[Question]) -> None:
    question = heapq.heappop(waiting)
    is_answered = answered(question, ask(question.address, question.port))
    now = time.monotonic()
    if is_answered or now - question.begun > question.patience:
        print(json.dumps({"id": question.id, "after": now - question.begun if is_answered else None}), flush=True)
    else:
        heapq.heappush(waiting, question._replace(due=now + pause(now - question.begun)))


if __name__ == "__main__":
    main()
