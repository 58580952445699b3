# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who owns a process? Its user, executable and cgroup decide, as the kernel reports them; never its command line or name,
which any user's process can choose.

    user        all its uids are one that is root's or ours, in our own user namespace: only root can start such a process
    program     the executable it was started from
    service     the systemd unit whose main process it is, in that unit's cgroup; or the child of a directory's runsv
    pod         the uid of the pod in whose cgroup it is; the API knows which pod that is
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterator
from typing import NamedTuple, Optional

from ..text.errors import HostError
from .host import Host, Process, ProcessId

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_STATE, _SESSION, _START = 0, 3, 19  # fields of `stat`, counted from the one after the command name
# uids of the programs that we start as separate users (_vm/confine.py), from a range that nothing allocates. Source:
# systemd, docs/UIDS-GIDS.md.
OWN_UIDS = range(0x70000000, 0x80000000)
_ROOT = 0
_DELETED = " (deleted)"  # follows the path of an executable whose file was replaced or removed
_BUSYBOX = "busybox"  # may contain runit's programs too
_LINKS = 40
STARTED_FOR = "BALLAST_STARTED_FOR"  # environment variable of a process that starts modules: the pid of the Ansible run
# Names that the kubelet uses below its cgroupRoot: kubepods/QOS/podUID (cgroupfs),
# PREFIX-kubepods.slice/.../PREFIX-kubepods-QOS-podUID.slice (systemd, with _ for -). The uid of a static pod is a digest.
# Source: kubelet/cm/cgroup_manager_linux.go.
_PODS = re.compile(r"kubepods|(?:[^/]+-)?kubepods\.slice")
_POD = re.compile(
    r"(?:[^/]*-)?pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?", re.ASCII
)
_QOS = re.compile(r"(?:besteffort|burstable)|[^/]*kubepods-(?:besteffort|burstable)\.slice")
_USERS = re.compile(r"user\.slice|user@.*")  # systemd delegates these cgroups to users, who may divide them


class Thread(NamedTuple):
    state: str  # R, S, D, Z, X, ...
    session: int


def list_processes(host: Host, programs: Optional[Container[str]] = None) -> Iterator[Process]:
    """All processes; with `programs`, only those whose executable has one of these file names. Most are excluded by one
    readlink."""
    for name in filter(str.isdigit, host.listdir("/proc")):
        if programs is None or _file_name(_program_path(host, name)) in programs:
            process = host.process(int(name))
            if process is not None and (programs is None or program(process) in programs):
                yield process


def is_of(process: Process, users: Container[int]) -> bool:
    """Whether all its uids are the same one of these `users`. In its own user namespace a process can have any uid."""
    return process.own_users and len(set(process.uids)) == 1 and process.uids[0] in users


def is_of_root(process: Process) -> bool:
    return is_of(process, (_ROOT,))


def program(process: Process) -> str:
    """The file name of its executable."""
    return _file_name(process.exe)


def read_command(host: Host, process: ProcessId) -> list[str]:
    """The words of its command line; empty if the process has ended. Only for a process that is identified: this reads the
    memory of the process, which can block."""
    return (host.read_process(process, "cmdline") or b"").decode(errors="replace").split("\0")[:-1]


def pod_uid(process: Process) -> Optional[str]:
    """The uid, as the API writes it, of the pod in whose cgroup the process is. None if there is none or more than one."""
    uids = {uid for uid in map(_uid_in, process.cgroups) if uid is not None}
    return uids.pop() if len(uids) == 1 else None


def is_main_of_unit(process: Process, control_group: str) -> bool:
    """Whether the process that systemd reports as main process of a unit really is: it is in the unit's cgroup, or, if it
    has moved (as by the kubelet's kubeletCgroups), it is a child of systemd and root's."""
    inside = any(path == control_group or path.startswith(f"{control_group}/") for path in process.cgroups)
    return (bool(control_group) and inside) or (process.parent == 1 and is_of_root(process))


def is_in_unit(process: Process) -> bool:
    """Whether it is in the cgroup of a system service, not of a user's service."""
    parts = [path.split("/") for path in process.cgroups]
    return any(
        any(part.endswith(".service") for part in path) and not any(_USERS.fullmatch(part) for part in path)
        for path in parts
    )


def is_run_by(host: Host, process: Process, directory: str) -> bool:
    """Whether it is the service of that runit directory: the child of root's runsv that works there."""
    parent = host.process(process.parent)
    return (
        parent is not None
        and is_of_root(parent)
        and program(parent) in ("runsv", _BUSYBOX)
        and host.readlink(f"/proc/{parent.pid}/cwd") == real_path(host, directory)
    )


def is_runsvdir(host: Host, process: Process, directory: str) -> bool:
    """Whether it is root's runsvdir for this directory. The command line of a process of root is trusted."""
    return (
        is_of_root(process)
        and program(process) in ("runsvdir", _BUSYBOX)
        and read_command(host, process.id)[-1:] == [directory]
    )


def leads_session(host: Host, pid: int) -> bool:
    return any(thread.session == pid for thread in read_threads(host, pid))


def started_for(host: Host) -> int:
    """The pid of the Ansible run that this module belongs to, if it was started by a process outside of that run; else 0."""
    environment = (host.read("/proc/self/environ") or b"").split(b"\0")
    mark = f"{STARTED_FOR}=".encode()
    value = next((entry[len(mark) :] for entry in environment if entry.startswith(mark)), b"")
    return int(value) if value.isdigit() else 0


def has_ended(host: Host, process: ProcessId) -> bool:
    """Whether none of its threads runs any more, so that everything it held (a tap device, the lock of a disk) is released.
    A process may still exist as a zombie; and its command line is gone long before its files are closed."""
    current = host.process(process.pid)
    if current is None or current.id != process:
        return True
    return all(thread.state in "ZX" for thread in read_threads(host, process.pid))


def age_seconds(host: Host, pid: int) -> Optional[float]:
    """Seconds since the process was started; None if it is gone."""
    fields, uptime = _after_name(host, f"/proc/{pid}/stat"), (host.read("/proc/uptime") or b"").split()
    if len(fields) <= _START or not uptime:
        return None
    return float(uptime[0]) - int(fields[_START]) / _TICKS_PER_SECOND


def read_threads(host: Host, pid: int) -> list[Thread]:
    """The threads of a process; empty if it is gone."""
    place = f"/proc/{pid}/task"
    rows = [_after_name(host, f"{place}/{name}/stat") for name in host.listdir(place)]
    return [Thread(row[_STATE], int(row[_SESSION])) for row in rows if len(row) > _SESSION]


def _program_path(host: Host, pid: str) -> str:
    try:
        return host.readlink(f"/proc/{pid}/exe") or ""
    except HostError:  # as in `process`: the links of a process are hidden from users who may not inspect it
        return ""


def _file_name(path: str) -> str:
    return os.path.basename(path[: -len(_DELETED)] if path.endswith(_DELETED) else path)


def _uid_in(cgroup: str) -> Optional[str]:
    """The uid of the first pod on the path: deeper levels are under the control of the pod itself."""
    parts = cgroup.split("/")
    for at, part in enumerate(parts):
        if _USERS.fullmatch(part):
            return None
        if _PODS.fullmatch(part):
            below = parts[at + 1 :]
            if below and _QOS.fullmatch(below[0]):
                below = below[1:]
            match = _POD.fullmatch(below[0]) if below else None
            return match[1].replace("_", "-") if match else None
    return None


def real_path(host: Host, path: str) -> str:
    """The path with all links resolved."""
    left, real = path.split("/"), ""
    for _link in range(_LINKS):
        while left:
            name = left.pop(0)
            if name in ("", "."):
                continue
            if name == "..":
                real = os.path.dirname(real)
                continue
            to = host.readlink(f"{real}/{name}")
            if to is not None:
                break
            real = f"{real}/{name}"
        else:
            return real or "/"
        left = [*to.split("/"), *left]
        real = "" if to.startswith("/") else real
    return real


def _after_name(host: Host, path: str) -> list[str]:
    # The command name, in parentheses, may contain any character, including parentheses.
    return (host.read(path) or b"").decode(errors="replace").rpartition(")")[2].split()
