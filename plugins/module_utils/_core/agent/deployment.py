# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A program of ours as a service of a machine: what is installed, in the order of making, and what is asked of it.

/usr/local/bin/ballast-NAME                  the command
/usr/local/lib/ballast-NAME/                 the program, one file
/etc/ballast/NAME.json                       its settings; JSON is YAML, and needs no PyYAML
/run/ballast-NAME/                           its sockets
/var/log/ballast-NAME/NAME.log               what it tells
STATE_DIR                                    the record of all this
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, Generic, Protocol, TypeVar

from ..cgroup import CGROUP_KINDS, Limits, cgroup
from ..engine import Finding, ResourceEngine
from ..events import Progress
from ..host import Host
from ..kinds import BASE_KINDS, Kind, directory, file
from ..plan import Policy, Resource
from ..program import PROGRAM_KINDS, program, sources_digest
from ..service import SERVICE_KINDS, Service, service_pid, supervisor
from ..shared import SHARED_KINDS, shared_directory
from .identity import Agent

PRESENT, ABSENT = "present", "absent"
CONFIG_DIRECTORY = "/etc/ballast"
PYTHON = "/usr/bin/python3"
_FIND = "import importlib.util as u, sys; print(*[name for name in sys.argv[1:] if u.find_spec(name) is None])"


@dataclass(frozen=True)
class Installation:
    """What of a program is the same on every machine."""

    agent: Agent
    packages: Sequence[str]  # of module_utils, see `program.program`
    main: str
    needed: Mapping[str, str]  # by the name that Python imports, the package of Debian
    parse: Callable[[str, str], object]  # text and name of the file; answers a dataclass, raises what is wrong
    restart_keys: Sequence[str]  # settings that HUP does not change
    # With an underscore, which no name of a lab has: systemd nests slices at dashes, and one called as a lab would hold its nodes.
    cgroup: str
    after: Sequence[str] = ()  # units of systemd
    before: Sequence[str] = ()

    @property
    def kind(self) -> str:
        return self.agent.short

    @property
    def group(self) -> str:
        return self.agent.what

    @property
    def command(self) -> str:
        return f"/usr/local/bin/{self.agent.name}"

    @property
    def library(self) -> str:
        return f"/usr/local/lib/{self.agent.name}"

    @property
    def program(self) -> str:
        return os.path.join(self.library, f"{self.agent.name}.pyz")

    @property
    def config(self) -> str:
        return f"{CONFIG_DIRECTORY}/{self.agent.short}.json"

    @property
    def sockets(self) -> str:
        return f"/run/{self.agent.name}"

    @property
    def logs(self) -> str:
        return f"/var/log/{self.agent.name}"

    @property
    def log(self) -> str:
        return f"{self.logs}/{self.agent.short}.log"

    def sv_dir(self, state_dir: str) -> str:
        return os.path.join(state_dir, "sv")

    def target(self, state_dir: str) -> str:
        """Of the service's resource."""
        return os.path.join(self.sv_dir(state_dir), self.agent.name)

    def missing(self, host: Host) -> dict[str, str]:
        """What Python does not find here: package of Debian by module."""
        names = host.run([PYTHON, "-I", "-c", _FIND, *self.needed], timeout=30).stdout.split()
        return {name: self.needed[name] for name in names}


class Deployment(Protocol):
    """What is asked of the program on one machine. `document` is the content of the file of settings."""

    @property
    def state(self) -> str: ...

    @property
    def state_dir(self) -> str: ...

    @property
    def document(self) -> Mapping[str, Any]: ...

    @property
    def stop_seconds(self) -> int:
        """That it may take to end."""


D = TypeVar("D", bound=Deployment)


class AgentEngine(ResourceEngine[D], Generic[D]):
    policy = Policy.UNDO

    def __init__(self, installation: Installation) -> None:
        from .running import AgentKind

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

    def resources(self, desired: D) -> list[Resource]:
        if desired.state == ABSENT:
            return []
        it, group = self.installation, self.installation.group
        sv_dir = it.sv_dir(desired.state_dir)
        start = f'#!/bin/sh\nexec {PYTHON} -I {it.program} "$@"\n'
        return [
            directory(it.library, group=group),
            program(it.program, packages=it.packages, main=it.main, group=group),
            file(it.command, start, mode=0o755, group=group),
            shared_directory(CONFIG_DIRECTORY, holder=desired.state_dir, group=group),
            directory(it.logs, mode=0o750, group=group),
            directory(it.sockets, mode=0o700, group=group),
            cgroup(it.cgroup, Limits(), group=group),
            directory(sv_dir, group=group),
            # Before the service, which is proven as soon as it is started.
            supervisor(sv_dir, group=group),
            self.running.resource(it.target(desired.state_dir), desired.document, self._service(desired)),
        ]

    def require(self, desired: D, host: Host) -> None:
        missing = {} if desired.state == ABSENT else self.installation.missing(host)
        if missing:
            modules, packages = ", ".join(missing), " ".join(missing.values())
            raise self.installation.agent.error("deploy-packages", modules=modules, packages=packages)

    def verify(self, desired: D, host: Host, progress: Progress) -> list[Finding]:
        return [] if desired.state == ABSENT else self.running.finding(host, progress)

    def report(self, desired: D, host: Host) -> dict[str, object]:
        return self.reported(host, desired.state_dir)

    def read(self, host: Host, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the `_info` twin returns."""
        missing = list(self.installation.missing(host).values())
        return {**self.reported(host, params["state_dir"]), "missing_packages": missing}

    def reported(self, host: Host, state_dir: str) -> dict[str, object]:
        it = self.installation
        target = it.target(state_dir)
        pid = service_pid(host, target) if host.stat(target) else None
        return {
            "command": it.command,
            "config_path": it.config,
            "log": it.log,
            "pid": pid,
            "status": None if pid is None else self.running.status(host),
        }

    def _service(self, desired: D) -> Service:
        it = self.installation
        return Service(
            name=it.agent.name,
            argv=(PYTHON, "-I", it.program, "--config", it.config),
            log=it.log,
            cgroup=f"{it.cgroup}/{it.agent.short.rpartition('-')[2]}",
            config_digest=sources_digest(it.main, it.packages),
            after=tuple(it.after),
            before=tuple(it.before),
            reloads=True,
            stop_seconds=desired.stop_seconds,
        )


def as_text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2) + "\n"


def without_unset(value: Any) -> Any:
    """Options less those that were left out: the defaults are the program's."""
    if isinstance(value, Mapping):
        return {name: without_unset(part) for name, part in value.items() if part is not None}
    return [without_unset(part) for part in value] if isinstance(value, list) else value
