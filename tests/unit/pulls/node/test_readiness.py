# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a node in memory answers of the production readiness of its limits: when all is well, and with each known failure."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.readiness import ENABLED, MEASURED, REQUIRED
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.info import read_params
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.model import HOST_SPEC, INFO_SPEC
from tests.unit import cases
from tests.unit.fakes import Killed, json_answer
from tests.unit.pulls.node.fake_node import (
    CONFIG_DIR,
    CONTAINERD,
    CONTAINERD_FILE,
    HEAD,
    KUBELET,
    KUBELET_API,
    KUBELET_FILE,
    MAIN,
    MAIN_V3,
    STATE,
    Node,
    params,
)
from tests.unit.readings import BY_NAME, completed

FEATURE = BY_NAME["image_pulls"]

LIMITS: dict[str, Any] = {"max_parallel_image_pulls": 5, "runtime": {"max_concurrent_downloads": 8}}
SOCKET = "/run/ballast-pull-proxy/n1.sock"
BEHIND: dict[str, Any] = {"image_service_endpoint": SOCKET, "serialize_image_pulls": False, "registry_pull_qps": 0}
METRICS = """\
kubernetes_build_info{git_version="v1.37.1",major="1"} 1
kubelet_runtime_operations_total{operation_type="pull_image"} 12
kubelet_runtime_operations_total{operation_type="version"} 900
kubelet_runtime_operations_errors_total{operation_type="pull_image"} 2
kubelet_image_pull_duration_seconds_bucket{image_size_in_bytes="0-10MB",le="1"} 6
kubelet_image_pull_duration_seconds_bucket{image_size_in_bytes="0-10MB",le="10"} 10
kubelet_image_pull_duration_seconds_bucket{image_size_in_bytes="0-10MB",le="+Inf"} 10
"""


def node(**changes: Any) -> Node:
    made = Node(**changes)
    made.host.answer(f"{KUBELET_API}/metrics", lambda _url, _body: _metrics(made))
    return made


def _metrics(made: Node) -> Response:
    return json_answer(403, {"message": "no"}) if made.deaf else Response(status=200, body=METRICS.encode())


def limited(**options: Any) -> Node:
    made = node()
    cases.apply(ENGINE, made.request(**(options or LIMITS)), made.host)
    _open_files(made, 40)
    return made


def behind() -> Node:
    made = node()
    made.host.given("/etc/ballast/pull-proxy.json", json.dumps({"listeners": [], "max_in_flight": 3}))
    answer = json.dumps({"settings": dict.fromkeys(HOST_SPEC)})
    made.host.given_listener("/run/ballast-pull-proxy/control", lambda: answer)
    made.host.given(SOCKET)
    made.host._nodes[SOCKET].kind = "socket"
    cases.apply(ENGINE, made.request(**BEHIND), made.host)
    _open_files(made, 40)
    return made


def _open_files(made: Node, count: int) -> None:
    proc = f"/proc/{made.containerd_pid()}"
    for number in range(count):
        made.host.given(f"{proc}/fd/{number}")
    made.host.given(
        f"{proc}/limits", "Limit  Soft Limit  Hard Limit  Units\nMax open files            100      4096   files\n"
    )


def read(made: Node, **options: Any) -> dict[str, Any]:
    """As the module returns it; without an effect, and as the report takes it."""
    before = len(made.host.effects)
    given = {name: params().get(name, row.get("default")) for name, row in INFO_SPEC.items()}
    reading: Any = read_params(made.host, {**given, "readiness": True, **options})["readiness"]
    assert made.host.effects[before:] == []
    return completed(reading)


def verdicts(reading: dict[str, Any]) -> dict[str, str]:
    return {name: answer["verdict"] for name, answer in reading["answers"].items()}


def test_without_limits_it_is_off_and_needs_nothing() -> None:
    made = node()
    assert list(read(made)["answers"]) == [ENABLED]
    reading = read(made, kubelet_service="/etc/sv/none", runtime_service="/etc/sv/none", kubeconfig=None)
    assert verdicts(reading) == {ENABLED: "no"}


def test_it_is_not_asked_for_unless_it_is_wanted() -> None:
    made = limited()
    given = {name: params().get(name, row.get("default")) for name, row in INFO_SPEC.items()}
    before = len(made.host.requests)
    assert "readiness" not in read_params(made.host, given)
    assert not any("metrics" in url for _method, url, _body in made.host.requests[before:])


def test_limits_that_are_in_effect_are_ready() -> None:
    reading = read(limited())
    assert verdicts(reading) == dict.fromkeys(MEASURED, "yes")
    assert reading["present"] == ()
    assert reading["versions"] == {"kubelet": "v1.37.1", "containerd": "2.3"}
    answers = reading["answers"]
    assert answers["disabling"]["lines"] == (
        f"remove the kubelet's drop-in {KUBELET_FILE}",
        f"remove containerd's drop-in {CONTAINERD_FILE}",
    )
    assert "restarts runtime and kubelet" in answers["disabling"]["text"]
    duration, failed = answers["healthy"]["figures"]
    assert [bucket["count"] for bucket in duration["buckets"]] == [6, 10, 10]
    assert (duration["value"], failed["value"]) == (pytest.approx(9.775), 2)
    files = answers["scale"]["figures"][0]
    assert (files["value"], files["limit"]) == (40, 100)
    assert answers["in_use"]["figures"][0]["value"] == 12


def test_behind_the_proxy() -> None:
    assert verdicts(read(behind())) == dict.fromkeys(MEASURED, "yes")


def test_behind_a_proxy_of_somebody_else_its_socket_counts() -> None:
    made = behind()
    made.host.remove("/etc/ballast/pull-proxy.json")
    made.host.effects.clear()
    assert verdicts(read(made)) == dict.fromkeys(MEASURED, "yes")


def test_what_cannot_be_read_is_not_taken_for_well() -> None:
    made = limited()
    made.deaf = True
    reading = read(made)
    assert {name for name, verdict in verdicts(reading).items() if verdict != "yes"} == {"in_use", "healthy"}
    assert verdicts(reading)["healthy"] == "unknown"
    assert "nodes/configz" in reading["answers"]["healthy"]["remedy"]
    assert reading["answers"]["healthy"]["figures"][0]["value"] is None


def test_a_record_that_cannot_be_read_is_not_taken_for_off() -> None:
    made = limited()
    made.host.given(f"{STATE}/ledger.jsonl", '{"op": "recorded", "kind": "of another version", "target": "x"}\n')
    reading = read(made)
    assert verdicts(reading) == {ENABLED: "unknown"}
    assert reading["answers"][ENABLED]["remedy"]


def test_files_without_end_are_told() -> None:
    made = limited()
    _open_files(made, 95)
    assert read(made)["answers"]["scale"]["verdict"] == "no"


# Failures


def _flag(made: Node) -> None:
    made.flags = (*made.flags, "--serialize-image-pulls=false")
    made.services.host.processes[made.kubelet_pid()].argv = made.argv("kubelet")


def _later_file(made: Node) -> None:
    made.host.given(f"{CONFIG_DIR}/99-other.conf", f"{HEAD}maxParallelImagePulls: 9\nserializeImagePulls: false\n")
    made.effective["maxParallelImagePulls"] = 9


def _lost_file(made: Node) -> None:
    made.host.remove(CONTAINERD_FILE)
    made.host.effects.clear()


def _kubelet_ends(made: Node) -> None:
    made.host.given(f"{KUBELET}/supervise/stat", "down\n")


def _no_cri(made: Node) -> None:
    made.broken_cri = True


def _unreadable(made: Node) -> None:
    made.host.on(f"/proc/{made.containerd_pid()}/exe", "--config", MAIN, "config", "dump", answer=1, reads=True)


def _number(made: Node) -> None:
    made.host.given(MAIN, f"{MAIN_V3}\n[plugins.'io.containerd.cri.v1.images']\n  max_concurrent_downloads = 9\n")


def _killed(made: Node) -> None:
    made.host.fail_at(8)
    with pytest.raises(Killed):
        cases.apply(ENGINE, made.request(**{**LIMITS, "max_parallel_image_pulls": 6}), made.host)
    made.host.calm()


def _serial(made: Node) -> None:
    made.effective["serializeImagePulls"] = True


def _no_answer(made: Node) -> None:
    made.host.given_listener("/run/ballast-pull-proxy/control", lambda: None)


def _no_socket(made: Node) -> None:
    made.host.remove(SOCKET)
    made.host.effects.clear()


@pytest.mark.parametrize(
    ("make", "cause", "id", "words"),
    [
        (limited, _flag, "image-pulls-flag-wins", "serializeImagePulls is set by --serialize-image-pulls of process"),
        (
            limited,
            _later_file,
            "image-pulls-not-in-effect",
            "maxParallelImagePulls of the kubelet is 9, and was set to 5",
        ),
        (limited, _lost_file, "image-pulls-not-in-effect", f"{CONTAINERD_FILE} is not there"),
        (limited, _kubelet_ends, "image-pulls-kubelet-unhealthy", "the kubelet is not running"),
        (limited, _no_cri, "image-pulls-runtime-unhealthy", "plugin io.containerd.grpc.v1.cri: error"),
        (limited, _unreadable, "image-pulls-runtime-unhealthy", "config dump"),
        (limited, _number, "image-pulls-other-way", "without its transfer service"),
        (limited, _killed, "image-pulls-broken-off", "an interrupted run"),
        (behind, _serial, "image-pulls-serial-behind-proxy", "serializeImagePulls is true"),
        (behind, _no_answer, "image-pulls-proxy-away", "the pull proxy of this host does not respond"),
        (behind, _no_socket, "image-pulls-proxy-away", f"socket {SOCKET} does not exist"),
    ],
)
def test_a_known_failure_is_found(make: Callable[[], Node], cause: Callable[[Node], None], id: str, words: str) -> None:
    made = make()
    assert read(made)["present"] == ()
    cause(made)
    reading = read(made)
    assert id in reading["present"]
    failures = reading["answers"]["failures"]
    assert failures["verdict"] == "no"
    assert FEATURE.modes([id])[0].mitigation in failures["remedy"]
    assert any(line.startswith(f"{id}: ") and words in line for line in failures["lines"])
    assert set(verdicts(reading)) == set(MEASURED)
    assert all(reading["answers"][name]["remedy"] for name in REQUIRED if verdicts(reading)[name] != "yes")


def test_every_failure_that_is_found_is_known_and_the_other_way_round() -> None:
    cases_of = test_a_known_failure_is_found.pytestmark[0].args[1]  # type: ignore[attr-defined]
    assert {case[2] for case in cases_of} == {mode.id for mode in FEATURE.failures}


def test_a_containerd_that_does_not_run_is_a_dependency() -> None:
    made = limited()
    made.host.given(f"{CONTAINERD}/supervise/stat", "down\n")
    reading = read(made)
    assert reading["answers"]["dependencies"]["verdict"] == "no"
    assert "the directory of the runit service" in reading["answers"]["dependencies"]["remedy"]
    assert verdicts(reading)["scale"] == "unknown"
