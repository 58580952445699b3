# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._agent import program
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.service.services import service_pid
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from ansible_collections.ballast.kube.plugins.module_utils._pulls.deployment.engine import ENGINE
from tests.unit.cases import apply, check_kills, plan_of, require
from tests.unit.fakes import FakeHost
from tests.unit.pulls.deployment.machine import (
    CONFIG,
    LIMITS,
    LOG,
    MACHINES,
    STATE,
    SV,
    Proxy,
    deployment,
    listener,
    nothing,
)

PROGRESS = Progress(NullSink(), feature="test")


@pytest.fixture(autouse=True)
def _small_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which no file is read, and none changes meanwhile."""
    monkeypatch.setattr(program, "_sources", lambda _main, packages: dict.fromkeys(packages, b""))


@pytest.fixture(params=sorted(MACHINES))
def proxy(request: pytest.FixtureRequest) -> Proxy:
    return MACHINES[request.param]()


def titles(host: FakeHost, **changes: Any) -> list[str]:
    return [f"{step.verb} {step.title}" for step in plan_of(ENGINE, deployment(**changes), host).steps]


def pid(host: FakeHost) -> int:
    pid = service_pid(host, SV)
    assert pid is not None
    return pid


def test_it_is_installed_runs_and_goes_without_a_trace(proxy: Proxy) -> None:
    host, given = proxy.host, proxy.host.snapshot()
    want = deployment()
    plan_of(ENGINE, want, host)
    assert host.effects == [], "observing and planning change nothing"
    apply(ENGINE, want, host)
    assert json.loads(host.text(CONFIG)) == {"listeners": [listener("n1")], **LIMITS}
    assert host.mode(CONFIG) == 0o600
    assert host.mode("/run/ballast-pull-proxy") == 0o700
    assert host.mode("/usr/local/bin/ballast-pull-proxy") == 0o755
    assert ENGINE.verify(Context(want, host, PROGRESS)) == []
    before = len(host.effects)
    apply(ENGINE, want, host)
    assert host.effects[before:] == [], "a second run has no effect"
    apply(ENGINE, nothing(), host)
    apply(ENGINE, nothing(), host)
    assert host.snapshot() == given


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_a_kill_at_any_moment_is_made_good_by_the_next_run(name: str) -> None:
    proxies: list[Proxy] = []

    def machine() -> FakeHost:
        proxies.append(MACHINES[name]())
        return proxies[-1].host

    kills = check_kills(
        ENGINE, machine, deployment(), nothing(), lambda host: proxies[-1].settings["max_in_flight"] == 3
    )
    assert kills > 60


@pytest.mark.parametrize("change", [{"max_in_flight": 7}, {"on_full": "retry"}, {"join": False}, {"drain": "40s"}])
def test_limits_are_told_to_the_running_one(proxy: Proxy, change: dict[str, Any]) -> None:
    host = proxy.host
    apply(ENGINE, deployment(), host)
    before = pid(host)
    assert titles(host, **change) == ["change service ballast-pull-proxy"]
    apply(ENGINE, deployment(**change), host)
    assert pid(host) == before, "no pull was ended"
    assert proxy.settings.items() >= change.items()
    assert titles(host, **change) == []


@pytest.mark.parametrize(
    "change", [{"listeners": [listener("n1"), listener("n2")]}, {"metrics": "127.0.0.1:9455"}, {"drain": "10m"}]
)
def test_what_it_listens_on_needs_a_start_anew(proxy: Proxy, change: dict[str, Any]) -> None:
    host = proxy.host
    apply(ENGINE, deployment(), host)
    before = pid(host)
    apply(ENGINE, deployment(max_in_flight=9, **change), host)
    assert pid(host) != before
    assert proxy.settings.items() >= {"max_in_flight": 9, **change}.items()
    assert titles(host, max_in_flight=9, **change) == []


def test_the_order_of_listeners_means_nothing(proxy: Proxy) -> None:
    """An inventory may give them in another one each time."""
    rows = [listener("n2"), listener("n1")]
    apply(ENGINE, deployment(listeners=rows), proxy.host)
    assert titles(proxy.host, listeners=rows[::-1]) == []


@pytest.mark.parametrize("name", sorted(MACHINES))
@pytest.mark.parametrize("change", [{"max_in_flight": 7}, {"metrics": "127.0.0.1:9455"}])
def test_a_kill_in_a_change_is_made_good(name: str, change: dict[str, Any]) -> None:
    for number in range(1, 100):
        proxy = MACHINES[name]()
        host = proxy.host
        apply(ENGINE, deployment(), host)
        host.fail_at(number, torn=True)
        try:
            apply(ENGINE, deployment(**change), host)
        except BaseException:
            host.calm()
        else:
            assert number > 3
            return
        apply(ENGINE, deployment(**change), host)
        assert proxy.settings.items() >= change.items(), number
        assert titles(host, **change) == [], number
    raise AssertionError("the change has no end")


@pytest.mark.parametrize("change", [{"max_in_flight": 7}, {"metrics": "127.0.0.1:9455"}])
def test_a_change_that_does_not_come_true_is_undone(proxy: Proxy, change: dict[str, Any]) -> None:
    host = proxy.host
    apply(ENGINE, deployment(), host)
    host.given(LOG, "2026-11-22 it is full of eels\n")
    document = json.loads(host.text(CONFIG))
    proxy.mute = lambda: json.loads(host.text(CONFIG)) != document
    with pytest.raises(BallastError) as caught:
        apply(ENGINE, deployment(**change), host)
    assert caught.value.id == "pulls-deploy-settings"
    assert "eels" in caught.value.found
    assert "left: nothing" in caught.value.text
    assert json.loads(host.text(CONFIG)) == document
    assert titles(host) == []


def test_one_that_is_slow_to_answer_keeps_its_pulls(proxy: Proxy) -> None:
    host = proxy.host
    apply(ENGINE, deployment(), host)
    before, until = pid(host), host.monotonic() + 20
    proxy.mute = lambda: host.monotonic() < until
    apply(ENGINE, deployment(max_in_flight=7), host)
    assert pid(host) == before
    assert proxy.settings["max_in_flight"] == 7


def test_one_that_takes_no_new_limits_is_told_of(proxy: Proxy) -> None:
    host = proxy.host
    apply(ENGINE, deployment(), host)
    proxy.deaf = True
    with pytest.raises(BallastError) as caught:
        apply(ENGINE, deployment(max_in_flight=7), host)
    assert "it runs with other settings" in caught.value.found
    assert proxy.settings["max_in_flight"] == 3


def test_one_that_fails_later_is_found_by_a_run_that_changes_nothing(proxy: Proxy) -> None:
    apply(ENGINE, deployment(), proxy.host)
    proxy.mute = lambda: True
    findings = ENGINE.verify(Context(deployment(), proxy.host, PROGRESS))
    assert [(finding.id, finding.blocking) for finding in findings] == [("pulls-deploy-settings", True)]
    assert titles(proxy.host) == ["change service ballast-pull-proxy"], "it is to be started anew"


@pytest.mark.parametrize("answer", [{}, {"settings": None}, {"settings": [1]}, {"settings": {"max_in_flight": 3}}])
def test_one_of_another_version_is_started_anew(proxy: Proxy, answer: dict[str, Any]) -> None:
    host = proxy.host
    apply(ENGINE, deployment(), host)
    before, said = pid(host), proxy.answer
    proxy.answer = lambda: answer if pid(host) == before else said()  # type: ignore[method-assign]
    apply(ENGINE, deployment(), host)
    assert pid(host) != before


@pytest.mark.parametrize("content", ["", "{", "[]", '{"max_in_flight": -1}'])
def test_a_file_that_somebody_spoilt_is_written_anew(proxy: Proxy, content: str) -> None:
    apply(ENGINE, deployment(), proxy.host)
    proxy.host.given(CONFIG, content, mode=0o600)
    assert titles(proxy.host) == ["change service ballast-pull-proxy"]
    apply(ENGINE, deployment(), proxy.host)
    assert titles(proxy.host) == []


def test_a_file_that_others_may_read_is_written_anew(proxy: Proxy) -> None:
    apply(ENGINE, deployment(), proxy.host)
    proxy.host.given(CONFIG, proxy.host.text(CONFIG), mode=0o644)
    apply(ENGINE, deployment(), proxy.host)
    assert proxy.host.mode(CONFIG) == 0o600


def test_the_unit_is_between_the_runtime_and_the_kubelet() -> None:
    host = MACHINES["systemd"]().host
    host_unit = "/etc/systemd/system/ballast-pull-proxy.service"
    apply(ENGINE, deployment(), host)
    unit = host.text(host_unit)
    for line in (
        "After=containerd.service crio.service",
        "Before=kubelet.service",
        "Restart=always",
        "ExecReload=/bin/kill -HUP $MAINPID",
        "TimeoutStopSec=60",
    ):
        assert f"{line}\n" in unit


def test_what_python_lacks_is_named_with_its_packages(proxy: Proxy) -> None:
    proxy.host.on("/usr/bin/python3", answer="grpc yaml\n", reads=True)
    with pytest.raises(BallastError) as caught:
        require(ENGINE, deployment(), proxy.host)
    assert caught.value.id == "pulls-deploy-packages"
    assert "apt-get install python3-grpcio python3-yaml;" in caught.value.remedy
    proxy.host.given("/etc/os-release", "ID=rocky\nID_LIKE='rhel centos fedora'\n")
    assert ENGINE.read(proxy.host, {"state_dir": STATE})["missing_packages"] == ["python3-grpcio", "python3-pyyaml"]
    with pytest.raises(BallastError, match="dnf install python3-grpcio python3-pyyaml;"):
        require(ENGINE, deployment(), proxy.host)
    proxy.host.remove("/etc/os-release")
    require(ENGINE, nothing(), proxy.host)
    assert ENGINE.read(proxy.host, {"state_dir": STATE})["missing_packages"] == ["python3-grpcio", "python3-yaml"]


def test_every_fault_is_told_at_once() -> None:
    with pytest.raises(Problems) as caught:
        deployment(max_in_flight=-1, drain="soon", listeners=[{"socket": "x", "runtime": "/r", "name": None}])
    text = str(caught.value)
    for path in ("max_in_flight", "drain", "listeners[0].socket"):
        assert f"image_pull_proxy: {path}" in text


def test_the_report_is_of_the_running_one(proxy: Proxy) -> None:
    assert ENGINE.describe(proxy.host, STATE)["pid"] is None
    apply(ENGINE, deployment(), proxy.host)
    state = ENGINE.describe(proxy.host, STATE)
    assert state["pid"] == pid(proxy.host)
    assert state["status"] == json.loads(json.dumps(proxy.answer()))
