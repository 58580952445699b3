# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Model kubelets: they take pods in, and grant, defer or refuse a resize as the real ones do.

A resize passes through spec -> allocated -> actual. What fits is allocated against what the other pods have allocated;
what does not is Deferred, and tried again when room comes; what is over the node's allocatable is Infeasible. One thread
acts for all of them.
"""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass
from typing import Any, Optional

from tests.model_cluster.amounts import ZERO, Pair, pair
from tests.model_cluster.later import Later
from tests.model_cluster.store import DELETED, Change, Object, Store

PENDING, IN_PROGRESS = "PodResizePending", "PodResizeInProgress"


@dataclass
class Habit:
    """How a kubelet behaves. May be changed at any time; `Kubelets.wake` makes it look again."""

    notice_seconds: float = 0.002  # until it sees a change of a pod
    actuate_seconds: float = 0.002  # from allocated to actual
    dead: bool = False  # it does nothing
    failing: bool = False  # the runtime refuses: PodResizeInProgress with reason Error
    never_fits: bool = False  # every growth is Infeasible
    plain: bool = False  # 1.33: it says no observedGeneration
    weight: bool = False  # CPU is read back from cpu.weight, rounded


class Kubelets:
    def __init__(self, store: Store, later: Later) -> None:
        self._store = store
        self._later = later
        self._habits: dict[str, Habit] = {}
        self._by_node: dict[str, dict[tuple[str, str], Object]] = {}
        self._actuated: dict[str, tuple[float, Pair]] = {}  # by uid: when it is to be actual, and what
        store.observers.append(self._note)

    def habit(self, node: str) -> Habit:
        return self._habits.setdefault(node, Habit())

    def wake(self, node: str, *, after: float = 0.0) -> None:
        self._later.call(lambda: self.sync(node), after=after)

    def pods(self, node: str) -> list[Object]:
        """Those that are not over."""
        with self._store.lock:
            return [pod for pod in self._by_node.get(node, {}).values() if runs(pod)]

    def _note(self, change: Change) -> None:
        node = change.item.get("spec", {}).get("nodeName") if change.collection == "pods" else None
        if not node:
            return
        pods = self._by_node.setdefault(node, {})
        if change.kind == DELETED:
            pods.pop(_name(change.item), None)
        else:
            pods[_name(change.item)] = change.item
        ours = change.before is not None and change.kind != DELETED and change.before["spec"] == change.item["spec"]
        if not ours:  # a status that a kubelet has written itself is no news to it
            self.wake(node, after=self.habit(node).notice_seconds)

    def sync(self, node: str) -> None:
        """Its kubelet looks at all its pods now."""
        with self._store.lock:
            found, habit = self._store.get("nodes", node), self.habit(node)
            if found is not None and not habit.dead:
                self._sync_alive(node, found, habit)

    def _sync_alive(self, node: str, found: Object, habit: Habit) -> None:
        allocatable = pair(found["status"]["allocatable"])
        again = True
        while again:  # what one resize gives, another may take
            again = False
            for pod in self._in_turn(node):
                again = self._look(pod, allocatable, habit) or again

    def _in_turn(self, node: str) -> list[Object]:
        """Resizes that take nothing more first, then by priority."""

        def place(pod: Object) -> tuple[bool, int]:
            return not _wanted(pod).fits(_allocated(pod) or ZERO), -pod["spec"].get("priority", 0)

        return sorted(self.pods(node), key=place)

    def _look(self, pod: Object, allocatable: Pair, habit: Habit) -> bool:
        """True where it has allocated less to the pod than before, so that others may be looked at again."""
        wanted, had = _wanted(pod), _allocated(pod)
        others = [_allocated(other) for other in self.pods(pod["spec"]["nodeName"]) if _name(other) != _name(pod)]
        used = ZERO
        for other in others:
            used = used.plus(other or ZERO)
        if had is None:
            self._admit(pod, fits=used.plus(wanted).fits(allocatable), habit=habit)
            return False
        if wanted == had:
            self._write(pod, had, pending=None, habit=habit)
            return False
        grows = not wanted.fits(had)
        if not wanted.fits(allocatable) or (grows and habit.never_fits):
            self._write(pod, had, pending=("Infeasible", _words("capacity", wanted, ZERO, allocatable)), habit=habit)
        elif grows and not used.plus(wanted).fits(allocatable):
            self._write(pod, had, pending=("Deferred", _words("resource", wanted, used, allocatable)), habit=habit)
        else:
            self._write(pod, wanted, pending=None, habit=habit)
            return not had.fits(wanted)
        return False

    def _admit(self, pod: Object, *, fits: bool, habit: Habit) -> None:
        if fits:
            self._actuated[pod["metadata"]["uid"]] = (0.0, _wanted(pod))
            self._write(pod, _wanted(pod), pending=None, habit=habit)
        else:
            status = {
                "phase": "Failed",
                "reason": "OutOfcpu",
                "message": "Pod was rejected: Node didn't have enough resource",
            }
            self._store.put("pods", {**pod, "status": status})

    def _write(self, pod: Object, allocated: Pair, *, pending: Optional[tuple[str, str]], habit: Habit) -> None:
        actual, progress = self._actual(pod, allocated, habit)
        status: dict[str, Any] = {
            "phase": "Running",
            "conditions": _conditions(pod, pending, progress, habit),
            "containerStatuses": [_container_status(pod, allocated, actual, habit)],
        }
        if not habit.plain:
            status["observedGeneration"] = pod["metadata"].get("generation", 1)
        if status != pod.get("status"):
            self._store.put("pods", {**copy.deepcopy(pod), "status": status})

    def _actual(self, pod: Object, allocated: Pair, habit: Habit) -> tuple[Pair, Optional[str]]:
        """What the runtime has, and the reason of PodResizeInProgress, None where there is no such condition."""
        uid, now = pod["metadata"]["uid"], time.monotonic()
        before = _actual(pod) or allocated
        due, what = self._actuated.get(uid, (0.0, before))
        if what != allocated:
            due, what = now + habit.actuate_seconds, allocated
            self._actuated[uid] = (due, what)
            self.wake(pod["spec"]["nodeName"], after=habit.actuate_seconds)
        if due > now:
            return before, ""
        if habit.failing and before != allocated:
            return before, "Error"
        return allocated, None


def runs(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def _name(pod: Object) -> tuple[str, str]:
    return pod["metadata"].get("namespace", ""), pod["metadata"]["name"]


def _wanted(pod: Object) -> Pair:
    """Model pods have one container."""
    return pair((pod["spec"]["containers"][0].get("resources") or {}).get("requests") or {})


def _container(pod: Object) -> Object:
    statuses = (pod.get("status") or {}).get("containerStatuses") or [{}]
    return dict(statuses[0])


def _allocated(pod: Object) -> Optional[Pair]:
    found = _container(pod).get("allocatedResources")
    return None if found is None else pair(found)


def _actual(pod: Object) -> Optional[Pair]:
    """Memory as its limit has it, where there is one; CPU not as it was read back, but as it was set."""
    found = _container(pod).get("model")
    return None if found is None else pair(found)


def counted(pod: Object) -> Pair:
    """What the scheduler takes off its node for it."""
    found = _wanted(pod)
    if any(
        row["type"] == PENDING and row["reason"] == "Infeasible"
        for row in (pod.get("status") or {}).get("conditions", [])
    ):
        found = ZERO
    return found.most(_allocated(pod) or ZERO).most(_actual(pod) or ZERO)


def held(pod: Object) -> Pair:
    """What no other pod can be given, whatever becomes of a resize."""
    if not runs(pod):
        return ZERO
    return _wanted(pod).least(_allocated(pod) or ZERO).least(_actual(pod) or ZERO)


def _conditions(pod: Object, pending: Optional[tuple[str, str]], progress: Optional[str], habit: Habit) -> list[Object]:
    generation = {} if habit.plain else {"observedGeneration": pod["metadata"].get("generation", 1)}
    found = [{"type": "Ready", "status": "True", **generation}]
    if pending:
        reason, message = pending
        found.append({"type": PENDING, "status": "True", "reason": reason, "message": message, **generation})
    if progress is not None:
        words = {"message": "the runtime refuses"} if progress else {}
        found.append({"type": IN_PROGRESS, "status": "True", "reason": progress, **words, **generation})
    return found


def _container_status(pod: Object, allocated: Pair, actual: Pair, habit: Habit) -> Object:
    container = pod["spec"]["containers"][0]
    read = actual._replace(cpu=_by_weight(actual.cpu)) if habit.weight else actual
    resources: dict[str, Any] = {"requests": read.quantities()}
    if "memory" in ((container.get("resources") or {}).get("limits") or {}):
        resources["limits"] = {"memory": str(actual.memory)}
    return {
        "name": container["name"],
        "ready": True,
        "restartCount": 0,
        "allocatedResources": allocated.quantities(),
        "resources": resources,
        "model": actual.quantities(),
    }


def _by_weight(millicores: int) -> int:
    """Through cpu.shares to cpu.weight and back, as runc and the kubelet reckon."""
    shares = max(2, millicores * 1024 // 1000)
    weight = 1 + (shares - 2) * 9999 // 262142
    back = 2 + (weight - 1) * 262142 // 9999
    return millicores if millicores <= 2 else -(-back * 1000 // 1024)


def _words(what: str, wanted: Pair, used: Pair, capacity: Pair) -> str:
    place, name = (0, "cpu") if used.cpu + wanted.cpu > capacity.cpu else (1, "memory")
    told = f", used: {used[place]}" if what == "resource" else ""
    return f"Node didn't have enough {what}: {name}, requested: {wanted[place]}{told}, capacity: {capacity[place]}"
