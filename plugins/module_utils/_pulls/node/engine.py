# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node's limits of image pulls: of its kubelet, of its container runtime, and of the host's pull proxy.

    containerd or CRI-O   a drop-in, or one number of containerd's own file before 2.0; started anew, proven
    kubelet               a drop-in in --config-dir; started anew, proven
    pull proxy            keys of its settings; reloaded, proven

Each is a step in the node's journal. A failure undoes what was done, newest first, and so does the next run after a kill: the
file of before is there again, and the service is started with it. What is asked for no more goes back to what was there
before the first run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..._core.daemon import command_line, daemon_exists, daemon_pid
from ..._core.engine import Finding, ResourceEngine
from ..._core.errors import BallastError, Problems
from ..._core.events import NullSink, Progress
from ..._core.host import Host
from ..._core.kinds import Kind, fields
from ..._core.ledger import Ledger, ledger_path
from ..._core.plan import ABSENT, Plan, Policy, Recorded, Resource, State, Step, Value, plan_resources
from . import kubelet
from .containerd import ContainerdDropInKind, ContainerdNumberKind, containerd_resource, find_containerd
from .crio import CrioDropInKind, crio_resource
from .drop_in import drop_in
from .kubelet import KubeletKind
from .messages import MESSAGES
from .model import AUTO, CONTAINERD, CRIO, ImagePulls, Where
from .proxy_limits import ProxyLimitsKind, proxy_resource
from .report import Seen, reported

_KUBELET, _CONTAINERD, _NUMBER, _CRIO = "kubelet-drop-in", "containerd-drop-in", "containerd-number", "crio-drop-in"
_PROXY = "proxy-limits"
KINDS = (_KUBELET, _CONTAINERD, _NUMBER, _CRIO, _PROXY)  # of the record


@dataclass(frozen=True)
class Found(State):
    """What is there, and what should be, which follows from how this node runs."""

    wanted: tuple[Resource, ...]


class ImagePullsEngine(ResourceEngine[ImagePulls]):
    name = "image-pulls"
    policy = Policy.UNDO
    kinds: Mapping[str, Kind] = {}  # they are of one request: `_bound`

    def resources(self, desired: ImagePulls) -> list[Resource]:
        """None that follows from the request alone: `observe` finds where each belongs on this node."""
        return []

    def observe(self, desired: ImagePulls, host: Host) -> Found:
        engine = self._bound(desired, Progress(NullSink(), feature=self.name))
        ledger = Ledger(ledger_path(desired.state_dir), host=host, kinds=engine.kinds)
        try:
            wanted = _wanted(desired, host, ledger.recorded)
        except BallastError:
            if not ledger.open:
                raise
            wanted = []  # what a killed run left in the way is undone first, then this is asked anew
        keys = {one.key for one in ledger.recorded} | {one.key for one in wanted}
        values = {(kind, target): engine._read(kind, target, host) for kind, target in sorted(keys)}
        return Found(ledger.recorded, values, tuple(wanted))

    def plan(self, desired: ImagePulls, state: State) -> Plan:
        if not isinstance(state, Found):
            raise TypeError(state)
        return plan_resources(state.wanted, state, policy=self.policy)

    def apply(self, plan: Plan, desired: ImagePulls, host: Host, progress: Progress) -> tuple[Step, ...]:
        bound = self._bound(desired, progress)
        return super(ImagePullsEngine, bound).apply(plan, desired, host, progress)

    def difference(self, plan: Plan) -> list[dict[str, str]]:
        """Files as text; the proxy's limits as JSON."""
        return [
            {
                "before_header": step.title,
                "after_header": step.title,
                "before": _shown(step.before),
                "after": _shown(step.after),
            }
            for step in plan.steps
        ]

    def verify(self, desired: ImagePulls, host: Host, progress: Progress) -> list[Finding]:
        """Each change was proven as a step; this is for the run that changed nothing, and says what cannot be read."""
        if not desired.kubelet:
            return []
        one = _kubelet(desired, host)
        try:
            found = kubelet.read_in_effect(host, desired.where, kubelet.find_kubelet(host, desired.where))
            kubelet.require_kubelet_has(kubelet.drop_in_settings(str(fields(one.value)["text"])), found, one.target)
        except BallastError as error:
            return [_finding(error)]
        return []

    def report(self, desired: ImagePulls, host: Host) -> dict[str, object]:
        return read(host, desired, Seen())

    def _bound(self, desired: ImagePulls, progress: Progress) -> ImagePullsEngine:
        where, seconds = desired.where, desired.ready_seconds
        containerd = (where.runtime_service or CONTAINERD, where.runtime_config, seconds, progress)
        bound = ImagePullsEngine()
        bound.kinds = {
            _KUBELET: KubeletKind(where, seconds, progress),
            _CONTAINERD: ContainerdDropInKind(*containerd),
            _NUMBER: ContainerdNumberKind(*containerd),
            _CRIO: CrioDropInKind(where.runtime_service or CRIO, seconds, progress),
            _PROXY: ProxyLimitsKind(where.proxy_state_dir, progress),
        }
        return bound


ENGINE = ImagePullsEngine()


def read(host: Host, desired: ImagePulls, seen: Seen) -> dict[str, object]:
    return reported(host, desired.where, lambda: find_runtime(host, desired.where), seen)


def find_runtime(host: Host, where: Where) -> tuple[str, str]:
    """Its name and its service. HostError where that cannot be told."""
    if where.container_runtime != AUTO:
        service = where.runtime_service or where.container_runtime
        if not daemon_exists(host, service):
            what = where.container_runtime
            raise MESSAGES.error("pulls-node-service", option="runtime_service", service=service, what=what)
        return where.container_runtime, service
    if where.runtime_service:
        pid = daemon_pid(host, where.runtime_service)
        program = os.path.basename((command_line(host, pid) or [""])[0]) if pid else ""
        if program in (CONTAINERD, CRIO):
            return program, where.runtime_service
        found = f"runs {program}" if program else "does not run"
        raise MESSAGES.error("pulls-node-runtime", why=f"{where.runtime_service} {found}")
    if not host.is_systemd():
        raise MESSAGES.error("pulls-node-runtime", why="its service is not named, and systemd is not there to be asked")
    running = [name for name in (CONTAINERD, CRIO) if daemon_pid(host, name) is not None]
    if len(running) != 1:
        raise MESSAGES.error("pulls-node-runtime", why=f"{' and '.join(running) or 'neither containerd nor crio'} runs")
    return running[0], running[0]


def _wanted(desired: ImagePulls, host: Host, recorded: tuple[Recorded, ...]) -> list[Resource]:
    """In the order of doing. Every level's errors at once."""
    problems: list[BallastError] = []
    found: list[Resource] = []
    targets = {one.kind: one for one in recorded}
    levels: list[tuple[Mapping[str, Any], Callable[[], Resource]]] = [
        (desired.runtime, lambda: _runtime(desired, host, targets)),
        (desired.kubelet, lambda: _kubelet(desired, host)),
        (desired.host, lambda: _proxy(desired, host, targets)),
    ]
    for asked, make in levels:
        if asked:
            try:
                found.append(make())
            except Problems as error:
                problems += error.problems
            except BallastError as error:
                problems.append(error)
    Problems.raise_if(problems)
    return found


def _runtime(desired: ImagePulls, host: Host, recorded: Mapping[str, Recorded]) -> Resource:
    name, service = find_runtime(host, desired.where)
    if name == CRIO:
        return crio_resource(host, service, desired.runtime)
    there = recorded.get(_CONTAINERD)
    found = find_containerd(host, service, desired.where.runtime_config)
    return containerd_resource(host, found, desired.runtime, None if there is None else there.target)


def _kubelet(desired: ImagePulls, host: Host) -> Resource:
    where = desired.where
    found = kubelet.find_kubelet(host, where)
    if found.pid is None:
        service = where.kubelet_service
        raise MESSAGES.error("pulls-node-service", option="kubelet_service", service=service, what="the kubelet")
    problems = [
        MESSAGES.error("pulls-node-flag", found=", ".join(one.places), flag=one.flag, key=one.key)
        for one in kubelet.flags_found(host, found, tuple(desired.kubelet))
    ]
    directory = kubelet.config_dir(host, found)
    if not directory:
        problems.append(MESSAGES.error("pulls-node-config-dir"))
    Problems.raise_if(problems)
    path = os.path.join(directory, kubelet.FILE_NAME)
    return drop_in(_KUBELET, path, kubelet.drop_in_text(desired.kubelet), title=f"the kubelet's drop-in {path}")


def _proxy(desired: ImagePulls, host: Host, recorded: Mapping[str, Recorded]) -> Resource:
    there = recorded.get(_PROXY)
    return proxy_resource(host, desired.host, ABSENT if there is None else there.original)


def _finding(error: BallastError) -> Finding:
    """What cannot be read is no fault of what was asked for."""
    blocking = error.id == "pulls-node-not-in-effect"
    if not blocking and error.id != "pulls-node-not-read-back":
        error = MESSAGES.error("pulls-node-not-read-back", why=error.in_one_line)
    return Finding(error.id, "kubelet", error.in_one_line, error.remedy, blocking=blocking)


def _shown(value: Value) -> str:
    if value == ABSENT:
        return ""
    parts = fields(value)
    return str(parts["text"]) if "text" in parts else json.dumps(parts, indent=2, sort_keys=True) + "\n"
