# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What slices record between their batches, and when another may begin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import PeerError
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.boundary import Answer, Boundary, Place
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.record import Record, SliceRecord, read_record
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.kube_proxy_run import judge_batch
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.reports import Facts
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.request import Request
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.slice import with_other_slices
from tests.unit.fake_api import FakeApi
from tests.unit.fake_parts import json_answer

PATH = "/api/v1/namespaces/ballast-fleet/configmaps/ballast-fleet-run"
GATE = {"pause": 0, "command": [], "query": "", "prometheus": "", "threshold": 0.0}
CONFIRMED = {"changed": True, "mode": "nftables", "outcome": "confirmed"}
LOOK = {"in_order": True, "mode": "nftables"}


def server(max_fail: int) -> FakeApi:
    api = FakeApi()
    api.add(PATH, {"metadata": {"name": "ballast-fleet-run"}, "data": {"max_fail": str(max_fail)}})
    return api


def boundary(api: FakeApi, name: str = "slice-0", holder: str = "a", *, stop_file: str = "") -> Boundary:
    place = Place("ballast-fleet", "ballast-fleet-run", name, holder, stop_file)
    return Boundary(api.host, api.api, place)


def record(api: FakeApi) -> Record:
    return read_record(api.objects[PATH])


def test_failures_of_all_slices_count_together() -> None:
    api = server(max_fail=1)
    first, second = boundary(api), boundary(api, "slice-1", "b")
    first.claim()
    second.claim()
    assert not first.may_begin(["n1"]).stop
    assert not first.count(failed=["n1"]).stop
    assert not second.may_begin(["n2"]).stop
    answer = second.count(failed=["n2"])
    assert (answer.stop, answer.elsewhere) == (True, ("n1",))
    assert answer.why == "2 nodes of the whole run failed, and max_fail allows 1"
    assert first.may_begin(["n3"]).stop
    assert record(api).of("slice-0").begun == (), "a batch that may not begin is not recorded as begun"


def test_a_failure_that_is_written_between_the_look_and_the_beginning_of_a_batch_is_seen() -> None:
    api = server(max_fail=0)
    first, second = boundary(api), boundary(api, "slice-1", "b")
    first.claim()
    second.claim()
    api.before[PATH] = lambda: second.count(failed=["n9"])
    assert first.may_begin(["n1"]).stop
    assert record(api).of("slice-0").begun == ()


def test_an_older_pod_of_the_slice_begins_no_batch_and_does_not_take_it_back() -> None:
    api = server(max_fail=9)
    older, younger = boundary(api, holder="a"), boundary(api, holder="b")
    assert not older.claim().stop
    assert not younger.claim().stop
    for answer in (older.may_begin(["n1"]), older.count(failed=["n1"]), older.claim()):
        assert (answer.stop, answer.is_holder) == (True, False)
    assert record(api).failed == frozenset()
    assert not younger.may_begin(["n1"]).stop


def test_no_clock_says_which_pod_has_a_slice() -> None:
    """That of the machine of the next pod may be behind: its slice would never be finished."""
    api = server(max_fail=9)
    for holder in ("a", "b", "c"):
        assert not boundary(api, holder=holder).claim().stop
    assert record(api).of("slice-0").holder == "c"
    for holder in ("a", "b"):
        assert boundary(api, holder=holder).claim().stop, "a pod that lost its slice does not take it back"


def test_a_pod_that_is_to_end_begins_no_batch() -> None:
    api = server(max_fail=9)
    worker = boundary(api, stop_file="/runner/stopping")
    worker.claim()
    api.host.given("/runner/stopping")
    assert worker.may_begin(["n1"]) == Answer(stop=True, why="the pod is being terminated")


def test_a_run_that_was_removed_ends_with_the_batch() -> None:
    api = server(max_fail=9)
    worker = boundary(api)
    worker.claim()
    del api.objects[PATH]
    assert worker.may_begin(["n1"]).stop
    worker.write_report("/api/v1/namespaces/ballast-fleet/configmaps/ballast-fleet-run-slice-0", "{}")


def forbid(api: FakeApi, seconds: float) -> None:
    """As an API server does until it has read its RBAC rules."""
    answer, deadline = api._answer, api.host.monotonic() + seconds

    def refuse(method: str, url: str, body: Optional[bytes]) -> Response:
        if api.host.monotonic() < deadline:
            return json_answer(403, {"message": "forbidden"})
        return answer(method, url, body)

    api._answer = refuse  # type: ignore[method-assign]


def test_an_api_server_that_has_just_started_is_not_taken_for_the_end_of_the_run() -> None:
    """Failures would count for no slice, and the slice would end as if the run were over."""
    api = server(max_fail=9)
    worker = boundary(api)
    worker.claim()
    forbid(api, seconds=40)
    assert worker.count(failed=["n1"]) == Answer(stop=False, own=SliceRecord(holder="a", failed=("n1",)))
    assert record(api).failed == {"n1"}


def test_rights_that_do_not_come_back_are_those_of_a_run_that_was_removed() -> None:
    """The namespace's roles can go before its ConfigMaps."""
    api = server(max_fail=9)
    worker = boundary(api)
    worker.claim()
    forbid(api, seconds=10_000)
    begun = api.host.monotonic()
    assert worker.may_begin(["n1"]) == Answer(stop=True, why="the run was removed")
    assert 30 < api.host.monotonic() - begun < 120, "a pod that is to end has five minutes"


def test_a_closed_gate_of_one_slice_ends_the_run_of_all() -> None:
    api = server(max_fail=9)
    first, second = boundary(api), boundary(api, "slice-1", "b")
    first.claim()
    second.claim()
    first.count(ended="the gate is closed: 5xx")
    answer = second.may_begin(["n2"])
    assert (answer.stop, answer.why) == (True, "slice-0 ended the run: the gate is closed: 5xx")


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"max_fail": "many"},
        {"max_fail": "1", "slice-0": "no JSON"},
        {"max_fail": "1", "slice-0": "[]"},
        {"max_fail": "1", "slice-0": SliceRecord(failed=(1,)).as_text()},  # type: ignore[arg-type]
    ],
)
def test_a_record_of_another_form_lets_no_batch_begin(data: dict[str, str]) -> None:
    api = server(max_fail=1)
    api.objects[PATH]["data"] = data
    with pytest.raises(PeerError) as caught:
        boundary(api).claim()
    assert caught.value.id == "fleet-run-record"


def judged(
    api: FakeApi,
    max_fail: int,
    *,
    command: Optional[dict[str, Any]] = None,
    before_the_verdict: Callable[[], object] = lambda: None,
) -> Any:
    request = Request(
        "kube_proxy_migrate", hosts=("n1", "n2"), acts=True, mode="nftables", max_fail=max_fail, gate=GATE
    )
    worker = boundary(api)
    worker.claim()
    worker.may_begin(["n1", "n2"])
    before_the_verdict()

    def compose(facts: Facts) -> Any:
        changed = {"n1": CONFIRMED, "n2": {"failed": True, "msg": "refused"}}
        return judge_batch(request, ["n1", "n2"], changed, {"n1": LOOK}, command=command, elsewhere=facts.elsewhere)

    facts = Facts(request, results=lambda _name: {}, value=lambda _name: None, local=lambda _name: None)
    return with_other_slices(worker, facts, compose).facts


def test_a_batch_by_which_all_slices_together_pass_the_limit_is_taken_back() -> None:
    api = server(max_fail=1)
    other = boundary(api, "slice-1", "b")
    other.claim()
    other.count(failed=["n9"])
    facts = judged(api, max_fail=1)
    assert (facts["stop"], facts["take_back"], facts["kept"]) == (True, ["n1"], [])
    assert (record(api).of("slice-0").failed, record(api).of("slice-0").done) == (("n2",), ())


def test_a_batch_within_the_limit_is_recorded_as_done() -> None:
    api = server(max_fail=1)
    assert judged(api, max_fail=1)["stop"] is False
    own = record(api).of("slice-0")
    assert (own.begun, own.failed, own.done, own.batches) == ((), ("n2",), ("n1",), 1)


def test_a_worker_that_lost_its_slice_in_the_middle_of_a_batch_takes_nothing_back() -> None:
    """The next one has looked at its nodes, and reports those that are confirmed."""
    api = server(max_fail=0)
    facts = judged(api, max_fail=0, before_the_verdict=lambda: boundary(api, holder="b").claim())
    assert (facts["stop"], facts["take_back"]) == (True, [])
    assert record(api).of("slice-0").failed == ()


def test_a_closed_gate_is_recorded() -> None:
    api = server(max_fail=1)
    assert judged(api, max_fail=1, command={"rc": 1, "stdout": "5xx"})["stop"]
    assert "ended with status 1: 5xx" in record(api).why
