# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A runtime that pulls nothing, for measures that a real one would take hours for.

An image's name says what becomes of its pull: `ok-3-N` succeeds after 3 ms, `fail-3-N` fails then, `hold-0-N` waits to be
cancelled. COUNT answers how many pulls are in flight, and how many were at most.

    python -m tests.bench.pulls_runtime SOCKET
"""

from __future__ import annotations

import asyncio
import signal
import sys

import grpc
import grpc.aio

from tests.integration.cri import message, text
from tests.integration.cri_meter import PULL

COUNT = "/ballast.test/Count"


class _Runtime(grpc.GenericRpcHandler):
    def __init__(self) -> None:
        self.now = self.most = self.total = 0

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        handle = {PULL: self._pull, COUNT: self._count}[details.method]
        return grpc.unary_unary_rpc_method_handler(handle)

    async def _pull(self, request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        what, milliseconds, _number = text(request, 1, 1).split("-")
        self.now += 1
        self.total += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(int(milliseconds) / 1000 if what != "hold" else 3600)
        finally:
            self.now -= 1
        if what == "fail":
            await context.abort(grpc.StatusCode.UNKNOWN, "it was to fail")
        return message({1: "sha256:of nothing"})

    async def _count(self, request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        return message({1: self.now, 2: self.most, 3: self.total})


async def _serve(socket: str) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_Runtime(),))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    await ended.wait()
    await server.stop(0)


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
