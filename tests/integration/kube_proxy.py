# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A control plane with Services of every kind, and a node in a network namespace where a real kube-proxy runs.

ballast-kptest (bridge, 10.97.249.1: control plane)
  └─ eth0 10.97.249.11 | ballast-test-proxy: kube-proxy | eth1 10.50.0.11
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.pki.pki import key_path
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.record import load_record
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.request import ControlPlaneRequest
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.spec import MAKE
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.host.names import link_name
from tests.integration import journal
from tests.integration.wire import InNamespace, namespace

ADDRESS, BRIDGE = "10.97.249.1", "ballast-kptest"
NODE_IP, SECOND_IP, POD_GATEWAY = "10.97.249.11", "10.50.0.11", "10.244.1.1"
NODE, OTHER_NODE = "n1", "n2"
CLUSTER_CIDR = "10.244.0.0/16"
CONFIG = {"clusterCIDR": CLUSTER_CIDR}
_KINDS = {
    "Service": "/api/v1/namespaces/default/services",
    "EndpointSlice": "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
    "Node": "/api/v1/nodes",
}
_LISTS = (
    "/api/v1/services",
    "/apis/discovery.k8s.io/v1/endpointslices",
    "/api/v1/nodes",
    "/apis/networking.k8s.io/v1/servicecidrs",
)


class NodeHost(InNamespace):
    """The node: files of the kernel that differ by network namespace are read inside."""

    inside = ("/proc/net/", "/proc/sys/net/")


class Api:
    def __init__(self, params: Mapping[str, Any]) -> None:
        self._pki = os.path.join(str(params["state_dir"]), "pki")
        record = load_record(LocalHost(), str(params["state_dir"]))
        assert record is not None
        self.record = record
        self.endpoint = record.endpoint

    def ask(self, path: str, *, method: str = "GET", body: object = None, kind: str = "application/json") -> Any:
        certificate = os.path.join(self._pki, "admin.crt")
        answer = LocalHost().request(
            self.endpoint + path,
            method=method,
            body=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": kind},
            ca=os.path.join(self._pki, "ca.crt"),
            cert=certificate,
            key=key_path(certificate),
            timeout=30,
        )
        assert answer.status in (200, 201), f"{method} {path}: {answer.body!r}"
        return json.loads(answer.body)

    def create(self, item: Mapping[str, Any]) -> None:
        path = _KINDS[item["kind"]]
        self.ask(path, method="POST", body=item)
        if item.get("status"):
            name = item["metadata"]["name"]
            patch = {"status": item["status"]}
            self.ask(f"{path}/{name}/status", method="PATCH", body=patch, kind="application/merge-patch+json")

    def snapshot(self) -> dict[str, Any]:
        items = []
        for path in _LISTS:
            found = self.ask(path)
            kind = found["kind"].removesuffix("List")
            items += [{"apiVersion": found["apiVersion"], "kind": kind, **item} for item in found["items"]]
        return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}

    def kubeconfig(self, user: str) -> str:
        at = os.path.join(self._pki, user)
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "clusters": [
                    {
                        "name": "c",
                        "cluster": {
                            "server": self.endpoint,
                            "certificate-authority": os.path.join(self._pki, "ca.crt"),
                        },
                    }
                ],
                "users": [{"name": "u", "user": {"client-certificate": f"{at}.crt", "client-key": f"{at}.key"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            }
        )


@contextmanager
def control_plane(version: str, bin_dir: str, place: Path) -> Iterator[Api]:
    params = {
        **{option: spec.get("default") for option, spec in MAKE.items()},
        "state_dir": str(place / "plane"),
        "kubeconfig": str(place / "admin.kubeconfig"),
        "name": "kptest",
        "kubernetes_version": version,
        "bin_dir": bin_dir,
        "address": ADDRESS,
        "pod_cidr": CLUSTER_CIDR,
        "nodes": [{"name": NODE, "addresses": [NODE_IP]}],
        "etcd_fsync": False,
    }
    with ExitStack() as undo:
        undo.enter_context(journal.link(BRIDGE, "type", "bridge"))
        _ip("address", "add", f"{ADDRESS}/24", "dev", BRIDGE)
        _ip("link", "set", BRIDGE, "up")
        undo.enter_context(
            journal.undone_by(*journal.module("control_plane", {"state_dir": params["state_dir"], "state": "absent"}))
        )
        _bring(params)
        yield Api(params)


def _bring(params: Mapping[str, Any]) -> None:
    desired, host = ControlPlaneRequest.from_params(params), LocalHost()
    progress = Progress(NullSink(), feature="plane")
    ENGINE.apply(ENGINE.plan(desired, ENGINE.observe(Context(desired, host))), Context(desired, host, progress))
    assert ENGINE.verify(Context(desired, host, progress)) == []


@contextmanager
def node(name: str = "proxy") -> Iterator[NodeHost]:
    """In a namespace of that name. All have the address of the one Node, so that only one may be `connected`."""
    with namespace(name) as made, ExitStack() as undo:
        host = NodeHost(made.namespace)
        link = _outer_link(host)
        undo.enter_context(journal.link(link, "type", "veth", "peer", "name", "eth0", "netns", host.namespace))
        host.run(["ip", "address", "add", f"{NODE_IP}/24", "dev", "eth0"], timeout=60)
        host.run(["ip", "link", "set", "eth0", "up"], timeout=60)
        for inner, address in (("eth1", f"{SECOND_IP}/24"), ("cni0", f"{POD_GATEWAY}/24")):
            host.run(["ip", "link", "add", inner, "type", "bridge"], timeout=60)
            host.run(["ip", "address", "add", address, "dev", inner], timeout=60)
            host.run(["ip", "link", "set", inner, "up"], timeout=60)
        yield host


@contextmanager
def connected(host: NodeHost) -> Iterator[None]:
    """To the control plane."""
    _ip("link", "set", _outer_link(host), "master", BRIDGE, "up")
    try:
        yield
    finally:
        _ip("link", "set", _outer_link(host), "nomaster", "down")


def _outer_link(host: NodeHost) -> str:
    return link_name(host.namespace)


@dataclass(frozen=True)
class KubeProxy:
    """A kube-proxy to be run on the node in one mode."""

    program: str
    kubeconfig: str
    place: Path

    @contextmanager
    def running(self, host: NodeHost, mode: str) -> Iterator[None]:
        """Until the block ends; what it wrote into the kernel stays."""
        config = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": str(self.place / "kube-proxy.kubeconfig")},
            "conntrack": {"maxPerCore": 0},  # belongs to the whole machine
            "hostnameOverride": NODE,
            "mode": mode,
            **CONFIG,
        }
        (self.place / "kube-proxy.kubeconfig").write_text(self.kubeconfig, encoding="utf-8")
        (self.place / "kube-proxy.json").write_text(json.dumps(config), encoding="utf-8")
        argv = ["ip", "netns", "exec", host.namespace, self.program, f"--config={self.place}/kube-proxy.json", "--v=2"]
        with (self.place / f"kube-proxy-{mode}.log").open("w") as log:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            try:
                yield
                assert process.poll() is None, f"kube-proxy has ended: {log.name}"
            finally:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(timeout=60)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def eventually(check: Any, *, seconds: float) -> Any:
    """What `check` answers once it is true; at the end of the time whatever it answers."""
    deadline = time.monotonic() + seconds
    while True:
        found = check()
        if found or time.monotonic() > deadline:
            return found
        time.sleep(0.5)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, timeout=30)
