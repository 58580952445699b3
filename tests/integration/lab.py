# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A lab as its user drives it, for the tests; and what of this machine a lab may not leave changed."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.kinds import fields
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.service.services import ServiceKind
from tests.integration import journal

ROOT = Path(__file__).resolve().parents[2]
_RUN_SECONDS = 900
_SYSCTLS = (
    *("fs.inotify.max_user_instances", "fs.inotify.max_user_watches", "net.ipv4.ip_forward"),
    *("kernel.keys.root_maxbytes", "kernel.keys.root_maxkeys", "kernel.panic", "kernel.panic_on_oops"),
    *("vm.overcommit_memory",),
)
_PLACES = ("/run/ballast", "/run/containerd", "/run/netns", "/var/lib/ballast", "/var/lib/cni", "/var/lib/kubelet")


@dataclass(frozen=True)
class Run:
    status: int
    output: str

    @property
    def changed(self) -> int:
        recap = [line for line in self.output.splitlines() if "changed=" in line and "unreachable=" in line]
        return sum(int(line.split("changed=")[1].split()[0]) for line in recap)


@dataclass(frozen=True)
class Lab:
    directory: str
    name: str
    addons: str = "none"  # LAB_ADDONS; "" for what the topology says

    def playbook(self, name: str, *arguments: str, **variables: object) -> Run:
        given = {"lab_dir": self.directory, **variables}
        argv = [str(ROOT / ".venv/bin/ansible-playbook"), f"ballast.kube.{name}", "-e", json.dumps(given), *arguments]
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".build/collections"),
            "ANSIBLE_FORCE_COLOR": "0",
        }
        done = subprocess.run(
            argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=_RUN_SECONDS, check=False
        )
        return Run(status=done.returncode, output=done.stdout + done.stderr)

    def up(self, **variables: object) -> Run:
        # `make test-matrix` repeats the tests for each version.
        version = os.environ.get("LAB_KUBERNETES", "")
        given = {"lab_name": self.name, "lab_kubernetes_version": version, "lab_addons": self.addons}
        return self.playbook("lab_up", **{**given, **variables})

    def down(self) -> Run:
        return self.playbook("lab_down")

    @property
    def record(self) -> dict[str, Any]:
        return self._json("lab.json")

    @property
    def summary(self) -> dict[str, Any]:
        return self._json("summary.json")

    def kubectl(self, *words: str) -> str:
        argv = [f"{self.directory}/bin/kubectl", "--kubeconfig", f"{self.directory}/admin.kubeconfig"]
        cache = ["--cache-dir", f"{self.directory}/check/kubectl"]
        return subprocess.run([*argv, *cache, *words], check=True, capture_output=True, text=True, timeout=120).stdout

    def services(self) -> dict[str, int]:
        """Directory of each of its services, with the process that runs now."""
        found = {}
        places = ("plane/sv/*/supervise/pid", "nodes/*/sv/*/supervise/pid")
        for path in sorted(path for place in places for path in Path(self.directory).glob(place)):
            text = path.read_text(encoding="ascii").strip()
            found[str(path.parents[1])] = int(text) if text else 0
        return found

    def _json(self, name: str) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(Path(self.directory, name).read_text(encoding="utf-8"))
        return value


@contextmanager
def lab_named(name: str, *, within: str | None = None, addons: str = "none") -> Iterator[Lab]:
    """Not made yet; removed at the end. `within` this directory, else that for temporary files."""
    place = tempfile.mkdtemp(prefix="ballast-it-", dir=within)
    lab = Lab(directory=f"{place}/lab", name=name, addons=addons)
    down = ("ansible-playbook", "ballast.kube.lab_down", "-e", json.dumps({"lab_dir": lab.directory}))
    with journal.directory(place), journal.undone_by(*down):
        yield lab


@contextmanager
def stopped(service: str) -> Iterator[None]:
    """A service of ours, by its directory: down while the block lasts, and wanted so."""
    host, kind = LocalHost(), ServiceKind()
    running = kind.read(Context(None, host), service)
    down = {**fields(running), "running": False}
    kind.write(Context(None, host), service, down, running)
    try:
        yield
    finally:
        kind.write(Context(None, host), service, running, down)


def machine() -> dict[str, object]:
    """What a lab changes while it is there, as it is now. Equal before and after it, or something stayed."""
    return {
        "links": sorted(row["ifname"] for row in json.loads(_output("ip", "-j", "link"))),
        "routes": sorted(row["dst"] for row in json.loads(_output("ip", "-j", "route"))),
        "tables": sorted(_output("nft", "list", "tables").splitlines()),
        "mounts": sorted(line.split()[1] for line in Path("/proc/self/mounts").read_text("utf-8").splitlines()),
        "cgroups": sorted(str(path) for path in Path("/sys/fs/cgroup").glob("**/ballast*")),
        "settings": {name: Path("/proc/sys", name.replace(".", "/")).read_text("ascii") for name in _SYSCTLS},
        "places": {place: os.path.exists(place) for place in _PLACES},
        "units": sorted(str(path) for path in Path("/etc/systemd/system").glob("ballast*")),
    }


def processes_of(directory: str) -> Iterator[str]:
    """Command lines that name a lab's directory."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:  # it ended meanwhile
            continue
        if any(word.startswith(directory) or f"={directory}" in word for word in words):
            yield " ".join(words)


def _output(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout
