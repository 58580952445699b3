"""The trial of API servers: what counts as an answer, and that nothing of it stays."""

from __future__ import annotations

import json

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._binaries.smoke import (
    judge_v2,
    judge_v3_group,
    judge_v3_root,
    smoke,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from tests.unit.fakes import FakeHost

V2 = Response(200, b"\x0a\x032.0\x12\x0a...")
ROOT = Response(200, json.dumps({"paths": {"api/v1": {}, "apis/apps/v1": {}}}).encode())
GROUP = Response(200, json.dumps({"components": {"schemas": {"io.k8s.api.core.v1.Secret": {}}}}).encode())
UNAVAILABLE = Response(503, b"service unavailable")
SERVERS = {"kube-apiserver": "/build/kube-apiserver", "generic-apiserver": "/build/generic-apiserver"}


@pytest.mark.parametrize(
    ("judge", "answer", "fault"),
    [
        (judge_v2, V2, ""),
        (judge_v2, UNAVAILABLE, "status 503"),
        (judge_v2, Response(200, b'{"swagger": "2.0"}'), "not an OpenAPI v2 document"),
        (judge_v3_root, ROOT, ""),
        (judge_v3_root, Response(200, b'{"paths": {}}'), "no path api/v1"),
        (judge_v3_root, UNAVAILABLE, "status 503"),
        (judge_v3_group, GROUP, ""),
        (judge_v3_group, Response(200, b'{"components": {"schemas": {}}}'), "no schemas"),
        (judge_v3_group, Response(200, b"[]"), "no schemas"),
        (
            judge_v3_group,
            Response(200, b'{"components":{"schemas":{"x":{"Extensions":null}}}}'),
            "malformed schemas for api/v1",
        ),
    ],
)
def test_an_answer_is_judged(judge, answer, fault):
    assert (fault in judge(answer)) if fault else judge(answer) == ""


def machine(*, v2: Response = V2) -> FakeHost:
    host = FakeHost()
    for tool in ("openssl", "timeout"):
        host.on(tool)
    answers = {"/readyz": Response(200, b"ok"), "/openapi/v2": v2, "/openapi/v3": ROOT, "/openapi/v3/api/v1": GROUP}
    host.answer("https://127.0.0.1:", lambda url, body: answers["/" + url.split("/", 3)[3]])
    return host


def trial(host: FakeHost) -> None:
    smoke(host, Progress(NullSink(), feature="binaries"), etcd="/build/etcd", servers=SERVERS, work="/tmp/smoke")


def spawned(host: FakeHost) -> list[str]:
    return [effect.target for effect in host.effects if effect.verb == "spawn"]


def test_servers_that_serve_pass_and_nothing_of_the_trial_stays():
    host = machine()
    before = host.snapshot()
    trial(host)
    assert host.snapshot() == before
    assert [line.split()[3] for line in spawned(host)] == [
        "/build/etcd",
        "/build/generic-apiserver",
        "/build/kube-apiserver",
    ]


def test_every_process_ends_by_itself_if_we_are_killed():
    host = machine()
    trial(host)
    assert all(line.startswith("timeout --kill-after=2 ") for line in spawned(host))


def test_a_server_is_never_open_to_all():
    host = machine()
    trial(host)
    servers = [line for line in spawned(host) if "apiserver" in line]
    assert all("--authorization-mode=RBAC" in line and "--bind-address=127.0.0.1" in line for line in servers)


def test_a_server_that_does_not_serve_is_told_with_its_log_and_nothing_stays():
    host = machine(v2=UNAVAILABLE)
    before = host.snapshot()
    host.on_spawn.append(lambda pid, process: host.given(process.log, "E1121 cannot marshal the document\n"))
    with pytest.raises(BallastError) as caught:
        trial(host)
    assert caught.value.id == "binaries-smoke"
    assert "generic-apiserver was built but does not work: OpenAPI v2: status 503" in str(caught.value)
    assert "cannot marshal the document" in str(caught.value)
    assert host.snapshot() == before


def test_a_server_that_ends_is_not_waited_for():
    host = machine()
    host.on_spawn.append(lambda pid, process: host.end_process(pid) if "apiserver" in process.argv[3] else None)
    with pytest.raises(BallastError) as caught:
        trial(host)
    assert "it ended" in str(caught.value)
    assert host.processes == {}
