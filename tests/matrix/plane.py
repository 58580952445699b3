# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real API server of both families with the objects of the matrix, on the bridge that tests/integration/kube_proxy.py has its node on.

The module control_plane makes clusters of one family alone.
"""

from __future__ import annotations

import json
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.integration import journal, processes
from tests.integration.kube_proxy import ADDRESS, BRIDGE

_PORT = 16443
_ETCD = ("http://127.0.0.1:12379", "http://127.0.0.1:12380")
_START_SECONDS = 300
_LISTS = (
    "/api/v1/services",
    "/apis/discovery.k8s.io/v1/endpointslices",
    "/api/v1/nodes",
    "/apis/networking.k8s.io/v1/servicecidrs",
)
_PATHS = {
    "Service": "/api/v1/namespaces/default/services",
    "EndpointSlice": "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
    "Node": "/api/v1/nodes",
}
# What is another one in each run.
_DROPPED = ("uid", "resourceVersion", "managedFields", "generation")


class Api:
    def __init__(self, place: Path) -> None:
        self.url = f"https://{ADDRESS}:{_PORT}"
        self._tls = ssl.create_default_context()
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE
        self.kubeconfig = place / "kubeconfig"
        cluster = {"server": self.url, "insecure-skip-tls-verify": True}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": "matrix"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
        self.kubeconfig.write_text(json.dumps(config), encoding="utf-8")

    def ask(self, path: str, method: str = "GET", body: object = None, kind: str = "application/json") -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        request.add_header("Authorization", "Bearer matrix")
        request.add_header("Content-Type", kind)
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=30) as answer:
                return json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.read()[:500]!r}") from error

    def create(self, item: Mapping[str, Any]) -> None:
        path = _PATHS[item["kind"]]
        self.ask(path, "POST", item)
        if item.get("status"):
            self.set_status(f"{path}/{item['metadata']['name']}", item["status"])

    def set_status(self, path: str, status: object) -> None:
        self.ask(f"{path}/status", "PATCH", {"status": status}, "application/merge-patch+json")

    def set_version(self, node: str, version: str) -> None:
        """As its kubelet would: the API server wants every field."""
        names = (
            *("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion"),
            *("kubeProxyVersion", "operatingSystem", "architecture"),
        )
        self.set_status(f"/api/v1/nodes/{node}", {"nodeInfo": {**dict.fromkeys(names, ""), "kubeletVersion": version}})

    def snapshot(self) -> dict[str, Any]:
        """As `kubectl get -o json` prints it, without what is another one in each run."""
        items = []
        for path in _LISTS:
            listed = self.ask(path)
            kind = listed["kind"].removesuffix("List")
            for item in listed["items"]:
                metadata = {key: value for key, value in item["metadata"].items() if key not in _DROPPED}
                items.append({"apiVersion": listed["apiVersion"], "kind": kind, **item, "metadata": metadata})
        return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}


@contextmanager
def control_plane(bin_dir: Path, place: Path, items: Sequence[Mapping[str, Any]]) -> Iterator[Api]:
    with ExitStack() as undo:
        undo.enter_context(journal.link(BRIDGE, "type", "bridge"))
        for argv in (("address", "add", f"{ADDRESS}/24", "dev", BRIDGE), ("link", "set", BRIDGE, "up")):
            subprocess.run(["ip", *argv], check=True, timeout=30)
        undo.enter_context(processes.running(_etcd(bin_dir, place), place / "etcd.log"))
        undo.enter_context(processes.running(_api_server(bin_dir, place), place / "kube-apiserver.log"))
        api = Api(place)
        _wait(api)
        for item in items:
            api.create(item)
        yield api


def _etcd(bin_dir: Path, place: Path) -> list[str]:
    client, peer = _ETCD
    return [
        *(str(bin_dir / "etcd"), f"--data-dir={place}/etcd", "--unsafe-no-fsync"),
        *(f"--listen-client-urls={client}", f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}"),
    ]


def _api_server(bin_dir: Path, place: Path) -> list[str]:
    key = place / "service-account.key"
    subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True, timeout=60)
    (place / "tokens.csv").write_text("matrix,admin,1,system:masters\n", encoding="utf-8")
    return [
        *(str(bin_dir / "kube-apiserver"), f"--etcd-servers={_ETCD[0]}", f"--cert-dir={place}/certificates"),
        *(f"--bind-address={ADDRESS}", f"--secure-port={_PORT}", f"--token-auth-file={place}/tokens.csv"),
        *("--authorization-mode=RBAC", "--service-cluster-ip-range=10.96.0.0/16,fd00:96::/112"),
        *(f"--service-account-signing-key-file={key}", f"--service-account-key-file={key}"),
        *("--service-account-issuer=https://matrix.example", "--endpoint-reconciler-type=none"),
        "--disable-admission-plugins=ServiceAccount",
    ]


def _wait(api: Api) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            for path in (
                "/apis/networking.k8s.io/v1/servicecidrs/kubernetes",
                "/api/v1/namespaces/default/services/kubernetes",
            ):
                api.ask(path)  # the API server makes both, a while after it answers
            return
        except (OSError, RuntimeError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
