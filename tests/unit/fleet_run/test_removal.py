# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whose Namespace it is: another run's, another feature's, or one that was removed while a command followed its run."""

from __future__ import annotations

from typing import Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.objects import OURS
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run import engine as engine_module
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.objects import (
    build_job,
    build_objects,
    job_path,
    namespace_path,
    record_path,
    secret_path,
)
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.request import FleetRunRequest
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.slices import CANARY, SLICE
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.state import RunState
from tests.unit.fake_api import FakeApi
from tests.unit.fleet_run.test_boundary import forbid
from tests.unit.fleet_run.test_run import REQUEST, request


@pytest.fixture(name="api")
def _api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    api = FakeApi()
    monkeypatch.setattr(engine_module, "connect", lambda *_given: api.api)
    return api


def follow(api: FakeApi, made: FleetRunRequest, plan: Optional[engine_module.Plan] = None) -> str:
    """Of a command: the id of its error; it follows for some turns at most. `plan` is what it has decided before."""
    turns = iter(range(20))

    def turn() -> None:
        if next(turns, None) is None:
            raise BallastError("still following", id="still-following")

    api.host.on_sleep.append(turn)
    engine, ctx = engine_module.FleetRunEngine(), Context(made, api.host)
    with pytest.raises(BallastError) as caught:
        engine.apply(plan or engine.plan(made, engine.observe(ctx)), ctx)
    api.host.on_sleep.remove(turn)
    return caught.value.id


def begin(api: FakeApi, made: FleetRunRequest, *, without: tuple[str, ...] = (), jobs: tuple[str, ...] = ()) -> None:
    for path, body in build_objects(made).items():
        if path not in without:
            api.add(path, body)
    for job in jobs:
        api.add(job_path("fleet", job), build_job(made, job))


@pytest.mark.parametrize("state", ["present", "absent"])
def test_a_namespace_of_another_feature_is_neither_used_nor_removed(api: FakeApi, state: str) -> None:
    """Its label says that this collection made it, and no more."""
    api.add(namespace_path("fleet"), {"metadata": {"name": "fleet", "labels": dict(OURS)}})
    assert follow(api, request(state=state)) == "fleet-run-foreign"
    assert api.changes == []


def test_a_run_that_was_cut_off_while_it_was_removed_is_not_taken_for_another_ones(api: FakeApi) -> None:
    """Its Secret goes first. What its slices reported would be the report of a run that never took place."""
    begin(api, request(), without=(secret_path("fleet"),), jobs=(CANARY, SLICE))
    assert follow(api, request(request={**REQUEST, "playbook": "kube_proxy_rollback"})) == "fleet-run-other"
    assert api.changes == []


def test_a_run_that_was_cut_off_while_it_was_made_leaves_its_limit_to_no_other(api: FakeApi) -> None:
    begin(api, request(), without=(secret_path("fleet"),))
    assert follow(api, request(request={**REQUEST, "max_fail": 0})) == "fleet-run-other"
    assert api.objects[record_path("fleet")]["data"] == {"max_fail": "2"}


def test_of_two_commands_that_begin_at_once_one_has_the_namespace(api: FakeApi) -> None:
    """The other one makes nothing in it."""
    first, second = request(), request(request={**REQUEST, "max_fail": 0})
    (path, body), *_others = build_objects(first).items()
    engine, ctx = engine_module.FleetRunEngine(), Context(second, api.host)
    plan = engine.plan(second, engine.observe(ctx))
    run = engine_module._Run(ctx)
    state = engine.observe(ctx)
    api.add(path, body)
    run._make(state)
    assert [change for change in api.changes if change != "POST /api/v1/namespaces"] == []
    with pytest.raises(BallastError) as caught:
        engine.apply(plan, ctx)
    assert caught.value.id == "fleet-run-other"


def test_a_run_that_was_ended_is_not_begun_again_by_the_command_that_follows_it(api: FakeApi) -> None:
    made = request()
    begin(api, made, jobs=(CANARY,))

    def end() -> None:
        for path in list(api.objects):
            del api.objects[path]

    api.host.on_sleep.append(end)
    assert follow(api, made) == "fleet-run-removed"
    assert api.changes == []


@pytest.mark.parametrize("is_followed", [True, False])
def test_a_command_that_has_seen_the_run_gets_over_a_restart_of_the_api_server(api: FakeApi, is_followed: bool) -> None:
    """It refuses everybody for some seconds. A command that has no right from its beginning says so at once."""
    made = request()
    begin(api, made, jobs=(CANARY,))
    engine, ctx = engine_module.FleetRunEngine(), Context(made, api.host)
    plan = engine.plan(made, engine.observe(ctx))
    restarts = iter([lambda: forbid(api, seconds=10)])
    if is_followed:
        api.host.on_sleep.append(lambda: next(restarts, lambda: None)())
    else:
        next(restarts)()
    assert follow(api, made, plan) == ("still-following" if is_followed else "core-api-forbidden")


def test_a_namespace_that_is_being_removed_at_the_first_look_is_waited_for(api: FakeApi) -> None:
    """That of a run before this one."""
    made = request()
    (path, body), *_others = build_objects(made).items()
    api.add(path, {**body, "metadata": {**body["metadata"], "deletionTimestamp": "2026-11-27T00:00:00Z"}})
    api.host.on_sleep.append(lambda: api.objects.pop(path, None) if len(api.objects) == 1 else None)
    assert follow(api, made) == "still-following"
    assert f"POST {job_path('fleet', CANARY).rpartition('/')[0]}" in api.changes


@pytest.mark.parametrize("state", ["present", "absent"])
def test_a_run_that_begins_when_another_has_gone_is_not_removed_by_its_command(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """The same request, or another one."""
    made = request(state=state)
    begin(api, request())
    for job in (CANARY, SLICE):
        ended = {"conditions": [{"type": "Complete", "status": "True"}]}
        api.add(job_path("fleet", job), {**build_job(request(), job), "status": ended})
    path, body = next(iter(build_objects(request()).items()))
    remove = engine_module._Run._remove

    def remove_and_begin(run: engine_module._Run, found: RunState) -> None:
        assert api.changes.count(f"DELETE {path}") == 0, "the other run is removed too"
        remove(run, found)
        api.add(path, body)

    monkeypatch.setattr(engine_module._Run, "_remove", remove_and_begin)
    engine, ctx = engine_module.FleetRunEngine(), Context(made, api.host)
    plan = engine.plan(made, engine.observe(ctx))
    engine.apply(plan, ctx)
    assert path in api.objects
    assert api.changes.count(f"DELETE {path}") == 1
