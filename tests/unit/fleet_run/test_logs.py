# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Logs of workers, which the API server asks the machine of each for: it may be lost, where the API server is not."""

from __future__ import annotations

from typing import Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.host.web import no_answer_error
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run import engine as engine_module
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.objects import (
    build_job,
    build_objects,
    job_path,
    namespace_path,
)
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.slices import CANARY, SLICE
from tests.unit.fake_api import FakeApi
from tests.unit.fake_parts import json_answer
from tests.unit.fleet_run.test_run import request

MADE = request()
PODS = f"{namespace_path('fleet')}/pods"


@pytest.fixture(name="api")
def _api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """A run that has ended."""
    api = FakeApi()
    monkeypatch.setattr(engine_module, "connect", lambda *_given: api.api)
    for path, body in build_objects(MADE).items():
        api.add(path, body)
    for job in (CANARY, SLICE):
        ended = {"conditions": [{"type": "Complete", "status": "True"}]}
        api.add(job_path("fleet", job), {**build_job(MADE, job), "status": ended})
    for name in ("p1", "p2"):
        api.add(f"{PODS}/{name}", {"metadata": {"name": name}, "status": {"phase": "Succeeded"}})
    return api


def follow(api: FakeApi) -> dict[str, str]:
    """What is written of each pod, in the end."""
    engine, ctx = engine_module.FleetRunEngine(), Context(MADE, api.host)
    engine.apply(engine.plan(MADE, engine.observe(ctx)), ctx)
    assert namespace_path("fleet") not in api.objects
    files = {name: (api.host.read(f"/srv/fleet/{name}") or b"").decode() for name in api.host.listdir("/srv/fleet")}
    assert "report.json" in files
    return {name: text for name, text in files.items() if name.endswith(".log")}


def test_a_pod_that_finishes_its_batch_after_an_eviction_leaves_its_log(api: FakeApi) -> None:
    """It is gone with its log when it ends, and no other pod takes its place where that was the last batch."""
    job = job_path("fleet", SLICE)
    ended, path = api.objects[job]["status"], f"{PODS}/p3"
    api.objects[job]["status"] = {}
    deleted = {"name": "p3", "deletionTimestamp": "2026-11-27T00:00:00Z"}
    api.add(path, {"metadata": deleted, "status": {"phase": "Running"}})
    texts = iter(["the first batch", "the first batch\nthe last one"])
    answer = api._answer

    def give(method: str, url: str, body: Optional[bytes]) -> Response:
        return Response(200, next(texts).encode()) if "/p3/log?" in url else answer(method, url, body)

    def end() -> None:
        if api.host.monotonic() > begun + 3:
            api.objects.pop(path, None)
            api.objects[job]["status"] = ended

    begun = api.host.monotonic()
    api._answer = give  # type: ignore[method-assign]
    api.host.on_sleep.append(end)
    assert follow(api)["pod-p3.log"] == "the first batch\nthe last one"


def let_fail(api: FakeApi, times: int, *, everything: bool = False) -> None:
    """The log of p2, so many times; with the API server itself, or without."""
    answer, left = api._answer, [times]

    def fail(method: str, url: str, body: Optional[bytes]) -> Response:
        is_log = "/log?" in url
        if left[0] > 0 and ("/p2/log" in url or (everything and left[0] < times)):
            left[0] -= 1
            if everything:
                raise no_answer_error(method, url, OSError("connection refused"))
            return json_answer(500, {"message": "dial tcp 10.0.0.9:10250: connect: no route to host"})
        return Response(200, b"what it said") if is_log else answer(method, url, body)

    api._answer = fail  # type: ignore[method-assign]


def test_a_run_ends_where_the_machine_of_a_worker_that_has_ended_is_lost(api: FakeApi) -> None:
    """The command ended after half an hour, each time that it was repeated, and nobody had the report."""
    let_fail(api, times=10_000)
    begun = api.host.monotonic()
    logs = follow(api)
    assert api.host.monotonic() - begun < 60
    assert logs["pod-p1.log"] == "what it said"
    assert logs["pod-p2.log"].startswith("no log: ")
    assert "no route to host" in logs["pod-p2.log"]


@pytest.mark.parametrize(("times", "everything"), [(1, False), (2, False), (90, True)])
def test_a_log_that_cannot_be_read_now_is_read_later(api: FakeApi, times: int, everything: bool) -> None:
    let_fail(api, times=times, everything=everything)
    assert follow(api)["pod-p2.log"] == "what it said"
