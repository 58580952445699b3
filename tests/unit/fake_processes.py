# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The processes of FakeHost: whose they are, what /proc says of them, and what becomes of them when they get a signal."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Completed, ProcessId
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Process as HostProcess
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_processes import not_plain_error
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import Unavailable
from tests.unit.fake_parts import Process
from tests.unit.fake_paths import FakePaths


class FakeProcesses(FakePaths):
    processes: dict[int, Process]
    unlisted: dict[int, Process]  # what a fake supervisor has besides
    on_signal: list[Callable[[int, Process, int], bool]]
    _next_pid: int

    def run(self, argv: Sequence[str], *, timeout: float, check: bool = True) -> Completed:
        raise NotImplementedError

    def _effect(self, verb: str, target: str) -> None:
        raise NotImplementedError

    def given_process(self, argv: Sequence[str], *, ignores: Iterable[int] = (), **known: Any) -> int:
        """`known` are fields of Process: whose it is, as the kernel says."""
        self._next_pid += 1
        self.processes[self._next_pid] = Process(tuple(argv), ignores=set(ignores), **known)
        return self._next_pid

    def given_port(self, port: int, *, uid: int = 0) -> None:
        """A program of that user listens there, at every address."""
        row = f"0: 00000000:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000 {uid} 0 {port + 1000}\n"
        old = self._nodes.get("/proc/net/tcp")
        self.given("/proc/net/tcp", (old.data.decode() if old else "sl local_address\n") + row)

    def process(self, pid: int) -> Optional[HostProcess]:
        found = self.processes.get(pid) or self.unlisted.get(pid)
        return None if found is None else found.seen(pid)

    def read_process(self, process: ProcessId, name: str) -> Optional[bytes]:
        return self.read(f"/proc/{process.pid}/{name}") if self._lives(process) else None

    def read_below(self, process: ProcessId, path: str, *, limit: int) -> Optional[bytes]:
        node = self._nodes.get(self._below(process, path) or "")
        if node is None:
            return None
        found = f"it is a {node.kind}" if node.kind != "file" else f"it has more than {limit} bytes"
        if node.kind != "file" or len(node.data) > limit:
            raise not_plain_error(process, path, found)
        return node.data

    def resolve_below(self, process: ProcessId, path: str) -> Optional[str]:
        found = self._below(process, path)
        return None if found is None else found[len(f"/proc/{process.pid}/root") :]

    def run_program(
        self, process: ProcessId, arguments: Sequence[str], *, timeout: float, check: bool = True
    ) -> Completed:
        """As the command /proc/PID/exe."""
        path = f"/proc/{process.pid}/exe"
        if not self._lives(process):
            raise Unavailable(path)
        return self.run([path, *arguments], timeout=timeout, check=check)

    def _below(self, process: ProcessId, path: str) -> Optional[str]:
        """Where that lies in our own tree; None where there is nothing."""
        return self._real_below(f"/proc/{process.pid}/root", path) if self._lives(process) else None

    def _lives(self, process: ProcessId) -> bool:
        found = self.process(process.pid)
        return found is not None and found.id == process

    def signal(self, wanted: ProcessId, number: int) -> bool:
        if not self._lives(wanted):
            return False
        pid, process = wanted.pid, self.processes[wanted.pid]
        self._effect("kill", f"{pid} {signal.Signals(number).name}")
        ends = number == signal.SIGKILL or (
            number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT) and number not in process.ignores
        )
        if not any(hook(pid, process, number) for hook in self.on_signal) and ends:
            self.end_process(pid)
        return True

    def end_process(self, pid: int) -> None:
        """It ends; /proc and its cgroups no longer list it. No effect: the machine did it."""
        self.processes.pop(pid, None)
        self._forget(f"/proc/{pid}")
        for path, node in self._nodes.items():
            if path.endswith("/cgroup.procs") and str(pid).encode() in node.data.split():
                left = [line for line in node.data.split() if line != str(pid).encode()]
                node.data = b"".join(line + b"\n" for line in left)

    def _of_process(self, path: str) -> Optional[bytes]:
        """What /proc says of one that the test gave no file for."""
        pid, _slash, name = path.removeprefix("/proc/").partition("/")
        process = self.processes.get(int(pid)) if pid.isdigit() else None
        of = {"cmdline": Process.cmdline, "stat": Process.stat}.get(name)
        return of(process) if process and of else None

    def readlink(self, path: str) -> Optional[str]:
        pid, _slash, name = path.removeprefix("/proc/").partition("/")
        known = {**self.unlisted, **self.processes}
        process = known.get(int(pid)) if pid.isdigit() else None
        given = super().readlink(path)
        if given is None and process is not None and name in ("exe", "cwd"):
            return process.program if name == "exe" else process.cwd
        return given
