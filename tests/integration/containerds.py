# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Real containerds side by side, without kubelets: each with its own root, state, socket and network namespace."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

import grpc

from ansible_collections.ballast.kube.plugins.module_utils._binaries.families import DEFAULT_KUBERNETES
from tests.integration import adhoc, journal
from tests.integration.cri import Images, images
from tests.integration.debian import unpacked
from tests.integration.processes import ended, started
from tests.integration.registry_front import PORT
from tests.integration.wire import namespace

HOST = f"127.0.0.1:{PORT}"  # of every image's name: the registry's front in the runtime's namespace
NEW, OLD = "2.3", "1.6"  # the project's, and Debian's
VERSION = os.environ.get("LAB_KUBERNETES", DEFAULT_KUBERNETES)
_START_SECONDS = 60
_CONFIG = {
    NEW: """version = 3
root = "{place}/root"
state = "{place}/state"
disabled_plugins = ["io.containerd.nri.v1.nri"]

[grpc]
address = "{place}/containerd.sock"

[plugins."io.containerd.internal.v1.opt"]
path = "{place}/opt"

[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"
use_local_image_pull = {local}

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{pause}"

[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{place}/cni"]
conf_dir = "{place}/cni"
""",
    OLD: """version = 2
root = "{place}/root"
state = "{place}/state"

[grpc]
address = "{place}/containerd.sock"

[plugins."io.containerd.internal.v1.opt"]
path = "{place}/opt"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{place}/cni"
conf_dir = "{place}/cni"
""",
}


@dataclass
class Containerd:
    name: str
    namespace: str
    place: Path
    version: str = NEW
    process: Optional[subprocess.Popen[bytes]] = field(default=None, repr=False)

    @property
    def socket(self) -> str:
        return f"{self.place}/containerd.sock"

    def start(self) -> None:
        """Until it answers."""
        programs = str(bin_dir() if self.version == NEW else unpacked("containerd") / "usr/bin")
        # Not by `ip netns exec`, which hides the cgroups; what it mounts ends with it.
        inside = ["nsenter", f"--net=/run/netns/{self.namespace}", "unshare", "--mount", "--propagation", "slave"]
        argv = [*inside, f"{programs}/containerd", "--config", f"{self.place}/config.toml"]
        path = {"PATH": f"{programs}:{os.environ['PATH']}"}  # its shims are beside it
        self.process = started(argv, self.place / "containerd.log", env=path)
        deadline = time.monotonic() + _START_SECONDS
        with images(self.socket) as here:
            while not self._answers(here):
                assert self.process.poll() is None, f"containerd has ended: {self.place}/containerd.log"
                assert time.monotonic() < deadline, f"containerd does not answer: {self.place}/containerd.log"
                time.sleep(0.1)

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process is not None:
            process, self.process = self.process, None
            ended(process, number)

    def ingests(self) -> list[str]:
        """What it is fetching now."""
        return _ctr(self.socket, "content", "active").splitlines()[1:]

    def _answers(self, here: Images) -> bool:
        try:
            here.names()
        except grpc.RpcError:
            return False
        return True


@contextmanager
def containerd(name: str, place: Path, version: str = NEW, *, local_pull: bool = False) -> Iterator[Containerd]:
    """In the namespace `ballast-test-NAME`, which ends with all that runs there. `local_pull`: not by the transfer service."""
    with journal.directory(str(place)), namespace(name) as inside:
        made = Containerd(name, inside.namespace, place, version)
        given = {"place": place, "pause": f"{HOST}/pause:1", "local": str(local_pull).lower()}
        (place / "config.toml").write_text(_CONFIG[version].format(**given), encoding="utf-8")
        try:
            made.start()
            yield made
        finally:
            made.stop(signal.SIGKILL)


def in_use(socket: str) -> bool:
    """Whether there is a container of an image of the registry: what it consists of is kept, and not fetched again."""
    return HOST in _ctr(socket, "containers", "list")


def forget(socket: str) -> None:
    """Every image of the registry, and what was fetched for one: CRI leaves that to a later time, and to the lease of a pull
    that was killed."""
    with images(socket) as here:
        for name in here.names():
            if name.startswith(HOST):
                here.remove(name)
    for lease in _ctr(socket, "leases", "list", "--quiet").split():
        try:
            _ctr(socket, "leases", "delete", lease)
        except subprocess.CalledProcessError as error:
            if "not found" not in error.stderr:  # a pull that ends takes its own away
                raise
    _ctr(socket, "content", "prune", "references")


def _ctr(socket: str, *words: str) -> str:
    argv = [str(bin_dir() / "ctr"), "--address", socket, "--namespace", "k8s.io", *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout


@functools.cache
def bin_dir() -> Path:
    """The project's programs of the default version of Kubernetes, where its module says that they lie."""
    toolchain = str(journal.ROOT / "roles/kubernetes_binaries/files/toolchain")
    found = adhoc.module("kubernetes_binaries_info", version=VERSION, toolchain_dir=toolchain)
    missing = [name for name, part in found["components"].items() if not part["present"]]
    assert missing == [], f"make binaries LAB_KUBERNETES={VERSION}"
    return Path(found["bin_dir"])
