# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node's kube-proxy: from the mode that it has to the one that is asked for, and back, without losing a connection.

    guard       a program and a service on the node that stay while the change is under way        guard.py
    bridge      our own rules before kube-proxy's, which carry new connections                       bridge.py
    kube-proxy  its configuration, or its DaemonSet; started anew and proven                         switch.py
    bridge      away
    guard       away, or armed until the change is confirmed

Each is a step in the node's journal. A failure undoes what was done, newest first, and so does the next run after a
kill, or the guard when there is no next run. What was there before the first change stays recorded, for `previous`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import replace

from ..._core.cgroup import CGROUP_KINDS, Limits, cgroup
from ..._core.engine import Finding, ResourceEngine
from ..._core.events import NullSink, Progress
from ..._core.host import Host
from ..._core.kinds import BASE_KINDS, Kind, digest, directory, fields, file
from ..._core.ledger import Ledger, ledger_path
from ..._core.names import joined
from ..._core.plan import ABSENT, Plan, Policy, Recorded, Resource, State, Step, Value
from ..._core.program import PROGRAM_KINDS, program
from ..._core.service import SERVICE_KINDS, Service, service, supervisor
from . import guard, installation
from .bridge import bridge_config
from .config_file import changed_text, parse_config
from .health import not_in_order, read_version
from .installation import DAEMONSET
from .messages import MESSAGES
from .request import CONFIRMED, PRESENT, PREVIOUS, Found, KubeProxy
from .switch import BridgeKind, Means, PodKind, ServiceKind, bridge_resource, pod_resource, service_resource

_GROUP = "guard"
_PROXY_KINDS = ("kube-proxy", "kube-proxy-pod")


class KubeProxyEngine(ResourceEngine[KubeProxy]):
    name = "kube-proxy"
    policy = Policy.UNDO
    kinds: Mapping[str, Kind] = {}  # they are of one request: `_bound`

    def resources(self, desired: KubeProxy) -> list[Resource]:
        """None that should stay: `plan` makes its steps of what it finds."""
        return []

    def observe(self, desired: KubeProxy, host: Host) -> Found:
        engine = self._bound(desired, Progress(NullSink(), feature=self.name))
        text = installation.config_text(host, desired.where)
        if text is None:
            raise MESSAGES.error("migrate-no-config", path=desired.where.config_path)
        installation.require_service(host, desired.where)
        config = parse_config(text, path=desired.where.config_path)
        node = installation.node_name(host, desired.where, config)
        recorded = Ledger(ledger_path(desired.state_dir), host=host, kinds=engine.kinds).recorded
        proxy = _proxy(desired, node, engine, host)
        network = installation.network_namespace(host, desired.where)
        found = Found(recorded, {proxy.key: proxy.value}, proxy, config, node, network, host.is_systemd())
        transient = [*_guard(desired, found), _bridge(desired, found)]
        keys = ({one.key for one in recorded} | {one.key for one in transient}) - {proxy.key}
        values = {(kind, target): engine._read(kind, target, host) for kind, target in sorted(keys)}
        return replace(found, values={**values, proxy.key: proxy.value})

    def require(self, desired: KubeProxy, host: Host) -> None:
        """The checks before a change of the mode."""
        if desired.state != PRESENT:
            return
        found = self.observe(desired, host)
        if fields(found.proxy.value)["mode"] != desired.mode:
            from .inspection import refuse, stands_against  # the checks, which a run that changes nothing does not need
            from .sources import Sources

            refuse(stands_against(host, desired, found, Sources(host, desired.where, found)))

    def plan(self, desired: KubeProxy, state: State) -> Plan:
        if not isinstance(state, Found):
            raise TypeError(state)
        is_armed = desired.state == PRESENT and desired.confirm_within > 0
        wanted = _wanted(desired, state)
        steps = [_step(wanted, state.values[wanted.key])]
        if steps[0].after == steps[0].before:
            return Plan(tuple(_cleared(state, guard_stays=is_armed)), self.policy, state.recorded)
        guards, bridge = _guard(desired, state), _bridge(desired, state)
        up = [_step(one, state.values[one.key]) for one in guards if state.values[one.key] != one.value]
        down = [_step(replace(one, value=ABSENT), one.value) for one in reversed(guards)]
        if fields(steps[0].after)["mode"] != fields(steps[0].before)["mode"]:
            steps = [
                _step(bridge, _before_bridge(state.values[bridge.key])),
                *steps,
                _step(replace(bridge, value=ABSENT), bridge.value),
            ]
        return Plan((*up, *steps, *([] if is_armed else down)), self.policy, state.recorded)

    def recorded_anew(self, plan: Plan, desired: KubeProxy) -> Collection[tuple[str, str]]:
        """Of kube-proxy: `previous` is what was there before the last change."""
        return [step.key for step in plan.steps if step.kind in _PROXY_KINDS and desired.state == PRESENT]

    def apply(self, plan: Plan, desired: KubeProxy, host: Host, progress: Progress) -> tuple[Step, ...]:
        bound = self._bound(desired, progress)
        done = super(KubeProxyEngine, bound).apply(plan, desired, host, progress)
        if done:
            host.remove(os.path.join(desired.state_dir, guard.OUTCOME))
        return done

    def difference(self, plan: Plan) -> list[dict[str, str]]:
        """Configuration as text; of the others, that they come and go."""
        return [
            {
                "before_header": step.title,
                "after_header": step.title,
                "before": _shown(step, step.before),
                "after": _shown(step, step.after),
            }
            for step in plan.steps
        ]

    def verify(self, desired: KubeProxy, host: Host, progress: Progress) -> list[Finding]:
        """The change has been proven as a step; this is for the run that changed nothing."""
        text = installation.config_text(host, desired.where)
        if desired.state != PRESENT or text is None:
            return []
        reason = not_in_order(host, parse_config(text, path=desired.where.config_path), desired.mode)
        if not reason:
            return []
        error = MESSAGES.error("migrate-not-in-order", mode=desired.mode, reason=reason)
        return [Finding(error.id, "kube-proxy", error.text, error.remedy, blocking=reason.startswith("it "))]

    def report(self, desired: KubeProxy, host: Host) -> dict[str, object]:
        return self.reported(desired, self.observe(desired, host), host)

    def reported(self, desired: KubeProxy, state: Found, host: Host) -> dict[str, object]:
        """`report` of what has been observed already."""
        before = _original(state)
        outcome = host.read(os.path.join(desired.state_dir, guard.OUTCOME))
        return {
            "mode": fields(state.proxy.value)["mode"],
            "version": read_version(host, state.config),
            "node_name": state.node,
            "previous_mode": None if before is None else fields(before)["mode"],
            "armed": any(one.kind == "service" for one in state.recorded),
            "bridged": state.values[_bridge(desired, state).key] != ABSENT,
            "went_back": None if outcome is None else json.loads(outcome),
        }

    def _bound(self, desired: KubeProxy, progress: Progress) -> KubeProxyEngine:
        means = Means(
            desired.where,
            desired.probe_service,
            desired.drain_seconds,
            desired.verify_seconds,
            progress,
        )
        bound = KubeProxyEngine()
        bound.kinds = {
            **BASE_KINDS,
            **CGROUP_KINDS,
            **PROGRAM_KINDS,
            **SERVICE_KINDS,
            "bridge": BridgeKind(progress),
            "kube-proxy": ServiceKind(means),
            "kube-proxy-pod": PodKind(means),
        }
        return bound


ENGINE = KubeProxyEngine()


def _proxy(desired: KubeProxy, node: str, engine: KubeProxyEngine, host: Host) -> Resource:
    """As it is."""
    if desired.where.deployment == DAEMONSET:
        found = fields(engine._read("kube-proxy-pod", node, host))
        return pod_resource(node, label=str(found["label"]), mode=str(found["mode"]))
    found = fields(engine._read("kube-proxy", desired.where.config_path, host))
    return service_resource(desired.where, text=str(found["config"]), mode=str(found["mode"]))


def _wanted(desired: KubeProxy, state: Found) -> Resource:
    if desired.state == CONFIRMED:
        return state.proxy
    if desired.state == PREVIOUS:
        before = _original(state)
        if before is None:
            return state.proxy
        return replace(state.proxy, value=before, title=f"kube-proxy in mode {fields(before)['mode']}")
    if desired.where.deployment == DAEMONSET:
        return pod_resource(state.node, label=desired.mode, mode=desired.mode)
    text = str(fields(state.proxy.value)["config"])
    text = changed_text(text, {**desired.config, "mode": desired.mode}, path=desired.where.config_path)
    return service_resource(desired.where, text=text, mode=desired.mode)


def _original(state: Found) -> Value:
    """What was there before the first change; None where none is recorded."""
    found: list[Recorded] = [one for one in state.recorded if one.key == state.proxy.key]
    return found[0].original if found else None


def _cleared(state: Found, *, guard_stays: bool) -> list[Step]:
    """What a change has left up: of the guard when it is confirmed, of the bridge always."""
    return [
        Step(one.kind, one.title, one.target, after=one.original, before=state.values[one.key], group=one.group)
        for one in reversed(state.recorded)
        if one.kind not in _PROXY_KINDS and (one.kind == "bridge" or not guard_stays)
    ]


def _guard(desired: KubeProxy, state: Found) -> list[Resource]:
    """In the order of making. One machine may have several nodes, of several labs too: what they have in common is told
    apart by the node's name and the directory of its record."""
    name = joined("kube-proxy", state.node, digest(desired.state_dir)[:6])
    place = os.path.join(desired.state_dir, guard.DIRECTORY)
    path, sv_dir = os.path.join(place, guard.PROGRAM), os.path.join(place, "sv")
    task = {"params": desired.params, "confirm_within": desired.confirm_within}
    runs = Service(
        name=f"{name}-guard",
        argv=(sys.executable, path, desired.state_dir),
        log=os.path.join(place, guard.LOG),
        cgroup=f"{name}/guard",
        netns=state.network,
        keep_children=True,  # going back, which ends the guard, is its child's work
    )
    return [
        directory(place, mode=0o700, group=_GROUP),
        directory(sv_dir, group=_GROUP),
        program(path, packages=guard.PACKAGES, main=guard.MAIN, group=_GROUP),
        file(os.path.join(place, guard.GUARD), json.dumps(task, sort_keys=True), mode=0o600, group=_GROUP),
        cgroup(name, Limits(), group=_GROUP),
        service(sv_dir, runs, running=True, group=_GROUP),
        # systemd always is: it would be recorded as there before, and taken away for each change.
        *([] if state.is_systemd else [supervisor(sv_dir, group=_GROUP)]),
    ]


def _bridge(desired: KubeProxy, state: Found) -> Resource:
    mode = str(fields(state.proxy.value)["mode"])
    config = bridge_config(state.config, mode or str(state.config.get("mode") or "iptables"))
    return bridge_resource(desired.state_dir, desired.where, config, state.node)


def _before_bridge(value: Value) -> Value:
    """A table that nobody keeps is nothing to go back to: it would be recorded as there before, and wanted again."""
    return ABSENT if value != ABSENT and "left" in fields(value) else value


def _step(wanted: Resource, before: Value) -> Step:
    return Step(wanted.kind, wanted.title, wanted.target, after=wanted.value, before=before, group=wanted.group)


def _shown(step: Step, value: Value) -> str:
    if value == ABSENT:
        return ""
    if step.kind == "kube-proxy":
        return f"# mode in effect: {fields(value)['mode'] or 'none'}\n{fields(value)['config']}"
    if step.kind == "kube-proxy-pod":
        return f"label: {fields(value)['label'] or 'none'}\nmode in effect: {fields(value)['mode'] or 'none'}\n"
    return "there\n"
