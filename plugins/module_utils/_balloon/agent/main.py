# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`ballast-balloons`: keeps the balloons of nodes at the size of their targets.

    ballast-balloons --config FILE                   run, in the foreground, until SIGTERM
    ballast-balloons check --config FILE             check FILE
    ballast-balloons status --config FILE [--json]   what the running reconciler sees and does

Exit status: 0 after SIGTERM, 2 for a bad configuration or command line, 3 when this machine prevents a start, for example by
another running reconciler, 1 for an unexpected error. It keeps running while the API server does not answer.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Optional

from ..._agent.command import Command, on_signals, read_config, reload_for_ever, require_libraries
from ..._agent.log import Log
from ..._agent.place import check_places, control_path, host_lock, listen, make_directories, unlink_own
from ..._agent.scrape import serve_metrics
from ..._agent.status import answer_status
from ..._core.host.local_host import LocalHost
from .access import read_credentials
from .loop import Counts, Uncounted
from .messages import AGENT
from .metrics import Metrics
from .settings import RESTART_KEYS, Settings, parse_settings
from .status import status_of, table
from .worker import Worker

# Debian package by Python module.
_METRICS_LIBRARIES = {"prometheus_client": "python3-prometheus-client"}


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """The program; leaves by SystemExit."""
    about = "Keep the nodes' balloons at the size that their targets require."
    Command(AGENT, about, check=_check, run=_run, table=table).main(arguments)


def _check(config: str, directory: str) -> str:
    return _describe(_load(config, directory))


def _load(config: str, directory: str) -> Settings:
    """The settings. Raises when a reconciler could not start with them, leaving aside one that runs already."""
    settings = _read(read_config(AGENT, config), config)
    require_libraries(AGENT, _METRICS_LIBRARIES if settings.metrics is not None else {})
    check_places(AGENT, directory)
    return settings


def _read(text: str, config: str) -> Settings:
    settings = parse_settings(text, name=config)
    read_credentials(settings, LocalHost())
    return settings


def _run(config: str, directory: str) -> None:
    settings = _load(config, directory)
    make_directories(AGENT, directory)
    with host_lock(AGENT, directory):
        asyncio.run(_serve(settings, config, directory))


async def _serve(settings: Settings, config: str, directory: str) -> None:
    log = Log()
    ending, reload = on_signals()
    worker = Worker(settings, LocalHost(), log)
    async with AsyncExitStack() as undo:
        await _answer(worker, config, directory, undo)
        worker.counts = await _metrics(worker, settings, undo)
        log.event("started", pid=os.getpid(), config=config, settings=_describe(settings))
        working: asyncio.Future[object] = asyncio.get_running_loop().run_in_executor(None, worker.run)
        take = partial(_take, worker, settings, config)
        reloading = asyncio.ensure_future(reload_for_ever(AGENT, reload, config, log, take))
        ended: asyncio.Future[object] = asyncio.ensure_future(ending.wait())
        await asyncio.wait([working, ended], return_when=asyncio.FIRST_COMPLETED)
        reloading.cancel()
        log.event("ending")
        worker.end()
        await working
        log.event("ended")


def _take(worker: Worker, started: Settings, config: str, text: str) -> Mapping[str, object]:
    """Reload all settings except those that need a restart."""
    settings = _read(text, config)
    kept = {name: getattr(started, name) for name in RESTART_KEYS}
    changed = [name for name, value in kept.items() if getattr(settings, name) != value]
    worker.take(replace(settings, **kept))
    return {"settings": _describe(settings), "needs_restart": ",".join(changed)}


async def _answer(worker: Worker, config: str, directory: str, undo: AsyncExitStack) -> None:
    """`status`, at the control socket."""
    since = time.monotonic()

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seconds = time.monotonic() - since
        await answer_status(status_of(worker.settings, config, seconds, worker.view(), worker.notes()), writer)

    control = listen(AGENT, control_path(directory))
    undo.callback(control.close)
    server = await asyncio.start_unix_server(answer, sock=control)
    undo.callback(server.close)
    undo.callback(unlink_own, [control])  # before it is closed


async def _metrics(worker: Worker, settings: Settings, undo: AsyncExitStack) -> Counts:
    if settings.metrics is None:
        return Uncounted()
    metrics = Metrics(worker.view, worker.calls)
    server = await serve_metrics(AGENT, metrics.library, metrics.registry, settings.metrics)
    undo.callback(server.close)
    return metrics


def _describe(settings: Settings) -> str:
    nodes = ", ".join(row.name for row in settings.nodes) or "all with a target"
    limits = "slices" if settings.slices else "memory of virtual machines" if settings.vm else "none"
    reserve = "from the kubelets" if settings.reserved is None else str(settings.reserved)
    return (
        f"nodes {nodes}, namespace {settings.namespace or 'that of the balloons'}, limits {limits}, reserve {reserve}"
    )
