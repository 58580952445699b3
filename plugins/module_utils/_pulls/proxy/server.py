# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The running proxy: its listeners, what they share, and how it ends."""

from __future__ import annotations

import asyncio
import errno
import math
import resource
import socket
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Optional

from ..._core.agent.log import Log
from ..._core.agent.place import BACKLOG, listen, unlink_own
from ..._core.agent.scrape import serve_metrics
from ..._core.agent.status import answer_status
from .endpoint import Endpoint
from .http2 import Answer
from .log import PullLog
from .messages import AGENT
from .pulls import Observer, Pulls, PullState
from .relay import Relay
from .request import PullRequest
from .settings import Settings, needs_restart

_SAY_AGAIN_SECONDS = 60.0
_ANSWER_SECONDS = 1.0  # for answers on their way, when all pulls have ended


class Observers:
    """Tells several, in order."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers

    def queued(self, request: PullRequest) -> None:
        for one in self._observers:
            one.queued(request)

    def joined(self, request: PullRequest) -> None:
        for one in self._observers:
            one.joined(request)

    def started(self, request: PullRequest, waited: float) -> None:
        for one in self._observers:
            one.started(request, waited)

    def ended(self, request: PullRequest, seconds: float, error: Optional[BaseException]) -> None:
        for one in self._observers:
            one.ended(request, seconds, error)

    def answered(self, request: PullRequest, outcome: str, waited: float) -> None:
        for one in self._observers:
            one.answered(request, outcome, waited)


class Server:
    """`async with` listens, and ends at once what is still there when it is left."""

    def __init__(self, settings: Settings, *, config: str, control: str, log: Log) -> None:
        self._settings = settings
        self._config = config
        self._control = control
        self._log = log
        self._relays: set[Relay] = set()
        self._sockets: list[socket.socket] = []
        self._servers: list[asyncio.AbstractServer] = []
        self._endpoints: list[Endpoint] = []
        self._since = 0.0
        self._out_of_files = -math.inf  # when it was last said

    async def __aenter__(self) -> Server:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._loop_failed)
        _allow_connections()
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
            # Sockets before the channels to the runtimes, whose library has threads.
            self._sockets = [listen(AGENT, self._control)]
            for listener in self._settings.listeners:
                self._sockets.append(listen(AGENT, listener.socket))
            on_size = metrics.add_size if metrics else None
            self._endpoints = [
                Endpoint(listener, self._pulls, self._log, on_size=on_size) for listener in self._settings.listeners
            ]
            self._tell_endpoints()
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
        # asyncio accepts as many at once as it is told of a backlog, and where there are no more file descriptors it fails
        # as often.
        self._servers.append(await asyncio.start_unix_server(self._tell_status, sock=control, backlog=1))
        for endpoint, one in zip(self._endpoints, listening):
            relay = partial(Relay, endpoint, self._relays)
            self._servers.append(await loop.create_unix_server(relay, sock=one, backlog=1))
        for one in self._sockets:
            one.listen(BACKLOG)

    def reload(self, settings: Settings) -> tuple[str, ...]:
        """What is to count from now on. The keys that differ and need a restart, which keep their old values."""
        kept = needs_restart(self._settings, settings)
        self._settings = replace(settings, listeners=self._settings.listeners, metrics=self._settings.metrics)
        self._pulls.reload(self._settings)
        self._tell_endpoints()
        return kept

    async def drain(self) -> int:
        """Begin no pull any more; until those in flight have ended, or for as long as `drain` allows.
        The number of those that have not."""
        self._pulls.refuse()
        for endpoint in self._endpoints:
            endpoint.draining = True
        try:
            await asyncio.wait_for(self._pulls.drained(), self._settings.drain)
        except asyncio.TimeoutError:
            pass
        left = len(self._pulls.snapshot().in_flight)
        deadline = asyncio.get_running_loop().time() + _ANSWER_SECONDS
        while not left and any(relay.is_busy for relay in self._relays):
            if asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(0.01)
        return left

    def status(self) -> dict[str, Any]:
        """JSON data; what `ballast-pull-proxy status` shows."""
        now = self._pulls.snapshot()
        return {
            "config": self._config,
            "seconds": asyncio.get_running_loop().time() - self._since,
            "max_in_flight": now.max_in_flight,
            "on_full": self._settings.on_full,
            "order": self._settings.order,
            "join": self._settings.join,
            "present": self._settings.present,
            "connections": len(self._relays),
            "listeners": [asdict(listener) for listener in self._settings.listeners],
            "settings": asdict(self._settings),  # all that is in effect, by which a deployment knows that it came true
            "in_flight": [_pull(state) for state in now.in_flight],
            "queued": [_pull(state) for state in now.queued],
        }

    async def _tell_status(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answer_status(self.status(), writer)

    def _tell_endpoints(self) -> None:
        for endpoint in self._endpoints:
            endpoint.present_succeeds = self._settings.present == "succeed"

    def _loop_failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            now = asyncio.get_running_loop().time()  # asyncio accepts again a second later, and may fail again
            if now - self._out_of_files > _SAY_AGAIN_SECONDS:
                self._out_of_files = now
                self._log.event("out-of-files", connections=len(self._relays), error=error.strerror)
        elif self._sockets:  # what fails of them once they are closed is nobody's concern
            self._log.event("fault", what=context.get("message", ""), error=repr(error) if error else "")

    async def _close(self) -> None:
        """Whatever is there; also a second time, or when not all of it was made."""
        unlink_own(self._sockets)
        for server in self._servers:
            server.close()
        for relay in list(self._relays):
            relay.end()
        for one in self._sockets:
            one.close()
        self._sockets = []
        for endpoint in self._endpoints:
            await endpoint.close()


def _pull(state: PullState) -> dict[str, Any]:
    """What may be shown of a pull: no credentials, which are not even a digest here."""
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


def _allow_connections() -> None:
    """As many files as this process may have: two for each connection of a kubelet."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
