# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What instances need before they are made, and when they are ready."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from ansible_collections.ballast.kube.plugins.module_utils._instance.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._instance.model import InstancesRequest
from tests.unit.cases import apply, require
from tests.unit.fake_supervisors import given_service
from tests.unit.fakes import FakeHost, json_answer
from tests.unit.instance import given as g
from tests.unit.instance.kernel import Kernel

PROGRESS = Progress(NullSink(), feature="test")


def needs(desired: InstancesRequest, host: Kernel) -> list[str]:
    try:
        require(ENGINE, desired, host)
    except Problems as problems:
        return [problem.id for problem in problems.problems]
    except BallastError as error:
        return [error.id]
    return []


def test_credentials_that_are_empty_are_none() -> None:
    """As where Ansible's user may not read those that root has."""
    whole = g.credentials("n1")
    host = g.machine()
    assert needs(g.desired(1, ca=""), host) == ["instance-no-credentials"]
    lacking = {name: "" if name == "kubelet_key" else text for name, text in whole.items()}
    assert needs(g.desired(1, credentials=[lacking]), host) == ["instance-no-credentials"]


def test_everything_that_is_not_there_is_told_at_once() -> None:
    host = Kernel()
    assert needs(g.desired(2, credentials=[g.credentials("n2")]), host) == [
        "instance-no-credentials",
        "instance-no-binary",
        "instance-no-bridge",
    ]
    assert host.effects == []
    assert needs(g.desired(2), g.machine()) == []
    assert needs(g.desired(state="absent"), host) == []


def findings(host: Kernel, desired: InstancesRequest) -> list[tuple[str, str, str]]:
    apply(ENGINE, desired, host)
    return [(found.id, found.subject, found.text) for found in ENGINE.verify(Context(desired, host, PROGRESS))]


def test_an_instance_is_ready_when_its_node_and_its_proxy_say_so(host: Kernel) -> None:
    g.answer_ready(host, 2)
    assert findings(host, g.desired(2)) == []
    report = ENGINE.report(Context(g.desired(2), host))["instances"]
    assert isinstance(report, list)
    assert [(row["name"], row["ready"], row["kubelet_version"]) for row in report] == [
        ("n1", True, "v1.37.1+lab"),
        ("n2", True, "v1.37.1+lab"),
    ]
    assert set(report[0]["pids"]) == {"containerd", "kubelet", "kube-proxy"}
    assert ENGINE.verify(Context(g.desired(state="absent"), host, PROGRESS)) == []


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (json_answer(404, {}), "the kubelet has not registered its Node yet"),
        (json_answer(403, {}), "the API server returns status 403 for its Node"),
        (json_answer(200, g.node(ready="False", message="network plugin not ready")), "network plugin not ready"),
        (json_answer(200, {}), "its Node has no condition Ready yet"),
        (json_answer(200, g.node(heartbeat="2020-01-01T00:00:00Z")), "is older than the kubelet's start"),
        (json_answer(200, g.node(heartbeat="yesterday")), "is older than the kubelet's start"),
        (None, "Connection refused"),
    ],
)
def test_a_node_that_does_not_become_ready_is_told_with_what_was_seen(answer: Response, told: str) -> None:
    host = g.machine()
    if answer is not None:
        host.answer("https://10.97.0.1:6443/api/v1/nodes/n1", answer)
    [(id, subject, text)] = findings(host, g.desired(ready_seconds=3.0))
    assert (id, subject) == ("instance-not-ready", "node n1")
    assert told in text


def test_a_proxy_that_is_not_well_is_told_as_such() -> None:
    host = g.machine()
    host.answer("https://10.97.0.1:6443/api/v1/nodes/n1", json_answer(200, g.node()))
    [(id, _subject, text)] = findings(host, g.desired(ready_seconds=3.0))
    assert id == "instance-proxy"
    assert "Connection refused" in text
    host.answer("http://10.97.0.11:10256/healthz", Response(status=503, body=b""))
    [(id, _subject, text)] = findings(host, g.desired(ready_seconds=3.0))
    assert (id, "503" in text) == ("instance-proxy", True)


def test_a_service_that_does_not_stay_up_ends_the_waiting_at_once() -> None:
    host = g.machine()
    apply(ENGINE, g.desired(), host)
    path = next(path for path in host.paths(g.STATE) if path.endswith("n1-kubelet/supervise/pid"))
    host.given(f"{g.STATE}/n1/log/kubelet.log", "it cannot\n")
    sv = path.removesuffix("/supervise/pid")
    host.on_sleep.append(lambda: host.given(path, f"{given_service(host, sv)}\n"))
    began = host.monotonic()
    [found] = ENGINE.verify(Context(g.desired(ready_seconds=180.0), host, PROGRESS))
    assert found.id == "instance-service-fails"
    assert "kubelet keeps failing" in found.text
    assert "it cannot" in found.text
    assert found.remedy.endswith("/n1/log/kubelet.log")
    assert host.monotonic() - began < 5


@pytest.mark.parametrize(
    ("fragment", "is_of_this_start", "found"),
    [
        ({"maxPod": 20}, True, 'its kubelet ignores a part of its configuration (unknown field "maxPod")'),
        ({"maxPods": 20}, False, ""),  # an earlier kubelet, before the file was corrected
        ({}, True, ""),  # nothing of the user's
    ],
)
def test_keys_that_a_kubelet_ignores_are_reported(fragment: object, is_of_this_start: bool, found: str) -> None:
    host = g.machine()
    g.answer_ready(host)
    desired = g.desired(instances=[g.instance(1, kubelet=fragment)])
    apply(ENGINE, desired, host)
    pid = int(host.text(f"{g.STATE}/n1/sv/ballast-lab-n1-kubelet/supervise/pid"))
    said = 'err="strict decoding error: unknown field \\"maxPod\\""'
    line = (
        f'I1129 04:32:10.633724    {pid if is_of_this_start else pid + 1} codec.go:102] "Using lenient decoding" {said}'
    )
    host.given(f"{g.STATE}/n1/log/kubelet.log", f"{line}\nI1129 04:32:11.416102    {pid} server.go:545] other\n")
    findings = ENGINE.verify(Context(desired, host, PROGRESS))
    assert [(one.id, one.text) for one in findings] == ([("instance-kubelet-unknown", found)] if found else [])


def test_containerd_that_does_not_answer_is_an_error() -> None:
    host = g.machine()
    host.supervisor.crashing.add("ballast-lab-n1-containerd")
    with pytest.raises(BallastError) as caught:
        apply(ENGINE, g.desired(), host)
    assert caught.value.id in ("instance-containerd", "core-supervisor")


def test_seconds_to_ready_are_noted_once_for_each_start() -> None:
    host = g.machine()
    g.answer_ready(host)
    apply(ENGINE, g.desired(), host)
    target = f"{g.STATE}/n1/sv/ballast-lab-n1-kubelet"
    pid = int(host.text(f"{target}/supervise/pid"))
    host.given(f"/proc/{pid}/stat", f"{pid} (kube let) S " + " ".join(["1"] * 18) + " 9750 1\n")
    ENGINE.verify(Context(g.desired(), host, PROGRESS))
    noted = host.text(f"{g.STATE}/n1/ready.json")
    assert noted == f'{{"pid": {pid}, "seconds": 2.5}}'
    host.given("/proc/uptime", "900.0 1.0\n")
    done = len(host.effects)
    ENGINE.verify(Context(g.desired(), host, PROGRESS))
    assert host.effects[done:] == []
    assert host.text(f"{g.STATE}/n1/ready.json") == noted


def test_memory_is_that_of_the_services_and_their_shims() -> None:
    host = g.machine()
    apply(ENGINE, g.desired(), host)
    for name, kib in (("containerd", 100), ("kubelet", 50)):
        pid = host.given_process([name])
        host.make_directory(f"/sys/fs/cgroup/ballast-lab-n1/{name}")
        host.write_kernel_file(f"/sys/fs/cgroup/ballast-lab-n1/{name}/cgroup.procs", str(pid))
        host.given(f"/proc/{pid}/smaps_rollup", f"Rss: 900 kB\nPss:  {kib} kB\nPss_Anon: 7 kB\n")
    pod = host.given_process(["pod"])
    host.make_directory("/sys/fs/cgroup/ballast-lab-n1/kubepods")
    host.write_kernel_file("/sys/fs/cgroup/ballast-lab-n1/kubepods/cgroup.procs", str(pod))
    host.given(f"/proc/{pod}/smaps_rollup", "Pss: 9999 kB\n")
    report = ENGINE.report(Context(g.desired(), host))["instances"]
    assert isinstance(report, list)
    assert report[0]["pss_bytes"] == 150 * 1024


def test_a_plan_without_credentials_has_empty_keys_in_check_mode_only() -> None:
    desired = g.desired(credentials=None)
    assert desired.credential(desired.instances[0], "kubelet.key") == ""
    assert replace(desired, state="absent").state == "absent"
    assert ENGINE.preview(Context(desired, FakeHost())) == {"instances": []}
