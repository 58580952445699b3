# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The watchdog: a small program that runs on the node during a change of mode.

It keeps the takeover table in line with the Services of the API. It restores the state before the change if no run is active
any more and nobody has confirmed the change: the operator was cut off, the run was killed, or the machine rebooted. It is a
service (guard.pyz), so systemd starts it again after a reboot.

    STATE_DIR/guard/guard.json          options for the rollback, and how long to wait for a confirmation
    STATE_DIR/guard/bridge.json         the request for a takeover table; without this file there is no table
    STATE_DIR/guard/bridge-status.json  the result of that request
    STATE_DIR/outcome.json              written after a rollback, for the next run and for kube_proxy_info
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from typing import Optional

from .._core.engine.context import Context
from .._core.engine.events import FileSink, Progress
from .._core.engine.kinds import digest
from .._core.host.cgroup_paths import cgroup_hierarchies
from .._core.host.host import Host
from .._core.host.local_host import LocalHost
from .._core.text.errors import BallastError, HostError
from .._core.text.json_text import parse_json
from .._core.text.redaction import redact_message
from . import takeover_table
from .informer import ServiceInformer
from .installation import Installation, api, current_config
from .watchdog_files import DIRECTORY, LOG, OUTCOME, PROGRAM, STATUS, TABLE, TABLE_LOCK, TASK

_TICK_SECONDS = 0.2
_UNARMED_SECONDS = 30  # after a run was killed: time for the operator to start it again
_RETRY_SECONDS = 30  # between two attempts to roll back


def main() -> None:
    """`guard.pyz STATE_DIR` watches the change; `guard.pyz STATE_DIR back` rolls back once."""
    state_dir = sys.argv[1]
    if sys.argv[2:] == ["back"]:
        go_back(LocalHost(), state_dir)
        return
    watchdog = Watchdog(LocalHost(), state_dir)
    while True:
        watchdog.tick()
        time.sleep(_TICK_SECONDS)


class Watchdog:
    def __init__(self, host: Host, state_dir: str) -> None:
        self._host = host
        self._state_dir = state_dir
        self._keeper: Optional[_Keeper] = None
        self._free_since: Optional[float] = None
        self._logged = ""

    def tick(self) -> None:
        """Do what is due now. An error is logged, and the next tick tries again."""
        try:
            self._keep_table()
            self._check_confirmation()
        except BallastError as error:
            self._log(str(error))

    def _keep_table(self) -> None:
        request = self._host.read(self._path(TABLE))
        if self._keeper is not None and self._keeper.request != request:
            self._keeper.end()
            self._keeper = None
        if request is None:
            return
        if self._keeper is None:
            self._keeper = _Keeper(self._host, self._path(""), request)
        self._keeper.tick()

    def _check_confirmation(self) -> None:
        if self._is_run_at_work():
            self._free_since = None
            return
        now = self._host.monotonic()
        if self._free_since is None:
            self._free_since = now
        task = parse_json(self._host.read(self._path(TASK)) or b"{}")
        allowed = float(task.get("confirm_within", 0)) or _UNARMED_SECONDS
        if task and now - self._free_since > allowed:
            self._log(f"no confirmation within {allowed:.0f} seconds: rolling back")
            argv = [sys.executable, self._path(PROGRAM), self._state_dir, "back"]
            self._host.spawn(argv, log=self._path(LOG))
            self._free_since = now + _RETRY_SECONDS - allowed

    def _is_run_at_work(self) -> bool:
        try:
            with self._host.lock(os.path.join(self._state_dir, "lock")):
                return False
        except HostError:
            return True

    def _path(self, name: str) -> str:
        return os.path.join(self._state_dir, DIRECTORY, name)

    def _log(self, text: str) -> None:
        if text != self._logged:
            self._logged = text
            sys.stderr.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {redact_message(text)}\n")


class _Keeper:
    """Keeps the takeover table of one request up to date."""

    def __init__(self, host: Host, directory: str, request: bytes) -> None:
        self.request = request
        self._host = host
        self._directory = directory
        task = parse_json(request)
        where = Installation(**task["installation"])
        self._table = takeover_table.TakeoverTable(host, task["config"], task["node"])
        self._informer = ServiceInformer(lambda: api(host, where, current_config(host, where)), task["node"])
        self._informer.start()
        self._problem = ""

    def end(self) -> None:
        self._informer.end()

    def tick(self) -> None:
        if not self._informer.complete:
            self._report(self._informer.problem or "waiting for the API to list the Services")
            return
        if not self._informer.changed.is_set() and not self._problem:
            return
        try:
            # Held while rules are written: otherwise the table could be recreated after a run has removed it.
            with self._host.lock(os.path.join(self._directory, TABLE_LOCK)):
                if self._host.read(os.path.join(self._directory, TABLE)) != self.request:
                    return
                data = self._informer.take()
                self._report("", self._table.update(data))
        except BallastError as error:
            self._report(str(error))

    def _report(self, problem: str, operations: Optional[int] = None) -> None:
        if problem and problem == self._problem:
            return
        self._problem = problem
        status = {"of": digest(self.request), "problem": problem, "operations": operations, "at": self._host.now()}
        self._host.write(os.path.join(self._directory, STATUS), json.dumps(status).encode(), mode=0o600)


def go_back(host: Host, state_dir: str) -> None:
    """Restore the state before the change from the journal, even if a run was killed in the middle of it."""
    from .engine import ENGINE
    from .request import UNCONFIRMED, KubeProxyRequest

    _leave_cgroup(host)
    task = parse_json(host.read(os.path.join(state_dir, DIRECTORY, TASK)) or b"{}")
    desired = KubeProxyRequest.from_params({**task["params"], "state": UNCONFIRMED})
    progress = Progress(FileSink(os.path.join(state_dir, "events.jsonl")), feature="kube-proxy")
    ctx = Context(desired, host, progress)
    done = ENGINE.apply(ENGINE.plan(desired, ENGINE.observe(ctx)), ctx)
    outcome = {"at": host.now(), "why": "the change was not confirmed", "steps": [step.title for step in done.steps]}
    ENGINE.claim(ctx)  # the rollback may have removed the journal with its directory
    host.write(os.path.join(state_dir, OUTCOME), json.dumps(outcome).encode(), mode=0o600)


def _leave_cgroup(host: Host) -> None:
    """Move this process out of the watchdog's cgroup, because the rollback kills every process in it."""
    for root in cgroup_hierarchies(host):
        with suppress(BallastError):
            host.write_kernel_file(os.path.join(root, "cgroup.procs"), str(os.getpid()))
