# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.wait import (
    Impossible,
    Pending,
    Ready,
    wait,
    wait_until,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import PeerError
from tests.unit.fakes import FakeHost, ListSink


def answers(host: FakeHost, *rows: tuple[float, Ready[str] | Pending | Impossible]):  # type: ignore[no-untyped-def]
    """What a probe answers from each second of the clock on."""
    start = host.monotonic()

    def probe() -> Ready[str] | Pending | Impossible:
        return [answer for at, answer in rows if host.monotonic() - start >= at][-1]

    return probe


def test_the_value_of_the_first_ready_is_returned_without_a_sleep() -> None:
    host = FakeHost()
    probe = answers(host, (0, Ready("up")))
    assert wait(host, Progress(ListSink(), feature="t"), "node n1", probe, deadline_seconds=1) == "up"
    assert host.monotonic() == FakeHost().monotonic()


def test_each_new_reason_is_told_at_once_and_an_old_one_now_and_then() -> None:
    host, sink = FakeHost(), ListSink()
    probe = answers(host, (0, Pending("no network")), (1, Pending("no pod")), (6, Ready("up")))
    wait(host, Progress(sink, feature="t"), "node n1", probe, deadline_seconds=30)
    assert [event.text for event in sink.events] == ["no network", "no pod", "no pod", "no pod"]
    assert {event.kind for event in sink.events} == {"waiting"}


def test_what_can_no_longer_happen_ends_it_at_once_with_the_reason() -> None:
    host = FakeHost()
    probe = answers(host, (0, Pending("starting")), (2, Impossible("service kubelet ended with status 1")))
    with pytest.raises(PeerError, match="service kubelet ended with status 1") as caught:
        wait(host, Progress(ListSink(), feature="t"), "node n1", probe, deadline_seconds=1000)
    assert caught.value.id == "core-wait-impossible"
    assert host.monotonic() - FakeHost().monotonic() < 3


def test_the_deadline_ends_it_with_the_last_reason() -> None:
    host = FakeHost()
    probe = answers(host, (0, Pending("no network")), (4, Pending("no pod")))
    with pytest.raises(PeerError) as caught:
        wait(host, Progress(ListSink(), feature="t"), "node n1", probe, deadline_seconds=10)
    assert (caught.value.id, caught.value.found) == ("core-wait-deadline", "no pod")
    assert "node n1: not within 10 seconds" in str(caught.value)
    assert 10 < host.monotonic() - FakeHost().monotonic() < 11


def test_the_first_true_value_ends_a_short_wait_and_else_the_last_one_is_returned() -> None:
    host = FakeHost()
    start, values = host.monotonic(), iter(["", "", "there"])
    assert wait_until(host, lambda: next(values), seconds=10, interval=1) == "there"
    assert host.monotonic() - start == pytest.approx(2)
    assert wait_until(host, lambda: 0, seconds=10, interval=4) == 0
    assert host.monotonic() - start == pytest.approx(14)
