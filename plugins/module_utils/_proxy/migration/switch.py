# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kinds of step that change a node's kube-proxy: the bridge, and kube-proxy itself, as a service or as a pod.

A change of kube-proxy is one step with its proof: started anew, in order by its own word, its rules as the Services mean
them, and everything reached that was reached before. Where the proof fails the step fails, and what was done is undone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Union

from ..._core.daemon import start_daemon, stop_daemon
from ..._core.errors import BallastError, PeerError, last_lines
from ..._core.events import Progress
from ..._core.host import Host
from ..._core.kinds import digest, fields
from ..._core.kubeapi import Api
from ..._core.plan import ABSENT, Resource, Value
from ..._core.wait import Pending, Ready, wait
from ..backends import BRIDGE_TABLE
from ..model import IPVS
from . import bridge, guard, installation, own_source, probes
from .config_file import parse_config
from .feed import snapshot
from .health import not_in_order, read_mode
from .installation import DAEMONSET, MODE_LABEL, Installation, current_config
from .messages import MESSAGES
from .proof import differences

KUBELET_KUBECONFIG = "/etc/kubernetes/kubelet.conf"
_BRIDGE_SECONDS = 60
_LOCK_SECONDS = 60
_STARTING_SECONDS = 10
_PROBE_TRIES = 5
_NO_POD = "no pod of this node is there to try from any more"
_AUDIT_TRIES = 3  # Services and endpoints change while they are compared
_GROUP = "kube-proxy"


@dataclass(frozen=True)
class Means:
    """What a step is done with, besides what it makes true."""

    where: Installation
    probe_service: str
    drain_seconds: float
    verify_seconds: float
    progress: Progress


def bridge_resource(state_dir: str, where: Installation, config: Mapping[str, Any], node: str) -> Resource:
    value: dict[str, Value] = {"installation": asdict(where), "config": config, "node": node}
    return Resource(kind="bridge", target=state_dir, value=value, title=f"bridge {BRIDGE_TABLE}", group=_GROUP)


class BridgeKind:
    """`{installation, config, node}`: what the guard keeps up. Taken away here, with or without a guard."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def read(self, host: Host, target: str) -> Value:
        data = host.read(_in_guard(target, guard.BRIDGE))
        if data is None:
            return {"left": True} if bridge.is_there(host) else ABSENT
        found: Value = json.loads(data)
        return found

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        if "left" in fields(after):  # what was there before us was a leftover
            self.remove(host, target, before)
            return
        own_source.use_own_address(host)
        data = json.dumps(after, sort_keys=True).encode()
        host.write(_in_guard(target, guard.BRIDGE), data, mode=0o600)

        def probe() -> Union[Ready[None], Pending]:
            status = json.loads(host.read(_in_guard(target, guard.STATUS)) or b"{}")
            if status.get("of") != digest(data):
                return Pending("the guard has not begun")
            return Pending(status["problem"]) if status["problem"] else Ready(None)

        try:
            wait(host, self._progress, "bridge", probe, deadline_seconds=_BRIDGE_SECONDS)
        except PeerError as error:
            log = last_lines((host.read(_in_guard(target, guard.LOG)) or b"").decode(errors="replace"), limit=5)
            found = f"{error.found}\n{log}" if log else error.found
            raise MESSAGES.error("migrate-bridge", found=found, seconds=_BRIDGE_SECONDS) from error

    def remove(self, host: Host, target: str, before: Value) -> None:
        self._take_away(host, target)
        own_source.use_service_addresses(host)

    def _take_away(self, host: Host, target: str) -> None:
        if host.stat(os.path.join(target, guard.DIRECTORY)) is None:
            bridge.remove(host)
            return
        deadline = host.monotonic() + _LOCK_SECONDS
        while True:
            try:
                with host.lock(_in_guard(target, guard.BRIDGE_LOCK)):
                    host.remove(_in_guard(target, guard.BRIDGE))
                    bridge.remove(host)
                    host.remove(_in_guard(target, guard.STATUS))
                return
            except BallastError as error:
                if error.id != "core-locked" or host.monotonic() > deadline:
                    raise
            host.sleep(0.1)


def _in_guard(state_dir: str, name: str) -> str:
    return os.path.join(state_dir, guard.DIRECTORY, name)


def service_resource(where: Installation, *, text: str, mode: str) -> Resource:
    title = f"kube-proxy in mode {mode}"
    value: Value = {"config": text, "mode": mode}
    return Resource(kind="kube-proxy", target=where.config_path, value=value, title=title, group=_GROUP)


def pod_resource(node: str, *, label: str, mode: str) -> Resource:
    value: Value = {"label": label, "mode": mode}
    title = f"kube-proxy in mode {mode}"
    return Resource(kind="kube-proxy-pod", target=node, value=value, title=title, group=_GROUP)


class _Proven:
    """What both shapes have in common: drained, changed by `_change`, proven."""

    def __init__(self, means: Means) -> None:
        self._means = means

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        means, wanted = self._means, fields(after)
        left = current_config(host, means.where)
        node = installation.node_name(host, means.where, left)
        reached: frozenset[probes.Try] = frozenset()
        try:
            data = snapshot(installation.api(host, means.where, left), node)
            tried = probes.tried(host, probes.targets(data, means.probe_service, node))
            reached = frozenset(one for one, failure in tried.items() if not failure)
        except PeerError as error:  # what is put back in spite of an API that is away has nothing to compare with
            means.progress.waiting("kube-proxy", f"no connections are compared: {error.text}")
        mode = str(wanted["mode"])
        if before != ABSENT and fields(before)["mode"] == IPVS and mode != IPVS:
            self._drain(host)
        means.progress.started("kube-proxy", f"into mode {mode}")
        self._change(host, target, wanted)
        config = current_config(host, means.where)
        self._wait_until_in_order(host, config, mode)
        if mode == IPVS and bridge.is_there(host):
            # As beside an ipvs that is left: when the change fails, these addresses go again and the bridge carries on.
            own_source.use_own_address(host)
        self._wait_until_as_meant(host, config, mode, node)
        self._wait_until_reached(host, mode, reached)
        means.progress.done("kube-proxy", f"mode {mode}, {len(reached)} connections as before")

    def _change(self, host: Host, target: str, wanted: Mapping[str, Value]) -> None:
        raise NotImplementedError

    def _drain(self, host: Host) -> None:
        """ip_vs forgets its connections with its rules. New ones go over the bridge already; these may end by themselves."""
        own_source.use_own_address(host)  # Services that came after the bridge have addresses of their own

        def probe() -> Union[Ready[int], Pending]:
            left = _ipvs_connections(host)
            late = host.monotonic() - begun > self._means.drain_seconds
            return Ready(left) if not left or late else Pending(f"{left} connections of ipvs are open")

        begun = host.monotonic()
        left = wait(host, self._means.progress, "drain", probe, deadline_seconds=self._means.drain_seconds + 60)
        text = f"{left} connections of ipvs are cut: they were still open" if left else "no connection of ipvs is open"
        self._means.progress.done("drain", text)

    def _wait_until_in_order(self, host: Host, config: Mapping[str, Any], mode: str) -> None:
        def probe() -> Union[Ready[None], Pending]:
            reason = not_in_order(host, config, mode)
            return Pending(reason) if reason else Ready(None)

        try:
            seconds = self._means.verify_seconds
            wait(host, self._means.progress, "kube-proxy", probe, deadline_seconds=seconds, interval=0.2)
        except PeerError as error:
            raise MESSAGES.error("migrate-gate", found=error.found, mode=mode, seconds=f"{seconds:.0f}") from error

    def _wait_until_as_meant(self, host: Host, config: Mapping[str, Any], mode: str, node: str) -> None:
        found: list[str] = []
        tries = 0

        def probe() -> Union[Ready[None], Pending]:
            nonlocal found, tries
            try:
                data = snapshot(installation.api(host, self._means.where, config), node)
            except PeerError as error:
                return Pending(error.text)
            variant = installation.iptables_variant(host, self._means.where)
            found = differences(host, data, config, mode=mode, node=node, variant=variant)
            tries += 1
            if found and tries == _AUDIT_TRIES:
                raise MESSAGES.error("migrate-audit", found="\n".join(found[:10]), mode=mode, count=len(found))
            return Pending(f"{len(found)} differences: {found[0]}") if found else Ready(None)

        seconds = self._means.verify_seconds
        self._means.progress.started("rules", "comparing those in the kernel with what the Services mean")
        wait(host, self._means.progress, "rules", probe, deadline_seconds=seconds, interval=2)

    def _wait_until_reached(self, host: Host, mode: str, before: frozenset[probes.Try]) -> None:
        lost = dict.fromkeys(before, "")
        for attempt in range(_PROBE_TRIES):
            host.sleep(min(attempt, 1))
            tried = probes.tried(host, sorted({one.target for one in lost}, key=str))
            lost = {one: failure for one in lost if (failure := tried.get(one, _NO_POD))}
            if not lost:
                return
            self._means.progress.waiting("kube-proxy", f"not reached yet: {_told(lost)[0]}")
        raise MESSAGES.error("migrate-probe", mode=mode, what="; ".join(_told(lost)))


def _told(lost: Mapping[probes.Try, str]) -> list[str]:
    return sorted(f"{one}: {failure}" for one, failure in lost.items())


class ServiceKind(_Proven):
    """`{config, mode}`: the text of the configuration file, and the mode in effect, "" where kube-proxy does not answer."""

    def read(self, host: Host, target: str) -> Value:
        text = installation.config_text(host, self._means.where)
        if text is None:
            return ABSENT
        return {"config": text, "mode": _mode(host, self._means.where, parse_config(text, path=target))}

    def _change(self, host: Host, target: str, wanted: Mapping[str, Value]) -> None:
        # Stopped first: kube-proxy ends by itself when its file changes, and would start twice.
        stop_daemon(host, self._means.where.service)
        found = host.stat(target)
        mode = 0o600 if found is None else found.mode
        host.write(target, str(wanted["config"]).encode(errors="surrogateescape"), mode=mode)
        start_daemon(host, self._means.where.service)

    def remove(self, host: Host, target: str, before: Value) -> None:
        raise MESSAGES.error("migrate-no-config", path=target)


class PodKind(_Proven):
    """`{label, mode}`: the node's label that chooses the DaemonSet, and the mode in effect."""

    def read(self, host: Host, target: str) -> Value:
        metadata = _kubelet_api(host).get(_node_path(target))["metadata"]
        label = str((metadata.get("labels") or {}).get(MODE_LABEL, ""))
        return {"label": label, "mode": _mode(host, self._means.where, current_config(host, self._means.where))}

    def _change(self, host: Host, target: str, wanted: Mapping[str, Value]) -> None:
        """By the kubelet's own identity, which may set labels of its Node. The DaemonSet controller does the rest."""
        patch = {"metadata": {"labels": {MODE_LABEL: wanted["label"] or None}}}
        _kubelet_api(host).patch(_node_path(target), patch)

        def probe() -> Union[Ready[None], Pending]:
            found = _mode_now(host, self._means.where)
            return Ready(None) if found == wanted["mode"] else Pending(f"its pod runs in mode {found or 'unknown'}")

        try:
            seconds = self._means.verify_seconds
            wait(host, self._means.progress, "kube-proxy", probe, deadline_seconds=seconds, interval=0.3)
        except PeerError as error:
            shown = {"mode": wanted["mode"], "seconds": f"{seconds:.0f}"}
            raise MESSAGES.error("migrate-gate", found=error.found, **shown) from error

    def remove(self, host: Host, target: str, before: Value) -> None:
        raise MESSAGES.error("migrate-no-process")


def _kubelet_api(host: Host) -> Api:
    where = Installation(DAEMONSET, "", "", kubeconfig=KUBELET_KUBECONFIG)
    return installation.api(host, where, {})


def _node_path(node: str) -> str:
    return f"/api/v1/nodes/{node}"


def _mode(host: Host, where: Installation, config: Mapping[str, Any]) -> str:
    """In effect. One that starts is given some seconds to answer."""
    deadline = host.monotonic() + _STARTING_SECONDS
    while True:
        found = read_mode(host, config)
        if found or installation.process(host, where) is None or host.monotonic() > deadline:
            return found
        host.sleep(0.2)


def _mode_now(host: Host, where: Installation) -> str:
    try:
        return read_mode(host, current_config(host, where))
    except BallastError:  # between two pods there is none
        return ""


def _ipvs_connections(host: Host) -> int:
    """Those that ip_vs holds open. ip_vs_conn of proc: a heading, then state in the eighth column."""
    lines = (host.read("/proc/net/ip_vs_conn") or b"").decode(errors="replace").splitlines()[1:]
    return sum(1 for line in lines if line.split()[7:8] == ["ESTABLISHED"])
