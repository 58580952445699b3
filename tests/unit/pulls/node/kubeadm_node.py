# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node in memory whose kubelet is kubeadm's unit: systemd starts it with what its environment files say, without --config-dir."""

from __future__ import annotations

import os
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.model import ImagePullsRequest
from tests.unit.fakes import Answer, Call
from tests.unit.pulls.node.fake_node import CONFIG_DIR, Node, params

DEFAULT_FILE, SYSCONFIG_FILE = "/etc/default/kubelet", "/etc/sysconfig/kubelet"
FLAGS_FILE = "/var/lib/kubelet/kubeadm-flags.env"
UNIT, DROP_IN = "/usr/lib/systemd/system/kubelet.service", "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf"
ARGUMENTS = "$KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS"


class KubeadmNode(Node):
    """`file` is the administrator's environment file, with `text`; None is an absent one."""

    def __init__(
        self,
        *,
        file: str = DEFAULT_FILE,
        text: Optional[str] = None,
        kubelet: str = "v1.36.4",
        arguments: str = f"{ARGUMENTS} $KUBELET_EXTRA_ARGS",
        environment: str = "",
    ) -> None:
        super().__init__()
        self.file, self.kubelet = file, kubelet
        self.starts, self._pid = 0, 0
        host = self.host
        self.services._set("/etc/sv/kubelet", 0)
        del self.services._runsv["/etc/sv/kubelet"]
        for path in host.paths("/etc/sv/kubelet")[::-1]:
            host.remove(path) if host.stat(path).kind == "file" else host.remove_directory(path)
        host.remove_directory(CONFIG_DIR)
        host.given_directory(os.path.dirname(file))
        host.given(UNIT, "[Service]\nExecStart=/usr/bin/kubelet\n")
        host.given(DROP_IN, f"[Service]\nExecStart=\nExecStart=/usr/bin/kubelet {arguments}\n")
        host.given(FLAGS_FILE, 'KUBELET_KUBEADM_ARGS="--node-ip=192.0.2.7"\n')
        if text is not None:
            host.given(file, text)
        self._environment = environment or file
        host.on("systemctl", "show", answer=self._show, reads=True)
        host.on("systemctl", "restart", "kubelet", answer=self._restart)
        self._start()
        host.effects.clear()

    def request(self, **options: Any) -> ImagePullsRequest:
        return ImagePullsRequest.from_params(params(kubelet_service="kubelet", **options))

    def extra(self) -> list[str]:
        """As systemd and the shell's rules of words split it."""
        text = (self.host.read(self.file) or b"").decode()
        lines = [line for line in text.replace("\\\n", " ").splitlines() if line.startswith("KUBELET_EXTRA_ARGS=")]
        return lines[-1].partition("=")[2].strip("\"' ").split() if lines else []

    def kubelet_pid(self) -> int:
        return self._pid

    def _start(self) -> None:
        base = ("/usr/bin/kubelet", f"--config={self.base}", "--kubeconfig=/etc/kubernetes/kubelet.conf")
        self.flags = tuple(self.extra())
        if self.can_start("kubelet"):
            self._pid = self.host.given_process((*base, *self.flags), parent=1)
            self.started("kubelet", self._pid)
            self.host.on(f"/proc/{self._pid}/exe", answer=f"Kubernetes {self.kubelet}\n", reads=True)

    def _restart(self, _call: Call) -> Answer:
        if self._pid:
            self.host.end_process(self._pid)
        self._pid = 0
        self.starts += 1
        self._start()
        return ""

    def _show(self, call: Call) -> Answer:
        if call.argv[-1] != "kubelet":
            return "LoadState=not-found\n"
        files = "".join(f"EnvironmentFiles={path} (ignore_errors=yes)\n" for path in (FLAGS_FILE, self._environment))
        return f"LoadState=loaded\nMainPID={self._pid}\nFragmentPath={UNIT}\nDropInPaths={DROP_IN}\n{files}"

    def _kubelet_reads(self) -> dict[str, Any]:
        if any(flag.startswith("--config-dir=") for flag in self.flags):
            return super()._kubelet_reads()
        kept, self.host.listdir = self.host.listdir, lambda _path: []  # type: ignore[method-assign]
        try:
            return super()._kubelet_reads()
        finally:
            self.host.listdir = kept  # type: ignore[method-assign]
