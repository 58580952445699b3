# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""`ballast-service-proxy`: programs a node's Services with the rules of mode nftables, and follows the cluster.

    ballast-service-proxy --config FILE                   run in the foreground until SIGTERM; the rules stay
                          --user NAME                     run as this user with only CAP_NET_ADMIN; must be started as root
                          --hostname-override NODE        use this node name, whatever FILE says, as kube-proxy does
    ballast-service-proxy check --config FILE             check FILE
    ballast-service-proxy status --config FILE [--json]   show what the running program does
    ballast-service-proxy --cleanup                       remove the rules that it made, and nothing else

FILE is a KubeProxyConfiguration. Exit status: 0 after SIGTERM, 2 for a bad configuration or command line, 3 if it cannot run
on this machine (for example because another one is running), 1 for an unexpected error. It never exits because the API
server is unreachable.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Optional

from .._agent.command import Command, Flag, on_signals, read_config, reload_for_ever, require_libraries
from .._agent.place import check_places, control_path, host_lock, listen, make_directories, unlink_own
from .._agent.privileges import CAP_NET_ADMIN, become_user
from .._core.text.errors import BallastError, Problems
from .messages import AGENT
from .status import table

if TYPE_CHECKING:
    import asyncio
    import socket

    from .configuration import Configuration
    from .program import Program

_LIBRARIES = {"prometheus_client": "python3-prometheus-client"}
_ABOUT = "Program the Services of this node with nftables, as kube-proxy does."


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the program; exits with SystemExit."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    name = Flag("--service-proxy-name", "serve only Services whose label service-proxy-name has this value", "NAME")
    node = Flag("--hostname-override", "name of the node, overriding hostnameOverride", "NODE")
    user = Flag("--user", "run as this user with only CAP_NET_ADMIN; start the program as root", "NAME")
    cleanup = Flag("--cleanup", "remove its rules and exit", run=_cleanup)
    Command(AGENT, _ABOUT, check=_check, run=_run, table=table, flags=(name, node, user, cleanup)).main(given)


def _check(config: str, directory: str, **flags: str) -> str:
    configuration = _of_node(_load(config, directory), flags["hostname_override"])
    for warning in configuration.warnings:
        sys.stdout.write(f"{warning.in_one_line}\n")
    return _describe(configuration, flags["service_proxy_name"])


def _load(config: str, directory: str) -> Configuration:
    configuration = _parse(read_config(AGENT, config), config)
    require_libraries(AGENT, _LIBRARIES)
    check_places(AGENT, directory)
    return configuration


def _of_node(configuration: Configuration, name: str) -> Configuration:
    from .configuration import parse_node_name

    problems: list[BallastError] = []
    node_name = parse_node_name(name, problems, path="--hostname-override") if name else configuration.node_name
    Problems.raise_if(problems)
    return replace(configuration, node_name=node_name)


def _parse(text: str, config: str) -> Configuration:
    from .configuration import parse_configuration

    return parse_configuration(text, name=config)


def _run(config: str, directory: str, **flags: str) -> None:
    import asyncio

    node = flags["hostname_override"]
    configuration = _of_node(_load(config, directory), node)
    make_directories(AGENT, directory)
    with host_lock(AGENT, directory):
        control = listen(AGENT, control_path(directory))
        _become(flags["user"])  # only now: the lock and the socket belong to root
        asyncio.run(_serve(configuration, config, node, control, flags["service_proxy_name"]))


def _become(user: str) -> None:
    try:
        if user:
            become_user(user, [CAP_NET_ADMIN])
    except KeyError:
        raise AGENT.error("user", user=user, found="this user does not exist") from None
    except OSError as error:
        raise AGENT.error("user", user=user, found=error.strerror or str(error)) from None


async def _serve(
    configuration: Configuration, config: str, node: str, control: socket.socket, service_proxy_name: str
) -> None:
    import asyncio

    from .._agent.log import Log
    from .program import Program

    log = Log()
    ending, reload = on_signals()
    program = Program(configuration, service_proxy_name, log)
    try:
        for warning in configuration.warnings:
            log.event("configuration", warning=warning.in_one_line)
        log.event("started", pid=os.getpid(), config=config, settings=_describe(configuration, service_proxy_name))
        program.start()
        await _answer_status(program, config, control)
        take = partial(_take, program, config, node)
        reloading = asyncio.ensure_future(reload_for_ever(AGENT, reload, config, log, take))
        await program.wait(ending)
        reloading.cancel()
        unlink_own([control])
    finally:
        program.close()
    log.event("ended")


def _take(program: Program, config: str, node: str, text: str) -> Mapping[str, object]:
    configuration = _of_node(_parse(text, config), node)
    restart = program.reload(configuration)
    return {"settings": _describe(configuration, program.service_proxy_name), "needs_restart": ",".join(restart)}


async def _answer_status(program: Program, config: str, control: socket.socket) -> None:
    import asyncio

    from .._agent.status import answer_status

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answer_status({"config": config, **program.status()}, writer)

    # Not start_unix_server, which in Python 3.13 accesses the socket's file: only root may.
    await asyncio.start_server(answer, sock=control)


def _describe(configuration: Configuration, service_proxy_name: str) -> str:
    served = f"service-proxy-name {service_proxy_name}" if service_proxy_name else "all Services"
    return f"node {configuration.node_name}, {served}"


def _cleanup(directory: str) -> None:
    from .._core.host.local_host import LocalHost
    from .kernel import remove_tables

    make_directories(AGENT, directory)
    with host_lock(AGENT, directory):
        removed = remove_tables(LocalHost())
    sys.stdout.write(f"removed: {', '.join(removed) or 'nothing, as there were no rules of it'}\n")
