# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services under runit, and the `runsvdir` that supervises a directory of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from typing import Any, Optional

from ..engine.context import Context
from ..engine.kinds import fields
from ..engine.plan import ABSENT, Value
from ..engine.wait import wait_until
from ..host.host import Host, Process, ProcessId
from ..host.processes import is_run_by, is_runsvdir, list_processes
from ..text.errors import HostError, Unavailable
from ..text.json_text import parse_json
from ..text.service_messages import MESSAGES
from . import supervisor_cgroup
from .service import STOP_SECONDS, Service, definition_path, incomplete, stop_seconds, write_definition
from .service_text import run_script

_WITHOUT_WAIT = {"force-stop": "down", "force-shutdown": "exit"}


class Runit:
    """The `Supervisor` of a host without systemd."""

    def read(self, host: Host, target: str) -> Value:
        data = host.read(definition_path(target))
        if data is None:
            return incomplete(target) if host.stat(target) else ABSENT
        service = Service.from_value(parse_json(data))
        if host.read(os.path.join(target, "run")) != run_script(host, service).encode():
            return incomplete(target)  # edited, or written by another version
        return service.as_value(running=self._runs(host, target))

    def write(self, host: Host, target: str, service: Service, *, running: bool, definition_known: bool) -> None:
        supervised = supervisor_pid(host, os.path.dirname(target)) is not None
        if not definition_known:
            host.make_directory(target)
            host.remove(definition_path(target))
            host.write(os.path.join(target, "run"), run_script(host, service).encode(), mode=0o755)
        if running:
            host.remove(os.path.join(target, "down"))
        else:
            host.write(os.path.join(target, "down"), b"")
        if supervised:
            _wait_for(host, lambda: _is_supervised(host, target), service.name)
            # Also before a start: a state that runsv could not write to a full disk stays wrong until the process ends.
            self.stop(host, target, seconds=service.stop_seconds)
            if running:
                host.run(["sv", "up", target], timeout=STOP_SECONDS)
                _wait_for_state(host, target, "run")
        if not definition_known:
            write_definition(host, target, service)

    def remove(self, host: Host, target: str) -> None:
        if host.stat(target) is None:
            return
        seconds = stop_seconds(host, target)
        host.remove(definition_path(target))
        if host.stat(os.path.join(target, "supervise")):
            # runsvdir restarts a runsv that ends; the file `down` keeps that one from starting the service.
            host.write(os.path.join(target, "down"), b"")
            _end(host, "force-shutdown", _list_supervised(host, [target]), seconds=seconds)
        host.remove_tree(target)

    def process(self, host: Host, target: str) -> Optional[Process]:
        return runit_process(host, target) if self._runs(host, target) else None

    def is_to_run(self, host: Host, target: str) -> bool:
        return host.stat(target) is not None and host.stat(os.path.join(target, "down")) is None

    def reload(self, host: Host, target: str) -> None:
        host.run(["sv", "hup", target], timeout=STOP_SECONDS)

    def _runs(self, host: Host, target: str) -> bool:
        return supervisor_pid(host, os.path.dirname(target)) is not None and _runit_state(host, target) == "run"

    def stop(self, host: Host, target: str, *, seconds: int = STOP_SECONDS) -> None:
        _end(host, "force-stop", [target], seconds=seconds)
        # A service that keeps crashing is "down" with "want up" while runsv waits before the next start. sv takes that for
        # stopped, and would take the next "up" for already requested.
        _wait_for(host, lambda: _is_to_be_down(host, target), os.path.basename(target))


class SupervisorKind:
    """Value: `{"running": true}`."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        if ctx.host.is_systemd() or supervisor_pid(ctx.host, target):
            return {"running": True}
        left = _supervisor(ctx.host, target) or ctx.host.stat(_pid_path(target))
        return {"running": False} if left else ABSENT

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        if ctx.host.is_systemd():
            return
        if not fields(after)["running"]:  # removal of a part that existed before the first run
            self.remove(ctx, target, before)
            return
        if ctx.host.which("runsvdir") is None:
            raise Unavailable("runsvdir")
        if ctx.host.stat(target) is None:
            ctx.host.make_directory(target)
        running = _supervisor(ctx.host, target)
        if running is None:
            _end_runsv(ctx.host, target)
            # runsvdir does not scan a directory that was changed within the current second, to see complete changes only.
            ctx.host.run(["touch", "--date=-10 seconds", target], timeout=10)
            running = ctx.host.spawn(["runsvdir", "-P", target], log=_log_path(target))
        ctx.host.write(_pid_path(target), f"{running.pid}\n".encode())
        for path in _service_directories(ctx.host, target):
            if not ctx.host.stat(os.path.join(path, "down")):
                _wait_for_state(ctx.host, path, "run")
        supervisor_cgroup.enter(ctx.host, running)

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        running = _supervisor(ctx.host, target)
        _end(ctx.host, "force-stop", _started_after_others(ctx.host, target))
        if running is not None:
            # runsvdir(8): on SIGHUP it sends SIGTERM to each runsv, which ends its service, and then exits.
            ctx.host.signal(running, signal.SIGHUP)
            _wait_for(ctx.host, lambda: not ctx.host.read_process(running, "cmdline"), f"supervisor of {target}")
        _end_runsv(ctx.host, target)
        supervisor_cgroup.leave(ctx.host)
        ctx.host.remove(_log_path(target))
        ctx.host.remove(_pid_path(target))


def stop_together(host: Host, sv_dirs: Sequence[str]) -> None:
    """Stop all services of these supervisors at once, before each is removed. Does nothing without runit."""
    paths = [path for sv_dir in sv_dirs for path in _service_directories(host, sv_dir)]
    _end(host, "force-stop", _list_supervised(host, paths))


def supervisor_pid(host: Host, sv_dir: str) -> Optional[int]:
    """The pid of our runsvdir if it is alive, root's, and serves `sv_dir`."""
    recorded = (host.read(_pid_path(sv_dir)) or b"").strip()
    process = host.process(int(recorded)) if recorded.isdigit() else None
    return process.pid if process is not None and is_runsvdir(host, process, sv_dir) else None


def runit_process(host: Host, directory: str) -> Optional[Process]:
    """The process of any runit service, ours or not; None while it is not running."""
    data = (host.read(os.path.join(directory, "supervise", "pid")) or b"").strip()
    # The file remains when runsv is killed, and the pid may belong to another process by then.
    process = host.process(int(data)) if data.isdigit() and _runit_state(host, directory) == "run" else None
    return process if process is not None and is_run_by(host, process, directory) else None


def stop_runit(host: Host, target: str) -> None:
    """Stop any runit service, ours or not, and wait until it is down and stays down."""
    Runit().stop(host, target)


def _supervisor(host: Host, sv_dir: str) -> Optional[ProcessId]:
    """The runsvdir of the directory, including one started by a run that was killed before it recorded the pid."""
    return next((process.id for process in list_processes(host) if is_runsvdir(host, process, sv_dir)), None)


def _service_directories(host: Host, sv_dir: str) -> list[str]:
    paths = [os.path.join(sv_dir, name) for name in host.listdir(sv_dir)]
    return [path for path in paths if host.stat(os.path.join(path, "run"))]


def _end_runsv(host: Host, sv_dir: str) -> None:
    """End each runsv, which outlives its runsvdir, with its service. Remove the state files they leave, which would say
    "run" forever."""
    paths = _service_directories(host, sv_dir)
    _end(host, "force-shutdown", _list_supervised(host, paths))
    for path in paths:
        if host.stat(os.path.join(path, "supervise")):
            host.remove_tree(os.path.join(path, "supervise"))


def _end(host: Host, how: str, paths: Sequence[str], *, seconds: int = STOP_SECONDS) -> None:
    """End these services together: SIGTERM, then SIGKILL after `seconds`. With `force-shutdown` their runsv ends too."""
    if not paths:
        return
    # sv polls every 0.42 seconds, so it is told to wait only once nothing is left to wait for. Its exit status is ignored:
    # it is a failure for a service whose runsv has already ended.
    host.run(["sv", _WITHOUT_WAIT[how], *paths], timeout=seconds, check=False)
    wait_until(host, lambda: not any(_runs(host, path) for path in paths), seconds=seconds, interval=0.05)
    host.run(["sv", "-w", "1", how, *paths], timeout=3 * seconds, check=False)


def _runs(host: Host, path: str) -> bool:
    return _runit_state(host, path) not in ("down", "")


def _started_after_others(host: Host, sv_dir: str) -> list[str]:
    """Services that start after another program. They must end before that program: an API server whose etcd stops first
    waits for it until it is killed."""
    rows = []
    for path in _service_directories(host, sv_dir):
        data = host.read(definition_path(path))
        defined = None if data is None else Service.from_value(parse_json(data))
        if defined is not None and host.stat(os.path.join(path, "supervise")):
            rows.append((len(defined.after), defined.argv[0], path))
    first = {program for after, program, _path in rows if not after}
    return _list_supervised(host, [path for _after, program, path in rows if program not in first])


def _log_path(sv_dir: str) -> str:
    return f"{sv_dir}.log"


def _pid_path(sv_dir: str) -> str:
    # Beside the directory: runsvdir would take an entry inside it for a service.
    return f"{sv_dir}.pid"


def _list_supervised(host: Host, paths: Sequence[str]) -> list[str]:
    """Those of our services that can be waited for. The state files of a runsv that was killed, as by a power cut, say "run"
    forever."""
    return [path for path in paths if _is_supervised(host, path)]


def _is_supervised(host: Host, target: str) -> bool:
    """Whether a live runsv supervises it: the files of a runsv that has ended look the same."""
    if host.stat(os.path.join(target, "supervise", "ok")) is None:
        return False
    return host.run(["sv", "status", target], timeout=STOP_SECONDS, check=False).status == 0


def _is_to_be_down(host: Host, target: str) -> bool:
    """Whether it is down and meant to be: byte 17 of supervise/status (runsv.c, update_status) is "u" or "d", the requested
    state."""
    requested = (host.read(os.path.join(target, "supervise", "status")) or b"")[17:18]
    return _runit_state(host, target) == "down" and requested in (b"d", b"")


def _runit_state(host: Host, target: str) -> str:
    return (host.read(os.path.join(target, "supervise", "stat")) or b"").decode().strip()


def _wait_for_state(host: Host, target: str, state: str) -> None:
    _wait_for(host, lambda: _runit_state(host, target) == state, os.path.basename(target))


def _wait_for(host: Host, condition: Callable[[], bool], name: str) -> None:
    if not wait_until(host, condition, seconds=2 * STOP_SECONDS, interval=0.05):
        action, where = f"obey within {2 * STOP_SECONDS} seconds", "its log and the log next to the service directory"
        raise HostError(**MESSAGES.texts("core-supervisor", name=name, action=action, where=where))
