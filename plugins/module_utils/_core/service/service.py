# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A supervised service as a value, and what a supervisor does with it. `services.py` has the kinds of resource.

A service's resource has the target `SV_DIR/NAME`: for runit that is its directory; for systemd the unit is `NAME.service`.
The value is the complete definition, stored in `SV_DIR/NAME/ballast.json`, so that any change of it, or of the files behind
`config_digest`, restarts the service. The file is removed before a change and written after it: a service without it was
left half changed by a killed run.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Optional, Protocol

from ..engine.kinds import fields
from ..engine.plan import ABSENT, Resource, Value
from ..host.host import Host, Process
from ..text.errors import Bug, UserError
from ..text.json_text import parse_json
from ..text.run_messages import MESSAGES as RUN_MESSAGES
from ..text.service_messages import MESSAGES
from .sandbox import Sandbox

STOP_SECONDS = 20  # a kube-apiserver with open watches needs its grace period
_INCOMPLETE = ("/incomplete",)
_NAME = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)
_PROGRAM = re.compile(r"/[A-Za-z0-9/_.+:,@~ -]+", re.ASCII)
_ENV_FILE_QUOTED = re.compile(r"['\\\x00-\x1f\x7f]")
_ENV_FILE_LINE = re.compile(r"^([A-Za-z_][A-Za-z0-9_]*)='([^'\n]*)'$", re.ASCII | re.MULTILINE)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@dataclass(frozen=True)
class Service:
    name: str  # "ballast-lab-n1-kubelet"
    argv: tuple[str, ...]  # argv[0] is an absolute path
    log: str  # file to which its output is appended
    cgroup: str  # its own leaf, without the hierarchy: "ballast-lab-n1/kubelet"; under systemd its parent is the slice
    config_digest: str = ""
    env: tuple[tuple[str, str], ...] = ()
    env_file: Optional[str] = (
        None  # more variables, as `env_file_text` writes them: secrets, which must not appear on a command line
    )
    netns: Optional[str] = None  # path of a network namespace
    mountns: Optional[str] = None  # path of a mount namespace
    keep_children: bool = False  # for containerd: its shims outlive it
    after: tuple[str, ...] = ()  # systemd units that are started before it; a missing one is no error
    before: tuple[str, ...] = ()  # systemd units that are started after it
    reloads: bool = False  # it reloads its settings on SIGHUP
    stop_seconds: int = STOP_SECONDS  # how long it may take to end after SIGTERM
    sandbox: Optional[Sandbox] = None  # None: it may do everything that root may; see the table in sandbox.py

    def __post_init__(self) -> None:
        """Refuse what a unit file or env(1) cannot represent; everything else is quoted."""
        parent, _slash, leaf = self.cgroup.partition("/")
        paths = [path for path in (self.log, self.env_file, self.netns, self.mountns) if path is not None]
        faults = [
            *([] if _NAME.fullmatch(self.name) else [f"name {self.name!r}"]),
            *([] if self.argv and _PROGRAM.fullmatch(self.argv[0]) else [f"program {self.argv[:1]!r}"]),
            *([] if _NAME.fullmatch(parent) and _NAME.fullmatch(leaf) else [f"cgroup {self.cgroup!r}"]),
            *(f"variable {name!r}" for name, _text in self.env if not _VARIABLE.fullmatch(name)),
            *(f"path {path!r}" for path in paths if not path.startswith("/") or not path.isprintable()),
            *(f"unit {unit!r}" for unit in (*self.after, *self.before) if not _NAME.fullmatch(unit)),
            *(self.sandbox.faults() if self.sandbox is not None else []),
            *(f"text {text!r}" for text in (*self.argv, *(text for _name, text in self.env)) if "\0" in text),
        ]
        if faults:
            raise UserError(**MESSAGES.texts("core-service-text", name=self.name, faults=", ".join(faults)))

    def as_value(self, *, running: bool = True) -> dict[str, Value]:
        """The value of its resource: all fields, as JSON returns them, and `running`."""
        # Through JSON, so that it compares equal with what is read back.
        value: dict[str, Value] = json.loads(json.dumps(asdict(self)))
        return {**value, "running": running}

    @staticmethod
    def from_value(value: Value) -> Service:
        """The service of such a value. Fields that an earlier version did not write get their defaults."""
        row: dict[str, Any] = {name: part for name, part in fields(value).items() if name != "running"}
        row["argv"] = tuple(row["argv"])
        row["env"] = tuple((name, text) for name, text in row["env"])
        row.update({name: tuple(row.get(name, ())) for name in ("after", "before")})
        sandbox = row.get("sandbox")
        row["sandbox"] = None if sandbox is None else Sandbox.from_value(sandbox)
        return Service(**row)


def env_file_text(env: Sequence[tuple[str, str]]) -> str:
    """Lines NAME='value', which systemd.exec(5) and a shell read alike. Bug for a value that those quotes cannot hold."""
    if any(_ENV_FILE_QUOTED.search(text) or not _VARIABLE.fullmatch(name) for name, text in env):
        expected = "variables that an environment file can contain"
        raise Bug(**RUN_MESSAGES.texts("core-value", expected=expected, value="others"))  # the values may be secrets
    return "".join(f"{name}='{text}'\n" for name, text in env)


def parse_env_file(text: str) -> tuple[tuple[str, str], ...]:
    """Parse what `env_file_text` wrote; lines of another form are ignored."""
    return tuple((match[1], match[2]) for match in _ENV_FILE_LINE.finditer(text))


class Supervisor(Protocol):
    """Starts the services of a host and keeps them running: `runit.Runit` or `systemd.Systemd`."""

    def read(self, host: Host, target: str) -> Value:
        """`Service.as_value()`, ABSENT, or `incomplete()` if a part is missing or differs."""

    def write(self, host: Host, target: str, service: Service, *, running: bool, definition_known: bool) -> None:
        """Write the files of the service, unless they are known to be its own already, and start or stop it. A changed
        service that runs is restarted."""

    def remove(self, host: Host, target: str) -> None:
        """Stop the service and remove its files."""

    def process(self, host: Host, target: str) -> Optional[Process]:
        """Its main process; None if it is not running."""

    def is_to_run(self, host: Host, target: str) -> bool:
        """See `services.is_to_run`."""

    def reload(self, host: Host, target: str) -> None:
        """Send SIGHUP."""


def service(sv_dir: str, definition: Service, *, running: bool, group: str) -> Resource:
    return Resource(
        kind="service",
        target=os.path.join(sv_dir, definition.name),
        value=definition.as_value(running=running),
        title=f"service {definition.name}",
        group=group,
    )


def supervisor(sv_dir: str, *, group: str) -> Resource:
    """The supervisor of the services in `sv_dir`. Under systemd there is nothing to make."""
    return Resource(
        kind="supervisor", target=sv_dir, value={"running": True}, title=f"supervisor of {sv_dir}", group=group
    )


def definition_path(target: str) -> str:
    return os.path.join(target, "ballast.json")


def write_definition(host: Host, target: str, service: Service) -> None:
    definition = {name: part for name, part in service.as_value().items() if name != "running"}
    host.write(definition_path(target), json.dumps(definition).encode())


def stop_seconds(host: Host, target: str) -> int:
    """The `stop_seconds` of the service as defined now; the default if its definition is gone."""
    data = host.read(definition_path(target))
    return STOP_SECONDS if data is None else Service.from_value(parse_json(data)).stop_seconds


def incomplete(target: str) -> Value:
    """The value of a service of which only a part exists. It equals no value that is ever wanted."""
    nothing = Service(name=os.path.basename(target), argv=_INCOMPLETE, log="/dev/null", cgroup="none/none")
    return nothing.as_value(running=False)


def is_incomplete(value: Value) -> bool:
    """Whether this value means that only a part of the service exists."""
    return value != ABSENT and Service.from_value(value).argv == _INCOMPLETE
