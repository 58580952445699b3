# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node in memory whose kube-proxy can be moved: its supervisor or its pod, its API server, the tables of nft, and the
guard, which acts whenever somebody waits.

What a kill of the run leaves goes on by itself, as on a real node: kube-proxy, the guard, rules.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.kinds import digest
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.host.web import no_answer_error
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.find import locate
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.request import SPEC, KubeProxyRequest
from ansible_collections.ballast.kube.plugins.module_utils._rules.backend import TAKEOVER_TABLE
from tests.unit.fake_supervisors import FakeRunit, FakeSystemd
from tests.unit.fakes import Answer, Call, FakeHost, json_answer
from tests.unit.rules import given

SERVER = "https://192.0.2.1:6443"
STATE = "/var/lib/ballast/kube-proxy"
CONFIG_PATH = "/var/lib/kube-proxy/config.conf"
SERVICE = "/etc/sv/kube-proxy"
MODE_LABEL = "ballast.kube/kube-proxy-mode"
GUARD = f"{STATE}/guard"
NAME = f"ballast-kube-proxy-n1-{digest(STATE)[:6]}"
GUARD_SERVICE = f"{GUARD}/sv/{NAME}-guard"
_LISTS = {
    "/api/v1/services": [given.service("kubernetes"), given.service(clusterIPs=["10.96.0.2"], clusterIP="10.96.0.2")],
    "/apis/discovery.k8s.io/v1/endpointslices": [given.endpoint_slice([given.endpoint("10.1.0.5")])],
}


def config(mode: str = "iptables", **changes: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": "/etc/kubernetes/kube-proxy.conf"},
        "hostnameOverride": "n1",
        "mode": mode,
        **changes,
    }


def kubeconfig(**user: str) -> str:
    return json.dumps(
        {
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "clusters": [{"name": "it", "cluster": {"server": SERVER}}],
            "users": [{"name": "it", "user": user or {"token": "hunter2"}}],
        }
    )


def params(**options: Any) -> dict[str, Any]:
    """Those of the module, as Ansible hands them over."""
    own = {"mode": "nftables", "drain_seconds": 3, "verify_seconds": 20}
    return {**{name: row.get("default") for name, row in SPEC.items()}, **own, **options}


class _Runit(FakeRunit):
    def __init__(self, node: Node) -> None:
        self._node = node
        super().__init__(node.host)
        self.host.given(f"{SERVICE}/run", "#!/bin/sh\n", mode=0o755)
        self.host.given_process(("runsvdir", "-P", "/etc/sv"))
        self._scan("/etc/sv")

    def _start(self, path: str) -> None:
        super()._start(path)
        if path == SERVICE:
            self._node.started()

    def runs(self, path: str) -> bool:
        return self._runsv.get(path, 0) != 0


class _Systemd(FakeSystemd):
    def __init__(self, node: Node) -> None:
        self._node = node
        super().__init__(node.host)
        unit = "kube-proxy.service"
        self.host.given(f"{self.directory}/{unit}", "[Service]\n")
        self._loaded[unit] = b"[Service]\n"
        self.active[unit] = (self.host.given_process(("kube-proxy", "--config", CONFIG_PATH)), b"")

    def _systemctl(self, call: Call) -> Answer:
        found = super()._systemctl(call)
        if call.argv[1:] == ("start", "kube-proxy"):
            self._node.started()
        return f"LoadState=loaded\n{found}" if call.argv[1] == "show" else found

    def runs(self, path: str) -> bool:
        return f"{os.path.basename(path)}.service" in self.active


class Node:
    """`kind` is "runit", "systemd" or "pod". `unfit` names modes in which kube-proxy does not come into order, `lost` those
    in which Services are not reached; `blind` is a guard that does nothing."""

    def __init__(self, kind: str = "runit", *, mode: str = "iptables") -> None:
        self.kind = kind
        self.host = FakeHost(systemd=kind == "systemd")
        self.mode = mode  # of the kube-proxy that runs
        self.tables: set[tuple[str, str]] = set()
        self.owner = "ballast-takeover"  # a chain of each of them
        self.labels: dict[str, str] = {}
        self.unfit: set[str] = set()
        self.lost: set[str] = set()
        self.blind = False
        self.pod: Optional[int] = None
        self.pods = 0  # that there were so far
        self._pod_mode = mode  # of the DaemonSet for nodes without a label
        self.on_start: Callable[[], None] = lambda: None
        self.on_chains: Callable[[str], object] = lambda _script: None
        host = self.host
        host.given_directory("/var/lib/ballast")
        host.given("/proc/net/if_inet6", "")
        host.given_cgroups(2)
        host.given("/etc/kubernetes/kube-proxy.conf", kubeconfig())
        host.given("/etc/kubernetes/kubelet.conf", kubeconfig())
        if kind != "pod":
            host.given(CONFIG_PATH, json.dumps(config(mode)), mode=0o640)
        self.services = _Systemd(self) if kind == "systemd" else _Runit(self)
        if kind == "pod":
            self._start_pod()
        host.on("nft", "list", "chains", answer=self._chains, reads=True)
        host.on("nft", "-f", "-", answer=self._commit)
        host.on("ip", "-j", answer=1, reads=True)  # there is no link of ipvs
        host.on(sys.executable, "-I", "-c", answer=self._probe, reads=True)
        for port in (10249, 10256):
            host.given_port(port)
        host.answer("http://127.0.0.1:10249/proxyMode", lambda url, _body: self._says(url, self.mode))
        host.answer("http://127.0.0.1:10249/metrics", lambda url, _body: self._says(url, self._metrics()))
        host.answer("http://127.0.0.1:10256/livez", lambda url, _body: self._says(url, "ok"))
        for path, items in _LISTS.items():
            host.answer(SERVER + path, json_answer(200, {"metadata": {"resourceVersion": "7"}, "items": items}))
        host.answer(f"{SERVER}/api/v1/nodes", lambda url, _body: self._nodes(url))
        host.answer(f"{SERVER}/api/v1/namespaces/kube-system/pods", lambda _url, _body: self._pods())
        host.answer(f"{SERVER}/api/v1/nodes/n1", self._patched, method="PATCH")
        host.answer(f"{SERVER}/apis/networking.k8s.io/v1/servicecidrs", json_answer(404, {"message": "absent"}))
        host.on_sleep.append(self._guard)

    def asked(self, **options: Any) -> KubeProxyRequest:
        where = {
            "runit": {"service": SERVICE},
            "systemd": {"service": "kube-proxy"},
            "pod": {"deployment": "daemonset", "node_name": "n1"},
        }
        return locate(KubeProxyRequest.from_params(params(**where[self.kind], **options)), self.host)

    def started(self) -> None:
        if self.kind != "pod":
            self.mode = self.config()["mode"]
            self.on_start()

    def left(self) -> list[str]:
        """All that there is of guard and bridge."""
        found = [" ".join(one) for one in sorted(self.tables)]
        found += [
            path for path in self.host.paths(STATE) if not path.startswith((f"{STATE}/ledger", f"{STATE}/outcome"))
        ]
        found += [path for path in self.host.paths("/") if "ballast-kube-proxy" in path and not path.startswith(STATE)]
        found += [" ".join(one.argv) for one in self.host.processes.values() if "ballast" in " ".join(one.argv)]
        return [one for one in found if one not in (STATE, f"{STATE}/.ballast", f"{STATE}/lock")]

    def config(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.host.text(CONFIG_PATH))
        return found

    # nft, and what a connection that is tried meets.

    def _chains(self, call: Call) -> Answer:
        names = sorted(name for family, name in self.tables if family == call.argv[3])
        return "".join(f"table {call.argv[3]} {name} {{\n\tchain {self.owner} {{\n\t}}\n}}\n" for name in names)

    def _commit(self, call: Call) -> Answer:
        script = call.stdin.decode()
        if script.startswith("add chain"):
            self.on_chains(script)
            return ""
        for line in script.splitlines():
            verb, _table, family, name = line.split()
            assert verb == "delete"
            self.tables.remove((family, name.strip('"')))
        return ""

    def _probe(self, call: Call) -> Answer:
        rows = json.loads(call.stdin)["rows"]
        return json.dumps(
            {"own": "192.0.2.10", "failures": ["timed out" if self.mode in self.lost else "" for _row in rows]}
        )

    # kube-proxy, and the API server.

    def _says(self, url: str, text: str) -> Response:
        if not (self.pod or self.services.runs(SERVICE)):
            raise no_answer_error("GET", url, ConnectionRefusedError(111, "Connection refused"))
        return Response(status=200, body=text.encode())

    def _metrics(self) -> str:
        moment = 0 if self.mode in self.unfit else 1700000000
        return f'kubeproxy_sync_proxy_rules_last_timestamp_seconds{{ip_family="IPv4"}} {moment}\n'

    def _nodes(self, url: str) -> Response:
        item = given.node("n1", **self.labels)
        if "/n1" in url:
            return json_answer(200, item)
        return json_answer(200, {"metadata": {"resourceVersion": "7"}, "items": [item]})

    def _patched(self, _url: str, body: Optional[bytes]) -> Response:
        for name, value in json.loads(body or b"")["metadata"]["labels"].items():
            self.labels.pop(name, None)
            self.labels.update({} if value is None else {name: value})
        self.mode = self.labels.get(MODE_LABEL, self._pod_mode)
        self._start_pod()
        self.on_start()
        return json_answer(200, {})

    def _start_pod(self) -> None:
        if self.pod is not None:
            self.host.end_process(self.pod)
        self.pods += 1
        group = f"/kubepods/besteffort/pod{self._uid()}/1"
        argv = ("/usr/local/bin/kube-proxy", f"--config={CONFIG_PATH}")
        self.pod = self.host.given_process(argv, cgroups=(group,))
        root = f"/proc/{self.pod}/root"
        self.host.given(root + CONFIG_PATH, json.dumps(config(self.mode)))
        self.host.given(f"{root}/etc/kubernetes/kube-proxy.conf", kubeconfig())

    def _uid(self) -> str:
        return f"0f1e2d3c-aaaa-4bbb-8ccc-{self.pods:012}"

    def _pods(self) -> Response:
        owner = {"kind": "DaemonSet", "name": "kube-proxy", "controller": True}
        metadata = {"name": "kube-proxy-x", "uid": self._uid(), "ownerReferences": [owner]}
        pod = {"metadata": metadata, "spec": {"nodeName": "n1", "hostNetwork": True}}
        return json_answer(200, {"metadata": {"resourceVersion": "7"}, "items": [pod]})

    # The guard.

    def _guard(self) -> None:
        wanted = self.host.read(f"{GUARD}/bridge.json")
        if wanted is not None and self.services.runs(GUARD_SERVICE) and not self.blind:
            self.tables |= {("ip", TAKEOVER_TABLE), ("ip6", TAKEOVER_TABLE)}
            status = {"of": digest(wanted), "problem": "", "operations": 1, "at": self.host.now()}
            self.host.given(os.path.join(GUARD, "bridge-status.json"), json.dumps(status))
