# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`ballast-pull-proxy`: the CRI proxy that limits image pulls on a host.

    ballast-pull-proxy --config FILE                   run, in the foreground, until SIGTERM
    ballast-pull-proxy check --config FILE             say whether FILE is in order
    ballast-pull-proxy status --config FILE [--json]   what the running proxy does

Exit status: 0 after SIGTERM, 2 for a bad configuration or command line, 3 when this host does not let it run, which is so
when another proxy does, 1 for what it did not expect.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Optional

from ..._core.errors import BallastError, Problems
from .log import Log
from .messages import MESSAGES
from .place import check_places, control_path, host_lock, make_directories, run_directory
from .settings import Settings, parse_settings
from .status import show_status

if TYPE_CHECKING:
    from .server import Server

_CONFIG_BYTES = 1024 * 1024
# Debian's package of each that is not Python's own.
_LIBRARIES = {"grpc": "python3-grpcio"}
_METRICS_LIBRARIES = {"prometheus_client": "python3-prometheus-client"}


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """The program; leaves by SystemExit."""
    asked = _parse(arguments)
    try:
        directory = run_directory(os.environ)
        if asked.command == "status":
            show_status(directory, as_json=asked.json)
        elif asked.command == "check":
            settings = _checked(asked.config, directory)
            sys.stdout.write(f"{asked.config}: in order: {_told(settings)}\n")
        else:
            _run(asked.config, directory)
    except BallastError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:  # whoever read the table has seen enough
        sys.stderr.close()
        raise SystemExit(1) from None
    raise SystemExit(0)


def _parse(arguments: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="ballast-pull-proxy", description="Limit image pulls on this host.")
    parser.add_argument("command", nargs="?", choices=["check", "status"], help="without one, the proxy runs")
    parser.add_argument("--config", required=True, metavar="FILE", help="the proxy's configuration, YAML")
    parser.add_argument("--json", action="store_true", help="status as JSON")
    asked = parser.parse_args(arguments)
    if asked.json and asked.command != "status":
        parser.error("--json belongs to status")
    return asked


def _checked(config: str, directory: str) -> Settings:
    """The settings, when a proxy could be started with them now, if none runs."""
    settings = _read(config)
    _require_libraries(settings)
    check_places(settings, directory)
    return settings


def _read(config: str) -> Settings:
    try:
        with open(config, "rb") as file:
            data = file.read(_CONFIG_BYTES + 1)
        text = data.decode()
    except OSError as error:
        raise MESSAGES.error("pulls-config", path=config, found=error.strerror or "") from None
    except UnicodeDecodeError:
        raise MESSAGES.error("pulls-config", path=config, found="it is not UTF-8") from None
    if len(data) > _CONFIG_BYTES:
        raise MESSAGES.error("pulls-config", path=config, found=f"it has more than {_CONFIG_BYTES} bytes")
    return parse_settings(text, name=config)


def _require_libraries(settings: Settings) -> None:
    wanted = {**_LIBRARIES, **(_METRICS_LIBRARIES if settings.metrics is not None else {})}
    problems = []
    for module, package in wanted.items():
        try:
            importlib.import_module(module)
        except ImportError as error:
            problems.append(MESSAGES.error("pulls-library", module=module, package=package, found=str(error)))
    if problems:
        raise problems[0] if len(problems) == 1 else Problems(problems)


def _run(config: str, directory: str) -> None:
    settings = _checked(config, directory)
    make_directories(settings, directory)
    with host_lock(directory):
        asyncio.run(_serve(settings, config, directory))


async def _serve(settings: Settings, config: str, directory: str) -> None:
    from .server import Server  # needs what _require_libraries looked for

    log = Log()
    loop = asyncio.get_running_loop()
    ending, reload = asyncio.Event(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.set)
    loop.add_signal_handler(signal.SIGHUP, reload.set)
    async with Server(settings, config=config, control=control_path(directory), log=log) as server:
        log.event("started", pid=os.getpid(), config=config, settings=_told(settings))
        for listener in settings.listeners:
            log.event("listening", listener=listener.name, socket=listener.socket, runtime=listener.runtime)
        reloading = loop.create_task(_reload_for_ever(server, reload, config, log))
        await ending.wait()
        reloading.cancel()
        log.event("draining", **_counts(server.status()), allowed=f"{settings.drain:g}s")
        left = await _drain(server, ending)
        log.event("ended", pulls_broken_off=left)


async def _drain(server: Server, ending: asyncio.Event) -> int:
    """The number of pulls that had not ended in time, or when a second signal came."""
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


async def _reload_for_ever(server: Server, asked: asyncio.Event, config: str, log: Log) -> None:
    while True:
        await asked.wait()
        asked.clear()
        try:
            settings = _read(config)
        except BallastError as error:
            problems = error.problems if isinstance(error, Problems) else (error,)
            told = "; ".join(problem.in_one_line for problem in problems)
            log.event("reload-refused", config=config, error=told, kept="the settings that were in effect")
            continue
        kept = server.reload(settings)
        log.event("reloaded", config=config, settings=_told(settings), needs_restart=",".join(kept))


def _counts(status: dict[str, Any]) -> dict[str, object]:
    return {key: len(status[key]) for key in ("in_flight", "queued")}


def _told(settings: Settings) -> str:
    limit = settings.max_in_flight or "no limit"
    names = ", ".join(listener.name for listener in settings.listeners)
    return (
        f"max_in_flight {limit}, on_full {settings.on_full}, join {str(settings.join).lower()}, "
        f"present {settings.present}, order {settings.order}, listeners {names}"
    )
