# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The processes of a control plane: their command lines and versions."""

from __future__ import annotations

from typing import Optional

from ..._core.host.host import Host, Process
from ..._core.host.processes import read_command
from ..._core.service.services import service_process
from ..._core.text.errors import Unavailable
from ..profiles.profiles import Flag
from ..record import Member


def read_argv(host: Host, member: Member) -> tuple[str, ...]:
    """The command line of the process that runs; empty while none does."""
    running = service_process(host, member.service)
    return () if running is None else tuple(read_command(host, running.id))


def parse_flags(argv: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The values of `--name=value` by name, in order, since a list may be spread over several flags. A flag without a value
    is true, as in Go's flag and pflag."""
    values: dict[str, tuple[str, ...]] = {}
    for word in argv[1:]:
        name, equals, value = word.lstrip("-").partition("=")
        values[name] = (*values.get(name, ()), value if equals else "true")
    return values


def has_flag(argv: tuple[str, ...], flag: Flag) -> bool:
    """Whether the command line has the flag, also in the form `-name value` of the load balancer."""
    return flag.value in parse_flags(argv).get(flag.name, ()) or f"-{flag.name} {flag.value}".strip() in " ".join(argv)


def read_program_version(host: Host, running: Optional[Process]) -> Optional[str]:
    """The version that the program of a running process reports. The file at its path may have been replaced."""
    if running is None:
        return None
    try:
        done = host.run_program(running.id, ["--version"], timeout=30, check=False)
    except Unavailable:  # the process has ended meanwhile
        return None
    lines = done.stdout.splitlines()
    version = lines[0].rpartition(" ")[2].lstrip("v") if lines else ""
    return version if done.status == 0 and version[:1].isdigit() else None
