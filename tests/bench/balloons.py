# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long it takes to make a live node smaller and larger, by its balloon and by its kubelet: `make bench-balloons`.

One real kubelet. In rounds, in turn, by the same amount and with a pod that waits for it:

    balloon         PATCH of pods/resize; answered, allocated, actual; the pod that waits bound to the node
    systemReserved  another value in the kubelet's configuration and a restart; the Node says so; the pod bound

All times are from the moment at which it was asked for, as a watch of the API tells them. Writes
tests/bench/results/balloons.json (raw figures and the machine) and the table in docs/benchmarks/balloons.md between its marks.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import (
    CONTAINER,
    LABEL,
    SETTLED,
    Balloon,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.reading import read_fleet, read_pod
from ansible_collections.ballast.kube.plugins.module_utils._balloon.deployment.objects import build_objects
from ansible_collections.ballast.kube.plugins.module_utils._balloon.request import (
    NEVER_PREEMPT,
    PRESENT,
    BalloonsRequest,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import FLOOR, MIB, Resources, total
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.client import STRATEGIC_MERGE_PATCH, Api
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.kubeconfig import parse_credentials
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import PeerError
from tests.bench.balloons_report import write_report
from tests.bench.lab import machine
from tests.bench.rules import interrupt, say
from tests.integration.lab import Lab, lab_named

RESULTS = Path(__file__).resolve().parent / "results/balloons.json"
NAMESPACE = "ballast-balloons"
PAUSE = "ballast.local/pause:1"
NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
STEP = Resources(500, 512 * MIB)  # what the node gives and takes
SPARE = Resources(100, 256 * MIB)  # left free beside, so that nothing else comes in between
DROP_IN = "90-bench-reserved.conf"  # named to be read after what the collection writes
_LATE_SECONDS = 300

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Rounds:
    """In `turns`, so that neither has the machine at another time than the other."""

    balloon: int = 100
    kubelet: int = 20
    turns: int = 5


QUICK = Rounds(balloon=4, kubelet=2, turns=2)


class Watched:
    """What the API told of one kind of object since, with the time at which it came."""

    def __init__(self, api: Api, path: str) -> None:
        self._told: list[tuple[float, Object]] = []
        self._news = threading.Condition()
        self._over = False
        listed = api.list(path)
        self._latest = {_key(item): dict(item) for item in listed.items}
        self._thread = threading.Thread(target=self._read, args=(api, path, listed.resource_version), daemon=True)
        self._thread.start()

    def when(self, check: Callable[[Object], bool], *, since: float) -> float:
        """The time of the first news since then for which it is true."""
        deadline, number = time.monotonic() + _LATE_SECONDS, 0
        with self._news:
            while True:
                for at, item in self._told[number:]:
                    if at >= since and check(item):
                        return at
                number = len(self._told)
                if not self._news.wait(deadline - time.monotonic()):
                    raise RuntimeError(f"not within {_LATE_SECONDS} s: {check.__qualname__}")

    def latest(self) -> list[Object]:
        with self._news:
            return list(self._latest.values())

    def forget(self) -> None:
        with self._news:
            self._told.clear()

    def end(self) -> None:
        self._over = True

    def _read(self, api: Api, path: str, version: str) -> None:
        # Again from where it was: the server closes a watch after some minutes.
        while not self._over:
            try:
                for event in api.watch(path, {"resourceVersion": version}):
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self._take(event["type"], event["object"])
            except PeerError:
                if not self._over:
                    raise

    def _take(self, kind: str, item: Object) -> None:
        with self._news:
            self._told.append((time.monotonic(), item))
            self._latest[_key(item)] = dict(item)
            if kind == "DELETED":
                del self._latest[_key(item)]
            self._news.notify_all()


class Bench:
    def __init__(self, lab: Lab) -> None:
        kubeconfig = f"{lab.directory}/admin.kubeconfig"
        text = Path(kubeconfig).read_text(encoding="utf-8")
        self.api = Api(LocalHost(), parse_credentials(text, base_dir=lab.directory, name=kubeconfig))
        self.lab = lab
        self.node = str(lab.record["nodes"][0]["name"])
        self.kubeconfig = kubeconfig
        self.nodes, self.pods = Watched(self.api, NODES), Watched(self.api, PODS)

    def run(self, rounds: Rounds) -> dict[str, Any]:
        balloon: list[dict[str, dict[str, float]]] = []
        kubelet: list[dict[str, dict[str, float]]] = []
        with self.balloon_made():
            for _turn in range(rounds.turns):
                large = self.room() - SPARE
                self.resize(large)
                balloon += [self.balloon_round(large) for _number in range(rounds.balloon // rounds.turns)]
                self.resize(FLOOR)
                say(f"balloon: {balloon[-1]}")
                large = self.room() - SPARE
                self.restart(large)
                kubelet += [self.kubelet_round(large) for _number in range(rounds.kubelet // rounds.turns)]
                self.restart(None)
                say(f"systemReserved: {kubelet[-1]}")
            assert self.balloon().restarts == 0
        self.nodes.end()
        self.pods.end()
        return {"balloon": balloon, "kubelet": kubelet}

    def balloon_round(self, large: Resources) -> dict[str, dict[str, float]]:
        with self.waiting_pod() as name:
            shrunk = self.resize(large - STEP)
            bound = self.pods.when(_bound(name), since=shrunk["begun"])
        grown = self.resize(large)
        return {"shrink": _since_begun({**shrunk, "bound": bound}), "grow": _since_begun(grown)}

    def kubelet_round(self, large: Resources) -> dict[str, dict[str, float]]:
        with self.waiting_pod() as name:
            shrunk = self.restart(large - STEP)
            bound = self.pods.when(_bound(name), since=shrunk["begun"])
        grown = self.restart(large)
        return {"shrink": _since_begun({**shrunk, "bound": bound}), "grow": _since_begun(grown)}

    def resize(self, size: Resources) -> dict[str, float]:
        """When it was asked for, answered, allocated and actual."""
        name = self.balloon().name
        quantities = size.as_quantities()
        resources = {"requests": quantities, "limits": {"memory": quantities["memory"]}}
        body = {"spec": {"containers": [{"name": CONTAINER, "resources": resources}]}}
        self.pods.forget()
        begun = time.monotonic()
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/resize"
        self.api.patch(path, body, content_type=STRATEGIC_MERGE_PATCH)
        answered = time.monotonic()
        allocated = self.pods.when(_is(name, lambda balloon: balloon.allocated == size), since=begun)
        actual = self.pods.when(
            _is(name, lambda balloon: balloon.desired == size and balloon.state == SETTLED), since=begun
        )
        return {"begun": begun, "answered": answered, "allocated": allocated, "actual": actual}

    def restart(self, reserved: Optional[Resources]) -> dict[str, float]:
        """When it was asked for, and when the Node says so. None is what the lab has."""
        home = f"{self.lab.directory}/nodes/{self.node}"
        path = Path(home, "etc/kubelet.conf.d", DROP_IN)
        before = self.allocatable()
        self.nodes.forget()
        begun = time.monotonic()
        if reserved is None:
            path.unlink()
        else:
            document = {
                "apiVersion": "kubelet.config.k8s.io/v1beta1",
                "kind": "KubeletConfiguration",
                "systemReserved": reserved.as_quantities(),
            }
            path.write_text(json.dumps(document), encoding="utf-8")
        (pid,) = (pid for service, pid in self.lab.services().items() if service.endswith(f"{self.node}-kubelet"))
        os.kill(pid, signal.SIGTERM)
        told = self.nodes.when(lambda item: self._allocatable_of(item) not in (None, before), since=begun)
        return {"begun": begun, "told": told}

    @contextmanager
    def waiting_pod(self) -> Iterator[str]:
        """One that the scheduler has found no room for."""
        name = "bench-waits"
        container = {"name": "one", "image": PAUSE, "resources": {"requests": STEP.as_quantities()}}
        spec = {
            "containers": [container],
            "nodeSelector": {"kubernetes.io/hostname": self.node},
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
        }
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        self.pods.forget()
        begun = time.monotonic()
        self.api.create("/api/v1/namespaces/default/pods", body)
        self.pods.when(_unschedulable(name), since=begun)
        yield name
        self.api.delete(f"/api/v1/namespaces/default/pods/{name}", {"gracePeriodSeconds": 0})
        while any(_key(pod) == ("default", name) for pod in self.pods.latest()):
            time.sleep(0.05)

    @contextmanager
    def balloon_made(self) -> Iterator[None]:
        request = BalloonsRequest(
            state=PRESENT,
            kubeconfig=self.kubeconfig,
            namespace=NAMESPACE,
            nodes=(),
            reserve=None,
            priority=NEVER_PREEMPT,
            grow_timeout=30.0,
            slices=False,
            vm=False,
            image=PAUSE,
        )
        begun = time.monotonic()
        for path, body in build_objects(request).items():
            self.api.create(os.path.dirname(path), body)
        self.pods.when(
            lambda pod: _has_label(pod) and (found := _balloon_of(pod)) is not None and found.state == SETTLED,
            since=begun,
        )
        yield

    def balloon(self) -> Balloon:
        (found,) = (_balloon_of(pod) for pod in self.pods.latest() if _has_label(pod))
        assert found is not None
        return found

    def room(self) -> Resources:
        """What no pod of the node requests, its balloon aside."""
        fleet = read_fleet(self.nodes.latest(), self.pods.latest(), namespace=NAMESPACE).fleet
        node = fleet.nodes[self.node]
        room = node.allocatable - total(pod.requests for pod in node.pods)
        return Resources(room.cpu, room.memory - room.memory % MIB)

    def allocatable(self) -> Resources:
        (found,) = (amount for item in self.nodes.latest() if (amount := self._allocatable_of(item)) is not None)
        return found

    def _allocatable_of(self, item: Object) -> Optional[Resources]:
        node = read_fleet([item], [], namespace=NAMESPACE).fleet.nodes.get(self.node)
        return None if node is None else node.allocatable


def _key(item: Object) -> tuple[str, str]:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


def _has_label(pod: Object) -> bool:
    return LABEL in pod["metadata"].get("labels", {})


def _balloon_of(pod: Object) -> Optional[Balloon]:
    placed = read_pod(pod, namespace=NAMESPACE)
    return placed.what if placed is not None and isinstance(placed.what, Balloon) else None


def _is(name: str, check: Callable[[Balloon], bool]) -> Callable[[Object], bool]:
    def balloon_is(pod: Object) -> bool:
        found = _balloon_of(pod) if pod["metadata"]["name"] == name else None
        return found is not None and check(found)

    return balloon_is


def _bound(name: str) -> Callable[[Object], bool]:
    return lambda pod: pod["metadata"]["name"] == name and bool(pod["spec"].get("nodeName"))


def _unschedulable(name: str) -> Callable[[Object], bool]:
    return lambda pod: (
        pod["metadata"]["name"] == name
        and any(row.get("reason") == "Unschedulable" for row in pod.get("status", {}).get("conditions", ()))
    )


def _since_begun(times: Mapping[str, float]) -> dict[str, float]:
    return {name: round(at - times["begun"], 4) for name, at in times.items() if name != "begun"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rounds, to try the program; nothing is written")
    arguments = parser.parse_args()
    rounds = QUICK if arguments.quick else Rounds()
    signal.signal(signal.SIGTERM, interrupt)
    with lab_named("balloonbench") as lab:
        done = lab.up(lab_nodes=1)
        assert done.status == 0, done.output
        found: dict[str, Any] = {
            "machine": machine(),
            "rounds": asdict(rounds),
            "step": STEP.as_quantities(),
            "kubernetes": lab.record["kubernetes_version"],
            **Bench(lab).run(rounds),
        }
    write_report(found, None if arguments.quick else RESULTS)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted; all that was made for it is removed")
