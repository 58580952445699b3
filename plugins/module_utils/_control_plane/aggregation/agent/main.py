# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`ballast-aggregation`: keeps the availability of APIServices, and connects an API server with listed extension API servers that
run outside of any pod.

    ballast-aggregation --config FILE                   run, in the foreground, until SIGTERM
    ballast-aggregation check --config FILE             check FILE
    ballast-aggregation status --config FILE [--json]   what the running agent sees and does

Exit status: 0 after SIGTERM, 2 for a bad configuration or command line, 3 when this machine does not let it run, for example
when another agent of the control plane runs, 1 for an unexpected error. It keeps running while the API server does not answer.
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

from ...._agent.command import Command, on_signals, read_config, reload_for_ever, require_libraries
from ...._agent.log import Log
from ...._agent.place import check_places, control_path, host_lock, listen, make_directories, unlink_own
from ...._agent.scrape import serve_metrics
from ...._agent.status import answer_status
from ...._core.host import web
from ...._core.host.local_host import LocalHost
from ...._core.kube.client import Api
from ...._core.kube.connection import access_by
from ..api_services import AGENT_USER
from ..messages import AGENT
from .availability import Access, AvailabilityController, Watch
from .counts import Counts
from .metrics import Metrics
from .probe import Identity
from .proxy import Proxy, addresses_of
from .settings import RESTART_KEYS, Settings, parse_settings
from .status import describe_status, table

# Imported here: when two threads import it at once, one may see half of it (seen with Python 3.9).
_LOADED = web
_API_SECONDS = 10.0  # a stop waits for a pending request
# Debian's package of each library.
_METRICS_LIBRARIES = {"prometheus_client": "python3-prometheus-client"}


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """The program; leaves by SystemExit."""
    about = (
        "Connect an API server with extension API servers outside of any pod, and keep their APIServices' availability."
    )
    Command(AGENT, about, check=_check, run=_run, table=table).main(arguments)


def _check(config: str, directory: str) -> str:
    return _describe(_check_settings(config, directory)[0])


def _check_settings(config: str, directory: str) -> tuple[Settings, Api]:
    """Settings and API client. Raises when an agent could not start with them, leaving aside an agent that runs already."""
    settings, api = _read(read_config(AGENT, config), config)
    require_libraries(AGENT, _METRICS_LIBRARIES if settings.metrics is not None else {})
    check_places(AGENT, directory, _sockets(settings))
    return settings, api


def _sockets(settings: Settings) -> list[str]:
    return [settings.socket] if settings.socket else []


def _read(text: str, config: str) -> tuple[Settings, Api]:
    settings, host = parse_settings(text, name=config), LocalHost()
    if host.stat(settings.kubeconfig) is None:
        raise AGENT.error("kubeconfig", path=settings.kubeconfig)
    return settings, Api(host, access_by(host, [settings.kubeconfig]), timeout=_API_SECONDS)


def _run(config: str, directory: str) -> None:
    settings, api = _check_settings(config, directory)
    make_directories(AGENT, directory, _sockets(settings))
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
        self._controller = AvailabilityController(_access(self._settings, api), self._counts, self._log)
        self._proxy = Proxy(
            addresses_of(self._settings.services), self._counts, self._log, failed=self._controller.wake
        )
        self._watch = self._start_watch(api, loop)
        async with AsyncExitStack() as undo:
            await self._listen(undo)
            self._log.event("started", pid=os.getpid(), config=self._config, settings=_describe(self._settings))
            work = [
                asyncio.ensure_future(self._controller.run()),
                asyncio.ensure_future(
                    reload_for_ever(AGENT, reload, self._config, self._log, partial(self._reload, loop))
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
            task.result()  # raises unexpected errors
        self._log.event("ended")

    def _reload(self, loop: asyncio.AbstractEventLoop, text: str) -> Mapping[str, object]:
        """Applies new settings, except for the listening addresses, which need a restart. Open connections stay."""
        settings, api = _read(text, self._config)
        kept = {name: getattr(self._started, name) for name in RESTART_KEYS}
        changed = [name for name, value in kept.items() if getattr(settings, name) != value]
        self._settings = replace(settings, **kept)
        self._proxy.addresses = addresses_of(settings.services)
        self._controller.replace_access(_access(self._settings, api))
        self._watch.end()
        self._watch = self._start_watch(api, loop)
        return {"settings": _describe(settings), "needs_restart": ",".join(changed)}

    def _start_watch(self, api: Api, loop: asyncio.AbstractEventLoop) -> Watch:
        def wake() -> None:
            with suppress(RuntimeError):  # the loop is closed: the program ends
                loop.call_soon_threadsafe(self._controller.wake)

        watch = Watch(api, wake)
        watch.start()
        return watch

    async def _listen(self, undo: AsyncExitStack) -> None:
        sockets = [listen(AGENT, path) for path in (control_path(self._directory), *_sockets(self._settings))]
        control, *egress = sockets
        server = await asyncio.start_unix_server(self._answer, sock=control)
        undo.callback(server.close)
        for listening in egress:
            undo.callback((await self._proxy.start(listening)).close)
        undo.callback(unlink_own, sockets)  # before they are closed
        if self._settings.metrics is not None:
            metrics = Metrics(self._counts, lambda: self._controller.seen)
            scraped = await serve_metrics(AGENT, metrics.library, metrics.registry, self._settings.metrics)
            undo.callback(scraped.close)

    async def _answer(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """`status`, at the control socket."""
        success = self._counts.last_success
        status = describe_status(
            self._settings,
            self._config,
            seconds=time.monotonic() - self._since,
            since_success=None if success is None else max(time.time() - success, 0.0),
            counts=self._counts,
            seen=self._controller.seen,
            problems=self._controller.problems,
        )
        await answer_status(status, writer)


def _access(settings: Settings, api: Api) -> Access:
    identity = Identity(certificate=settings.certificate, key=settings.key, user=AGENT_USER)
    addresses = addresses_of(settings.services) if settings.socket else None
    return Access(api, addresses, identity, settings.interval)


def _describe(settings: Settings) -> str:
    services = ", ".join(f"{each.host}:{each.port} at {each.address}" for each in settings.services)
    return f"services {services or 'by their names'}, every {settings.interval:g}s"
