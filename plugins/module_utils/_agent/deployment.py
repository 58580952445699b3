# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Installs a program of the project as a service on a machine, and removes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Generic, Optional, Protocol, TypeVar

from .._core.engine.context import Context
from .._core.engine.engine import Finding, ResourceEngine
from .._core.engine.kinds import BASE_KINDS, Kind, directory, file
from .._core.engine.plan import Policy, Resource, State
from .._core.engine.shared_directory import SHARED_KINDS, shared_directory
from .._core.host.host import Host
from .._core.service.cgroup import CGROUP_KINDS, Limits, cgroup
from .._core.service.service import Service, supervisor
from .._core.service.services import SERVICE_KINDS, service_pid
from .._core.text.packages import install_command, read_distribution
from .installation import CONFIG_DIRECTORY, PYTHON, Installation
from .program import PROGRAM_KINDS, program, sources_digest
from .running import AgentKind

PRESENT, ABSENT = "present", "absent"


class Deployment(Protocol):
    """The request for the program on one machine. `state` is PRESENT or ABSENT; `document` is the content of its settings
    file."""

    @property
    def state(self) -> str: ...

    @property
    def state_dir(self) -> str: ...

    @property
    def document(self) -> Mapping[str, Any]: ...

    @property
    def stop_seconds(self) -> int:
        """How long it may take to end."""


D = TypeVar("D", bound=Deployment)


class AgentEngine(ResourceEngine[D], Generic[D]):
    policy = Policy.UNDO

    def __init__(self, installation: Installation) -> None:
        self.name = installation.agent.short
        self.installation = installation
        self.running = AgentKind(installation)
        self.kinds: Mapping[str, Kind] = {
            **BASE_KINDS,
            **CGROUP_KINDS,
            **PROGRAM_KINDS,
            **SERVICE_KINDS,
            **SHARED_KINDS,
            installation.kind: self.running,
        }

    def wanted(self, ctx: Context[D]) -> list[Resource]:
        desired = ctx.desired
        return [] if desired.state == ABSENT else [*self.parts(desired.state_dir), self.running_program(desired)]

    def parts(self, state_dir: str) -> list[Resource]:
        """Everything but the running program, in creation order."""
        installation, group = self.installation, self.installation.group
        sv_dir = installation.sv_dir(state_dir)
        start = f'#!/bin/sh\nexec {PYTHON} -I {installation.program} "$@"\n'
        return [
            directory(installation.library, group=group),
            program(installation.program, packages=installation.packages, main=installation.main, group=group),
            file(installation.command, start, mode=0o755, group=group),
            shared_directory(CONFIG_DIRECTORY, holder=state_dir, group=group),
            directory(installation.logs, mode=0o750, group=group),
            directory(installation.sockets, mode=0o700, group=group),
            cgroup(installation.cgroup, Limits(), group=group),
            directory(sv_dir, group=group),
            # Before the service, which is verified as soon as it is started.
            supervisor(sv_dir, group=group),
        ]

    def running_program(self, desired: D, *, netns: Optional[str] = None) -> Resource:
        """The running program with its settings file. `netns` is the path of the network namespace it runs in, if that is
        not the machine's."""
        service = replace(self._service(desired), netns=netns)
        return self.running.resource(self.installation.target(desired.state_dir), desired.document, service)

    def require(self, ctx: Context[D], state: State) -> None:
        missing = {} if ctx.desired.state == ABSENT else self.installation.missing(ctx.host)
        if missing:
            modules = ", ".join(missing)
            command = install_command(read_distribution(ctx.host), missing.values())
            raise self.installation.agent.error("deploy-packages", modules=modules, command=command)

    def verify(self, ctx: Context[D]) -> list[Finding]:
        return [] if ctx.desired.state == ABSENT else self.running.finding(ctx.host, ctx.progress)

    def report(self, ctx: Context[D]) -> dict[str, object]:
        return self.describe(ctx.host, ctx.desired.state_dir)

    def read(self, host: Host, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """The return values of the `_info` module."""
        missing = list(self.installation.missing(host).values())
        return {**self.describe(host, params["state_dir"]), "missing_packages": missing}

    def describe(self, host: Host, state_dir: str) -> dict[str, object]:
        """What the module and its `_info` twin return. `pid` and `status` are None if the program does not run or
        respond."""
        installation = self.installation
        target = installation.target(state_dir)
        pid = service_pid(host, target) if host.stat(target) else None
        return {
            "command": installation.command,
            "config_path": installation.config,
            "log": installation.log,
            "pid": pid,
            "status": None if pid is None else self.running.status(host),
        }

    def arguments(self, desired: D) -> tuple[str, ...]:
        """Arguments of its command line, besides the settings file."""
        return ()

    def _service(self, desired: D) -> Service:
        installation = self.installation
        return Service(
            name=installation.agent.name,
            argv=(PYTHON, "-I", installation.program, "--config", installation.config, *self.arguments(desired)),
            log=installation.log,
            cgroup=f"{installation.cgroup}/{installation.agent.short.rpartition('-')[2]}",
            config_digest=sources_digest(installation.main, installation.packages),
            after=tuple(installation.after),
            before=tuple(installation.before),
            reloads=True,
            stop_seconds=desired.stop_seconds,
            sandbox=installation.sandbox_for(desired.document),
        )
