# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kinds of step that change a node's kube-proxy: the takeover table, and kube-proxy itself, as a service or a pod.

A step that changes kube-proxy verifies it too: it runs, reports itself healthy, its rules match the Services, and what
was reachable before is reachable. Where one of these fails, the step fails and is undone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Union

from .._core.engine.context import Context
from .._core.engine.kinds import digest, fields
from .._core.engine.plan import ABSENT, Resource, Value
from .._core.engine.wait import Pending, Ready, wait, wait_until
from .._core.host.host import KERNEL_LIMIT, Host
from .._core.service.daemon import start_daemon, stop_daemon
from .._core.text.errors import BallastError, PeerError, last_lines
from .._core.text.json_text import parse_json
from .._rules.backend import TAKEOVER_TABLE
from .._rules.model import IPVS
from . import installation, kubelet, own_source, probes, takeover_table, watchdog_files
from .config_file import parse_config
from .health import read_mode, read_problem
from .informer import read_snapshot
from .installation import MODE_LABEL, Installation, current_config
from .messages import MESSAGES
from .request import KubeProxyRequest
from .rule_verification import compare_rules

_TABLE_SECONDS = 60
_LOCK_SECONDS = 60
_STARTING_SECONDS = 10
_PROBE_TRIES = 5
_NO_POD = "no pod of this node is there to try from any more"
_AUDIT_TRIES = 3  # Services and endpoints change while they are compared
_GROUP = "kube-proxy"


def takeover_table_resource(state_dir: str, where: Installation, config: Mapping[str, Any], node: str) -> Resource:
    value: dict[str, Value] = {"installation": asdict(where), "config": config, "node": node}
    return Resource(kind="bridge", target=state_dir, value=value, title=f"bridge {TAKEOVER_TABLE}", group=_GROUP)


class TakeoverTableKind:
    """`{installation, config, node}`: the request that the watchdog carries out. Removal needs no watchdog."""

    def read(self, ctx: Context[KubeProxyRequest], target: str) -> Value:
        takeover_table.require_ours(ctx.host)
        data = ctx.host.read(_watchdog_path(target, watchdog_files.TABLE))
        if data is None:
            return {"left": True} if takeover_table.is_there(ctx.host) else ABSENT
        value: Value = parse_json(data)
        return value

    def write(self, ctx: Context[KubeProxyRequest], target: str, after: Value, before: Value) -> None:
        if "left" in fields(after):  # the table was there before us, without a watchdog
            self.remove(ctx, target, before)
            return
        own_source.use_own_address(ctx.host)
        data = json.dumps(after, sort_keys=True).encode()
        ctx.host.write(_watchdog_path(target, watchdog_files.TABLE), data, mode=0o600)

        def probe() -> Union[Ready[None], Pending]:
            status = parse_json(ctx.host.read(_watchdog_path(target, watchdog_files.STATUS)) or b"{}")
            if status.get("of") != digest(data):
                return Pending("the watchdog has not begun")
            return Pending(status["problem"]) if status["problem"] else Ready(None)

        try:
            wait(ctx.host, ctx.progress, "bridge", probe, deadline_seconds=_TABLE_SECONDS)
        except PeerError as error:
            log = last_lines(
                (ctx.host.read(_watchdog_path(target, watchdog_files.LOG)) or b"").decode(errors="replace"), limit=5
            )
            details = f"{error.found}\n{log}" if log else error.found
            raise MESSAGES.error("migrate-bridge", found=details, seconds=_TABLE_SECONDS) from error

    def remove(self, ctx: Context[KubeProxyRequest], target: str, before: Value) -> None:
        self._remove_table(ctx, target)
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
    """What both deployments have in common: drain ipvs, `_change` kube-proxy, verify the result."""

    def write(self, ctx: Context[KubeProxyRequest], target: str, after: Value, before: Value) -> None:
        target_value = fields(after)
        left = current_config(ctx.host, ctx.desired.where)
        node = installation.node_name(ctx.host, ctx.desired.where, left)
        reached: frozenset[probes.Try] = frozenset()
        try:
            data = read_snapshot(installation.api(ctx.host, ctx.desired.where, left), node)
            tried = probes.try_targets(ctx.host, probes.targets(data, ctx.desired.probe_service, node))
            reached = frozenset(attempt for attempt, failure in tried.items() if not failure)
        except PeerError as error:  # going back must work without the API, and then compares nothing
            ctx.progress.waiting("kube-proxy", f"no connections are compared: {error.text}")
        mode = str(target_value["mode"])
        if before != ABSENT and fields(before)["mode"] == IPVS and mode != IPVS:
            self._drain(ctx)
        ctx.progress.started("kube-proxy", f"into mode {mode}")
        self._change(ctx, target, target_value)
        config = current_config(ctx.host, ctx.desired.where)
        self._wait_until_healthy(ctx, config, mode)
        if mode == IPVS and takeover_table.is_there(ctx.host):
            # If the change fails, the addresses that ipvs has bound go again, and the takeover table carries on.
            own_source.use_own_address(ctx.host)
        self._wait_until_rules_match(ctx, config, mode, node)
        self._wait_until_reached(ctx, mode, reached)
        ctx.progress.done("kube-proxy", f"mode {mode}, {len(reached)} connections as before")

    def _change(self, ctx: Context[KubeProxyRequest], target: str, target_value: Mapping[str, Value]) -> None:
        raise NotImplementedError

    def _drain(self, ctx: Context[KubeProxyRequest]) -> None:
        """Wait for connections of ipvs to end, as ip_vs forgets them with its rules. New ones use the takeover table."""
        own_source.use_own_address(ctx.host)  # for the addresses of Services that are newer than the takeover table

        def probe() -> Union[Ready[int], Pending]:
            left = _ipvs_connections(ctx.host)
            late = ctx.host.monotonic() - begun > ctx.desired.drain_seconds
            return Ready(left) if not left or late else Pending(f"{left} connections of ipvs are open")

        begun = ctx.host.monotonic()
        left = wait(ctx.host, ctx.progress, "drain", probe, deadline_seconds=ctx.desired.drain_seconds + 60)
        text = f"{left} connections of ipvs are cut: they were still open" if left else "no connection of ipvs is open"
        ctx.progress.done("drain", text)

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
        lines: list[str] = []
        tries = 0

        def probe() -> Union[Ready[None], Pending]:
            nonlocal lines, tries
            try:
                data = read_snapshot(installation.api(ctx.host, ctx.desired.where, config), node)
            except PeerError as error:
                return Pending(error.text)
            variant = installation.iptables_variant(ctx.host, ctx.desired.where)
            lines = compare_rules(ctx.host, data, config, mode=mode, node=node, variant=variant)
            tries += 1
            if lines and tries == _AUDIT_TRIES:
                raise MESSAGES.error("migrate-audit", found="\n".join(lines[:10]), mode=mode, count=len(lines))
            return Pending(f"{len(lines)} differences: {lines[0]}") if lines else Ready(None)

        seconds = ctx.desired.verify_seconds
        ctx.progress.started("rules", "comparing rules in the kernel with the Services")
        wait(ctx.host, ctx.progress, "rules", probe, deadline_seconds=seconds, interval=2)

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


class ServiceKind(_VerifiedChange):
    """`{config, mode}`: the text of the configuration file, and the mode in effect, "" where kube-proxy does not answer."""

    def read(self, ctx: Context[KubeProxyRequest], target: str) -> Value:
        text = installation.config_text(ctx.host, ctx.desired.where)
        if text is None:
            return ABSENT
        return {"config": text, "mode": _mode(ctx.host, ctx.desired.where, parse_config(text, path=target))}

    def _change(self, ctx: Context[KubeProxyRequest], target: str, target_value: Mapping[str, Value]) -> None:
        # Stopped first: kube-proxy ends by itself when its file changes, and would start twice.
        stop_daemon(ctx.host, ctx.desired.where.service)
        data = str(target_value["config"]).encode(errors="surrogateescape")
        try:
            if ctx.host.stat(target) is None:  # removed after the plan was made
                ctx.host.write(target, data, mode=0o600)
            else:
                ctx.host.replace(target, data)
        finally:  # a file that cannot be replaced must not leave the node without a kube-proxy
            start_daemon(ctx.host, ctx.desired.where.service)

    def remove(self, ctx: Context[KubeProxyRequest], target: str, before: Value) -> None:
        raise MESSAGES.error("migrate-no-config", path=target)


class PodKind(_VerifiedChange):
    """`{label, mode}`: the node's label that chooses the DaemonSet, and the mode in effect."""

    def read(self, ctx: Context[KubeProxyRequest], target: str) -> Value:
        metadata = kubelet.api(ctx.host).get(_node_path(target))["metadata"]
        label = str((metadata.get("labels") or {}).get(MODE_LABEL, ""))
        return {"label": label, "mode": _mode(ctx.host, ctx.desired.where, current_config(ctx.host, ctx.desired.where))}

    def _change(self, ctx: Context[KubeProxyRequest], target: str, target_value: Mapping[str, Value]) -> None:
        """Set the node's label, as the kubelet may; the DaemonSet controller does the rest."""
        patch = {"metadata": {"labels": {MODE_LABEL: target_value["label"] or None}}}
        kubelet.api(ctx.host).patch(_node_path(target), patch)

        def probe() -> Union[Ready[None], Pending]:
            mode = _mode_now(ctx.host, ctx.desired.where)
            return Ready(None) if mode == target_value["mode"] else Pending(f"its pod runs in mode {mode or 'unknown'}")

        try:
            seconds = ctx.desired.verify_seconds
            wait(ctx.host, ctx.progress, "kube-proxy", probe, deadline_seconds=seconds, interval=0.3)
        except PeerError as error:
            shown = {"mode": target_value["mode"], "seconds": f"{seconds:.0f}"}
            raise MESSAGES.error("migrate-gate", found=error.found, **shown) from error

    def remove(self, ctx: Context[KubeProxyRequest], target: str, before: Value) -> None:
        raise MESSAGES.error("migrate-no-process")


def _node_path(node: str) -> str:
    return f"/api/v1/nodes/{node}"


def _mode(host: Host, where: Installation, config: Mapping[str, Any]) -> str:
    """In effect. A kube-proxy that starts gets some seconds to answer."""

    def is_known() -> Union[str, bool]:
        return read_mode(host, config) or installation.process(host, where) is None

    mode = wait_until(host, is_known, seconds=_STARTING_SECONDS, interval=0.2)
    return mode if isinstance(mode, str) else ""


def _mode_now(host: Host, where: Installation) -> str:
    try:
        return read_mode(host, current_config(host, where))
    except BallastError:  # the old pod has ended, and the new one has not started
        return ""


def _ipvs_connections(host: Host) -> int:
    """Open ones, by ip_vs_conn of proc: a heading, then lines with the state in the eighth column."""
    lines = (host.read("/proc/net/ip_vs_conn", limit=KERNEL_LIMIT) or b"").decode(errors="replace").splitlines()[1:]
    return sum(1 for line in lines if line.split()[7:8] == ["ESTABLISHED"])
