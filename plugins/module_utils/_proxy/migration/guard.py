# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guard: a small program on the node that stays while a change is under way, whoever started it.

It keeps the bridge as the API has the Services, and takes the node back to what was before when no run is at work any
more and nobody has confirmed the change: the operator was cut off, the run was killed, or the machine was restarted in
the middle. It is a service (guard.pyz), so that it also outlives the machine's restart where systemd starts services.

    STATE_DIR/guard/guard.json          what to go back with, and how long to wait for a confirmation
    STATE_DIR/guard/bridge.json         the bridge that is wanted; without it there is none
    STATE_DIR/guard/bridge-status.json  what became of it
    STATE_DIR/outcome.json              left behind when it went back, for the next run and for kube_proxy_info
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from typing import Optional

from ..._core.cgroup_paths import cgroup_hierarchies
from ..._core.errors import BallastError, HostError
from ..._core.events import FileSink, Progress
from ..._core.host import Host, LocalHost
from ..._core.kinds import digest
from . import bridge
from .feed import Feed
from .installation import Installation, api, current_config

DIRECTORY = "guard"
GUARD, BRIDGE, STATUS, OUTCOME = "guard.json", "bridge.json", "bridge-status.json", "outcome.json"
BRIDGE_LOCK = "bridge.lock"
LOG, PROGRAM = "guard.log", "guard.pyz"
MAIN = "_proxy.migration.guard.main"
PACKAGES = ("_core", "_proxy")
_TICK_SECONDS = 0.2
_UNARMED_SECONDS = 30  # after a run was killed, so that the operator's next one may go on from there
_AGAIN_SECONDS = 30  # between two tries to go back


def main() -> None:
    """`guard.pyz STATE_DIR` watches; with `back` behind it, it goes back, once."""
    state_dir = sys.argv[1]
    if sys.argv[2:] == ["back"]:
        go_back(LocalHost(), state_dir)
        return
    guard = Guard(LocalHost(), state_dir)
    while True:
        guard.tick()
        time.sleep(_TICK_SECONDS)


class Guard:
    def __init__(self, host: Host, state_dir: str) -> None:
        self._host = host
        self._state_dir = state_dir
        self._keeper: Optional[_Keeper] = None
        self._free_since: Optional[float] = None
        self._told = ""

    def tick(self) -> None:
        try:
            self._keep_bridge()
            self._see_to_confirmation()
        except BallastError as error:
            self._tell(str(error))

    def _keep_bridge(self) -> None:
        wanted = self._host.read(self._path(BRIDGE))
        if wanted is None:
            if self._keeper is not None:
                self._keeper.end()
            self._keeper = None
            return
        if self._keeper is None or self._keeper.wanted != wanted:
            if self._keeper is not None:
                self._keeper.end()
            self._keeper = _Keeper(self._host, self._path(""), wanted)
        self._keeper.tick()

    def _see_to_confirmation(self) -> None:
        if self._a_run_is_at_work():
            self._free_since = None
            return
        now = self._host.monotonic()
        if self._free_since is None:
            self._free_since = now
        task = json.loads(self._host.read(self._path(GUARD)) or b"{}")
        allowed = float(task.get("confirm_within", 0)) or _UNARMED_SECONDS
        if task and now - self._free_since > allowed:
            self._tell(f"no confirmation within {allowed:.0f} seconds: going back")
            argv = [sys.executable, self._path(PROGRAM), self._state_dir, "back"]
            self._host.spawn(argv, log=self._path(LOG))
            self._free_since = now + _AGAIN_SECONDS - allowed

    def _a_run_is_at_work(self) -> bool:
        try:
            with self._host.lock(os.path.join(self._state_dir, "lock")):
                return False
        except HostError:
            return True

    def _path(self, name: str) -> str:
        return os.path.join(self._state_dir, DIRECTORY, name)

    def _tell(self, text: str) -> None:
        if text != self._told:
            self._told = text
            sys.stderr.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {text}\n")


class _Keeper:
    """Of one bridge."""

    def __init__(self, host: Host, directory: str, wanted: bytes) -> None:
        self.wanted = wanted
        self._host = host
        self._directory = directory
        task = json.loads(wanted)
        where = Installation(**task["installation"])
        self._bridge = bridge.Bridge(host, task["config"], task["node"])
        self._feed = Feed(lambda: api(host, where, current_config(host, where)), task["node"])
        self._feed.start()
        self._problem = ""

    def end(self) -> None:
        self._feed.end()

    def tick(self) -> None:
        if not self._feed.complete:
            self._report(self._feed.problem or "waiting for the API to list the Services")
            return
        if not self._feed.changed.is_set() and not self._problem:
            return
        try:
            # Held while rules are written, so that who takes the bridge away does not find it made again behind him.
            with self._host.lock(os.path.join(self._directory, BRIDGE_LOCK)):
                if self._host.read(os.path.join(self._directory, BRIDGE)) != self.wanted:
                    return
                data = self._feed.take()
                self._report("", self._bridge.bring(data))
        except BallastError as error:
            self._report(str(error))

    def _report(self, problem: str, operations: Optional[int] = None) -> None:
        if problem and problem == self._problem:
            return
        self._problem = problem
        status = {"of": digest(self.wanted), "problem": problem, "operations": operations, "at": self._host.now()}
        self._host.write(os.path.join(self._directory, STATUS), json.dumps(status).encode(), mode=0o600)


def go_back(host: Host, state_dir: str) -> None:
    """To what was before the change. The journal knows how, also when a run was killed in the middle of it."""
    from .engine import ENGINE
    from .request import KubeProxy

    _leave_cgroup(host)
    task = json.loads(host.read(os.path.join(state_dir, DIRECTORY, GUARD)) or b"{}")
    desired = KubeProxy.from_params({**task["params"], "state": "previous"})
    progress = Progress(FileSink(os.path.join(state_dir, "events.jsonl")), feature="kube-proxy")
    steps = ENGINE.apply(ENGINE.plan(desired, ENGINE.observe(desired, host)), desired, host, progress)
    outcome = {"at": host.now(), "why": "the change was not confirmed", "steps": [step.title for step in steps]}
    host.make_directory(state_dir)
    host.write(os.path.join(state_dir, OUTCOME), json.dumps(outcome).encode(), mode=0o600)


def _leave_cgroup(host: Host) -> None:
    """The guard's own cgroup goes with the guard, and with whatever is in it."""
    for root in cgroup_hierarchies(host):
        with suppress(BallastError):
            host.poke(os.path.join(root, "cgroup.procs"), str(os.getpid()))
