# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A kube-proxy as an operator has it: a supervised service with a configuration file, whose mode is edited.

The service runs under runit in the node's network namespace. kube-proxy takes the `iptables` that it finds first in PATH: a
directory of links before the others chooses the variant.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import ABSENT
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import PATH
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.service.cgroup import CgroupKind, Limits
from ansible_collections.ballast.kube.plugins.module_utils._core.service.runit import SupervisorKind
from ansible_collections.ballast.kube.plugins.module_utils._core.service.service import Service
from ansible_collections.ballast.kube.plugins.module_utils._core.service.services import ServiceKind, service_pid
from tests.integration.kube_proxy import CONFIG, NODE, NodeHost
from tests.integration.wire import entered

LEGACY, NFT = "legacy", "nft"  # the variants of iptables
VIRTUAL_SERVERS = Path("/proc/net/ip_vs")  # each network namespace has its own; none without the module
_CGROUP = "ballast-test-kube-proxy"
_TOOLS = tuple(f"{ip}{tool}" for ip in ("iptables", "ip6tables") for tool in ("", "-save", "-restore"))
_LAST_SYNC = re.compile(r"^kubeproxy_sync_proxy_rules_last_timestamp_seconds(\{[^}]*\})? (\S+)$", re.MULTILINE)
_POLL_SECONDS = 0.1


def link_iptables(place: Path, variant: str) -> None:
    """A directory whose `iptables` and the tools beside it are those of the variant."""
    place.mkdir()
    program = shutil.which(f"xtables-{variant}-multi")
    assert program is not None, f"xtables-{variant}-multi is missing"
    for tool in _TOOLS:
        (place / tool).symlink_to(program)


@dataclass(frozen=True)
class SupervisedProxy:
    host: NodeHost
    place: Path

    @property
    def service(self) -> str:
        """The directory of the runit service."""
        return str(self.place / "sv/kube-proxy")

    @property
    def config_path(self) -> Path:
        return self.place / "config.conf"

    @property
    def log(self) -> Path:
        return self.place / "kube-proxy.log"

    @property
    def pid(self) -> int:
        found = service_pid(LocalHost(), self.service)
        assert found is not None, f"kube-proxy does not run: {self.log}"
        return found

    def set_mode(self, mode: str) -> None:
        """In the file, as an operator edits it."""
        config = json.loads(self.config_path.read_text(encoding="utf-8"))
        self.config_path.write_text(json.dumps({**config, "mode": mode}, indent=2), encoding="utf-8")

    def restart(self) -> None:
        LocalHost().run(["sv", "-w", "30", "restart", self.service], timeout=60)

    def mode(self) -> str:
        """What it says of itself; "" while it does not answer."""
        return self._ask("/proxyMode")

    def wait_for_sync(self, mode: str, *, since: float, timeout: float) -> float:
        """The time.time() of its first synchronisation of every family that it has in that mode, when it has ended."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            synced = [float(value) for _labels, value in _LAST_SYNC.findall(self._ask("/metrics"))]
            if synced and min(synced) > since and self.mode() == mode:
                return max(synced)
            time.sleep(_POLL_SECONDS)
        raise RuntimeError(f"kube-proxy has not synchronised in {timeout:.0f} s: {self.log}")

    def _ask(self, path: str) -> str:
        """ "" while it does not answer."""
        try:
            with (
                entered(self.host.namespace),
                urllib.request.urlopen(f"http://127.0.0.1:10249{path}", timeout=5) as answer,
            ):
                text: str = answer.read().decode()
        except OSError:
            return ""
        return text.strip()

    def chains(self, variant: str) -> int:
        """Chains of Services that a variant of iptables has."""
        argv = [f"xtables-{variant}-multi", "iptables-save", "-t", "nat"]
        return self.host.run(argv, timeout=300).stdout.count("\n:KUBE-SVC-")

    def virtual_servers(self) -> int:
        """Of its ipvs mode, in this namespace."""
        found = (self.host.read(str(VIRTUAL_SERVERS)) or b"").splitlines()
        return sum(line.startswith((b"TCP", b"UDP")) for line in found)

    def tables(self) -> list[str]:
        """Of kube-proxy's nftables mode."""
        found = self.host.run(["nft", "list", "tables"], timeout=60).stdout.splitlines()
        return [line for line in found if line.endswith(" kube-proxy")]


@contextmanager
def supervised(
    host: NodeHost, program: str, kubeconfig: str, place: Path, *, mode: str, variant: str
) -> Iterator[SupervisedProxy]:
    """Started in `mode`; until the block ends. What it wrote into the kernel stays."""
    place.mkdir()
    proxy = SupervisedProxy(host, place)
    (place / "kubeconfig").write_text(kubeconfig, encoding="utf-8")
    proxy.config_path.write_text(json.dumps(_configuration(place)), encoding="utf-8")
    proxy.set_mode(mode)
    link_iptables(place / "bin", variant)
    if VIRTUAL_SERVERS.exists():
        # It is in the kernel of a virtual machine, for which there are no modules. As on a node, where modprobe finds it:
        # only then does kube-proxy remove what the mode ipvs has left.
        (place / "bin/modprobe").symlink_to("/bin/true")
    wanted = Service(
        name="kube-proxy",
        argv=(program, f"--config={proxy.config_path}", "--v=2"),
        log=str(proxy.log),
        cgroup=f"{_CGROUP}/kube-proxy",
        env=(("PATH", f"{place}/bin:{PATH}"),),
        netns=f"/run/netns/{host.namespace}",
    )
    machine, sv_dir = LocalHost(), os.path.dirname(proxy.service)
    try:
        CgroupKind().write(Context(None, machine), _CGROUP, asdict(Limits()), ABSENT)
        ServiceKind().write(Context(None, machine), proxy.service, wanted.as_value(), ABSENT)
        SupervisorKind().write(Context(None, machine), sv_dir, {"running": True}, ABSENT)
        yield proxy
    finally:
        SupervisorKind().remove(Context(None, machine), sv_dir, {"running": True})
        CgroupKind().remove(Context(None, machine), _CGROUP, ABSENT)


def _configuration(place: Path) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(place / "kubeconfig")},
        "conntrack": {"maxPerCore": 0},  # belongs to the whole machine
        "hostnameOverride": NODE,
        **CONFIG,
    }
