# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The two programs of the benchmark of the service proxy, each as its user runs it on a node, and what the kernel counts of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ansible_collections.ballast.kube.plugins.module_utils._agent.program import build_archive
from ansible_collections.ballast.kube.plugins.module_utils._rules.backend import SERVICE_PROXY_TABLE
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.deployment.installation import INSTALLATION
from tests.integration.kube_proxy import CONFIG, NODE

OURS, PEER = "ballast", "kube-proxy"
TABLES = {OURS: SERVICE_PROXY_TABLE, PEER: "kube-proxy"}
_PROGRAM = "ballast-service-proxy.pyz"
_END_SECONDS = 60
_TICKS = os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    """Of a process, with children that have ended for `processor`. Sizes in bytes."""

    processor: float  # seconds
    resident: int
    most_resident: int


def parse_usage(stat: str, status: str) -> Usage:
    """Of /proc/PID/stat and status: see proc(5)."""
    times = stat.rpartition(")")[2].split()[11:15]  # utime, stime, cutime, cstime
    sizes = dict(line.split(":", 1) for line in status.splitlines())
    return Usage(sum(map(int, times)) / _TICKS, *(int(sizes[key].split()[0]) * 1024 for key in ("VmRSS", "VmHWM")))


@dataclass(frozen=True)
class Running:
    """`begun` is by the monotonic clock."""

    process: subprocess.Popen[bytes]
    begun: float

    def usage(self) -> Usage:
        """RuntimeError where it has ended."""
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.process.args!r} has ended with {self.process.returncode}: see its log")
        place = Path("/proc", str(self.process.pid))
        return parse_usage(
            (place / "stat").read_text("ascii", "replace"), (place / "status").read_text("utf-8", "replace")
        )


class Contenders:
    """Both follow the same API server with the credentials of a kube-proxy, with the same KubeProxyConfiguration: its
    defaults in mode nftables, and the pods' network."""

    def __init__(self, kube_proxy: str, kubeconfig: str, place: Path) -> None:
        place.mkdir()
        self._place = place
        self.kubeconfig = place / "kubeconfig"
        self._write("kubeconfig", kubeconfig)
        configuration = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": str(self.kubeconfig)},
            "conntrack": {"maxPerCore": 0},  # belongs to the whole machine
            "hostnameOverride": NODE,
            "mode": "nftables",
            **CONFIG,
        }
        self._write("config.json", json.dumps(configuration))
        program = place / _PROGRAM
        program.write_bytes(build_archive(INSTALLATION.main, INSTALLATION.packages))
        (place / "run").mkdir(mode=0o700)
        self._commands: Mapping[str, list[str]] = {
            OURS: [sys.executable, str(program), "--config", str(place / "config.json")],
            PEER: [kube_proxy, f"--config={place}/config.json"],
        }

    @contextmanager
    def running(self, who: str, namespace: str) -> Iterator[Running]:
        """Until the block ends; the rules stay."""
        environment = {**os.environ, "RUNTIME_DIRECTORY": str(self._place / "run")}
        argv = ["ip", "netns", "exec", namespace, *self._commands[who]]  # which becomes the program
        with (self._place / f"{who}.log").open("ab") as log:
            begun = time.monotonic()
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
            try:
                yield Running(process, begun)
            finally:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(timeout=_END_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def _write(self, name: str, text: str) -> None:
        path = self._place / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
