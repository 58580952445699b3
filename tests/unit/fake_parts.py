# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pieces of FakeHost that are plain data, and a sink that keeps events."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Optional, Union

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import Event
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Completed, ProcessId, Response
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Process as HostProcess


class Killed(BaseException):
    """The program ended here, as by kill -9: nothing may catch it."""


@dataclass(frozen=True)
class Effect:
    verb: str  # the Host method: "write", "run", ...
    target: str  # a path, or the command as one line

    def __str__(self) -> str:
        return f"{self.verb} {self.target}"


@dataclass(frozen=True)
class Call:
    """A command as a handler gets it."""

    argv: tuple[str, ...]
    stdin: bytes
    env: Mapping[str, str]
    cwd: Optional[str]


Answer = Union[str, int, Completed, BaseException]
Handler = Callable[[Call], Answer]


@dataclass
class Node:
    kind: str  # "file", "directory", "symlink"
    mode: int = 0o644
    data: bytes = b""  # of a file; for a link, where it points
    mtime: float = 0.0
    uid: int = 0
    gid: int = 0
    attributes: dict[str, bytes] = field(default_factory=dict)  # extended ones
    names: int = 1  # hard links


@dataclass
class Process:
    argv: tuple[str, ...]
    log: str = ""
    ignores: set[int] = field(default_factory=set)  # signals that do not end it
    uid: int = 0
    parent: int = 1
    started: int = 0  # clock ticks after the machine's start
    exe: str = ""  # "" is argv[0], in /usr/bin where that is no path
    cwd: str = "/"
    cgroups: tuple[str, ...] = ("/",)
    own_users: bool = True
    own_network: bool = True
    own_pids: bool = True
    own_root: bool = True

    def seen(self, pid: int) -> HostProcess:
        return HostProcess(
            id=ProcessId(pid, self.started),
            parent=self.parent,
            uids=(self.uid,) * 4,
            exe=self.program,
            cgroups=self.cgroups,
            own_users=self.own_users,
            own_network=self.own_network,
            own_pids=self.own_pids,
            own_root=self.own_root,
        )

    @property
    def program(self) -> str:
        return self.exe or os.path.join("/usr/bin", *self.argv[:1])

    def cmdline(self) -> bytes:
        return b"".join(word.encode() + b"\0" for word in self.argv)

    def stat(self) -> bytes:
        """It sleeps."""
        rest = ["0"] * 17 + [str(self.started)] + ["0"] * 30
        return f"1 ({os.path.basename(self.program)}) S {self.parent} {' '.join(rest)}\n".encode()


@dataclass(frozen=True)
class Rule:
    prefix: tuple[str, ...]
    answer: Union[Answer, Handler]
    reads: Union[bool, Callable[[tuple[str, ...]], bool]]


class ListSink:
    """Keeps the events, so that a test can say what a person would see."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)


CGROUP_V1: dict[str, dict[str, str]] = {
    "cpu": {"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n", "cpu.shares": "1024\n"},
    "cpuset": {"cpuset.cpus": "\n", "cpuset.mems": "\n"},
    "memory": {"memory.limit_in_bytes": "9223372036854771712\n"},
    "pids": {"pids.max": "max\n"},
}
CGROUP_V2 = {
    "cgroup.procs": "",
    "cgroup.controllers": "cpuset cpu io memory hugetlb pids\n",
    "cgroup.subtree_control": "\n",
    "cpu.max": "max 100000\n",
    "memory.max": "max\n",
    "pids.max": "max\n",
}


def json_answer(status: int, body: object) -> Response:
    return Response(status=status, body=json.dumps(body).encode())
