# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Aggregation as part of a control plane: what it makes on a machine and in the API, and what a change does."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.aggregation import deployment
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.aggregation.agent.settings import (
    parse_settings,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.aggregation.objects import (
    find_authority_problems,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.info.read import read_params
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.service.services import service_pid
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from tests.unit.control_plane import given as plane_given
from tests.unit.control_plane.aggregated import issue
from tests.unit.control_plane.given import STATE_DIR, Machine, desired, flags, told

CA = "/etc/wardle/ca.crt"
ENTRY = {
    "name": "v1.wardle.example.com",
    "service": "wardle",
    "namespace": "default",
    "address": "127.0.0.1:8443",
    "ca": CA,
}
OBJECT = "/apis/apiregistration.k8s.io/v1/apiservices/v1.wardle.example.com"
TARGET = f"{STATE_DIR}/sv/ballast-lab-aggregation"
GENERIC: dict[str, Any] = {"profile": "generic", "aggregation": [ENTRY]}


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> str:
    return issue(tmp_path_factory.mktemp("ca") / "ca.crt", None).read_text(encoding="ascii")


class Agent:
    """Takes its file when it is started, and when it is sent HUP, as the program tells it by its status."""

    def __init__(self, machine: Machine, pem: str) -> None:
        self.machine = machine
        self.answers = True
        machine.host.given(CA, pem)
        machine.host.given_listener("/run/ballast-lab-aggregation/control", self._status)

    @property
    def config(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.machine.host.text(f"{STATE_DIR}/config/aggregation.json"))
        return found

    def _status(self) -> Optional[str]:
        if not self.answers or service_pid(self.machine.host, TARGET) is None:
            return None
        settings = asdict(parse_settings(json.dumps(self.config), name="the agent's"))
        return json.dumps({"settings": settings, "api_services": [{"name": "v1.a.b"}]})


@pytest.fixture(params=["runit", "systemd"])
def agent(request: pytest.FixtureRequest, pem: str) -> Agent:
    return Agent(Machine(systemd=request.param == "systemd"), pem)


def test_the_api_server_dials_through_the_agent_and_the_agent_knows_where(agent: Agent) -> None:
    machine = agent.machine
    machine.run(**GENERIC)
    host = machine.host
    service = json.loads(host.text(f"{STATE_DIR}/sv/ballast-lab-generic-apiserver/ballast.json"))
    path = flags(tuple(service["argv"]))["egress-selector-config-file"]
    egress = json.loads(host.text(path))
    (selection,) = egress["egressSelections"]
    assert selection["name"] == "cluster"
    socket = "/run/ballast-lab-aggregation/egress"
    assert selection["connection"] == {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": socket}}}
    assert agent.config["socket"] == socket
    assert agent.config["services"] == [{"host": "wardle.default.svc", "port": 443, "address": "127.0.0.1:8443"}]
    assert host.mode(f"{STATE_DIR}/config/aggregation.json") == 0o600
    assert host.mode(agent.config["kubeconfig"]) == 0o600
    assert host.stat("/run/ballast-lab-aggregation").mode == 0o700
    assert json.loads(host.text(f"{TARGET}/ballast.json"))["reloads"]
    assert machine.run(**GENERIC) == []


def test_the_agent_may_read_api_services_and_write_their_status_and_no_more(agent: Agent) -> None:
    agent.machine.run(**GENERIC)
    objects = agent.machine.api.objects
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rules = objects[f"{rbac}/clusterroles/ballast:aggregation"]["rules"]
    group = ["apiregistration.k8s.io"]
    assert rules == [
        {"apiGroups": group, "resources": ["apiservices"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": group, "resources": ["apiservices/status"], "verbs": ["update"]},
    ]
    (subject,) = objects[f"{rbac}/clusterrolebindings/ballast:aggregation"]["subjects"]
    assert subject == {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ballast:aggregation"}
    assert deployment.certificate(desired(**GENERIC)).common_name == "ballast:aggregation"


def test_the_api_service_has_the_authority_of_the_file(agent: Agent, pem: str) -> None:
    machine = agent.machine
    machine.run(**GENERIC)
    spec = machine.api.objects[OBJECT]["spec"]
    assert base64.b64decode(spec["caBundle"]).decode() == pem
    assert spec["service"] == {"name": "wardle", "namespace": "default", "port": 443}
    assert (spec["groupPriorityMinimum"], spec["versionPriority"]) == (1000, 15)
    machine.host.given(CA, pem + pem)
    assert told(machine.run(**GENERIC)) == ["change api-service v1.wardle.example.com"]
    assert base64.b64decode(machine.api.objects[OBJECT]["spec"]["caBundle"]).decode() == pem + pem
    machine.api.objects[OBJECT]["spec"]["insecureSkipTLSVerify"] = True  # by somebody else
    assert told(machine.run(**GENERIC)) == ["change api-service v1.wardle.example.com"]


def test_a_change_of_the_list_is_told_to_the_agent_that_runs(agent: Agent) -> None:
    machine = agent.machine
    machine.run(**GENERIC)
    pid = service_pid(machine.host, TARGET)
    second = {**ENTRY, "name": "v1.other.example.com", "service": "other", "address": "127.0.0.1:9443"}
    steps = told(machine.run(profile="generic", aggregation=[ENTRY, second]))
    assert steps == ["change aggregation-agent ballast-lab-aggregation", "make api-service v1.other.example.com"]
    assert service_pid(machine.host, TARGET) == pid
    assert len(agent.config["services"]) == 2
    assert "metrics" not in agent.config
    assert (
        told(machine.run(profile="generic", aggregation=[ENTRY, second], aggregation_metrics="127.0.0.1:9"))
        == steps[:1]
    )
    assert agent.config["metrics"] == "127.0.0.1:9"
    pid = service_pid(machine.host, TARGET)
    steps = told(machine.run(**GENERIC))
    assert steps == ["remove api-service v1.other.example.com", "change aggregation-agent ballast-lab-aggregation"]
    assert "/apis/apiregistration.k8s.io/v1/apiservices/v1.other.example.com" not in machine.api.objects


def test_without_a_list_nothing_of_the_list_stays_and_the_agent_keeps_the_conditions(agent: Agent) -> None:
    machine = agent.machine
    machine.run(**GENERIC)
    machine.run(profile="generic", aggregation=True)
    assert OBJECT not in machine.api.objects
    assert [path for path in machine.host.paths() if "egress" in path] == []
    service = json.loads(machine.host.text(f"{STATE_DIR}/sv/ballast-lab-generic-apiserver/ballast.json"))
    assert "egress-selector-config-file" not in flags(tuple(service["argv"]))
    assert agent.config.keys() == {"kubeconfig", "certificate", "key"}
    assert service_pid(machine.host, TARGET) is not None


@pytest.mark.parametrize(
    ("options", "keeps"),
    [
        # kube-apiserver and hyper-mini have kube-aggregator's controller.
        ({"profile": "full"}, False),
        ({"profile": "hyper-mini"}, False),
        ({"profile": "generic", "deployment_mode": "all_in_one"}, False),
        ({"profile": "minimal", "deployment_mode": "all_in_one"}, False),
        ({"profile": "hyper-mini", "aggregation": False}, False),
        ({"profile": "generic"}, True),
        ({"profile": "minimal"}, True),
        ({"profile": "generic", "aggregation": []}, True),
        # Through the egress selector of a list hyper-mini dials no names.
        ({"profile": "hyper-mini", "aggregation": [ENTRY]}, True),
    ],
)
def test_in_every_profile_that_serves_aggregation_something_keeps_the_conditions(
    options: dict[str, Any], keeps: bool
) -> None:
    assert desired(**options).has_agent is keeps


def test_who_reads_the_control_plane_sees_the_agent_and_what_it_says(agent: Agent) -> None:
    machine = agent.machine
    reading = {"state_dir": STATE_DIR}
    machine.run(profile="hyper-mini")
    assert read_params(machine.host, reading)["aggregation"] is None
    machine.run(**GENERIC)
    found = read_params(machine.host, reading)
    assert found["aggregation"] == {
        "command": f"{STATE_DIR}/lib/ballast-lab-aggregation",
        "log": f"{STATE_DIR}/log/aggregation.log",
        "pid": service_pid(machine.host, TARGET),
        "api_services": [{"name": "v1.a.b"}],
        "problems": [],
    }
    machine.run(**GENERIC, state="stopped")
    told_of = read_params(machine.host, reading)["aggregation"]
    assert isinstance(told_of, dict)
    assert (told_of["pid"], told_of["api_services"]) == (None, None)


def test_it_stops_starts_and_goes_with_its_control_plane(agent: Agent) -> None:
    machine = agent.machine
    machine.run(**GENERIC)
    machine.run(**GENERIC, state="stopped")
    assert service_pid(machine.host, TARGET) is None
    assert machine.run(**GENERIC, state="stopped") == []
    # What is told to one that is down is not asked for an answer.
    agent.answers = False
    before = machine.host.monotonic()
    machine.run(profile="generic", aggregation=[{**ENTRY, "address": "127.0.0.1:1"}], state="stopped")
    assert machine.host.monotonic() - before < 30
    agent.answers = True
    machine.run(**GENERIC)
    assert service_pid(machine.host, TARGET) is not None
    machine.run(**GENERIC, state="absent")
    assert [path for path in machine.host.paths() if "aggregation" in path] == []
    assert OBJECT in machine.api.objects  # it went with the data of etcd


def test_an_agent_that_does_not_take_its_settings_is_a_finding(agent: Agent) -> None:
    agent.answers = False
    wanted = desired(**GENERIC)
    engine, host = plane_given.ENGINE, agent.machine.host
    engine.apply(
        engine.plan(wanted, engine.observe(Context(wanted, host))), Context(wanted, host, plane_given.PROGRESS)
    )
    (finding,) = engine.verify(Context(wanted, host, plane_given.PROGRESS))
    assert finding.id == "plane-aggregation-deploy-settings"
    assert finding.blocking


@pytest.mark.parametrize(
    ("content", "fault"), [(None, "does not exist"), ("no PEM", "certificate"), ("\xff", "ascii"), ("", "")]
)
def test_a_file_that_holds_no_authority_is_told_before_anything_is_done(
    agent: Agent, content: str | None, fault: str
) -> None:
    host = agent.machine.host
    if content is None:
        host.remove(CA)
    else:
        host.given(CA, content.encode("latin-1"))
    (problem,) = find_authority_problems(host, desired(**GENERIC).api_services)
    assert problem.id == "plane-api-service-ca"
    assert fault in problem.found
    assert problem.found != ""
    with pytest.raises(BallastError, match="is not a PEM file"):
        agent.machine.run(**GENERIC)


def test_the_profile_full_refuses_a_list(agent: Agent) -> None:
    with pytest.raises(BallastError) as caught:
        desired(profile="full", aggregation=[ENTRY])
    assert caught.value.id == "plane-aggregation-full"


# The agent's own file.

FILE = {
    "kubeconfig": "/etc/k",
    "socket": "/run/x/egress",
    "certificate": "/p.crt",
    "key": "/p.key",
    "services": [{"host": "wardle.default.svc", "port": 443, "address": "[::1]:8443"}],
}


def test_its_settings_have_defaults() -> None:
    found = parse_settings(json.dumps(FILE), name="f")
    assert (found.interval, found.metrics) == (5.0, None)
    assert parse_settings(json.dumps({**FILE, "interval": "2s", "metrics": "127.0.0.1:1"}), name="f").interval == 2.0


@pytest.mark.parametrize(
    ("changes", "ids"),
    [
        ({"sockets": 1}, ["key"]),
        ({"services": []}, ["value"]),
        ({"services": [{"host": "a", "port": 0, "address": "localhost:1"}]}, ["value"] * 3),
        ({"services": [FILE["services"][0]] * 2}, ["service-twice"]),
        ({"services": [{"host": 1, "port": True, "address": 1}]}, ["value"] * 3),
        ({"socket": "egress", "interval": "100ms"}, ["value", "value"]),
        ({"metrics": "0.0.0.0:1"}, ["metrics"]),
        ({"kubeconfig": None, "key": None, "certificate": "a\nb"}, ["missing", "value", "missing"]),
    ],
)
def test_its_settings_are_read_strictly(changes: dict[str, Any], ids: list[str]) -> None:
    with pytest.raises(BallastError) as caught:
        parse_settings(json.dumps({**FILE, **changes}), name="f")
    problems = caught.value.problems if isinstance(caught.value, Problems) else (caught.value,)
    assert [problem.id.removeprefix("plane-aggregation-") for problem in problems] == ids
