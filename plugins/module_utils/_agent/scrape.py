# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Serves a program's metrics to Prometheus: GET /metrics on loopback."""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from typing import Any

from .http_listener import Answer, HttpListener, Request, open_sockets
from .identity import Agent


async def serve_metrics(agent: Agent, library: Any, registry: Any, address: tuple[str, int]) -> HttpListener:
    """`library` is prometheus_client, `registry` one of its registries. HostError if the port is taken."""
    host, port = address
    try:
        return HttpListener(partial(_answer, library, registry), await _listening(host, port))
    except OSError as error:
        raise agent.error("metrics-taken", address=f"{host}:{port}", found=str(error)) from None


def metrics_answer(library: Any, registry: Any) -> Answer:
    return Answer(200, library.generate_latest(registry), library.CONTENT_TYPE_LATEST)


async def _listening(host: str, port: int) -> list[socket.socket]:
    """Sockets on every address of the host name."""
    addresses = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return open_sockets(list(dict.fromkeys((row[0], row[4]) for row in addresses)))


def _answer(library: Any, registry: Any, request: Request) -> Answer:
    if request.path != "/metrics":
        return Answer(404, b"there is /metrics\n")
    if request.method not in ("GET", "HEAD"):
        return Answer(405, b"use GET\n")
    return metrics_answer(library, registry)
