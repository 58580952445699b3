# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A kube-proxy of the matrix on its node, as run.py has it on this machine and ipvs_in_vm.py in a virtual one."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.integration import processes
from tests.integration.kube_proxy import NODE, NodeHost
from tests.matrix import cluster
from tests.matrix.cells import IPVS, LEGACY, Cell

_TOOLS = ("iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore")
_LINKS = {"10.97.249.11": "eth0", "10.50.0.11": "eth1", "10.244.1.1": "cni0"}


def add_addresses(host: NodeHost) -> None:
    """Those of IPv6."""
    for address, twin in cluster.NODE_IPS.items():
        host.run(["ip", "address", "add", f"{twin}/80", "dev", _LINKS[address], "nodad"], timeout=60)


@dataclass(frozen=True)
class KubeProxy:
    """`place`: directory for its configuration and its logs; `verbosity`: of its log."""

    program: Path
    kubeconfig: Path
    place: Path
    verbosity: int = 2

    def log(self, cell: Cell) -> Path:
        return self.place / f"kube-proxy-1.{cell.minor}-{cell.mode}.log"

    @contextmanager
    def running(self, host: NodeHost, cell: Cell) -> Iterator[None]:
        config = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": str(self.kubeconfig)},
            "hostnameOverride": NODE,
            "mode": cell.backend,
            **cell.config,
            "conntrack": {**cell.config.get("conntrack", {}), "maxPerCore": 0},  # belongs to the whole machine
        }
        settings = self.place / "kube-proxy.json"
        settings.write_text(json.dumps(config), encoding="utf-8")
        argv = ["ip", "netns", "exec", host.namespace, str(self.program), f"--config={settings}"]
        log = self.log(cell)
        log.write_bytes(b"")
        path = _path_with("legacy" if cell.mode in (LEGACY, IPVS) else "nft", self.place)
        with processes.running([*argv, f"--v={self.verbosity}"], log, env={"PATH": path}) as process:
            yield
            if process.poll() is not None:
                print(log.read_text(encoding="utf-8")[-2000:])
                raise SystemExit(f"kube-proxy 1.{cell.minor} has ended: {cell.mode}, {cell.title}")


def _path_with(variant: str, place: Path) -> str:
    """PATH, with the tools of one variant first."""
    folder = place / f"tools-{variant}"
    if not folder.exists():
        folder.mkdir()
        for tool in _TOOLS:
            program, _dash, rest = tool.partition("-")
            found = shutil.which(f"{program}-{variant}" + (f"-{rest}" if rest else ""))
            (folder / tool).symlink_to(found or f"/usr/sbin/{program}-{variant}")
    path = subprocess.run(["sh", "-c", "echo $PATH"], capture_output=True, text=True, check=True, timeout=10).stdout
    return f"{folder}:{path.strip()}"
