# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`ballast-aggregation`: the way of an API server to extension API servers that run outside of any pod.

    ballast-aggregation --config FILE                   run, in the foreground, until SIGTERM
    ballast-aggregation check --config FILE             say whether FILE is in order
    ballast-aggregation status --config FILE [--json]   what the running agent sees and does

Exit status: 0 after SIGTERM, 2 for a bad configuration or command line, 3 when this machine does not let it run, which is so
when another agent of the control plane does, 1 for what it did not expect. That the API server is away ends it never.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Optional

from ...._core import web
from ...._core.agent.command import Command, on_signals, read_config, reload_for_ever, require_libraries
from ...._core.agent.log import Log
from ...._core.agent.place import check_places, control_path, host_lock, listen, make_directories, unlink_own
from ...._core.agent.scrape import serve_metrics
from ...._core.agent.status import answer_status
from ...._core.host import LocalHost
from ...._core.kubeapi import Api, api_by
from ..api_services import AGENT_USER
from ..messages import AGENT
from .counts import Counts
from .keeper import Access, Keeper, Watch
from .metrics import Metrics
from .probe import Identity
from .proxy import Proxy, addresses_of
from .settings import Settings, parse_settings
from .status import status_of, table

# Not left to the first requests: two threads that load it at one time may get a part of it (seen with Python 3.9).
_LOADED = web
_API_SECONDS = 10.0  # a stop waits for a request that is under way
# Debian's package of each that is not Python's own.
_METRICS_LIBRARIES = {"prometheus_client": "python3-prometheus-client"}


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """The program; leaves by SystemExit."""
    about = (
        "Connect an API server with extension API servers outside of any pod, and keep their APIServices' availability."
    )
    Command(AGENT, about, check=_check, run=_run, table=table).main(arguments)


def _check(config: str, directory: str) -> str:
    return _told(_checked(config, directory)[0])


def _checked(config: str, directory: str) -> tuple[Settings, Api]:
    """The settings, when an agent could be started with them now, if none runs."""
    settings, api = _read(read_config(AGENT, config), config)
    require_libraries(AGENT, _METRICS_LIBRARIES if settings.metrics is not None else {})
    check_places(AGENT, directory, [settings.socket])
    return settings, api


def _read(text: str, config: str) -> tuple[Settings, Api]:
    settings, host = parse_settings(text, name=config), LocalHost()
    if host.stat(settings.kubeconfig) is None:
        raise AGENT.error("kubeconfig", path=settings.kubeconfig)
    return settings, api_by(host, settings.kubeconfig, timeout=_API_SECONDS)


def _run(config: str, directory: str) -> None:
    settings, api = _checked(config, directory)
    make_directories(AGENT, directory, [settings.socket])
    with host_lock(AGENT, directory):
        asyncio.run(_Running(settings, config, directory).serve(api))


class _Running:
    def __init__(self, settings: Settings, config: str, directory: str) -> None:
        self._settings = settings  # in effect
        self._started = settings
        self._config = config
        self._directory = directory
        self._since = time.monotonic()
        self._log = Log()
        self._counts = Counts()

    async def serve(self, api: Api) -> None:
        ending, reload = on_signals()
        loop = asyncio.get_running_loop()
        self._keeper = Keeper(_access(self._settings, api), self._counts, self._log)
        self._proxy = Proxy(addresses_of(self._settings.services), self._counts, self._log, failed=self._keeper.stir)
        self._watch = self._watched(api, loop)
        async with AsyncExitStack() as undo:
            await self._listen(undo)
            self._log.event("started", pid=os.getpid(), config=self._config, settings=_told(self._settings))
            work = [
                asyncio.ensure_future(self._keeper.run()),
                asyncio.ensure_future(
                    reload_for_ever(AGENT, reload, self._config, self._log, partial(self._take, loop))
                ),
                asyncio.ensure_future(ending.wait()),
            ]
            done, left = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            self._log.event("ending", connections=sum(self._counts.open.values()))
            self._watch.end()
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
            await self._proxy.end()
        for task in done:
            task.result()  # a fault of ours is not kept quiet
        self._log.event("ended")

    def _take(self, loop: asyncio.AbstractEventLoop, text: str) -> Mapping[str, object]:
        """What a reload does: all but what is listened on, which is that of the start. Open connections stay."""
        wanted, api = _read(text, self._config)
        started = self._started
        fixed = [name for name in ("socket", "metrics") if getattr(wanted, name) != getattr(started, name)]
        self._settings = replace(wanted, socket=started.socket, metrics=started.metrics)
        self._proxy.addresses = addresses_of(wanted.services)
        self._keeper.take(_access(self._settings, api))
        self._watch.end()
        self._watch = self._watched(api, loop)
        return {"settings": _told(wanted), "needs_restart": ",".join(fixed)}

    def _watched(self, api: Api, loop: asyncio.AbstractEventLoop) -> Watch:
        def changed() -> None:
            with suppress(RuntimeError):  # the loop is closed: the program ends
                loop.call_soon_threadsafe(self._keeper.stir)

        watch = Watch(api, changed)
        watch.start()
        return watch

    async def _listen(self, undo: AsyncExitStack) -> None:
        control, egress = (listen(AGENT, path) for path in (control_path(self._directory), self._settings.socket))
        server = await asyncio.start_unix_server(self._answer, sock=control)
        undo.callback(server.close)
        undo.callback((await self._proxy.start(egress)).close)
        undo.callback(unlink_own, [control, egress])  # before they are closed
        if self._settings.metrics is not None:
            metrics = Metrics(self._counts, lambda: self._keeper.seen)
            scraped = await serve_metrics(AGENT, metrics.library, metrics.registry, self._settings.metrics)
            undo.callback(scraped.close)

    async def _answer(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """`status`, at the control socket."""
        success = self._counts.last_success
        told = status_of(
            self._settings,
            self._config,
            seconds=time.monotonic() - self._since,
            since_success=None if success is None else max(time.time() - success, 0.0),
            counts=self._counts,
            seen=self._keeper.seen,
            problems=self._keeper.problems,
        )
        await answer_status(told, writer)


def _access(settings: Settings, api: Api) -> Access:
    identity = Identity(certificate=settings.certificate, key=settings.key, user=AGENT_USER)
    return Access(api, addresses_of(settings.services), identity, settings.interval)


def _told(settings: Settings) -> str:
    services = ", ".join(f"{each.host}:{each.port} at {each.address}" for each in settings.services)
    return f"services {services}, every {settings.interval:g}s"
