# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a node's service proxy answers about its production readiness, from what was read of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import Recorded
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.readiness import MEASURED, NO, YES
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.readiness_common import OpenFiles
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.deployment import readiness_answers as answers
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.deployment.info import read_params
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.deployment.readiness_answers import (
    Facts,
    Status,
    reading_of,
)
from tests.unit.fakes import FakeHost

STATUS = {
    "api": "followed",
    "api_lost": "",
    "failed": "",
    "families": [{"family": "IPv4", "last_change": 1.0, "behind": False}],
    "refused": [],
    "repairs": 2,
    "services": 3,
    "service_proxy_name": "ballast",
}


def facts(said: dict[str, Any], **more: Any) -> Facts:
    whole = Facts(
        state_dir="/var/lib/x",
        recorded=(Recorded("file", "/usr/local/bin/x", None, "file /usr/local/bin/x"),),
        unfinished=False,
        pid=77,
        log="/var/log/x",
        config="/etc/x.json",
        status=Status.parse({**STATUS, **said}),
        unlike=(),
        config_problem="",
        missing_packages=(),
        install="apt-get install x",
        metrics=(),
        metrics_place="http://127.0.0.1:10349/metrics",
        open_files=OpenFiles("the service proxy", 77, 20, 1024),
        version="abc",
    )
    return replace(whole, **more)


def test_one_that_works_answers_yes() -> None:
    reading = reading_of(facts({}))
    assert reading.present == ()
    assert {name: reading.answers[name].verdict for name in MEASURED} == dict.fromkeys(MEASURED, YES)
    assert "3 Services" in reading.answers["in_use"].text
    assert "remove the label value ballast" in reading.answers["disabling"].lines[0]


@pytest.mark.parametrize(
    ("said", "more", "mode", "answer"),
    [
        ({}, {"pid": None, "status": None}, answers.DOWN, "healthy"),
        ({"families": None}, {}, answers.DOWN, "healthy"),  # of another version
        ({}, {"config_problem": "oomScoreAdj: wrong"}, answers.SETTINGS_REFUSED, "healthy"),
        ({}, {"unlike": ("sync_seconds",)}, answers.SETTINGS_REFUSED, "healthy"),
        ({"api": "lost", "api_lost": "no answer"}, {}, answers.API_LOST, "dependencies"),
        ({"api": None}, {}, answers.API_LOST, "healthy"),  # before the first list
        ({"failed": "no nft"}, {}, answers.RULES_BEHIND, "healthy"),
        ({"families": [{"family": "IPv6", "behind": True}]}, {}, answers.RULES_BEHIND, "healthy"),
        ({"refused": [{"service": "a/b", "reason": "no"}]}, {}, answers.SERVICES_REFUSED, "healthy"),
        ({}, {"missing_packages": ("nftables",)}, answers.PACKAGES_MISSING, "dependencies"),
        ({}, {"unfinished": True}, answers.BROKEN_OFF, "failures"),
        ({}, {"open_files": OpenFiles("it", 77, 1000, 1024)}, None, "scale"),
    ],
)
def test_each_fault_is_its_failure_mode(
    said: dict[str, Any], more: dict[str, Any], mode: str | None, answer: str
) -> None:
    reading = reading_of(facts(said, **more))
    assert reading.present == ((mode,) if mode else ())
    assert reading.answers[answer].verdict == NO
    assert reading.answers[answer].remedy or answer == "failures"


def test_one_that_serves_nothing_is_not_in_use() -> None:
    assert reading_of(facts({"services": 0})).answers["in_use"].verdict == NO


def test_a_node_without_it_says_so() -> None:
    host = FakeHost()
    host.on("/usr/bin/python3", answer="\n", reads=True)
    host.on("nft")
    found = read_params(host, {"state_dir": "/var/lib/ballast/service-proxy", "readiness": True})
    assert {name: answer["verdict"] for name, answer in found["readiness"]["answers"].items()} == {"enabled": NO}
