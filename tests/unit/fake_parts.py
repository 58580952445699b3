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

from ansible_collections.ballast.kube.plugins.module_utils._core.events import Event
from ansible_collections.ballast.kube.plugins.module_utils._core.host import Completed, Response


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


@dataclass
class Process:
    argv: tuple[str, ...]
    log: str = ""
    ignores: set[int] = field(default_factory=set)  # signals that do not end it

    def cmdline(self) -> bytes:
        return b"".join(word.encode() + b"\0" for word in self.argv)

    def stat(self) -> bytes:
        """It sleeps, and is as old as the machine."""
        return f"1 ({os.path.basename(self.argv[0])}) S {' '.join(['0'] * 49)}\n".encode()


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
