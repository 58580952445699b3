# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A container runtime, asked for what the proxy wants of it itself: pulls, and whether an image is there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Optional, Union

from .http2 import Answer, Failed, Metadata

_OPTIONS = (
    (
        "grpc.default_authority",
        "localhost",
    ),  # else newer grpcio sends the path, which some runtimes refuse: grpc/grpc#34305
    ("grpc.max_receive_message_length", -1),  # the caller has a limit of his own
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_retries", 0),  # a pull is never repeated behind the caller's back
    # A runtime that comes back is found again within seconds.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 2000),
    ("grpc.use_local_subchannel_pool", 1),  # one connection for each listener, whatever the others do
)
_DETAILS = "grpc-status-details-bin"


class Runtime:
    """`path` is that of its socket. Nothing is connected until there is a call."""

    def __init__(self, path: str) -> None:
        import grpc.aio

        self._failed = grpc.aio.AioRpcError
        self._channel = grpc.aio.insecure_channel(f"unix:{path}", options=_OPTIONS)

    async def call(self, method: str, message: bytes, *, metadata: Metadata, timeout: Optional[float] = None) -> Answer:
        """Of a unary RPC. Failed where it did not succeed; cancelled there when it is cancelled here."""
        invoke: Any = self._channel.unary_unary(method)
        call = invoke(message, metadata=metadata, timeout=timeout)
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
            await self._channel.close()


def _metadata(found: Optional[Iterable[tuple[str, Union[str, bytes]]]]) -> Metadata:
    """Without what gRPC writes itself."""
    return tuple((key, value) for key, value in found or () if key == _DETAILS or not key.startswith("grpc-"))
