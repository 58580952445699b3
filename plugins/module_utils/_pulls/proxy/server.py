# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The running proxy: its listeners, their shared state, its reload and its end."""

from __future__ import annotations

import asyncio
import errno
import math
import socket
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Optional

from ..._agent.http_listener import HttpListener
from ..._agent.log import Log
from ..._agent.open_files import raise_open_files
from ..._agent.place import BACKLOG, listen, unlink_own
from ..._agent.scrape import serve_metrics
from ..._agent.status import answer_status
from . import limits
from .connection import Connection
from .endpoint import Endpoint
from .http2 import Answer
from .log import PullLog
from .messages import AGENT
from .pulls import Observer, Pulls, PullState
from .relay import Relay
from .request import PullRequest
from .settings import Settings, needs_restart

_SAY_AGAIN_SECONDS = 60.0
_ANSWER_SECONDS = 1.0  # for answers under way when all pulls have ended


class Observers:
    """Passes each event to several observers, in order."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers

    def on_queued(self, request: PullRequest) -> None:
        for observer in self._observers:
            observer.on_queued(request)

    def on_joined(self, request: PullRequest) -> None:
        for observer in self._observers:
            observer.on_joined(request)

    def on_started(self, request: PullRequest, waited: float) -> None:
        for observer in self._observers:
            observer.on_started(request, waited)

    def on_ended(self, request: PullRequest, seconds: float, error: Optional[BaseException]) -> None:
        for observer in self._observers:
            observer.on_ended(request, seconds, error)

    def on_answered(self, request: PullRequest, outcome: str, waited: float) -> None:
        for observer in self._observers:
            observer.on_answered(request, outcome, waited)


class Server:
    """`async with` starts listening; leaving it ends everything at once."""

    def __init__(self, settings: Settings, *, config: str, control: str, log: Log) -> None:
        self._settings = settings
        self._config = config
        self._control = control
        self._log = log
        self._live: list[set[Connection]] = []  # one set for each listener
        self._sockets: list[socket.socket] = []
        self._servers: list[asyncio.AbstractServer | HttpListener] = []
        self._endpoints: list[Endpoint] = []
        self._since = 0.0
        self._out_of_files = -math.inf  # when this was last logged

    async def __aenter__(self) -> Server:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._loop_failed)
        files, listeners = raise_open_files(), len(self._settings.listeners)
        if files < limits.files_needed(listeners):
            raise AGENT.error("files", found=str(files), needed=limits.files_needed(listeners))
        self._since = loop.time()
        names = [listener.name for listener in self._settings.listeners]
        observers: list[Observer] = [PullLog(self._log)]
        metrics = None
        if self._settings.metrics is not None:
            from .metrics import Metrics

            metrics = Metrics(names)
            observers.append(metrics)
        self._pulls: Pulls[Answer] = Pulls(self._settings, Observers(observers))
        try:
            # Sockets come before the channels to the runtimes, because grpc starts threads.
            self._sockets = [listen(AGENT, self._control)]
            for listener in self._settings.listeners:
                self._sockets.append(listen(AGENT, listener.socket))
            on_size = metrics.add_size if metrics else None
            most = limits.connections_of(files, listeners)
            self._endpoints = [
                Endpoint(listener, self._pulls, self._log, most=most, on_size=on_size)
                for listener in self._settings.listeners
            ]
            self._update_endpoints()
            if metrics is not None and self._settings.metrics is not None:
                metrics.watch(names, self._pulls.snapshot)
                address = self._settings.metrics
                self._servers.append(await serve_metrics(AGENT, metrics.library, metrics.registry, address))
            await self._serve()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self._close()

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        control, *listening = self._sockets
        # asyncio accepts up to `backlog` connections at once, and logs as many failures when file descriptors run out.
        self._servers.append(await asyncio.start_unix_server(self._send_status, sock=control, backlog=1))
        for endpoint, listening_socket in zip(self._endpoints, listening):
            self._live.append(set())
            relay = partial(Relay, endpoint, self._live[-1])
            self._servers.append(await loop.create_unix_server(relay, sock=listening_socket, backlog=1))
        for listening_socket in self._sockets:
            listening_socket.listen(BACKLOG)

    def reload(self, settings: Settings) -> tuple[str, ...]:
        """Apply the settings. Returns the keys that differ and need a restart; these keep their old values."""
        kept = needs_restart(self._settings, settings)
        self._settings = replace(settings, listeners=self._settings.listeners, metrics=self._settings.metrics)
        self._pulls.reload(self._settings)
        self._update_endpoints()
        return kept

    async def drain(self) -> int:
        """Begin no more pulls, and wait until those in flight have ended, at most for the setting `drain` (seconds). Returns the
        number of pulls still in flight."""
        self._pulls.refuse()
        for endpoint in self._endpoints:
            endpoint.draining = True
        try:
            await asyncio.wait_for(self._pulls.wait_until_drained(), self._settings.drain)
        except asyncio.TimeoutError:
            pass
        left = len(self._pulls.snapshot().in_flight)
        deadline = asyncio.get_running_loop().time() + _ANSWER_SECONDS
        while not left and any(connection.is_busy for connection in self._connections):
            if asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(0.01)
        return left

    def status(self) -> dict[str, Any]:
        """The data that `ballast-pull-proxy status` shows, for JSON."""
        now = self._pulls.snapshot()
        return {
            "config": self._config,
            "seconds": asyncio.get_running_loop().time() - self._since,
            "max_in_flight": now.max_in_flight,
            "on_full": self._settings.on_full,
            "order": self._settings.order,
            "join": self._settings.join,
            "present": self._settings.present,
            "connections": len(self._connections),
            "listeners": [asdict(listener) for listener in self._settings.listeners],
            "settings": asdict(self._settings),  # all settings in effect, which a deployment compares with its file
            "in_flight": [_pull(state) for state in now.in_flight],
            "queued": [_pull(state) for state in now.queued],
        }

    async def _send_status(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answer_status(self.status(), writer)

    @property
    def _connections(self) -> list[Connection]:
        return [connection for live in self._live for connection in live]

    def _update_endpoints(self) -> None:
        for endpoint in self._endpoints:
            endpoint.present_succeeds = self._settings.present == "succeed"

    def _loop_failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            now = asyncio.get_running_loop().time()  # asyncio tries again a second later, and may fail again
            if now - self._out_of_files > _SAY_AGAIN_SECONDS:
                self._out_of_files = now
                self._log.event("out-of-files", connections=len(self._connections), error=error.strerror)
        elif self._sockets:  # errors after the sockets are closed do not matter
            self._log.event("fault", what=context.get("message", ""), error=repr(error) if error else "")

    async def _close(self) -> None:
        """Close everything. May be called twice, and after a failed start."""
        unlink_own(self._sockets)
        for server in self._servers:
            server.close()
        for connection in self._connections:
            connection.end()
        for listening_socket in self._sockets:
            listening_socket.close()
        self._sockets = []
        for endpoint in self._endpoints:
            await endpoint.close()


def _pull(state: PullState) -> dict[str, Any]:
    """A pull as data, without its credentials, not even their digest."""
    request = state.request
    return {
        "listener": request.listener,
        "runtime": request.runtime,
        "image": request.image,
        "handler": request.handler,
        "pods": [f"{caller.namespace}/{caller.pod}" for caller in state.callers if caller.pod],
        "callers": len(state.callers),
        "seconds": state.seconds,
        "place": state.place,
    }
