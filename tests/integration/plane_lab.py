# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Real control planes for tests: each on an address of its own, run by the engine, gone at the end of the block.

with plane("generic", crds=True) as here:
    here.ask("/api/v1/namespaces").body
    here.kubectl("get", "namespaces")
"""

from __future__ import annotations

import functools
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._binaries.families import DEFAULT_KUBERNETES
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.info.read import read_params
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.record import Record, load_record
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.request import ControlPlaneRequest
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.spec import MAKE
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import Step
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from tests.integration import journal
from tests.integration.adhoc import module
from tests.integration.plane_client import Answer, Client

ROOT = Path(__file__).resolve().parents[2]
VERSION = os.environ.get("LAB_KUBERNETES", DEFAULT_KUBERNETES)
_KUBECTL_SECONDS = 120
_FAMILIES = ("kubernetes", "etcd", "cni", "containerd", "cri-tools")


@dataclass(frozen=True)
class Plane:
    params: Mapping[str, object]

    def desired(self, **changes: object) -> ControlPlaneRequest:
        return ControlPlaneRequest.from_params({**self.params, **changes})

    def run(self, **changes: object) -> list[Step]:
        """One run of the engine, to its end; the steps it took."""
        desired, host = self.desired(**changes), LocalHost()
        plan = ENGINE.plan(desired, ENGINE.observe(Context(desired, host)))
        progress = Progress(NullSink(), feature="plane")
        ENGINE.apply(plan, Context(desired, host, progress))
        assert ENGINE.verify(Context(desired, host, progress)) == []
        return list(plan.steps)

    def changed(self, **options: object) -> Plane:
        """The same control plane with other options; nothing runs before `run`."""
        return replace(self, params={**self.params, **options})

    @property
    def state_dir(self) -> str:
        return str(self.params["state_dir"])

    @property
    def kubeconfig(self) -> str:
        return str(self.params["kubeconfig"])

    @property
    def address(self) -> str:
        return str(self.params["address"])

    @property
    def record(self) -> Record:
        found = load_record(LocalHost(), self.state_dir)
        assert found is not None, f"{self.state_dir} holds no control plane"
        return found

    def pki(self, name: str) -> str:
        return os.path.join(self.state_dir, "pki", name)

    def bin(self, name: str) -> str:
        return os.path.join(str(self.params["bin_dir"]), name)

    def client(self, certificate: str = "admin", *, token: str = "", timeout: float = 30) -> Client:
        """A connection of its own: the holder of a certificate in pki/ (or of an absolute path), of a token, or nobody
        (certificate "")."""
        path = os.path.join(self.state_dir, "pki", f"{certificate}.crt") if certificate and not token else ""
        return Client(self.record.endpoint, ca=self.pki("ca.crt"), certificate=path, token=token, timeout=timeout)

    def ask(
        self, path: str, method: str = "GET", body: object = None, content_type: str = "application/json"
    ) -> Answer:
        """As the administrator."""
        with self.client() as client:
            return client.ask(path, method, body, content_type)

    def kubectl(self, *words: str, stdin: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
        cache = f"--cache-dir={self.state_dir}/../kubectl-cache"
        done = subprocess.run(
            [self.bin("kubectl"), f"--kubeconfig={self.kubeconfig}", cache, *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=_KUBECTL_SECONDS,
            check=False,
        )
        assert not check or done.returncode == 0, f"kubectl {' '.join(words)}: {done.stdout}{done.stderr}"
        return done

    def report(self) -> dict[str, Any]:
        """What the module returns of it."""
        return ENGINE.report(Context(self.desired(), LocalHost()))

    def info(self) -> dict[str, Any]:
        """What control_plane_info returns, run as an operator would."""
        return module("control_plane_info", state_dir=self.state_dir)

    def reading(self) -> dict[str, Any]:
        """Of its production readiness, as control_plane_info returns it."""
        return dict(read_params(LocalHost(), {"state_dir": self.state_dir, "readiness": True})["readiness"])

    def pids(self) -> dict[str, int | None]:
        """The process of each program; None where it does not run."""
        return {component["name"]: component["pid"] for component in self.report()["components"]}

    def log(self, component: str) -> str:
        return Path(self.record.member(component).log).read_text(encoding="utf-8", errors="replace")


@contextmanager
def plane(profile: str = "full", **options: object) -> Iterator[Plane]:
    """A control plane that runs and is well, with options of the module; their defaults are the module's."""
    with place(profile, **options) as found:
        found.run()
        yield found


@contextmanager
def place(profile: str = "full", **options: object) -> Iterator[Plane]:
    """What `plane` would run, not yet there; what `run` makes of it is removed at the end."""
    assert set(options) <= set(MAKE), f"no options of the module: {sorted(set(options) - set(MAKE))}"
    if "bin_dir" not in options:  # before anything is made: it may skip the test
        all_in_one = profile == "hyper-mini" or options.get("deployment_mode") == "all_in_one"
        version = str(options.get("kubernetes_version", VERSION))
        options["bin_dir"] = binaries(version, all_in_one=all_in_one)
    with _address() as (address, name):
        here = tempfile.mkdtemp(prefix="ballast-it-")
        params: dict[str, object] = {
            **{option: spec.get("default") for option, spec in MAKE.items()},
            "profile": profile,
            "state_dir": f"{here}/plane",
            "kubeconfig": f"{here}/admin.kubeconfig",
            "name": name,
            "kubernetes_version": VERSION,
            "address": address,
            **options,
        }
        gone = journal.module("control_plane", {"state_dir": params["state_dir"], "state": "absent"})
        with journal.directory(here), journal.undone_by(*gone):
            yield Plane(params)


@functools.cache
def binaries(version: str, *, all_in_one: bool = False) -> str:
    """The directory with the programs of a version, which were built before."""
    families = [*_FAMILIES, *(["hyper-mini"] if all_in_one else [])]
    found = module(
        "kubernetes_binaries_info",
        version=version,
        toolchain_dir=str(ROOT / "roles/kubernetes_binaries/files/toolchain"),
        families=[{"name": family} for family in families],
    )
    if not all(part["present"] for part in found["components"].values()) or not os.path.isdir(found["bin_dir"]):
        pytest.fail(f"there are no binaries of Kubernetes {version}: make binaries{'-planes' if all_in_one else ''}")
    return str(found["bin_dir"])


@contextmanager
def _address() -> Iterator[tuple[str, str]]:
    """An address that no other test has, on a bridge that is named as the control plane should be."""
    claim, number = _claimed()
    with claim:
        name = f"plane{number}"
        bridge, address = f"ballast-{name}", f"10.97.253.{number}"
        with journal.link(bridge, "type", "bridge"):
            for words in (("address", "add", f"{address}/32", "dev", bridge), ("link", "set", bridge, "up")):
                subprocess.run(["ip", *words], check=True, timeout=30)
            yield address, name


def _claimed() -> tuple[socket.socket, int]:
    """A number and what holds it: a name of the abstract namespace (unix(7)) ends with its process, however that ends."""
    for number in range(1, 255):
        holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            holder.bind(f"\0ballast-test-plane-{number}")
        except OSError:
            holder.close()
        else:
            return holder, number
    raise AssertionError("254 control planes are there already")
