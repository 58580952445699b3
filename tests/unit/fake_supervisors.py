# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""runit and systemd on a FakeHost, each as the commands that the project runs see it."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from ansible_collections.ballast.kube.plugins.module_utils._core.host.cgroup_paths import cgroup_directories
from tests.unit.fakes import Answer, Call, FakeHost, Process


def given_service(host: FakeHost, path: str) -> int:
    """A process of the service, whose parent is a runsv, which tests do not count."""
    runsv = host.given_process(("runsv", os.path.basename(path)), cwd=path)
    host.unlisted[runsv] = host.processes.pop(runsv)
    return host.given_process((path + "/run",), parent=runsv)


class FakeRunit:
    """runsvdir and sv on a FakeHost: a service runs when its directory has `run` and no `down`.

    `crashing` names services that end at once; `deaf` those that only KILL ends.
    """

    rescan_seconds = 5.0

    def __init__(self, host: FakeHost) -> None:
        self.host = host
        self.crashing: set[str] = set()
        self.deaf: set[str] = set()
        self.restarts: dict[str, int] = {}  # name: how often it was started
        self.reloaded: list[str] = []  # names of services, each time that they were sent HUP
        self._scanned: dict[str, float] = {}
        self._runsv: dict[str, int] = {}  # service directory: pid of the service or 0 while it is down
        host.on("sv", answer=self._sv, reads=lambda argv: "status" in argv)
        host.on("runsvdir", answer=111)
        host.on("touch", answer="")
        host.on_spawn.append(self._spawned)
        host.on_signal.append(self._signalled)
        host.on_sleep.append(self._tick)

    def lose_power(self) -> None:
        """No process is left; the files are."""
        self.host.processes.clear()
        self._runsv.clear()
        self._scanned.clear()

    def _spawned(self, pid: int, process: Process) -> None:
        if process.argv[0] == "runsvdir":
            self._scan(process.argv[-1])

    def _tick(self) -> None:
        for process in list(self.host.processes.values()):
            if process.argv[0] == "runsvdir" and (
                self.host.monotonic() >= self._scanned.get(process.argv[-1], 0) + self.rescan_seconds
            ):
                self._scan(process.argv[-1])

    def _scan(self, sv_dir: str) -> None:
        self._scanned[sv_dir] = self.host.monotonic()
        for name in self.host.listdir(sv_dir):
            path = os.path.join(sv_dir, name)
            if self.host.stat(os.path.join(path, "run")) and path not in self._runsv:
                self.host.given(os.path.join(path, "supervise", "ok"))
                self._set(path, 0)
                if self.host.stat(os.path.join(path, "down")) is None:
                    self._start(path)

    def _start(self, path: str) -> None:
        name = os.path.basename(path)
        self.restarts[name] = self.restarts.get(name, 0) + 1
        if name in self.crashing:
            self._set(path, 0)
        elif not self._runsv.get(path):
            self._set(path, given_service(self.host, path))

    def _set(self, path: str, pid: int) -> None:
        if self._runsv.get(path) and not pid:
            self.host.end_process(self._runsv[path])
        self._runsv[path] = pid
        self.host.given(os.path.join(path, "supervise", "stat"), "run\n" if pid else "down\n")
        self.host.given(os.path.join(path, "supervise", "pid"), f"{pid}\n" if pid else "")

    def _signalled(self, pid: int, process: Process, number: int) -> bool:
        for path, running in self._runsv.items():
            if running == pid and self.host.stat(path):  # a service was killed: runsv starts it again
                self.host.end_process(pid)
                self._runsv[path] = 0
                self._start(path)
                return True
        if process.argv[0] == "runsvdir" and number in (signal.SIGHUP, signal.SIGTERM):
            for path in [path for path in self._runsv if os.path.dirname(path) == process.argv[-1]]:
                if os.path.basename(path) in self.deaf and self._runsv[path]:
                    continue  # runsv waits for it for ever
                self._set(path, 0)
                del self._runsv[path]
        return False

    def _sv(self, call: Call) -> Answer:
        words = list(call.argv[1:])
        waits = words[0] == "-w"
        if waits:
            words = words[2:]
        failed = 0
        for path in words[1:]:
            if path not in self._runsv or not self.host.stat(path):
                failed += 1
            elif words[0] in ("up", "start"):
                self._start(path)
                failed += waits and not self._runsv[path]
            elif words[0] == "status":
                continue
            elif words[0] == "hup":
                self.reloaded.append(os.path.basename(path))
            elif words[0].startswith("force-") or os.path.basename(path) not in self.deaf:
                self._set(path, 0)
                if words[0] in ("exit", "force-shutdown", "shutdown"):
                    del self._runsv[path]
        return failed


class FakeSystemd:
    """systemctl on a FakeHost(systemd=True): units are the files in /etc/systemd/system as of the last reload. A slice has
    a cgroup, where the machine has any, with the limits that it was started with or was told since.

    `crashing` names units that fail when they are started.
    """

    directory = "/etc/systemd/system"
    properties = "/run/systemd/system.control"

    def __init__(self, host: FakeHost) -> None:
        self.host = host
        self.crashing: set[str] = set()
        self.enabled: set[str] = set()
        self.active: dict[str, tuple[int, bytes]] = {}  # unit: its pid, and the unit file that it was started from
        self.failed: set[str] = set()
        self.reloaded: list[str] = []  # names of services, each time that they were sent HUP
        self._loaded: dict[str, bytes] = {}
        host.given_directory(self.directory)
        host.on("systemctl", answer=self._systemctl, reads=lambda argv: argv[1] in ("show", "is-active", "is-enabled"))

    def _systemctl(self, call: Call) -> Answer:
        verb, names = call.argv[1], [word for word in call.argv[2:] if not word.startswith("--")]
        if verb == "daemon-reload":
            files = [name for name in self.host.listdir(self.directory) if name.endswith((".service", ".slice"))]
            self._loaded = {name: self.host.read(os.path.join(self.directory, name)) or b"" for name in files}
            return ""
        word = names[0] if verb == "set-property" else names[-1]
        unit = word if "." in word else f"{word}.service"
        if verb == "show":
            pid = self.active[unit][0] if unit in self.active else 0
            state = "active" if pid else "failed" if unit in self.failed else "inactive"
            return f"ActiveState={state}\nMainPID={pid}\n"
        if verb == "is-active":
            return "active\n" if unit in self.active else 3
        if verb == "is-enabled":
            return "enabled\n" if unit in self.enabled else 1
        if verb in ("stop", "disable"):
            if verb == "disable":
                self.enabled.discard(unit)
            if verb == "stop" or "--now" in call.argv:
                self._stop(unit)
            return "" if unit in self._loaded else 5
        if verb == "reset-failed":
            was_failed = unit in self.failed
            self.failed.discard(unit)
            return "" if was_failed else 1
        if unit not in self._loaded:
            return 5
        if verb == "enable":
            self.enabled.add(unit)
        if verb == "reload":
            self.reloaded.append(unit[: -len(".service")])
        if verb == "set-property":
            assert unit in self.active, "this is for units that run"
            self.host.given(f"{self.properties}/{unit}.d/50.conf", "\n".join(names[1:]))
            self._limit(unit, names[1:])
            return ""
        if verb == "restart":
            self._stop(unit)
        if verb in ("start", "restart") and unit not in self.active:
            if unit in self.crashing:
                self.failed.add(unit)
            else:
                self.active[unit] = (self.host.given_process((f"unit {unit}",)), self._loaded[unit])
                self._limit(unit, self._loaded[unit].decode().splitlines())
        return ""

    def _limit(self, unit: str, rows: Sequence[str]) -> None:
        values = dict(row.split("=", 1) for row in rows if "=" in row)
        quota = round(float(values["CPUQuota"][:-1]) * 1000) if values.get("CPUQuota") else 0
        memory, pids = (values.get(key, "").replace("infinity", "max") for key in ("MemoryMax", "TasksMax"))
        kept = {
            "cpu.cfs_quota_us": str(quota or -1),
            "cpu.max": f"{quota or 'max'} 100000",
            "memory.limit_in_bytes": memory.replace("max", str(2**63 - 4096)),
            "memory.max": memory,
            "pids.max": pids,
        }
        for directory in self._cgroups(unit):
            self.host.given_cgroup(directory)
            for file, value in kept.items():
                if self.host.stat(f"{directory}/{file}"):
                    self.host.given(f"{directory}/{file}", f"{value}\n")

    def _cgroups(self, unit: str) -> list[str]:
        is_held = unit.endswith(".slice") and self.host.text("/proc/self/mounts")
        return cgroup_directories(self.host, unit[: -len(".slice")]) if is_held else []

    def _stop(self, unit: str) -> None:
        if unit in self.active:
            self.host.end_process(self.active.pop(unit)[0])
        for directory in self._cgroups(unit):  # of a slice that only lies above others too: no unit file has it
            self.host.end_cgroup(directory)
