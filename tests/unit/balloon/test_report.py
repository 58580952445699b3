# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the modules return: what a node has, what it was to have, and whether its host's sum holds."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import (
    DEFERRED,
    REVERTED,
    STARTING,
    Fleet,
    Outcome,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.report import findings, report
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import FLOOR, NONE, Resources
from tests.unit.balloon.sized import CAPACITY, OVERHEAD, amount, balloon, fleet, node, pod

ALLOCATABLE = CAPACITY - OVERHEAD
HALF = amount(8000, 32 * 1024)


def shown(size: Resources) -> dict[str, str]:
    return size.as_quantities()


def of(found: Fleet, name: str) -> dict[str, Any]:
    rows = {row["name"]: row for row in report(found, {}, {})["nodes"]}
    return rows[name]


def test_a_node_that_holds_its_target():
    target = amount(1750, 7168)
    one = node("a", target=target, balloon=balloon(ALLOCATABLE - target), pods=(pod("web", amount(500, 1024)),))
    assert report(fleet(one, reserve=HALF), {}, {}) == {
        "nodes": [
            {
                "name": "a",
                "host": "h1",
                "allocatable": {"cpu": "15900m", "memory": "65180Mi"},
                "target": {"cpu": "1750m", "memory": "7168Mi"},
                "desired": {"cpu": "14150m", "memory": "58012Mi"},
                "allocated": {"cpu": "14150m", "memory": "58012Mi"},
                "actual": {"cpu": "14150m", "memory": "58012Mi"},
                "free": {"cpu": "1250m", "memory": "6144Mi"},
                "limit": None,
                "state": "settled",
                "message": "",
            }
        ],
        "hosts": [
            {
                "name": "h1",
                "capacity": {"cpu": "16000m", "memory": "65536Mi"},
                "reserve": shown(HALF),
                "room": shown(CAPACITY - HALF),
                "targets": {"cpu": "1750m", "memory": "7168Mi"},
                "open": {"cpu": "1750m", "memory": "7168Mi"},
                "holds": True,
            }
        ],
    }


def test_a_node_without_a_balloon_has_everything_open():
    found = fleet(node("a", balloon=None), reserve=NONE)
    row = of(found, "a")
    assert [row[key] for key in ("desired", "allocated", "actual", "state", "target")] == [None] * 5
    assert row["free"] == shown(ALLOCATABLE)
    (host,) = report(found, {}, {})["hosts"]
    assert host["open"] == host["targets"] == shown(ALLOCATABLE)


def test_what_the_kubelet_has_not_said_is_not_shown():
    starting = balloon(FLOOR, allocated=NONE, actual=NONE, state=STARTING)
    row = of(fleet(node("a", balloon=starting)), "a")
    assert (row["desired"], row["allocated"], row["actual"], row["state"]) == (shown(FLOOR), None, None, "starting")


def test_a_resize_that_waits_takes_from_what_is_free_and_holds_nothing_yet():
    waiting = balloon(amount(1000, 1024), desired=amount(9000, 1024), state=DEFERRED, message="no room")
    found = fleet(node("a", balloon=waiting), reserve=NONE)
    assert of(found, "a")["free"] == shown(ALLOCATABLE - amount(9000, 1024))
    assert of(found, "a")["message"] == "no room"
    (host,) = report(found, {}, {})["hosts"]
    assert host["open"] == shown(ALLOCATABLE - amount(1000, 1024))


def test_more_placed_than_there_is_shows_below_zero():
    full = node("a", balloon=balloon(ALLOCATABLE), pods=(pod("web", amount(100, 1)),))
    assert of(fleet(full), "a")["free"] == {"cpu": "-100m", "memory": "-1Mi"}


def test_an_outcome_stands_with_its_node():
    outcome = Outcome("a", REVERTED, FLOOR, FLOOR, "pods hold it")
    found = fleet(node("a", target=amount(1, 1)), node("b"), reserve=NONE)
    rows = report(found, {"a": HALF}, {"a": outcome})
    first, second = rows["nodes"]
    assert (first["outcome"], first["text"]) == ("reverted", "pods hold it")
    assert first["before"] == first["after"] == shown(FLOOR)
    assert first["target"] == shown(HALF)  # as asked, not as annotated
    assert "outcome" not in second
    assert rows["hosts"][0]["targets"] == shown(HALF + ALLOCATABLE - FLOOR)


def test_named_nodes_are_shown_alone_and_their_hosts_with_all_nodes():
    found = fleet(node("a"), node("b"), node("c", host="h2"), reserve=NONE)
    rows = report(found, {}, {}, names=["a"])
    assert [row["name"] for row in rows["nodes"]] == ["a"]
    assert [row["name"] for row in rows["hosts"]] == ["h1"]
    assert rows["hosts"][0]["open"] == shown((ALLOCATABLE - FLOOR) + (ALLOCATABLE - FLOOR))
    assert [row["name"] for row in report(found, {}, {})["hosts"]] == ["h1", "h2"]


HOLDS = balloon(ALLOCATABLE - HALF)


@pytest.mark.parametrize(
    ("changes", "reserve", "wrong"),
    [
        ({"balloon": HOLDS}, NONE, []),
        ({"balloon": HOLDS}, Resources(1, 0), [("balloon-oversold", "h1")]),
        ({"balloon": HOLDS, "limit": HALF + OVERHEAD}, NONE, []),
        ({"balloon": HOLDS, "limit": HALF}, NONE, [("balloon-over-limit", "a"), ("balloon-over-limit", "b")]),
        ({"balloon": HOLDS, "limit": CAPACITY}, NONE, [("balloon-limits-over", "h1")]),
        ({}, NONE, [("balloon-oversold", "h1")]),
        ({"balloon": HOLDS, "ready": False}, NONE, [("balloon-not-ready", "a"), ("balloon-not-ready", "b")]),
    ],
)
def test_a_sum_that_does_not_hold_is_told(changes: dict[str, Any], reserve: Resources, wrong: list[tuple[str, str]]):
    found = fleet(node("a", **changes), node("b", **changes), reserve=reserve)
    told = findings(found)
    assert [(finding.id, finding.subject) for finding in told] == wrong
    assert all(finding.remedy and not finding.blocking for finding in told)
    (host,) = report(found, {}, {})["hosts"]
    assert host["holds"] == (not [id for id, _subject in wrong if id != "balloon-not-ready"])


def test_findings_are_of_the_named_nodes_and_their_hosts():
    found = fleet(node("a"), node("b", host="h2", ready=False), node("c", host="h2"), reserve=NONE)
    assert findings(found, ["a"]) == []
    assert [finding.id for finding in findings(found, ["c"])] == ["balloon-oversold"]
