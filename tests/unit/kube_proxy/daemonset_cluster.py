# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An API server in memory with nodes and the DaemonSet controller, which acts after every write.

What it does was watched on the real one (Kubernetes 1.37.1): under OnDelete a changed template starts no pod anew, a pod on
a node that no longer matches is removed all the same, a template that was there before gets its old revision back, and
under RollingUpdate a pod is of the newest revision when its label says so.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Optional
from urllib.parse import parse_qsl, unquote, urlsplit

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from tests.unit.fakes import FakeHost, json_answer

SERVER = "https://192.0.2.1:6443"
KUBECONFIG = "/etc/kubernetes/admin.conf"
LABEL = "ballast.kube/kube-proxy-mode"
HASH = "controller-revision-hash"
MAPS = "/api/v1/namespaces/kube-system/configmaps"
PODS = "/api/v1/namespaces/kube-system/pods"
SETS = "/apis/apps/v1/namespaces/kube-system/daemonsets"
REVISIONS = "/apis/apps/v1/namespaces/kube-system/controllerrevisions"
NODES = "/api/v1/nodes"
CONFIG = """\
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clusterCIDR: 10.128.0.0/16
mode: iptables
"""
Object = dict[str, Any]


def daemonset(**changes: Any) -> Object:
    """As kubeadm makes it and the API server fills it in, as far as it matters."""
    labels = {"k8s-app": "kube-proxy"}
    pod = {
        "containers": [{"name": "kube-proxy", "image": "registry.example/kube-proxy:v1.37.1"}],
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "volumes": [
            {"name": "kube-proxy", "configMap": {"defaultMode": 420, "name": "kube-proxy"}},
            {"name": "lib-modules", "hostPath": {"path": "/lib/modules", "type": ""}},
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "kube-proxy", "namespace": "kube-system", "labels": dict(labels)},
        "spec": {
            "revisionHistoryLimit": 10,
            "selector": {"matchLabels": dict(labels)},
            "template": {"metadata": {"labels": dict(labels)}, "spec": {**pod, **changes.pop("pod", {})}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            **changes,
        },
    }


class Cluster:
    def __init__(self, nodes: int = 3, *, original: Optional[Object] = None, config: str = CONFIG) -> None:
        self.host = FakeHost()
        client = {"server": SERVER}
        self.host.given(
            KUBECONFIG,
            json.dumps(
                {
                    "current-context": "it",
                    "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
                    "clusters": [{"name": "it", "cluster": client}],
                    "users": [{"name": "it", "user": {"token": "hunter2"}}],
                }
            ),
            mode=0o600,
        )
        self.objects: dict[str, Object] = {}
        self.started: list[tuple[str, str]] = []  # node and DaemonSet of each pod that was started, in order
        self.before_write: list[Callable[[str, str], None]] = []  # each gets method and path; what somebody else does
        self.blind = False  # the controller does not act
        self.stuck: set[str] = set()  # nodes whose pods do not become ready
        self.worst: dict[int, int] = {}  # how often a node was seen with that many pods of kube-proxy
        self._numbers = itertools.count(1)
        for number in range(1, nodes + 1):
            labels = {"kubernetes.io/os": "linux"}
            self._make(f"{NODES}/n{number}", {"metadata": {"name": f"n{number}", "labels": labels}})
        data = {"config.conf": config, "kubeconfig.conf": "users: [{user: {token: hunter2}}]\n"}
        metadata = {"name": "kube-proxy", "namespace": "kube-system", "labels": {"app": "kube-proxy"}}
        self._make(f"{MAPS}/kube-proxy", {"kind": "ConfigMap", "metadata": metadata, "data": data})
        self._make(f"{SETS}/kube-proxy", original or daemonset())
        self.act()
        self.started.clear()
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            self.host.answer(SERVER, self._answer(method), method=method)

    # What a test does and looks at.

    def label(self, node: str, mode: Optional[str]) -> None:
        labels = self.objects[f"{NODES}/{node}"]["metadata"]["labels"]
        labels.pop(LABEL, None)
        if mode:
            labels[LABEL] = mode
        self.act()

    def labels(self) -> dict[str, str]:
        return {path.rpartition("/")[2]: one["metadata"]["labels"].get(LABEL, "") for path, one in self._under(NODES)}

    def runs(self) -> dict[str, str]:
        """Which DaemonSet runs kube-proxy on each node, by the names joined where it is not one."""
        found: dict[str, list[str]] = {path.rpartition("/")[2]: [] for path, _one in self._under(NODES)}
        for _path, pod in self._under(PODS):
            found[pod["spec"]["nodeName"]].append(pod["metadata"]["ownerReferences"][0]["name"])
        return {node: "+".join(sorted(names)) for node, names in found.items()}

    def uids(self) -> dict[str, str]:
        return {pod["spec"]["nodeName"]: pod["metadata"]["uid"] for _path, pod in self._under(PODS)}

    def state(self) -> dict[str, Object]:
        """ConfigMaps and DaemonSets as somebody has set them."""
        kept = ("labels", "annotations", "name")
        return {
            path: {
                "metadata": {key: value for key, value in one["metadata"].items() if key in kept and value},
                **{key: deepcopy(one[key]) for key in ("spec", "data") if key in one},
            }
            for path, one in sorted(self.objects.items())
            if path.startswith((f"{MAPS}/", f"{SETS}/"))
        }

    def edit(self, path: str, change: Callable[[Object], None]) -> None:
        """Somebody else's."""
        found = deepcopy(self.objects[path])
        change(found)
        self._store(path, found)
        self.act()

    # The API server.

    def _answer(self, method: str) -> Callable[[str, Optional[bytes]], Response]:
        def answer(url: str, body: Optional[bytes]) -> Response:
            parts = urlsplit(url)
            path, query = unquote(parts.path), dict(parse_qsl(parts.query))
            if method == "GET":
                return self._get(path, query)
            for hook in list(self.before_write):
                hook(method, path)
            response = self._write(method, path, json.loads(body) if body else {})
            self.act()
            return response

        return answer

    def _get(self, path: str, query: Mapping[str, str]) -> Response:
        if path in (NODES, PODS, REVISIONS):
            wanted = dict(pair.split("=") for pair in query.get("labelSelector", "").split(",") if pair)
            items = [one for _path, one in self._under(path) if wanted.items() <= one["metadata"]["labels"].items()]
            return json_answer(200, {"metadata": {"resourceVersion": "1"}, "items": items})
        return json_answer(200, self.objects[path]) if path in self.objects else json_answer(404, {"message": "absent"})

    def _write(self, method: str, path: str, body: Object) -> Response:
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            if path in self.objects:
                return json_answer(409, {"message": "already exists"})
            return json_answer(201, self._make(path, body))
        if path not in self.objects:
            return json_answer(404, {"message": "absent"})
        if method == "DELETE":
            del self.objects[path]
            return json_answer(200, {})
        if method == "PATCH":
            found = deepcopy(self.objects[path])
            for key, value in body["metadata"]["labels"].items():
                found["metadata"]["labels"].pop(key, None)
                found["metadata"]["labels"].update({} if value is None else {key: value})
            return json_answer(200, self._store(path, found))
        if body["metadata"]["resourceVersion"] != self.objects[path]["metadata"]["resourceVersion"]:
            return json_answer(409, {"message": "the object has been modified"})
        return json_answer(200, self._store(path, body))

    def _make(self, path: str, body: Object) -> Object:
        metadata = {"uid": f"u{next(self._numbers)}", "generation": 1, **body["metadata"]}
        return self._store(path, {**body, "metadata": metadata})

    def _store(self, path: str, body: Object) -> Object:
        old, found = self.objects.get(path), deepcopy(body)
        found["metadata"]["resourceVersion"] = str(next(self._numbers))
        if old is not None and old.get("spec") != found.get("spec"):
            found["metadata"]["generation"] += 1
        self.objects[path] = found
        return found

    def _under(self, path: str) -> list[tuple[str, Object]]:
        return [(other, one) for other, one in sorted(self.objects.items()) if other.rpartition("/")[0] == path]

    # The DaemonSet controller, and the kubelets.

    def act(self) -> None:
        if self.blind:
            return
        for path, pod in self._under(PODS):
            if f"{SETS}/{pod['metadata']['ownerReferences'][0]['name']}" not in self.objects:
                del self.objects[path]
        for _path, one in self._under(SETS):
            self._sync(one)
        for names in self.runs().values():
            count = len([name for name in names.split("+") if name])
            self.worst[count] = self.worst.get(count, 0) + 1

    def _sync(self, one: Object) -> None:
        newest, owner = self._revision(one), one["metadata"]
        template = one["spec"]["template"]
        nodes = {path.rpartition("/")[2]: node["metadata"]["labels"] for path, node in self._under(NODES)}
        wanted = {name for name, labels in nodes.items() if _fits(template["spec"], labels)}
        own = {
            pod["spec"]["nodeName"]: (path, pod)
            for path, pod in self._under(PODS)
            if pod["metadata"]["ownerReferences"][0]["uid"] == owner["uid"]
        }
        rolling = one["spec"]["updateStrategy"]["type"] == "RollingUpdate"
        for node, (path, pod) in own.items():
            if node not in wanted or (rolling and pod["metadata"]["labels"][HASH] != newest):
                del self.objects[path]
        running = {pod["spec"]["nodeName"] for path, pod in own.values() if path in self.objects}
        for node in sorted(wanted - running):
            self._start(node, one, newest)
        counted = {"observedGeneration": owner["generation"], "desiredNumberScheduled": len(wanted)}
        one["status"] = {**counted, "numberReady": len(wanted)}

    def _start(self, node: str, one: Object, revision: str) -> None:
        name = f"{one['metadata']['name']}-{next(self._numbers)}"
        ready = "False" if node in self.stuck else "True"
        reference = {"controller": True, "uid": one["metadata"]["uid"], "name": one["metadata"]["name"]}
        labels = {**one["spec"]["template"]["metadata"]["labels"], HASH: revision}
        self.objects[f"{PODS}/{name}"] = {
            "metadata": {"name": name, "uid": name, "labels": labels, "ownerReferences": [reference]},
            "spec": {"nodeName": node},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }
        self.started.append((node, one["metadata"]["name"]))

    def _revision(self, one: Object) -> str:
        template = one["spec"]["template"]
        digest = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:8]
        path = f"{REVISIONS}/{one['metadata']['name']}-{digest}"
        newest = max((other["revision"] for _path, other in self._under(REVISIONS)), default=0)
        found = self.objects.get(path)
        if found is None or found["revision"] != newest:
            reference = {"controller": True, "uid": one["metadata"]["uid"]}
            self.objects[path] = {
                "metadata": {"name": digest, "labels": {HASH: digest}, "ownerReferences": [reference]},
                "data": {"spec": {"template": {**deepcopy(template), "$patch": "replace"}}},
                "revision": newest + 1,
            }
        return digest


def _fits(pod: Object, labels: Mapping[str, str]) -> bool:
    if not (pod.get("nodeSelector") or {}).items() <= labels.items():
        return False
    required = ((pod.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if required is None:
        return True
    return any(
        all(_matches(row, labels) for row in term.get("matchExpressions") or ())
        for term in required["nodeSelectorTerms"]
    )


def _matches(row: Object, labels: Mapping[str, str]) -> bool:
    among = labels.get(row["key"]) in row["values"]
    return among if row["operator"] == "In" else not among
