# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""kube-proxy of a cluster from one mode to another, node by node, where a DaemonSet runs it.

It runs where the kubeconfig of an administrator is. The objects themselves are the record of how far it is: an annotation
of the original DaemonSet says which modes have canaries and what was there before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Optional, Union

from ...._core.engine import Finding
from ...._core.errors import BallastError, PeerError
from ...._core.events import Progress
from ...._core.host import Host
from ...._core.names import MARK
from ...._core.wait import Pending, Ready, wait
from ..installation import MODE_LABEL
from . import plan as planning
from .messages import MESSAGES
from .model import FINAL, Desired
from .objects import (
    CONFIG,
    HASH,
    Object,
    apart_from_affinity,
    as_it_was,
    canary_map,
    canary_set,
    essence,
    for_all_nodes,
    record_of,
    with_canaries,
)
from .plan import Plan, Step, nodes_of
from .read import Found, api_of, node_path, original_set, pods_of, read, revisions, seen_by_controller

_ATTEMPTS = 5
_PASSES = 3
_NODE_SECONDS = 180  # for the nodes of one batch: the end of one pod and the start of another
_MANAGER = {"fieldManager": MARK}


class DaemonSetEngine:
    planning = "plan"

    def __init__(self) -> None:
        self._meanwhile: list[str] = []  # paths of objects that others have changed during this run

    def observe(self, desired: Desired, host: Host) -> Found:
        with _as_the_api_has_it():
            return read(desired, api_of(desired, host), host)

    def plan(self, desired: Desired, state: Found) -> Plan:
        with _as_the_api_has_it():
            return planning.plan(desired, state)

    def told(self, plan: Plan) -> dict[str, object]:
        steps = [{"kind": one.kind, "verb": one.verb, "title": one.title, "target": one.target} for one in plan.steps]
        return {"steps": steps}

    def difference(self, plan: Plan) -> list[dict[str, str]]:
        return [
            {"before_header": one.title, "after_header": one.title, "before": one.before, "after": one.after}
            for one in plan.steps
            if one.before or one.after
        ]

    def require(self, desired: Desired, host: Host) -> None:
        """Nothing: what it needs it has asked the API server for."""

    def apply(self, plan: Plan, desired: Desired, host: Host, progress: Progress) -> tuple[Step, ...]:
        """Until nothing is left to do: what others change meanwhile may ask for more, but not without an end."""
        self._meanwhile = []
        following = plan
        for _pass in range(_PASSES):
            if not following.steps:
                break
            run = _Run(desired, host, progress, following.found)
            with _as_the_api_has_it():
                run.do_all(following.steps)
            self._meanwhile += run.meanwhile
            following = self.plan(desired, self.observe(desired, host))
        return plan.steps

    def verify(self, desired: Desired, host: Host, progress: Progress) -> list[Finding]:
        findings = [_finding(MESSAGES.error("daemonset-meanwhile", path=path), path) for path in self._meanwhile]
        if self.plan(desired, self.observe(desired, host)).steps:
            error = MESSAGES.error("daemonset-lost")
            findings.append(_finding(error, f"DaemonSet {desired.name}", blocking=True))
        return findings

    def preview(self, desired: Desired) -> dict[str, object]:
        return {}

    def report(self, desired: Desired, host: Host) -> dict[str, object]:
        found = self.observe(desired, host)
        return {
            "canary": desired.canary if found.canary_set is not None else "",
            "modes": list(record_of(found.daemonset).modes),
            "nodes": {"original": nodes_of(found.pods), "canary": nodes_of(found.canary_pods)},
        }


ENGINE = DaemonSetEngine()


@contextmanager
def _as_the_api_has_it() -> Iterator[None]:
    """The API server holds objects to their schema; whoever answers in its place may not, and gets no traceback."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise MESSAGES.error("daemonset-answer", reason=f"{type(error).__name__}: {error}") from error


def _finding(error: BallastError, subject: str, *, blocking: bool = False) -> Finding:
    return Finding(id=error.id, subject=subject, text=error.text, remedy=error.remedy, blocking=blocking)


class _Run:
    """The steps, done. Each makes its object from what the API server has by then, so that nobody's edit is overwritten."""

    def __init__(self, desired: Desired, host: Host, progress: Progress, found: Found) -> None:
        self._desired = desired
        self._host = host
        self._progress = progress
        self._api = api_of(desired, host)
        self._seen: dict[str, Object] = {
            path: essence(one)
            for path, one in (
                (desired.map_path(desired.name), found.config_map),
                (desired.set_path(desired.name), found.daemonset),
                (desired.map_path(desired.canary), found.canary_map),
                (desired.set_path(desired.canary), found.canary_set),
            )
            if one is not None
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
        """From the canary to the original, as many at a time as the original's own strategy lets be without."""
        size = _at_a_time(record_of(self._original()).updateStrategy, len(nodes))
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
            pods = {pod.node: pod for pod in pods_of(self._desired, self._api, daemonset)}
            leaving = pods_of(self._desired, self._api, canary) if canary else ()
            for name in batch:
                if any(pod.node == name for pod in leaving):
                    return Pending(f"{name}: the pod of DaemonSet {self._desired.canary} is ending")
                pod = pods.get(name)
                if pod is None or not pod.ready:
                    return Pending(f"{name}: {'no pod yet' if pod is None else pod.why}")
            return Ready(None)

        return probe

    def _original(self) -> Object:
        return original_set(self._desired, self._api)

    def _put_map(self, step: Step) -> None:
        original = self._api.get(self._desired.map_path(self._desired.name))
        self._put(step.target, canary_map(original, self._desired))

    def _put_set(self, step: Step) -> None:
        config_map = self._api.get(self._desired.map_path(self._desired.canary))
        self._put(step.target, canary_set(self._original(), config_map, self._desired))

    def _put_config(self, step: Step) -> None:
        canary = self._api.get(self._desired.map_path(self._desired.canary))
        self._edit(step.target, lambda found: {**found, "data": {**found["data"], CONFIG: canary["data"][CONFIG]}})

    def _share(self, step: Step) -> None:
        mode, final = self._desired.mode, self._desired.state == FINAL

        def change(found: Object) -> Object:
            modes = set(record_of(found).modes)
            if self._desired.state == "absent":
                modes.discard(mode)
            else:
                modes.add(mode)
            return with_canaries(found, sorted(modes), finishing=mode if final else "")

        self._edit(step.target, change)

    def _settle(self, step: Step) -> None:
        """The template first, under OnDelete; then pods that differ from it in the affinity alone are told to be of it, so
        that the strategy that comes back starts none of them anew."""
        self._edit(step.target, for_all_nodes)

        daemonset = seen_by_controller(self._desired, self._api, self._host, self._desired.name)
        if daemonset is None:  # somebody removed it
            return
        self._keep_pods(daemonset)
        if self._desired.state == FINAL:
            for pod in pods_of(self._desired, self._api, daemonset):
                self._label(pod.node, self._desired.mode)
        self._edit(step.target, as_it_was)

    def _keep_pods(self, daemonset: Object) -> None:
        known = [
            (one["metadata"]["labels"][HASH], apart_from_affinity(one["data"]["spec"]["template"]))
            for one in revisions(self._desired, self._api, daemonset)
        ]
        alike = {name for name, template in known if template == known[0][1]}
        for pod in pods_of(self._desired, self._api, daemonset):
            newest = known[0][0]
            if pod.hash in alike - {newest}:
                self._patch(f"{self._desired.pods_path}/{pod.name}", {"metadata": {"labels": {HASH: newest}}})

    def _label(self, node: str, mode: Optional[str]) -> None:
        self._patch(node_path(node), {"metadata": {"labels": {MODE_LABEL: mode}}})

    def _patch(self, path: str, body: Object) -> None:
        """A node or pod that is gone needs none."""
        try:
            self._api.patch(path, body, params=_MANAGER)
        except PeerError as error:
            if error.id != "core-api-absent":
                raise

    def _remove(self, step: Step) -> None:
        self._api.delete(step.target, {"propagationPolicy": "Background"})

    def _put(self, path: str, wanted: Object) -> None:
        if self._api.find(path) is None:
            self._api.create(path.rpartition("/")[0], wanted, _MANAGER)
            return

        def change(found: Object) -> Object:
            metadata = {**found["metadata"], **wanted["metadata"]}
            return {**found, **wanted, "metadata": metadata}

        self._edit(path, change)

    def _edit(self, path: str, change: Callable[[Object], Object]) -> None:
        """`change` is asked again of what is there when somebody else was faster."""
        for _attempt in range(_ATTEMPTS):
            found = self._api.get(path)
            if essence(found) != self._seen.get(path, essence(found)) and path not in self.meanwhile:
                self.meanwhile.append(path)
            wanted = change(found)
            if essence(wanted) == essence(found):
                return
            try:
                written = self._api.replace(path, wanted, _MANAGER)
            except PeerError as error:
                if error.id != "core-api-conflict":
                    raise
                continue
            self._seen[path] = essence(written)
            return
        raise MESSAGES.error("daemonset-conflict", path=path, attempts=_ATTEMPTS)


def _at_a_time(strategy: Object, count: int) -> int:
    """Nodes, by maxUnavailable of a RollingUpdate, which is a number or a percentage, and rounded up as the controller
    does; one where the strategy names none."""
    text = str((strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1))
    number = text.rstrip("%")
    if not number.isdecimal():
        return 1
    return max(1, math.ceil(int(number) * count / 100) if text.endswith("%") else int(number))
