# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Answers of the proxy's own on a connection that also carries the runtime's: what HTTP/2's windows let through, and when."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Optional

from . import http2
from .hpack import Header
from .http2 import Answer, Http2Error

_WINDOW_MOST = 2**31 - 1


@dataclass(eq=False)
class Pull:
    """A stream that is answered here."""

    headers: list[Header]
    body: bytearray = field(default_factory=bytearray)
    asked: bool = False  # the kubelet has sent all it will
    task: Optional[asyncio.Task[None]] = None
    answer: Optional[Answer] = None
    rest: bytes = b""  # of the answer's message, framed as gRPC has it
    begun: bool = False  # its headers are sent
    credit: int = 0  # of its window, besides the initial one


class Answers:
    """`window` is what the kubelet takes on this connection now, from whomever. `debt` is what it was sent from here, of
    which the runtime does not know that it is gone."""

    def __init__(self, out: list[bytes]) -> None:
        self._out = out
        self._pulls: dict[int, Pull] = {}
        self.window = http2.INITIAL_WINDOW
        self.initial_window = http2.INITIAL_WINDOW  # of each stream
        self.debt = 0

    def __bool__(self) -> bool:
        return bool(self._pulls)

    def credit(self, amount: int) -> int:
        """The kubelet takes that much more; how much of it the runtime is to be told of."""
        self.window += amount
        if not amount or self.window > _WINDOW_MOST:
            raise Http2Error(http2.FLOW_CONTROL_ERROR, "a credit of nothing, or of too much")
        kept = min(self.debt, amount)
        self.debt -= kept
        return amount - kept

    def surplus(self) -> int:
        """What a runtime that is only now connected is to be told of, besides the window that it takes for granted."""
        beyond = self.window - http2.INITIAL_WINDOW
        self.debt = max(-beyond, 0)
        return max(beyond, 0)

    def add(self, number: int, pull: Pull, answer: Answer) -> None:
        pull.answer = answer
        pull.rest = b"" if answer.code else http2.data_payload(answer.message)
        self._pulls[number] = pull

    def drop(self, number: int) -> None:
        self._pulls.pop(number, None)

    def deliver(self) -> list[tuple[int, Pull]]:
        """As much as the windows allow; those that are complete now."""
        complete = [(number, pull) for number, pull in self._pulls.items() if self._deliver(number, pull)]
        for number, _pull in complete:
            del self._pulls[number]
        return complete

    def _deliver(self, number: int, pull: Pull) -> bool:
        answer = pull.answer or Answer()
        block = b"" if pull.begun else http2.answer_headers() + http2.metadata_block(answer.initial)
        if not pull.begun and pull.rest:
            self._out.append(http2.header_frames(number, block, end_stream=False))
            block = b""
        pull.begun = True
        while pull.rest:
            size = min(len(pull.rest), http2.LEAST_FRAME_BYTES, self.window, self.initial_window + pull.credit)
            if size <= 0:
                return False
            self._out.append(http2.frame(http2.DATA, 0, number, pull.rest[:size]))
            pull.rest = pull.rest[size:]
            pull.credit -= size
            self.window -= size
            self.debt += size
        self._out.append(http2.header_frames(number, block + http2.status_block(answer), end_stream=True))
        return True
