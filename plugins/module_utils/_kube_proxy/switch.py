# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kinds of step that change a node's kube-proxy: the takeover table, and kube-proxy itself, as a service or a pod.

A step that changes kube-proxy also verifies it: it runs, reports itself healthy, its rules match the Services, and what was
reachable before the change still is. If one of these fails, the step fails and is undone.

In mode `ballast` the step of a service stops kube-proxy, holds it (hold.py), and starts our service proxy (own_proxy.py).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Optional, Union

from .._core.engine.context import Context
from .._core.engine.kinds import digest, fields
from .._core.engine.plan import ABSENT, Resource, Value
from .._core.engine.wait import Pending, Ready, wait, wait_until
from .._core.host.host import Host
from .._core.service.daemon import start_daemon, stop_daemon
from .._core.text.errors import BallastError, PeerError, last_lines
from .._core.text.json_text import parse_json
from .._rules.backend import TAKEOVER_TABLE
from .._rules.model import IPVS
from . import hold, installation, kubelet, own_proxy, own_source, probes, takeover_table, watchdog_files
from .config_file import parse_config
from .drain_record import Draining, read_draining
from .health import read_mode, read_problem
from .informer import read_named_services, read_snapshot
from .installation import MODE_LABEL, Installation, current_config
from .messages import MESSAGES
from .modes import BALLAST
from .request import KubeProxyRequest
from .rule_verification import AUDIT_INTERVAL, AUDIT_TRIES, Difference, compare_rules, still_there

_TABLE_SECONDS = 60
_LOCK_SECONDS = 60
_STARTING_SECONDS = 10
_ASK_SECONDS = 0.3
_START_POLL_SECONDS = 0.05  # short, because packets of connections through ipvs may be dropped during this time
_PROBE_TRIES = 5
_NO_POD = "this node no longer has a pod to try from"
_GROUP = "kube-proxy"


def takeover_table_resource(state_dir: str, where: Installation, config: Mapping[str, Any], node: str) -> Resource:
    value: dict[str, Value] = {"installation": asdict(where), "config": config, "node": node}
    return Resource(
        kind="bridge", target=state_dir, value=value, title=f"takeover table {TAKEOVER_TABLE}", group=_GROUP
    )


class TakeoverTableKind:
    """`{installation, config, node}`: the request, which the watchdog carries out. Removal does not need a watchdog."""

    def read(self, ctx: Context[KubeProxyRequest], target: str) -> Value:
        takeover_table.require_ours(ctx.host)
        data = ctx.host.read(_watchdog_path(target, watchdog_files.TABLE))
        if data is None:
            return {"left": True} if takeover_table.is_there(ctx.host) else ABSENT
        value: Value = parse_json(data)
        return value

    def write(self, ctx: Context[KubeProxyRequest], target: str, after: Value, before: Value) -> None:
        if "left" in fields(after):  # the table existed before this change, without a watchdog
            self.remove(ctx, target, before)
            return
        own_source.use_own_address(ctx.host)
        data = json.dumps(after, sort_keys=True).encode()
        ctx.host.write(_watchdog_path(target, watchdog_files.TABLE), data, mode=0o600)

        def probe() -> Union[Ready[None], Pending]:
            status = parse_json(ctx.host.read(_watchdog_path(target, watchdog_files.STATUS)) or b"{}")
            if status.get("of") != digest(data):
                return Pending("the watchdog has not started")
            return Pending(status["problem"]) if status["problem"] else Ready(None)

        try:
            with ctx.progress.time("takeover_table", "the takeover table"):
                wait(ctx.host, ctx.progress, "bridge", probe, deadline_seconds=_TABLE_SECONDS)
        except PeerError as error:
            log = last_lines(
                (ctx.host.read(_watchdog_path(target, watchdog_files.LOG)) or b"").decode(errors="replace"), limit=5
            )
            details = f"{error.found}\n{log}" if log else error.found
            raise MESSAGES.error("migrate-bridge", found=details, seconds=_TABLE_SECONDS) from error

    def remove(self, ctx: Context[KubeProxyRequest], target: str, before: Value) -> None:
        with ctx.progress.time("takeover_table_removed", "removing the takeover table"):
            self._remove_table(ctx, target)
        if read_draining(ctx.host) is None:  # otherwise the addresses stay bound until a later clean-up
            own_source.use_service_addresses(ctx.host)

    def _remove_table(self, ctx: Context[KubeProxyRequest], target: str) -> None:
        if ctx.host.stat(os.path.join(target, watchdog_files.DIRECTORY)) is None:
            takeover_table.remove(ctx.host)
            return

        def probe() -> Union[Ready[None], Pending]:
            try:
                with ctx.host.lock(_watchdog_path(target, watchdog_files.TABLE_LOCK)):
                    ctx.host.remove(_watchdog_path(target, watchdog_files.TABLE))
                    takeover_table.remove(ctx.host)
                    ctx.host.remove(_watchdog_path(target, watchdog_files.STATUS))
            except BallastError as error:
                if error.id != "core-locked":
                    raise
                return Pending(error.text)
            return Ready(None)

        wait(ctx.host, ctx.progress, "takeover table", probe, deadline_seconds=_LOCK_SECONDS, interval=0.1)


def _watchdog_path(state_dir: str, name: str) -> str:
    return os.path.join(state_dir, watchdog_files.DIRECTORY, name)


def service_resource(where: Installation, *, text: str, mode: str) -> Resource:
    title = f"kube-proxy in mode {mode}"
    value: Value = {"config": text, "mode": mode}
    return Resource(kind="kube-proxy", target=where.config_path, value=value, title=title, group=_GROUP)


def pod_resource(node: str, *, label: str, mode: str) -> Resource:
    value: Value = {"label": label, "mode": mode}
    title = f"kube-proxy in mode {mode}"
    return Resource(kind="kube-proxy-pod", target=node, value=value, title=title, group=_GROUP)


class _VerifiedChange:
    """Common to both deployments: keep connections through ipvs, `_change` kube-proxy, verify the result."""

    def write(self, ctx: Context[KubeProxyRequest], target: str, after: Value, before: Value) -> None:
        target_value = fields(after)
        left = own_proxy.config_of(ctx.host, ctx.desired.where)
        node = installation.node_name(ctx.host, ctx.desired.where, left)
        time = ctx.progress.time
        with time("probe", "trying connections before the change"):
            reached = self._try_connections(ctx, left, node)
        mode = str(target_value["mode"])
        draining = self._hold_connections(ctx, mode)
        ctx.progress.started("kube-proxy", f"switching to mode {mode}")
        with time("restart", "kube-proxy's restart"):
            self._change(ctx, target, target_value, {} if before == ABSENT else fields(before))
            self._wait_until_started(ctx, mode, draining)
        config = own_proxy.config_of(ctx.host, ctx.desired.where)
        with time("synchronise", "kube-proxy's first synchronisation"):
            self._wait_until_healthy(ctx, config, mode)
        if mode == BALLAST:
            with time("remove_rules", "removing kube-proxy's rules"):
                _remove_rules(ctx)
        if mode == IPVS and takeover_table.is_there(ctx.host):
            # If the change fails, the addresses that ipvs has bound are removed again, while the takeover table keeps
            # serving.
            own_source.use_own_address(ctx.host)
        with time("compare", "comparing rules with the Services"):
            self._wait_until_rules_match(ctx, config, mode, node)
        with time("reach", "trying connections after the change"):
            self._wait_until_reached(ctx, mode, reached)
        ctx.progress.done("kube-proxy", f"mode {mode}, all {len(reached)} connections still work")

    def _try_connections(
        self, ctx: Context[KubeProxyRequest], config: Mapping[str, Any], node: str
    ) -> frozenset[probes.Try]:
        """The targets reachable before the change; none without the API, because a rollback must work without it."""
        try:
            api = installation.api(ctx.host, ctx.desired.where, config)
            data = read_named_services(api, probes.names(ctx.desired.probe_service), node)
            tried = probes.try_targets(ctx.host, probes.targets(data, ctx.desired.probe_service, node))
        except PeerError as error:
            ctx.progress.waiting("kube-proxy", f"skipping the comparison of connections: {error.text}")
            return frozenset()
        return frozenset(attempt for attempt, failure in tried.items() if not failure)

    def _change(
        self, ctx: Context[KubeProxyRequest], target: str, after: Mapping[str, Value], before: Mapping[str, Value]
    ) -> None:
        """Change kube-proxy. `before` is empty if there was none."""
        raise NotImplementedError

    def _hold_connections(self, ctx: Context[KubeProxyRequest], mode: str) -> Optional[Draining]:
        """Keep connections through ipvs. New ones use the takeover table, so their number only decreases."""
        from . import ipvs_connections  # imported late: a run that changes nothing needs no rules

        if mode == IPVS:
            ipvs_connections.give_back(ctx.host)
            return None
        own_source.use_own_address(ctx.host)  # for addresses of Services that are newer than the takeover table
        return ipvs_connections.hold(ctx.host, drain_seconds=ctx.desired.drain_seconds)

    def _wait_until_started(self, ctx: Context[KubeProxyRequest], mode: str, draining: Optional[Draining]) -> None:
        """Wait until kube-proxy reports the mode. By then it has removed what it removes at its start."""
        from . import ipvs_connections

        restored, reported, ask_at = 0, "", 0.0

        def probe() -> Union[Ready[None], Pending]:
            nonlocal restored, reported, ask_at
            if draining is not None:
                restored += ipvs_connections.restore(ctx.host, draining)
            if ctx.host.monotonic() >= ask_at:  # for a pod this also queries the API server
                reported = _mode_now(ctx.host, ctx.desired.where)
                ask_at = ctx.host.monotonic() + _ASK_SECONDS
            return Ready(None) if reported == mode else Pending(f"it runs in mode {reported or 'unknown'}")

        try:
            seconds, interval = ctx.desired.verify_seconds, _START_POLL_SECONDS
            wait(ctx.host, ctx.progress, "kube-proxy", probe, deadline_seconds=seconds, interval=interval)
        except PeerError as error:
            raise MESSAGES.error("migrate-gate", found=error.found, mode=mode, seconds=f"{seconds:.0f}") from error
        if draining is not None:
            ipvs_connections.settle(ctx.host, draining)
            text = f"{len(draining.own)} virtual servers with open connections remain, {restored} were restored"
            ctx.progress.done("ipvs", text)

    def _wait_until_healthy(self, ctx: Context[KubeProxyRequest], config: Mapping[str, Any], mode: str) -> None:
        def probe() -> Union[Ready[None], Pending]:
            reason = read_problem(ctx.host, config, mode)
            return Pending(reason) if reason else Ready(None)

        try:
            seconds = ctx.desired.verify_seconds
            wait(ctx.host, ctx.progress, "kube-proxy", probe, deadline_seconds=seconds, interval=0.2)
        except PeerError as error:
            raise MESSAGES.error("migrate-gate", found=error.found, mode=mode, seconds=f"{seconds:.0f}") from error

    def _wait_until_rules_match(
        self, ctx: Context[KubeProxyRequest], config: Mapping[str, Any], mode: str, node: str
    ) -> None:
        differences: Optional[list[Difference]] = None
        tries = 0

        def probe() -> Union[Ready[None], Pending]:
            nonlocal differences, tries
            try:
                data = read_snapshot(installation.api(ctx.host, ctx.desired.where, config), node)
            except PeerError as error:
                return Pending(error.text)
            variant = installation.iptables_variant(ctx.host, ctx.desired.where)
            now = compare_rules(ctx.host, data, config, mode=mode, node=node, variant=variant)
            differences = still_there(differences, now)
            lines = [difference.line for difference in differences]
            tries += 1
            if lines and tries == AUDIT_TRIES:
                raise MESSAGES.error("migrate-audit", found="\n".join(lines[:10]), mode=mode, count=len(lines))
            return Pending(f"{len(lines)} differences: {lines[0]}") if lines else Ready(None)

        seconds = ctx.desired.verify_seconds
        ctx.progress.started("rules", "comparing the kernel's rules with the Services")
        wait(ctx.host, ctx.progress, "rules", probe, deadline_seconds=seconds, interval=AUDIT_INTERVAL)

    def _wait_until_reached(self, ctx: Context[KubeProxyRequest], mode: str, before: frozenset[probes.Try]) -> None:
        lost = dict.fromkeys(before, "")
        for attempt in range(_PROBE_TRIES):
            ctx.host.sleep(min(attempt, 1))
            tried = probes.try_targets(ctx.host, sorted({attempt.target for attempt in lost}, key=str))
            lost = {attempt: failure for attempt in lost if (failure := tried.get(attempt, _NO_POD))}
            if not lost:
                return
            ctx.progress.waiting("kube-proxy", f"not reached yet: {_describe(lost)[0]}")
        raise MESSAGES.error("migrate-probe", mode=mode, what="; ".join(_describe(lost)))


def _describe(lost: Mapping[probes.Try, str]) -> list[str]:
    return sorted(f"{attempt}: {failure}" for attempt, failure in lost.items())


def _remove_rules(ctx: Context[KubeProxyRequest]) -> None:
    """Remove the rules of kube-proxy, whatever its mode was; a kube-proxy that starts in another mode would remove them
    itself. If they were kept, they would reject a Service that had no endpoints at that time and has some now."""
    from .cleanup.engine import ENGINE, CleanupRequest
    from .cleanup.state import observe

    desired = CleanupRequest(BALLAST, change_under_way=True)
    state = observe(ctx.host, BALLAST, originals=desired.originals)
    ENGINE.apply(ENGINE.plan(desired, state), Context(desired, ctx.host, ctx.progress))


class ServiceKind(_VerifiedChange):
    """`{config, mode}`: the text of the configuration file, and the mode in effect, "" if kube-proxy does not respond. In
    mode `ballast` also `held`, true, and `service_proxy`, the value of its service and settings; after a kill, either of the
    two may exist in another mode."""

    def read(self, ctx: Context[KubeProxyRequest], target: str) -> Value:
        where = ctx.desired.where
        text = installation.config_text(ctx.host, where)
        if text is None:
            return ABSENT
        program = own_proxy.read_program(ctx, ctx.desired.state_dir)
        if hold.is_held(ctx.host, where.service):
            mode = own_proxy.wait_for_mode(ctx.host, where, program)
            value: dict[str, Value] = {"config": text, "mode": mode, own_proxy.HELD: True}
        else:
            value = {"config": text, "mode": _mode(ctx.host, where, parse_config(text, path=target))}
        return value if program == ABSENT else {**value, own_proxy.PROGRAM: program}

    def _change(
        self, ctx: Context[KubeProxyRequest], target: str, after: Mapping[str, Value], before: Mapping[str, Value]
    ) -> None:
        host, service, state_dir = ctx.host, ctx.desired.where.service, ctx.desired.state_dir
        # Stopped first: kube-proxy exits when its file changes, and would start twice.
        stop_daemon(host, service)
        data = str(after["config"]).encode(errors="surrogateescape")
        if own_proxy.PROGRAM in after:
            hold.hold(host, service)
            _replace_file(host, target, data)
            own_proxy.start(ctx, state_dir, after[own_proxy.PROGRAM], before.get(own_proxy.PROGRAM, ABSENT))
            return
        own_proxy.remove(ctx, state_dir)
        try:
            _replace_file(host, target, data)
        finally:  # failing to replace a file must not leave the node without kube-proxy
            hold.release(host, service)
            start_daemon(host, service)

    def remove(self, ctx: Context[KubeProxyRequest], target: str, before: Value) -> None:
        raise MESSAGES.error("migrate-no-config", path=target)


def _replace_file(host: Host, path: str, data: bytes) -> None:
    if host.stat(path) is None:  # removed after the plan was made
        host.write(path, data, mode=0o600)
    elif host.read(path) != data:
        host.replace(path, data)


class PodKind(_VerifiedChange):
    """`{label, mode}`: the Node's label that selects the DaemonSet, and the mode in effect."""

    def read(self, ctx: Context[KubeProxyRequest], target: str) -> Value:
        metadata = kubelet.api(ctx.host).get(_node_path(target))["metadata"]
        label = str((metadata.get("labels") or {}).get(MODE_LABEL, ""))
        return {"label": label, "mode": _mode(ctx.host, ctx.desired.where, current_config(ctx.host, ctx.desired.where))}

    def _change(
        self, ctx: Context[KubeProxyRequest], target: str, after: Mapping[str, Value], before: Mapping[str, Value]
    ) -> None:
        """Set the Node's label, which the kubelet may do; the DaemonSet controller does the rest."""
        patch = {"metadata": {"labels": {MODE_LABEL: after["label"] or None}}}
        kubelet.api(ctx.host).patch(_node_path(target), patch)

    def remove(self, ctx: Context[KubeProxyRequest], target: str, before: Value) -> None:
        raise MESSAGES.error("migrate-no-process")


def _node_path(node: str) -> str:
    return f"/api/v1/nodes/{node}"


def _mode(host: Host, where: Installation, config: Mapping[str, Any]) -> str:
    """The mode in effect. A kube-proxy that is starting gets a few seconds to respond."""

    def is_known() -> Union[str, bool]:
        return read_mode(host, config) or installation.process(host, where) is None

    mode = wait_until(host, is_known, seconds=_STARTING_SECONDS, interval=0.2)
    return mode if isinstance(mode, str) else ""


def _mode_now(host: Host, where: Installation) -> str:
    if hold.is_held(host, where.service):
        return BALLAST if own_proxy.serves(host, where) else ""
    try:
        return read_mode(host, current_config(host, where))
    except BallastError:  # the old pod has ended, and the new one has not started
        return ""
