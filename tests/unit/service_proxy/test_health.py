# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.faces.health import Health, format_time
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.ports import (
    NodeState,
    Programmed,
    Queued,
    Report,
)

SYNC = 30.0


def programmed(at: float, *families: int, behind: tuple[int, ...] = ()) -> Programmed:
    return Programmed(at, 0.1, False, families or (4, 6), 1, 1, behind=behind)


def health(*reports: Report) -> Health:
    made = Health(SYNC)
    for report in reports:
        made.take(report)
    return made


def statuses(made: Health, now: float) -> tuple[int, int, int]:
    """Of /healthz, /livez, /readyz."""
    return made.healthz(now).status, made.livez(now).status, made.readyz(now).status


@pytest.mark.parametrize(
    ("reports", "now", "expected"),
    [
        ([], 1000.0, (200, 200, 503)),  # the API server may be away for hours
        ([Queued(0.0)], 60.0, (200, 200, 503)),
        ([Queued(0.0)], 60.1, (503, 503, 503)),
        ([Queued(0.0), Queued(50.0)], 60.1, (503, 503, 503)),  # the first of those that wait
        ([Queued(0.0), programmed(1.0)], 1000.0, (200, 200, 200)),
        ([Queued(0.0), programmed(1.0), Queued(2.0)], 62.1, (503, 503, 503)),
        ([Queued(0.0), programmed(1.0, 4, behind=(6,))], 60.1, (503, 503, 503)),  # the other family waits since then
        ([Queued(0.0), programmed(1.0, 4, behind=(6,)), programmed(2.0, 6)], 100.0, (200, 200, 200)),
        ([Queued(0.0, endpoints=1, families=(6,)), programmed(1.0, 4)], 60.1, (503, 503, 503)),
        ([Queued(0.0, endpoints=1, families=())], 1000.0, (200, 200, 503)),  # no rule of it differs
        ([programmed(1.0), NodeState("n1", deleting=True)], 2.0, (503, 200, 200)),
        ([programmed(1.0), NodeState("n1", to_be_deleted=True)], 2.0, (503, 200, 200)),
        ([programmed(1.0), NodeState("n1", deleting=True), NodeState("n1")], 2.0, (200, 200, 200)),
        ([programmed(1.0), NodeState("n1", known=False)], 2.0, (503, 200, 200)),
        ([programmed(1.0), NodeState("n1", known=False), NodeState("n1")], 2.0, (200, 200, 200)),
    ],
)
def test_statuses(reports: Sequence[Report], now: float, expected: tuple[int, int, int]) -> None:
    assert statuses(health(*reports), now) == expected


def test_a_body_is_that_of_kube_proxy() -> None:
    made = health(programmed(1.5))
    assert json.loads(made.healthz(3.0).body) == {
        "lastUpdated": "1970-01-01T00:00:03.000000Z",
        "currentTime": "1970-01-01T00:00:03.000000Z",
        "nodeEligible": True,
        "healthy": True,
        "status": {
            "IPv4": {"lastUpdated": "1970-01-01T00:00:01.500000Z", "healthy": True},
            "IPv6": {"lastUpdated": "1970-01-01T00:00:01.500000Z", "healthy": True},
        },
    }
    assert "nodeEligible" not in json.loads(made.livez(3.0).body)
    made.take(NodeState("n1", deleting=True))
    body = json.loads(made.healthz(3.0).body)
    assert (body["nodeEligible"], body["healthy"], body["lastUpdated"]) == (False, True, format_time(1.5))
    assert made.healthz(3.0).kind == "application/json"


def test_each_family_is_healthy_of_itself() -> None:
    made = health(programmed(1.0), Queued(2.0, endpoints=1, families=(6,)))
    body = json.loads(made.livez(100.0).body)
    assert body["healthy"] is False
    assert {family: row["healthy"] for family, row in body["status"].items()} == {"IPv4": True, "IPv6": False}


def test_never_is_as_go_prints_it() -> None:
    made = health(Queued(0.0))
    assert json.loads(made.livez(100.0).body)["lastUpdated"] == "0001-01-01T00:00:00Z"


@given(st.lists(st.tuples(st.sampled_from(["queued", "of IPv6", "programmed", "behind"]), st.floats(0, 50))))
def test_it_is_healthy_unless_a_change_waits_for_longer(steps: list[tuple[str, float]]) -> None:
    made, now = Health(SYNC), 0.0
    since: dict[int, float] = {}
    for what, seconds in steps:
        now += seconds
        if what in ("queued", "of IPv6"):
            families = (4, 6) if what == "queued" else (6,)
            made.take(Queued(now, families=families))
            since = {**dict.fromkeys(families, now), **since}
        elif what == "behind":
            made.take(programmed(now, 4, behind=(6,)))
            since = {6: since.get(6, now)}
        else:
            made.take(programmed(now))
            since = {}
        assert made.is_healthy(now) == all(now - at <= 2 * SYNC for at in since.values())
        assert (made.livez(now).status == 200) == made.is_healthy(now)
