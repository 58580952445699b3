# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The limits of a pull proxy that is there: keys of its file, told to the running one."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Host
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from ansible_collections.ballast.kube.plugins.module_utils._pulls.deployment.installation import INSTALLATION
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node import proxy_limits
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.model import ImagePullsRequest
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.settings import Settings, parse_settings
from tests.unit import cases
from tests.unit.fakes import FakeHost, Killed
from tests.unit.pulls.node.fake_node import params

CONFIG = INSTALLATION.config
FILE: dict[str, Any] = {
    "listeners": [{"socket": "/run/p/a.sock", "runtime": "/run/c/a.sock"}],
    "max_in_flight": 2,
    "retry": {"attempts": 9},
    "drain": "5s",
}


class Proxy:
    """One that runs, and takes its file by HUP; a `stubborn` one keeps what it has."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.host = FakeHost()
        self.stubborn = False
        self.running = True
        self.host.given_directory("/var/lib/ballast")
        self.host.given(CONFIG, json.dumps(FILE, indent=2) + "\n", mode=0o600)
        self.host.given_listener("/run/ballast-pull-proxy/control", self._status)
        self.settings = self._read()
        monkeypatch.setattr(proxy_limits, "service_pid", lambda _host, _target: 812 if self.running else None)
        monkeypatch.setattr(proxy_limits, "reload_service", self._reload)

    def file(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.host.text(CONFIG))
        return document

    def at_rest(self) -> bool:
        return self.settings == self._read()

    def _read(self) -> Settings:
        return parse_settings(self.host.text(CONFIG), name=CONFIG)

    def _reload(self, host: Host, _target: str) -> None:
        host.run(["sv", "hup"], timeout=1)  # an effect, which a kill may come before
        if not self.stubborn:
            self.settings = self._read()

    def _status(self) -> Optional[str]:
        return json.dumps({"settings": asdict(self.settings)}) if self.running else None


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Proxy:
    made = Proxy(monkeypatch)
    made.host.on("sv", answer="")
    return made


def request(**host: Any) -> ImagePullsRequest:
    return ImagePullsRequest.from_params(params(host=host))


def absent() -> ImagePullsRequest:
    return ImagePullsRequest.from_params(params(state="absent"))


def steps(proxy: Proxy, desired: ImagePullsRequest) -> list[str]:
    return [f"{step.verb} {step.kind}" for step in cases.apply(ENGINE, desired, proxy.host).steps]


def test_the_proxys_file_keeps_owner_and_mode_behind_a_link_too(proxy: Proxy) -> None:
    real = "/etc/ballast/real/pull-proxy.json"
    proxy.host.given_behind_link(CONFIG, real, 65, 66, mode=0o600)
    steps(proxy, request(max_in_flight=6))
    assert proxy.file() == {**FILE, "max_in_flight": 6}
    assert (proxy.host.owner(real), proxy.host.readlink(CONFIG)) == ((65, 66, 0o600), real)


def test_limits_are_set_beside_what_is_there_and_taken_by_the_running_one(proxy: Proxy) -> None:
    desired = request(max_in_flight=6, on_full="retry", retry={"interval": "2s"})
    assert steps(proxy, desired) == ["change proxy-limits"]
    assert proxy.file() == {**FILE, "max_in_flight": 6, "on_full": "retry", "retry": {"attempts": 9, "interval": "2s"}}
    assert (proxy.settings.max_in_flight, proxy.settings.retry.attempts) == (6, 9)
    assert proxy.host.mode(CONFIG) == 0o600
    assert steps(proxy, desired) == []


def test_what_is_asked_for_no_more_is_as_before_the_first_run(proxy: Proxy) -> None:
    before = proxy.host.text(CONFIG)
    steps(proxy, request(max_in_flight=6))
    steps(proxy, request(on_full="retry"))
    assert proxy.file() == {**FILE, "on_full": "retry"}
    steps(proxy, absent())
    assert proxy.host.text(CONFIG) == before
    assert proxy.at_rest()
    assert proxy.host.paths("/var/lib/ballast") == ["/var/lib/ballast"]


def test_a_proxy_that_does_not_run_gets_its_file_alone(proxy: Proxy) -> None:
    proxy.running = False
    steps(proxy, request(max_in_flight=6))
    assert proxy.file()["max_in_flight"] == 6
    assert not proxy.at_rest()


def test_a_proxy_that_does_not_take_them_gets_its_file_back(proxy: Proxy) -> None:
    before = proxy.host.text(CONFIG)
    proxy.stubborn = True
    with pytest.raises(BallastError) as caught:
        steps(proxy, request(max_in_flight=6))
    assert caught.value.id == "pulls-node-proxy-refused"
    assert "left: nothing" in caught.value.text
    assert proxy.host.text(CONFIG) == before


def test_limits_that_the_proxy_would_refuse_are_refused_as_it_would(proxy: Proxy) -> None:
    with pytest.raises(Problems) as caught:
        steps(proxy, request(max_in_flight=-1, retry={"interval": "soon"}))
    assert [problem.id for problem in caught.value.problems] == ["pulls-limit", "pulls-duration"]
    assert proxy.host.effects == []


def test_without_a_proxy_the_role_is_named(proxy: Proxy) -> None:
    proxy.host.remove(CONFIG)
    with pytest.raises(BallastError) as caught:
        steps(proxy, request(max_in_flight=1))
    assert caught.value.id == "pulls-node-no-proxy"
    assert "ballast.kube.image_pull_proxy" in caught.value.remedy


def test_a_proxy_that_is_gone_is_forgotten(proxy: Proxy) -> None:
    steps(proxy, request(max_in_flight=6))
    proxy.host.remove(CONFIG)
    steps(proxy, absent())
    assert proxy.host.paths("/var/lib/ballast") == ["/var/lib/ballast"]


def test_killed_at_any_effect_the_next_run_brings_it_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for first, again in ((request(max_in_flight=6), absent()), (request(max_in_flight=6), request(max_in_flight=6))):
        for number in range(1, 30):
            proxy = Proxy(monkeypatch)
            proxy.host.on("sv", answer="")
            proxy.host.fail_at(number, torn=True)
            with suppress(Killed):
                steps(proxy, first)
            proxy.host.calm()
            steps(proxy, again)
            assert proxy.at_rest(), number
            assert steps(proxy, again) == [], number


def test_what_is_in_effect_is_what_the_running_one_says(proxy: Proxy) -> None:
    proxy.settings = Settings(**{**asdict(proxy.settings), "max_in_flight": 7})
    report: Any = ENGINE.report(Context(request(), proxy.host))
    host = report["host"]
    assert host["settings"]["join"] == {"value": True, "source": "default"}
    assert (host["running"], host["unread"]) == (True, "")
    proxy.running = False
    again: Any = ENGINE.report(Context(request(), proxy.host))
    assert again["host"]["settings"]["max_in_flight"] == {"value": 2, "source": CONFIG}
    assert "does not respond" in again["host"]["unread"]
