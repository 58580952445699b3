# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guard with a clock that the test turns: when it goes back, and which bridge it keeps."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.kinds import digest
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy import watchdog
from tests.unit.fakes import FakeHost
from tests.unit.kube_proxy.fake_node import GUARD, STATE

LOCK = f"{STATE}/lock"


class Informer:
    made: list[Informer] = []

    def __init__(self, _connect: object, node: str) -> None:
        self.node, self.ended, self.complete, self.problem = node, False, True, ""
        self.changed = threading.Event()
        self.changed.set()
        Informer.made.append(self)

    def start(self) -> None:
        pass

    def end(self) -> None:
        self.ended = True

    def take(self) -> dict[str, Any]:
        self.changed.clear()
        return {"items": []}


class Table:
    """`brought` are the nodes whose bridge was brought up to date, in order; the first of `errors` is raised instead."""

    brought: list[str] = []
    errors: list[HostError] = []

    def __init__(self, _host: object, _config: object, node: str) -> None:
        self._node = node

    def update(self, _data: Mapping[str, Any]) -> int:
        if Table.errors:
            raise Table.errors[0]
        Table.brought.append(self._node)
        return 3


@pytest.fixture(autouse=True)
def _parts(monkeypatch: pytest.MonkeyPatch) -> None:
    Informer.made, Table.brought, Table.errors = [], [], []
    monkeypatch.setattr(watchdog, "ServiceInformer", Informer)
    monkeypatch.setattr(watchdog.takeover_table, "TakeoverTable", Table)


def armed(seconds: Optional[int]) -> FakeHost:
    """None: without a task."""
    host = FakeHost()
    host.given_directory(GUARD)
    if seconds is not None:
        host.given(f"{GUARD}/guard.json", json.dumps({"confirm_within": seconds, "params": {}}))
    return host


def watch(one: watchdog.Watchdog, host: FakeHost, seconds: float) -> list[float]:
    """The moments, since it was called, at which it went back."""
    begun, found = host.monotonic(), []
    while host.monotonic() - begun < seconds:
        before = len(host.processes)
        one.tick()
        if len(host.processes) > before:
            found.append(round(host.monotonic() - begun, 1))
        host.sleep(0.5)
    return found


@pytest.mark.parametrize(("confirm_within", "moments"), [(10, [10.5, 41.0]), (0, [30.5, 61.0]), (100, []), (None, [])])
def test_without_a_run_and_a_confirmation_it_goes_back_and_tries_again(
    confirm_within: Optional[int], moments: list[float]
) -> None:
    host = armed(confirm_within)
    assert watch(watchdog.Watchdog(host, STATE), host, 65) == moments
    for process in host.processes.values():
        assert process.argv[1:] == (f"{GUARD}/guard.pyz", STATE, "back")


def test_a_run_at_work_stops_the_clock_and_its_end_starts_it_anew() -> None:
    host = armed(10)
    one = watchdog.Watchdog(host, STATE)
    assert watch(one, host, 8) == []
    host.hold_lock(LOCK)
    assert watch(one, host, 60) == []
    host.release_lock(LOCK)
    assert watch(one, host, 12) == [10.5]


def test_it_holds_no_lock_between_two_looks() -> None:
    host = armed(10)
    watchdog.Watchdog(host, STATE).tick()
    with host.lock(LOCK):
        pass


def test_a_confirmation_takes_its_task_away() -> None:
    host = armed(10)
    one = watchdog.Watchdog(host, STATE)
    assert watch(one, host, 8) == []
    host.remove(f"{GUARD}/guard.json")
    assert watch(one, host, 60) == []


def wanted(host: FakeHost, node: str) -> bytes:
    where = {"deployment": "service", "service": "kube-proxy", "config_path": "/c", "kubeconfig": "", "node_name": ""}
    host.given(f"{GUARD}/bridge.json", json.dumps({"installation": where, "config": {}, "node": node}))
    return host.read(f"{GUARD}/bridge.json") or b""


def status(host: FakeHost) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(host.text(f"{GUARD}/bridge-status.json"))
    return found


def test_a_bridge_is_brought_up_and_then_only_when_something_changes() -> None:
    host = armed(None)
    data = wanted(host, "n1")
    one = watchdog.Watchdog(host, STATE)
    for _tick in range(3):
        one.tick()
    assert Table.brought == ["n1"]
    assert status(host) == {"of": digest(data), "problem": "", "operations": 3, "at": host.now()}
    Informer.made[0].changed.set()
    one.tick()
    assert Table.brought == ["n1", "n1"]


def test_another_bridge_has_another_feed_and_none_has_none() -> None:
    host = armed(None)
    wanted(host, "n1")
    one = watchdog.Watchdog(host, STATE)
    one.tick()
    data = wanted(host, "n2")
    one.tick()
    assert [(feed.node, feed.ended) for feed in Informer.made] == [("n1", True), ("n2", False)]
    assert (Table.brought, status(host)["of"]) == (["n1", "n2"], digest(data))
    host.remove(f"{GUARD}/bridge.json")
    one.tick()
    one.tick()
    assert [feed.ended for feed in Informer.made] == [True, True]
    assert Table.brought == ["n1", "n2"]


def test_a_bridge_that_goes_while_it_is_about_to_be_written_is_not_made_again() -> None:
    host = armed(None)
    wanted(host, "n1")
    one = watchdog.Watchdog(host, STATE)
    one.tick()
    Informer.made[0].changed.set()
    read, looks = host.read, []

    def gone_at_the_second_look(path: str) -> Optional[bytes]:
        looks.append(path)
        return None if path.endswith("bridge.json") and looks.count(path) > 1 else read(path)

    host.read = gone_at_the_second_look  # type: ignore[method-assign]
    one.tick()
    assert Table.brought == ["n1"]


def test_what_takes_the_bridge_away_is_not_disturbed() -> None:
    host = armed(None)
    wanted(host, "n1")
    one = watchdog.Watchdog(host, STATE)
    host.hold_lock(f"{GUARD}/bridge.lock")
    one.tick()
    assert Table.brought == []
    assert "another" in status(host)["problem"] or "lock" in status(host)["problem"]
    host.release_lock(f"{GUARD}/bridge.lock")
    one.tick()
    assert (Table.brought, status(host)["problem"]) == (["n1"], "")


def test_until_the_api_has_listed_all_it_says_why_there_is_no_bridge() -> None:
    host = armed(None)
    wanted(host, "n1")
    one = watchdog.Watchdog(host, STATE)
    one._keep_table()
    Informer.made[0].complete = False
    one.tick()
    assert status(host)["problem"] == "waiting for the API to list the Services"
    Informer.made[0].problem = "GET /api/v1/services: no answer"
    one.tick()
    assert status(host)["problem"] == "GET /api/v1/services: no answer"


def test_a_bridge_that_fails_is_told_of_once_and_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    host = armed(None)
    wanted(host, "n1")
    Table.errors = [HostError("the kernel did not take the rules", id="rules-nft-refused")]
    one = watchdog.Watchdog(host, STATE)
    for _tick in range(3):
        one.tick()
    assert "the kernel did not take the rules" in status(host)["problem"]
    written = [str(one) for one in host.effects if str(one).startswith("write")]
    assert written == [f"write {GUARD}/bridge-status.json"]
    Table.errors = []
    one.tick()
    assert (Table.brought, status(host)["problem"]) == (["n1"], "")
