# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command line of a long-running program.

    NAME --config FILE                   run in the foreground until SIGTERM
    NAME check --config FILE             check FILE
    NAME status --config FILE [--json]   show what the running program does

Exit status: 0 after SIGTERM, 2 for a bad configuration or command line, 3 if it cannot run on this machine (for example
because another one is running), 1 for an unexpected error.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Optional

from .._core.host.bounded import read_file
from .._core.text.errors import BallastError, HostError, Problems
from .identity import Agent
from .place import run_directory
from .status import show_status

if TYPE_CHECKING:
    import asyncio  # slow to import compared with the run time of `status`, which modules call

    from .log import Log

_CONFIG_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Flag:
    """An option of one program. Either its value is passed to `check` and `run` by the flag's name, "" if it is not given;
    or `run` is called instead of those, without a configuration, with the directory of the program's sockets."""

    name: str
    help: str
    metavar: str = ""
    run: Optional[Callable[[str], None]] = None

    @property
    def key(self) -> str:
        return self.name.lstrip("-").replace("-", "_")


@dataclass(frozen=True)
class Command:
    """`check` and `run` get the path of the configuration, the directory of the program's sockets, and the values of
    `flags`."""

    agent: Agent
    about: str
    check: Callable[..., str]  # returns a description of a valid configuration
    run: Callable[..., None]
    table: Callable[[dict[str, Any]], str]
    flags: Sequence[Flag] = ()

    def main(self, arguments: Optional[Sequence[str]] = None) -> None:
        """Run; exits with SystemExit."""
        options = self._parse(arguments)
        try:
            directory = run_directory(self.agent, os.environ)
            alone = [flag.run for flag in self.flags if flag.run is not None and getattr(options, flag.key)]
            values = {flag.key: getattr(options, flag.key) for flag in self.flags if flag.run is None}
            if alone:
                alone[0](directory)
            elif options.command == "status":
                show_status(self.agent, directory, self.table, as_json=options.json)
            elif options.command == "check":
                sys.stdout.write(f"{options.config}: valid: {self.check(options.config, directory, **values)}\n")
            else:
                self.run(options.config, directory, **values)
        except BallastError as error:
            sys.stderr.write(f"{error}\n")
            raise SystemExit(error.exit_code) from None
        except KeyboardInterrupt:
            raise SystemExit(130) from None
        except BrokenPipeError:  # the reader of the table has closed it
            sys.stderr.close()
            raise SystemExit(1) from None
        raise SystemExit(0)

    def _parse(self, arguments: Optional[Sequence[str]]) -> argparse.Namespace:
        parser = argparse.ArgumentParser(prog=self.agent.name, description=self.about)
        parser.add_argument("command", nargs="?", choices=["check", "status"], help="without a command, it runs")
        parser.add_argument("--config", metavar="FILE", help="the configuration, YAML or JSON")
        parser.add_argument("--json", action="store_true", help="status as JSON")
        for flag in self.flags:
            if flag.run is None:
                parser.add_argument(flag.name, default="", metavar=flag.metavar, help=flag.help)
            else:
                parser.add_argument(flag.name, action="store_true", help=flag.help)
        options = parser.parse_args(arguments)
        if options.config is None and not any(flag.run and getattr(options, flag.key) for flag in self.flags):
            parser.error("the following arguments are required: --config")
        if options.json and options.command != "status":
            parser.error("--json works only with status")
        return options


def read_config(agent: Agent, path: str) -> str:
    """The text of the configuration. The program's error `config` if the file cannot be read, is too large or is not
    UTF-8."""
    try:
        text = read_file(path, limit=_CONFIG_BYTES).decode()
    except HostError:
        raise agent.error("config", path=path, found=f"it has more than {_CONFIG_BYTES} bytes") from None
    except OSError as error:
        raise agent.error("config", path=path, found=error.strerror or "") from None
    except UnicodeDecodeError:
        raise agent.error("config", path=path, found="it is not UTF-8") from None
    return text


def require_libraries(agent: Agent, libraries: Mapping[str, str]) -> None:
    """Check that Python modules can be imported. `libraries` maps modules to Debian packages. All missing ones are reported
    together."""
    problems = []
    for module, package in libraries.items():
        try:
            importlib.import_module(module)
        except ImportError as error:
            problems.append(agent.error("library", module=module, package=package, found=str(error)))
    if problems:
        raise problems[0] if len(problems) == 1 else Problems(problems)


def on_signals() -> tuple[asyncio.Event, asyncio.Event]:
    """Two events: set by SIGTERM and SIGINT, and by SIGHUP."""
    import asyncio

    ending, reload = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.set)
    loop.add_signal_handler(signal.SIGHUP, reload.set)
    return ending, reload


async def reload_for_ever(
    agent: Agent, requested: asyncio.Event, config: str, log: Log, take: Callable[[str], Mapping[str, object]]
) -> None:
    """Reload on each request. `take` gets the text of the file and returns fields for the log; if it refuses the text,
    nothing changes."""
    while True:
        await requested.wait()
        requested.clear()
        try:
            fields = take(read_config(agent, config))
        except BallastError as error:
            faults = "; ".join(problem.in_one_line for problem in Problems.of(error))
            log.event("reload-refused", config=config, error=faults, kept="the settings that were in effect")
            continue
        log.event("reloaded", config=config, **fields)
