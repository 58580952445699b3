# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whose process is this? By its user, its program and its cgroup, which the kernel says; never by its command or its name,
which any user's process chooses.

user      all its user ids are one of root or of our users, in our own user namespace: only root starts such a process
program   the file that it was started from
service   the unit of systemd whose main process it is, in the unit's cgroup; or the child of the runsv of a directory
pod       the uid of the pod in whose cgroup it is; which pod that is, the API knows
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterator
from typing import NamedTuple, Optional

from ..text.errors import HostError
from .host import Host, Process, ProcessId

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_STATE, _SESSION, _START = 0, 3, 19  # fields of `stat`, counted from the one after the name
# Of the programs that we start as users of their own (_vm/confine.py): numbers that nobody hands out. Source: systemd, docs/UIDS-GIDS.md.
OWN_UIDS = range(0x70000000, 0x80000000)
_ROOT = 0
_DELETED = " (deleted)"  # behind the path of a program whose file was replaced since
_BUSYBOX = "busybox"  # has runit's programs too
_LINKS = 40
STARTED_FOR = "BALLAST_STARTED_FOR"  # in the environment of a process that starts modules: the process id of their run
# The kubelet's own names, below its cgroupRoot: kubepods/QOS/podUID (cgroupfs), PREFIX-kubepods.slice/.../PREFIX-kubepods-QOS-
# podUID.slice (systemd, which takes _ for -). The uid of a static pod is a digest. Source: kubelet/cm/cgroup_manager_linux.go.
_PODS = re.compile(r"kubepods|(?:[^/]+-)?kubepods\.slice")
_POD = re.compile(
    r"(?:[^/]*-)?pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?", re.ASCII
)
_QOS = re.compile(r"(?:besteffort|burstable)|[^/]*kubepods-(?:besteffort|burstable)\.slice")
_USERS = re.compile(r"user\.slice|user@.*")  # systemd lets a user divide the cgroups there


class Thread(NamedTuple):
    state: str  # R, S, D, Z, X, ...
    session: int


def list_processes(host: Host, programs: Optional[Container[str]] = None) -> Iterator[Process]:
    """Every one that there is; with `programs` those whose program's file has one of these names, found by one link of each."""
    for name in filter(str.isdigit, host.listdir("/proc")):
        if programs is None or _file_name(_program_path(host, name)) in programs:
            process = host.process(int(name))
            if process is not None and (programs is None or program(process) in programs):
                yield process


def is_of(process: Process, users: Container[int]) -> bool:
    """Whether all its user ids are one of these. In a user namespace of its own a process may take any."""
    return process.own_users and len(set(process.uids)) == 1 and process.uids[0] in users


def is_of_root(process: Process) -> bool:
    return is_of(process, (_ROOT,))


def program(process: Process) -> str:
    """The name of its program's file."""
    return _file_name(process.exe)


def read_command(host: Host, process: ProcessId) -> list[str]:
    """The words of it; none where the process has ended. Ask it of one that is identified: reading it reads the process's
    memory, which can have us wait."""
    return (host.read_process(process, "cmdline") or b"").decode(errors="replace").split("\0")[:-1]


def pod_uid(process: Process) -> Optional[str]:
    """The uid of the pod in whose cgroup it is, as the API writes it. None where it is in none, or not in one alone."""
    uids = {uid for uid in map(_uid_in, process.cgroups) if uid is not None}
    return uids.pop() if len(uids) == 1 else None


def is_main_of_unit(process: Process, control_group: str) -> bool:
    """Of the process that systemd calls the main one of a unit: in the unit's cgroup, or, where it moved (the kubelet's
    kubeletCgroups), a child of systemd that is root's."""
    inside = any(path == control_group or path.startswith(f"{control_group}/") for path in process.cgroups)
    return (bool(control_group) and inside) or (process.parent == 1 and is_of_root(process))


def is_in_unit(process: Process) -> bool:
    """Whether it is in the cgroup of a service of systemd's own, not of a user's."""
    parts = [path.split("/") for path in process.cgroups]
    return any(
        any(part.endswith(".service") for part in path) and not any(_USERS.fullmatch(part) for part in path)
        for path in parts
    )


def is_run_by(host: Host, process: Process, directory: str) -> bool:
    """Whether it is the service of that directory of runit: the child of root's runsv that works there."""
    parent = host.process(process.parent)
    return (
        parent is not None
        and is_of_root(parent)
        and program(parent) in ("runsv", _BUSYBOX)
        and host.readlink(f"/proc/{parent.pid}/cwd") == real_path(host, directory)
    )


def is_runsvdir(host: Host, process: Process, directory: str) -> bool:
    """Whether it is root's runsvdir that serves the directory. What root's own process says in its command is believed."""
    return (
        is_of_root(process)
        and program(process) in ("runsvdir", _BUSYBOX)
        and read_command(host, process.id)[-1:] == [directory]
    )


def leads_session(host: Host, pid: int) -> bool:
    return any(thread.session == pid for thread in read_threads(host, pid))


def started_for(host: Host) -> int:
    """The process id of the run of Ansible that this module is of, where a process that is not below it has started it; else 0."""
    environment = (host.read("/proc/self/environ") or b"").split(b"\0")
    mark = f"{STARTED_FOR}=".encode()
    value = next((entry[len(mark) :] for entry in environment if entry.startswith(mark)), b"")
    return int(value) if value.isdigit() else 0


def has_ended(host: Host, process: ProcessId) -> bool:
    """Whether no thread of it runs any more, and so nothing that it held, a tap or the lock of a disk, is held still. It may
    be there yet, since nobody has reaped it; and it shows no command long before it has let go of its files."""
    current = host.process(process.pid)
    if current is None or current.id != process:
        return True
    return all(thread.state in "ZX" for thread in read_threads(host, process.pid))


def age_seconds(host: Host, pid: int) -> Optional[float]:
    """How long ago it was started; None where it is gone."""
    fields, uptime = _after_name(host, f"/proc/{pid}/stat"), (host.read("/proc/uptime") or b"").split()
    if len(fields) <= _START or not uptime:
        return None
    return float(uptime[0]) - int(fields[_START]) / _TICKS_PER_SECOND


def read_threads(host: Host, pid: int) -> list[Thread]:
    """Each that there is; none where the process is gone."""
    place = f"/proc/{pid}/task"
    rows = [_after_name(host, f"{place}/{name}/stat") for name in host.listdir(place)]
    return [Thread(row[_STATE], int(row[_SESSION])) for row in rows if len(row) > _SESSION]


def _program_path(host: Host, pid: str) -> str:
    try:
        return host.readlink(f"/proc/{pid}/exe") or ""
    except HostError:  # as in `process`: who may not look at a process sees none of its links
        return ""


def _file_name(path: str) -> str:
    return os.path.basename(path[: -len(_DELETED)] if path.endswith(_DELETED) else path)


def _uid_in(cgroup: str) -> Optional[str]:
    """The first pod of the path counts: what lies below it is the pod's own doing."""
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
    """The path without links."""
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
    # The command's name, in parentheses, may hold anything, a parenthesis too.
    return (host.read(path) or b"").decode(errors="replace").rpartition(")")[2].split()
