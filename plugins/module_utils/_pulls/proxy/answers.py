# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The proxy's own answers on a connection that also carries the runtime's, within HTTP/2's flow-control windows."""

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
    """A stream that the proxy itself answers."""

    headers: list[Header]
    opened: float = 0.0  # time of the event loop
    held: int = 0  # bytes counted in the listener's allowance
    body: bytearray = field(default_factory=bytearray)
    half_closed: bool = False  # the kubelet has ended its request
    task: Optional[asyncio.Task[None]] = None
    answer: Optional[Answer] = None
    rest: bytes = b""  # unsent part of the answer's gRPC message
    begun: bool = False  # the answer's headers were sent
    credit: int = 0  # window of the stream beyond the initial one


class Answers:
    """`window` is what the kubelet accepts on this connection now. `debt` is the part that the proxy's own answers have used, which
    the runtime does not know."""

    def __init__(self, out: list[bytes]) -> None:
        self._out = out
        self._pulls: dict[int, Pull] = {}
        self.window = http2.INITIAL_WINDOW
        self.initial_window = http2.INITIAL_WINDOW  # of each stream
        self.debt = 0

    def __bool__(self) -> bool:
        return bool(self._pulls)

    def credit(self, amount: int) -> int:
        """Add a WINDOW_UPDATE of the kubelet. Returns the part of it to pass on to the runtime."""
        self.window += amount
        if not amount or self.window > _WINDOW_MOST:
            raise Http2Error(http2.FLOW_CONTROL_ERROR, "a credit of nothing, or of too much")
        kept = min(self.debt, amount)
        self.debt -= kept
        return amount - kept

    def surplus(self) -> int:
        """The window beyond the initial one, to pass on to a runtime that has just been connected."""
        beyond = self.window - http2.INITIAL_WINDOW
        self.debt = max(-beyond, 0)
        return max(beyond, 0)

    def add(self, number: int, pull: Pull, answer: Answer) -> None:
        """The answer of a pull is known; `deliver` sends it."""
        pull.answer = answer
        pull.rest = b"" if answer.code else http2.data_payload(answer.message)
        self._pulls[number] = pull

    def credit_stream(self, pull: Pull, amount: int) -> None:
        """Add a WINDOW_UPDATE of the kubelet for the pull's stream. Http2Error for one that HTTP/2 does not allow."""
        pull.credit += amount
        if not amount or self.initial_window + pull.credit > _WINDOW_MOST:
            raise Http2Error(http2.FLOW_CONTROL_ERROR, "a credit of nothing, or of too much")

    def drop(self, number: int) -> None:
        """Forget the pull of a stream that ends, if there is one."""
        self._pulls.pop(number, None)

    def deliver(self) -> list[tuple[int, Pull]]:
        """Send as much as the windows allow. Returns the pulls that are answered completely."""
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
