# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the kernel says of processes: their commands, and of one how old it is and what its threads do (proc_pid_stat(5))."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple, Optional

from .host import Host

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_STATE, _SESSION, _START = 0, 3, 19  # fields of `stat`, counted from the one after the name


class Thread(NamedTuple):
    state: str  # R, S, D, Z, X, ...
    session: int


def commands(host: Host) -> Iterator[tuple[int, list[str]]]:
    """Every process with the words of its command; `[""]` for one of the kernel, and for one that has ended."""
    for name in host.listdir("/proc"):
        if name.isdigit():
            yield int(name), (host.read(f"/proc/{name}/cmdline") or b"").decode(errors="replace").split("\0")


def age_seconds(host: Host, pid: int) -> Optional[float]:
    """How long ago it was started; None where it is gone."""
    found, uptime = _after_name(host, f"/proc/{pid}/stat"), (host.read("/proc/uptime") or b"").split()
    if len(found) <= _START or not uptime:
        return None
    return float(uptime[0]) - int(found[_START]) / _TICKS_PER_SECOND


def threads(host: Host, pid: int) -> list[Thread]:
    """Each that there is; none where the process is gone."""
    place = f"/proc/{pid}/task"
    rows = [_after_name(host, f"{place}/{name}/stat") for name in host.listdir(place)]
    return [Thread(row[_STATE], int(row[_SESSION])) for row in rows if len(row) > _SESSION]


def _after_name(host: Host, path: str) -> list[str]:
    # The command's name, in parentheses, may hold anything, a parenthesis too.
    return (host.read(path) or b"").decode(errors="replace").rpartition(")")[2].split()
