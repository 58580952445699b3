# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reconciler as a service. What every program of ours has in common is tried by the pull proxy's tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._agent import program
from ansible_collections.ballast.kube.plugins.module_utils._balloon.agent.settings import parse_settings
from ansible_collections.ballast.kube.plugins.module_utils._balloon.deployment.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._balloon.deployment.installation import INSTALLATION
from ansible_collections.ballast.kube.plugins.module_utils._balloon.deployment.request import SPEC, Deployment
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.service.services import service_pid
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from tests.unit.cases import apply, check_kills, plan_of, require
from tests.unit.fake_supervisors import FakeRunit, FakeSystemd
from tests.unit.fakes import FakeHost

SV = "/var/lib/ballast/balloons/sv/ballast-balloons"
KUBECONFIG = "/etc/ballast/balloons.kubeconfig"
PROGRESS = Progress(NullSink(), feature="test")


@pytest.fixture(autouse=True)
def _small_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which no file is read, and none changes meanwhile."""
    monkeypatch.setattr(program, "_sources", lambda _main, packages: dict.fromkeys(packages, b""))


def wanted(**changes: Any) -> Deployment:
    given = {"kubeconfig": KUBECONFIG, **changes}
    return Deployment.from_params({**{name: row.get("default") for name, row in SPEC.items()}, **given})


class Reconciler:
    """Takes all of its file when it is started, and all but `metrics` when it is sent HUP."""

    def __init__(self, host: FakeHost, supervisor: FakeRunit | FakeSystemd) -> None:
        self.host = host
        self._supervisor = supervisor
        self._pid: Optional[int] = None
        self.settings: dict[str, Any] = {}
        for path in ("/usr/local/bin", "/usr/local/lib"):
            host.given_directory(path)
        host.given("/var/lib/ballast/shared/srv.json", '{"made": "", "holders": ["lab"]}')
        config = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1:6443"}}],
            "users": [{"name": "u", "user": {"token": "hunter22"}}],
        }
        host.given(KUBECONFIG, json.dumps(config), mode=0o600)
        host.on("/usr/bin/python3", answer="\n", reads=True)
        host.given_listener(f"{INSTALLATION.sockets}/control", self._status)

    @property
    def pid(self) -> Optional[int]:
        return service_pid(self.host, SV) if self.host.stat(SV) else None

    def _status(self) -> Optional[str]:
        if self.pid is None:
            return None
        found = json.loads(self.host.text(INSTALLATION.config))
        metrics = found.get("metrics") if self.pid != self._pid else self.settings.get("metrics")
        self._pid, self.settings = self.pid, {**found, "metrics": metrics}
        settings = asdict(parse_settings(json.dumps(self.settings), name="the reconciler's"))
        return json.dumps({"settings": settings})


def systemd() -> Reconciler:
    host = FakeHost(systemd=True)
    host.given_cgroups(2)
    return Reconciler(host, FakeSystemd(host))


def runit() -> Reconciler:
    host = FakeHost()
    host.given_cgroups(1)
    return Reconciler(host, FakeRunit(host))


MACHINES: dict[str, Callable[[], Reconciler]] = {"runit": runit, "systemd": systemd}


@pytest.fixture(params=sorted(MACHINES))
def reconciler(request: pytest.FixtureRequest) -> Reconciler:
    return MACHINES[request.param]()


def test_it_is_installed_runs_and_goes_without_a_trace(reconciler: Reconciler) -> None:
    host, given, want = reconciler.host, reconciler.host.snapshot(), wanted(metrics="127.0.0.1:9456")
    plan_of(ENGINE, want, host)
    assert host.effects == []
    apply(ENGINE, want, host)
    assert json.loads(host.text("/etc/ballast/balloons.json")) == {
        "kubeconfig": KUBECONFIG,
        "interval": "60s",
        "grow_timeout": "30s",
        "metrics": "127.0.0.1:9456",
    }
    assert host.mode("/etc/ballast/balloons.json") == 0o600
    assert ENGINE.verify(Context(want, host, PROGRESS)) == []
    assert ENGINE.report(Context(want, host))["pid"] == reconciler.pid
    before = len(host.effects)
    apply(ENGINE, want, host)
    assert host.effects[before:] == []
    apply(ENGINE, wanted(state="absent", kubeconfig=None), host)
    assert host.snapshot() == given


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_a_kill_at_any_moment_is_made_good_by_the_next_run(name: str) -> None:
    made: list[Reconciler] = []

    def machine() -> FakeHost:
        made.append(MACHINES[name]())
        return made[-1].host

    nothing = wanted(state="absent", kubeconfig=None)
    kills = check_kills(ENGINE, machine, wanted(), nothing, lambda host: made[-1].settings["kubeconfig"] == KUBECONFIG)
    assert kills > 60


@pytest.mark.parametrize(
    ("change", "anew"),
    [
        ({"interval": "30s"}, False),
        ({"nodes": [{"name": "n1", "slice": None, "qmp": None}]}, False),
        ({"reserve": {"cpu": "1", "memory": "1Gi"}}, False),
        ({"metrics": "127.0.0.1:9456"}, True),
    ],
)
def test_what_can_be_told_to_the_running_one_is(reconciler: Reconciler, change: dict[str, Any], anew: bool) -> None:
    apply(ENGINE, wanted(), reconciler.host)
    before = reconciler.pid
    apply(ENGINE, wanted(**change), reconciler.host)
    assert (reconciler.pid != before) == anew
    assert plan_of(ENGINE, wanted(**change), reconciler.host).steps == ()


def test_the_order_of_nodes_means_nothing() -> None:
    rows = [{"name": name, "slice": f"ballast-{name}", "qmp": None} for name in ("n2", "n1")]
    assert wanted(nodes=rows, slices=True) == wanted(nodes=rows[::-1], slices=True)


def test_the_token_is_neither_copied_nor_shown(reconciler: Reconciler) -> None:
    plan = plan_of(ENGINE, wanted(), reconciler.host)
    apply(ENGINE, wanted(), reconciler.host)
    assert "hunter22" not in str(ENGINE.diff(plan)) + str(reconciler.host.commands)
    ours = [path for path in reconciler.host.snapshot() if path.startswith("/") and path != KUBECONFIG]
    assert not [path for path in ours if b"hunter22" in _data(reconciler.host, path)]


def _data(host: FakeHost, path: str) -> bytes:
    found = host.stat(path)
    return (host.read(path) or b"") if found is not None and found.kind == "file" else b""


@pytest.mark.parametrize(
    ("mode", "path", "id"),
    [(0o644, KUBECONFIG, "balloon-agent-kubeconfig-open"), (0o600, "/etc/none", "balloon-agent-kubeconfig")],
)
def test_a_kubeconfig_that_cannot_be_used_is_refused_before_anything_is_done(
    reconciler: Reconciler, mode: int, path: str, id: str
) -> None:
    reconciler.host.given(KUBECONFIG, reconciler.host.text(KUBECONFIG), mode=mode)
    with pytest.raises(BallastError) as caught:
        require(ENGINE, wanted(kubeconfig=path), reconciler.host)
    assert caught.value.id == id
    require(ENGINE, wanted(state="absent", kubeconfig=None), reconciler.host)


def test_what_python_lacks_is_named_with_its_packages(reconciler: Reconciler) -> None:
    reconciler.host.on("/usr/bin/python3", answer="prometheus_client\n", reads=True)
    with pytest.raises(BallastError) as caught:
        require(ENGINE, wanted(), reconciler.host)
    assert caught.value.id == "balloon-agent-deploy-packages"
    assert "apt-get install python3-prometheus-client;" in caught.value.remedy


def test_every_fault_is_told_at_once() -> None:
    rows = [{"name": "n1", "slice": None, "qmp": None}]
    with pytest.raises(Problems) as caught:
        wanted(kubeconfig="x", interval="soon", nodes=rows, slices=True, metrics="0.0.0.0:1")
    told = str(caught.value)
    for path in ("kubeconfig", "interval", "nodes[0].slice", "metrics"):
        assert f"balloon_reconciler: {path}" in told
