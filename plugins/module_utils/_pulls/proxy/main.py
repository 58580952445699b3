# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`ballast-pull-proxy`: the CRI proxy that limits image pulls on a host.

    ballast-pull-proxy --config FILE                   run, in the foreground, until SIGTERM
    ballast-pull-proxy check --config FILE             check FILE, and that a proxy could start with it
    ballast-pull-proxy status --config FILE [--json]   what the running proxy does

Exit status: 0 after SIGTERM, 1 for an unexpected error, 2 for a bad configuration or command line, 3 if it cannot run on this
host, for example because another proxy runs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Optional

from ..._agent.command import Command, on_signals, read_config, reload_for_ever, require_libraries
from ..._agent.place import check_places, control_path, host_lock, make_directories
from .messages import AGENT
from .status import table

if TYPE_CHECKING:
    # Not imported by `status`, which modules run often: these imports would take most of its time.
    import asyncio

    from .server import Server
    from .settings import Settings

# Debian package of each library outside the standard library.
_LIBRARIES = {"grpc": "python3-grpcio", "hpack": "python3-hpack"}
_METRICS_LIBRARIES = {"prometheus_client": "python3-prometheus-client"}


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the program; ends with SystemExit."""
    command = Command(AGENT, "Limit image pulls on this host.", check=_check, run=_run, table=table)
    command.main(arguments)


def _check(config: str, directory: str) -> str:
    return _describe(_read_settings(config, directory))


def _read_settings(config: str, directory: str) -> Settings:
    """The settings, after checking that a proxy could be started with them now."""
    from .settings import parse_settings

    settings = parse_settings(read_config(AGENT, config), name=config)
    require_libraries(AGENT, {**_LIBRARIES, **(_METRICS_LIBRARIES if settings.metrics is not None else {})})
    check_places(AGENT, directory, _sockets(settings))
    return settings


def _sockets(settings: Settings) -> list[str]:
    return [listener.socket for listener in settings.listeners]


def _run(config: str, directory: str) -> None:
    import asyncio

    settings = _read_settings(config, directory)
    make_directories(AGENT, directory, _sockets(settings))
    with host_lock(AGENT, directory):
        asyncio.run(_serve(settings, config, directory))


async def _serve(settings: Settings, config: str, directory: str) -> None:
    import asyncio

    from ..._agent.log import Log
    from .server import Server  # imports what require_libraries has checked
    from .settings import parse_settings

    log = Log()
    ending, reload = on_signals()
    async with Server(settings, config=config, control=control_path(directory), log=log) as server:
        log.event("started", pid=os.getpid(), config=config, settings=_describe(settings))
        for listener in settings.listeners:
            log.event("listening", listener=listener.name, socket=listener.socket, runtime=listener.runtime)

        def take(text: str) -> Mapping[str, object]:
            settings = parse_settings(text, name=config)
            return {"settings": _describe(settings), "needs_restart": ",".join(server.reload(settings))}

        reloading = asyncio.ensure_future(reload_for_ever(AGENT, reload, config, log, take))
        await ending.wait()
        reloading.cancel()
        log.event("draining", **_counts(server.status()), allowed=f"{settings.drain:g}s")
        left = await _drain(server, ending)
        log.event("ended", pulls_broken_off=left)


async def _drain(server: Server, ending: asyncio.Event) -> int:
    """Wait until all pulls have ended, the time is over, or a second signal arrives. Returns the number of pulls in flight."""
    import asyncio

    ending.clear()
    again = asyncio.ensure_future(ending.wait())
    drained = asyncio.ensure_future(server.drain())
    await asyncio.wait([again, drained], return_when=asyncio.FIRST_COMPLETED)
    again.cancel()
    if not drained.done():
        drained.cancel()
        with suppress(asyncio.CancelledError):
            await drained
    return len(server.status()["in_flight"])


def _counts(status: dict[str, Any]) -> dict[str, object]:
    return {key: len(status[key]) for key in ("in_flight", "queued")}


def _describe(settings: Settings) -> str:
    limit = settings.max_in_flight or "no limit"
    names = ", ".join(listener.name for listener in settings.listeners)
    return (
        f"max_in_flight {limit}, on_full {settings.on_full}, join {str(settings.join).lower()}, "
        f"present {settings.present}, order {settings.order}, listeners {names}"
    )
