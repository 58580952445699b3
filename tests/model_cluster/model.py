# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A model cluster: an API server over real HTTP with nodes, pods and leases, and kubelets that resize pods in place.

    with ModelCluster() as model:
        model.add_node("n1", host="boot-1", cpu=4000, memory=8 * GIB, overhead=Pair(100, 256 * MIB))
        model.add_pod("web", "n1", cpu=500, memory=2**28)
        api = model.api()                                  # or model.kubeconfig(path), of a model with tls=tmp_path
        model.kubelets.habit("n1").actuate_seconds = 1.0   # see Habit
        model.server.faults.conflicts = 3                  # see Faults
        model.server.calls, model.server.peak              # what was asked of it

`sums` watches over the promise: see `sums.py`. With `daemonset`, a balloon pod that goes comes again, at the floor, where
there is room for it.
"""

from __future__ import annotations

import base64
import itertools
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.client import Api
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.kubeconfig import Credentials
from tests.model_cluster.amounts import ZERO, Pair, pair
from tests.model_cluster.kubelets import Kubelets, counted
from tests.model_cluster.later import Later
from tests.model_cluster.server import Server
from tests.model_cluster.store import DELETED, Change, Object, Store
from tests.model_cluster.sums import Sums

MIB, GIB = 2**20, 2**30
FLOOR = Pair(1, 16 * MIB)
NAMESPACE = "ballast-balloons"
LABEL = "balloons.ballast.dev/balloon"
TARGET = "balloons.ballast.dev/target"
TAINT = "balloons.ballast.dev/unsized"
DAEMONSET = "ballast-balloon"
_RESTART_SECONDS = 0.02  # until the DaemonSet's controller makes a pod anew


class ModelCluster:
    def __init__(self, *, tls: Optional[Path] = None, daemonset: bool = False) -> None:
        """`tls` is a folder for a certificate of its own."""
        self.store = Store()
        self.later = Later()
        self.kubelets = Kubelets(self.store, self.later)
        self.server = Server(self.store)
        self.sums = Sums(self.store, self.kubelets)
        self._tls = tls
        self._names = itertools.count(1)
        if daemonset:
            self.store.observers.append(self._restart)

    def __enter__(self) -> ModelCluster:
        if self._tls is None:
            self.url = self.server.start()
        else:
            cert, key = _certificate(self._tls)
            self.url = self.server.start(cert=cert, key=key)
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.server.stop()
        self.later.stop()

    def api(self, *, timeout: float = 10) -> Api:
        ca = None if self._tls is None else str(self._tls / "model.crt")
        return Api(LocalHost(), Credentials(server=self.url, ca=ca, token="of-the-model"), timeout=timeout)

    def kubeconfig(self, path: Path) -> Path:
        """Written to `path`. The model has to speak TLS."""
        assert self._tls is not None
        authority = base64.b64encode((self._tls / "model.crt").read_bytes()).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "model",
            "contexts": [{"name": "model", "context": {"cluster": "model", "user": "model"}}],
            "clusters": [{"name": "model", "cluster": {"server": self.url, "certificate-authority-data": authority}}],
            "users": [{"name": "model", "user": {"token": "of-the-model"}}],
        }
        path.write_text(json.dumps(config), "utf-8")
        return path

    # What there is.

    def add_node(
        self,
        name: str,
        *,
        host: str = "boot-1",
        cpu: int = 4000,
        memory: int = 8 * GIB,
        overhead: Pair = ZERO,
        balloon: Optional[Pair] = FLOOR,
        target: Optional[str] = None,
        unsized: bool = False,
        version: str = "v1.36.4",
    ) -> None:
        """`balloon` is the size of its balloon pod, None for none; `target` the text of the annotation."""
        capacity = Pair(cpu, memory)
        spec = {"taints": [{"key": TAINT, "effect": "NoSchedule"}]} if unsized else {}
        status = {
            "capacity": {**capacity.quantities(), "pods": "110"},
            "allocatable": {**capacity.minus(overhead).quantities(), "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"bootID": host, "kubeletVersion": version},
        }
        annotations = {} if target is None else {TARGET: target}
        self.store.put(
            "nodes", {"metadata": {"name": name, "annotations": annotations}, "spec": spec, "status": status}
        )
        self.server.configz[name] = {"featureGates": {}}
        if balloon is not None:
            self.add_balloon(name, balloon)

    def add_balloon(self, node: str, size: Pair = FLOOR, **metadata: Any) -> None:
        name = f"{DAEMONSET}-{next(self._names):05d}"
        self.store.put("pods", _pod(name, NAMESPACE, node, size, 10**9, "daemonset", balloon=True, **metadata))
        self.kubelets.sync(node)

    def add_pod(
        self,
        name: str,
        node: str,
        *,
        cpu: int,
        memory: int,
        namespace: str = "default",
        priority: int = 0,
        kind: str = "workload",
    ) -> None:
        """As if the scheduler had bound it. `kind` is workload, daemonset or static."""
        self.store.put("pods", _pod(name, namespace, node, Pair(cpu, memory), priority, kind))
        self.kubelets.sync(node)

    def schedule(self, name: str, node: str, *, cpu: int, memory: int) -> bool:
        """Bind a workload as the scheduler would: where there is room, after all that the pods of the node count for."""
        with self.store.lock:
            if not Pair(cpu, memory).fits(self.free(node)):
                return False
            self.store.put("pods", _pod(name, "default", node, Pair(cpu, memory), 0, "workload"))
        return True

    def remove_pod(self, name: str, *, namespace: str = "default") -> None:
        self.store.drop("pods", name, namespace)

    def node(self, name: str) -> Object:
        found = self.store.get("nodes", name)
        assert found is not None, name
        return found

    def pod(self, name: str, namespace: str = "default") -> Object:
        found = self.store.get("pods", name, namespace)
        assert found is not None, name
        return found

    def balloon(self, node: str) -> Object:
        """Its balloon pod."""
        (found,) = [pod for pod in self.kubelets.pods(node) if LABEL in (pod["metadata"].get("labels") or {})]
        return found

    def free(self, node: str) -> Pair:
        """What the scheduler may still put on the node."""
        left = pair(self.node(node)["status"]["allocatable"])
        for pod in self.kubelets.pods(node):
            left = left.minus(counted(pod))
        return left

    def settle(self, done: Callable[[], bool], *, seconds: float = 20.0) -> None:
        """Wait until `done`; the kubelets act by themselves."""
        end = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < end, "what was waited for has not come"
            time.sleep(0.002)

    def _restart(self, change: Change) -> None:
        labels = change.item["metadata"].get("labels") or {}
        if change.collection == "pods" and change.kind == DELETED and LABEL in labels:
            self.later.call(lambda: self._make_anew(change.item["spec"]["nodeName"]), after=_RESTART_SECONDS)

    def _make_anew(self, node: str) -> None:
        with self.store.lock:
            if self.store.get("nodes", node) is None:
                return
            if FLOOR.fits(self.free(node)):
                name = f"{DAEMONSET}-{next(self._names):05d}"
                self.store.put("pods", _pod(name, NAMESPACE, node, FLOOR, 10**9, "daemonset", balloon=True))
                return
        self.later.call(lambda: self._make_anew(node), after=_RESTART_SECONDS)


def _pod(
    name: str,
    namespace: str,
    node: str,
    size: Pair,
    priority: int,
    kind: str,
    *,
    balloon: bool = False,
    **metadata: Any,
) -> Object:
    owners = {
        "daemonset": [
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": DAEMONSET, "uid": "d", "controller": True}
        ],
        "static": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": "n", "controller": True}],
        "workload": [],
    }
    resources: Object = {"requests": size.quantities()}
    if balloon:
        resources["limits"] = {"memory": str(size.memory)}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "generation": 1,
            "labels": {LABEL: "true"} if balloon else {},
            "annotations": {"kubernetes.io/config.mirror": "x"} if kind == "static" else {},
            "ownerReferences": owners[kind],
            **metadata,
        },
        "spec": {
            "nodeName": node,
            "priority": priority,
            "containers": [{"name": "balloon" if balloon else "main", "image": "pause", "resources": resources}],
        },
        "status": {},
    }


def _certificate(directory: Path) -> tuple[Path, Path]:
    key, cert = directory / "model.key", directory / "model.crt"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        + ["-keyout", str(key), "-out", str(cert), "-subj", "/CN=model", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True,
        capture_output=True,
    )
    return cert, key
