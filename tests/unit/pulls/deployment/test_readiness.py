# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host in memory answers of the production readiness of its pull proxy: when all is well, and with each known failure."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._agent import program
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.readiness import ENABLED, MEASURED, REQUIRED
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.host.web import no_answer_error
from ansible_collections.ballast.kube.plugins.module_utils._core.service.services import service_pid
from ansible_collections.ballast.kube.plugins.module_utils._pulls.deployment.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._pulls.deployment.info import read_params
from ansible_collections.ballast.kube.plugins.module_utils._pulls.deployment.readiness_answers import Status
from tests.unit.cases import apply
from tests.unit.fakes import Killed
from tests.unit.pulls.deployment.machine import (
    CONFIG,
    LIMITS,
    MACHINES,
    STATE,
    SV,
    Proxy,
    deployment,
    listener,
    nothing,
)
from tests.unit.readings import BY_NAME, completed

FEATURE = BY_NAME["image_pull_proxy"]

METRICS = """\
ballast_pull_pulls_total{listener="n1"} 12
ballast_pull_failed_total{listener="n1"} 1
ballast_pull_wait_seconds_bucket{le="1.0",listener="n1"} 9
ballast_pull_wait_seconds_bucket{le="+Inf",listener="n1"} 10
"""
RUNTIME = "/run/n1/containerd.sock"
Row = dict[str, Any]


@pytest.fixture(autouse=True)
def _small_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which no file is read, and none changes meanwhile."""
    monkeypatch.setattr(program, "_sources", lambda _main, packages: dict.fromkeys(packages, b""))


class Host:
    """`in_flight` and `queued` are those that the proxy tells; `refused` is why nothing answers behind it."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.host = proxy.host
        self.in_flight: list[Row] = [_pull(3.5)]
        self.queued: list[Row] = []
        self.connections = 2
        self.refused: Exception | None = None
        settings = proxy.answer
        proxy.answer = lambda: {**settings(), **self._told()}  # type: ignore[method-assign]
        apply(ENGINE, deployment(metrics="127.0.0.1:9455"), self.host)
        self.host.answer(f"unix://{RUNTIME}:/", lambda url, _body: self._runtime(url))
        self.host.answer("http://127.0.0.1:9455/metrics", Response(status=200, body=METRICS.encode()))
        self.open_files(40)

    @property
    def pid(self) -> int:
        pid = service_pid(self.host, SV)
        assert pid is not None
        return pid

    def open_files(self, count: int) -> None:
        for number in range(count):
            self.host.given(f"/proc/{self.pid}/fd/{number}")
        self.host.given(f"/proc/{self.pid}/limits", "Max open files            100      4096   files\n")

    def read(self, **options: Any) -> dict[str, Any]:
        """As the module returns it; without an effect, and as the report takes it."""
        before = len(self.host.effects)
        reading: Any = read_params(self.host, {"state_dir": STATE, "readiness": True, **options})["readiness"]
        assert self.host.effects[before:] == []
        return completed(reading)

    def _told(self) -> dict[str, Any]:
        return {
            "max_in_flight": self.proxy.settings["max_in_flight"],
            "connections": self.connections,
            "listeners": [listener("n1")],
            "in_flight": self.in_flight,
            "queued": self.queued,
        }

    def _runtime(self, url: str) -> Response:
        error = self.refused or ConnectionResetError("it speaks HTTP/2 alone")
        raise no_answer_error("GET", url, error) from error


def _pull(seconds: float, name: str = "n1") -> Row:
    return {"listener": name, "seconds": seconds, "callers": 2, "image": "a"}


@pytest.fixture(params=sorted(MACHINES))
def made(request: pytest.FixtureRequest) -> Host:
    return Host(MACHINES[request.param]())


def verdicts(reading: dict[str, Any]) -> dict[str, str]:
    return {name: answer["verdict"] for name, answer in reading["answers"].items()}


def figures(answer: dict[str, Any]) -> dict[str, Any]:
    return {figure["name"]: figure["value"] for figure in answer["figures"]}


def test_where_none_is_installed_it_is_off() -> None:
    proxy = MACHINES["runit"]()
    result: Any = read_params(proxy.host, {"state_dir": STATE, "readiness": True})
    assert verdicts(result["readiness"]) == {ENABLED: "no"}
    assert "readiness" not in read_params(proxy.host, {"state_dir": STATE, "readiness": False})


def test_one_that_runs_is_ready(made: Host) -> None:
    made.queued = [_pull(1.25), _pull(0.5)]
    reading = made.read()
    assert verdicts(reading) == dict.fromkeys(MEASURED, "yes")
    assert reading["present"] == ()
    assert len(reading["versions"]["ballast-pull-proxy"]) == 12
    answers = reading["answers"]
    shown = figures(answers["healthy"])
    assert (shown["queued callers"], shown["longest current wait"], shown["pulls in flight, n1"]) == (
        4,
        1.25,
        1,
    )
    assert shown["pulls started at the runtime since its start"] == 12
    assert shown["callers that gave up since its start"] is None
    in_flight, files = answers["scale"]["figures"]
    assert (in_flight["value"], in_flight["limit"], files["value"], files["limit"]) == (1, 3, 40, 100)
    lines = answers["disabling"]["lines"]
    assert lines[0].startswith("point the kubelet of n1 back to its runtime")
    assert lines[1] == "remove service ballast-pull-proxy"
    assert lines[-1] == "remove directory /usr/local/lib/ballast-pull-proxy"


def test_one_that_nobody_asks_is_not_used(made: Host) -> None:
    made.connections = 0
    assert {name for name, verdict in verdicts(made.read()).items() if verdict != "yes"} == {"in_use"}


def test_without_metrics_there_are_no_distributions(made: Host) -> None:
    apply(ENGINE, deployment(), made.host)
    made.open_files(10)
    answer = made.read()["answers"]["healthy"]
    assert answer["verdict"] == "yes"
    assert "metrics are off" in answer["text"]
    assert not any(figure["buckets"] for figure in answer["figures"])


def test_metrics_that_do_not_answer_are_told(made: Host) -> None:
    made.host.answer("http://127.0.0.1:9455/metrics", Response(status=500, body=b""))
    assert "its metrics do not respond" in made.read()["answers"]["healthy"]["text"]


def test_pulls_above_a_limit_that_was_lowered_are_told(made: Host) -> None:
    made.in_flight = [_pull(1.0)] * 4
    scale = made.read()["answers"]["scale"]
    assert (scale["verdict"], scale["text"]) == ("no", "4 pulls are in flight; the limit is 3")


def test_a_record_that_cannot_be_read_is_not_taken_for_off(made: Host) -> None:
    made.host.given(f"{STATE}/ledger.jsonl", "nonsense\n")
    assert verdicts(made.read()) == {ENABLED: "unknown"}


def test_the_options_that_make_its_file_are_told_or_none(made: Host) -> None:
    text = made.host.text(CONFIG)
    options = read_params(made.host, {"state_dir": STATE, "readiness": False})["options"]
    assert options == {"listeners": [listener("n1")], **LIMITS, "metrics": "127.0.0.1:9455"}
    apply(ENGINE, nothing(), made.host)
    assert read_params(made.host, {"state_dir": STATE, "readiness": False})["options"] is None
    apply(ENGINE, deployment(**options), made.host)
    assert made.host.text(CONFIG) == text
    for edited in (text + "\n", text.replace("max_in_flight", "most_in_flight")):
        made.host.given(CONFIG, edited, mode=0o600)
        assert read_params(made.host, {"state_dir": STATE, "readiness": False})["options"] is None


# Failures


def _mute(made: Host) -> None:
    made.proxy.mute = lambda: True


def _other_form(made: Host) -> None:
    made.in_flight = [{"seconds": "long"}]


def _edited(made: Host) -> None:
    made.proxy.deaf = True
    made.host.given(CONFIG, made.host.text(CONFIG).replace('"max_in_flight": 3', '"max_in_flight": 7'), mode=0o600)


def _spoilt(made: Host) -> None:
    settings = made.proxy.answer()
    made.proxy.answer = lambda: settings  # type: ignore[method-assign]
    text = made.host.text(CONFIG)
    made.host.given_listener("/run/ballast-pull-proxy/control", lambda: json.dumps(settings))
    made.host.given(CONFIG, text.replace('"max_in_flight": 3', '"max_in_flight": -3'), mode=0o600)


def _refused(made: Host) -> None:
    made.refused = ConnectionRefusedError(111, "Connection refused")


def _gone(made: Host) -> None:
    made.refused = FileNotFoundError(2, "No such file or directory")


def _waits(made: Host) -> None:
    made.queued = [_pull(601.0)]


def _files(made: Host) -> None:
    made.open_files(95)


def _packages(made: Host) -> None:
    made.host.on("/usr/bin/python3", answer="grpc\n", reads=True)


def _killed(made: Host) -> None:
    made.host.fail_at(4)
    with pytest.raises(Killed):
        apply(ENGINE, deployment(max_in_flight=9), made.host)
    made.host.calm()


FAILURES: list[tuple[Callable[[Host], None], str, str]] = [
    (_mute, "pull-proxy-down", "does not respond"),
    (_other_form, "pull-proxy-down", "like a pull proxy of this version"),
    (_edited, "pull-proxy-settings-refused", f"its values of max_in_flight differ from {CONFIG}"),
    (_spoilt, "pull-proxy-settings-refused", "max_in_flight: -3 is not a number of pulls"),
    (_refused, "pull-proxy-runtime-away", f"n1: nothing responds at {RUNTIME}"),
    (_gone, "pull-proxy-runtime-away", f"n1: nothing responds at {RUNTIME}"),
    (_waits, "pull-proxy-waits-long", "a pull has waited for 601 s"),
    (_files, "pull-proxy-out-of-files", "has 95 of at most 100 files open"),
    (_packages, "pull-proxy-packages-missing", "python3-grpcio"),
    (_killed, "pull-proxy-broken-off", "an interrupted run"),
]


@pytest.mark.parametrize(("cause", "id", "words"), FAILURES)
def test_a_known_failure_is_found(made: Host, cause: Callable[[Host], None], id: str, words: str) -> None:
    assert made.read()["present"] == ()
    cause(made)
    reading = made.read()
    assert reading["present"] == (id,)
    failures = reading["answers"]["failures"]
    assert failures["verdict"] == "no"
    assert FEATURE.modes([id])[0].mitigation in failures["remedy"]
    assert any(line.startswith(f"{id}: ") and words in line for line in failures["lines"])
    assert set(verdicts(reading)) == set(MEASURED)
    assert all(reading["answers"][name]["remedy"] for name in REQUIRED if verdicts(reading)[name] != "yes")


def test_every_failure_that_is_found_is_known_and_the_other_way_round() -> None:
    assert {id for _cause, id, _words in FAILURES} == {mode.id for mode in FEATURE.failures}


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["callers", "seconds", "listener", "name"]), inner),
    max_leaves=8,
)


@given(st.fixed_dictionaries(dict.fromkeys(("max_in_flight", "connections", "in_flight", "queued", "listeners"), _ANY)))
def test_whatever_a_proxy_tells_is_a_status_or_none(document: dict[str, Any]) -> None:
    status = Status.parse(document)
    assert status is None or status.max_in_flight >= 0
    assert Status.parse([document]) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"connections": True},
        {"max_in_flight": -1},
        {"queued": [{"listener": "n1", "seconds": 1.0, "callers": -1}]},
        {"in_flight": [{"listener": "n1", "seconds": float("nan")}]},
        {"listeners": [{}]},
    ],
)
def test_what_is_no_status_is_none(changes: dict[str, Any]) -> None:
    whole = {"max_in_flight": 0, "connections": 0, "in_flight": [], "queued": [], "listeners": []}
    assert Status.parse(whole) == Status(0, 0, (), (), 0, ())
    assert Status.parse({**whole, **changes}) is None
