# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node in memory whose kubelet and containerd read their files when they are started, as the real ones do: the kubelet ends
with a configuration that contradicts itself, containerd merges its imports as its version does.

What a kill of the run leaves goes on by itself, as on a real node.
"""

from __future__ import annotations

import fnmatch
import json
import os
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.host.web import no_answer_error
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.containerd_tables import CRI_IMAGES, CRI_V2
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.kubelet import DEFAULTS, drop_in_settings
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.model import SPEC, ImagePullsRequest
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.toml import Scalar, head_imports, parse_tables
from tests.unit.fake_supervisors import FakeRunit
from tests.unit.fakes import Answer, Call, FakeHost, json_answer

SERVER = "https://192.0.2.1:6443"
KUBELET_API = "https://127.0.0.1:10250"
STATE = "/var/lib/ballast/image-pulls"
KUBELET, CONTAINERD = "/etc/sv/kubelet", "/etc/sv/containerd"
CONFIG_DIR = "/etc/kubernetes/kubelet.conf.d"
BASE = "/var/lib/kubelet/config.json"
MAIN = "/etc/containerd/config.toml"
CONF_D = "/etc/containerd/conf.d"
KUBELET_FILE = f"{CONFIG_DIR}/90-ballast-image-pulls.conf"
CONTAINERD_FILE = f"{CONF_D}/90-ballast-image-pulls.toml"
HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
MAIN_V3 = (
    f'version = 3\nimports = ["{CONF_D}/*.toml"]\n\n[plugins."io.containerd.cri.v1.runtime".cni]\n  conf_dir = "/x"\n'
)
MAIN_V2 = """version = 2

[plugins]
  [plugins."io.containerd.grpc.v1.cri"]  # ours
    sandbox_image = "pause"
    [plugins."io.containerd.grpc.v1.cri".cni]
      bin_dir = "/usr/lib/cni"
"""
_V2_DUMP: dict[str, dict[str, Scalar]] = {CRI_V2: {"max_concurrent_downloads": 3}, "grpc": {"address": "/run/c.sock"}}
_V3_DUMP: dict[str, dict[str, Scalar]] = {
    CRI_IMAGES: {"max_concurrent_downloads": 3, "use_local_image_pull": False, "disable_snapshot_annotations": True},
    "plugins.io.containerd.transfer.v1.local": {"max_concurrent_downloads": 3, "max_concurrent_unpacks": 1},
    "grpc": {"address": "/run/c.sock"},
}


def params(**options: Any) -> dict[str, Any]:
    """Those of the module, as Ansible hands them over."""
    where = {
        "kubelet_service": KUBELET,
        "runtime_service": CONTAINERD,
        "kubeconfig": "/etc/kubernetes/admin.conf",
        "node_name": "n1",
        "ready_seconds": 20,
    }
    return {**{name: row.get("default") for name, row in SPEC.items()}, **where, **options}


def kubeconfig() -> str:
    return json.dumps(
        {
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "clusters": [{"name": "it", "cluster": {"server": SERVER}}],
            "users": [{"name": "it", "user": {"token": "hunter2"}}],
        }
    )


class _Runit(FakeRunit):
    def __init__(self, node: Node) -> None:
        self._node = node
        super().__init__(node.host)
        for path in (KUBELET, CONTAINERD):
            self.host.given(f"{path}/run", f"#!/bin/sh\nexec {os.path.basename(path)}\n", mode=0o755)
        self.host.given_process(("runsvdir", "-P", "/etc/sv"))
        self._scan("/etc/sv")

    def _start(self, path: str) -> None:
        name = os.path.basename(path)
        (self.crashing.discard if self._node.can_start(name) else self.crashing.add)(name)
        super()._start(path)
        pid = self.pid(path)
        if pid:
            self.host.processes[pid].argv = self._node.argv(name)
            self._node.started(name, pid)

    def pid(self, path: str) -> int:
        return self._runsv.get(path, 0)


class Node:
    """`effective` is what the kubelet that runs has, `containerd_has` what containerd has."""

    base = BASE

    def __init__(self, *, version: str = "2.3.7", main: Optional[str] = None) -> None:
        self.host = FakeHost()
        self.version = version
        self.flags: tuple[str, ...] = (f"--config-dir={CONFIG_DIR}",)
        self.effective: dict[str, Any] = {}
        self.containerd_has: dict[str, dict[str, Scalar]] = {}
        self.deaf = False  # /configz is forbidden
        self.broken_cri = False
        # What containerd makes of our setting besides: by table, None for a key that is gone.
        self.side_effects: dict[str, dict[str, Optional[Scalar]]] = {}
        host = self.host
        host.given_directory("/var/lib/ballast")
        host.given_directory(CONFIG_DIR)
        host.given_directory(CONF_D)
        host.given(self.base, json.dumps({"kind": "KubeletConfiguration", "maxPods": 50}))
        host.given(MAIN, main if main is not None else MAIN_V2 if version.startswith("1.") else MAIN_V3, mode=0o640)
        host.given("/usr/bin/ctr")
        host.given("/etc/kubernetes/admin.conf", kubeconfig())
        host.given("/etc/kubernetes/kubelet.conf", kubeconfig())
        host.given("/var/lib/kubelet/pki/kubelet.crt", "what it serves with")
        self.services = _Runit(self)
        host.on("/usr/bin/ctr", answer=self._plugins, reads=True)
        host.answer("http://127.0.0.1:10248/healthz", lambda url, _body: self._healthz(url))
        host.answer(f"{SERVER}/api/v1/nodes/n1", lambda _url, _body: self._node())
        host.answer(f"{KUBELET_API}/configz", lambda url, _body: self._configz(url))

    def request(self, **options: Any) -> ImagePullsRequest:
        return ImagePullsRequest.from_params(params(**options))

    def argv(self, name: str) -> tuple[str, ...]:
        kubelet = (
            "/usr/bin/kubelet",
            f"--config={self.base}",
            "--kubeconfig=/etc/kubernetes/kubelet.conf",
            *self.flags,
        )
        return kubelet if name == "kubelet" else ("/usr/bin/containerd",)

    def can_start(self, name: str) -> bool:
        if name != "kubelet":
            return True
        settings = self._kubelet_reads()
        return not (settings["serializeImagePulls"] and (settings["maxParallelImagePulls"] or 1) > 1)

    def started(self, name: str, pid: int) -> None:
        if name == "kubelet":
            self.effective = self._kubelet_reads()
        else:
            self.host.on(f"/proc/{pid}/exe", answer=self._containerd, reads=True)
            self.containerd_has = self.containerd_reads()

    def containerd_reads(self) -> dict[str, dict[str, Scalar]]:
        old = self.version.startswith("1.")
        config = {name: dict(keys) for name, keys in (_V2_DUMP if old else _V3_DUMP).items()}
        main = self.host.text(MAIN)
        files = [main]
        for pattern in head_imports(main) or []:
            directory, name = os.path.split(pattern)
            paths = [
                os.path.join(directory, entry) for entry in self.host.listdir(directory) if fnmatch.fnmatch(entry, name)
            ]
            files += [self.host.text(path) for path in paths]
        for text in files:
            for name, keys in parse_tables(text).items():
                if old and name == CRI_V2:
                    config[name] = {**_V2_DUMP[CRI_V2], **keys}  # a file's table replaces that of the one before
                elif name:
                    config.setdefault(CRI_IMAGES if not old and name == CRI_V2 else name, {}).update(keys)
        if any("max_concurrent_downloads" in keys for text in files for keys in parse_tables(text).values()):
            for name, effects in self.side_effects.items():
                merged = {**config.get(name, {}), **effects}
                config[name] = {key: value for key, value in merged.items() if value is not None}
        return config

    def kubelet_pid(self) -> int:
        return self.services.pid(KUBELET)

    def containerd_pid(self) -> int:
        return self.services.pid(CONTAINERD)

    def _kubelet_reads(self) -> dict[str, Any]:
        settings = {**DEFAULTS, **{k: v for k, v in json.loads(self.host.text(self.base)).items() if k in DEFAULTS}}
        for name in (name for name in self.host.listdir(CONFIG_DIR) if name.endswith(".conf")):
            text = self.host.text(f"{CONFIG_DIR}/{name}")
            assert "kind: KubeletConfiguration" in text, "the kubelet ends without it"
            settings.update(drop_in_settings(text))
        return {key: DEFAULTS[key] if value is None else value for key, value in settings.items() if key in DEFAULTS}

    def _containerd(self, call: Call) -> Answer:
        if call.argv[1:] == ("--version",):
            return f"containerd github.com/containerd/containerd v{self.version} abc\n"
        assert call.argv[1:] == ("--config", MAIN, "config", "dump"), call.argv
        lines = ["version = 3"]
        for name, keys in sorted(self.containerd_reads().items()):
            head, _dot, rest = name.partition(".")
            lines.append(f"[{head}.'{rest}']" if rest else f"[{head}]")
            lines += [f"  {key} = {json.dumps(value)}" for key, value in sorted(keys.items())]
        return "\n".join(lines) + "\n"

    def _plugins(self, _call: Call) -> Answer:
        if not self.containerd_pid():
            return 1
        state = "error" if self.broken_cri else "ok"
        return f"TYPE ID PLATFORMS STATUS\nio.containerd.grpc.v1 cri linux/amd64 {state}\n"

    def _healthz(self, url: str) -> Response:
        if not self.kubelet_pid():
            raise no_answer_error("GET", url, ConnectionRefusedError(111, "Connection refused"))
        return Response(status=200, body=b"ok")

    def _node(self) -> Response:
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2100-01-01T00:00:00Z"}
        return json_answer(200, {"status": {"conditions": [ready]}})

    def _configz(self, url: str) -> Response:
        if self.deaf:
            return json_answer(403, {"message": "forbidden"})
        if not self.kubelet_pid():
            return json_answer(503, {"message": "no kubelet"})
        return json_answer(200, {"kubeletconfig": {k: v for k, v in self.effective.items() if v is not None}})
