# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The load itself: it fails by nothing of its own, and counts what others make fail."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.integration.wire import InNamespace, namespace
from tests.load.figures import Attempt, Summary
from tests.load.running import Client, Flow, Held, Load, Target, load, server

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make network namespaces")

HERE, THERE, PORT = "192.0.2.1", "192.0.2.2", 9000
RATE, HELD = 500, 20
_PORTS = (1100, 64000)
_SLACK_SECONDS = 0.2  # between what this test does and what it does to packets


@contextmanager
def two_places() -> Iterator[tuple[InNamespace, InNamespace]]:
    with namespace("load-client") as client, namespace("load-server") as there:
        client.run(
            ["ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", there.namespace], timeout=60
        )
        for host, address in ((client, HERE), (there, THERE)):
            host.run(["ip", "address", "add", f"{address}/24", "dev", "eth0"], timeout=60)
            host.run(["ip", "link", "set", "eth0", "up"], timeout=60)
        # By default one such message a second goes to a place: attempts that are refused would seem unanswered.
        there.run(["sysctl", "-qw", "net.ipv4.icmp_ratelimit=0"], timeout=60)
        yield client, there


@contextmanager
def loaded(host: InNamespace, place: Path) -> Iterator[Load]:
    target = (Target("plain", THERE, PORT, PORT),)
    flows = tuple(Flow(f"client {kind}", kind, HERE, _PORTS, RATE, target) for kind in ("TCP", "UDP"))
    held = Held(HELD, HERE, (64001, 65535), target)
    with load([Client("client", host, flows, held)], place) as running:
        running.wait_for_held()
        yield running


def test_it_fails_by_nothing_of_its_own(tmp_path: Path) -> None:
    seconds = 5
    with two_places() as (client, there), ExitStack() as undo:
        undo.enter_context(server(there, "s", THERE, [PORT]))
        running = undo.enter_context(loaded(client, tmp_path))
        begun = time.monotonic()
        time.sleep(seconds)
        found = running.summary(since=begun, until=begun + seconds)
    assert found.total.errors == {}
    for flow in found.flows.values():
        assert flow.attempts == pytest.approx(RATE * seconds, rel=0.2), "the rate is kept up"
    assert (found.held.open, found.held.broken, found.held.waiting) == (HELD, 0, False)
    assert 0 < found.total.p50_seconds <= found.total.p99_seconds < 1
    assert set(running.records[0].answered_by) == {f"s:{PORT}"}


def test_it_counts_what_a_server_that_is_away_for_a_second_costs(tmp_path: Path) -> None:
    with two_places() as (client, there), ExitStack() as later:
        with ExitStack() as first:
            first.enter_context(server(there, "s", THERE, [PORT]))
            running = later.enter_context(loaded(client, tmp_path))
            begun = time.monotonic()
            time.sleep(1)
            left = time.monotonic()
        away = time.monotonic()
        time.sleep(1)
        returns = time.monotonic()
        with server(there, "s", THERE, [PORT]):
            back = time.monotonic()
            running.wait_for_held()
            time.sleep(1)
            found = running.summary(since=begun, until=time.monotonic() - 2)
    lost = decided_between(found, running, (left, away), (returns, back))
    assert found.held.broken == HELD
    # A datagram that the server had received and not yet read when it ended is answered by nothing, so those of the seconds between do not count.
    assert {one.error for one in lost} == {"ECONNREFUSED"}, "told at once"


def test_it_counts_what_packets_dropped_for_two_seconds_cost(tmp_path: Path) -> None:
    with two_places() as (client, there), ExitStack() as undo:
        undo.enter_context(server(there, "s", THERE, [PORT]))
        running = undo.enter_context(loaded(client, tmp_path))
        begun = time.monotonic()
        time.sleep(1)
        left = time.monotonic()
        drop(there)
        away = time.monotonic()
        time.sleep(2)
        returns = time.monotonic()
        there.run(["nft", "delete", "table", "ip", "away"], timeout=60)
        back = time.monotonic()
        time.sleep(3)
        found = running.summary(since=begun, until=back + 1)
    decided_between(found, running, (left, away), (returns, back))
    assert set(found.total.errors) == {"timeout"}
    assert (found.held.open, found.held.broken) == (HELD, 0), "they live on"
    assert 1.8 < found.held.silence_seconds < 6


def drop(host: InNamespace) -> None:
    rules = "add table ip away; add chain ip away in { type filter hook prerouting priority -300; policy drop; }"
    host.run(["nft", "-f", "-"], stdin=rules.encode(), timeout=60)


def decided_between(
    found: Summary, running: Load, leaving: tuple[float, float], returning: tuple[float, float]
) -> list[Attempt]:
    """Every attempt that began while nobody could answer has failed, and no other; gives those."""
    all_lost: list[Attempt] = []
    for name, flow in found.flows.items():
        attempts = running.records[0].attempts[name]
        lost = [one for one in attempts if leaving[1] + _SLACK_SECONDS < one.begun < returning[0] - _SLACK_SECONDS]
        assert len(lost) == pytest.approx(RATE * (returning[0] - leaving[1] - 2 * _SLACK_SECONDS), rel=0.25)
        assert [one for one in lost if not one.error] == []
        all_lost += lost
        assert flow.failures >= len(lost)
        assert flow.first_failure is not None
        assert flow.last_failure is not None
        assert leaving[0] - _SLACK_SECONDS < flow.first_failure
        assert flow.last_failure < returning[1] + _SLACK_SECONDS
        longest = returning[1] - leaving[0] + 2 * _SLACK_SECONDS
        assert returning[0] - leaving[1] - _SLACK_SECONDS < flow.outage_seconds < longest
    return all_lost
