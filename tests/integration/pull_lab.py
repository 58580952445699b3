# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Three kubelets on one host, each with its own containerd, that pull from a local registry: by the proxy, or past it.

kubelet k -> [proxy listener k] -> meter k -> containerd k -> front (in the network namespace of node k) -> registry
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from tests.integration import journal
from tests.integration.containerds import forget, in_use
from tests.integration.cri_meter import Meter, meter
from tests.integration.kube_proxy import eventually
from tests.integration.lab import Lab, lab_named
from tests.integration.pull_place import named
from tests.integration.registry import Image, registry
from tests.integration.registry_front import Front, front

# Named to be read after what the collection writes.
DROP_IN = "90-test-image-service.conf"
_RESTART_SECONDS = 120
_GONE_SECONDS = 300


@dataclass(frozen=True)
class Pod:
    """Of one image, on one node. It sleeps."""

    name: str
    image: str
    node: str
    namespace: str = "default"
    pull_policy: str = "IfNotPresent"

    def manifest(self) -> dict[str, Any]:
        container = {"name": "one", "image": named(self.image), "imagePullPolicy": self.pull_policy}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.name, "namespace": self.namespace, "labels": {"of": "pulls"}},
            "spec": {
                "nodeName": self.node,
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 0,
                "tolerations": [{"operator": "Exists"}],
                "containers": [container],
            },
        }


@dataclass(frozen=True)
class PullLab:
    lab: Lab
    path: Path
    sockets: Path  # a directory for them: of this host's, nodes reach those in /run alone
    front: Front
    meter: Meter
    runtimes: Mapping[str, str]  # containerd's socket by the node's name

    @property
    def nodes(self) -> list[str]:
        return list(self.runtimes)

    def metered(self) -> dict[str, str]:
        return {node: meter_socket(self.sockets, node) for node in self.nodes}

    def configure(self, endpoints: Mapping[str, str], *, most: Optional[int] = None) -> None:
        """Where each kubelet asks for images, and how many at once: no limit where `most` is None. Kubelets start anew."""
        for node, socket in endpoints.items():
            document: dict[str, Any] = {
                "apiVersion": "kubelet.config.k8s.io/v1beta1",
                "kind": "KubeletConfiguration",
                "imageServiceEndpoint": f"unix://{socket}",
                "registryPullQPS": 0,
                "serializeImagePulls": False,
            }
            if most is not None:
                document["maxParallelImagePulls"] = most
            Path(self._home(node), "etc/kubelet.conf.d", DROP_IN).write_text(json.dumps(document), encoding="utf-8")
        self.restart_kubelets()
        wanted = {node: (f"unix://{socket}", most) for node, socket in endpoints.items()}
        effective = eventually(lambda: self._effective(endpoints) == wanted, seconds=_RESTART_SECONDS)
        assert effective, f"the kubelets do not work with {wanted}"

    def create(self, pods: Sequence[Pod]) -> float:
        """When they were asked for, by the monotonic clock."""
        path = self.path / "pods.json"
        items = [pod.manifest() for pod in pods]
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
        begun = time.monotonic()
        self.lab.kubectl("create", "-f", str(path))
        return begun

    def pods(self) -> dict[str, Mapping[str, Any]]:
        """Status by name."""
        told = json.loads(self.lab.kubectl("get", "pods", "-A", "-l", "of=pulls", "-o", "json"))
        return {pod["metadata"]["name"]: pod["status"] for pod in told["items"]}

    def running(self) -> set[str]:
        return {name for name, status in self.pods().items() if status["phase"] == "Running"}

    def waiting(self, name: str) -> tuple[str, str]:
        """Reason and message why a pod's container is not there yet."""
        states = self.pods()[name].get("containerStatuses", [{}])
        found = states[0].get("state", {}).get("waiting", {}) if states else {}
        return found.get("reason", ""), found.get("message", "")

    def events(self, pod: str) -> list[tuple[str, str]]:
        """Reason and text of each, oldest first."""
        told = json.loads(
            self.lab.kubectl("get", "events", "-o", "json", f"--field-selector=involvedObject.name={pod}")
        )
        items = sorted(told["items"], key=lambda item: str(item["firstTimestamp"] or item["eventTime"]))
        return [(item["reason"], item["message"]) for item in items]

    def clean(self) -> None:
        """No pod, no image of the registry, nothing recorded."""
        for manner in self.front.manners.values():
            if manner.open is not None:
                manner.open.set()
        self.front.manners.clear()
        self.lab.kubectl("delete", "pods", "-A", "-l", "of=pulls", "--grace-period=0", "--force", "--wait=true")
        assert eventually(lambda: not self.meter.in_flight(), seconds=_GONE_SECONDS), "a pull goes on"
        assert eventually(self._unused, seconds=_GONE_SECONDS), "containers of pods that are gone stay"
        for socket in self.runtimes.values():
            forget(socket)
        self.front.requests.clear()
        self.meter.forget()

    def _unused(self) -> bool:
        return not any(in_use(socket) for socket in self.runtimes.values())

    def _home(self, node: str) -> str:
        return f"{self.lab.directory}/nodes/{node}"

    def restart_kubelets(self) -> None:
        before = {path: pid for path, pid in self.lab.services().items() if path.endswith("-kubelet")}
        assert all(before.values()), f"a kubelet does not run: {before}"
        for pid in before.values():
            os.kill(pid, signal.SIGTERM)

        def all_new() -> bool:
            now = self.lab.services()
            return all(now[path] not in (0, pid) for path, pid in before.items())

        assert eventually(all_new, seconds=_RESTART_SECONDS), "a kubelet does not start again"

    def _effective(self, nodes: Iterable[str]) -> dict[str, tuple[str, Optional[int]]]:
        """What the running kubelets say of their endpoint and limit; none where one is starting."""
        found = {}
        for node in nodes:
            try:
                told = json.loads(self.lab.kubectl("get", "--raw", f"/api/v1/nodes/{node}/proxy/configz"))
            except subprocess.CalledProcessError:
                return {}
            config = told["kubeletconfig"]
            found[node] = (config.get("imageServiceEndpoint", ""), config.get("maxParallelImagePulls"))
        return found


@contextmanager
def pull_lab(name: str, path: Path, stored: Sequence[Image], *, nodes: int = 3) -> Iterator[PullLab]:
    """Up, its kubelets as the lab made them. `stored`: what the registry has."""
    with ExitStack() as undo:
        served = undo.enter_context(registry(path / "registry"))
        for one in stored:
            served.push(one)
        lab = undo.enter_context(lab_named(name))
        done = lab.up(lab_nodes=nodes)
        assert done.status == 0, done.output
        rows = {node["name"]: node["netns"].rpartition("/")[2] for node in lab.record["nodes"]}
        before = undo.enter_context(front(served.port, {netns: node for node, netns in rows.items()}))
        runtimes = {node: f"/run/ballast/{name}/{node}/containerd.sock" for node in rows}
        place = tempfile.mkdtemp(prefix="ballast-it-", dir="/run")
        undo.enter_context(journal.directory(place))
        metered = {meter_socket(Path(place), node): socket for node, socket in runtimes.items()}
        yield PullLab(lab, path, Path(place), before, undo.enter_context(meter(path, metered)), runtimes)


def meter_socket(path: Path, node: str) -> str:
    return f"{path}/{node}.sock"
