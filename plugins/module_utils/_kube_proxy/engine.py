# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Switches a node's kube-proxy to another mode and back, without losing a connection.

    watchdog        is started: a program that runs on the node during the change       watchdog.py
    takeover table  is created: our rules, before kube-proxy's, serve new connections   takeover_table.py
    kube-proxy      gets another configuration or DaemonSet, restarts, is verified      switch.py
    takeover table  is removed
    watchdog        is removed, or stays until the change is confirmed

In mode `ballast` our service proxy replaces kube-proxy: it is installed after the watchdog is started, and it is removed
last when the node leaves that mode (own_proxy.py).

Each line stands for steps in the node's journal. A failure undoes the steps, newest first. After a kill the next run undoes
them, or the watchdog if no run follows. The journal keeps the state before the first change, for `previous`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import replace

from .._agent.program import PROGRAM_KINDS, program
from .._core.engine.context import Context
from .._core.engine.engine import Finding, JournalEngine
from .._core.engine.kinds import BASE_KINDS, Kind, digest, directory, fields, file
from .._core.engine.plan import ABSENT, Plan, Policy, Recorded, Resource, Step, Value
from .._core.engine.shared_directory import SHARED_KINDS
from .._core.host.names import join_name, without_entry
from .._core.service.cgroup import CGROUP_KINDS, Limits, cgroup
from .._core.service.sandbox import Sandbox
from .._core.service.service import Service, service, supervisor
from .._core.service.services import SERVICE_KINDS
from .._core.text.json_text import parse_json
from . import drain_record, installation, own_proxy, watchdog_files
from .config_file import changed_text, merge, parse_config
from .health import read_problem, read_version
from .installation import DAEMONSET
from .messages import MESSAGES
from .modes import BALLAST
from .request import PRESENT, PREVIOUS, UNCONFIRMED, KubeProxyRequest, KubeProxyState
from .switch import PodKind, ServiceKind, TakeoverTableKind, pod_resource, service_resource, takeover_table_resource
from .takeover_table import takeover_config

_GROUP = "guard"
_PROXY_KINDS = ("kube-proxy", "kube-proxy-pod")


class KubeProxyEngine(JournalEngine[KubeProxyRequest, KubeProxyState, Plan]):
    name = "kube-proxy"
    policy = Policy.UNDO
    kinds: Mapping[str, Kind] = {
        **BASE_KINDS,
        **CGROUP_KINDS,
        **PROGRAM_KINDS,
        **SERVICE_KINDS,
        **SHARED_KINDS,
        "bridge": TakeoverTableKind(),
        "kube-proxy": ServiceKind(),
        "kube-proxy-pod": PodKind(),
    }

    def observe(self, ctx: Context[KubeProxyRequest]) -> KubeProxyState:
        host, desired = ctx.host, ctx.desired
        text = installation.config_text(host, desired.where)
        if text is None:
            raise MESSAGES.error("migrate-no-config", path=desired.where.config_path)
        installation.require_service(host, desired.where)
        own_proxy.require_record(host, desired.where, desired.state_dir)
        kube_proxy_config = parse_config(text, path=desired.where.config_path)
        config = own_proxy.config_of(host, desired.where)
        node = installation.node_name(host, desired.where, config)
        recorded = self.read_recorded(ctx)
        proxy = self._read_proxy(node, ctx)
        state = KubeProxyState(
            recorded=recorded,
            values={},
            wanted=(),
            proxy=proxy,
            config=config,
            kube_proxy_config=kube_proxy_config,
            node=node,
            network=installation.network_namespace(host, desired.where),
            is_systemd=host.is_systemd(),
        )
        parts: list[Resource] = []
        if _enters_own(desired, state):
            parts = own_proxy.parts(desired.state_dir, desired.where)
            obstacle = own_proxy.obstacle(host, desired.where, {record.key for record in recorded})
            state = replace(state, obstacle=obstacle)
        transient = [*_watchdog(desired, state), _takeover_table(desired, state), *parts]
        values = self.values(ctx, [record for record in recorded if record.key != proxy.key], transient)
        return replace(state, values={**values, proxy.key: proxy.value})

    def require(self, ctx: Context[KubeProxyRequest], state: KubeProxyState) -> None:
        """Run the preflight checks if the mode is going to change."""
        if ctx.desired.state != PRESENT:
            return
        if fields(state.proxy.value)["mode"] != ctx.desired.mode:
            from .inspection import (
                blocking_findings,
                refuse,
            )  # the checks, which a run that changes nothing does not need
            from .sources import Sources

            sources = Sources(ctx.host, ctx.desired.where, state)
            refuse(blocking_findings(ctx.host, ctx.desired, state, sources))

    def plan(self, desired: KubeProxyRequest, state: KubeProxyState) -> Plan:
        if _enters_own(desired, state) and state.obstacle is not None:
            raise state.obstacle
        is_armed = desired.state == PRESENT and desired.confirm_within > 0
        target = _desired_proxy(desired, state)
        steps = [_step(target, state.values[target.key])]
        installing = (
            _missing(own_proxy.parts(desired.state_dir, desired.where), state) if _enters_own(desired, state) else []
        )
        # A change that has left mode ballast and waits for confirmation may be rolled back to it.
        removing = [] if is_armed or own_proxy.is_value(target.value) else _removing_steps(state)
        if steps[0].after == steps[0].before:
            clearing = _clearing_steps(state, watchdog_stays=is_armed)
            return Plan((*installing, *clearing, *removing), self.policy, state.recorded)
        watchdog_resources, table = _watchdog(desired, state), _takeover_table(desired, state)
        up = _missing(watchdog_resources, state)
        down = [_step(replace(resource, value=ABSENT), resource.value) for resource in reversed(watchdog_resources)]
        if fields(steps[0].after)["mode"] != fields(steps[0].before)["mode"]:
            steps = [
                _step(table, _before_table(state.values[table.key])),
                *steps,
                _step(replace(table, value=ABSENT), table.value),
            ]
        # The supervisor of our service proxy is not started by the watchdog, whose sandbox it would inherit, so it is
        # removed after the watchdog.
        return Plan((*up, *installing, *steps, *([] if is_armed else down), *removing), self.policy, state.recorded)

    def keys_to_record_again(self, plan: Plan, desired: KubeProxyRequest) -> Collection[tuple[str, str]]:
        """kube-proxy's keys, so that `previous` is the state before the last change."""
        return [step.key for step in plan.steps if step.kind in _PROXY_KINDS and desired.state == PRESENT]

    def apply(self, plan: Plan, ctx: Context[KubeProxyRequest]) -> Plan:
        done = super().apply(plan, ctx)
        if done.steps:
            ctx.host.remove(os.path.join(ctx.desired.state_dir, watchdog_files.OUTCOME))
        return done

    def diff(self, plan: Plan) -> list[dict[str, str]]:
        """The configuration as text; for other steps only whether the object exists."""
        return [
            {
                "before_header": step.title,
                "after_header": step.title,
                "before": _show(step, step.before),
                "after": _show(step, step.after),
            }
            for step in plan.steps
        ]

    def verify(self, ctx: Context[KubeProxyRequest]) -> list[Finding]:
        """Only for a run that changed nothing: a change is verified in its own step."""
        desired = ctx.desired
        if desired.state != PRESENT or installation.config_text(ctx.host, desired.where) is None:
            return []
        config = own_proxy.config_of(ctx.host, desired.where)
        findings = own_proxy.findings(config) if desired.mode == BALLAST else []
        reason = read_problem(ctx.host, config, desired.mode)
        if not reason:
            return findings
        error = MESSAGES.error("migrate-not-in-order", mode=desired.mode, reason=reason)
        return [*findings, Finding(error.id, "kube-proxy", error.text, error.remedy, blocking=reason.startswith("it "))]

    def report(self, ctx: Context[KubeProxyRequest]) -> dict[str, object]:
        return {**describe(ctx, self.observe(ctx)), "change_seconds": dict(ctx.progress.seconds)}

    def _read_proxy(self, node: str, ctx: Context[KubeProxyRequest]) -> Resource:
        where = ctx.desired.where
        if where.deployment == DAEMONSET:
            value = fields(self.read_value("kube-proxy-pod", node, ctx))
            return pod_resource(node, label=str(value["label"]), mode=str(value["mode"]))
        value = fields(self.read_value("kube-proxy", where.config_path, ctx))
        resource = service_resource(where, text=str(value["config"]), mode=str(value["mode"]))
        return replace(resource, value=value)


ENGINE = KubeProxyEngine()


def describe(ctx: Context[KubeProxyRequest], state: KubeProxyState) -> dict[str, object]:
    """The part of the result that the module and its `_info` twin share."""
    before = _original(state)
    outcome = ctx.host.read(os.path.join(ctx.desired.state_dir, watchdog_files.OUTCOME))
    return {
        "mode": fields(state.proxy.value)["mode"],
        "version": read_version(ctx.host, state.config),
        "node_name": state.node,
        "deployment": ctx.desired.where.deployment,
        "service": ctx.desired.where.service,
        "config_path": ctx.desired.where.config_path,
        "previous_mode": None if before is None else fields(before)["mode"],
        "armed": _is_armed(state),
        "bridged": state.values[_takeover_table(ctx.desired, state).key] != ABSENT,
        "went_back": None if outcome is None else parse_json(outcome),
        "draining": drain_record.describe(ctx.host),
    }


def _desired_proxy(desired: KubeProxyRequest, state: KubeProxyState) -> Resource:
    if _goes_back(desired, state):
        before = _original(state)
        if before is None:
            return state.proxy
        if own_proxy.is_value(before):
            before = own_proxy.renew(desired.state_dir, before, state.node, state.network)
        return replace(state.proxy, value=before, title=f"kube-proxy in mode {fields(before)['mode']}")
    if desired.state != PRESENT:
        return state.proxy
    if desired.where.deployment == DAEMONSET:
        return pod_resource(state.node, label=desired.mode, mode=desired.mode)
    text = str(fields(state.proxy.value)["config"])
    if desired.mode == BALLAST:
        config = merge(state.kube_proxy_config, desired.config)
        value = own_proxy.value(desired.state_dir, text, config, state.node, state.network)
        return replace(service_resource(desired.where, text=text, mode=BALLAST), value=value)
    text = changed_text(text, {**desired.config, "mode": desired.mode}, path=desired.where.config_path)
    return service_resource(desired.where, text=text, mode=desired.mode)


def _original(state: KubeProxyState) -> Value:
    """The journal's value of kube-proxy before the last change; None if it has none. If our service proxy serves without
    such a record, as after a rollback to it: kube-proxy according to its file."""
    records: list[Recorded] = [record for record in state.recorded if record.key == state.proxy.key]
    if records:
        return records[0].original
    mode = state.kube_proxy_config.get("mode")
    if not mode or not own_proxy.is_value(state.proxy.value):
        return None
    return {"config": fields(state.proxy.value)["config"], "mode": str(mode)}


def _clearing_steps(state: KubeProxyState, *, watchdog_stays: bool) -> list[Step]:
    """Steps that remove what a change left: always the takeover table, and the watchdog once the change is confirmed."""
    return [
        _removal(record, state)
        for record in reversed(state.recorded)
        if record.kind == "bridge" or (record.group == _GROUP and not watchdog_stays)
    ]


def _removing_steps(state: KubeProxyState) -> list[Step]:
    """Steps that remove our service proxy, which no longer serves."""
    return [_removal(record, state) for record in reversed(state.recorded) if record.group == own_proxy.GROUP]


def _removal(record: Recorded, state: KubeProxyState) -> Step:
    before = state.values[record.key]
    return Step(record.kind, record.title, record.target, after=record.original, before=before, group=record.group)


def _is_armed(state: KubeProxyState) -> bool:
    """Whether a change is waiting for its confirmation."""
    return any(record.kind == "service" for record in state.recorded)


def _goes_back(desired: KubeProxyRequest, state: KubeProxyState) -> bool:
    return desired.state == PREVIOUS or (desired.state == UNCONFIRMED and _is_armed(state))


def _enters_own(desired: KubeProxyRequest, state: KubeProxyState) -> bool:
    """Whether the node will be in mode ballast after this run, including if it already is."""
    if _goes_back(desired, state):
        return own_proxy.is_value(_original(state) or ABSENT)
    return desired.state == PRESENT and desired.mode == BALLAST


def _missing(resources: list[Resource], state: KubeProxyState) -> list[Step]:
    return [
        _step(resource, state.values[resource.key])
        for resource in resources
        if state.values[resource.key] != resource.value
    ]


# For changing rules, namespaces, processes and other programs' files, and for loading modules; not memory, time, devices or
# users.
_WATCHDOG_CAPABILITIES = (
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",
    "CAP_KILL",
    "CAP_NET_ADMIN",
    "CAP_NET_RAW",
    "CAP_SYS_ADMIN",
    "CAP_SYS_CHROOT",
    "CAP_SYS_MODULE",
    "CAP_SYS_PTRACE",
    "CAP_SYS_RESOURCE",
)


def _watchdog(desired: KubeProxyRequest, state: KubeProxyState) -> list[Resource]:
    """The resources of the watchdog, in creation order. Their names include the node's name and a digest of its state
    directory, because one machine may have several nodes, even of several labs."""
    name = join_name("kube-proxy", state.node, digest(desired.state_dir)[:6])
    place = os.path.join(desired.state_dir, watchdog_files.DIRECTORY)
    path, sv_dir = os.path.join(place, watchdog_files.PROGRAM), os.path.join(place, "sv")
    task = {"params": desired.params, "confirm_within": desired.confirm_within}
    runs = Service(
        name=f"{name}-guard",
        argv=(without_entry(sys.executable), path, desired.state_dir),
        log=os.path.join(place, watchdog_files.LOG),
        cgroup=f"{name}/guard",
        netns=state.network,
        sandbox=Sandbox(host=True, capabilities=_WATCHDOG_CAPABILITIES),
        keep_children=True,  # the child process that rolls back ends the watchdog
    )
    return [
        directory(place, mode=0o700, group=_GROUP),
        directory(sv_dir, group=_GROUP),
        program(path, packages=watchdog_files.PACKAGES, main=watchdog_files.MAIN, group=_GROUP),
        file(os.path.join(place, watchdog_files.TASK), json.dumps(task, sort_keys=True), mode=0o600, group=_GROUP),
        cgroup(name, Limits(), group=_GROUP),
        service(sv_dir, runs, running=True, group=_GROUP),
        # Under systemd nothing is made for the supervisor: the journal would record it as existing before, and each change
        # would remove it.
        *([] if state.is_systemd else [supervisor(sv_dir, group=_GROUP)]),
    ]


def _takeover_table(desired: KubeProxyRequest, state: KubeProxyState) -> Resource:
    mode = str(fields(state.proxy.value)["mode"])
    config = takeover_config(state.config, mode or str(state.config.get("mode") or "iptables"))
    return takeover_table_resource(desired.state_dir, desired.where, config, state.node)


def _before_table(value: Value) -> Value:
    """A leftover table counts as absent: otherwise the journal would record it as the state to restore."""
    return ABSENT if value != ABSENT and "left" in fields(value) else value


def _step(resource: Resource, before: Value) -> Step:
    return Step(
        resource.kind, resource.title, resource.target, after=resource.value, before=before, group=resource.group
    )


def _show(step: Step, value: Value) -> str:
    if value == ABSENT:
        return ""
    if step.kind == "kube-proxy":
        return f"# mode in effect: {fields(value)['mode'] or 'none'}\n{fields(value)['config']}"
    if step.kind == "kube-proxy-pod":
        return f"label: {fields(value)['label'] or 'none'}\nmode in effect: {fields(value)['mode'] or 'none'}\n"
    return "there\n"
