# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a program of the project is installed on a machine, and what it needs there.

/usr/local/bin/ballast-NAME                  the command
/usr/local/lib/ballast-NAME/                 the program, one file
/etc/ballast/NAME.json                       its settings; JSON is valid YAML and needs no PyYAML
/run/ballast-NAME/                           its sockets
/var/log/ballast-NAME/NAME.log               its log
STATE_DIR                                    the journal of all of these
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Callable

from .._core.host.host import Host
from .._core.service.sandbox import Sandbox
from .._core.text.packages import UNKNOWN, package_names, read_distribution
from .identity import Agent

CONFIG_DIRECTORY = "/etc/ballast"
PYTHON = "/usr/bin/python3"
_FIND = "import importlib.util as u, sys; print(*[name for name in sys.argv[1:] if u.find_spec(name) is None])"


@dataclass(frozen=True)
class Installation:
    """The parts of a program's installation that are the same on every machine."""

    agent: Agent
    packages: Sequence[str]  # of module_utils, see `program.program`
    main: str
    needed: Mapping[str, str]  # Python module to Debian package
    parse: Callable[[str, str], object]  # (text, name of the file) to a dataclass; raises errors of the settings
    restart_keys: Sequence[str]  # settings that SIGHUP does not change
    # With an underscore, which no lab name has: systemd nests slices at dashes, and a slice with a lab's name would contain
    # that lab's nodes.
    cgroup: str
    after: Sequence[str] = ()  # systemd units
    before: Sequence[str] = ()
    sandbox: Callable[[Mapping[str, Any]], Sandbox] = lambda _document: Sandbox()  # from its settings
    config_mode: int = 0o600

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
        """The target of the service's resource."""
        return os.path.join(self.sv_dir(state_dir), self.agent.name)

    def sandbox_for(self, document: Mapping[str, Any]) -> Sandbox:
        """The sandbox, extended so that it can create its sockets and read its settings."""
        sandbox = self.sandbox(document)
        return replace(sandbox, writes=(self.sockets, *sandbox.writes), reads=(self.config, *sandbox.reads))

    def missing(self, host: Host) -> dict[str, str]:
        """Python modules missing on this machine, each with its package as this distribution names it."""
        names = host.run([PYTHON, "-I", "-c", _FIND, *self.needed], timeout=30).stdout.split()
        distribution = read_distribution(host) if names else UNKNOWN
        return {name: package_names(distribution, [self.needed[name]])[0] for name in names}


def as_text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2) + "\n"


def without_unset(value: Any) -> Any:
    """Options without those that were omitted, for which the program has defaults."""
    if isinstance(value, Mapping):
        return {name: without_unset(part) for name, part in value.items() if part is not None}
    return [without_unset(part) for part in value] if isinstance(value, list) else value
