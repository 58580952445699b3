# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Supervised services: systemd units where PID 1 is systemd, else runit, whose `runsvdir` we start ourselves.

A service's resource has the target `SV_DIR/NAME`: under runit that is its directory, under systemd the unit is
`NAME.service`. The value is the whole definition, kept in `SV_DIR/NAME/ballast.json`, so that any change of it, and of
the files that `config_digest` stands for, restarts the service. It is removed before a change and written after it: a
service without it is one that a killed run left half changed.

Under runit one supervisor serves one SV_DIR. It starts all that lies there at once, but looks for additions only
every 5 seconds; so services are written first, and the supervisor's resource follows them.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Optional

from .errors import HostError, Unavailable, UserError
from .host import Host
from .kinds import Kind, fields
from .plan import ABSENT, Resource, Value
from .service_text import MARK, run_script, unit_text

UNIT_DIRECTORY = "/etc/systemd/system"
_INCOMPLETE = ("/incomplete",)
_STOP_SECONDS = 20  # a kube-apiserver with open watches needs its grace period
_NAME = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)
_PROGRAM = re.compile(r"/[A-Za-z0-9/_.+:,@~ -]+", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@dataclass(frozen=True)
class Service:
    name: str  # "ballast-lab-n1-kubelet"
    argv: tuple[str, ...]  # argv[0] is an absolute path
    log: str  # file that its output is appended to
    cgroup: str  # its own leaf, without the hierarchy: "ballast-lab-n1/kubelet"; under systemd the slice is its parent
    config_digest: str = ""
    env: tuple[tuple[str, str], ...] = ()
    netns: Optional[str] = None  # path of a network namespace
    mountns: Optional[str] = None  # path of a mount namespace
    keep_children: bool = False  # containerd: its shims live on when it ends
    after: tuple[str, ...] = ()  # units of systemd that are started before it; one that is not there is no fault
    before: tuple[str, ...] = ()  # units of systemd that are started after it
    reloads: bool = False  # HUP has it read its settings anew, and does not end it
    stop_seconds: int = _STOP_SECONDS  # that it may take to end after TERM

    def __post_init__(self) -> None:
        """Refuse what a unit file or env(1) cannot carry; everything else is quoted."""
        parent, _slash, leaf = self.cgroup.partition("/")
        paths = [path for path in (self.log, self.netns, self.mountns) if path is not None]
        faults = [
            *([] if _NAME.fullmatch(self.name) else [f"name {self.name!r}"]),
            *([] if self.argv and _PROGRAM.fullmatch(self.argv[0]) else [f"program {self.argv[:1]!r}"]),
            *([] if _NAME.fullmatch(parent) and _NAME.fullmatch(leaf) else [f"cgroup {self.cgroup!r}"]),
            *(f"variable {name!r}" for name, _text in self.env if not _VARIABLE.fullmatch(name)),
            *(f"path {path!r}" for path in paths if not path.startswith("/") or not path.isprintable()),
            *(f"unit {unit!r}" for unit in (*self.after, *self.before) if not _NAME.fullmatch(unit)),
            *(f"text {text!r}" for text in (*self.argv, *(text for _name, text in self.env)) if "\0" in text),
        ]
        if faults:
            raise UserError(
                f"service {self.name}: {', '.join(faults)} cannot be used in a service",
                id="core-service-text",
                remedy="use paths and names of letters, digits and / _ . -",
                page="docs/errors.md",
            )

    def as_value(self, *, running: bool = True) -> dict[str, Value]:
        # Through JSON, so that it compares equal with what is read back.
        value: dict[str, Value] = json.loads(json.dumps(asdict(self)))
        return {**value, "running": running}

    @staticmethod
    def from_value(value: Value) -> Service:
        found: dict[str, Any] = {name: part for name, part in fields(value).items() if name != "running"}
        found["argv"] = tuple(found["argv"])
        found["env"] = tuple((name, text) for name, text in found["env"])
        found.update({name: tuple(found.get(name, ())) for name in ("after", "before")})
        return Service(**found)


def service(sv_dir: str, wanted: Service, *, running: bool, group: str) -> Resource:
    return Resource(
        kind="service",
        target=os.path.join(sv_dir, wanted.name),
        value=wanted.as_value(running=running),
        title=f"service {wanted.name}",
        group=group,
    )


def supervisor(sv_dir: str, *, group: str) -> Resource:
    """Follows the services of `sv_dir`. Under systemd it always holds."""
    return Resource(
        kind="supervisor", target=sv_dir, value={"running": True}, title=f"supervisor of {sv_dir}", group=group
    )


class ServiceKind:
    """Value: `Service.as_value()`."""

    def read(self, host: Host, target: str) -> Value:
        return _backend(host).read(host, target)

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        if after == _incomplete(target):  # what an undo or a removal may ask for: there never was a whole one
            self.remove(host, target, before)
            return
        wanted = Service.from_value(after)
        known = before != ABSENT and Service.from_value(before) == wanted
        log_directory = os.path.dirname(wanted.log)
        if host.stat(log_directory) is None:
            host.make_directory(log_directory, mode=0o750)
        _backend(host).write(host, target, wanted, running=bool(fields(after)["running"]), definition_known=known)

    def remove(self, host: Host, target: str, before: Value) -> None:
        _backend(host).remove(host, target)


class SupervisorKind:
    """Value: `{"running": true}`."""

    def read(self, host: Host, target: str) -> Value:
        if host.is_systemd() or supervisor_pid(host, target):
            return {"running": True}
        left = _unrecorded_supervisor(host, target) or host.stat(_pid_path(target))
        return {"running": False} if left else ABSENT

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        if host.is_systemd():
            return
        if not fields(after)["running"]:  # what a removal asks for where a part was there before the first run
            self.remove(host, target, before)
            return
        if host.which("runsvdir") is None:
            raise Unavailable("runsvdir")
        if host.stat(target) is None:
            host.make_directory(target)
        pid = _unrecorded_supervisor(host, target)
        if pid is None:
            _end_runsv(host, target)
            # runsvdir waits while the directory was changed within the current second, to see all of one change.
            host.run(["touch", "--date=-10 seconds", target], timeout=10)
            pid = host.spawn(["runsvdir", "-P", target], log=_log_path(target))
        host.write(_pid_path(target), f"{pid}\n".encode())
        for path in _service_directories(host, target):
            if not host.stat(os.path.join(path, "down")):
                _wait_for_state(host, path, "run")

    def remove(self, host: Host, target: str, before: Value) -> None:
        pid = supervisor_pid(host, target) or _unrecorded_supervisor(host, target)
        if pid is not None:
            # runsvdir(8): on HUP it sends TERM to each runsv, which ends its service, and then ends itself.
            host.kill(pid, signal.SIGHUP)
            _wait_for(host, lambda: not _serves(host, pid, target), f"supervisor of {target}")
        _end_runsv(host, target)
        host.remove(_log_path(target))
        host.remove(_pid_path(target))


SERVICE_KINDS: dict[str, Kind] = {"service": ServiceKind(), "supervisor": SupervisorKind()}


def is_incomplete(value: Value) -> bool:
    """Whether it is the value of a service of which only a part is there."""
    return value != ABSENT and Service.from_value(value).argv == _INCOMPLETE


def reload_service(host: Host, target: str) -> None:
    """Have a running service, one that `reloads`, read its settings anew. It is not waited for."""
    _backend(host).reload(host, target)


def service_pid(host: Host, target: str) -> Optional[int]:
    """The pid of a running service, None when it is down."""
    return _backend(host).pid(host, target)


def is_to_run(host: Host, target: str) -> bool:
    """Whether its supervisor was told to keep it up. A service that is stopped by us is not, one that was killed is."""
    return _backend(host).is_to_run(host, target)


def supervisor_pid(host: Host, sv_dir: str) -> Optional[int]:
    """The pid of our runsvdir, if it lives and its command line says that it serves `sv_dir`."""
    recorded = (host.read(_pid_path(sv_dir)) or b"").strip()
    return int(recorded) if recorded.isdigit() and _serves(host, int(recorded), sv_dir) else None


def _unrecorded_supervisor(host: Host, sv_dir: str) -> Optional[int]:
    """The runsvdir that a run started and was killed before it could record it."""
    pids = (int(name) for name in host.listdir("/proc") if name.isdigit())
    return next((pid for pid in pids if _serves(host, pid, sv_dir)), None)


def _serves(host: Host, pid: int, sv_dir: str) -> bool:
    command = (host.read(f"/proc/{pid}/cmdline") or b"").split(b"\0")
    return os.path.basename(command[0]) == b"runsvdir" and sv_dir.encode() in command


def _service_directories(host: Host, sv_dir: str) -> list[str]:
    paths = [os.path.join(sv_dir, name) for name in host.listdir(sv_dir)]
    return [path for path in paths if host.stat(os.path.join(path, "run"))]


def _end_runsv(host: Host, sv_dir: str) -> None:
    """End each runsv, which outlives its runsvdir, and its service; remove the states that they leave, which would
    say "run" for ever."""
    supervised = [path for path in _service_directories(host, sv_dir) if host.stat(os.path.join(path, "supervise"))]
    if supervised:
        # Its answer is of no use: one whose runsv has ended already counts as a failure there.
        argv = ["sv", "-w", str(_STOP_SECONDS), "force-shutdown", *supervised]
        host.run(argv, timeout=3 * _STOP_SECONDS, check=False)
    for path in supervised:
        host.remove_tree(os.path.join(path, "supervise"))


def _log_path(sv_dir: str) -> str:
    return f"{sv_dir}.log"


def _pid_path(sv_dir: str) -> str:
    # Beside the directory: runsvdir would take an entry inside it for a service.
    return f"{sv_dir}.pid"


class _Runit:
    def read(self, host: Host, target: str) -> Value:
        data = host.read(_definition_path(target))
        if data is None:
            return _incomplete(target) if host.stat(target) else ABSENT
        found = Service.from_value(json.loads(data))
        if host.read(os.path.join(target, "run")) != run_script(host, found).encode():
            return _incomplete(target)  # edited, or written by another version of ours
        return found.as_value(running=self._runs(host, target))

    def write(self, host: Host, target: str, wanted: Service, *, running: bool, definition_known: bool) -> None:
        supervised = supervisor_pid(host, os.path.dirname(target)) is not None
        if not definition_known:
            host.make_directory(target)
            host.remove(_definition_path(target))
            host.write(os.path.join(target, "run"), run_script(host, wanted).encode(), mode=0o755)
        if running:
            host.remove(os.path.join(target, "down"))
        else:
            host.write(os.path.join(target, "down"), b"")
        if supervised:
            _wait_for(host, lambda: _is_supervised(host, target), wanted.name)
            # Also before a start: what a full disk kept runsv from noting stays wrong until the process ends.
            self.stop(host, target, seconds=wanted.stop_seconds)
            if running:
                host.run(["sv", "up", target], timeout=_STOP_SECONDS)
                _wait_for_state(host, target, "run")
        _write_definition(host, target, wanted)

    def remove(self, host: Host, target: str) -> None:
        if host.stat(target) is None:
            return
        seconds = _stop_seconds(host, target)
        host.remove(_definition_path(target))
        if host.stat(os.path.join(target, "supervise")):
            # A runsvdir starts a runsv anew that ended: with `down` it does not start the service.
            host.write(os.path.join(target, "down"), b"")
            host.run(["sv", "-w", str(seconds), "force-shutdown", target], timeout=2 * seconds, check=False)
        host.remove_tree(target)

    def pid(self, host: Host, target: str) -> Optional[int]:
        data = (host.read(os.path.join(target, "supervise", "pid")) or b"").strip()
        # What runsv wrote stays when it is killed: believed only while it is supervised.
        return int(data) if data.isdigit() and self._runs(host, target) else None

    def is_to_run(self, host: Host, target: str) -> bool:
        return host.stat(target) is not None and host.stat(os.path.join(target, "down")) is None

    def reload(self, host: Host, target: str) -> None:
        host.run(["sv", "hup", target], timeout=_STOP_SECONDS)

    def _runs(self, host: Host, target: str) -> bool:
        return supervisor_pid(host, os.path.dirname(target)) is not None and _runit_state(host, target) == "run"

    def stop(self, host: Host, target: str, *, seconds: int = _STOP_SECONDS) -> None:
        # force-stop: TERM, and KILL after the wait.
        host.run(["sv", "-w", str(seconds), "force-stop", target], timeout=2 * seconds, check=False)
        # One that ends again and again is down, and wanted up, while runsv waits before its next start: sv takes that for
        # stopped, and would take the next "up" for asked already.
        _wait_for(host, lambda: _is_to_be_down(host, target), os.path.basename(target))


class _Systemd:
    def read(self, host: Host, target: str) -> Value:
        unit, data = host.read(self._path(target)), host.read(_definition_path(target))
        if unit is not None and not unit.startswith(MARK.encode()):
            raise HostError(
                f"{self._path(target)} is not ours",
                id="core-unit-taken",
                found="a unit file without our mark in its first line",
                remedy="use another name, or remove that unit",
                page="docs/errors.md",
            )
        if unit is None or data is None:
            return _incomplete(target) if unit or host.stat(target) else ABSENT
        found = Service.from_value(json.loads(data))
        if unit != unit_text(found).encode():
            return _incomplete(target)  # edited, or written by another version of ours
        return found.as_value(running=self._show(host, target)["ActiveState"] == "active")

    def write(self, host: Host, target: str, wanted: Service, *, running: bool, definition_known: bool) -> None:
        name = os.path.basename(target)
        if not definition_known:
            host.make_directory(target)
            host.remove(_definition_path(target))
            host.write(self._path(target), unit_text(wanted).encode())
            host.run(["systemctl", "daemon-reload"], timeout=60)
        if running:
            host.run(["systemctl", "enable", name], timeout=60)
            host.run(["systemctl", "start" if definition_known else "restart", name], timeout=3 * wanted.stop_seconds)
        else:
            host.run(["systemctl", "disable", "--now", name], timeout=3 * wanted.stop_seconds)
        _write_definition(host, target, wanted)

    def remove(self, host: Host, target: str) -> None:
        name = os.path.basename(target)
        # Its answer is of no use: a unit that is not loaded counts as a failure there.
        host.run(["systemctl", "disable", "--now", name], timeout=3 * _stop_seconds(host, target), check=False)
        state = self._show(host, target)["ActiveState"]
        if state not in ("inactive", "failed"):
            raise HostError(
                f"{name} does not stop",
                id="core-supervisor",
                found=f"its state is {state}",
                remedy=f"see why: systemctl status {name}; then run the same command again",
                page="docs/errors.md",
            )
        if state == "failed":
            host.run(["systemctl", "reset-failed", name], timeout=60, check=False)
        host.remove(self._path(target))
        host.run(["systemctl", "daemon-reload"], timeout=60)
        host.remove_tree(target)

    def pid(self, host: Host, target: str) -> Optional[int]:
        return int(self._show(host, target)["MainPID"]) or None

    def is_to_run(self, host: Host, target: str) -> bool:
        done = host.run(["systemctl", "is-enabled", os.path.basename(target)], timeout=30, check=False)
        return done.stdout.strip() == "enabled"

    def reload(self, host: Host, target: str) -> None:
        host.run(["systemctl", "reload", os.path.basename(target)], timeout=_STOP_SECONDS)

    def _show(self, host: Host, target: str) -> dict[str, str]:
        argv = ["systemctl", "show", "--property", "ActiveState,MainPID", os.path.basename(target)]
        lines = host.run(argv, timeout=30).stdout.splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def _path(self, target: str) -> str:
        return os.path.join(UNIT_DIRECTORY, f"{os.path.basename(target)}.service")


def _definition_path(target: str) -> str:
    return os.path.join(target, "ballast.json")


def _write_definition(host: Host, target: str, wanted: Service) -> None:
    definition = {name: part for name, part in wanted.as_value().items() if name != "running"}
    host.write(_definition_path(target), json.dumps(definition).encode())


def _stop_seconds(host: Host, target: str) -> int:
    """Of the service as it is defined now; where its definition is gone, as for any."""
    data = host.read(_definition_path(target))
    return _STOP_SECONDS if data is None else Service.from_value(json.loads(data)).stop_seconds


def _incomplete(target: str) -> Value:
    """The value of a service of which only a part is there: one that nobody asks for."""
    nothing = Service(name=os.path.basename(target), argv=_INCOMPLETE, log="/dev/null", cgroup="none/none")
    return nothing.as_value(running=False)


def _backend(host: Host) -> _Runit | _Systemd:
    return _Systemd() if host.is_systemd() else _Runit()


def stop_runit(host: Host, target: str) -> None:
    """Any service of runit, ours or not, until it is down and stays so."""
    _Runit().stop(host, target)


def _is_supervised(host: Host, target: str) -> bool:
    """By a runsv that lives: what one that has ended leaves there looks the same."""
    if host.stat(os.path.join(target, "supervise", "ok")) is None:
        return False
    return host.run(["sv", "status", target], timeout=_STOP_SECONDS, check=False).status == 0


def _is_to_be_down(host: Host, target: str) -> bool:
    """Byte 17 of supervise/status (runsv.c, update_status) is "u" or "d", for what is wanted of the service."""
    wanted = (host.read(os.path.join(target, "supervise", "status")) or b"")[17:18]
    return _runit_state(host, target) == "down" and wanted in (b"d", b"")


def _runit_state(host: Host, target: str) -> str:
    return (host.read(os.path.join(target, "supervise", "stat")) or b"").decode().strip()


def _wait_for_state(host: Host, target: str, state: str) -> None:
    _wait_for(host, lambda: _runit_state(host, target) == state, os.path.basename(target))


def _wait_for(host: Host, holds: Callable[[], bool], name: str) -> None:
    deadline = host.monotonic() + 2 * _STOP_SECONDS
    while not holds():
        if host.monotonic() > deadline:
            raise HostError(
                f"{name}: its supervisor did not do as asked within {2 * _STOP_SECONDS} seconds",
                id="core-supervisor",
                remedy="see the log of the service, and the log beside their directory",
                page="docs/errors.md",
            )
        host.sleep(0.05)
