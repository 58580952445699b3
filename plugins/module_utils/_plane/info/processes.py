# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The processes of a control plane: what they were told when they were started, and what they are."""

from __future__ import annotations

from typing import Optional

from ..._core.errors import Unavailable
from ..._core.host import Host
from ..._core.service import service_pid
from ..record import Member


def running_argv(host: Host, member: Member) -> tuple[str, ...]:
    """The command line of the process that runs; empty while none does."""
    pid = service_pid(host, member.service)
    data = None if pid is None else host.read(f"/proc/{pid}/cmdline")
    return tuple(word.decode(errors="replace") for word in (data or b"").split(b"\0")[:-1])


def options(argv: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The values of `--name=value` by name, in order: a list may come in several flags. A flag without a value is true,
    as pflag and flag of Go take it."""
    found: dict[str, tuple[str, ...]] = {}
    for word in argv[1:]:
        name, equals, value = word.lstrip("-").partition("=")
        found[name] = (*found.get(name, ()), value if equals else "true")
    return found


def program_version(host: Host, pid: Optional[int]) -> Optional[str]:
    """What the program that a process was started from says that it is: the file may be another one by now."""
    if pid is None:
        return None
    try:
        done = host.run([f"/proc/{pid}/exe", "--version"], timeout=30, check=False)
    except Unavailable:  # it has ended meanwhile
        return None
    lines = done.stdout.splitlines()
    said = lines[0].rpartition(" ")[2].lstrip("v") if lines else ""
    return said if done.status == 0 and said[:1].isdigit() else None
