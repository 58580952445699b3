# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A lab of real kubelets whose nodes have balloons, and what its API, its kubelets and the kernel say of them."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import (
    NAMESPACE,
    TARGET,
    Fleet,
    Outcome,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.lease import Leases
from ansible_collections.ballast.kube.plugins.module_utils._balloon.engine import (
    BalloonEngine,
    api_of,
    cluster_of,
    with_limits,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.info import read_params
from ansible_collections.ballast.kube.plugins.module_utils._balloon.request import INFO_SPEC, SPEC, BalloonsRequest
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.executor import execute_resizes
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.limits import limits_of
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.resize_steps import is_overcommitted
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.scheduler import ResizeScheduler
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import MIB, Resources
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.client import Api
from tests.integration.kube_proxy import eventually
from tests.integration.lab import Lab, lab_named

NAMES = ("n1", "n2", "n3")
PAUSE = "ballast.local/pause:1"
RESERVE = Resources(0, 1924 * MIB)  # as the lab has it: a GiB, and what three kubelets reserve
_SECONDS = 120


@dataclass(frozen=True)
class Result:
    """As the module returns it."""

    changed: bool
    outcomes: Mapping[str, str]
    texts: Mapping[str, str]
    targets: Mapping[str, Resources]


@dataclass(frozen=True)
class BalloonLab:
    lab: Lab

    @cached_property
    def api(self) -> Api:
        return api_of(self.request({}), LocalHost())

    def request(self, targets: Mapping[str, Mapping[str, str]], **options: Any) -> BalloonsRequest:
        rows = [{"name": name, "target": dict(target)} for name, target in targets.items()]
        return self.request_of(rows or [{"name": name} for name in NAMES], **options)

    def request_of(self, rows: Sequence[Mapping[str, Any]], **options: Any) -> BalloonsRequest:
        slices = options.get("slices", True)
        given = {
            **{name: row.get("default") for name, row in SPEC.items()},
            "kubeconfig": f"{self.lab.directory}/admin.kubeconfig",
            "image": PAUSE,
            "reserve": RESERVE.as_quantities(),
            "slices": slices,
            "namespace": NAMESPACE,
            "nodes": [{**row, "slice": f"ballast-{self.lab.name}-{row['name']}" if slices else None} for row in rows],
            **options,
        }
        return BalloonsRequest.from_params(given)

    def size(self, targets: Mapping[str, Mapping[str, str]], **options: Any) -> Result:
        return run(self.request(targets, **options))

    def size_rows(self, rows: Sequence[Mapping[str, Any]], **options: Any) -> Result:
        return run(self.request_of(rows, **options))

    @contextmanager
    def steered(self, *, grow_timeout: float) -> Iterator[Callable[[Mapping[str, Resources]], Mapping[str, Outcome]]]:
        """Many sizes one after the other by what moves them in the module, without its reading and telling of each."""
        request, host = self.request({}), LocalHost()
        limits, progress = limits_of(request, host), Progress(NullSink(), feature="balloon")
        with cluster_of(request, self.api, host) as cluster:

            def size(targets: Mapping[str, Resources]) -> Mapping[str, Outcome]:
                scheduler = ResizeScheduler(targets, grow_timeout=grow_timeout)
                leases = Leases(self.api, host, namespace=request.namespace)
                return execute_resizes(scheduler, cluster, limits, leases, host, progress)

            yield size

    def fleet(self, **options: Any) -> Fleet:
        """Read anew."""
        request, host = self.request({}, **options), LocalHost()
        cluster = cluster_of(request, self.api, host)
        cluster.load()
        return with_limits(cluster.fleet(), request, host)

    def reading(self) -> dict[str, Any]:
        """Of its production readiness, as `balloon_info` returns it; by balloons and limits."""
        rows = [{"name": name, "slice": f"ballast-{self.lab.name}-{name}"} for name in NAMES]
        given = {
            **{name: row.get("default") for name, row in INFO_SPEC.items()},
            "kubeconfig": f"{self.lab.directory}/admin.kubeconfig",
            "reserve": RESERVE.as_quantities(),
            "slices": True,
            "nodes": rows,
            "readiness": True,
        }
        found: dict[str, Any] = dict(read_params(LocalHost(), given)["readiness"])
        return found

    def broken(self) -> list[str]:
        """What does not agree: the kubelets, the scheduler's view, the slices and the sum."""
        fleet = self.fleet()
        found = [] if all(not is_overcommitted(fleet, host) for host in fleet.by_host) else ["the sum does not hold"]
        for node in fleet.nodes.values():
            balloon = node.balloon
            if balloon is None or node.target is None or node.limit is None:
                found.append(f"{node.name}: no balloon, target or limit")
                continue
            wanted = node.balloon_for(node.target)
            if not balloon.desired == balloon.allocated == wanted:
                found.append(f"{node.name}: {balloon} is to be {wanted}")
            if not node.target.fits_in(node.limit - node.overhead + Resources(0, 2**16)):
                found.append(f"{node.name}: its limit is {node.limit}")
        return found

    def pod(self, name: str, node: str, *, cpu: str = "1m", memory: str = "1Mi", priority: str = "") -> None:
        """One that waits for ever, and whose kubelet takes it in by itself: no scheduler has a say."""
        self.api.create("/api/v1/namespaces/default/pods", pod_manifest(name, node, cpu, memory, priority))

    def pods(self, namespace: str = "default") -> dict[str, dict[str, Any]]:
        return {item["metadata"]["name"]: item for item in self.api.list(f"/api/v1/namespaces/{namespace}/pods").items}

    def running(self, *names: str) -> bool:
        pods = self.pods()
        return all(name in pods and pods[name]["status"].get("phase") == "Running" for name in names)

    def restarts(self) -> dict[str, int]:
        """Of every container of every pod, by namespace, pod and container."""
        items = self.api.list("/api/v1/pods").items
        return {
            f"{item['metadata']['namespace']}/{item['metadata']['name']}/{row['name']}": row["restartCount"]
            for item in items
            for row in item["status"].get("containerStatuses", [])
        }

    def uids(self) -> set[str]:
        """Of every pod that is there now."""
        return {item["metadata"]["uid"] for item in self.api.list("/api/v1/pods").items}

    def harm(self, uids: Container[str]) -> list[str]:
        """Events that tell of one of these pods that was ended; an event of a pod of before may come late."""
        words = ("Preempt", "Evict", "Killing", "OutOf", "OOM")
        return [
            f"{row['reason']}: {row.get('message')}"
            for row in self.api.list("/api/v1/events").items
            if str(row["reason"]).startswith(words) and row["involvedObject"].get("uid") in uids
        ]

    def clean(self) -> None:
        self.api.delete("/api/v1/namespaces/default/pods", {"gracePeriodSeconds": 0})
        assert eventually(lambda: not self.pods(), seconds=_SECONDS), list(self.pods())

    def kubelet(self, node: str) -> int:
        """The process that runs now."""
        place = next(path for path in self.lab.services() if path.endswith(f"-{node}-kubelet"))
        return self.lab.services()[place]

    def kill_kubelet(self, node: str) -> None:
        os.kill(self.kubelet(node), signal.SIGKILL)

    def node(self, name: str) -> Optional[dict[str, Any]]:
        return self.api.find(f"/api/v1/nodes/{name}")

    def annotated(self, name: str) -> Optional[str]:
        found: Optional[str] = (self.node(name) or {})["metadata"].get("annotations", {}).get(TARGET)
        return found


def run(request: BalloonsRequest) -> Result:
    """As the module does, without a process of its own."""
    engine, host = BalloonEngine(), LocalHost()
    plan = engine.plan(request, engine.observe(Context(request, host)))
    progress = Progress(NullSink(), feature="balloon")
    engine.apply(plan, Context(request, host, progress))
    engine.verify(Context(request, host, progress))
    rows: Any = engine.report(Context(request, host))["nodes"]
    moved = [row for row in rows if "outcome" in row]
    return Result(
        changed=bool(plan.steps),
        outcomes={row["name"]: row["outcome"] for row in moved},
        texts={row["name"]: row["text"] for row in moved},
        targets=plan.targets,
    )


def pod_manifest(name: str, node: str, cpu: str, memory: str, priority: str) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": memory}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeName": node,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            **({"priorityClassName": priority} if priority else {}),
            "containers": [{"name": "one", "image": PAUSE, "resources": {"requests": requests}}],
        },
    }


@contextmanager
def balloon_lab(name: str) -> Iterator[BalloonLab]:
    with lab_named(name) as lab:
        topology = Path(lab.directory).parent / "topology.yml"
        topology.write_text(json.dumps({"balloons": True, "nodes": [{"name": node} for node in NAMES]}), "utf-8")
        made = lab.up(lab_topology=str(topology))
        assert made.status == 0, made.output
        yield BalloonLab(lab)
