# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the process that listens on a runtime's unix socket."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Optional

from ..._core.host.host import KERNEL_LIMIT, Host, Process
from ..._core.host.processes import is_of_root, list_processes, real_path

_ACCEPTS = 0x10000  # a flag of listening unix sockets: __SO_ACCEPTCON, include/uapi/linux/net.h


def find_unix_listener(host: Host, path: str, *, near: int) -> Optional[Process]:
    """The process of root that accepts connections to this unix socket; None when there is none. `near` is the pid of a process in the
    listener's network namespace, as the kernel lists the sockets of each namespace separately. A socket's name may hold a line break,
    and so look like the row of another socket: therefore the owner decides. Process 1 also holds sockets of socket units, so it
    counts last."""
    beside = host.process(near)
    listed = "/proc/net/unix" if beside is None or beside.own_network else f"/proc/{near}/net/unix"
    text = (host.read(listed, limit=KERNEL_LIMIT) or b"").decode(errors="replace")
    place = real_path(host, path)
    links = {f"socket:[{inode}]" for inode, bound in _unix_listeners(text) if real_path(host, bound) == place}
    if not links:
        return None
    of_root = (process for process in list_processes(host) if is_of_root(process))
    holders = (process for process in of_root if _holds(host, process.pid, links))
    return min(holders, key=lambda process: (process.pid == 1, process.pid), default=None)


def _unix_listeners(text: str) -> Iterator[tuple[str, str]]:
    """Inode and path of each unix socket with a path that listens, from /proc/net/unix."""
    for line in text.splitlines()[1:]:
        words = line.split(maxsplit=7)
        try:
            if len(words) == 8 and words[7].startswith("/") and int(words[3], 16) & _ACCEPTS:
                yield words[6], words[7]
        except ValueError:
            continue


def _holds(host: Host, pid: int, links: Container[str]) -> bool:
    place = f"/proc/{pid}/fd"
    return any(host.readlink(f"{place}/{name}") in links for name in host.listdir(place))
