# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How Prometheus gets what a program counts: GET /metrics on loopback."""

from __future__ import annotations

import asyncio
from typing import Any

from .identity import Agent

_HEAD_BYTES = 16 * 1024
_SECONDS = 5.0


async def serve_metrics(agent: Agent, library: Any, registry: Any, address: tuple[str, int]) -> asyncio.AbstractServer:
    """`library` is prometheus_client, `registry` one of its. HostError where the port is taken."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _SECONDS)
            writer.write(_response(library, registry, head))
            await asyncio.wait_for(writer.drain(), _SECONDS)
        except (OSError, EOFError, asyncio.TimeoutError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    host, port = address
    try:
        return await asyncio.start_server(answer, host, port, limit=_HEAD_BYTES)
    except OSError as error:
        raise agent.error("metrics-taken", address=f"{host}:{port}", found=str(error)) from None


def _response(library: Any, registry: Any, head: bytes) -> bytes:
    words = head.split(b"\r\n", 1)[0].split(b" ")
    method, path = (words[0], words[1].split(b"?", 1)[0]) if len(words) == 3 else (b"", b"")
    kind, body = "text/plain; charset=utf-8", b""
    if not method:
        status, body = "400 Bad Request", b"this is not HTTP\n"
    elif path != b"/metrics":
        status, body = "404 Not Found", b"there is /metrics\n"
    elif method not in (b"GET", b"HEAD"):
        status, body = "405 Method Not Allowed", b"use GET\n"
    else:
        status, kind = "200 OK", library.CONTENT_TYPE_LATEST
        body = library.generate_latest(registry)
    told = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return told.encode() + (b"" if method == b"HEAD" else body)
