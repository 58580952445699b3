# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a kubelet's connection needs from its listener."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .hpack import Header
from .http2 import Answer
from .limits import Allowance


class Backend(Protocol):
    """What the connections of a listener share."""

    runtime: str  # the path of its socket
    allowance: Allowance

    def admits(self, user: int, connections: int) -> bool:
        """Whether one more connection by that user is accepted besides the present number."""

    def is_pull(self, path: bytes) -> bool:
        """Whether the proxy itself answers requests for this path."""

    async def answer(self, headers: Sequence[Header], body: bytes) -> Answer:
        """Answer a pull. Does not raise; is cancelled when the caller leaves."""

    def note_runtime_up(self) -> None:
        """Called when a connection to the runtime was made."""

    def note_runtime_failure(self, error: Exception) -> Answer:
        """Called when no connection could be made, or one broke. Returns the answer to its callers."""

    def note_misbehaviour(self, text: str) -> None:
        """Called when a connection was closed because the client broke a rule or exceeded a limit."""
