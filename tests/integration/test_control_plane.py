# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real control plane on a bridge of its own: up, repeated, hurt, renewed, stopped, started, gone.

The tests share one control plane. Each leaves it running and well, so that any of them can be run alone.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._binaries.families import DEFAULT_KUBERNETES
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.pki.pki import CertificateKind, key_path
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.record import Record, load_record
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.request import PORTS, ControlPlaneRequest
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.spec import MAKE
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import Step
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.service.runit import supervisor_pid
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, PeerError, Problems
from tests.integration import containerds, journal
from tests.integration.adhoc import module

VERSION = os.environ.get("LAB_KUBERNETES", DEFAULT_KUBERNETES)
COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
NAME, ADDRESS, BRIDGE = "cptest", "10.97.250.1", "ballast-cptest"
NODE = {"name": "n1", "addresses": ["10.97.250.11"]}
CONFIG_MAP = "/api/v1/namespaces/default/configmaps/kept"

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a control plane")]


class PastHost(LocalHost):
    """Whose clock is 340 days behind: what it certifies for 365 days is near its end."""

    def now(self) -> float:
        return time.time() - 340 * 86400


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

    def report(self) -> dict[str, Any]:
        return ENGINE.report(Context(self.desired(), LocalHost()))

    def pids(self) -> dict[str, int]:
        return {component["name"]: component["pid"] for component in self.report()["components"]}

    @property
    def record(self) -> Record:
        found = load_record(LocalHost(), str(self.params["state_dir"]))
        assert found is not None
        return found

    def pki(self, name: str) -> str:
        return os.path.join(str(self.params["state_dir"]), "pki", name)

    def ask(self, path: str, *, client: str = "admin", body: object = None) -> tuple[int, Any]:
        """Status and answer of the API server for the holder of a certificate, or for nobody."""
        certificate = self.pki(f"{client}.crt") if client else None
        answer = LocalHost().request(
            self.record.endpoint + path,
            method="GET" if body is None else "POST",
            body=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
            ca=self.pki("ca.crt"),
            cert=certificate,
            key=certificate and key_path(certificate),
            timeout=10,
        )
        return answer.status, answer.body

    def may(self, client: str, **attributes: str) -> bool:
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        status, answer = self.ask("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", client=client, body=review)
        assert status == 201
        return bool(json.loads(answer)["status"]["allowed"])


def has_problem(error: BallastError, id: str) -> bool:
    return id in [problem.id for problem in (error.problems if isinstance(error, Problems) else [error])]


def changed(steps: list[Step]) -> list[str]:
    """What steps did, without the directory that everything lies in."""
    return [f"{step.verb} {step.kind} {os.path.basename(step.target.split(' ')[0])}" for step in steps]


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((ADDRESS, port)) == 0


def processes_of(state_dir: str) -> list[str]:
    """Command lines that name the state directory."""
    host = LocalHost()
    lines = [host.read(f"/proc/{name}/cmdline") or b"" for name in host.listdir("/proc") if name.isdigit()]
    found = [line.replace(b"\0", b" ").decode(errors="replace") for line in lines]
    return [line for line in found if state_dir in line]


@pytest.fixture(scope="module")
def bridge() -> Iterator[None]:
    with journal.link(BRIDGE, "type", "bridge"):
        subprocess.run(["ip", "address", "add", f"{ADDRESS}/24", "dev", BRIDGE], check=True, timeout=30)
        subprocess.run(["ip", "link", "set", BRIDGE, "up"], check=True, timeout=30)
        yield


@pytest.fixture(scope="module")
def params(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    place = tmp_path_factory.mktemp("plane")
    return {
        **{option: spec.get("default") for option, spec in MAKE.items()},
        "state_dir": str(place / "plane"),
        "kubeconfig": str(place / "admin.kubeconfig"),
        "name": NAME,
        "kubernetes_version": VERSION,
        "bin_dir": str(containerds.bin_dir()),
        "address": ADDRESS,
        "nodes": [NODE],
    }


@pytest.fixture(scope="module")
def plane(bridge: None, params: dict[str, object]) -> Iterator[Plane]:
    found = Plane(params)
    with journal.undone_by(*journal.module("control_plane", {"state_dir": params["state_dir"], "state": "absent"})):
        begun = time.monotonic()
        found.run()
        print(f"up: {time.monotonic() - begun:.1f} s until every part was well")
        yield found


def test_every_part_runs_and_says_so(plane: Plane) -> None:
    assert len(processes_of(str(plane.params["state_dir"]))) >= len(COMPONENTS)
    report = plane.report()
    print(f"ready after {report['ready_seconds']} s, RSS {report['rss_bytes'] / 2**20:.0f} MiB")
    assert report["kubernetes_version"].partition("+")[0] == VERSION
    assert [component["name"] for component in report["components"]] == list(COMPONENTS)
    assert all(component["rss_bytes"] > 10 * 2**20 for component in report["components"])
    assert report["rss_bytes"] == sum(component["rss_bytes"] for component in report["components"])
    assert report["ready_seconds"] > 0
    assert all(listens(port) for port in PORTS.values())


def test_the_second_run_changes_nothing(plane: Plane) -> None:
    assert plane.run() == []


def test_the_module_says_unchanged_and_its_twin_says_the_same(plane: Plane) -> None:
    given = {name: value for name, value in plane.params.items() if value is not None}
    begun = time.monotonic()
    again = module("control_plane", **given)
    print(f"no-op: {time.monotonic() - begun:.1f} s with the start of ansible, of which {again['seconds']}")
    assert not again["changed"]
    assert again["steps"] == []
    read = module("control_plane_info", state_dir=plane.params["state_dir"])
    # Memory is measured anew each time.
    for key in ("kubernetes_version", "endpoint", "kubeconfig", "ready_seconds"):
        assert read[key] == again[key]
    ends = [{name: row[name] for name in ("name", "not_after")} for row in read["certificates"]]
    assert ends == again["certificates"]


def test_the_kubeconfig_works_wherever_it_is_copied(plane: Plane, tmp_path: Path) -> None:
    copy = tmp_path / "config"
    copy.write_bytes(Path(str(plane.params["kubeconfig"])).read_bytes())
    kubectl = os.path.join(str(plane.params["bin_dir"]), "kubectl")
    command = [kubectl, f"--kubeconfig={copy}", "config", "current-context"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == f"ballast-{NAME}"
    command = [kubectl, f"--kubeconfig={copy}", "auth", "can-i", "*", "*"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "yes"


def test_strangers_see_health_and_nothing_else(plane: Plane) -> None:
    assert plane.ask("/readyz", client="")[0] == 200
    assert plane.ask("/version", client="")[0] == 401
    assert plane.ask("/api/v1/namespaces", client="")[0] == 401
    etcd = plane.record.member("etcd").health
    with pytest.raises(PeerError):
        LocalHost().request(etcd, ca=plane.pki("etcd-ca.crt"), timeout=5)
    with pytest.raises(PeerError):  # the API server's own clients are strangers to etcd
        LocalHost().request(
            etcd, ca=plane.pki("etcd-ca.crt"), cert=plane.pki("admin.crt"), key=plane.pki("admin.key"), timeout=5
        )


def test_each_client_may_do_its_own_work_only(plane: Plane) -> None:
    assert plane.may("apiserver-kubelet-client", verb="create", resource="nodes", subresource="proxy")
    assert not plane.may("apiserver-kubelet-client", verb="list", resource="secrets")
    assert plane.may("nodes/n1/kubelet", verb="create", resource="nodes")
    assert not plane.may("nodes/n1/kubelet", verb="list", resource="secrets")
    assert plane.may("nodes/n1/kube-proxy", verb="watch", resource="endpointslices", group="discovery.k8s.io")
    assert not plane.may("nodes/n1/kube-proxy", verb="list", resource="secrets")


def test_secrets_can_be_read_by_root_alone(plane: Plane) -> None:
    state_dir = Path(str(plane.params["state_dir"]))
    secret = [*state_dir.rglob("*.key"), *state_dir.glob("config/*"), Path(str(plane.params["kubeconfig"]))]
    assert len(secret) > 10
    assert {oct(path.stat().st_mode & 0o777) for path in secret} == {"0o600"}
    assert {oct((state_dir / name).stat().st_mode & 0o777) for name in ("pki", "etcd", "config")} == {"0o700"}


def test_a_node_comes_and_goes_without_a_restart(plane: Plane) -> None:
    before = plane.pids()
    names = ("kubelet.crt", "kubelet-serving.crt", "kube-proxy.crt")
    more = plane.run(nodes=[NODE, {"name": "n2", "addresses": ["10.97.250.12"]}])
    assert changed(more) == [
        "make directory n2",
        *(f"make certificate {name}" for name in names),
        "change file plane.json",
    ]
    plane.run()
    assert not os.path.exists(plane.pki("nodes/n2"))
    assert plane.pids() == before


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_killed_service_comes_back(plane: Plane, component: str) -> None:
    pid = plane.pids()[component]
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while plane.pids()[component] in (pid, None):
        assert time.monotonic() < deadline, f"{component} did not come back"
        time.sleep(0.1)
    plane.run()
    assert plane.run() == []


def test_a_certificate_near_its_end_is_renewed_and_served(plane: Plane) -> None:
    target = f"{plane.pki('apiserver.crt')} signed by {plane.pki('ca.crt')}"
    value = CertificateKind().read(Context(None, LocalHost()), target)
    CertificateKind().write(Context(None, PastHost()), target, value, None)
    before = plane.pids()
    assert changed(plane.run()) == ["change certificate apiserver.crt", f"change service ballast-{NAME}-kube-apiserver"]
    after = plane.pids()
    assert [name for name in COMPONENTS if after[name] != before[name]] == ["kube-apiserver"]
    served = ssl.get_server_certificate((ADDRESS, PORTS["secure_port"]))
    assert served.strip() == Path(plane.pki("apiserver.crt")).read_text().strip()
    assert plane.run() == []


def test_a_damaged_key_is_replaced(plane: Plane) -> None:
    before = plane.pids()
    Path(plane.pki("nodes/n1/kubelet.key")).write_text("no key\n")
    assert changed(plane.run()) == ["change certificate kubelet.crt"]
    assert plane.pids() == before


def test_a_new_authority_renews_all_that_it_signed(plane: Plane) -> None:
    target = f"{plane.pki('ca.crt')} signed by {plane.pki('ca.crt')}"
    value = CertificateKind().read(Context(None, LocalHost()), target)
    assert isinstance(value, dict)
    CertificateKind().write(Context(None, PastHost()), target, {**value, "days": 365}, None)
    steps = changed(plane.run())
    assert steps[0] == "change certificate ca.crt"
    assert "change certificate admin.crt" in steps
    assert "change kubeconfig admin.kubeconfig" in steps
    assert "change certificate etcd.crt" not in steps
    assert [step for step in steps if "service" in step] == [
        f"change service ballast-{NAME}-{component}" for component in COMPONENTS if component != "etcd"
    ]
    assert plane.run() == []


def test_stopped_keeps_the_data(plane: Plane) -> None:
    given = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}, "data": {"a": "b"}}
    assert plane.ask("/api/v1/namespaces/default/configmaps", body=given)[0] == 201
    try:
        begun = time.monotonic()
        plane.run(state="stopped")
        print(f"stopped in {time.monotonic() - begun:.1f} s")
        assert not any(listens(port) for port in PORTS.values())
        assert processes_of(str(plane.params["state_dir"])) == []
        assert plane.run(state="stopped") == []
    finally:
        plane.run()
    status, body = plane.ask(CONFIG_MAP)
    assert status == 200
    assert json.loads(body)["data"] == {"a": "b"}
    assert plane.run() == []


@pytest.mark.skipif(LocalHost().is_systemd(), reason="systemd is its own supervisor")
def test_a_run_after_everything_was_killed_brings_it_back(plane: Plane) -> None:
    """As after a restart of the host: no process is left, the files are."""
    state_dir = str(plane.params["state_dir"])
    pid = supervisor_pid(LocalHost(), f"{state_dir}/sv")
    assert pid is not None
    doomed = [pid, *children(pid)]
    for each in [*doomed, *plane.pids().values()]:
        os.kill(each, signal.SIGKILL)
    plane.run()
    assert plane.run() == []


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_taken_port_is_named_with_who_holds_it(plane: Plane, tmp_path: Path) -> None:
    other = {"state_dir": str(tmp_path / "other"), "kubeconfig": str(tmp_path / "other.kubeconfig"), "name": "cptest2"}
    with pytest.raises(BallastError) as caught:
        plane.run(**other)
    assert has_problem(caught.value, "plane-port-taken")
    assert (
        f"port 6443 on {ADDRESS} is in use\n  found: process {plane.pids()['kube-apiserver']} (kube-apiserver)"
        in str(caught.value)
    )
    assert list(tmp_path.iterdir()) == []


def test_an_address_that_is_not_there_stops_it_before_anything_is_made(plane: Plane, tmp_path: Path) -> None:
    # Of RFC 5737, for documentation: no other test gives it to a link meanwhile.
    other = {"state_dir": str(tmp_path / "other"), "kubeconfig": "", "name": "cptest2", "address": "192.0.2.1"}
    try:
        with pytest.raises(BallastError) as caught:
            plane.run(**other)
        assert has_problem(caught.value, "plane-address-absent")
        assert BRIDGE in str(caught.value)
        assert list(tmp_path.iterdir()) == []
    finally:
        plane.run(**other, state="absent")


def test_absent_leaves_nothing(plane: Plane) -> None:
    try:
        begun = time.monotonic()
        plane.run(state="absent")
        print(f"absent in {time.monotonic() - begun:.1f} s")
        assert not os.path.exists(str(plane.params["state_dir"]))
        assert not os.path.exists(str(plane.params["kubeconfig"]))
        assert processes_of(str(plane.params["state_dir"])) == []
        assert not any(listens(port) for port in PORTS.values())
        assert list(Path("/sys/fs/cgroup").glob(f"*/ballast-{NAME}*")) == []
        assert plane.run(state="absent") == []
    finally:
        plane.run()
