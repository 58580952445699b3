# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Moves a cluster's kube-proxy from one mode to another, node by node, if a DaemonSet runs it.

It runs on a machine with an administrator's kubeconfig. It needs no journal: an annotation of the original DaemonSet records
which modes have canaries, and the settings before the first one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from typing import Optional, Union

from ..._core.engine.context import Context
from ..._core.engine.engine import BaseEngine, Finding
from ..._core.engine.events import Progress
from ..._core.engine.wait import Pending, Ready, wait
from ..._core.host.host import Host
from ..._core.kube.objects import MANAGER
from ..._core.text.errors import BallastError, PeerError
from ..installation import MODE_LABEL
from . import plan as planning
from .messages import MESSAGES
from .model import FINAL, DaemonSetRequest
from .objects import (
    CONFIG,
    HASH,
    Object,
    canary_map,
    canary_set,
    essence,
    finished_map,
    for_all_nodes,
    record_of,
    with_canaries,
    without_affinity,
    without_canaries,
)
from .plan import Plan, Step, nodes_of
from .read import DaemonSetState, api_of, list_pods, list_revisions, node_path, read, read_original, wait_for_controller

_ATTEMPTS = 5
_PASSES = 3
_NODE_SECONDS = 180  # for one batch of nodes: the old pods end and the new ones become ready


class DaemonSetEngine(BaseEngine[DaemonSetRequest, DaemonSetState, Plan]):
    def __init__(self) -> None:
        self._changed_by_others: list[str] = []  # paths of objects that other programs changed during this run

    def observe(self, ctx: Context[DaemonSetRequest]) -> DaemonSetState:
        with _checked_shape():
            return read(ctx.desired, api_of(ctx.desired, ctx.host), ctx.host)

    def plan(self, desired: DaemonSetRequest, state: DaemonSetState) -> Plan:
        with _checked_shape():
            return planning.plan(desired, state)

    def as_result(self, plan: Plan) -> dict[str, object]:
        steps = [
            {"kind": step.kind, "verb": step.verb, "title": step.title, "target": step.target} for step in plan.steps
        ]
        return {"steps": steps}

    def diff(self, plan: Plan) -> list[dict[str, str]]:
        return [
            {"before_header": step.title, "after_header": step.title, "before": step.before, "after": step.after}
            for step in plan.steps
            if step.before or step.after
        ]

    def apply(self, plan: Plan, ctx: Context[DaemonSetRequest]) -> Plan:
        """Repeat until the plan is empty, because others may change objects meanwhile; at most _PASSES times."""
        self._changed_by_others = []
        following, done = plan, list[Step]()
        for _pass in range(_PASSES):
            if not following.steps:
                break
            run = _Run(ctx.desired, ctx.host, ctx.progress, following.state)
            with _checked_shape():
                run.do_all(following.steps)
            done += following.steps
            self._changed_by_others += run.meanwhile
            following = self.plan(ctx.desired, self.observe(ctx))
        return replace(plan, steps=tuple(done))

    def verify(self, ctx: Context[DaemonSetRequest]) -> list[Finding]:
        findings = [
            _finding(MESSAGES.error("daemonset-meanwhile", path=path), path) for path in self._changed_by_others
        ]
        if self.plan(ctx.desired, self.observe(ctx)).steps:
            error = MESSAGES.error("daemonset-lost")
            findings.append(_finding(error, f"DaemonSet {ctx.desired.name}", blocking=True))
        return findings

    def report(self, ctx: Context[DaemonSetRequest]) -> dict[str, object]:
        state = self.observe(ctx)
        return {
            "canary": ctx.desired.canary if state.canary_set is not None else "",
            "modes": list(record_of(state.daemonset).modes),
            "nodes": {"original": nodes_of(state.pods), "canary": nodes_of(state.canary_pods)},
        }


ENGINE = DaemonSetEngine()


@contextmanager
def _checked_shape() -> Iterator[None]:
    """A server that is not an API server may return objects of another shape: raise an error instead of a traceback."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise MESSAGES.error("daemonset-answer", reason=f"{type(error).__name__}: {error}") from error


def _finding(error: BallastError, subject: str, *, blocking: bool = False) -> Finding:
    return Finding(id=error.id, subject=subject, text=error.text, remedy=error.remedy, blocking=blocking)


class _Run:
    """Executes steps. Each computes its object from the API's current one, so that no edit by others is lost."""

    def __init__(self, desired: DaemonSetRequest, host: Host, progress: Progress, state: DaemonSetState) -> None:
        self._desired = desired
        self._host = host
        self._progress = progress
        self._api = api_of(desired, host)
        self._seen: dict[str, Object] = {
            path: essence(current)
            for path, current in (
                (desired.map_path(desired.name), state.config_map),
                (desired.set_path(desired.name), state.daemonset),
                (desired.map_path(desired.canary), state.canary_map),
                (desired.set_path(desired.canary), state.canary_set),
            )
            if current is not None
        }
        self.meanwhile: list[str] = []
        self._do: Mapping[str, Callable[[Step], None]] = {
            planning.PUT_MAP: self._put_map,
            planning.PUT_SET: self._put_set,
            planning.PUT_CONFIG: self._put_config,
            planning.SHARE: self._share,
            planning.SETTLE: self._settle,
            planning.REMOVE_SET: self._remove,
            planning.REMOVE_MAP: self._remove,
        }

    def do_all(self, steps: Sequence[Step]) -> None:
        for kind, alike in groupby(steps, key=lambda step: step.kind):
            if kind == planning.MOVE:
                self._move([step.target for step in alike])
                continue
            for step in alike:
                self._progress.started(step.title, f"{step.verb} {step.title}")
                self._do[kind](step)
                self._progress.done(step.title, "")

    def _move(self, nodes: Sequence[str]) -> None:
        """Move nodes from the canary to the original, in batches of the size that the original's update strategy allows."""
        size = _batch_size(record_of(self._original()).updateStrategy, len(nodes))
        for start in range(0, len(nodes), size):
            batch = nodes[start : start + size]
            for name in batch:
                self._progress.started(f"node {name}", f"DaemonSet {self._desired.name} takes over")
                self._label(name, None)
            subject = f"kube-proxy on {', '.join(batch)}"
            wait(
                self._host,
                self._progress,
                subject,
                self._taken_over(batch),
                deadline_seconds=_NODE_SECONDS,
                interval=0.5,
            )
            for name in batch:
                self._progress.done(f"node {name}", f"DaemonSet {self._desired.name}")

    def _taken_over(self, batch: Sequence[str]) -> Callable[[], Union[Ready[None], Pending]]:
        def probe() -> Union[Ready[None], Pending]:
            daemonset, canary = self._original(), self._api.find(self._desired.set_path(self._desired.canary))
            pods = {pod.node: pod for pod in list_pods(self._desired, self._api, daemonset)}
            leaving = list_pods(self._desired, self._api, canary) if canary else ()
            for name in batch:
                if any(pod.node == name for pod in leaving):
                    return Pending(f"{name}: the pod of DaemonSet {self._desired.canary} is ending")
                pod = pods.get(name)
                if pod is None or not pod.ready:
                    return Pending(f"{name}: {'no pod yet' if pod is None else pod.why}")
            return Ready(None)

        return probe

    def _original(self) -> Object:
        return read_original(self._desired, self._api)

    def _put_map(self, step: Step) -> None:
        original = self._api.get(self._desired.map_path(self._desired.name))
        self._put(step.target, canary_map(original, self._desired))

    def _put_set(self, step: Step) -> None:
        config_map = self._api.get(self._desired.map_path(self._desired.canary))
        self._put(step.target, canary_set(self._original(), config_map, self._desired))

    def _put_config(self, step: Step) -> None:
        canary = self._api.get(self._desired.map_path(self._desired.canary))
        self._edit(step.target, lambda current: finished_map(current, canary["data"][CONFIG], self._desired))

    def _share(self, step: Step) -> None:
        mode, final = self._desired.mode, self._desired.state == FINAL

        def change(daemonset: Object) -> Object:
            modes = set(record_of(daemonset).modes)
            if self._desired.state == "absent":
                modes.discard(mode)
            else:
                modes.add(mode)
            return with_canaries(daemonset, sorted(modes), finishing=mode if final else "")

        self._edit(step.target, change)

    def _settle(self, step: Step) -> None:
        """First restore the template, still with OnDelete. Then label the pods whose template differs only in affinity as
        belonging to it, so that the restored strategy does not restart them."""
        self._edit(step.target, for_all_nodes)

        daemonset = wait_for_controller(self._desired, self._api, self._host, self._desired.name)
        if daemonset is None:  # removed meanwhile
            return
        self._keep_pods(daemonset)
        if self._desired.state == FINAL:
            for pod in list_pods(self._desired, self._api, daemonset):
                self._label(pod.node, self._desired.mode)
        self._edit(step.target, without_canaries)

    def _keep_pods(self, daemonset: Object) -> None:
        known = [
            (revision["metadata"]["labels"][HASH], without_affinity(revision["data"]["spec"]["template"]))
            for revision in list_revisions(self._desired, self._api, daemonset)
        ]
        alike = {name for name, template in known if template == known[0][1]}
        for pod in list_pods(self._desired, self._api, daemonset):
            newest = known[0][0]
            if pod.hash in alike - {newest}:
                self._patch(f"{self._desired.pods_path}/{pod.name}", {"metadata": {"labels": {HASH: newest}}})

    def _label(self, node: str, mode: Optional[str]) -> None:
        self._patch(node_path(node), {"metadata": {"labels": {MODE_LABEL: mode}}})

    def _patch(self, path: str, body: Object) -> None:
        """Patch an object; no effect if the node or pod is gone."""
        try:
            self._api.patch(path, body, params=MANAGER)
        except PeerError as error:
            if error.id != "core-api-absent":
                raise

    def _remove(self, step: Step) -> None:
        self._api.delete(step.target, {"propagationPolicy": "Background"})

    def _put(self, path: str, target: Object) -> None:
        if self._api.find(path) is None:
            self._api.create(path.rpartition("/")[0], target, MANAGER)
            return

        def change(current: Object) -> Object:
            metadata = {**current["metadata"], **target["metadata"]}
            return {**current, **target, "metadata": metadata}

        self._edit(path, change)

    def _edit(self, path: str, change: Callable[[Object], Object]) -> None:
        """Replace an object; after a conflict, apply `change` again to the newer one."""
        for _attempt in range(_ATTEMPTS):
            current = self._api.get(path)
            if essence(current) != self._seen.get(path, essence(current)) and path not in self.meanwhile:
                self.meanwhile.append(path)
            changed = change(current)
            if essence(changed) == essence(current):
                return
            try:
                written = self._api.replace(path, changed, MANAGER)
            except PeerError as error:
                if error.id != "core-api-conflict":
                    raise
                continue
            self._seen[path] = essence(written)
            return
        raise MESSAGES.error("daemonset-conflict", path=path, attempts=_ATTEMPTS)


def _batch_size(strategy: Object, count: int) -> int:
    """The number of nodes, from maxUnavailable of a RollingUpdate (a number, or a percentage that is rounded up, as the
    controller does); 1 if the strategy has none."""
    text = str((strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1))
    number = text.rstrip("%")
    if not number.isdecimal():
        return 1
    return max(1, math.ceil(int(number) * count / 100) if text.endswith("%") else int(number))
