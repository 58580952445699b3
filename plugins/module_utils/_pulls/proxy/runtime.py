# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The proxy's own calls to a container runtime: PullImage and ImageStatus."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Optional, Union

from .http2 import ANSWER_BYTES, Answer, Failed, Metadata

_OPTIONS = (
    # Newer grpcio would send the socket's path, which some runtimes refuse: grpc/grpc#34305
    ("grpc.default_authority", "localhost"),
    ("grpc.max_receive_message_length", ANSWER_BYTES),
    ("grpc.max_send_message_length", ANSWER_BYTES),
    ("grpc.enable_retries", 0),  # a pull is never repeated behind the caller's back
    ("grpc.use_local_subchannel_pool", 1),  # one connection for each listener, never shared
)
_DETAILS = "grpc-status-details-bin"


class _Channel:
    """A gRPC channel, and the number of its calls, which end if it is closed."""

    def __init__(self, path: str) -> None:
        import grpc.aio

        self.grpc: Any = grpc.aio.insecure_channel(f"unix:{path}", options=_OPTIONS)
        self.calls = 0


class Runtime:
    """`path` is the path of its socket. Connects at the first call.

    A channel that could not connect fails every call until its next attempt, up to two minutes later, even if the runtime is back.
    Such a channel is replaced, so that each call uses a connection or makes one at once.
    """

    def __init__(self, path: str) -> None:
        import grpc.aio

        self._failed = grpc.aio.AioRpcError
        self._waits = grpc.ChannelConnectivity.TRANSIENT_FAILURE
        self._path = path
        self._channel = _Channel(path)
        self._replaced: list[_Channel] = []  # channels that still have calls

    async def call(self, method: str, message: bytes, *, metadata: Metadata, timeout: Optional[float] = None) -> Answer:
        """Call a unary RPC. Raises Failed for an error status; cancelling this cancels the RPC at the runtime."""
        self._replace_waiting()
        channel = self._channel
        channel.calls += 1
        try:
            return await self._call(channel, method, message, metadata, timeout)
        finally:
            channel.calls -= 1
            self._replace_waiting()
            await self._close_replaced()

    def _replace_waiting(self) -> None:
        """Replace a channel that could not connect. This is done at once: otherwise the channel would retry in the background, and a call
        would share an attempt that began before the runtime was back."""
        if self._channel.grpc.get_state() is self._waits:
            self._replaced.append(self._channel)
            self._channel = _Channel(self._path)

    async def _close_replaced(self) -> None:
        idle = [channel for channel in self._replaced if not channel.calls]
        self._replaced = [channel for channel in self._replaced if channel.calls]
        for channel in idle:
            await channel.grpc.close()

    async def _call(
        self, channel: _Channel, method: str, message: bytes, metadata: Metadata, timeout: Optional[float]
    ) -> Answer:
        call = channel.grpc.unary_unary(method)(message, metadata=metadata, timeout=timeout)
        try:
            answer = await call
            return Answer(
                message=answer,
                initial=_metadata(await call.initial_metadata()),
                trailing=_metadata(await call.trailing_metadata()),
            )
        except self._failed as error:
            raise Failed(
                Answer(
                    code=error.code().value[0],
                    text=error.details() or "",
                    initial=_metadata(error.initial_metadata()),
                    trailing=_metadata(error.trailing_metadata()),
                )
            ) from None

    async def close(self) -> None:
        with suppress(asyncio.CancelledError):
            for channel in (self._channel, *self._replaced):
                await channel.grpc.close()


def _metadata(pairs: Optional[Iterable[tuple[str, Union[str, bytes]]]]) -> Metadata:
    """The metadata without the keys that gRPC itself writes."""
    return tuple((key, value) for key, value in pairs or () if key == _DETAILS or not key.startswith("grpc-"))
